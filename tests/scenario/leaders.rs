//! Leaders move, vanish, and are not agreed upon.

use super::world::{ms, plain, secs, World};
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Api;
use steadfast::testing::Versions;
use steadfast::{Cause, ErrorCode, Fate};

fn not_leader() -> Fault {
    Fault::error(ErrorCode::NotLeaderOrFollower)
}

/// With the hint of KIP-951 (Produce v10) no pause is needed.
#[test]
fn a_hint_at_the_new_leader_is_followed_at_once() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.move_leader("t", 0, 3);
    let (ids, sent) = (world.send("t", 1), world.now());
    world.finish_delivered(secs(5));
    assert!(world.settled_at(ids.start) - sent < ms(50));
    assert_eq!(world.stats().retries, 1);
}

#[test]
fn without_hints_a_fresh_view_is_enough() {
    let mut world = World::new(&[]).versions(&Versions::kafka_2_8()).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.move_leader("t", 0, 3);
    let (ids, sent) = (world.send("t", 1), world.now());
    world.finish_delivered(secs(5));
    assert!(world.settled_at(ids.start) - sent < ms(300), "{:?}", world.settled_at(ids.start) - sent);
}

/// Issue 3, sharp test 5.
#[test]
fn a_permanent_not_leader_makes_limit_plus_one_attempts() {
    for (limit, attempts) in [("5", 6), ("0", 1), ("2", 3)] {
        let mut world = World::new(&[("batch_retries_limit", limit)]).topic("t", 1);
        world.fault_t(Times::Always, not_leader());
        let ids = world.send("t", 3);
        world.finish(secs(120));
        assert_eq!(world.seen("t", 0).len(), attempts as usize, "limit {limit}");
        let error = world.error(ids.start);
        assert_eq!((error.attempts, error.fate), (attempts, Fate::NotWritten), "{error}");
        assert!(
            matches!(&error.cause, Cause::RetriesExhausted { last, .. }
                if matches!(**last, Cause::Refused { code: ErrorCode::NotLeaderOrFollower, .. })),
            "{error}"
        );
    }
}

/// Issue 3, sharp test 5.
#[test]
fn two_brokers_that_name_each_other_for_three_seconds_lose_nothing() {
    for hints in [true, false] {
        let versions = if hints { Versions::kafka_4_4() } else { Versions::kafka_2_8() };
        let mut world = World::new(&[]).versions(&versions).topic("t", 1);
        world.send("t", 1);
        world.run_for(secs(1));
        world.move_leader("t", 0, 3);
        world.net.model.mislead(1, "t", 0, 2, 1);
        world.net.model.mislead(2, "t", 0, 1, 1);
        world.net.model.mislead(3, "t", 0, 1, 1);
        world.send("t", 5);
        world.run_for(secs(3));
        (1..=3).for_each(|id| world.net.model.release_view(id));
        world.finish_delivered(secs(60));
        assert!(world.seen("t", 0).len() <= 8, "{} attempts", world.seen("t", 0).len());
    }
}

/// Issue 3, sharp test 5: one broker is left of three, for 25 s.
#[test]
fn the_defaults_outlast_two_brokers_that_are_down_for_25_seconds() {
    for min_insync_replicas in [1, 2] {
        for seed in 0..20 {
            let mut world =
                World::seeded(seed, &[]).topic_with("t", 3, TopicConfig { min_insync_replicas, ..plain() });
            world.send("t", 30);
            world.run_for(secs(2));
            world.crash(2);
            world.crash(3);
            for _ in 0..25 {
                world.send("t", 3);
                world.run_for(secs(1));
            }
            world.restart(2);
            world.restart(3);
            world.send("t", 3);
            world.finish_delivered(secs(60));
        }
    }
}

/// The same, with the session timeout of a real cluster: nobody is elected for 9 s.
#[test]
fn the_defaults_outlast_a_broker_session_timeout() {
    for seed in 0..20 {
        let mut world = World::seeded(seed, &[]).topic("t", 3);
        world.net.model.failover_after(secs(9));
        world.send("t", 30);
        world.run_for(secs(2));
        world.crash(1);
        for _ in 0..15 {
            world.send("t", 3);
            world.run_for(secs(1));
        }
        world.finish_delivered(secs(60));
    }
}

/// Field note E1: a refusal is not answered by sending the same thing again.
#[test]
fn a_refusing_leader_is_asked_a_few_times_only() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.fault_t(Times::Always, not_leader());
    world.send("t", 10);
    world.run_for(secs(1));
    let attempts = world.seen("t", 0).len();
    assert!(attempts <= 6, "{attempts} attempts in a second");
    world.net.model.lift(&On::partition("t", 0));
    world.finish_delivered(secs(60));
}

/// Field note E4: no leader now is no leader now, and nothing more.
#[test]
fn a_leaderless_moment_passes() {
    let mut world = World::new(&[]).topic("t", 2);
    world.send("t", 10);
    world.run_for(secs(1));
    for length in [1, 6, 20] {
        let (leader, retries) = (world.leader("t", 0), world.stats().retries);
        world.move_leader("t", 0, -1);
        let ids = world.send_to("t", 0, 5);
        world.send_to("t", 1, 5);
        world.run_for(secs(length));
        assert!(world.stats().retries - retries <= 2, "waiting for a leader is no retry");
        world.move_leader("t", 0, leader);
        let back = world.now();
        world.settle(secs(30));
        let waited = world.settled_at(ids.start) - back;
        assert!(waited < ms(2500), "{waited:?} after the leader was back ({length} s away)");
    }
    world.finish_delivered(secs(1));
}

/// Field note E5: whoever is dead can't say that it is no longer the leader.
#[test]
fn a_dead_leader_is_found_out_by_asking_others() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    let dead = world.leader("t", 0);
    world.crash(dead);
    let dials = world.net.dials.len();
    world.send("t", 5);
    world.finish_delivered(secs(10));
    let again = world.net.dials[dials..].iter().filter(|(_, broker)| *broker == dead).count();
    assert!(again <= 2, "{again} connections tried to the dead one");
}

/// Field note E9: the view looked good, and the leader does not know it yet.
#[test]
fn a_topic_that_its_leader_does_not_know_yet_is_waited_for() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Next(2), Fault::error(ErrorCode::UnknownTopicOrPartition));
    world.send("t", 3);
    world.finish_delivered(secs(30));
}

/// A view with an older epoch than was seen already does not turn the clock back.
#[test]
fn an_older_view_does_not_win_against_a_newer_one() {
    let mut world = World::new(&[("metadata.max.age.ms", "2000")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.net.model.hold_view(2);
    world.net.model.hold_view(3);
    world.move_leader("t", 0, 2);
    world.net.model.release_view(2);
    world.send("t", 1);
    world.run_for(secs(1));
    let refused = world.seen("t", 0).iter().filter(|seen| seen.code != Some(0)).count();
    // Broker 3 goes on saying that broker 1 leads, and is asked again and again.
    for _ in 0..30 {
        world.send("t", 1);
        world.run_for(secs(1));
    }
    world.finish_delivered(secs(5));
    assert!(world.requests_of(Api::Metadata) > 10);
    let after = world.seen("t", 0).iter().filter(|seen| seen.code != Some(0)).count();
    assert_eq!(after, refused, "sent to a leader that was known to be over");
}

/// Leaders go round while messages flow: in order and once.
#[test]
fn leaders_that_move_all_the_time_lose_nothing() {
    for seed in 0..10 {
        let mut world = World::seeded(seed, &[("linger.ms", "1")]).topic("t", 3);
        for round in 0..200 {
            world.send("t", 5);
            world.run_for(ms(7));
            if round % 10 == 0 {
                world.move_leader("t", round / 10 % 3, (round / 10 + seed as i32) % 3 + 1);
            }
        }
        world.finish_delivered(secs(30));
    }
}

/// A crash of the leader that takes what only it had with it: what was acknowledged by all is not among that.
#[test]
fn what_was_acknowledged_survives_a_leader_that_loses_its_tail() {
    use steadfast::internal::model::fault::Tail;
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 5);
    world.run_for(secs(1));
    world.fault_t(Times::Next(2), Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend));
    world.send("t", 5);
    world.run_for(ms(100));
    world.crash_with(1, Tail::Lost);
    world.finish_delivered(secs(60));
    assert_eq!(world.log(), (0..10).collect::<Vec<_>>());
}

/// Field note E2: without acks there is no answer to learn from, but a connection that closes says something too.
#[test]
fn without_acks_a_closed_connection_refreshes_the_view() {
    let mut world = World::new(&[("acks", "0"), ("enable.idempotence", "false")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.move_leader("t", 0, 2);
    world.send("t", 1); // lost, as acks=0 allows: broker 1 closes on it
    world.run_for(secs(2));
    let ids = world.send("t", 5);
    world.finish_delivered(secs(5));
    world.run_for(ms(100)); // written is not arrived yet
    let log = world.log();
    assert!(ids.into_iter().all(|id| log.contains(&id)), "{log:?}");
}

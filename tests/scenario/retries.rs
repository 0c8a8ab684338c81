//! What is tried again, how often, how soon, and when it is given up.

use super::world::{ms, plain, secs, World};
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::{Cause, ErrorCode, Fate};

/// A 20-second restart below `min.insync.replicas` is outlasted by the defaults.
#[test]
fn missing_replicas_are_waited_for() {
    for seed in 0..20 {
        let config = TopicConfig { min_insync_replicas: 2, ..plain() };
        let mut world = World::seeded(seed, &[]).topic_with("t", 1, config);
        world.send("t", 1);
        world.run_for(secs(1));
        world.in_sync("t", 0, &[1]);
        world.send("t", 5);
        world.run_for(secs(20));
        world.in_sync("t", 0, &[1, 2]);
        let back = world.now();
        world.finish_delivered(secs(60));
        // The view is refreshed about once a second while something waits; what it shows ends the pause.
        let waited = world.settled_at(5) - back;
        assert!(waited < ms(2500), "seed {seed}: {waited:?} after the replicas were back");
    }
}

#[test]
fn written_by_the_leader_alone_is_repeated_and_recognised() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Next(2), Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend));
    world.send("t", 5);
    world.finish_delivered(secs(60));
    assert_eq!(world.log(), [0, 1, 2, 3, 4]);
}

/// `retry_ambiguous`: whether who is not idempotent would rather have doubles or gaps.
#[test]
fn without_idempotence_an_unanswered_batch_is_doubled_or_dropped_as_asked() {
    let settings =
        |ambiguous| [("enable.idempotence", "false"), ("retry_ambiguous", ambiguous), ("linger.ms", "0")];
    let under_way = |ambiguous| {
        let mut world = World::new(&settings(ambiguous)).topic("t", 1).allow_duplicates();
        world.send("t", 1);
        world.run_for(secs(1));
        world.fault_t(Times::Once, Fault::close_after());
        world.send("t", 2);
        world.run_for(ms(1));
        world.send("t", 2);
        world
    };
    let mut world = under_way("auto");
    world.finish_delivered(secs(30));
    assert_eq!(world.log(), [0, 1, 2, 1, 2, 3, 4], "at least once, and in order");
    let mut world = under_way("never");
    world.finish(secs(30));
    assert_eq!(world.fates(), [(1, Fate::Unknown), (2, Fate::Unknown)]);
    assert!(matches!(world.error(1).cause, Cause::NotRetried { .. }));
    assert_eq!(world.log(), [0, 1, 2, 3, 4]);
}

/// Field note C1: one in flight is no order by itself; who failed goes first.
#[test]
fn without_idempotence_repeats_keep_the_order() {
    for seed in 0..20 {
        let properties = [("enable.idempotence", "false"), ("linger.ms", "1")];
        let mut world = World::seeded(seed, &properties).topic("t", 2).allow_duplicates();
        let mut rng = fastrand::Rng::with_seed(seed);
        world.net.model.on_produce(Some(Box::new(move |_| match rng.u32(0..12) {
            0 => Some(Fault::close_after()),
            1 => Some(Fault::close_before()),
            2 => Some(Fault::error(ErrorCode::NotEnoughReplicas)),
            _ => None,
        })));
        for _ in 0..60 {
            world.send("t", 3);
            world.run_for(ms(30));
        }
        world.finish_delivered(secs(60));
    }
}

/// Field note I1: wherever a message waits, its time is the same.
#[test]
fn the_delivery_timeout_ends_every_kind_of_waiting() {
    let properties =
        |linger| [("linger.ms", linger), ("request.timeout.ms", "2000"), ("delivery.timeout.ms", "5000")];
    type Story = fn(&mut World);
    let stories: [(&str, &str, Story); 6] = [
        ("backing off", "0", |world| {
            world.fault_t(Times::Always, Fault::error(ErrorCode::NotEnoughReplicas))
        }),
        ("in flight", "0", |world| world.hang(1)),
        ("without a leader", "0", |world| world.move_leader("t", 0, -1)),
        ("leader away", "0", |world| {
            world.net.model.failover_after(secs(100));
            world.crash(1);
        }),
        ("all away", "0", |world| (1..=3).for_each(|broker| world.crash(broker))),
        ("throttled", "0", |world| {
            world.fault_t(Times::Once, Fault::throttle(secs(50)));
            world.send("t", 1);
            world.run_for(ms(100));
        }),
    ];
    for (name, linger, story) in stories {
        let mut world = World::new(&properties(linger)).topic("t", 1);
        world.send("t", 1);
        world.run_for(secs(1));
        story(&mut world);
        let (ids, sent) = (world.send("t", 2), world.now());
        world.run_for(ms(100));
        world.finish(secs(30));
        for id in ids {
            let waited = world.settled_at(id) - sent;
            assert!(waited >= secs(5) && waited <= ms(5010), "{name}: {waited:?}");
            let error = world.error(id);
            assert!(matches!(error.cause, Cause::DeliveryTimeout { .. }), "{name}: {error}");
            assert_eq!(error.elapsed.as_secs(), 5, "{name}");
        }
    }
}

/// A batch that was sent and never answered may be in the log.
#[test]
fn the_error_of_a_timeout_says_what_it_waited_for() {
    let mut world =
        World::new(&[("request.timeout.ms", "2000"), ("delivery.timeout.ms", "5000")]).topic("t", 1);
    world.fault_t(Times::Always, Fault::error(ErrorCode::NotEnoughReplicas));
    let ids = world.send("t", 1);
    world.finish(secs(30));
    let error = world.error(ids.start);
    assert!(error.to_string().contains("NOT_ENOUGH_REPLICAS"), "{error}");
    assert_eq!(error.fate, Fate::NotWritten);
    let mut world =
        World::new(&[("request.timeout.ms", "2000"), ("delivery.timeout.ms", "5000")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.hang(1);
    let ids = world.send("t", 1);
    world.finish(secs(30));
    let error = world.error(ids.start);
    assert_eq!(error.fate, Fate::Unknown, "{error}");
    assert!(error.to_string().contains("broker 1"), "{error}");
}

/// Field note I2: with no limit at all an outage of an hour is an outage of an hour.
#[test]
fn without_limits_an_hour_is_waited_for() {
    let mut settings = (*{
        let mut probe = World::new(&[("batch_retries_limit", "none"), ("linger.ms", "0")]);
        probe.check();
        probe.settings.clone()
    })
    .clone();
    settings.delivery_timeout = None;
    let mut world = World::with(1, settings).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    (1..=3).for_each(|broker| world.crash(broker));
    world.send("t", 5);
    let before = world.net.dials.len();
    world.run_for(secs(3600));
    assert!(
        world.net.dials.len() - before < 6 * 3600,
        "{} connections tried",
        world.net.dials.len() - before
    );
    (1..=3).for_each(|broker| world.restart(broker));
    world.finish_delivered(secs(60));
}

/// Field note E7: codes from the future are tried a few times and told as what they are.
#[test]
fn a_code_that_nobody_knows_is_tried_a_few_times() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Always, Fault::error(ErrorCode::from(999)));
    let ids = world.send("t", 1);
    world.finish(secs(120));
    assert_eq!(world.seen("t", 0).len(), 4);
    assert!(world.error(ids.start).to_string().contains("999"), "{}", world.error(ids.start));
}

#[test]
fn an_error_of_the_server_is_repeated_only_where_a_double_is_impossible() {
    for (idempotent, attempts) in [("true", 4), ("false", 1)] {
        let mut world = World::new(&[("enable.idempotence", idempotent)]).topic("t", 1);
        world.fault_t(Times::Always, Fault::error(ErrorCode::UnknownServerError));
        let ids = world.send("t", 1);
        world.finish(secs(120));
        assert_eq!(world.seen("t", 0).len(), attempts);
        assert_eq!(world.error(ids.start).fate, Fate::Unknown);
    }
}

#[test]
fn the_user_may_think_otherwise_of_a_code() {
    let mut world = World::new(&[("class.override.POLICY_VIOLATION", "retry-after-backoff")]).topic("t", 1);
    world.fault_t(Times::Next(2), Fault::error(ErrorCode::PolicyViolation));
    world.send("t", 1);
    world.finish_delivered(secs(60));
    assert_eq!(world.stats().retries, 2);
}

/// The waits between tries grow as documented, with jitter upwards only.
#[test]
fn pauses_grow_threefold_up_to_the_maximum() {
    let properties = [("batch_retries_limit", "6"), ("delivery.timeout.ms", "300000")];
    let mut world = World::new(&properties).topic("t", 1);
    world.fault_t(Times::Always, Fault::error(ErrorCode::NotEnoughReplicas));
    world.send("t", 1);
    world.finish(secs(300));
    let times: Vec<_> = world.seen("t", 0).iter().map(|seen| seen.at).collect();
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, least) in waits.iter().zip([300, 900, 2700, 8100, 24300, 30000]) {
        assert!((least..=least * 13 / 10 + 10).contains(wait), "{waits:?}");
    }
}

/// A retry counts where it belongs: the other partition's batch in the same request is delivered once.
#[test]
fn only_what_failed_of_a_request_goes_again() {
    let mut world = World::new(&[("linger.ms", "10")]).topic("t", 3);
    world.send("t", 1);
    world.run_for(secs(1));
    (0..3).for_each(|partition| world.move_leader("t", partition, 2));
    world.run_for(secs(1));
    let since = super::network::Network::wall_clock(ms(1500));
    world.fault(On::partition("t", 1), Times::Once, Fault::error(ErrorCode::NotEnoughReplicas));
    (0..3).for_each(|partition| {
        world.send_to("t", partition, 2);
    });
    world.finish_delivered(secs(30));
    let attempts =
        |partition| world.seen("t", partition).iter().filter(|s| s.broker == 2 && s.at > since).count();
    assert_eq!([attempts(0), attempts(1), attempts(2)], [1, 2, 1]);
}

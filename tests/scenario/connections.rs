//! Connections that hang, break, idle, or were never to be had.

use super::network::address;
use super::world::{ms, secs, World};
use std::net::SocketAddr;
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::request::Api;
use steadfast::{Cause, Fate};

/// Field notes F1 and F2: a broker that closes what idles costs nobody a retry.
#[test]
fn a_connection_that_was_closed_for_idleness_costs_nothing() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(30));
    (1..=3).for_each(|broker| world.net.disconnect(world.now(), broker));
    world.run_for(secs(1));
    let (ids, sent) = (world.send("t", 1), world.now());
    world.finish_delivered(secs(5));
    assert_eq!(world.stats().retries, 0);
    assert!(world.settled_at(ids.start) - sent < ms(50), "no pause before the new connection");
}

/// And what the client closes itself in time can't be cut by anybody (`connections.max.idle.ms`).
#[test]
fn idle_connections_are_closed_and_opened_again() {
    let mut world =
        World::new(&[("connections.max.idle.ms", "10000"), ("metadata.max.age.ms", "600000")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(30));
    assert_eq!((1..=3).map(|broker| world.net.open_to(broker)).sum::<usize>(), 0);
    world.send("t", 1);
    world.finish_delivered(secs(5));
    assert_eq!(world.stats().retries, 0);
}

/// Field note F3: names are looked up for each connection.
#[test]
fn a_broker_that_comes_back_under_another_address_is_found() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    let moved: SocketAddr = "10.0.9.9:9092".parse().expect("an address");
    world.crash(1);
    world.move_leader("t", 0, 1);
    world.net.readdress(1, moved);
    world.net.name("b1", Ok(vec![moved]));
    world.restart(1);
    world.send("t", 3);
    world.finish_delivered(secs(20));
}

/// Field note F3: none of the brokers that the cluster ever named is there any more; the servers of the configuration are.
#[test]
fn a_cluster_that_moved_as_a_whole_is_found_through_the_configured_servers() {
    let properties =
        [("metadata.recovery.rebootstrap.trigger.ms", "5000"), ("bootstrap.servers", "seed:9092")];
    let mut world = World::new(&properties).topic("t", 1);
    world.net.name("seed", Ok(vec![address(1)]));
    world.send("t", 1);
    world.run_for(secs(1));
    for broker in 1..=3 {
        world.crash(broker);
        let moved: SocketAddr = format!("10.0.9.{broker}:9092").parse().expect("an address");
        world.net.readdress(broker, moved);
        let name = format!("new{broker}");
        world.net.name(&name, Ok(vec![moved]));
        world.net.model.broker(broker).expect("there").host = name;
    }
    world.net.name("seed", Ok(vec!["10.0.9.2:9092".parse().expect("an address")]));
    world.send("t", 3);
    world.run_for(secs(5));
    (1..=3).for_each(|broker| world.restart(broker));
    world.finish_delivered(secs(60));
}

/// Field note F5.
#[test]
fn bad_servers_in_the_list_are_passed_over() {
    let servers = ("bootstrap.servers", "nowhere.invalid:9092,closed:9092,b2:9092");
    let mut world = World::new(&[servers]).topic("t", 1);
    world.net.name("closed", Ok(vec!["10.0.9.9:9092".parse().expect("an address")]));
    world.send("t", 3);
    world.finish_delivered(secs(10));
}

/// Field note F5: and if all are bad, each is named with its own fault.
#[test]
fn with_no_server_to_be_had_the_error_names_each() {
    let servers = ("bootstrap.servers", "nowhere.invalid:9092,closed:9092");
    let mut world = World::new(&[servers, ("delivery.timeout.ms", "40000")]).topic("t", 1);
    world.net.name("closed", Ok(vec!["10.0.9.9:9092".parse().expect("an address")]));
    let ids = world.send("t", 3);
    world.finish(secs(60));
    let error = world.error(ids.start);
    let text = error.to_string();
    assert!(text.contains("nowhere.invalid") && text.contains("closed"), "{text}");
    assert_eq!((error.fate, error.attempts), (Fate::NotWritten, 0));
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let mut world = World::new(&[("bootstrap.servers", "many:9092")]).topic("t", 1);
    let dead = ["10.0.9.8:9092", "10.0.9.9:9092"].map(|address| address.parse().expect("an address"));
    world.net.name("many", Ok(vec![dead[0], dead[1], address(2)]));
    world.send("t", 3);
    world.finish_delivered(secs(5));
}

/// Field notes F6 and Q1: who refuses is not hammered.
#[test]
fn refused_connections_are_tried_ever_more_rarely() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    (1..=3).for_each(|broker| world.crash(broker));
    world.send("t", 1);
    let before = world.net.dials.len();
    world.run_for(secs(10));
    for broker in 1..=3 {
        let dials = world.net.dials[before..].iter().filter(|(_, to)| *to == broker).count();
        // Once a second in the end, as a broker and as one of the configured servers.
        assert!(dials <= 30, "{dials} connections tried to broker {broker} in 10 s");
    }
    (1..=3).for_each(|broker| world.restart(broker));
    world.finish_delivered(secs(60));
}

/// Field note F8: connections go to leaders that are written to, and one is enough to know of the others.
#[test]
fn only_who_is_written_to_is_connected_to() {
    let mut world = World::new(&[("bootstrap.servers", "b3:9092")]).topic("t", 1);
    world.send("t", 5);
    world.finish_delivered(secs(5));
    assert!(world.net.dials.iter().all(|(_, broker)| matches!(broker, 1 | 3)), "{:?}", world.net.dials);
    assert!(world.net.dials.len() <= 3, "{:?}", world.net.dials);
}

/// Field notes F9 and F10: who hangs holds up its own partitions only.
#[test]
fn a_hung_broker_holds_up_its_own_partitions_only() {
    let mut world = World::new(&[("linger.ms", "1")]).topic("t", 3);
    world.send("t", 30);
    world.run_for(secs(1));
    world.hang(1);
    for _ in 0..50 {
        (0..3).for_each(|partition| {
            world.send_to("t", partition, 1);
        });
        let from = world.now();
        world.run_for(ms(20));
        let last = world.ledger.entries.len() - 1;
        assert!(world.delivered(last - 1..last + 1), "at {from:?}");
    }
    world.resume(1);
    world.finish_delivered(secs(60));
}

/// Field note F9: and when it stays so, the request times out, the connection is closed and the new leader written to.
#[test]
fn a_broker_that_hangs_for_good_is_left_for_the_new_leader() {
    for seed in 0..10 {
        let mut world =
            World::seeded(seed, &[("request.timeout.ms", "5000"), ("linger.ms", "1")]).topic("t", 1);
        world.send("t", 1);
        world.run_for(secs(1));
        world.hang(1);
        for _ in 0..10 {
            world.send("t", 3);
            world.run_for(ms(100));
        }
        world.net.model.fence(1);
        world.run_for(secs(20));
        world.finish_delivered(secs(30));
        // It wakes up with old requests in its hands.
        world.resume(1);
        world.run_for(secs(5));
        world.check();
    }
}

/// A host that swallows every packet: found out by the clock alone.
#[test]
fn a_black_hole_costs_a_timeout_and_no_more() {
    let mut world = World::new(&[("request.timeout.ms", "3000"), ("linger.ms", "1")]).topic("t", 3);
    world.send("t", 30);
    world.run_for(secs(1));
    world.net.black_hole(world.now(), 2, true);
    world.send("t", 30);
    world.run_for(secs(4));
    world.net.model.fence(2);
    world.send("t", 30);
    world.finish_delivered(secs(30));
}

/// The line breaks after every single byte of a request.
#[test]
fn a_connection_may_break_after_any_byte_of_a_request() {
    for idempotent in ["true", "false"] {
        for cut in 0..420 {
            let mut world = World::new(&[("linger.ms", "0"), ("enable.idempotence", idempotent)])
                .topic("t", 1)
                .allow_duplicates();
            world.send("t", 1);
            world.run_for(secs(1));
            world.net.cut_after(1, cut);
            for _ in 0..3 {
                world.send("t", 1);
                world.run_for(ms(1));
            }
            world.finish_delivered(secs(30));
            let mut log = world.log();
            if idempotent == "true" {
                assert_eq!(log, [0, 1, 2, 3], "cut after {cut} bytes");
            }
            log.dedup();
            assert!(world.stats().retries <= 3, "cut after {cut} bytes: {} retries", world.stats().retries);
        }
    }
}

/// And after every single byte of an answer.
#[test]
fn a_connection_may_break_after_any_byte_of_an_answer() {
    for cut in 0..80 {
        let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
        world.send("t", 1);
        world.run_for(secs(1));
        world.fault_t(Times::Once, Fault::cut_answer(cut));
        for _ in 0..3 {
            world.send("t", 1);
            world.run_for(ms(1));
        }
        world.finish_delivered(secs(30));
        assert_eq!(world.log(), [0, 1, 2, 3], "cut after {cut} bytes");
    }
}

/// Field note P1: throttled is not failed, and others are not throttled.
#[test]
fn a_throttle_is_waited_out_and_counts_as_no_retry() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 2);
    world.send_to("t", 0, 1);
    world.send_to("t", 1, 1);
    world.run_for(secs(1));
    world.fault_t(Times::Once, Fault::throttle(ms(300)));
    world.send_to("t", 0, 1);
    world.run_for(ms(2));
    world.expect_quiet(1, ms(299));
    let (slow, from) = (world.send_to("t", 0, 1), world.now());
    let fast = world.send_to("t", 1, 1);
    world.finish_delivered(secs(5));
    assert!(world.settled_at(slow.start) - from >= ms(290));
    assert!(world.settled_at(fast.start) - from <= ms(10));
    assert_eq!(world.stats().retries, 0);
}

/// Field note Q2: nothing to do is nothing done.
#[test]
fn an_idle_producer_sleeps() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(2));
    let before = world.all_steps();
    world.run_for(secs(60));
    assert!(world.all_steps() - before <= 10, "{} steps in a minute", world.all_steps() - before);
    world.finish_delivered(secs(1));
}

/// Field note Q1.
#[test]
fn a_dead_cluster_does_not_keep_the_producer_awake() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(2));
    (1..=3).for_each(|broker| world.crash(broker));
    world.send("t", 1);
    world.run_for(secs(5));
    let before = world.all_steps();
    world.run_for(secs(20));
    assert!(world.all_steps() - before <= 500, "{} steps in 20 s", world.all_steps() - before);
    (1..=3).for_each(|broker| world.restart(broker));
    world.finish_delivered(secs(60));
}

/// Field note E12: who belongs to another cluster by now is not believed, nor written to.
#[test]
fn another_cluster_behind_a_known_address_is_not_written_to() {
    let mut world = World::new(&[("metadata.max.age.ms", "2000")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    world.net.model.broker(2).expect("there").cluster_id = "another".into();
    world.net.model.mislead(2, "t", 0, 2, 7);
    for _ in 0..20 {
        world.send("t", 1);
        world.run_for(secs(1));
    }
    world.finish_delivered(secs(5));
    assert!(world.seen("t", 0).iter().all(|seen| seen.broker == 1));
}

/// Several in flight, the answers of one connection lost: nothing of the other's is.
#[test]
fn a_lost_connection_loses_its_own_answers_only() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 3);
    world.send("t", 30);
    world.run_for(secs(1));
    world.fault(On::Requests(1, Api::Produce), Times::Once, Fault::close_after());
    for partition in 0..3 {
        world.send_to("t", partition, 3);
    }
    world.finish_delivered(secs(30));
    assert_eq!(world.stats().retries, 1);
}

/// Field note A4: accepted and never answered.
#[test]
fn an_answer_that_never_comes_ends_with_the_request_timeout() {
    let mut world = World::new(&[("batch_retries_limit", "0"), ("request.timeout.ms", "3000")]).topic("t", 1);
    world.fault_t(Times::Always, Fault::swallow());
    let (ids, sent) = (world.send("t", 2), world.now());
    world.finish(secs(30));
    let error = world.error(ids.start);
    assert_eq!((error.attempts, error.fate), (1, Fate::Unknown), "{error}");
    assert!(
        matches!(&error.cause, Cause::RetriesExhausted { last, .. }
        if matches!(**last, Cause::RequestTimeout { broker: 1 })),
        "{error}"
    );
    assert!(world.settled_at(ids.start) - sent < ms(3100));
}

/// What runs out of time while its leader can't be reached says so, and does not blame the brokers that can be.
#[test]
fn an_unreachable_leader_is_told_from_an_unreachable_cluster() {
    let properties = [
        ("delivery.timeout.ms", "8000"),
        ("request.timeout.ms", "1000"),
        ("socket.connection.setup.timeout.ms", "1000"),
    ];
    for alone in [true, false] {
        let mut world = World::new(&properties).topic("t", 1);
        world.move_leader("t", 0, 1);
        world.send("t", 1);
        world.run_for(secs(1));
        match alone {
            true => world.hang(1),
            false => (1..=3).for_each(|broker| world.crash(broker)),
        }
        world.send("t", 1);
        world.run_for(secs(3));
        let ids = world.send("t", 1);
        world.settle(secs(20));
        let error = world.error(ids.start);
        let told = match &error.cause {
            Cause::DeliveryTimeout { last: Some(last) } => match &**last {
                Cause::LeaderUnreachable { broker: 1, reason } => alone && reason.contains("b1:9092"),
                Cause::NoBroker { reason } => !alone && ["b1", "b2", "b3"].iter().all(|b| reason.contains(b)),
                _ => false,
            },
            _ => false,
        };
        assert!(told && error.fate == Fate::NotWritten, "{error}");
        world.check();
    }
}

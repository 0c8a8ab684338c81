//! Flush and stop: they keep their time, and say what was left.

use super::world::{ms, secs, World};
use std::time::Duration;
use steadfast::internal::model::fault::{Fault, Times};
use steadfast::{Cause, Fate};

/// Field notes A1 and A3: what lingers is sent, not lost.
#[test]
fn stop_does_not_wait_for_linger_and_loses_nothing() {
    let mut world = World::new(&[("linger.ms", "60000"), ("delivery.timeout.ms", "120000")]).topic("t", 2);
    world.send("t", 5);
    world.run_for(secs(1));
    world.stop(secs(5));
    world.run_for(secs(1));
    assert!(world.stopped().is_some_and(|at| at < secs(2)), "{:?}", world.stopped());
    world.finish_delivered(secs(1));
}

#[test]
fn stop_with_nothing_to_do_is_done_at_once() {
    let mut world = World::new(&[]).topic("t", 1);
    world.stop(secs(5));
    assert_eq!(world.stopped(), Some(Duration::ZERO));
    world.check();
}

/// Field notes A4 and A6: the deadline is kept wherever messages wait.
#[test]
fn stop_keeps_its_deadline_and_says_what_was_left() {
    type Story = fn(&mut World);
    let stories: [(&str, Fate, Story); 5] = [
        ("never answered", Fate::Unknown, |world| world.hang(1)),
        ("no leader", Fate::NotWritten, |world| world.move_leader("t", 0, -1)),
        ("all away", Fate::NotWritten, |world| (1..=3).for_each(|broker| world.crash(broker))),
        ("black holes", Fate::NotWritten, |world| {
            (1..=3).for_each(|broker| {
                world.crash(broker);
                world.restart(broker);
                world.net.black_hole(world.now(), broker, true);
            });
        }),
        ("refused", Fate::NotWritten, |world| {
            world.fault_t(Times::Always, Fault::error(steadfast::ErrorCode::NotEnoughReplicas));
        }),
    ];
    for (name, fate, story) in stories {
        for timeout in [0, 200, 3000] {
            let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
            world.send("t", 1);
            world.run_for(secs(1));
            story(&mut world);
            world.run_for(ms(10));
            let ids = world.send("t", 10);
            world.run_for(ms(50));
            world.stop(ms(timeout));
            let end = world.now() + ms(timeout);
            world.run_for(ms(timeout + 10));
            assert_eq!(world.stopped(), Some(end), "{name}");
            let left: usize =
                world.engine().leftovers().iter().map(|(_, back)| back.messages().count()).sum();
            assert_eq!(left, 10, "{name}");
            for id in ids {
                let error = world.error(id);
                assert!(matches!(error.cause, Cause::Stopped { .. }), "{name}: {error}");
                assert_eq!(error.fate, fate, "{name}: {error}");
            }
            world.check();
        }
    }
}

/// Messages for a topic that is not there are left like all others.
#[test]
fn stop_hands_back_what_waits_for_its_topic() {
    let mut world = World::new(&[]);
    world.send("none", 7);
    world.run_for(secs(1));
    world.stop(ms(200));
    world.run_for(secs(1));
    assert_eq!(world.stopped(), Some(ms(1200)));
    assert!(world.error(3).to_string().contains("topic"), "{}", world.error(3));
    world.check();
}

/// Field note A2: done means all of it.
#[test]
fn a_flush_is_done_when_everything_before_it_has_its_verdict() {
    let mut world = World::new(&[("linger.ms", "60000"), ("delivery.timeout.ms", "120000")]).topic("t", 1);
    world.send("t", 1);
    let first = world.flush();
    world.run_for(secs(1));
    assert!(world.flushed(first).is_some());
    world.fault_t(Times::Once, Fault::delay(ms(300)));
    let ids = world.send("t", 5);
    let ticket = world.flush();
    world.run_for(ms(250));
    assert_eq!(world.flushed(ticket), None);
    world.run_for(ms(100));
    assert_eq!(world.flushed(ticket), Some(world.settled_at(ids.start)));
    world.finish_delivered(secs(1));
}

/// A flush covers what was there, not what came later (field note A13: and many may wait at once).
#[test]
fn a_flush_does_not_wait_for_what_came_after_it() {
    let mut world = World::new(&[("linger.ms", "1000")]).topic("t", 1).topic("u", 1);
    world.send("t", 1);
    let tickets = [world.flush(), world.flush()];
    world.run_for(ms(100));
    world.send("u", 1);
    world.run_for(ms(100));
    assert!(tickets.iter().all(|ticket| world.flushed(*ticket).is_some()));
    let nothing = world.flush();
    world.run_for(ms(100));
    assert!(world.flushed(nothing).is_some(), "what lingers is sent");
    let empty = world.flush();
    assert_eq!(world.flushed(empty), Some(world.now()), "nothing to wait for");
    world.finish_delivered(secs(1));
}

/// While one partition keeps a flush waiting, new messages flow.
#[test]
fn a_flush_that_waits_holds_up_nobody() {
    let mut world = World::new(&[("linger.ms", "1")]).topic("t", 2);
    world.send_to("t", 0, 1);
    world.run_for(secs(1));
    world.move_leader("t", 0, -1);
    world.send_to("t", 0, 1);
    let ticket = world.flush();
    for _ in 0..20 {
        world.send_to("t", 1, 2);
        world.run_for(ms(50));
    }
    let last = world.ledger.entries.len();
    assert!(world.delivered(last - 30..last));
    assert_eq!(world.flushed(ticket), None);
    world.move_leader("t", 0, 1);
    world.finish_delivered(secs(10));
    assert!(world.flushed(ticket).is_some());
}

/// A deadline that a second `stop` brings forward.
#[test]
fn the_earlier_of_two_deadlines_counts() {
    let mut world = World::new(&[]).topic("t", 1);
    world.move_leader("t", 0, -1);
    world.send("t", 1);
    world.stop(secs(60));
    world.run_for(secs(1));
    world.stop(secs(1));
    world.stop(secs(30));
    world.run_for(secs(2));
    assert_eq!(world.stopped(), Some(secs(2)));
    world.check();
}

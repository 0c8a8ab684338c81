//! Topics that come late, change, go, or never were.

use super::world::{ms, plain, secs, World};
use std::time::Duration;
use steadfast::internal::model::request::Api;
use steadfast::{Cause, Fate};

/// Field note E8: a name with a typing error is asked about for a while, dropped, and then let be.
#[test]
fn a_topic_that_never_comes_is_given_up_after_its_grace() {
    let mut world = World::new(&[]).topic("t", 1);
    let lost = world.send("tt", 3);
    let fine = world.send("t", 3);
    world.run_for(secs(5));
    assert!(world.delivered(fine), "others don't wait for it");
    world.settle(secs(60));
    for id in lost {
        let error = world.error(id);
        assert!(matches!(error.cause, Cause::UnknownTopic), "{error}");
        assert_eq!((error.fate, error.attempts), (Fate::NotWritten, 0));
        let waited = world.settled_at(id).as_secs();
        assert!((30..=32).contains(&waited), "{waited} s");
    }
    let asked = world.requests_of(Api::Metadata);
    assert!(asked <= 45, "{asked} questions in 30 s");
    world.run_for(secs(200));
    assert!(world.requests_of(Api::Metadata) - asked <= 3, "nobody asks for it any more");
    world.check();
}

/// Ten thousand such names cost no question each.
#[test]
fn ten_thousand_names_that_were_never_created_cost_few_questions() {
    let mut world = World::new(&[("buffer.memory", "8000000")]).topic("t", 1);
    for name in 0..10_000 {
        world.send(&format!("no-{name}"), 1);
    }
    let fine = world.send("t", 3);
    world.run_for(secs(5));
    assert!(world.delivered(fine));
    world.finish(secs(60));
    assert!(world.requests_of(Api::Metadata) <= 400, "{}", world.requests_of(Api::Metadata));
}

/// Nor do they hold up the others: a topic that is named for the first time, one that appears, one whose leader changes.
#[test]
fn ten_thousand_names_that_were_never_created_hold_nobody_up() {
    for create in ["true", "false"] {
        let mut world = World::new(&[("buffer.memory", "8000000"), ("allow.auto.create.topics", create)]);
        for topic in ["first", "later"] {
            world.create(topic, 1, plain());
        }
        for name in 0..10_000 {
            world.send(&format!("no-{name}"), 1);
        }
        let first = world.send("first", 1);
        world.run_for(ms(1000));
        assert!(world.delivered(first), "named after ten thousand others");
        world.run_for(secs(7));
        let later = world.send("later", 1);
        world.run_for(ms(300));
        assert!(world.delivered(later), "named while ten thousand others are asked for again and again");
        let other = world.leader("first", 0) % 3 + 1;
        world.move_leader("first", 0, other);
        let moved = world.send("first", 1);
        world.run_for(ms(1500));
        assert!(world.delivered(moved), "with a new leader");
        world.finish(secs(60));
    }
}

/// Nor does a cluster with ten thousand topics take its time to be known.
#[test]
fn ten_thousand_topics_are_known_within_seconds() {
    let mut world = World::new(&[("buffer.memory", "8000000")]);
    for number in 0..10_000 {
        world.create(&format!("t-{number}"), 1, plain());
    }
    for number in 0..10_000 {
        world.send(&format!("t-{number}"), 1);
    }
    world.finish_delivered(secs(2));
}

#[test]
fn a_topic_that_is_created_late_gets_what_waited_for_it() {
    for seconds in [1, 10, 25] {
        let mut world = World::new(&[]);
        let ids = world.send("t", 5);
        world.run_for(secs(seconds));
        world.create("t", 2, plain());
        let made = world.now();
        world.finish_delivered(secs(10));
        assert!(world.settled_at(ids.start) - made < ms(1500), "{:?}", world.settled_at(ids.start) - made);
        assert_eq!(world.stats().retries, 0);
    }
}

/// Messages for an unknown topic count like all others (field note E10).
#[test]
fn messages_without_a_topic_fill_the_buffer_too() {
    let mut world = World::new(&[("buffer.memory", "65536")]);
    let mut calls = 0;
    while world.send_all("t", None, vec![(None, format!("{calls:01000}").into_bytes())]).is_ok() {
        calls += 1;
        assert!(calls < 100, "{} bytes of 65536 are said to be used", world.budget_used());
    }
    assert!(calls > 50);
    world.create("t", 1, plain());
    world.finish_delivered(secs(10));
}

/// Field note E11.
#[test]
fn new_partitions_are_used_when_the_view_is_renewed() {
    let mut world = World::new(&[("metadata.max.age.ms", "10000"), ("batch.size", "200")]).topic("t", 2);
    world.send("t", 10);
    world.run_for(secs(1));
    world.net.model.add_partitions("t", 2);
    for _ in 0..40 {
        world.send("t", 20);
        world.run_for(ms(500));
    }
    world.finish_delivered(secs(10));
    assert!(!world.seen("t", 2).is_empty() && !world.seen("t", 3).is_empty());
}

#[test]
fn a_partition_that_does_not_exist_is_said_to_be_unknown() {
    let mut world = World::new(&[]).topic("t", 2);
    let lost = world.send_to("t", 7, 2);
    let fine = world.send_to("t", 1, 2);
    world.run_for(secs(1));
    assert!(world.delivered(fine));
    world.finish(secs(60));
    let error = world.error(lost.start);
    assert!(matches!(error.cause, Cause::UnknownPartition { partitions: 2 }), "{error}");
}

/// It has another id, epochs begin again, and nothing is remembered of any producer.
#[test]
fn a_topic_that_was_deleted_and_made_anew_is_written_to() {
    for gap in [Duration::ZERO, ms(500), secs(5)] {
        for seed in 0..5 {
            let mut world = World::seeded(seed, &[("linger.ms", "1")]).topic("t", 2);
            world.move_leader("t", 0, 2);
            world.move_leader("t", 0, 3);
            for _ in 0..20 {
                world.send("t", 4);
                world.run_for(ms(5));
            }
            world.delete("t");
            for _ in 0..5 {
                world.send("t", 4);
                world.run_for(gap / 5);
            }
            world.create("t", 2, plain());
            for _ in 0..20 {
                world.send("t", 4);
                world.run_for(ms(5));
            }
            world.finish_delivered(secs(60));
        }
    }
}

/// With fewer partitions: what was meant for those that are gone is told so.
#[test]
fn a_topic_made_anew_with_fewer_partitions_loses_nothing_silently() {
    let mut world = World::new(&[("linger.ms", "1")]).topic("t", 4);
    world.send("t", 40);
    world.run_for(secs(1));
    world.delete("t");
    (0..4).for_each(|partition| {
        world.send_to("t", partition, 2);
    });
    world.run_for(ms(300));
    world.create("t", 2, plain());
    world.send("t", 20);
    world.finish(secs(60));
    assert!(world.dropped().iter().all(|(_, error)| error.fate == Fate::NotWritten));
}

/// A name that the cluster refuses is a verdict, not a wait.
#[test]
fn a_topic_that_may_not_be_written_to_comes_back_with_the_reason() {
    use steadfast::internal::model::fault::{Fault, On, Times};
    use steadfast::ErrorCode;
    let mut world = World::new(&[]).topic("t", 1);
    for broker in 1..=3 {
        let denied = Fault::error(ErrorCode::TopicAuthorizationFailed);
        world.fault(On::Requests(broker, Api::Metadata), Times::Always, denied);
    }
    let ids = world.send("t", 2);
    world.finish(secs(10));
    let error = world.error(ids.start);
    assert!(
        matches!(error.cause, Cause::Refused { code: ErrorCode::TopicAuthorizationFailed, .. }),
        "{error}"
    );
}

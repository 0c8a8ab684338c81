//! Brokers of other ages, and what only resembles a broker (field notes O1 and L3).

use super::world::{secs, World};
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::request::Api;
use steadfast::testing::Versions;
use steadfast::{ErrorCode, Fate};

fn delivers(versions: &Versions) -> World {
    let mut world = World::new(&[]).versions(versions).topic("t", 2);
    world.send("t", 5);
    world.run_for(secs(1));
    world.move_leader("t", 0, 3);
    world.send("t", 5);
    world.finish_delivered(secs(30));
    world
}

#[test]
fn every_release_that_is_played_is_written_to() {
    for versions in [
        Versions::kafka_4_4(),
        Versions::kafka_3_9(),
        Versions::kafka_2_8(),
        Versions::kafka_1_1(),
        Versions::kafka_0_11(),
    ] {
        delivers(&versions);
    }
}

#[test]
fn every_version_of_every_call_is_spoken() {
    let of = |api, max| Versions::kafka_4_4().with(api, 0, max);
    (3..=13).for_each(|max| drop(delivers(&of(Api::Produce, max))));
    (4..=13).for_each(|max| drop(delivers(&of(Api::Metadata, max))));
    (0..=4).for_each(|max| drop(delivers(&of(Api::ApiVersions, max))));
    (0..=5).for_each(|max| drop(delivers(&of(Api::InitProducerId, max))));
}

#[test]
fn a_look_alike_that_closes_on_a_newer_question_is_asked_in_the_oldest_way() {
    let versions = Versions::kafka_4_4().with(Api::ApiVersions, 0, 2).closing_on_unknown();
    let world = delivers(&versions);
    let dials = world.net.dials.len();
    assert!(dials <= 12, "{dials} connections tried");
}

#[test]
fn odd_ranges_are_met_in_the_middle() {
    delivers(&Versions::kafka_4_4().with(Api::Produce, 3, 7).with(Api::Metadata, 0, 5));
    delivers(&Versions::kafka_4_4().with(Api::Produce, 12, 13).with(Api::Metadata, 12, 13));
}

/// Brokers of different ages in one cluster, each in its own words.
#[test]
fn versions_belong_to_a_connection() {
    let mut world = World::new(&[]).topic("t", 3);
    world.net.model.broker(1).expect("there").versions = Versions::kafka_1_1();
    world.net.model.broker(2).expect("there").versions = Versions::kafka_2_8();
    for round in 0..12 {
        world.send("t", 6);
        world.run_for(secs(1));
        world.move_leader("t", round % 3, (round * 2) % 3 + 1);
    }
    world.finish_delivered(secs(30));
}

/// A broker is replaced by an older one while it is written to.
#[test]
fn a_downgrade_is_noticed() {
    let mut world = World::new(&[]).topic("t", 1);
    world.send("t", 5);
    world.run_for(secs(1));
    world.crash(1);
    world.net.model.broker(1).expect("there").versions = Versions::kafka_2_8();
    world.restart(1);
    world.move_leader("t", 0, 1);
    world.send("t", 5);
    world.finish_delivered(secs(30));
}

#[test]
fn too_old_and_too_new_are_told_with_both_ranges() {
    for (versions, words) in [
        (Versions::kafka_4_4().with(Api::Produce, 0, 2), ["0", "2"]),
        (Versions::kafka_4_4().with(Api::Produce, 14, 20), ["14", "20"]),
        (Versions::kafka_4_4().without(Api::Produce), ["Produce", "3"]),
    ] {
        let mut world = World::new(&[("delivery.timeout.ms", "40000")]).versions(&versions).topic("t", 1);
        let ids = world.send("t", 1);
        world.finish(secs(60));
        let error = world.error(ids.start);
        assert_eq!(error.fate, Fate::NotWritten);
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        assert!(world.busiest_second() <= 20, "{} requests in a second", world.busiest_second());
    }
}

#[test]
fn error_35_to_a_batch_agrees_on_versions_anew() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Once, Fault::error(ErrorCode::UnsupportedVersion));
    world.send("t", 3);
    world.finish_delivered(secs(30));
}

/// KIP-899: the broker itself says that the view is worth nothing.
#[test]
fn a_broker_may_ask_to_start_from_the_configured_servers() {
    let mut world = World::new(&[("metadata.max.age.ms", "3000")]).topic("t", 1);
    world.send("t", 3);
    world.run_for(secs(1));
    let broker = world.leader("t", 0);
    world.fault(
        On::Requests(broker, Api::Metadata),
        Times::Once,
        Fault::error(ErrorCode::RebootstrapRequired),
    );
    for _ in 0..10 {
        world.send("t", 1);
        world.run_for(secs(1));
    }
    world.finish_delivered(secs(30));
}

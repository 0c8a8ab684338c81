//! Brokers that answer nonsense, always the same, or too much: each ends in a clear error, and nothing spins.

use super::world::{secs, World};
use std::time::Duration;
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::request::Api;
use steadfast::{Cause, ErrorCode};

/// Runs until every verdict is there, watching the traffic.
fn calm_end(world: &mut World, limit: Duration) {
    world.finish(limit);
    let busiest = world.busiest_second_after(secs(1));
    assert!(busiest <= 20, "{busiest} requests in a second");
}

/// Issue 3, sharp test 7.
#[test]
fn a_broker_that_refuses_every_sequence_ends_in_an_error() {
    for code in
        [ErrorCode::OutOfOrderSequenceNumber, ErrorCode::InvalidProducerEpoch, ErrorCode::UnknownProducerId]
    {
        let mut world = World::new(&[]).topic("t", 1);
        world.fault_t(Times::Always, Fault::error(code));
        for _ in 0..5 {
            world.send("t", 3);
            world.run_for(secs(1));
        }
        calm_end(&mut world, secs(150));
        for (id, error) in world.dropped() {
            assert!(error.to_string().contains(code.name()), "message {id}: {error}");
        }
        assert_eq!(world.dropped().len(), 15);
    }
}

/// Issue 3, sharp test 7: a pause of 24 days is not kept.
#[test]
fn a_throttle_without_measure_has_a_ceiling() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
    world.fault_t(Times::Once, Fault::throttle(Duration::from_millis(i32::MAX as u64)));
    world.send("t", 1);
    world.run_for(secs(1));
    world.send("t", 1);
    // The model's broker keeps its own word and reads nothing for 24 days: a new connection is read from.
    calm_end(&mut world, secs(130));
}

/// Issue 3, sharp test 7, and what else may come instead of an answer.
#[test]
fn nonsense_instead_of_an_answer_closes_the_connection_and_ends_in_an_error() {
    let tls_alert = [0x15, 3, 3, 0, 2, 2, 40];
    let faults = [
        ("2 GiB", Fault::frame_length(i32::MAX)),
        ("negative", Fault::frame_length(-1)),
        ("empty", Fault::raw_answer([0, 0, 0, 0])),
        ("three bytes", Fault::raw_answer([0, 0, 0, 3, 1, 2, 3])),
        ("http", Fault::raw_answer(*b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        ("tls", Fault::raw_answer(tls_alert)),
        ("correlation", Fault::wrong_correlation()),
        ("garbage", Fault::hostile_body(&[0xff; 40])),
        ("no body", Fault::hostile_body(&[])),
    ];
    for (name, fault) in faults {
        for api in [Api::Produce, Api::Metadata, Api::ApiVersions, Api::InitProducerId] {
            let mut world =
                World::new(&[("delivery.timeout.ms", "40000"), ("batch_retries_limit", "3")]).topic("t", 1);
            for broker in 1..=3 {
                world.fault(On::Requests(broker, api), Times::Always, fault.clone());
            }
            let ids = world.send("t", 2);
            calm_end(&mut world, secs(60));
            let dropped = world.dropped().len();
            // Without an id that was only preferred, messages may flow all the same.
            assert!(dropped == 2 || api == Api::InitProducerId, "{name} to {api:?}: {dropped} dropped");
            if dropped > 0 {
                let text = world.error(ids.start).to_string();
                assert!(
                    text.contains("broker") || text.contains("b1") || text.contains("b2"),
                    "{name} to {api:?}: {text}"
                );
            }
        }
    }
}

/// Once is forgiven.
#[test]
fn nonsense_once_costs_a_retry() {
    let faults = [
        Fault::frame_length(i32::MAX),
        Fault::frame_length(-1),
        Fault::wrong_correlation(),
        Fault::hostile_body(&[0xff; 40]),
        Fault::answer_twice(),
    ];
    for fault in faults {
        for api in [Api::Produce, Api::Metadata, Api::ApiVersions, Api::InitProducerId] {
            let mut world = World::new(&[]).topic("t", 1);
            for broker in 1..=3 {
                world.fault(On::Requests(broker, api), Times::Once, fault.clone());
            }
            world.send("t", 2);
            world.run_for(secs(1));
            world.send("t", 2);
            world.finish_delivered(secs(60));
        }
    }
}

/// An answer that names partitions nobody asked for, or leaves some out, is no answer.
#[test]
fn an_answer_of_another_request_is_not_believed() {
    // The body of a produce answer (v13) for no topic at all.
    let nothing = [0, 1, 0, 0, 0, 0, 0];
    let mut world = World::new(&[("batch_retries_limit", "2")]).topic("t", 1);
    world.fault_t(Times::Always, Fault::hostile_body(&nothing));
    let ids = world.send("t", 2);
    calm_end(&mut world, secs(60));
    let error = world.error(ids.start);
    assert_eq!(error.attempts, 3, "{error}");
    assert!(!matches!(error.cause, Cause::DeliveryTimeout { .. }), "{error}");
}

//! Every fault that can be ordered does what it says, and as often as was said.

use super::client::{batch, decode, encode, metadata, produce};
use super::produce::{answer, ask, config, model, send};
use kafka_protocol::messages::{ApiVersionsRequest, InitProducerIdRequest, ProduceRequest};
use std::time::Duration;
use steadfast::internal::model::request::Request;
use steadfast::internal::model::{Model, Step, Then};
use steadfast::testing::{Api, Fault, On, Times};
use steadfast::ErrorCode;

fn end(model: &mut Model) -> i64 {
    model.partition("t", 0).expect("there").end
}

fn on() -> On {
    On::partition("t", 0)
}

#[test]
fn errors_come_as_often_as_ordered_and_append_nothing() {
    let refused = || Fault::error(ErrorCode::NotEnoughReplicas);
    let codes = |times| {
        let mut model = model(config());
        model.order(on(), times, refused());
        let codes: Vec<_> = (0..4).map(|_| send(&mut model, &batch(1)).0).collect();
        assert_eq!(end(&mut model), codes.iter().filter(|&&code| code == 0).count() as i64);
        codes
    };
    assert_eq!(codes(Times::Once), [19, 0, 0, 0]);
    assert_eq!(codes(Times::Next(3)), [19, 19, 19, 0]);
    assert_eq!(codes(Times::Next(0)), [0, 0, 0, 0]);
    assert_eq!(codes(Times::Nth(3)), [0, 0, 19, 0]);
    assert_eq!(codes(Times::Always), [19, 19, 19, 19]);
}

#[test]
fn orders_are_met_in_turn_and_can_be_lifted() {
    let mut model = model(config());
    model.order(on(), Times::Once, Fault::error(ErrorCode::NotLeaderOrFollower));
    model.order(on(), Times::Always, Fault::error(ErrorCode::MessageTooLarge));
    let codes: Vec<_> = (0..3).map(|_| send(&mut model, &batch(1)).0).collect();
    assert_eq!(codes, [6, 10, 10]);
    model.lift(&on());
    assert_eq!(send(&mut model, &batch(1)), (0, 0));
}

#[test]
fn errors_carry_words_and_name_records() {
    let mut model = model(config());
    let fault = Fault::error(ErrorCode::InvalidRecord).with_message("no").naming(&[1, 7]);
    model.order(on(), Times::Once, fault);
    let response = answer(&mut model, 1, &produce("t", 0, batch(2).encode(), -1), 8);
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!((partition.error_code, partition.error_message.as_deref()), (87, Some("no")));
    assert_eq!(partition.record_errors.iter().map(|error| error.batch_index).collect::<Vec<_>>(), [1, 7]);
}

#[test]
fn an_error_after_the_append_leaves_the_batch_in_the_log() {
    let mut model = model(config());
    model.order(on(), Times::Once, Fault::error_after_append(ErrorCode::RequestTimedOut));
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 0)), (7, -1));
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 0)), (0, 0), "the repeat is recognised");
    assert_eq!(end(&mut model), 2);
    let trace: Vec<_> = model.seen.iter().map(|seen| (seen.code, seen.base_offset, seen.duplicate)).collect();
    assert_eq!(trace, [(Some(7), Some(0), false), (Some(0), Some(0), true)]);
}

/// For each fault: what goes out, what becomes of the connection, whether it was appended.
#[test]
fn faults_of_the_connection_say_what_they_append() {
    let usual = {
        let reply = ask(&mut model(config()), 1, &produce("t", 0, batch(1).encode(), -1), 9);
        reply.bytes
    };
    let mut wrong = usual.clone();
    wrong[4] ^= 0x40;
    let body = [&(4 + 3i32).to_be_bytes()[..], &7i32.to_be_bytes(), b"abc"].concat();
    let cases = [
        (Fault::close_before(), vec![], Then::Close, 0),
        (Fault::close_after(), vec![], Then::Close, 1),
        (Fault::lose_response(), vec![], Then::Freeze, 1),
        (Fault::swallow(), vec![], Then::Freeze, 0),
        (Fault::raw_answer(*b"HTTP/1.1 400"), b"HTTP/1.1 400".to_vec(), Then::GoOn, 1),
        (Fault::frame_length(-5), (-5i32).to_be_bytes().to_vec(), Then::GoOn, 1),
        (Fault::hostile_body(b"abc"), body, Then::GoOn, 1),
        (Fault::wrong_correlation(), wrong, Then::GoOn, 1),
        (Fault::answer_twice(), [&usual[..], &usual[..]].concat(), Then::GoOn, 1),
        (Fault::cut_answer(9), usual[..9].to_vec(), Then::Close, 1),
    ];
    for (fault, bytes, then, appended) in cases {
        let orders = [on(), On::Broker(1), On::Requests(1, Api::Produce)];
        for order in orders {
            let mut model = model(config());
            let what = format!("{fault:?} on {order:?}");
            model.order(order, Times::Once, fault.clone());
            let reply = ask(&mut model, 1, &produce("t", 0, batch(1).encode(), -1), 9);
            assert_eq!((reply.bytes, reply.then), (bytes.clone(), then), "{what}");
            assert_eq!(end(&mut model), appended, "{what}");
        }
    }
}

#[test]
fn answers_are_delayed_and_requests_taken_up_late() {
    let mut model = model(config());
    let second = Duration::from_secs(1);
    model.order(on(), Times::Once, Fault::delay(second));
    let request = produce("t", 0, batch(1).encode(), -1);
    let reply = ask(&mut model, 1, &request, 9);
    assert_eq!((reply.delay, end(&mut model)), (second, 1));
    model.order(on(), Times::Once, Fault::late(second));
    let request = Request::decode(encode(&request, 9, 7)).expect("readable");
    let Step::Later(time) = model.handle(0, 1, 1, &request, false) else { panic!("answered at once") };
    assert_eq!((time, end(&mut model)), (second, 1));
    let Step::Reply(reply) = model.handle(1000, 1, 1, &request, true) else { panic!("put off twice") };
    let (_, response) = decode::<ProduceRequest>(&reply.bytes[4..], 9);
    assert_eq!(response.responses[0].partition_responses[0].base_offset, 1);
}

#[test]
fn throttling_is_said_and_done() {
    let mut model = model(config());
    model.broker(1).expect("there").throttle = Duration::from_millis(300);
    let request = produce("t", 0, batch(1).encode(), -1);
    let reply = ask(&mut model, 1, &request, 9);
    let (_, response) = decode::<ProduceRequest>(&reply.bytes[4..], 9);
    assert_eq!((reply.mute, response.throttle_time_ms), (Duration::from_millis(300), 300));
    model.order(On::Broker(2), Times::Once, Fault::throttle(Duration::from_millis(i32::MAX as u64)));
    let response = answer(&mut model, 2, &metadata(&["t"], false), 9);
    assert_eq!(response.throttle_time_ms, i32::MAX);
    assert_eq!(answer(&mut model, 2, &metadata(&["t"], false), 9).throttle_time_ms, 0);
}

#[test]
fn other_calls_fail_as_ordered_too() {
    let mut model = model(config());
    let denied = || Fault::error(ErrorCode::ClusterAuthorizationFailed);
    model.order(On::Requests(1, Api::InitProducerId), Times::Once, denied());
    let ask_id = |model: &mut Model| {
        let response = answer(model, 1, &InitProducerIdRequest::default(), 4);
        (response.error_code, response.producer_id.0, response.producer_epoch)
    };
    assert_eq!(ask_id(&mut model), (31, -1, -1));
    let (first, second) = (ask_id(&mut model), ask_id(&mut model));
    assert_eq!((first.0, first.2, second.0), (0, 0, 0));
    assert_ne!(first.1, second.1, "each producer gets an id of its own");
    model.order(On::Requests(1, Api::Metadata), Times::Once, Fault::error(ErrorCode::LeaderNotAvailable));
    let response = answer(&mut model, 1, &metadata(&["t"], false), 9);
    assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (5, 0));
    model.order(On::Requests(1, Api::ApiVersions), Times::Once, Fault::error(ErrorCode::InvalidRequest));
    assert_eq!(answer(&mut model, 1, &ApiVersionsRequest::default(), 0).error_code, 42);
}

#[test]
fn a_hook_sees_each_batch_and_decides() {
    let mut model = model(config());
    model.on_produce(Some(Box::new(|batch| {
        assert_eq!((batch.broker, batch.topic, batch.partition, batch.count), (1, "t", 0, 2));
        (batch.number == 1).then(|| Fault::error(ErrorCode::OutOfOrderSequenceNumber))
    })));
    let codes: Vec<_> = (0..3).map(|_| send(&mut model, &batch(2)).0).collect();
    assert_eq!(codes, [0, 45, 0]);
}

#[test]
fn without_acks_only_a_closed_connection_tells_of_a_failure() {
    let mut model = model(config());
    let silent = ask(&mut model, 1, &produce("t", 0, batch(1).encode(), 0), 9);
    assert_eq!((silent.bytes.len(), silent.then, end(&mut model)), (0, Then::GoOn, 1));
    let elsewhere = ask(&mut model, 2, &produce("t", 0, batch(1).encode(), 0), 9);
    assert_eq!((elsewhere.bytes.len(), elsewhere.then), (0, Then::Close));
}

#[test]
fn writes_that_no_follower_fetches_time_out_and_can_be_lost() {
    let mut model = model(config());
    model.partition("t", 0).expect("there").replication_held = true;
    let request = produce("t", 0, batch(1).encode(), -1);
    let reply = ask(&mut model, 1, &request, 9);
    let (_, response) = decode::<ProduceRequest>(&reply.bytes[4..], 9);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 7);
    assert_eq!(reply.delay, Duration::from_millis(1000));
    let partition = model.partition("t", 0).expect("there");
    assert_eq!((partition.end, partition.committed), (1, 0));
    partition.replicate();
    assert_eq!(partition.committed, 1);
}

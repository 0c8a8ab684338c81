//! What a partition makes of batches, by the model alone: no sockets, the test's own time.

use super::client::{batch, decode, encode, metadata, produce, Batch};
use bytes::Bytes;
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request as _;
use steadfast::internal::model::fault::{On, Tail, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Request;
use steadfast::internal::model::{Model, Options, Reply, Step, Then};
use steadfast::testing::{Fault, Versions};
use steadfast::ErrorCode;

const NOW: i64 = 1_700_000_001_000;

pub fn config() -> TopicConfig {
    TopicConfig {
        min_insync_replicas: 1,
        max_message_bytes: 10_000,
        log_append_time: false,
        compacted: false,
        timestamp_after_max_ms: None,
    }
}

/// Three brokers and a topic "t" with one partition, led by broker 1.
pub fn model(config: TopicConfig) -> Model {
    let brokers = (1..=3).map(|id| (id, format!("b{id}"), 9092));
    let mut model = Model::new(Options { trace: true, ..Options::default() }, brokers);
    assert!(model.create_topic("t", 1, 3, config));
    model
}

pub fn ask<R: kafka_protocol::protocol::Request>(
    model: &mut Model,
    broker: i32,
    request: &R,
    version: i16,
) -> Reply {
    let request = Request::decode(encode(request, version, 7)).expect("readable");
    match model.handle(NOW, broker, 1, &request, false) {
        Step::Reply(reply) => reply,
        Step::Later(time) => panic!("taken up {time:?} later"),
    }
}

pub fn answer<R: kafka_protocol::protocol::Request>(
    model: &mut Model,
    broker: i32,
    request: &R,
    version: i16,
) -> R::Response {
    let reply = ask(model, broker, request, version);
    assert_eq!(reply.then, Then::GoOn);
    let (correlation, response) = decode::<R>(&reply.bytes[4..], version);
    assert_eq!(correlation, 7);
    response
}

fn send_bytes(model: &mut Model, broker: i32, records: Bytes, version: i16) -> PartitionProduceResponse {
    let response = answer(model, broker, &produce("t", 0, records, -1), version);
    response.responses[0].partition_responses[0].clone()
}

/// Code and base offset.
pub fn send(model: &mut Model, batch: &Batch) -> (i16, i64) {
    let answer = send_bytes(model, 1, batch.encode(), 9);
    (answer.error_code, answer.base_offset)
}

#[test]
fn offsets_follow_each_other_and_the_log_reads_back_equal() {
    let mut model = model(config());
    let mut odd = batch(3);
    odd.records = vec![(None, Some("v")), (Some(""), None), (Some("k"), Some(""))];
    assert_eq!(send(&mut model, &odd), (0, 0));
    assert_eq!(send(&mut model, &batch(2)), (0, 3));
    let log = model.partition("t", 0).expect("there").messages("t", 0).expect("readable");
    let read: Vec<_> = log.iter().map(|m| (m.offset, m.key.as_deref(), m.value.as_deref())).collect();
    let (key, value) = (Some(&b"key"[..]), Some(&b"value"[..]));
    let empty = Some(&b""[..]);
    assert_eq!(
        read,
        [
            (0, None, Some(&b"v"[..])),
            (1, empty, None),
            (2, Some(&b"k"[..]), empty),
            (3, key, value),
            (4, key, value)
        ]
    );
    assert_eq!(log[2].timestamp, odd.timestamp + 2);
    assert_eq!(model.violations, [""; 0]);
}

#[test]
fn every_version_of_produce_is_answered_in_its_own_format() {
    for version in 3..=12 {
        let mut model = model(config());
        let good = send_bytes(&mut model, 1, batch(2).encode(), version);
        assert_eq!((good.error_code, good.base_offset), (0, 0), "v{version}");
        let elsewhere = send_bytes(&mut model, 2, batch(2).encode(), version);
        assert_eq!(elsewhere.error_code, 6, "v{version}");
        let hint = (elsewhere.current_leader.leader_id.0, elsewhere.current_leader.leader_epoch);
        assert_eq!(hint, if version >= 10 { (1, 0) } else { (-1, -1) }, "v{version}");
    }
    // From v13 on topics go by their ids.
    let mut model = model(config());
    let view = answer(&mut model, 2, &metadata(&["t"], false), 12);
    let mut request = produce("", 0, batch(1).encode(), -1);
    request.topic_data[0].topic_id = view.topics[0].topic_id;
    let response = answer(&mut model, 1, &request, 13);
    assert_eq!(response.responses[0].topic_id, view.topics[0].topic_id);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    model.delete_topic("t");
    model.create_topic("t", 1, 3, config());
    let response = answer(&mut model, 1, &request, 13);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 100);
}

#[test]
fn a_producer_is_remembered_for_five_batches() {
    let mut model = model(config());
    for number in 0..6 {
        assert_eq!(send(&mut model, &batch(2).by(9, 0, number * 2)), (0, i64::from(number) * 2));
    }
    for number in 1..6 {
        assert_eq!(
            send(&mut model, &batch(2).by(9, 0, number * 2)),
            (0, i64::from(number) * 2),
            "a duplicate"
        );
    }
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 0)).0, 45, "forgotten, so out of order");
    assert_eq!(send(&mut model, &batch(1).by(9, 0, 10)).0, 45, "another batch under a known sequence");
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 14)).0, 45, "a gap");
    assert_eq!(model.partition("t", 0).expect("there").end, 12);
}

#[test]
fn any_first_sequence_is_accepted_where_nothing_is_remembered() {
    let mut model = model(config());
    assert_eq!(send(&mut model, &batch(2).by(9, 3, 40)), (0, 0));
    assert_eq!(send(&mut model, &batch(2).by(9, 3, 0)).0, 45);
    assert_eq!(send(&mut model, &batch(1).by(9, 3, 42)), (0, 2));
}

#[test]
fn a_new_epoch_starts_at_zero_and_ends_the_old_one() {
    let mut model = model(config());
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 0)), (0, 0));
    assert_eq!(send(&mut model, &batch(2).by(9, 1, 2)).0, 45);
    assert_eq!(send(&mut model, &batch(2).by(9, 1, 0)), (0, 2));
    assert_eq!(send(&mut model, &batch(2).by(9, 0, 2)).0, 47);
}

#[test]
fn sequences_wrap_from_the_largest_to_zero() {
    let mut model = model(config());
    assert_eq!(send(&mut model, &batch(3).by(9, 0, i32::MAX - 1)), (0, 0));
    assert_eq!(send(&mut model, &batch(1).by(9, 0, 1)), (0, 3));
    let log = model.partition("t", 0).expect("there").messages("t", 0).expect("readable");
    let sequences: Vec<_> = log.iter().map(|message| message.sequence).collect();
    assert_eq!(sequences, [i32::MAX - 1, i32::MAX, 0, 1]);
}

#[test]
fn old_brokers_say_so_when_they_forgot_a_producer() {
    let mut model = model(config());
    assert_eq!(send(&mut model, &batch(1).by(9, 0, 0)), (0, 0));
    model.partition("t", 0).expect("there").forget_producers(true);
    model.broker(1).expect("there").versions = Versions::kafka_1_1();
    let answer = send_bytes(&mut model, 1, batch(1).by(9, 0, 1).encode(), 5);
    assert_eq!((answer.error_code, answer.log_start_offset), (59, 1));
}

#[test]
fn compacted_topics_name_the_messages_without_a_key() {
    let mut model = model(TopicConfig { compacted: true, ..config() });
    let mut mixed = batch(4);
    mixed.records[1].0 = None;
    mixed.records[3].0 = None;
    let answer = send_bytes(&mut model, 1, mixed.encode(), 9);
    assert_eq!(answer.error_code, 87);
    let named: Vec<_> = answer.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(named, [1, 3]);
    assert!(answer.error_message.is_some());
    assert_eq!(send(&mut model, &batch(4)), (0, 0));
    assert_eq!(model.violations, [""; 0]);
}

#[test]
fn timestamps_too_far_ahead_are_named() {
    let mut model = model(TopicConfig { timestamp_after_max_ms: Some(1000), ..config() });
    let mut ahead = batch(3);
    ahead.timestamp = NOW + 999;
    let answer = send_bytes(&mut model, 1, ahead.encode(), 9);
    assert_eq!(answer.error_code, 32);
    assert_eq!(answer.record_errors.iter().map(|e| e.batch_index).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_brokers_time_stands_in_the_log_where_the_topic_says_so() {
    let mut model = model(TopicConfig { log_append_time: true, ..config() });
    let answer = send_bytes(&mut model, 1, batch(2).encode(), 9);
    assert_eq!(answer.log_append_time_ms, NOW);
    let log = model.partition("t", 0).expect("there").messages("t", 0).expect("readable");
    assert!(log.iter().all(|message| message.timestamp == NOW));
}

#[test]
fn sizes_and_replicas_are_checked() {
    let mut model = model(TopicConfig { min_insync_replicas: 2, max_message_bytes: 400, ..config() });
    assert_eq!(send(&mut model, &batch(100)).0, 10);
    model.partition("t", 0).expect("there").isr = vec![1];
    assert_eq!(send(&mut model, &batch(1)).0, 19);
    let response = answer(&mut model, 1, &produce("t", 0, batch(1).encode(), 1), 9);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0, "acks=1 needs no second replica");
    let response = answer(&mut model, 1, &produce("t", 1, batch(1).encode(), 1), 9);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 3);
}

#[test]
fn what_a_producer_must_not_do_is_refused_and_remembered() {
    let whole = batch(2).encode();
    let damaged = |at: usize, value: u8| {
        let mut bytes = whole.to_vec();
        bytes[at] = value;
        bytes
    };
    let twice = [&whole[..], &whole[..]].concat();
    let cases: [(Vec<u8>, i16, &str); 6] = [
        (damaged(whole.len() - 2, b'?'), 2, "checksum"),
        (damaged(16, 1), 2, "record format"),
        (whole[..40].to_vec(), 2, "shorter"),
        (whole[..whole.len() - 1].to_vec(), 2, "claims"),
        (twice, 87, "more than one"),
        (resealed(&whole, 60, 3), 87, "3 records"),
    ];
    for (bytes, code, words) in cases {
        let mut model = model(config());
        assert_eq!(send_bytes(&mut model, 1, bytes.into(), 9).error_code, code, "{words}");
        assert!(model.violations.iter().any(|v| v.contains(words)), "{words}: {:?}", model.violations);
        assert_eq!(model.partition("t", 0).expect("there").end, 0);
    }
}

/// The batch with one byte changed and the checksum made right again.
fn resealed(batch: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut bytes = batch.to_vec();
    bytes[at] = value;
    let crc = crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

#[test]
fn records_that_do_not_fit_their_header_are_found() {
    // The second record's offset delta: behind the header (61) come 7 bytes before the first key.
    let whole = batch(2).encode();
    let second = 61 + 1 + usize::from(whole[61] >> 1);
    for (at, value, words) in [(second + 3, 6, "number 3"), (42, 0x77, "max timestamp")] {
        let mut model = model(config());
        assert_eq!(send_bytes(&mut model, 1, resealed(&whole, at, value).into(), 9).error_code, 87);
        assert!(model.violations.iter().any(|v| v.contains(words)), "{words}: {:?}", model.violations);
    }
}

#[test]
fn a_crash_elects_another_leader_with_or_without_what_only_the_old_one_had() {
    for (tail, end) in [(Tail::Kept, 5), (Tail::Lost, 2)] {
        let mut model = model(config());
        assert_eq!(send(&mut model, &batch(2).by(9, 0, 0)), (0, 0));
        let late = Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend);
        model.order(On::partition("t", 0), Times::Once, late);
        assert_eq!(send(&mut model, &batch(3).by(9, 0, 2)).0, 20);
        model.crash(NOW, 1, tail);
        let partition = model.partition("t", 0).expect("there");
        assert_eq!((partition.leader, partition.leader_epoch, partition.end), (2, 1, end));
        assert_eq!(partition.isr, [2, 3]);
        // The new leader remembers what is in its log, and no more.
        let again = send_bytes(&mut model, 2, batch(3).by(9, 0, 2).encode(), 9);
        assert_eq!((again.error_code, again.base_offset), (0, 2));
        assert_eq!(model.partition("t", 0).expect("there").end, 5);
        model.restart(NOW, 1);
        let partition = model.partition("t", 0).expect("there");
        assert_eq!((partition.leader, partition.isr.len()), (2, 3));
    }
}

#[test]
fn the_last_replica_in_sync_leads_again_when_it_is_back() {
    let mut model = model(config());
    for broker in [2, 3, 1] {
        model.crash(NOW, broker, Tail::Kept);
    }
    assert_eq!(model.partition("t", 0).expect("there").leader, -1);
    model.restart(NOW, 2);
    assert_eq!(model.partition("t", 0).expect("there").leader, -1, "it is not in sync");
    model.restart(NOW, 1);
    let partition = model.partition("t", 0).expect("there");
    assert_eq!((partition.leader, partition.leader_epoch), (1, 2));
}

#[test]
fn api_versions_that_are_unknown_are_answered_in_the_oldest_format() {
    let mut model = model(config());
    let mut frame = encode(&ApiVersionsRequest::default(), 0, 7).to_vec();
    frame[3] = 9;
    let request = Request::decode(frame.into()).expect("readable enough");
    let Step::Reply(reply) = model.handle(NOW, 1, 1, &request, false) else { panic!("no answer") };
    let (_, response) = decode::<ApiVersionsRequest>(&reply.bytes[4..], 0);
    assert_eq!(response.error_code, 35);
    assert!(response.api_keys.iter().any(|range| range.api_key == ApiVersionsRequest::KEY));
    model.broker(1).expect("there").versions = Versions::kafka_4_4().closing_on_unknown();
    let Step::Reply(reply) = model.handle(NOW, 1, 1, &request, false) else { panic!("no answer") };
    assert_eq!(reply.then, Then::Close);
}

#[test]
fn metadata_says_what_the_asked_broker_knows() {
    let mut model = model(config());
    for version in 0..=13 {
        // (The oldest ones can't say that nothing is to be made.)
        let response = answer(&mut model, 2, &metadata(&["t", "none", "bad/name"], version < 4), version);
        let codes: Vec<_> = response.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, [0, 3, 17], "v{version}");
        assert_eq!(response.topics[0].partitions[0].leader_id.0, 1);
        assert_eq!(response.brokers.len(), 3);
    }
    model.hold_view(3);
    assert!(model.move_leader("t", 0, 2));
    let leader = |model: &mut Model, asked| {
        let response = answer(model, asked, &metadata(&["t"], false), 9);
        let partition = &response.topics[0].partitions[0];
        (partition.leader_id.0, partition.leader_epoch)
    };
    assert_eq!(leader(&mut model, 1), (2, 1));
    assert_eq!(leader(&mut model, 3), (1, 0), "a view that is held");
    model.mislead(1, "t", 0, 3, 5);
    assert_eq!(leader(&mut model, 1), (3, 5));
    let refused = send_bytes(&mut model, 1, batch(1).encode(), 10);
    assert_eq!((refused.error_code, refused.current_leader.leader_id.0), (6, 3));
}

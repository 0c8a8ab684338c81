//! Bytes that are cut off, changed, made up, or too many: an error in words, never a panic.

use crate::batches::{decode, encode, Wanted};
use crate::oracle::{text, versions, write_response};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, InitProducerIdResponse, MetadataResponse, ProduceResponse, TopicName,
};
use proptest::prelude::*;
use std::sync::OnceLock;
use steadfast::internal::protocol::compression::Codec;
use steadfast::internal::protocol::header::{split_response, Api};
use steadfast::internal::protocol::record_batch::{decode_batches, records};
use steadfast::internal::protocol::wire::{Malformed, Reader};
use steadfast::internal::protocol::{api_versions, init_producer_id, metadata, produce};
use uuid::Uuid;

/// Reads a frame as a client does.
fn read(api: Api, version: i16, frame: &[u8]) -> Result<(), Malformed> {
    let (_, body) = split_response(api, version, frame)?;
    match api {
        Api::Produce => produce::decode(body, version).map(drop),
        Api::Metadata => metadata::decode(body, version).map(drop),
        Api::ApiVersions => api_versions::decode(body, version).map(drop),
        Api::InitProducerId => init_producer_id::decode(body, version).map(drop),
    }
}

/// A good response of every kind and version, with all its fields in use.
fn samples() -> &'static [(Api, i16, Vec<u8>)] {
    static SAMPLES: OnceLock<Vec<(Api, i16, Vec<u8>)>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let mut samples = Vec::new();
        let mut add = |api, version, frame| samples.push((api, version, frame));
        for version in versions(Api::Produce) {
            add(Api::Produce, version, write_response(7, &produce_response(version), version));
        }
        for version in versions(Api::Metadata) {
            add(Api::Metadata, version, write_response(7, &metadata_response(version), version));
        }
        for version in versions(Api::ApiVersions) {
            let keys = [0, 3, 22].map(|key| ApiVersion::default().with_api_key(key).with_max_version(9));
            let response = ApiVersionsResponse::default().with_api_keys(keys.to_vec());
            add(Api::ApiVersions, version, write_response(7, &response, version));
        }
        for version in versions(Api::InitProducerId) {
            let response = InitProducerIdResponse::default().with_producer_id(9.into());
            add(Api::InitProducerId, version, write_response(7, &response, version));
        }
        samples
    })
}

fn produce_response(version: i16) -> ProduceResponse {
    let mut outcome =
        PartitionProduceResponse::default().with_index(3).with_error_code(87).with_base_offset(-1);
    if version >= 8 {
        outcome.error_message = Some(text("a compacted topic needs keys"));
        outcome.record_errors = vec![BatchIndexAndErrorMessage::default().with_batch_index(2); 3];
    }
    if version >= 10 {
        outcome.current_leader = LeaderIdAndEpoch::default().with_leader_id(2.into()).with_leader_epoch(8);
    }
    let mut topic = TopicProduceResponse::default().with_partition_responses(vec![outcome; 3]);
    if version >= 13 {
        topic.topic_id = Uuid::from_bytes([3; 16]);
    } else {
        topic.name = TopicName(text("orders"));
    }
    let mut response = ProduceResponse::default().with_responses(vec![topic; 2]).with_throttle_time_ms(5);
    if version >= 10 {
        response.node_endpoints =
            vec![NodeEndpoint::default().with_host(text("broker-2")).with_port(9092); 2];
    }
    response
}

fn metadata_response(version: i16) -> MetadataResponse {
    let broker = MetadataResponseBroker::default().with_host(text("broker-1")).with_port(9092);
    let broker = broker.with_rack(Some(text("rack-a")));
    let mut partition = MetadataResponsePartition::default()
        .with_leader_id(1.into())
        .with_replica_nodes(vec![1.into(), 2.into()])
        .with_isr_nodes(vec![1.into()]);
    if version >= 5 {
        partition.offline_replicas = vec![2.into()];
    }
    let mut topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(text("orders"))))
        .with_partitions(vec![partition; 3]);
    if version >= 10 {
        topic.topic_id = Uuid::from_bytes([3; 16]);
    }
    MetadataResponse::default()
        .with_brokers(vec![broker; 2])
        .with_cluster_id(Some(text("the cluster")))
        .with_topics(vec![topic; 2])
}

#[test]
fn good_ones_are_read() {
    assert_eq!(samples().len(), 11 + 10 + 5 + 6);
    for (api, version, frame) in samples() {
        assert_eq!(read(*api, *version, frame), Ok(()), "{api:?} {version}");
    }
}

#[test]
fn cut_off_anywhere_is_an_error() {
    for (api, version, frame) in samples() {
        for end in 0..frame.len() {
            let error = read(*api, *version, &frame[..end]).expect_err("the rest is missing");
            assert!(!error.0.is_empty(), "{api:?} {version} at {end}");
        }
    }
}

#[test]
fn bytes_behind_the_end_are_an_error() {
    for (api, version, frame) in samples() {
        let error = read(*api, *version, &[&frame[..], &[0]].concat()).expect_err("a byte too many");
        assert!(error.0.contains("1 bytes too many"), "{api:?} {version}: {error}");
    }
}

/// Every byte, every pair and every four of them set to the numbers that lengths lie with.
#[test]
fn lying_lengths_are_survived() {
    let lies: [&[u8]; 9] = [
        &[0xff],
        &[0x80],
        &[0x7f],
        &[0x7f, 0xff],
        &[0x80, 0x00],
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
    ];
    let mut errors = 0;
    for (api, version, frame) in samples() {
        for lie in lies {
            for at in 0..=frame.len() - lie.len().min(frame.len()) {
                let mut frame = frame.clone();
                if at + lie.len() <= frame.len() {
                    frame[at..at + lie.len()].copy_from_slice(lie);
                    errors += usize::from(read(*api, *version, &frame).is_err());
                }
            }
        }
    }
    assert!(errors > 1000, "only {errors} errors: nothing was hit");
}

#[test]
fn errors_say_what_is_wrong() {
    let count = |bytes: &[u8], flexible| Reader::new(bytes, flexible).count(14, "partitions").unwrap_err().0;
    assert_eq!(count(&[0x7f, 0xff, 0xff, 0xff, 1], false), "partitions: 2147483647 announced, 1 bytes left");
    assert_eq!(count(&[0xff, 0xff, 0xff, 0xff], false), "partitions: null");
    assert_eq!(count(&[0xff, 0xff, 0xff, 0xfe], false), "partitions: a length of -2");
    assert_eq!(count(&[0], true), "partitions: null");
    assert_eq!(
        count(&[0xff, 0xff, 0xff, 0xff, 0x0f], true),
        "partitions: 4294967294 announced, 0 bytes left"
    );
    assert_eq!(count(&[0xff, 0xff, 0xff, 0xff, 0x1f], true), "partitions: a varint of more than 32 bits");
    assert_eq!(count(&[0x80; 6], true), "partitions: a varint of more than 32 bits");
    let string = |bytes: &[u8]| Reader::new(bytes, false).string("name").unwrap_err().0;
    assert_eq!(string(&[0, 5, b'a']), "name: 5 bytes expected, 1 left");
    assert_eq!(string(&[0, 2, 0xc3, 0x28]), "name: not UTF-8");
    assert_eq!(string(&[0]), "name: 2 bytes expected, 1 left");
    let tags = Reader::new(&[1, 0, 9, 1, 2], true).skip_tags().unwrap_err().0;
    assert_eq!(tags, "tagged field: 9 bytes expected, 2 left");
}

/// A tagged field that we know must be what it says it is, to its last byte.
#[test]
fn a_known_tagged_field_with_bytes_to_spare() {
    let topics_and_throttle = [1, 0, 0, 0, 0];
    let endpoints = [1, 0, 3, 1, 0xaa, 0xbb]; // no endpoint, and two bytes more
    let body = [&topics_and_throttle[..], &endpoints].concat();
    let error = produce::decode(&body, 10).unwrap_err();
    assert_eq!(error.0, "endpoints: 2 bytes too many");
    // The version before does not know it.
    assert!(produce::decode(&body, 9).is_ok());
}

#[test]
fn a_negative_partition_is_not_believed() {
    let mut response = metadata_response(13);
    response.topics[1].partitions[2].partition_index = -7;
    let frame = write_response(7, &response, 13);
    assert_eq!(read(Api::Metadata, 13, &frame).unwrap_err().0, "partition -7");
}

fn a_batch(codec: Codec) -> Vec<u8> {
    let record = Wanted {
        ts_delta: 4,
        key: Some(b"key".to_vec()),
        value: None,
        headers: vec![("name".into(), Some(vec![1, 2])), ("name".into(), None)],
    };
    encode(&[record.clone(), record.clone(), record], codec, (5, 0, 10))
}

#[test]
fn batches_that_are_cut_off_or_changed() {
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        let bytes = a_batch(codec);
        for end in 1..bytes.len() {
            assert!(decode_batches(&bytes[..end]).next().unwrap().is_err(), "{codec}, {end} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let batch = decode_batches(&changed).next().unwrap();
            // Base offset and leader epoch are the broker's to change: the checksum leaves them out.
            assert_eq!(batch.is_ok(), at < 8 || (12..16).contains(&at), "byte {at}");
        }
    }
}

#[test]
fn errors_of_batches_say_what_is_wrong() {
    let error = |bytes: &[u8]| decode_batches(bytes).next().unwrap().unwrap_err().0;
    let bytes = a_batch(Codec::None);
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(error(&changed(16, 1)), "message format 1, not 2");
    assert!(error(&changed(8, 0xff)).starts_with("a batch length of -167"));
    assert!(error(&changed(61, 0)).contains("the batch's checksum is"));
    // After an error nothing more is read.
    assert_eq!(decode_batches(&[&changed(61, 0)[..], &bytes].concat()).count(), 1);

    let error = |bytes: &[u8], count| records(bytes, count).find_map(Result::err).unwrap().0;
    let plain = &bytes[61..];
    assert!(error(plain, 2).ends_with("bytes behind the last record"));
    assert_eq!(error(plain, 4), "record's length: a varint that is cut off or too long");
    assert_eq!(error(&[1, 0], 1), "a record length of -1");
    assert_eq!(
        error(&[12, 0, 0, 0, 1, 1, 0x7e], 1),
        "-64 headers announced, 0 bytes left".replace("-64", "63")
    );
    assert_eq!(error(&[12, 0, 0, 0, 1, 3, 0], 1), "value: a length of -2");
}

proptest! {
    #[test]
    fn changed_bytes_are_survived(
        sample in 0..32usize,
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (api, version, frame) = &samples()[sample];
        let mut frame = frame.clone();
        for (at, value) in hits {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let _ = read(*api, *version, &frame);
        let _ = read(*api, *version, &frame[..cut.index(frame.len())]);
    }

    #[test]
    fn noise_is_survived(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        for (api, version, _) in samples() {
            let _ = read(*api, *version, &noise);
        }
        for batch in decode_batches(&noise) {
            let _ = batch.map(|batch| decode(&batch));
        }
        for record in records(&noise, i32::MAX) {
            let _ = record.map(|record| record.headers.count());
        }
    }

    /// With a checksum that is right, so that what lies behind it is reached.
    #[test]
    fn changed_batches_are_survived(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        codec in crate::batches::codecs(),
    ) {
        let mut bytes = a_batch(codec);
        for (at, value) in hits {
            let at = 21 + at.index(bytes.len() - 21);
            bytes[at] = value;
        }
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        for batch in decode_batches(&bytes) {
            let _ = batch.map(|batch| decode(&batch));
        }
    }
}

//! Our requests, read by the other implementation.

use crate::oracle::{any as some, read_request, versions};
use kafka_protocol::messages::{
    ApiVersionsRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest as TheirProduceRequest,
    RequestHeader,
};
use kafka_protocol::protocol::Message;
use proptest::prelude::*;
use std::sync::Arc;
use steadfast::internal::protocol::header::Api;
use steadfast::internal::protocol::produce::ProduceRequest;
use steadfast::internal::protocol::{api_versions, init_producer_id, metadata};

fn check_header(header: &RequestHeader, api: Api, version: i16, correlation: i32, client_id: &str) {
    assert_eq!(header.request_api_key, api.key());
    assert_eq!(header.request_api_version, version);
    assert_eq!(header.correlation_id, correlation);
    assert_eq!(header.client_id.as_ref().map(|id| id.to_string()), Some(client_id.to_owned()));
    assert!(header.unknown_tagged_fields.is_empty());
}

/// So that a version that one side learns later does not go by untested.
#[test]
fn our_versions_are_all_that_the_other_side_speaks() {
    let theirs = [
        (Api::Produce, TheirProduceRequest::VERSIONS),
        (Api::ApiVersions, ApiVersionsRequest::VERSIONS),
        (Api::InitProducerId, InitProducerIdRequest::VERSIONS),
    ];
    for (api, range) in theirs {
        assert_eq!(api.supported(), (range.min, range.max), "{api:?}");
    }
    assert_eq!(Api::Metadata.supported(), (4, MetadataRequest::VERSIONS.max));
}

proptest! {
    #[test]
    fn api_versions_requests(correlation: i32, client_id in some::string()) {
        for version in versions(Api::ApiVersions) {
            let frame = api_versions::encode(version, correlation, &client_id);
            let (header, request) = read_request::<ApiVersionsRequest>(&frame, version);
            check_header(&header, Api::ApiVersions, version, correlation, &client_id);
            let (name, number) = if version >= 3 { ("steadfast", env!("CARGO_PKG_VERSION")) } else { ("", "") };
            prop_assert_eq!(request.client_software_name.as_str(), name);
            prop_assert_eq!(request.client_software_version.as_str(), number);
        }
    }

    #[test]
    fn metadata_requests(
        correlation: i32,
        client_id in some::string(),
        topics in prop::collection::vec(some::string(), 0..6),
        allow_auto_create: bool,
    ) {
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        for version in versions(Api::Metadata) {
            let frame = metadata::encode(version, correlation, &client_id, &names, allow_auto_create);
            let (header, request) = read_request::<MetadataRequest>(&frame, version);
            check_header(&header, Api::Metadata, version, correlation, &client_id);
            // Null would ask for all topics of the cluster.
            let asked = request.topics.expect("never null");
            prop_assert_eq!(asked.len(), names.len());
            for (asked, name) in asked.iter().zip(&names) {
                prop_assert_eq!(asked.name.as_ref().map(|name| name.0.as_str()), Some(*name));
                prop_assert!(asked.topic_id.is_nil());
            }
            prop_assert_eq!(request.allow_auto_topic_creation, allow_auto_create);
            prop_assert!(!request.include_topic_authorized_operations);
            prop_assert!(!request.include_cluster_authorized_operations);
        }
    }

    #[test]
    fn init_producer_id_requests(correlation: i32, client_id in some::string(), producer_id: i64, epoch: i16) {
        for version in versions(Api::InitProducerId) {
            let frame = init_producer_id::encode(version, correlation, &client_id, producer_id, epoch);
            let (header, request) = read_request::<InitProducerIdRequest>(&frame, version);
            check_header(&header, Api::InitProducerId, version, correlation, &client_id);
            prop_assert_eq!(request.transactional_id, None);
            prop_assert_eq!(request.transaction_timeout_ms, i32::MAX);
            let expected = if version >= 3 { (producer_id, epoch) } else { (-1, -1) };
            prop_assert_eq!((request.producer_id.0, request.producer_epoch), expected);
        }
    }

    #[test]
    fn produce_requests(
        correlation: i32,
        client_id in some::string(),
        acks in -1..=1i16,
        timeout_ms: i32,
        topics in prop::collection::vec(
            (some::string(), any::<[u8; 16]>(), prop::collection::vec((any::<i32>(), some::bytes(3000), 0..50usize), 0..4)),
            0..4,
        ),
    ) {
        for version in versions(Api::Produce) {
            let mut ours = ProduceRequest::new(version, correlation, &client_id, acks, timeout_ms, topics.len());
            for (name, id, batches) in &topics {
                ours.topic(name, id, batches.len());
                for (partition, records, slack) in batches {
                    // A buffer may be longer than what of it counts.
                    let buffer = [&records[..], &vec![0xee; *slack]].concat();
                    ours.batch(*partition, &[*slack as u8; 61], Arc::new(buffer), records.len());
                }
            }
            let (header, theirs) = read_request::<TheirProduceRequest>(&ours.finish(), version);
            check_header(&header, Api::Produce, version, correlation, &client_id);
            prop_assert_eq!(theirs.transactional_id, None);
            prop_assert_eq!((theirs.acks, theirs.timeout_ms), (acks, timeout_ms));
            prop_assert_eq!(theirs.topic_data.len(), topics.len());
            for (theirs, (name, id, batches)) in theirs.topic_data.iter().zip(&topics) {
                if version >= 13 {
                    prop_assert_eq!(theirs.topic_id.as_bytes(), id);
                } else {
                    prop_assert_eq!(theirs.name.0.as_str(), name.as_str());
                }
                prop_assert_eq!(theirs.partition_data.len(), batches.len());
                for (theirs, (partition, records, slack)) in theirs.partition_data.iter().zip(batches) {
                    prop_assert_eq!(theirs.index, *partition);
                    let bytes = theirs.records.as_ref().expect("never null");
                    prop_assert_eq!(&bytes[..61], &[*slack as u8; 61][..]);
                    prop_assert_eq!(&bytes[61..], &records[..]);
                }
            }
        }
    }
}

/// The format's limit for strings; the settings refuse such a client id long before.
#[test]
fn a_string_that_is_too_long_is_cut_between_characters() {
    let client_id = "\u{20ac}".repeat(20_000);
    for version in versions(Api::ApiVersions) {
        let frame = api_versions::encode(version, 1, &client_id);
        let (header, _) = read_request::<ApiVersionsRequest>(&frame, version);
        let sent = header.client_id.expect("a client id").to_string();
        assert_eq!(sent.len(), 32_766);
        assert!(client_id.starts_with(&sent));
    }
}

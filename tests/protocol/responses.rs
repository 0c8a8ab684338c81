//! The other implementation's responses, read by ours.

use crate::oracle::{any as some, text, versions, write_response};
use bytes::Bytes;
use kafka_protocol::messages::api_versions_response::{ApiVersion, SupportedFeatureKey};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, InitProducerIdResponse, MetadataResponse, ProduceResponse as TheirProduceResponse,
    TopicName,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use steadfast::internal::protocol::header::{correlation, split_response, Api};
use steadfast::internal::protocol::{api_versions, init_producer_id, metadata, produce};
use steadfast::ErrorCode;
use uuid::Uuid;

/// Tagged fields that nobody knows yet: they are passed over.
fn future_tags(some: bool) -> BTreeMap<i32, Bytes> {
    let fields = some.then(|| [(900, Bytes::from_static(b"later")), (901, Bytes::new())]);
    fields.into_iter().flatten().collect()
}

/// The frame's body, when its header was what it should be.
fn body(api: Api, version: i16, expected: i32, frame: &[u8]) -> &[u8] {
    assert_eq!(correlation(frame), Ok(expected));
    let (number, body) = split_response(api, version, frame).expect("header");
    assert_eq!(number, expected);
    body
}

proptest! {
    #[test]
    fn api_versions_responses(
        number: i32,
        ranges in prop::collection::vec(any::<(i16, i16, i16)>(), 0..8),
        throttle_ms: i32,
        error in prop_oneof![Just(0), Just(42), Just(129), Just(999)],
        features: bool,
    ) {
        for version in versions(Api::ApiVersions) {
            let keys = ranges.iter().map(|(key, first, last)| {
                ApiVersion::default().with_api_key(*key).with_min_version(*first).with_max_version(*last)
            });
            let mut theirs = ApiVersionsResponse::default()
                .with_error_code(error)
                .with_api_keys(keys.collect());
            if version >= 1 {
                theirs.throttle_time_ms = throttle_ms;
            }
            if version >= 3 && features {
                theirs.supported_features = vec![SupportedFeatureKey::default().with_name(text("f")).with_max_version(3)];
                theirs.finalized_features_epoch = 7;
                theirs.unknown_tagged_fields = future_tags(true);
            }
            let frame = write_response(number, &theirs, version);
            let ours = api_versions::decode(body(Api::ApiVersions, version, number, &frame), version).unwrap();
            prop_assert_eq!(ours.error, ErrorCode::from(error));
            prop_assert_eq!(&ours.ranges, &ranges);
            prop_assert_eq!(ours.throttle_ms, if version >= 1 { throttle_ms } else { 0 });
        }
    }

    #[test]
    fn init_producer_id_responses(
        number: i32, throttle_ms: i32, error: i16, producer_id in 0..i64::MAX, epoch in 0..i16::MAX, tags: bool,
    ) {
        for version in versions(Api::InitProducerId) {
            let theirs = InitProducerIdResponse::default()
                .with_throttle_time_ms(throttle_ms)
                .with_error_code(error)
                .with_producer_id(producer_id.into())
                .with_producer_epoch(epoch)
                .with_unknown_tagged_fields(future_tags(tags && version >= 2));
            let frame = write_response(number, &theirs, version);
            let ours =
                init_producer_id::decode(body(Api::InitProducerId, version, number, &frame), version).unwrap();
            let expected = init_producer_id::InitProducerId {
                throttle_ms, error: ErrorCode::from(error), producer_id, epoch,
            };
            prop_assert_eq!(ours, expected);
        }
    }

    #[test]
    fn metadata_responses(
        number: i32,
        throttle_ms: i32,
        controller: i32,
        error: i16,
        cluster_id in prop::option::of(some::string()),
        brokers in prop::collection::vec((any::<i32>(), some::string(), any::<i32>(), prop::option::of(some::string())), 0..4),
        topics in prop::collection::vec(
            (some::string(), any::<[u8; 16]>(), any::<i16>(), prop::collection::vec(partition(), 0..4)),
            0..4,
        ),
        tags: bool,
    ) {
        for version in versions(Api::Metadata) {
            let tags = tags && version >= 9;
            let theirs = MetadataResponse::default()
                .with_throttle_time_ms(throttle_ms)
                .with_controller_id(controller.into())
                .with_cluster_id(cluster_id.as_deref().map(text))
                .with_error_code(if version >= 13 { error } else { 0 })
                .with_unknown_tagged_fields(future_tags(tags))
                .with_brokers(brokers.iter().map(|(id, host, port, rack)| {
                    MetadataResponseBroker::default()
                        .with_node_id((*id).into())
                        .with_host(text(host))
                        .with_port(*port)
                        .with_rack(rack.as_deref().map(text))
                        .with_unknown_tagged_fields(future_tags(tags))
                }).collect())
                .with_topics(topics.iter().map(|(name, id, error, partitions)| {
                    MetadataResponseTopic::default()
                        .with_error_code(*error)
                        .with_name(Some(TopicName(text(name))))
                        .with_topic_id(if version >= 10 { Uuid::from_bytes(*id) } else { Uuid::nil() })
                        .with_unknown_tagged_fields(future_tags(tags))
                        .with_partitions(partitions.iter().map(|p| p.theirs(version, tags)).collect())
                }).collect());
            let frame = write_response(number, &theirs, version);
            let ours = metadata::decode(body(Api::Metadata, version, number, &frame), version).unwrap();
            let expected = metadata::Metadata {
                error: ErrorCode::from(if version >= 13 { error } else { 0 }),
                throttle_ms,
                brokers: brokers.iter().map(|(id, host, port, rack)| metadata::Broker {
                    id: *id, host: host.clone(), port: *port, rack: rack.clone(),
                }).collect(),
                cluster_id: cluster_id.clone(),
                controller,
                topics: topics.iter().map(|(name, id, error, partitions)| metadata::Topic {
                    error: ErrorCode::from(*error),
                    name: name.clone(),
                    id: if version >= 10 { *id } else { [0; 16] },
                    partitions: partitions.iter().map(|p| p.ours(version)).collect(),
                }).collect(),
            };
            prop_assert_eq!(ours, expected, "version {}", version);
        }
    }

    #[test]
    fn produce_responses(
        number: i32,
        throttle_ms: i32,
        topics in prop::collection::vec(
            (some::string(), any::<[u8; 16]>(), prop::collection::vec(outcome(), 0..4)),
            0..4,
        ),
        endpoints in prop::collection::vec((any::<i32>(), some::string(), any::<i32>(), prop::option::of(some::string())), 0..3),
        tags: bool,
    ) {
        for version in versions(Api::Produce) {
            let tags = tags && version >= 9;
            let mut theirs = TheirProduceResponse::default()
                .with_throttle_time_ms(throttle_ms)
                .with_unknown_tagged_fields(future_tags(tags))
                .with_responses(topics.iter().map(|(name, id, outcomes)| {
                    let topic = TopicProduceResponse::default()
                        .with_unknown_tagged_fields(future_tags(tags))
                        .with_partition_responses(outcomes.iter().map(|o| o.theirs(version, tags)).collect());
                    if version >= 13 {
                        topic.with_topic_id(Uuid::from_bytes(*id))
                    } else {
                        topic.with_name(TopicName(text(name)))
                    }
                }).collect());
            if version >= 10 {
                theirs.node_endpoints = endpoints.iter().map(|(id, host, port, rack)| {
                    NodeEndpoint::default()
                        .with_node_id((*id).into())
                        .with_host(text(host))
                        .with_port(*port)
                        .with_rack(rack.as_deref().map(text))
                        .with_unknown_tagged_fields(future_tags(tags))
                }).collect();
            }
            let frame = write_response(number, &theirs, version);
            let ours = produce::decode(body(Api::Produce, version, number, &frame), version).unwrap();
            prop_assert_eq!(ours.throttle_ms, throttle_ms);
            let expected: Vec<_> = topics.iter().flat_map(|(name, id, outcomes)| {
                let topic =
                    if version >= 13 { produce::TopicRef::Id(*id) } else { produce::TopicRef::Name(name) };
                outcomes.iter().map(move |outcome| outcome.ours(topic, version))
            }).collect();
            prop_assert_eq!(&ours.partitions, &expected, "version {}", version);
            let expected: Vec<_> = endpoints.iter().filter(|_| version >= 10).map(|(id, host, port, _)| {
                produce::Endpoint { id: *id, host: host.clone(), port: *port }
            }).collect();
            prop_assert_eq!(&ours.endpoints, &expected, "version {}", version);
        }
    }
}

#[derive(Clone, Debug)]
struct Partition {
    error: i16,
    index: i32,
    leader: i32,
    epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
}

prop_compose! {
    fn partition()(
        error: i16, index in 0..i32::MAX, leader: i32, epoch: i32,
        replicas in some::ids(), isr in some::ids(), offline in some::ids(),
    ) -> Partition {
        Partition { error, index, leader, epoch, replicas, isr, offline }
    }
}

impl Partition {
    fn theirs(&self, version: i16, tags: bool) -> MetadataResponsePartition {
        let ids = |ids: &[i32]| ids.iter().map(|id| (*id).into()).collect();
        MetadataResponsePartition::default()
            .with_error_code(self.error)
            .with_partition_index(self.index)
            .with_leader_id(self.leader.into())
            .with_leader_epoch(if version >= 7 { self.epoch } else { -1 })
            .with_replica_nodes(ids(&self.replicas))
            .with_isr_nodes(ids(&self.isr))
            .with_offline_replicas(if version >= 5 { ids(&self.offline) } else { Vec::new() })
            .with_unknown_tagged_fields(future_tags(tags))
    }

    fn ours(&self, version: i16) -> metadata::Partition {
        metadata::Partition {
            error: ErrorCode::from(self.error),
            index: self.index,
            leader: self.leader,
            leader_epoch: if version >= 7 { self.epoch } else { -1 },
            replicas: self.replicas.clone(),
            isr: self.isr.clone(),
        }
    }
}

#[derive(Clone, Debug)]
struct Outcome {
    partition: i32,
    error: i16,
    base_offset: i64,
    append_time: i64,
    log_start_offset: i64,
    record_errors: Vec<(i32, Option<String>)>,
    message: Option<String>,
    leader: (i32, i32),
}

prop_compose! {
    fn outcome()(
        partition: i32, error: i16, base_offset: i64, append_time: i64, log_start_offset: i64,
        record_errors in prop::collection::vec((any::<i32>(), prop::option::of(some::string())), 0..4),
        message in prop::option::of(some::string()),
        leader in prop_oneof![Just((-1, -1)), any::<(i32, i32)>()],
    ) -> Outcome {
        Outcome { partition, error, base_offset, append_time, log_start_offset, record_errors, message, leader }
    }
}

impl Outcome {
    fn theirs(&self, version: i16, tags: bool) -> PartitionProduceResponse {
        let mut theirs = PartitionProduceResponse::default()
            .with_index(self.partition)
            .with_error_code(self.error)
            .with_base_offset(self.base_offset)
            .with_log_append_time_ms(self.append_time)
            .with_unknown_tagged_fields(future_tags(tags));
        if version >= 5 {
            theirs.log_start_offset = self.log_start_offset;
        }
        if version >= 8 {
            theirs.error_message = self.message.as_deref().map(text);
            theirs.record_errors = self
                .record_errors
                .iter()
                .map(|(place, message)| {
                    BatchIndexAndErrorMessage::default()
                        .with_batch_index(*place)
                        .with_batch_index_error_message(message.as_deref().map(text))
                        .with_unknown_tagged_fields(future_tags(tags))
                })
                .collect();
        }
        if version >= 10 {
            theirs.current_leader = LeaderIdAndEpoch::default()
                .with_leader_id(self.leader.0.into())
                .with_leader_epoch(self.leader.1)
                .with_unknown_tagged_fields(future_tags(tags));
        }
        theirs
    }

    fn ours<'a>(&'a self, topic: produce::TopicRef<'a>, version: i16) -> produce::PartitionResponse<'a> {
        let record_errors = self.record_errors.iter().map(|(place, message)| (*place, message.as_deref()));
        produce::PartitionResponse {
            topic,
            partition: self.partition,
            error: ErrorCode::from(self.error),
            base_offset: self.base_offset,
            append_time: self.append_time,
            log_start_offset: if version >= 5 { self.log_start_offset } else { -1 },
            record_errors: if version >= 8 { record_errors.collect() } else { Vec::new() },
            message: if version >= 8 { self.message.as_deref() } else { None },
            current_leader: Some(self.leader).filter(|leader| version >= 10 && leader.0 >= 0),
        }
    }
}

/// Version 12 and later may name a topic by its id alone.
#[test]
fn a_topic_without_a_name() {
    for version in 12..=13 {
        let topic = MetadataResponseTopic::default().with_name(None).with_topic_id(Uuid::from_bytes([7; 16]));
        let frame = write_response(5, &MetadataResponse::default().with_topics(vec![topic]), version);
        let ours = metadata::decode(body(Api::Metadata, version, 5, &frame), version).unwrap();
        assert_eq!((ours.topics[0].name.as_str(), ours.topics[0].id), ("", [7; 16]));
    }
}

#[test]
fn a_producer_id_that_is_none_is_not_taken() {
    for (producer_id, epoch) in [(-1, 0), (7, -1)] {
        let theirs =
            InitProducerIdResponse::default().with_producer_id(producer_id.into()).with_producer_epoch(epoch);
        let frame = write_response(5, &theirs, 4);
        let error = init_producer_id::decode(body(Api::InitProducerId, 4, 5, &frame), 4).unwrap_err();
        assert!(error.0.contains("producer id"), "{error}");
    }
}

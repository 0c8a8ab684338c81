//! What brokers say of the cluster: each one what it knows, which need not be the truth.

use super::versions::frame;
use super::{code, Model};
use kafka_protocol::messages::metadata_request::MetadataRequest;
use kafka_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

/// What one broker knows of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub brokers: Vec<i32>,
    pub topics: BTreeMap<String, TopicView>,
}

#[derive(Clone, Debug)]
pub struct TopicView {
    pub id: [u8; 16],
    pub partitions: Vec<PartitionView>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

impl Model {
    /// How things are.
    pub(super) fn truth(&self) -> View {
        let topics = self.topics.keys().filter_map(|name| Some((name.clone(), self.true_topic(name)?)));
        View { brokers: self.present(), topics: topics.collect() }
    }

    fn true_topic(&self, name: &str) -> Option<TopicView> {
        let topic = self.topics.get(name)?;
        let partitions = topic.partitions.iter().map(|p| PartitionView {
            leader: p.leader,
            leader_epoch: p.leader_epoch,
            replicas: p.replicas.clone(),
            isr: p.isr.clone(),
        });
        Some(TopicView { id: topic.id, partitions: partitions.collect() })
    }

    /// What this broker knows of a topic.
    pub(super) fn known_topic(&self, broker: i32, name: &str) -> Option<TopicView> {
        match &self.brokers[&broker].view {
            Some(view) => view.topics.get(name).cloned(),
            None => self.true_topic(name),
        }
    }

    /// Whom this broker takes for a partition's leader, and under which epoch.
    pub(super) fn known_leader(&self, broker: i32, name: &str, index: i32) -> Option<(i32, i32)> {
        let index = usize::try_from(index).ok()?;
        match &self.brokers[&broker].view {
            Some(view) => {
                let known = view.topics.get(name)?.partitions.get(index)?;
                Some((known.leader, known.leader_epoch))
            }
            None => {
                let known = self.topics.get(name)?.partitions.get(index)?;
                Some((known.leader, known.leader_epoch))
            }
        }
    }

    /// Brokers that the cluster counts as its own.
    fn present(&self) -> Vec<i32> {
        self.brokers.iter().filter(|(_, broker)| !broker.fenced).map(|(&id, _)| id).collect()
    }

    /// From now on, whatever happens, this broker says what it knows at this moment.
    pub fn hold_view(&mut self, broker: i32) {
        let truth = self.truth();
        if let Some(broker) = self.brokers.get_mut(&broker) {
            broker.view.get_or_insert(truth);
        }
    }

    /// It knows how things are, again.
    pub fn release_view(&mut self, broker: i32) {
        if let Some(broker) = self.brokers.get_mut(&broker) {
            broker.view = None;
        }
    }

    /// Holds its view, in which this broker leads this partition.
    pub fn mislead(&mut self, broker: i32, topic: &str, partition: i32, leader: i32, leader_epoch: i32) {
        self.hold_view(broker);
        let view = self.brokers.get_mut(&broker).and_then(|broker| broker.view.as_mut());
        let known = view.and_then(|view| view.topics.get_mut(topic)).map(|topic| &mut topic.partitions);
        let known = known.and_then(|partitions| partitions.get_mut(usize::try_from(partition).ok()?));
        if let Some(known) = known {
            (known.leader, known.leader_epoch) = (leader, leader_epoch);
        }
    }

    /// The answer to a metadata request.
    pub(super) fn metadata(
        &mut self,
        broker: i32,
        version: i16,
        request: &MetadataRequest,
    ) -> MetadataResponse {
        let known_brokers = match &self.brokers[&broker].view {
            Some(view) => view.brokers.clone(),
            None => self.present(),
        };
        let topics = match &request.topics {
            // In the oldest version an empty list asks for all.
            Some(topics) if version > 0 || !topics.is_empty() => topics
                .iter()
                .map(|topic| match &topic.name {
                    Some(name) => {
                        let create = version < 4 || request.allow_auto_topic_creation;
                        self.topic_by_name(broker, version, name.as_str(), create)
                    }
                    None => self.topic_by_id(broker, version, topic.topic_id.as_bytes()),
                })
                .collect(),
            _ => {
                let names: Vec<_> = self.topics.keys().cloned().collect();
                names.iter().map(|name| self.topic_by_name(broker, version, name, false)).collect()
            }
        };
        let brokers: Vec<_> = known_brokers.iter().filter_map(|id| self.describe_broker(*id)).collect();
        let controller = known_brokers.first().copied().unwrap_or(-1);
        let cluster_id = self.brokers[&broker].cluster_id.clone();
        MetadataResponse::default()
            .with_brokers(brokers)
            .with_cluster_id(Some(StrBytes::from_string(cluster_id)))
            .with_controller_id(BrokerId(controller))
            .with_topics(topics)
    }

    fn describe_broker(&self, id: i32) -> Option<MetadataResponseBroker> {
        let broker = self.brokers.get(&id)?;
        let host = StrBytes::from_string(broker.host.clone());
        let described = MetadataResponseBroker::default().with_node_id(BrokerId(id)).with_host(host);
        let rack = broker.rack.clone().map(StrBytes::from_string);
        Some(described.with_port(broker.port).with_rack(rack))
    }

    fn topic_by_name(
        &mut self,
        broker: i32,
        version: i16,
        name: &str,
        create: bool,
    ) -> MetadataResponseTopic {
        let answer = |code| {
            let name = Some(TopicName(StrBytes::from_string(name.to_owned())));
            MetadataResponseTopic::default().with_name(name).with_error_code(code)
        };
        match self.known_topic(broker, name) {
            Some(topic) => describe_topic(answer(code::NONE), &topic, version),
            None if !is_topic_name(name) => answer(code::INVALID_TOPIC),
            None => {
                // Being made is not being known yet: the next request finds it.
                if create && self.options.auto_create.is_some() && !self.topics.contains_key(name) {
                    self.auto_create(name);
                }
                answer(code::UNKNOWN_TOPIC_OR_PARTITION)
            }
        }
    }

    fn topic_by_id(&mut self, broker: i32, version: i16, id: &[u8; 16]) -> MetadataResponseTopic {
        match self.names.get(id).cloned() {
            Some(name) => self.topic_by_name(broker, version, &name, false),
            None => {
                let id = id.to_vec().try_into().expect("16 bytes");
                let answer = MetadataResponseTopic::default().with_name(None).with_topic_id(id);
                answer.with_error_code(code::UNKNOWN_TOPIC_ID)
            }
        }
    }

    pub(super) fn encode_metadata(correlation: i32, version: i16, response: &MetadataResponse) -> Vec<u8> {
        frame(correlation, version >= 9, response, version)
    }
}

fn describe_topic(answer: MetadataResponseTopic, topic: &TopicView, version: i16) -> MetadataResponseTopic {
    let ids = |brokers: &[i32]| brokers.iter().map(|&id| BrokerId(id)).collect::<Vec<_>>();
    let partitions = topic.partitions.iter().zip(0..).map(|(partition, index)| {
        let code = if partition.leader < 0 { code::LEADER_NOT_AVAILABLE } else { code::NONE };
        MetadataResponsePartition::default()
            .with_error_code(code)
            .with_partition_index(index)
            .with_leader_id(BrokerId(partition.leader))
            .with_leader_epoch(partition.leader_epoch)
            .with_replica_nodes(ids(&partition.replicas))
            .with_isr_nodes(ids(&partition.isr))
    });
    let answer = answer.with_partitions(partitions.collect());
    match version >= 10 {
        true => answer.with_topic_id(topic.id.to_vec().try_into().expect("16 bytes")),
        false => answer,
    }
}

/// Kafka's rule for topic names.
fn is_topic_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 249 && name != "." && name != ".." && name.chars().all(legal)
}

//! Topics: made, deleted, moved about and read back.

use super::batch::Defect;
use super::partition::{Partition, Stored, TopicConfig};
use super::Model;

/// A topic.
#[derive(Debug)]
pub struct Topic {
    pub name: String,
    pub id: [u8; 16],
    pub config: TopicConfig,
    pub partitions: Vec<Partition>,
    /// Batches that came for each partition, repeats counted too.
    pub arrivals: Vec<u64>,
}

/// A message as it stands in the log.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedMessage {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// In milliseconds since 1970: the message's own, or the broker's where the topic says so.
    pub timestamp: i64,
    /// The key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// Headers in order; names may repeat, values may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// -1 without idempotence.
    pub sequence: i32,
}

/// Lengths only: keys and values never get into a log.
impl std::fmt::Debug for LoggedMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedMessage")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .field("key_bytes", &self.key.as_ref().map(Vec::len))
            .field("value_bytes", &self.value.as_ref().map(Vec::len))
            .field("headers", &self.headers.len())
            .field("producer_id", &self.producer_id)
            .field("producer_epoch", &self.producer_epoch)
            .field("sequence", &self.sequence)
            .finish()
    }
}

impl Model {
    /// Makes a topic, its leaders spread over the brokers. False: there is one of that name.
    pub fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication: usize,
        config: TopicConfig,
    ) -> bool {
        if self.topics.contains_key(name) {
            return false;
        }
        let ids = self.broker_ids();
        let replication = replication.clamp(1, ids.len().max(1));
        let first = self.next_topic as usize;
        let away: Vec<_> = self.brokers.iter().filter(|(_, b)| b.fenced).map(|(&id, _)| id).collect();
        let up: Vec<_> = self.brokers.iter().filter(|(_, b)| b.up).map(|(&id, _)| id).collect();
        let partitions: Vec<_> = (0..partitions.max(1) as usize)
            .map(|index| {
                // The first topic's partition 0 is led by the lowest broker id, partition 1 by the next one.
                let at = |replica: usize| ids[(first - 1 + index + replica) % ids.len()];
                let mut partition = Partition::new((0..replication).map(at).collect());
                for &id in &away {
                    partition.lose(id, |id| up.contains(&id));
                }
                partition
            })
            .collect();
        let arrivals = vec![0; partitions.len()];
        let id = (0x5eed_0000_0000_4000_8000_0000_0000_0000 | self.next_topic).to_be_bytes();
        self.next_topic += 1;
        let topic = Topic { name: name.to_owned(), id, config, partitions, arrivals };
        self.names.insert(id, name.to_owned());
        self.topics.insert(name.to_owned(), topic);
        true
    }

    pub(super) fn auto_create(&mut self, name: &str) {
        if let Some((partitions, config)) = self.options.auto_create.clone() {
            self.create_topic(name, partitions, self.options.replication, config);
        }
    }

    /// Deletes a topic. Its log can still be looked at in `former`.
    pub fn delete_topic(&mut self, name: &str) -> bool {
        let topic = self.topics.remove(name);
        let existed = topic.is_some();
        self.names.retain(|_, known| known != name);
        self.former.extend(topic);
        existed
    }

    /// More partitions.
    pub fn add_partitions(&mut self, name: &str, more: i32) {
        let ids = self.broker_ids();
        if let Some(topic) = self.topics.get_mut(name) {
            for _ in 0..more {
                let replication = topic.partitions[0].replicas.len();
                let first = topic.partitions.len();
                let replicas = (0..replication).map(|replica| ids[(first + replica) % ids.len()]);
                topic.partitions.push(Partition::new(replicas.collect()));
                topic.arrivals.push(0);
            }
        }
    }

    pub fn topic_names(&self) -> Vec<String> {
        self.topics.keys().cloned().collect()
    }

    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    pub fn topic_config(&mut self, name: &str) -> Option<&mut TopicConfig> {
        self.topics.get_mut(name).map(|topic| &mut topic.config)
    }

    pub fn partition(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topics.get_mut(topic)?.partitions.get_mut(usize::try_from(partition).ok()?)
    }

    /// `leader` (-1: nobody) leads the partition from now on; it joins the replicas if it was none.
    pub fn move_leader(&mut self, topic: &str, partition: i32, leader: i32) -> bool {
        let Some(partition) = self.partition(topic, partition) else {
            return false;
        };
        if leader >= 0 && !partition.replicas.contains(&leader) {
            partition.replicas.push(leader);
        }
        if leader >= 0 && !partition.isr.contains(&leader) {
            partition.isr.push(leader);
        }
        partition.lead(leader);
        true
    }
}

impl Partition {
    /// The messages in the log, in order of offsets. Err: which batch can't be read, and why.
    pub fn messages(&self, topic: &str, index: i32) -> Result<Vec<LoggedMessage>, (i64, Defect)> {
        let mut messages = Vec::new();
        for stored in &self.log {
            stored.messages(topic, index, &mut messages).map_err(|defect| (stored.base_offset, defect))?;
        }
        Ok(messages)
    }
}

impl Stored {
    fn messages(&self, topic: &str, partition: i32, out: &mut Vec<LoggedMessage>) -> Result<(), Defect> {
        let batch = &self.batch;
        for record in batch.records()? {
            let sequence = match batch.producer_id < 0 {
                true => -1,
                false => super::batch::sequence_plus(batch.sequence, record.offset_delta),
            };
            out.push(LoggedMessage {
                topic: topic.to_owned(),
                partition,
                offset: self.base_offset + i64::from(record.offset_delta),
                timestamp: self.append_time.unwrap_or(record.timestamp),
                key: record.key.map(Vec::from),
                value: record.value.map(Vec::from),
                headers: record.headers.into_iter().map(|(name, v)| (name, v.map(Vec::from))).collect(),
                producer_id: batch.producer_id,
                producer_epoch: batch.epoch,
                sequence,
            });
        }
        Ok(())
    }
}

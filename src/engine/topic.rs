//! One topic: its partitions, and its messages that have none yet.

use super::partitioner::Sticky;
use crate::delivery::block::Parked;
use crate::protocol::wire::Uuid;
use std::sync::Arc;
use std::time::Instant;

#[derive(Debug)]
pub struct Topic {
    pub name: Arc<str>,
    /// All zero: the cluster has none, or didn't say.
    pub id: Uuid,
    /// Its id before it was made anew: answers that are on their way may still name it.
    pub previous_id: Uuid,
    /// The engine's numbers of its partitions; empty: not known (yet).
    pub partitions: Vec<u32>,
    /// Since when the cluster says that it doesn't know the topic.
    pub unknown_since: Option<Instant>,
    /// Messages that wait for the topic, or for the partition that they name.
    pub parked: Vec<ParkedRun>,
    pub sticky: Sticky,
    pub last_used: Instant,
    /// Whether anybody has used it within `metadata.max.idle.ms`: then it is part of refreshes.
    pub in_use: bool,
    /// A broker's refusal said that our view of it is wrong; it is asked for until there is an answer.
    pub doubted: bool,
    /// After a batch was refused as too large: smaller ones, until then.
    pub smaller: Option<(usize, Instant)>,
    /// Why the cluster does not let us have it, in words.
    pub refusal: Option<String>,
    /// In how many questions it was named since it was last known: who was asked for least goes first.
    pub asked: u32,
    /// Whether a reminder is set.
    pub timer_set: bool,
}

/// Messages of one chunk that have no partition yet.
#[derive(Debug)]
pub struct ParkedRun {
    pub parked: Parked,
    /// In the chunk's format.
    pub bytes: Vec<u8>,
    pub opened: Instant,
    pub charge: u64,
    pub era: u64,
}

impl Topic {
    pub fn new(name: Arc<str>, now: Instant) -> Topic {
        Topic {
            name,
            id: [0; 16],
            previous_id: [0; 16],
            refusal: None,
            partitions: Vec::new(),
            unknown_since: None,
            parked: Vec::new(),
            sticky: Sticky::default(),
            last_used: now,
            in_use: true,
            doubted: false,
            smaller: None,
            asked: 0,
            timer_set: false,
        }
    }

    pub fn is_known(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// The largest batch that is tried now.
    pub fn batch_bytes(&self, configured: usize) -> usize {
        self.smaller.map_or(configured, |(bytes, _)| bytes.min(configured))
    }
}

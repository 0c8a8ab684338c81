//! What a partition remembers of idempotent producers, and what it makes of a batch by it: as real brokers do.

use super::batch::{sequence_plus, Batch};
use super::code;
use std::collections::{HashMap, VecDeque};

/// Batches remembered per producer.
const REMEMBERED: usize = 5;

/// The producers of one partition.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    known: HashMap<i64, Producer>,
}

#[derive(Clone, Debug)]
struct Producer {
    epoch: i16,
    /// The latest ones of this epoch, oldest first; never empty.
    batches: VecDeque<Remembered>,
}

/// A batch that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    first_sequence: i32,
    last_sequence: i32,
    pub base_offset: i64,
    /// Its append time, or where the topic keeps create times, its largest timestamp.
    pub timestamp: i64,
}

/// What is to be done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Append,
    /// It is there already.
    Duplicate(Remembered),
    Refuse(i16),
}

impl Producers {
    /// `refuse_unknown`: as brokers before 2.5 do, answer 59 to a sequence above 0 where nothing is remembered.
    pub fn admit(&self, batch: &Batch, refuse_unknown: bool) -> Admission {
        if batch.producer_id < 0 {
            return Admission::Append;
        }
        let Some(producer) = self.known.get(&batch.producer_id) else {
            return match refuse_unknown && batch.sequence != 0 {
                true => Admission::Refuse(code::UNKNOWN_PRODUCER_ID),
                // Any first sequence is taken: the broker can't know what retention took away.
                false => Admission::Append,
            };
        };
        if batch.epoch < producer.epoch {
            return Admission::Refuse(code::INVALID_PRODUCER_EPOCH);
        }
        if batch.epoch > producer.epoch {
            return match batch.sequence {
                0 => Admission::Append,
                _ => Admission::Refuse(code::OUT_OF_ORDER_SEQUENCE),
            };
        }
        let range = (batch.sequence, batch.last_sequence());
        let twin = producer.batches.iter().find(|b| (b.first_sequence, b.last_sequence) == range);
        if let Some(twin) = twin {
            return Admission::Duplicate(*twin);
        }
        let last = producer.batches.back().expect("never empty").last_sequence;
        match batch.sequence == sequence_plus(last, 1) {
            true => Admission::Append,
            false => Admission::Refuse(code::OUT_OF_ORDER_SEQUENCE),
        }
    }

    /// The batch was appended.
    pub fn remember(&mut self, batch: &Batch, base_offset: i64, timestamp: i64) {
        if batch.producer_id < 0 {
            return;
        }
        let producer = self
            .known
            .entry(batch.producer_id)
            .or_insert_with(|| Producer { epoch: batch.epoch, batches: VecDeque::new() });
        if producer.epoch != batch.epoch {
            producer.epoch = batch.epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == REMEMBERED {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Remembered {
            first_sequence: batch.sequence,
            last_sequence: batch.last_sequence(),
            base_offset,
            timestamp,
        });
    }

    /// Everything is forgotten, as when the producers' ids have expired.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

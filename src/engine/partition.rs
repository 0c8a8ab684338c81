//! One partition: its batches from birth to verdict, what may be in flight, and its sequences.
//!
//! The broker remembers five batches per producer and partition, and accepts any first sequence where it remembers
//! nothing. The rules here follow from that: see "Idempotence" in `docs/architecture.md`.

use super::batch::{sequence_after, Batch, Sequence, State};
use super::io::Settled;
use crate::error::Cause;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a broker remembers per producer and partition, and so the most that may be in flight.
pub const REMEMBERED: usize = 5;

/// After so long without an acknowledgement the broker may have lost what it remembered (retention can take the last
/// segment with this producer's batches), so one batch goes ahead alone again.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Partition {
    pub topic: u32,
    pub index: i32,
    /// None: no leader is known.
    pub leader: Option<i32>,
    /// -1: the cluster doesn't say.
    pub leader_epoch: i32,
    pub isr: Vec<i32>,
    /// Since when it has no leader.
    pub leaderless_since: Option<Instant>,
    /// Where messages are added.
    pub open: Option<Batch>,
    /// Linger is over for the open batch. It stays open until its request is made: under load it goes on filling.
    pub due: bool,
    /// Closed ones in order, those in flight among them.
    pub batches: VecDeque<Batch>,
    /// Got their verdict while in flight, and are not answered yet.
    pub tombstones: Vec<Tombstone>,
    /// Batches and tombstones in requests.
    pub in_flight: usize,
    pub sequencing: Sequencing,
    /// The topic keeps the broker's time, as far as is known.
    pub log_append_time: bool,
    /// Verdicts that come before their turn, by their batches' order: they are told in order.
    /// (Pieces of pieces may stand at the same place as what was taken out before: then both are kept.)
    pub held: BTreeMap<(u64, u32), Vec<Settled>>,
    pub mute: Option<Mute>,
    /// What its last failed attempt came to, since the last acknowledgement: what those behind it waited for.
    pub last_failure: Option<Cause>,
    /// Whether it stands in its leader's queue.
    pub queued: bool,
    /// Size of its last batch: the next one starts with such a buffer.
    pub last_len: usize,
    /// Number of the chunk that added to it last.
    pub chunk: u64,
    /// The reminders that are set.
    pub linger_set: bool,
    pub expire_set: bool,
}

/// A batch whose messages have their verdict, but whose request is not answered.
#[derive(Debug)]
pub struct Tombstone {
    pub id: u64,
    sequence: Option<Sequence>,
    records: u32,
}

/// A pause after a refusal.
#[derive(Debug)]
pub struct Mute {
    pub until: Instant,
    /// Refused as not the leader by this (leader, epoch) at the newest: only a newer one ends the pause early. None: any
    /// change of leader, epoch or in-sync replicas does.
    pub refused_by: Option<(i32, i32)>,
    /// What it waits for, in words.
    pub reason: Arc<str>,
}

/// Sequences under the producer id and epoch that the partition has adopted.
#[derive(Debug, Default)]
pub struct Sequencing {
    pub identity: Option<(i64, i16)>,
    next: i32,
    /// The sequence behind the last acknowledged record; None: nothing acknowledged under this identity.
    acked: Option<i32>,
    last_ack: Option<Instant>,
    /// A sequence was given out and will not come (again): nothing new is sent until nothing is in flight.
    pub hole: bool,
    /// The broker refused the sequence itself: the identity has to change before anything is sent.
    pub broken: bool,
}

impl Partition {
    pub fn new(topic: u32, index: i32) -> Partition {
        Partition {
            topic,
            index,
            leader: None,
            leader_epoch: -1,
            isr: Vec::new(),
            leaderless_since: None,
            open: None,
            due: false,
            batches: VecDeque::new(),
            tombstones: Vec::new(),
            in_flight: 0,
            sequencing: Sequencing::default(),
            log_append_time: false,
            held: BTreeMap::new(),
            mute: None,
            last_failure: None,
            queued: false,
            last_len: 0,
            chunk: 0,
            linger_set: false,
            expire_set: false,
        }
    }

    /// The open batch has lingered, since `at`.
    pub fn fall_due(&mut self, at: Instant) {
        if let Some(batch) = &mut self.open {
            self.due = true;
            batch.due_since.get_or_insert(at);
        }
    }

    /// Whether any message waits here for its verdict.
    pub fn has_messages(&self) -> bool {
        self.open.is_some() || !self.batches.is_empty()
    }

    /// Batches that wait: what the partitioner looks at.
    pub fn backlog(&self) -> u32 {
        self.batches.len() as u32 + u32::from(self.open.is_some())
    }

    /// The first batch that could be sent. None: nothing, or what comes first is not ready (nothing overtakes it).
    pub fn first_ready(&self) -> Option<usize> {
        let at = self.batches.iter().position(|batch| !batch.is_in_flight())?;
        (self.batches[at].state == State::Ready).then_some(at)
    }

    /// Whether the open batch is the next to go.
    pub fn wants_to_close(&self) -> bool {
        self.due && self.open.is_some() && self.batches.iter().all(Batch::is_in_flight)
    }

    /// How many batches may be in flight now.
    pub fn window(&self, now: Instant, idempotent: bool, max: usize) -> usize {
        let s = &self.sequencing;
        let alone = !idempotent
            || s.acked.is_none()
            || s.hole
            || s.broken
            || s.last_ack.is_none_or(|at| now.saturating_duration_since(at) > IDLE)
            || self.batches.iter().any(|batch| batch.tries.failed);
        if alone {
            1
        } else {
            max.clamp(1, REMEMBERED)
        }
    }

    /// Whether a request may take a batch from here, as far as the partition itself is concerned.
    pub fn may_send(&self, now: Instant, idempotent: bool, max: usize) -> bool {
        if self.mute.is_some() || self.sequencing.broken || self.sequencing.hole && self.in_flight > 0 {
            return false;
        }
        let something = self.first_ready().is_some() || self.wants_to_close();
        something && self.in_flight < self.window(now, idempotent, max)
    }

    /// Gives the batch its sequence if it has none; `current` is the producer's identity.
    pub fn stamp(&mut self, at: usize, current: (i64, i16)) {
        if self.batches[at].sequence.is_some() {
            return;
        }
        let nothing_stamped =
            self.in_flight == 0 && self.batches.iter().all(|batch| batch.sequence.is_none());
        let s = &mut self.sequencing;
        if s.identity.is_none() || nothing_stamped && s.identity != Some(current) {
            s.adopt(Some(current));
        }
        let (producer_id, epoch) = s.identity.unwrap_or(current);
        let batch = &mut self.batches[at];
        batch.sequence = Some(Sequence { producer_id, epoch, first: s.next });
        s.next = sequence_after(s.next, batch.records);
    }

    /// The broker has this batch (again).
    pub fn acknowledged(&mut self, sequence: Option<Sequence>, records: u32, now: Instant) {
        let s = &mut self.sequencing;
        s.last_ack = Some(now);
        self.last_failure = None;
        if let Some(sequence) = sequence.filter(|q| s.identity == Some((q.producer_id, q.epoch))) {
            s.acked = Some(sequence_after(sequence.first, records));
        }
    }

    /// The place of this batch if it is in flight.
    pub fn find_in_flight(&self, id: u64) -> Option<usize> {
        self.batches.iter().position(|batch| batch.id == id && batch.is_in_flight())
    }

    /// Takes a batch out for good. If it is in flight, a tombstone stays.
    pub fn remove(&mut self, at: usize) -> Option<Batch> {
        let batch = self.batches.remove(at)?;
        if batch.is_in_flight() {
            self.tombstones.push(Tombstone {
                id: batch.id,
                sequence: batch.sequence,
                records: batch.records,
            });
        }
        if batch.sequence.is_some() {
            self.sequencing.hole = true;
        }
        Some(batch)
    }

    /// The request of a tombstone came to its end; `stored`: the broker has it.
    pub fn bury(&mut self, id: u64, stored: bool, now: Instant) -> bool {
        let Some(at) = self.tombstones.iter().position(|t| t.id == id) else { return false };
        let tombstone = self.tombstones.swap_remove(at);
        self.in_flight -= 1;
        if stored {
            self.acknowledged(tombstone.sequence, tombstone.records, now);
        }
        true
    }

    /// Whether the identity must change now: nothing is in flight, and what would be sent next is not what the broker
    /// expects. A hole that turns out not to be one is closed.
    pub fn must_change_identity(&mut self) -> bool {
        if self.in_flight > 0 || !(self.sequencing.hole || self.sequencing.broken) {
            return false;
        }
        let stamped = self.batches.iter().find_map(|batch| batch.sequence);
        let s = &mut self.sequencing;
        let next = stamped.map_or(s.next, |q| q.first);
        let expected = s.acked.unwrap_or(0);
        if !s.broken && next == expected {
            s.hole = false;
            return false;
        }
        true
    }

    /// Starts anew under `identity`. Batches that were sent under the old one and may have been written cannot follow: their
    /// places are returned, last first, unless `again` (at least once was asked for).
    pub fn change_identity(&mut self, identity: Option<(i64, i16)>, again: bool) -> Vec<usize> {
        self.sequencing.adopt(identity);
        let mut lost = Vec::new();
        for (at, batch) in self.batches.iter_mut().enumerate().rev() {
            if batch.sequence.is_some() && batch.tries.ambiguous && !again {
                lost.push(at);
            }
            batch.sequence = None;
        }
        lost
    }

    /// The topic is another one now (deleted and made anew): the broker remembers nothing.
    pub fn forget_acknowledgements(&mut self) {
        self.sequencing.last_ack = None;
    }

    /// The place in the order of the first batch without a verdict.
    fn first_unsettled(&self) -> Option<(u64, u32)> {
        self.batches.front().or(self.open.as_ref()).map(|batch| batch.order)
    }

    /// Tells a verdict, or keeps it until those before it are known.
    pub fn tell(&mut self, order: (u64, u32), settled: Settled, out: &mut Vec<Settled>) {
        let first = self.first_unsettled();
        if self.held.is_empty() && first.is_none_or(|first| order < first) {
            out.push(settled);
            return;
        }
        self.held.entry(order).or_default().push(settled);
        while let Some(entry) =
            self.held.first_entry().filter(|entry| first.is_none_or(|first| *entry.key() < first))
        {
            out.extend(entry.remove());
        }
    }

    /// When its oldest message was accepted.
    pub fn oldest(&self) -> Option<Instant> {
        self.batches.front().or(self.open.as_ref()).map(|batch| batch.opened)
    }

    /// Bytes in its batches, before compression.
    pub fn bytes(&self) -> usize {
        self.batches.iter().chain(self.open.as_ref()).map(Batch::raw_len).sum()
    }

    pub fn messages(&self) -> u64 {
        self.batches.iter().chain(self.open.as_ref()).map(|batch| u64::from(batch.records)).sum()
    }
}

impl Sequencing {
    /// Whether a broker acknowledged anything under this identity.
    pub fn has_acknowledgement(&self) -> bool {
        self.acked.is_some()
    }

    fn adopt(&mut self, identity: Option<(i64, i16)>) {
        *self = Sequencing { identity, last_ack: self.last_ack, ..Sequencing::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::BufferPool;
    use super::*;

    const ID: (i64, i16) = (7, 0);

    fn with_batches(count: u64) -> Partition {
        let mut pool = BufferPool::new(0);
        let mut partition = Partition::new(0, 0);
        for id in 0..count {
            let mut batch = Batch::new(id, pool.take(1), Instant::now(), 0);
            for _ in 0..10 {
                batch.append(0, &[1, 1, 0], &mut pool);
            }
            batch.seal();
            partition.batches.push_back(batch);
        }
        partition
    }

    fn send(partition: &mut Partition, at: usize, now: Instant) {
        partition.stamp(at, ID);
        partition.batches[at].state = State::InFlight { since: now };
        partition.in_flight += 1;
    }

    fn ack(partition: &mut Partition, now: Instant) {
        let batch = partition.batches.pop_front().expect("one is there");
        partition.in_flight -= 1;
        partition.acknowledged(batch.sequence, batch.records, now);
    }

    #[test]
    fn one_goes_ahead_until_acknowledged_then_five() {
        let now = Instant::now();
        let mut partition = with_batches(8);
        assert!(partition.may_send(now, true, 5));
        send(&mut partition, 0, now);
        assert!(!partition.may_send(now, true, 5));
        ack(&mut partition, now);
        for at in 0..5 {
            assert!(partition.may_send(now, true, 5), "{at}");
            send(&mut partition, at, now);
        }
        assert!(!partition.may_send(now, true, 5));
        assert!(!partition.may_send(now, true, 9));
        let sequences: Vec<i32> =
            partition.batches.iter().filter_map(|b| b.sequence).map(|s| s.first).collect();
        assert_eq!(sequences, [10, 20, 30, 40, 50]);
    }

    #[test]
    fn one_alone_without_idempotence_after_failure_and_after_idleness() {
        let now = Instant::now();
        let mut partition = with_batches(3);
        send(&mut partition, 0, now);
        ack(&mut partition, now);
        assert_eq!(partition.window(now, true, 5), 5);
        assert_eq!(partition.window(now, false, 5), 1);
        assert_eq!(partition.window(now + IDLE + Duration::from_secs(1), true, 5), 1);
        partition.batches[1].tries.failed = true;
        assert_eq!(partition.window(now, true, 5), 1);
    }

    #[test]
    fn a_dropped_batch_leaves_a_hole_until_its_tombstone_was_stored_after_all() {
        let now = Instant::now();
        for stored in [true, false] {
            let mut partition = with_batches(3);
            send(&mut partition, 0, now);
            ack(&mut partition, now);
            send(&mut partition, 0, now);
            let dropped = partition.remove(0).expect("there");
            assert!(!partition.may_send(now, true, 5), "closed while in flight");
            assert!(!partition.must_change_identity(), "not before it is drained");
            assert!(partition.bury(dropped.id, stored, now));
            assert_eq!(partition.must_change_identity(), !stored);
            assert_eq!(partition.sequencing.hole, !stored);
        }
    }

    #[test]
    fn what_may_have_been_written_does_not_follow_into_a_new_epoch() {
        let now = Instant::now();
        for again in [false, true] {
            let mut partition = with_batches(4);
            send(&mut partition, 0, now);
            ack(&mut partition, now);
            send(&mut partition, 0, now);
            send(&mut partition, 1, now);
            partition.in_flight = 0;
            partition.batches[1].tries.ambiguous = true;
            for batch in &mut partition.batches {
                batch.state = State::Ready;
            }
            let lost = partition.change_identity(Some((7, 1)), again);
            assert_eq!(lost, if again { vec![] } else { vec![1] });
            partition.stamp(0, (7, 1));
            let sequence = Some(Sequence { producer_id: 7, epoch: 1, first: 0 });
            assert_eq!(partition.batches[0].sequence, sequence);
            assert_eq!(partition.window(now, true, 5), 1);
        }
    }

    #[test]
    fn a_new_identity_is_adopted_only_when_nothing_stamped_is_left() {
        let now = Instant::now();
        let mut partition = with_batches(3);
        send(&mut partition, 0, now);
        partition.stamp(1, (7, 1));
        assert_eq!(partition.batches[1].sequence, Some(Sequence { producer_id: 7, epoch: 0, first: 10 }));
        let mut partition = with_batches(3);
        send(&mut partition, 0, now);
        ack(&mut partition, now);
        partition.stamp(0, (7, 1));
        assert_eq!(partition.batches[0].sequence, Some(Sequence { producer_id: 7, epoch: 1, first: 0 }));
    }
}

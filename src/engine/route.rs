//! From chunks to batches: which partition each message belongs to, and what waits because there is none yet.

use super::batch::Batch;
use super::io::Actions;
use super::partitioner::{self, Load, Standing};
use super::timers::Timer;
use super::topic::{ParkedRun, Topic};
use super::Engine;
use crate::delivery::block::{Block, Parked, Placement};
use crate::intake::chunk::{Chunk, Messages};
use crate::intake::head::Head;
use std::sync::Arc;
use std::time::Instant;

/// What the messages of one chunk (or of one parked run) have in common.
struct Source {
    opened: Instant,
    /// Of a parked run, which keeps the era in which it came.
    era: Option<u64>,
}

impl Engine {
    /// Distributes a chunk's messages over the partitions' batches.
    pub(super) fn route(&mut self, now: Instant, chunk: &Chunk, actions: &mut Actions) {
        self.chunks += 1;
        let source = Source { opened: chunk.opened(), era: None };
        let mut placement = Placement::new(chunk.block());
        let mut last_topic = None;
        for (number, (head, tail)) in chunk.messages().enumerate() {
            let number = number as u32;
            if last_topic != Some(head.topic) {
                last_topic = Some(head.topic);
                self.use_topic(now, head.topic);
            }
            match self.partition_of(&head) {
                Some(at) => self.place(at, &mut placement, number, &head, tail, &source, actions),
                None => self.park(now, chunk.block(), number, &head, tail, source.opened),
            }
        }
    }

    /// Somebody wants to know whether these topics can be written to.
    pub(super) fn want(&mut self, now: Instant, topics: &[u32]) {
        for topic in topics {
            self.use_topic(now, *topic);
            if !self.topics[*topic as usize].is_known() {
                self.refresh.want(now);
            }
        }
        if self.refresh.last_success.is_none() {
            self.refresh.want(now);
        }
    }

    fn use_topic(&mut self, now: Instant, slot: u32) {
        while self.topics.len() <= slot as usize {
            let name = self.names.name(self.topics.len() as u32);
            self.slots.insert(name.clone(), self.topics.len() as u32);
            self.topics.push(Topic::new(name, now));
        }
        let topic = &mut self.topics[slot as usize];
        topic.last_used = now;
        if !topic.in_use {
            topic.in_use = true;
            // Its partitions may be others by now.
            self.refresh.want(now);
        }
    }

    /// None: not known yet.
    #[inline]
    fn partition_of(&mut self, head: &Head) -> Option<u32> {
        let topic = &self.topics[head.topic as usize];
        let count = topic.partitions.len() as u32;
        if count == 0 {
            return None;
        }
        let index = if head.partition >= 0 {
            head.partition as u32
        } else if head.key_len >= 0 && !self.settings.partitioner_ignore_keys {
            partitioner::keyed(head.key_hash, count)
        } else {
            self.sticky_partition(head, count)
        };
        self.topics[head.topic as usize].partitions.get(index as usize).copied()
    }

    /// Where a message without a key goes, and a note that it went there.
    #[inline]
    fn sticky_partition(&mut self, head: &Head, count: u32) -> u32 {
        let batch_bytes = self.settings.batch_bytes;
        let bytes = head.tail_len as usize;
        let topic = &mut self.topics[head.topic as usize];
        if let Some(current) = topic.sticky.current().filter(|current| *current < count) {
            let open = &self.partitions[topic.partitions[current as usize] as usize].open;
            if open.as_ref().is_some_and(|batch| batch.len_with(bytes) > batch_bytes) {
                topic.sticky.does_not_fit(bytes, batch_bytes);
            }
        }
        let index = match topic.sticky.current() {
            Some(index) if index < count => index,
            _ => self.stick(head.topic),
        };
        self.topics[head.topic as usize].sticky.added(bytes, batch_bytes);
        index
    }

    /// Chooses where messages without a key go for the next while.
    #[cold]
    fn stick(&mut self, slot: u32) -> u32 {
        let partitions = &self.topics[slot as usize].partitions;
        let loads: Vec<Load> = partitions.iter().map(|at| self.load(*at)).collect();
        self.topics[slot as usize].sticky.choose(&loads, &mut self.rng)
    }

    fn load(&self, at: u32) -> Load {
        let partition = &self.partitions[at as usize];
        let settings = &self.settings;
        let node = self.leader_of(partition);
        let standing = match (node, settings.partitioner_availability_timeout, &settings.client_rack) {
            (None, ..) => Standing::Leaderless,
            (Some(node), Some(timeout), _) if node.is_slow(self.last_advance, timeout) => Standing::Slow,
            (Some(node), _, Some(rack))
                if settings.partitioner_rack_aware && node.rack.as_ref() == Some(rack) =>
            {
                Standing::Near
            }
            _ => Standing::Good,
        };
        Load { standing, queued: if settings.partitioner_adaptive { partition.backlog() } else { 0 } }
    }

    /// Adds a message to its partition's open batch.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn place(
        &mut self,
        at: u32,
        placement: &mut Placement,
        number: u32,
        head: &Head,
        tail: &[u8],
        source: &Source,
        actions: &mut Actions,
    ) {
        let topic = &self.topics[head.topic as usize];
        let limit = topic.batch_bytes(self.settings.batch_bytes);
        let open = &self.partitions[at as usize].open;
        if open.as_ref().is_some_and(|batch| batch.len_with(tail.len()) > limit) {
            self.close(at, actions);
        }
        if self.partitions[at as usize].open.is_none() {
            self.open(at, source);
        }
        let partition = &mut self.partitions[at as usize];
        let Some(batch) = partition.open.as_mut() else { unreachable!("just opened") };
        if partition.chunk != self.chunks || batch.segments.is_empty() {
            partition.chunk = self.chunks;
            batch.segments.push(placement.segment(batch.records));
        }
        if let Some(segment) = batch.segments.last_mut() {
            placement.put(number, segment, batch.records);
        }
        batch.append(head.timestamp, tail, &mut self.pool);
    }

    fn open(&mut self, at: u32, source: &Source) {
        let era = match source.era {
            Some(era) => self.eras.enter_as(era),
            None => self.eras.enter(),
        };
        self.next_batch += 1;
        let partition = &mut self.partitions[at as usize];
        let buf = self.pool.take(partition.last_len);
        partition.open = Some(Batch::new(self.next_batch, buf, source.opened, era));
        partition.due = false;
        let hurry = self.settings.linger.is_zero() || self.pressure || self.stop.is_some();
        if hurry || self.eras.is_waited_for(era) {
            partition.fall_due(source.opened);
            self.fresh.push(at);
        } else if !partition.linger_set {
            partition.linger_set = true;
            self.timers.set(source.opened + self.settings.linger, Timer::Linger(at));
        }
        if let Some(timeout) = self.settings.delivery_timeout {
            let partition = &mut self.partitions[at as usize];
            if !partition.expire_set {
                partition.expire_set = true;
                self.timers.set(source.opened + timeout, Timer::Expire(at));
            }
        }
    }

    fn park(
        &mut self,
        now: Instant,
        block: &Arc<Block>,
        number: u32,
        head: &Head,
        tail: &[u8],
        opened: Instant,
    ) {
        let topic = &mut self.topics[head.topic as usize];
        if !topic.parked.last().is_some_and(|run| run.parked.is_of(block)) {
            let (parked, era) = (Parked::new(block), self.eras.enter());
            if let Some(before) = topic.parked.last_mut() {
                before.bytes.shrink_to_fit();
            }
            topic.parked.push(ParkedRun { parked, bytes: Vec::new(), opened, charge: 0, era });
            if !topic.is_known() && topic.asked == 0 {
                self.refresh.want_new(now);
            } else {
                self.refresh.want(now);
            }
            if !topic.timer_set {
                topic.timer_set = true;
                self.timers.set(now, Timer::Topic(head.topic));
            }
        }
        if let Some(run) = topic.parked.last_mut() {
            run.parked.add(number);
            run.charge += head.charge();
            let from = run.bytes.len();
            run.bytes.resize(from + crate::intake::head::HEAD_LEN, 0);
            if let Some(room) = run.bytes[from..].first_chunk_mut() {
                head.write(room);
            }
            run.bytes.extend_from_slice(tail);
        }
    }

    /// The topic's partitions are known (better): places what waited for that.
    pub(super) fn place_parked(&mut self, now: Instant, slot: u32, actions: &mut Actions) {
        let waiting = std::mem::take(&mut self.topics[slot as usize].parked);
        for run in waiting {
            self.chunks += 1;
            let source = Source { opened: run.opened, era: Some(run.era) };
            let block = run.parked.block().clone();
            let (mut placement, numbers) = run.parked.place();
            for (number, (head, tail)) in numbers.zip(Messages::new(&run.bytes)) {
                match self.partition_of(&head) {
                    Some(at) => {
                        self.place(at, &mut placement, number, &head, tail, &source, actions);
                        self.rejuvenate(at, &source);
                    }
                    None => self.park(now, &block, number, &head, tail, run.opened),
                }
            }
            self.eras.leave(run.era);
        }
        if !self.topics[slot as usize].parked.is_empty() {
            // A partition that does not exist is given a shorter time than a topic of which nothing is known.
            self.topics[slot as usize].timer_set = true;
            self.timers.set(now, Timer::Topic(slot));
        }
    }

    /// The open batch took in an older message than its first: it is as old as that.
    fn rejuvenate(&mut self, at: u32, source: &Source) {
        let Some(batch) = self.partitions[at as usize].open.as_mut() else { return };
        if let Some(era) = source.era.filter(|era| *era < batch.era) {
            self.eras.leave(batch.era);
            batch.era = self.eras.enter_as(era);
        }
        if source.opened < batch.opened {
            batch.opened = source.opened;
            if let Some(timeout) = self.settings.delivery_timeout {
                self.timers.set(source.opened + timeout, Timer::Expire(at));
            }
        }
        self.partitions[at as usize].fall_due(source.opened);
        self.fresh.push(at);
    }

    /// A partition's linger may be over.
    pub(super) fn on_linger(&mut self, now: Instant, at: u32) {
        let partition = &mut self.partitions[at as usize];
        partition.linger_set = false;
        let Some(batch) = partition.open.as_ref().filter(|_| !partition.due) else { return };
        let due = batch.opened + self.settings.linger;
        if due > now {
            partition.linger_set = true;
            self.timers.set(due, Timer::Linger(at));
            return;
        }
        partition.fall_due(due);
        self.enqueue(now, at);
    }

    /// Somebody waits: what is open is due.
    pub(super) fn end_lingering(&mut self, now: Instant) {
        for at in 0..self.partitions.len() as u32 {
            let partition = &mut self.partitions[at as usize];
            if partition.open.is_some() && !partition.due {
                partition.fall_due(now);
                self.enqueue(now, at);
            }
        }
    }
}

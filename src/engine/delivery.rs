//! Verdicts: each message gets exactly one, its charge goes back, and whoever asked is told.

use super::batch::{put_message, Batch};
use super::io::{Actions, Settled, SettledOutcome};
use super::timers::Timer;
use super::topic::ParkedRun;
use super::Engine;
use crate::delivery::block::{Charge, Outcome, Returned, Segment};
use crate::error::{Cause, DeliveryError, Fate};
use crate::intake::head::{FIXED_CHARGE, HEAD_LEN};
use std::sync::Arc;
use std::time::Instant;

impl Engine {
    /// The broker has the batch.
    pub(super) fn delivered(
        &mut self,
        now: Instant,
        at: u32,
        id: u64,
        base_offset: Option<i64>,
        append_time: Option<i64>,
        actions: &mut Actions,
    ) {
        let partition = &mut self.partitions[at as usize];
        if !partition.bury(id, true, now) {
            let Some(place) = partition.find_in_flight(id) else { return };
            partition.in_flight -= 1;
            self.settle_delivered(now, at, place, base_offset, append_time, actions);
        }
        self.go_on(now, at, actions);
    }

    fn settle_delivered(
        &mut self,
        now: Instant,
        at: u32,
        place: usize,
        base_offset: Option<i64>,
        append_time: Option<i64>,
        actions: &mut Actions,
    ) {
        let partition = &mut self.partitions[at as usize];
        let Some(mut batch) = partition.batches.remove(place) else { return };
        let mut append_time = append_time;
        if batch.tries.attempts == 0 {
            partition.log_append_time = append_time.is_some();
        } else if !partition.log_append_time && append_time == Some(batch.max_timestamp()) {
            // To a repeat that it recognises a broker answers with the largest timestamp of the batch, whoever made it.
            append_time = None;
        }
        partition.acknowledged(batch.sequence, batch.records, now);
        for later in &mut partition.batches {
            later.tries.recoveries = 0;
        }
        let index = partition.index;
        let topic = &self.topics[partition.topic as usize].name;
        for segment in batch.segments.drain(..) {
            segment.resolve(Outcome::Delivered {
                topic: topic.clone(),
                partition: index,
                base_offset,
                append_time,
            });
        }
        if self.callback {
            let settled = Settled {
                topic: topic.clone(),
                partition: Some(index),
                count: batch.records,
                outcome: SettledOutcome::Delivered { base_offset, append_time },
                charge: batch.charge,
            };
            partition.tell(batch.order, settled, &mut actions.settled);
        } else {
            actions.released += batch.charge;
        }
        self.stats.on_delivered(now, &batch);
        self.eras.leave(batch.era);
        batch.recycle(&mut self.pool);
    }

    /// Drops a batch that stands in its partition, and lets the partition go on.
    pub(super) fn drop_batch(
        &mut self,
        now: Instant,
        at: u32,
        place: usize,
        cause: Cause,
        actions: &mut Actions,
    ) {
        self.drop_only(now, at, place, cause, actions);
        self.go_on(now, at, actions);
    }

    pub(super) fn drop_only(
        &mut self,
        now: Instant,
        at: u32,
        place: usize,
        cause: Cause,
        actions: &mut Actions,
    ) {
        let fate = self.partitions[at as usize].batches[place].fate();
        if self.partitions[at as usize].batches[place].tries.failed {
            self.partitions[at as usize].mute = None; // it was this batch that waited
        }
        if let Some(batch) = self.partitions[at as usize].remove(place) {
            self.settle(now, at, batch, cause, fate, actions);
        }
    }

    /// The verdict on a batch that is in no partition's queue (any more).
    pub(super) fn settle_dropped(
        &mut self,
        now: Instant,
        at: u32,
        batch: Batch,
        cause: Cause,
        actions: &mut Actions,
    ) {
        let fate = batch.fate();
        self.settle(now, at, batch, cause, fate, actions);
    }

    fn settle(
        &mut self,
        now: Instant,
        at: u32,
        mut batch: Batch,
        cause: Cause,
        fate: Fate,
        actions: &mut Actions,
    ) {
        let partition = &self.partitions[at as usize];
        let (slot, index) = (partition.topic, partition.index);
        let error = Arc::new(DeliveryError {
            cause,
            fate,
            attempts: batch.tries.attempts + u32::from(batch.is_in_flight()),
            elapsed: now.saturating_duration_since(batch.opened),
            topic: self.topics[slot as usize].name.clone(),
            partition: Some(index),
        });
        self.note_drop(&error, u64::from(batch.records));
        let all = self.callback || self.stop.is_some();
        let messages = messages_by_segment(&batch, slot, index, |segment| all || segment.has_receipt());
        let mut returned = Vec::new();
        let mut charged = 0;
        for (segment, bytes) in batch.segments.drain(..).zip(messages) {
            let place = segment.place();
            let charge = charge_of(&bytes, segment.count());
            charged += charge;
            let charge = Charge::new(&self.budget, charge);
            let back = Returned::new(error.topic.clone(), Some(index), place, bytes.into(), charge);
            let back = Arc::new(back);
            segment.resolve(Outcome::Dropped { error: error.clone(), returned: back.clone() });
            returned.push(back);
        }
        actions.released += batch.charge.saturating_sub(charged);
        self.tell_dropped(error, batch.records, returned, Some((at, batch.order)), actions);
        self.eras.leave(batch.era);
        batch.recycle(&mut self.pool);
    }

    /// Drops messages that never had a partition.
    fn drop_parked(&mut self, now: Instant, slot: u32, run: ParkedRun, cause: Cause, actions: &mut Actions) {
        let error = Arc::new(DeliveryError {
            cause,
            fate: Fate::NotWritten,
            attempts: 0,
            elapsed: now.saturating_duration_since(run.opened),
            topic: self.topics[slot as usize].name.clone(),
            partition: None,
        });
        let count = run.parked.count();
        self.note_drop(&error, u64::from(count));
        let (mut placement, numbers) = run.parked.place();
        let mut segment = placement.segment(0);
        for (place, number) in numbers.enumerate() {
            placement.put(number, &mut segment, place as u32);
        }
        drop(placement);
        let charge = Charge::new(&self.budget, run.charge);
        let back = Arc::new(Returned::new(error.topic.clone(), None, 0, run.bytes.into(), charge));
        segment.resolve(Outcome::Dropped { error: error.clone(), returned: back.clone() });
        self.tell_dropped(error, count, vec![back], None, actions);
        self.eras.leave(run.era);
    }

    /// `turn`: the partition and the batch's place in its order.
    fn tell_dropped(
        &mut self,
        error: Arc<DeliveryError>,
        count: u32,
        returned: Vec<Arc<Returned>>,
        turn: Option<(u32, (u64, u32))>,
        actions: &mut Actions,
    ) {
        if let Cause::Stopped { .. } = error.cause {
            self.left.extend(returned.iter().map(|back| (error.clone(), back.clone())));
        }
        if self.callback {
            let (topic, partition) = (error.topic.clone(), error.partition);
            let outcome = SettledOutcome::Dropped { error, returned };
            let settled = Settled { topic, partition, count, outcome, charge: 0 };
            match turn {
                Some((at, order)) => self.partitions[at as usize].tell(order, settled, &mut actions.settled),
                None => actions.settled.push(settled),
            }
        }
    }

    /// A partition's oldest batch may be at its delivery timeout.
    pub(super) fn on_expire(&mut self, now: Instant, at: u32, actions: &mut Actions) {
        self.partitions[at as usize].expire_set = false;
        let Some(timeout) = self.settings.delivery_timeout else { return };
        let mut dropped = false;
        while self.partitions[at as usize].oldest().is_some_and(|opened| opened + timeout <= now) {
            let last = self.reason(now, at);
            if self.partitions[at as usize].batches.is_empty() {
                self.close_unpacked(at);
            }
            let batch = &self.partitions[at as usize].batches[0];
            let last = batch.tries.last.clone().or(last).map(Box::new);
            self.drop_only(now, at, 0, Cause::DeliveryTimeout { last }, actions);
            dropped = true;
        }
        let partition = &mut self.partitions[at as usize];
        if let Some(opened) = partition.oldest() {
            partition.expire_set = true;
            self.timers.set(opened + timeout, Timer::Expire(at));
        }
        if dropped {
            self.go_on(now, at, actions);
        }
    }

    /// Messages that wait for their topic, or whose topic has gone.
    pub(super) fn on_topic_timer(&mut self, now: Instant, slot: u32, actions: &mut Actions) {
        self.topics[slot as usize].timer_set = false;
        let grace = self.settings.unknown_topic_grace;
        let timeout = self.settings.delivery_timeout;
        let unknown = self.topics[slot as usize].unknown_since;
        if unknown.is_some_and(|since| since + grace <= now) {
            self.fail_topic(now, slot, &Cause::UnknownTopic, actions);
            let topic = &mut self.topics[slot as usize];
            topic.unknown_since = None;
            topic.in_use = false;
            return;
        }
        let known = self.topics[slot as usize].partitions.len() as i32;
        let mut next: Option<Instant> = None;
        for run in std::mem::take(&mut self.topics[slot as usize].parked) {
            let expires = timeout.map(|timeout| run.opened + timeout);
            let missing = (known > 0).then(|| run.opened + grace);
            if missing.is_some_and(|end| end <= now) {
                self.drop_parked(now, slot, run, Cause::UnknownPartition { partitions: known }, actions);
            } else if expires.is_some_and(|end| end <= now) {
                let last = self.reason_without_topic(slot).map(Box::new);
                self.drop_parked(now, slot, run, Cause::DeliveryTimeout { last }, actions);
            } else {
                next = [next, expires, missing].into_iter().flatten().min();
                self.topics[slot as usize].parked.push(run);
            }
        }
        if let Some(at) = next {
            self.topics[slot as usize].timer_set = true;
            self.timers.set(at, Timer::Topic(slot));
        }
    }

    /// Nothing of this topic can be delivered: drops what is not in flight.
    pub(super) fn fail_topic(&mut self, now: Instant, slot: u32, cause: &Cause, actions: &mut Actions) {
        for run in std::mem::take(&mut self.topics[slot as usize].parked) {
            self.drop_parked(now, slot, run, cause.clone(), actions);
        }
        for at in self.topics[slot as usize].partitions.clone() {
            self.drop_waiting(now, at, cause, actions);
        }
    }

    /// Drops what is in a partition and not in flight.
    pub(super) fn drop_waiting(&mut self, now: Instant, at: u32, cause: &Cause, actions: &mut Actions) {
        self.close_unpacked(at);
        let batches = &self.partitions[at as usize].batches;
        let waiting: Vec<usize> =
            (0..batches.len()).rev().filter(|&place| !batches[place].is_in_flight()).collect();
        for place in waiting.iter().rev().enumerate().map(|(gone, place)| place - gone) {
            self.drop_only(now, at, place, cause.clone(), actions);
        }
        if !waiting.is_empty() {
            self.go_on(now, at, actions);
        }
    }

    /// The stop's deadline is over: whatever is left gets its verdict.
    pub(super) fn drop_everything(&mut self, now: Instant, actions: &mut Actions) {
        if self.eras.is_empty() {
            return;
        }
        for slot in 0..self.topics.len() as u32 {
            let last = self.reason_without_topic(slot).map(Box::new);
            for run in std::mem::take(&mut self.topics[slot as usize].parked) {
                self.drop_parked(now, slot, run, Cause::Stopped { last: last.clone() }, actions);
            }
        }
        for at in 0..self.partitions.len() as u32 {
            self.close_unpacked(at);
            while let Some(batch) = self.partitions[at as usize].batches.front() {
                let last = batch.tries.last.clone().or_else(|| self.reason(now, at)).map(Box::new);
                self.drop_only(now, at, 0, Cause::Stopped { last }, actions);
            }
        }
    }

    /// What the stop dropped, for its report.
    pub fn leftovers(&mut self) -> Vec<(Arc<DeliveryError>, Arc<Returned>)> {
        std::mem::take(&mut self.left)
    }
}

/// A batch's messages in the chunk's format, those of each segment by themselves.
///
/// Only of those that are `wanted`: the others are gone for good, and so is their charge.
fn messages_by_segment(
    batch: &Batch,
    topic: u32,
    partition: i32,
    wanted: impl Fn(&Segment) -> bool,
) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = batch.segments.iter().map(|_| Vec::new()).collect();
    let wanted: Vec<bool> = batch.segments.iter().map(wanted).collect();
    if !wanted.contains(&true) {
        return segments;
    }
    let mut at = 0;
    let mut number = 0;
    let result = batch.each_record(|timestamp, tail| {
        while batch.segments.get(at).is_some_and(|segment| number >= segment.place() + segment.count()) {
            at += 1;
        }
        if let Some(out) = segments.get_mut(at).filter(|_| wanted[at]) {
            put_message(out, topic, partition, timestamp, tail);
        }
        number += 1;
    });
    if let Err(reason) = result {
        // Only what we packed ourselves is read here: a fault of the codec.
        log::error!("a dropped batch can't be handed back: {reason}");
    }
    segments
}

/// What these messages took from the budget.
fn charge_of(bytes: &[u8], count: u32) -> u64 {
    debug_assert!(bytes.is_empty() || bytes.len() >= count as usize * HEAD_LEN);
    if bytes.is_empty() {
        0
    } else {
        bytes.len() as u64 + u64::from(count) * FIXED_CHARGE
    }
}

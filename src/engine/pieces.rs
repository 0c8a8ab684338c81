//! Batches that are cut: because they are too large, or because some of their records are bad.

use super::batch::{sequence_after, Batch, Sequence};
use super::io::Actions;
use super::retry::Failure;
use super::seal::pack;
use super::Engine;
use crate::error::Cause;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After a batch was too large, its topic gets smaller ones for so long; then the broker's limit may be another.
const SMALLER_FOR: Duration = Duration::from_secs(300);

/// The smallest target that a refusal sets.
const SMALLEST_TARGET: usize = 1 << 10;

impl Engine {
    /// The broker finds the batch too large: its halves go instead, under the sequences that it had.
    pub(super) fn split(&mut self, now: Instant, at: u32, place: usize, actions: &mut Actions) {
        let batch = &self.partitions[at as usize].batches[place];
        let (records, half) = (batch.records, batch.raw_len() / 2);
        let mut sizes = Vec::with_capacity(records as usize);
        if let Err(reason) = batch.each_record(|_, tail| sizes.push(tail.len())) {
            return self.drop_batch(now, at, place, Cause::Compression { reason: reason.into() }, actions);
        }
        let target: usize = sizes.iter().sum::<usize>() / 2;
        let mut first = 0;
        let cut = sizes
            .iter()
            .take_while(|size| {
                first += **size;
                first <= target
            })
            .count();
        let cut = (cut as u32).clamp(1, records - 1);
        let topic = &mut self.topics[self.partitions[at as usize].topic as usize];
        topic.smaller = Some((half.max(SMALLEST_TARGET), now + SMALLER_FOR));
        let pieces = self.cut(at, place, 2, |p| if p < cut { (0, p) } else { (1, p - cut) });
        self.stats.splits += 1;
        let parent = self.partitions[at as usize].batches.remove(place);
        let sequence = parent.as_ref().and_then(|parent| parent.sequence);
        for (number, mut piece) in pieces.into_iter().enumerate() {
            piece.sequence =
                sequence.map(|s| Sequence { first: sequence_after(s.first, number as u32 * cut), ..s });
            self.partitions[at as usize].batches.insert(place + number, piece);
        }
        self.finish(parent);
    }

    /// The broker named bad records: they are dropped, the others go on.
    pub(super) fn thin_out(
        &mut self,
        now: Instant,
        at: u32,
        place: usize,
        failure: Failure,
        actions: &mut Actions,
    ) {
        let records = self.partitions[at as usize].batches[place].records;
        let mut bad: BTreeMap<u32, Option<Arc<str>>> = BTreeMap::new();
        for (number, words) in failure.named {
            match u32::try_from(number) {
                Ok(number) if number < records && bad.insert(number, words).is_none() => {}
                // Outside of the batch, or twice: then nothing of it can be believed.
                _ => return self.drop_batch(now, at, place, failure.cause, actions),
            }
        }
        let all = bad.len() == records as usize;
        if bad.is_empty() || all && bad.values().all(Option::is_none) {
            return self.drop_batch(now, at, place, failure.cause, actions);
        }
        if self.partitions[at as usize].batches[place].each_record(|_, _| ()).is_err() {
            return self.drop_batch(now, at, place, failure.cause, actions);
        }
        // One group for the good ones, one for each bad one: each has its own words.
        let groups: Vec<u32> = bad.keys().copied().collect();
        let assign = |p: u32| match groups.binary_search(&p) {
            Ok(group) => (group + 1, 0),
            Err(bad_before) => (0, p - bad_before as u32),
        };
        let mut pieces = self.cut(at, place, groups.len() + 1, assign);
        let parent = self.partitions[at as usize].batches.remove(place);
        let bad_ones = pieces.split_off(1);
        if let Some(mut good) = pieces.pop_if(|_| !all) {
            good.sequence = parent.as_ref().and_then(|parent| parent.sequence);
            self.partitions[at as usize].batches.insert(place, good);
        }
        let partition = &mut self.partitions[at as usize];
        if parent.as_ref().is_some_and(|parent| parent.sequence.is_some()) {
            // Fewer records than the sequences that were given out: all of what follows is numbered anew.
            partition.sequencing.hole = true;
            partition.sequencing.broken |= !all;
        }
        for (piece, words) in bad_ones.into_iter().zip(bad.into_values()) {
            let cause = match (&failure.cause, words) {
                (Cause::Refused { code, broker, .. }, Some(words)) => {
                    Cause::Refused { code: *code, message: Some(words), broker: *broker }
                }
                (cause, _) => cause.clone(),
            };
            self.settle_dropped(now, at, piece, cause, actions);
        }
        // Where all were bad, the batch of the good ones is empty.
        self.finish(pieces.pop());
        self.finish(parent);
    }

    /// Makes new batches of a batch's records: record `p` goes to batch `assign(p).0`, in order. The old one stays behind
    /// without segments.
    fn cut(
        &mut self,
        at: u32,
        place: usize,
        count: usize,
        assign: impl Fn(u32) -> (usize, u32),
    ) -> Vec<Batch> {
        let partition = &mut self.partitions[at as usize];
        let parent = &mut partition.batches[place];
        let segments = std::mem::take(&mut parent.segments);
        let mut pieces: Vec<Batch> = (0..count)
            .map(|_| {
                self.next_batch += 1;
                let buf = self.pool.take(parent.raw_len() / count);
                let mut piece =
                    Batch::new(self.next_batch, buf, parent.opened, self.eras.enter_as(parent.era));
                piece.tries = parent.tries.clone();
                piece
            })
            .collect();
        let mut number = 0;
        let readable = parent.each_record(|timestamp, tail| {
            let piece = &mut pieces[assign(number).0];
            if piece.records == 0 {
                piece.order = (parent.order.0, parent.order.1 + number);
            }
            piece.append(timestamp, tail, &mut self.pool);
            number += 1;
        });
        debug_assert!(readable.is_ok(), "it was read before it was cut");
        for segment in segments {
            for (group, piece) in segment.regroup(&assign) {
                pieces[group].segments.push(piece);
            }
        }
        let (codec, level) = self.settings.compression;
        for piece in &mut pieces {
            pack(piece, codec, level, &mut self.pool);
        }
        pieces
    }

    /// The batch that was cut is done with: its messages live on in the pieces.
    fn finish(&mut self, parent: Option<Batch>) {
        if let Some(parent) = parent {
            self.eras.leave(parent.era);
            parent.recycle(&mut self.pool);
        }
    }
}

//! What became of a chunk's messages: one block of outcomes for all of its receipts.
//!
//! A chunk feeds many partitions, so the block keeps *runs*: messages of the chunk that went one after the other into the
//! same batch. A run names a *segment* (the chunk's share of one batch), and a segment has one outcome. A message's
//! offset is its segment's base offset plus its place in the batch.
//!
//! Nothing here loses a verdict: a segment, a parked message or a chunk that is dropped without one resolves as lost.

use super::origin::Origin;
use crate::error::DeliveryError;
use crate::intake::budget::Budget;
use crate::intake::chunk::Messages;
use crate::intake::head::{decode_tail, Head};
use crate::message::OwnedMessage;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Instant;

/// The verdict on one segment.
#[derive(Clone, Debug)]
pub enum Outcome {
    Delivered {
        topic: Arc<str>,
        partition: i32,
        /// Of the batch's first record.
        base_offset: Option<i64>,
        /// The broker's timestamp, where it set its own.
        append_time: Option<i64>,
    },
    Dropped {
        error: Arc<DeliveryError>,
        returned: Arc<Returned>,
    },
    /// The worker died before it learned what became of the batch.
    Lost,
}

/// `count` messages from number `first` of the chunk, the first of them `place` records into its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u32,
    pub count: u32,
    pub segment: u32,
    pub place: u32,
}

/// The outcomes of a chunk's messages.
#[derive(Default)]
pub struct Block {
    state: Mutex<State>,
    /// None in tests that have no producer.
    origin: Option<Arc<Origin>>,
}

#[derive(Default)]
struct State {
    /// Ascending by `first`.
    runs: Vec<Run>,
    outcomes: Vec<Option<Outcome>>,
    /// Somebody has taken the messages over: they have been placed, or wait for their topic.
    touched: bool,
    /// Messages that are in no run will never be in one.
    abandoned: bool,
    /// Callers inside `wait`; almost always none.
    waiting: Vec<Waiting>,
}

/// A caller that sleeps until its messages have their verdicts. Each is woken by itself and once: a chunk may have a hundred
/// of them, and news for each of its partitions.
struct Waiting {
    first: u32,
    count: u32,
    thread: Thread,
}

/// Up to here runs are put into their places one by one.
const FEW: usize = 16;

impl State {
    /// Takes over `more`. Topics that had to wait come one by one, each with few runs: sorting for each of thousands would
    /// cost seconds.
    fn add_runs(&mut self, more: &mut Vec<Run>) {
        if self.runs.is_empty() {
            std::mem::swap(&mut self.runs, more);
        } else if more.len() <= FEW {
            for run in more.drain(..) {
                let at = self.runs.partition_point(|before| before.first < run.first);
                self.runs.insert(at, run);
            }
        } else {
            self.runs.append(more);
            self.runs.sort_unstable_by_key(|run| run.first);
        }
    }

    /// None: not known yet. Otherwise the segment's outcome and the message's place in the batch.
    fn outcome(&self, message: u32) -> Option<(&Outcome, u32)> {
        let at = self.runs.partition_point(|run| run.first <= message);
        let run = at.checked_sub(1).map(|at| self.runs[at]).filter(|run| message - run.first < run.count);
        match run {
            Some(run) => {
                let outcome = self.outcomes.get(run.segment as usize)?.as_ref()?;
                Some((outcome, run.place + (message - run.first)))
            }
            None => self.abandoned.then_some((&Outcome::Lost, 0)),
        }
    }

    fn is_settled(&self, first: u32, count: u32) -> bool {
        // From the last to the first: the last one is usually the last to be known.
        (first..first + count).rev().all(|message| self.outcome(message).is_some())
    }
}

impl Block {
    pub fn of(origin: Arc<Origin>) -> Block {
        Block { origin: Some(origin), ..Block::default() }
    }

    /// A fresh one for the same producer.
    pub fn successor(&self) -> Block {
        Block { origin: self.origin.clone(), ..Block::default() }
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// Whether all of these messages have their verdict.
    pub fn is_settled(&self, first: u32, count: u32) -> bool {
        self.state.lock().is_settled(first, count)
    }

    /// Sleeps until all of these messages have their verdict (true) or `deadline` has passed (false; none: no end).
    pub fn wait(&self, first: u32, count: u32, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        if state.is_settled(first, count) {
            return true;
        }
        let thread = std::thread::current();
        let me = thread.id();
        state.waiting.push(Waiting { first, count, thread });
        loop {
            drop(state);
            match deadline {
                Some(deadline) => {
                    std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()))
                }
                None => std::thread::park(),
            }
            state = self.state.lock();
            // Whoever settles them takes the entry out. Others may wake this thread for reasons of their own.
            let is_settled = state.is_settled(first, count);
            if is_settled || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                state.waiting.retain(|waiting| waiting.thread.id() != me);
                return is_settled;
            }
        }
    }

    /// The verdict on one message, with its place in the batch; None while it is not known.
    pub fn outcome(&self, message: u32) -> Option<(Outcome, u32)> {
        self.state.lock().outcome(message).map(|(outcome, place)| (outcome.clone(), place))
    }

    /// Messages that are in no run yet never will be: they resolve as lost.
    pub fn abandon(&self) {
        self.change(|state| state.abandoned = true);
    }

    /// The chunk is gone: if nobody took its messages over, nobody will.
    pub fn abandon_if_untouched(&self) {
        self.change(|state| state.abandoned |= !state.touched);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        if state.waiting.is_empty() {
            return;
        }
        let (done, waiting) = std::mem::take(&mut state.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|waiting| state.is_settled(waiting.first, waiting.count));
        state.waiting = waiting;
        drop(state);
        done.iter().for_each(|waiting| waiting.thread.unpark());
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Block")
    }
}

/// Collects where the messages of a chunk (or those of it that had to wait for their topic) go.
pub struct Placement {
    block: Arc<Block>,
    runs: Vec<Run>,
    /// How many segments the block has.
    segments: u32,
}

impl Placement {
    pub fn new(block: &Arc<Block>) -> Placement {
        let mut state = block.state.lock();
        state.touched = true;
        let segments = state.outcomes.len() as u32;
        // The usual case is a fresh chunk: its runs need no merging.
        let runs = if state.runs.is_empty() { std::mem::take(&mut state.runs) } else { Vec::new() };
        drop(state);
        Placement { block: block.clone(), runs, segments }
    }

    /// The chunk's share of one more batch, of which `place` records are there already.
    pub fn segment(&mut self, place: u32) -> Segment {
        self.segments += 1;
        Segment { block: self.block.clone(), index: self.segments - 1, place, count: 0, resolved: false }
    }

    /// Message `number` is the next record of `segment`, `place` records into its batch.
    #[inline]
    pub fn put(&mut self, number: u32, segment: &mut Segment, place: u32) {
        segment.count += 1;
        match self.runs.last_mut() {
            Some(run) if run.segment == segment.index && run.first + run.count == number => run.count += 1,
            _ => self.runs.push(Run { first: number, count: 1, segment: segment.index, place }),
        }
    }
}

/// The block learns it here, whether the placing came to its end or not.
impl Drop for Placement {
    fn drop(&mut self) {
        let mut runs = std::mem::take(&mut self.runs);
        let segments = self.segments as usize;
        self.block.change(|state| {
            state.add_runs(&mut runs);
            if state.outcomes.len() < segments {
                state.outcomes.resize(segments, None);
            }
            // In the middle of a chunk: nobody will go on with it.
            state.abandoned |= std::thread::panicking();
        });
    }
}

/// A chunk's share of one batch, on its way to an outcome: `count` records from `place` on.
#[derive(Debug)]
pub struct Segment {
    block: Arc<Block>,
    index: u32,
    place: u32,
    count: u32,
    resolved: bool,
}

impl Segment {
    /// Its first record's place in the batch.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// How many records of the batch it covers.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether anybody could still ask: if not, dropped messages need not be handed back.
    pub fn has_receipt(&self) -> bool {
        // The segments of the block that are still on their way hold it too; then this says yes too often, which only
        // costs a copy.
        Arc::strong_count(&self.block) > 1
    }

    pub fn resolve(mut self, outcome: Outcome) {
        self.set(outcome);
        self.resolved = true;
    }

    /// Hands its records over to new segments when its batch is split or thinned out: the record at `place` goes to batch
    /// `assign(place).0`, where its place is `assign(place).1`. Returns each new segment with the number of its batch.
    pub fn regroup(mut self, assign: impl Fn(u32) -> (usize, u32)) -> Vec<(usize, Segment)> {
        self.resolved = true;
        let mut pieces: Vec<(usize, Segment)> = Vec::new();
        let block = self.block.clone();
        block.change(|state| {
            let old: Vec<Run> = state.runs.iter().copied().filter(|run| run.segment == self.index).collect();
            state.runs.retain(|run| run.segment != self.index);
            for (number, place) in
                old.iter().flat_map(|run| (0..run.count).map(|i| (run.first + i, run.place + i)))
            {
                let (batch, place) = assign(place);
                let at = pieces.iter().position(|(b, _)| *b == batch).unwrap_or_else(|| {
                    let index = state.outcomes.len() as u32;
                    state.outcomes.push(None);
                    let piece = Segment { block: block.clone(), index, place, count: 0, resolved: false };
                    pieces.push((batch, piece));
                    pieces.len() - 1
                });
                let piece = &mut pieces[at].1;
                piece.count += 1;
                match state.runs.last_mut() {
                    Some(run)
                        if run.segment == piece.index
                            && run.first + run.count == number
                            && run.place + run.count == place =>
                    {
                        run.count += 1;
                    }
                    _ => state.runs.push(Run { first: number, count: 1, segment: piece.index, place }),
                }
            }
            state.runs.sort_unstable_by_key(|run| run.first);
        });
        pieces
    }

    fn set(&self, outcome: Outcome) {
        let slot = self.index as usize;
        self.block.change(|state| {
            if state.outcomes.len() <= slot {
                state.outcomes.resize(slot + 1, None); // dropped before its placement was
            }
            state.outcomes[slot] = Some(outcome);
        });
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if !self.resolved {
            self.set(Outcome::Lost);
        }
    }
}

/// Messages of a chunk that have no partition yet.
#[derive(Debug)]
pub struct Parked {
    block: Arc<Block>,
    /// First number and count of each run.
    numbers: Vec<(u32, u32)>,
    placed: bool,
}

impl Parked {
    pub fn new(block: &Arc<Block>) -> Parked {
        block.state.lock().touched = true;
        Parked { block: block.clone(), numbers: Vec::new(), placed: false }
    }

    /// Message `number` waits too.
    pub fn add(&mut self, number: u32) {
        match self.numbers.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => self.numbers.push((number, 1)),
        }
    }

    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub fn is_of(&self, block: &Arc<Block>) -> bool {
        Arc::ptr_eq(&self.block, block)
    }

    pub fn count(&self) -> u32 {
        self.numbers.iter().map(|(_, count)| count).sum()
    }

    /// They are placed now: where to, and their numbers in order.
    pub fn place(mut self) -> (Placement, impl Iterator<Item = u32>) {
        self.placed = true;
        let numbers = std::mem::take(&mut self.numbers);
        (Placement::new(&self.block), numbers.into_iter().flat_map(|(first, count)| first..first + count))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if !self.placed {
            self.block.abandon();
        }
    }
}

/// The bytes of dropped messages, on their way back to whoever sent them. They stay charged until this is gone.
pub struct Returned {
    topic: Arc<str>,
    partition: Option<i32>,
    /// Place of the first message in its batch.
    first_place: u32,
    /// Whole messages in the chunk's format.
    bytes: Box<[u8]>,
    _charge: Charge,
}

impl Returned {
    pub fn new(
        topic: Arc<str>,
        partition: Option<i32>,
        first_place: u32,
        bytes: Box<[u8]>,
        charge: Charge,
    ) -> Returned {
        Returned { topic, partition, first_place, bytes, _charge: charge }
    }

    /// All messages in order.
    pub fn messages(&self) -> impl Iterator<Item = OwnedMessage> + '_ {
        Messages::new(&self.bytes).map(|(head, tail)| self.decode(&head, tail))
    }

    /// How many messages these are.
    pub fn len(&self) -> usize {
        Messages::new(&self.bytes).count()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The message at this place of its batch.
    pub fn message(&self, place: u32) -> Option<OwnedMessage> {
        // Those before it are skipped by their lengths, not decoded.
        let (head, tail) = Messages::new(&self.bytes).nth(place.checked_sub(self.first_place)? as usize)?;
        Some(self.decode(&head, tail))
    }

    fn decode(&self, head: &Head, tail: &[u8]) -> OwnedMessage {
        let parts = decode_tail(tail).expect("what was encoded here can be decoded here");
        OwnedMessage {
            topic: self.topic.to_string(),
            partition: self.partition.or((head.partition >= 0).then_some(head.partition)),
            timestamp: head.timestamp,
            ..parts
        }
    }
}

impl fmt::Debug for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Returned({} bytes)", self.bytes.len())
    }
}

/// Bytes taken from the budget, given back when this is dropped.
pub struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// Takes over `bytes` that were reserved before.
    pub fn new(budget: &Arc<Budget>, bytes: u64) -> Charge {
        Charge { budget: budget.clone(), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests;

//! What has to be looked at again, and when. An entry is a reminder, not a decision: whoever is woken looks for itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A partition's open batch has lingered.
    Linger(u32),
    /// A partition's oldest batch is at its delivery timeout.
    Expire(u32),
    /// A partition has waited long enough after a refusal.
    Unmute(u32),
    /// Messages that wait for their topic.
    Topic(u32),
}

/// Each user keeps at most one entry of a kind (it remembers that it has one), so the heap stays small.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Timer)>>,
}

impl Timers {
    pub fn set(&mut self, at: Instant, timer: Timer) {
        self.heap.push(Reverse((at, timer)));
    }

    /// The next one that is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, timer))| timer)
    }

    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

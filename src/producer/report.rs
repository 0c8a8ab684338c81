//! What `stop` comes to.

use crate::control::Leftover;
use crate::error::Dropped;
use std::fmt;
use std::sync::Arc;

/// What a `stop` came to.
#[derive(Clone, Debug)]
#[must_use = "says which messages were left"]
#[non_exhaustive]
pub struct StopReport {
    /// How it ended.
    pub end: StopEnd,
    /// Messages that had no verdict at the deadline and were dropped for it. If several threads stop, one of them gets
    /// these; the others get none.
    pub left: Leftovers,
    /// How many were left: the same for every call.
    pub left_count: u64,
}

/// How a `stop` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopEnd {
    /// Every message has its verdict, and the callback has heard of all.
    Clean,
    /// The deadline came first: messages were left (see the report), or the callback still had some to hear of.
    Deadline,
    /// Called on the callback's thread, which it would wait for. Nothing was done: stop from another thread, or drop the
    /// last handle.
    WouldDeadlock,
    /// The worker thread died: a fault of this crate. Every message without a verdict got one that says so.
    WorkerDied {
        /// The panic's text.
        reason: Arc<str>,
    },
    /// This process is a forked child: the producer belongs to its parent. Nothing was done.
    Forked,
}

impl StopReport {
    pub(super) fn nothing_done(end: StopEnd) -> StopReport {
        StopReport { end, left: Leftovers::default(), left_count: 0 }
    }

    /// Whether every message had its verdict (and the callback heard of it) within the deadline.
    pub fn is_clean(&self) -> bool {
        self.end == StopEnd::Clean
    }
}

/// Messages that a `stop` left behind, in order per partition. Their bytes are kept as they were and copied out one message at
/// a time.
#[derive(Clone, Default)]
pub struct Leftovers {
    runs: Vec<Leftover>,
    len: usize,
}

impl Leftovers {
    pub(super) fn new(runs: Vec<Leftover>) -> Leftovers {
        let len = runs.iter().map(|run| run.returned.len()).sum();
        Leftovers { runs, len }
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The messages, each with the reason.
    pub fn iter(&self) -> impl Iterator<Item = Dropped> + '_ {
        let dropped = |run: &Leftover, message| Dropped { error: run.error.clone(), message };
        self.runs
            .iter()
            .flat_map(move |run| run.returned.messages().map(move |message| dropped(run, message)))
    }
}

impl fmt::Debug for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leftovers({} messages)", self.len)
    }
}

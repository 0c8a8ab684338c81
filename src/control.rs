//! What callers ask of the worker besides taking their messages, and what it tells them.
//!
//! A caller puts its wish into `State`, rings, and sleeps until the worker (or, for a flush, the callback's thread behind it)
//! has done it. The worker takes the wishes *before* it takes messages: whoever asks has handed its messages over before.

use crate::delivery::block::Returned;
use crate::delivery::receipt::deadline_after;
use crate::error::DeliveryError;
use crate::stats::{Stats, Status};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shared by the producer's handles, its worker and its callback's thread.
#[derive(Default)]
pub struct Control {
    /// Whether there are wishes in `state` that the worker has not taken.
    asked: AtomicBool,
    /// Whether somebody waits for topics.
    wanted: AtomicBool,
    state: Mutex<State>,
    /// Callers sleep here, all in one: they are few, and what they wait for is rare.
    changed: Condvar,
    /// Messages that have their verdict, as the worker counted last.
    settled: AtomicU64,
    /// How often the callback panicked.
    callback_panics: AtomicU64,
}

#[derive(Default)]
struct State {
    asks: Asks,
    /// Flushes that aren't done.
    flushing: BTreeSet<u64>,
    wants: Vec<Want>,
    /// The next ticket of a flush, a want or a question.
    next: u64,
    /// The earliest deadline that a `stop` gave.
    stop: Option<Instant>,
    /// Somebody will get the report of what was left.
    attended: bool,
    /// The snapshot that was asked for last, and the one that was made last.
    snapshots_asked: u64,
    snapshots_made: u64,
    snapshot: Snapshot,
    end: Option<End>,
    /// The callback's thread has told everything and is done (or there is none).
    told: bool,
    left: Vec<Leftover>,
}

/// What the worker is asked for, since it looked last.
#[derive(Debug, Default)]
pub struct Asks {
    /// Tickets of flushes, in order: to be given to the engine once all that is in the intake has been taken.
    pub flushes: Vec<u64>,
    /// Stop, with this deadline. Comes again when a later call has an earlier one.
    pub stop: Option<Instant>,
    /// Topics that somebody wants to be ready; `judge` asks about them from now on.
    pub wants: Vec<Vec<u32>>,
    /// Somebody wants a snapshot: `publish` one.
    pub snapshot: bool,
}

/// A caller in `wait_until_ready`.
struct Want {
    ticket: u64,
    topics: Vec<u32>,
    /// The worker's latest answer. None: it has not looked yet.
    answer: Option<Result<(), String>>,
}

/// What the worker knows about itself.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub stats: Stats,
    pub status: Status,
}

/// Messages that `stop` left behind: the share of one batch.
#[derive(Clone, Debug)]
pub struct Leftover {
    pub error: Arc<DeliveryError>,
    pub returned: Arc<Returned>,
}

/// How the worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The panic's text, if it died.
    pub died: Option<Arc<str>>,
    /// How many messages were left.
    pub left: u64,
}

/// How a flush ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Flushed {
    Done,
    /// The time is over.
    TimedOut,
    Died(Arc<str>),
}

/// For callers.
impl Control {
    pub fn new() -> Control {
        Control::default()
    }

    /// Puts something into the worker's list; `ring` must wake it.
    fn ask(&self, state: MutexGuard<'_, State>, ring: impl FnOnce()) {
        // Set before the bell looks whether the worker sleeps; the worker looks here after it has said that it does.
        self.asked.store(true, SeqCst);
        drop(state);
        ring();
    }

    fn ticket(state: &mut State) -> u64 {
        state.next += 1;
        state.next
    }

    /// Waits until all that was accepted before has its verdict.
    pub fn flush(&self, timeout: Duration, ring: impl FnOnce()) -> Flushed {
        let deadline = deadline_after(timeout);
        let mut state = self.state.lock();
        let ticket = Control::ticket(&mut state);
        if state.end.is_none() {
            state.flushing.insert(ticket);
            state.asks.flushes.push(ticket);
            self.ask(state, ring);
            state = self.state.lock();
        }
        loop {
            match &state.end {
                Some(End { died: Some(reason), .. }) => return Flushed::Died(reason.clone()),
                // After the worker's end everything has its verdict; the callback may have to hear of some.
                Some(_) if state.told => return Flushed::Done,
                None if !state.flushing.contains(&ticket) => return Flushed::Done,
                _ => {}
            }
            if !self.sleep(&mut state, deadline) {
                let done = state.end.is_none() && !state.flushing.remove(&ticket);
                return if done { Flushed::Done } else { Flushed::TimedOut };
            }
        }
    }

    /// False: the deadline has passed.
    fn sleep(&self, state: &mut MutexGuard<'_, State>, deadline: Option<Instant>) -> bool {
        match deadline {
            Some(deadline) => !self.changed.wait_until(state, deadline).timed_out(),
            None => {
                self.changed.wait(state);
                true
            }
        }
    }

    /// Waits until the worker finds these topics ready. Otherwise what it said last; None: it said nothing.
    pub fn wait_until_ready(
        &self,
        topics: Vec<u32>,
        timeout: Duration,
        ring: impl FnOnce(),
    ) -> Result<(), Option<String>> {
        let deadline = deadline_after(timeout);
        let mut state = self.state.lock();
        let ticket = Control::ticket(&mut state);
        state.asks.wants.push(topics.clone());
        state.wants.push(Want { ticket, topics, answer: None });
        self.wanted.store(true, SeqCst);
        self.ask(state, ring);
        let mut state = self.state.lock();
        loop {
            let at = state.wants.iter().position(|want| want.ticket == ticket).expect("removed only here");
            let in_time = match &state.wants[at].answer {
                Some(Ok(())) => false,
                _ if state.end.is_some() => false,
                _ => self.sleep(&mut state, deadline),
            };
            if !in_time {
                let at =
                    state.wants.iter().position(|want| want.ticket == ticket).expect("removed only here");
                let want = state.wants.remove(at);
                self.wanted.store(!state.wants.is_empty(), SeqCst);
                return want.answer.map_or(Err(None), |answer| answer.map_err(Some));
            }
        }
    }

    /// What the worker knows now; what it knew last if it does not answer within `patience` (zero: what it knew last).
    pub fn snapshot(&self, patience: Duration, ring: impl FnOnce()) -> Snapshot {
        let deadline = deadline_after(patience);
        let mut state = self.state.lock();
        if state.end.is_none() && !patience.is_zero() {
            state.snapshots_asked += 1;
            state.asks.snapshot = true;
            let mine = state.snapshots_asked;
            self.ask(state, ring);
            state = self.state.lock();
            while state.snapshots_made < mine && state.end.is_none() && self.sleep(&mut state, deadline) {}
        }
        state.snapshot.clone()
    }

    /// Asks the worker to end by `deadline`; the earliest one counts.
    pub fn stop(&self, deadline: Option<Instant>, ring: impl FnOnce()) {
        self.end_by(deadline, true, ring);
    }

    /// The same, but nobody will take the report: what is left is logged.
    pub fn stop_unattended(&self, deadline: Option<Instant>, ring: impl FnOnce()) {
        self.end_by(deadline, false, ring);
    }

    fn end_by(&self, deadline: Option<Instant>, attended: bool, ring: impl FnOnce()) {
        // A deadline further off than clocks go is one that never comes.
        let deadline = deadline.unwrap_or_else(far_future);
        let mut state = self.state.lock();
        state.attended |= attended;
        if state.end.is_none() && state.stop.is_none_or(|earlier| deadline < earlier) {
            state.stop = Some(deadline);
            state.asks.stop = Some(deadline);
            self.ask(state, ring);
        }
    }

    /// Waits for the worker's end, until `deadline`.
    pub fn wait_end(&self, deadline: Option<Instant>) -> Option<End> {
        let mut state = self.state.lock();
        while state.end.is_none() && self.sleep(&mut state, deadline) {}
        state.end.clone()
    }

    /// Waits until the callback has heard of everything, until `deadline`.
    pub fn wait_told(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while !state.told && self.sleep(&mut state, deadline) {}
        state.told
    }

    /// What was left; whoever asks first gets it.
    pub fn take_left(&self) -> Vec<Leftover> {
        std::mem::take(&mut self.state.lock().left)
    }

    pub fn end(&self) -> Option<End> {
        self.state.lock().end.clone()
    }

    pub fn settled(&self) -> u64 {
        self.settled.load(Relaxed)
    }

    pub fn callback_panics(&self) -> u64 {
        self.callback_panics.load(Relaxed)
    }
}

/// For the worker.
impl Control {
    /// Whether `take` would bring something.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(SeqCst)
    }

    /// What was asked for since the last time. To be called before messages are taken.
    pub fn take(&self) -> Asks {
        if !self.is_asked() {
            return Asks::default();
        }
        let mut state = self.state.lock();
        self.asked.store(false, SeqCst);
        std::mem::take(&mut state.asks)
    }

    /// Asks `readiness` about each list of topics that somebody waits for. To be called after the engine has advanced, each
    /// time; costs nothing while nobody waits.
    pub fn judge(&self, mut readiness: impl FnMut(&[u32]) -> Result<(), String>) {
        if !self.wanted.load(Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        let mut ready = false;
        for want in state.wants.iter_mut().filter(|want| want.answer != Some(Ok(()))) {
            let answer = readiness(&want.topics);
            ready |= answer.is_ok();
            want.answer = Some(answer);
        }
        if ready {
            self.changed.notify_all();
        }
    }

    /// A snapshot as it was asked for.
    pub fn publish(&self, snapshot: Snapshot) {
        let mut state = self.state.lock();
        state.snapshot = snapshot;
        state.snapshots_made = state.snapshots_asked;
        self.changed.notify_all();
    }

    /// How many messages have their verdict by now.
    pub fn set_settled(&self, messages: u64) {
        self.settled.store(messages, Relaxed);
    }

    /// A flush is done: the callback has heard of everything before it.
    pub fn flushed(&self, ticket: u64) {
        if self.state.lock().flushing.remove(&ticket) {
            self.changed.notify_all();
        }
    }

    /// The worker has ended, with a last snapshot unless it died. Nothing is asked of it any more.
    pub fn set_end(&self, end: End, left: Vec<Leftover>, snapshot: Option<Snapshot>) {
        let (messages, died) = (end.left, end.died.is_some());
        let mut state = self.state.lock();
        if let Some(snapshot) = snapshot {
            state.snapshot = snapshot;
        }
        state.end = Some(end);
        state.left = left;
        state.flushing.clear();
        let attended = state.attended;
        self.changed.notify_all();
        drop(state);
        if messages > 0 && !attended && !died {
            log::warn!(
                "the producer was dropped before {messages} messages had their verdict: they are lost to it"
            );
        }
    }

    /// The callback has heard of everything; also to be called when there is none.
    pub fn set_told(&self) {
        self.state.lock().told = true;
        self.changed.notify_all();
    }

    /// The callback panicked; how often by now.
    pub fn callback_panicked(&self) -> u64 {
        self.callback_panics.fetch_add(1, Relaxed) + 1
    }
}

fn far_future() -> Instant {
    const YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    Instant::now() + YEARS
}

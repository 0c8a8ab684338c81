//! The worker's side of the hand-over: what it takes, what it must look at before it sleeps, and how it ends.

use crate::control::{Asks, Control, End, Leftover, Snapshot};
use crate::delivery::callback::CallbackQueue;
use crate::delivery::origin::Origin;
use crate::engine::io::Settled;
use crate::intake::budget::Budget;
use crate::intake::chunk::Chunk;
use crate::intake::doorbell::Doorbell;
use crate::intake::{ChunkEnds, Closed, Intake};
use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whoever drains the intake: the worker, or a stand-in for it in tests.
pub trait Work {
    /// Works until it was asked to stop and everything has its verdict, or the stop's deadline has passed. Returns what was
    /// left then.
    fn run(&mut self) -> Vec<Leftover>;

    /// What it knows about itself: asked for after its end.
    fn snapshot(&mut self) -> Snapshot;
}

/// Taken at most before the sockets get their turn.
pub const CHUNKS_A_TURN: usize = 16;

/// What the worker holds of the hand-over. A turn of its loop is:
///
/// 1. `prepare_sleep`, then sleep (poll) as it says, then `awake`;
/// 2. `take_asks`, then `take_chunks`: in this order, because whoever asks for a flush has handed its messages over before;
/// 3. the engine absorbs all of it (chunks first), advances, and `deliver` passes on what came of it.
pub struct WorkerSide {
    pub intake: Arc<Intake>,
    pub budget: Arc<Budget>,
    pub control: Arc<Control>,
    bell: Arc<Doorbell>,
    callbacks: Option<CallbackQueue>,
    ends: ChunkEnds,
    /// Swapped for the open chunk when that is taken.
    empty: Box<Chunk>,
    linger: Duration,
    /// What `pressure_changed` said last.
    pressure: bool,
}

impl WorkerSide {
    pub fn new(
        intake: Arc<Intake>,
        ends: ChunkEnds,
        control: Arc<Control>,
        callbacks: Option<CallbackQueue>,
        linger: Duration,
    ) -> WorkerSide {
        let (budget, bell, empty) = (intake.budget().clone(), intake.bell().clone(), intake.spare());
        WorkerSide { intake, budget, control, bell, callbacks, ends, empty, linger, pressure: false }
    }

    /// What callers ask for. To be called before `take_chunks`.
    pub fn take_asks(&self) -> Asks {
        self.control.take()
    }

    /// Sealed chunks, and the open one if its linger is over or `all` is to be taken (flush, stop, or callers that wait for
    /// room while nothing is on its way that would give some back).
    pub fn take_chunks(&mut self, now: Instant, all: bool, chunks: &mut Vec<Box<Chunk>>) {
        if !all {
            chunks.extend(self.ends.sealed.try_iter().take(CHUNKS_A_TURN));
            // More are waiting: the open one comes after them.
            if chunks.len() >= CHUNKS_A_TURN || !self.intake.open_is_due(now, self.linger) {
                return;
            }
        }
        self.intake.take_open(&self.ends, &mut self.empty, chunks);
    }

    /// A chunk that was absorbed.
    pub fn recycle(&self, chunk: Box<Chunk>) {
        self.intake.recycle(&self.ends, chunk);
    }

    /// Whether `take_chunks` would bring something: for a worker that polls before it sleeps.
    pub fn has_chunks(&self, now: Instant) -> bool {
        !self.ends.sealed.is_empty() || self.intake.open_is_due(now, self.linger)
    }

    /// Callers wait for room, nothing is sealed, and nothing is on its way that would give them some (`in_flight`): only the
    /// end of linger can. As long as something is on its way, ending linger for them would only make small batches.
    pub fn is_pressing(&self, in_flight: impl FnOnce() -> bool) -> bool {
        self.budget.is_contended() && self.ends.sealed.is_empty() && !in_flight()
    }

    /// `is_pressing`, if that is news.
    pub fn pressure_changed(&mut self, in_flight: impl FnOnce() -> bool) -> Option<bool> {
        let pressure = self.is_pressing(in_flight);
        (pressure != self.pressure).then(|| {
            self.pressure = pressure;
            pressure
        })
    }

    /// To be called right before sleeping. `timer`: when the worker must wake up anyway; `in_flight`: whether something is on
    /// its way that will give room back. None: don't sleep, there is work. Otherwise until when (none: until woken).
    pub fn prepare_sleep(
        &self,
        timer: Option<Instant>,
        in_flight: impl FnOnce() -> bool,
    ) -> Option<Option<Instant>> {
        let until = self.intake.prepare_sleep(&self.ends, timer, self.linger)?;
        // Looked at now that callers see the worker asleep: they make their wish known first and ring after.
        let is_pressing = self.is_pressing(in_flight) && (!self.pressure || self.intake.has_messages());
        (!is_pressing && !self.control.is_asked()).then_some(until)
    }

    /// The sleep is over (or did not take place): nobody needs to ring.
    pub fn awake(&self) {
        self.bell.awake();
    }

    /// Passes verdicts on to the callback, and then the flushes that are done with them; gives `released` bytes back.
    /// `settled`: how many messages have had their verdict in all.
    pub fn deliver(
        &self,
        runs: impl IntoIterator<Item = Settled>,
        flushed: impl IntoIterator<Item = u64>,
        released: u64,
        settled: u64,
    ) {
        self.control.set_settled(settled);
        self.budget.release(released);
        match &self.callbacks {
            Some(callbacks) => {
                runs.into_iter().for_each(|run| callbacks.settled(run));
                flushed.into_iter().for_each(|ticket| callbacks.flushed(ticket));
            }
            None => flushed.into_iter().for_each(|ticket| self.control.flushed(ticket)),
        }
    }
}

/// The whole life of the worker's thread: makes the worker, lets it run, and sees to it that nobody waits for ever, however
/// it ends.
pub fn serve<W: Work>(origin: &Origin, side: WorkerSide, make: impl FnOnce(WorkerSide) -> W) {
    origin.serve();
    let (intake, control) = (side.intake.clone(), side.control.clone());
    let (callbacks, sealed) = (side.callbacks.clone(), side.ends.sealed.clone());
    let mut worker = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let worker = worker.insert(make(side));
        let left = worker.run();
        (worker.snapshot(), left)
    }));
    let has_callback = callbacks.is_some();
    match ended {
        Ok((snapshot, left)) => {
            intake.close(Closed::Stopped); // it is, unless the worker ended on its own
            drop_quietly(worker);
            if !has_callback {
                control.set_told();
            }
            let count = left.iter().map(|leftover| leftover.returned.len() as u64).sum();
            control.set_end(End { died: None, left: count }, left, Some(snapshot));
        }
        Err(panic) => {
            let reason: Arc<str> = panic_text(&*panic).into();
            // Before anything is dropped: what is lost with it tells this reason.
            origin.set_death(&reason);
            intake.close(Closed::Died(reason.clone()));
            // What it knew; but it may be too broken even to tell.
            let snapshot = worker.as_mut().and_then(|w| catch_unwind(AssertUnwindSafe(|| w.snapshot())).ok());
            // The verdicts are lost here, one by one: before those who wait for the end hear of it.
            drop_quietly(worker);
            intake.abandon(&sealed);
            let accepted = intake.accepted();
            if let Some(callbacks) = callbacks {
                callbacks.died(&reason, accepted);
            }
            let settled =
                snapshot.as_ref().map_or_else(|| control.settled(), |s| s.stats.delivered + s.stats.dropped);
            let left = accepted.saturating_sub(settled);
            log::error!(
                "the producer's worker died, and {left} messages without a verdict are lost: {reason}"
            );
            if !has_callback {
                control.set_told();
            }
            control.set_end(End { died: Some(reason), left }, Vec::new(), snapshot);
        }
    }
}

/// After a panic anything may be in disorder: a second one on the way must not hide the first.
fn drop_quietly<T>(value: T) {
    if catch_unwind(AssertUnwindSafe(|| drop(value))).is_err() {
        log::error!("a part of the producer's worker could not be dropped");
    }
}

/// The words of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

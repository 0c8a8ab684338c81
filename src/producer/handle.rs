//! What all clones of a producer share: its start, its end, and what it asks of the worker.

use super::report::{Leftovers, StopEnd, StopReport};
use crate::config::settings::Settings;
use crate::control::{Control, Flushed, Snapshot};
use crate::delivery::callback::{self, Callback};
use crate::delivery::origin::Origin;
use crate::delivery::receipt::deadline_after;
use crate::error::{FlushError, NotReady, SendError};
use crate::handover::WorkerSide;
use crate::intake::budget::Budget;
use crate::intake::doorbell::Doorbell;
use crate::intake::topics::TopicNames;
use crate::intake::{chunks_a_wake, Closed, Intake, Limits};
use crate::stats::{Stats, Status};
use crate::worker::{self, Core, Pace};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) struct Handle {
    pub(super) intake: Arc<Intake>,
    pub(super) names: Arc<TopicNames>,
    control: Arc<Control>,
    bell: Arc<Doorbell>,
    origin: Arc<Origin>,
    /// Worker and callback, until they are joined.
    threads: Mutex<Vec<JoinHandle<()>>>,
    has_callback: bool,
    drop_timeout: Duration,
}

/// What an engine is made of besides its settings.
pub struct Parts {
    pub settings: Arc<Settings>,
    pub names: Arc<TopicNames>,
    pub budget: Arc<Budget>,
    /// Whether verdicts are to be told one run after the other.
    pub has_callback: bool,
}

/// How much later than its deadline the worker may tell what it left behind (it has to take it apart first), and the callback
/// may hear of the last verdicts.
const AFTER_DEADLINE: Duration = Duration::from_millis(150);

/// How long a caller waits for a snapshot. The worker answers within a turn of its loop, unless it has no core to run on.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(1);

impl Handle {
    /// Starts the threads around the engine (or, in tests, around what stands in for it).
    pub(super) fn start<C: Core + Send + 'static>(
        settings: Settings,
        origin: Origin,
        callback: Option<Callback>,
        make_core: impl FnOnce(Parts) -> C,
    ) -> io::Result<Handle> {
        let settings = Arc::new(settings);
        let origin = Arc::new(origin);
        let has_callback = callback.is_some();
        let (poll, wake) = worker::poll()?;
        let bell = Arc::new(Doorbell::new(chunks_a_wake(settings.buffer_bytes), wake));
        let budget = Arc::new(Budget::new(settings.buffer_bytes));
        let limits = Limits { max_message: settings.max_request_bytes, max_block: settings.max_block };
        let (intake, ends) = Intake::new(budget.clone(), bell.clone(), origin.clone(), &limits);
        let (intake, names, control) =
            (Arc::new(intake), Arc::new(TopicNames::new()), Arc::new(Control::new()));
        let core = make_core(Parts {
            settings: settings.clone(),
            names: names.clone(),
            budget: budget.clone(),
            has_callback,
        });
        let mut threads = Vec::new();
        let callbacks = match callback {
            Some(callback) => {
                let (queue, thread) =
                    callback::start(callback, control.clone(), budget.clone(), origin.clone())?;
                threads.push(thread);
                Some(queue)
            }
            None => None,
        };
        let side = WorkerSide::new(intake.clone(), ends, control.clone(), callbacks, settings.linger);
        threads.push(worker::start(core, poll, origin.clone(), side, Pace::of(&settings))?);
        let drop_timeout = settings.drop_timeout;
        Ok(Handle {
            intake,
            names,
            control,
            bell,
            origin,
            threads: Mutex::new(threads),
            has_callback,
            drop_timeout,
        })
    }

    fn ring(&self) {
        self.bell.urgent();
    }

    pub(super) fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        if self.origin.is_forked() {
            return Err(FlushError::Forked);
        }
        if self.origin.is_served_here() {
            return Err(FlushError::WouldDeadlock);
        }
        let accepted = self.intake.accepted();
        match self.control.flush(timeout, || self.ring()) {
            Flushed::Done => Ok(()),
            Flushed::Died(reason) => Err(FlushError::WorkerDied { reason }),
            Flushed::TimedOut => match accepted.saturating_sub(self.control.settled()) {
                // All have their verdict, only the worker's answer came too late. (A callback may still have to hear of it.)
                0 if !self.has_callback => Ok(()),
                left => Err(FlushError::TimedOut { left: left.max(1) }),
            },
        }
    }

    pub(super) fn wait_until_ready(&self, topics: &[&str], timeout: Duration) -> Result<(), NotReady> {
        let not_ready = |error: SendError| NotReady { reason: error.to_string() };
        let topics = topics.iter().map(|topic| self.names.intern(topic));
        let topics = topics.collect::<Result<Vec<u32>, _>>().map_err(not_ready)?;
        if self.origin.is_forked() {
            return Err(not_ready(SendError::Forked));
        }
        if self.origin.is_worker_here() {
            return Err(NotReady { reason: "asked on the worker's own thread".into() });
        }
        if let Some(closed) = self.intake.closed() {
            return Err(not_ready(closed.error()));
        }
        self.control.wait_until_ready(topics, timeout, || self.ring()).map_err(|reason| {
            let reason = match (reason, self.intake.closed()) {
                (_, Some(closed)) => closed.error().to_string(),
                (Some(reason), None) => reason,
                (None, None) => "the time was too short for an answer".into(),
            };
            NotReady { reason }
        })
    }

    pub(super) fn stop(&self, timeout: Duration) -> StopReport {
        if self.origin.is_forked() {
            return StopReport::nothing_done(StopEnd::Forked);
        }
        if self.origin.is_served_here() {
            return StopReport::nothing_done(StopEnd::WouldDeadlock);
        }
        let deadline = deadline_after(timeout);
        // Closed first: when the worker looks for the last time, nothing comes any more.
        self.intake.close(Closed::Stopped);
        self.control.stop(deadline, || self.ring());
        self.await_end(deadline)
    }

    fn await_end(&self, deadline: Option<Instant>) -> StopReport {
        let late = deadline.and_then(|deadline| deadline.checked_add(AFTER_DEADLINE));
        let Some(end) = self.control.wait_end(late) else {
            // It has no core to run on, or is kept by the system.
            let left_count = self.intake.accepted().saturating_sub(self.control.settled());
            return StopReport { end: StopEnd::Deadline, left: Leftovers::default(), left_count };
        };
        let told = self.control.wait_told(late);
        self.join();
        let left = Leftovers::new(self.control.take_left());
        let how = match end.died {
            Some(reason) => StopEnd::WorkerDied { reason },
            None if end.left == 0 && told => StopEnd::Clean,
            None => StopEnd::Deadline,
        };
        StopReport { end: how, left, left_count: end.left }
    }

    /// The threads that have nothing left to do are gone after this. (A callback that is not done goes on by itself.)
    fn join(&self) {
        let told = self.control.wait_told(Some(Instant::now()));
        let mut threads = self.threads.lock();
        for thread in std::mem::take(&mut *threads) {
            if told || thread.is_finished() {
                // What it may have panicked with was told already.
                let _ = thread.join();
            } else {
                threads.push(thread);
            }
        }
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = self.snapshot().stats;
        stats.accepted = self.intake.accepted();
        stats.bytes_queued = self.intake.budget().used();
        stats.rings = self.bell.rings();
        stats.callback_panics = self.control.callback_panics();
        if self.control.end().is_some_and(|end| end.died.is_some()) {
            let lost = stats.accepted.saturating_sub(stats.delivered + stats.dropped);
            stats.dropped += lost;
            stats.dropped_by_cause.push(("worker died".into(), lost));
            stats.dropped_by_cause.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        stats
    }

    pub(super) fn status(&self) -> Status {
        let mut status = self.snapshot().status;
        status.closed = self.intake.closed().map(|closed| closed.error().to_string());
        status
    }

    fn snapshot(&self) -> Snapshot {
        // The worker can't wait for itself (its logger may ask); in a forked child there is none.
        let patience = match self.origin.is_worker_here() || self.origin.is_forked() {
            true => Duration::ZERO,
            false => SNAPSHOT_PATIENCE,
        };
        self.control.snapshot(patience, || self.ring())
    }
}

/// The last handle is gone.
impl Drop for Handle {
    fn drop(&mut self) {
        if self.origin.is_forked() {
            return; // the threads are the parent's, and so is the bell
        }
        if self.control.end().is_none() {
            let deadline = deadline_after(self.drop_timeout);
            self.intake.close(Closed::Stopped);
            self.control.stop_unattended(deadline, || self.ring());
            if self.origin.is_served_here() {
                return; // it would wait for itself; the worker logs what is left
            }
            let late = deadline.and_then(|deadline| deadline.checked_add(AFTER_DEADLINE));
            if self.control.wait_end(late).is_none() {
                let left = self.intake.accepted().saturating_sub(self.control.settled());
                log::warn!("the producer was dropped, and its worker had not ended in time: {left} messages may be left");
            }
            self.control.wait_told(late);
        }
        if !self.origin.is_served_here() {
            self.join();
        }
    }
}

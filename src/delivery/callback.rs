//! The callback's thread: verdicts reach the application without the worker ever waiting for it.
//!
//! The queue has no limit of its own: what is in it is still charged to the byte budget, and given back after the callback
//! ran. So a slow callback slows the senders.

use super::origin::Origin;
use super::run::DeliveryRun;
use crate::control::Control;
use crate::engine::io::{Settled, SettledOutcome};
use crate::error::DeliveryError;
use crate::intake::budget::Budget;
use crossbeam_channel::{Receiver, Sender};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;

/// What the application set.
pub type Callback = Box<dyn FnMut(&DeliveryRun) + Send>;

enum Note {
    Run(Settled),
    /// A flush is done with this.
    Flushed(u64),
    /// The worker died; so many messages were accepted in all.
    Died {
        reason: Arc<str>,
        accepted: u64,
    },
}

/// The worker's end. When the last one is gone the thread tells what is left and ends.
#[derive(Clone)]
pub struct CallbackQueue {
    notes: Sender<Note>,
}

impl CallbackQueue {
    /// A verdict to tell.
    pub fn settled(&self, settled: Settled) {
        self.put(Note::Run(settled));
    }

    /// Everything before this was told: the flush is done.
    pub fn flushed(&self, ticket: u64) {
        self.put(Note::Flushed(ticket));
    }

    /// The worker died: all that has not been told is lost. `accepted`: of all messages, ever.
    pub fn died(&self, reason: &Arc<str>, accepted: u64) {
        self.put(Note::Died { reason: reason.clone(), accepted });
    }

    fn put(&self, note: Note) {
        // The thread outlives every sender: it ends when they are gone.
        self.notes.send(note).expect("the callback's thread is gone");
    }
}

/// Starts the thread.
pub fn start(
    callback: Callback,
    control: Arc<Control>,
    budget: Arc<Budget>,
    origin: Arc<Origin>,
) -> std::io::Result<(CallbackQueue, JoinHandle<()>)> {
    let (notes, queue) = crossbeam_channel::unbounded();
    let teller = Teller { callback, control, budget, told: 0 };
    let thread = std::thread::Builder::new().name("steadfast-callback".into()).spawn(move || {
        origin.serve_callback();
        teller.run(&queue);
    })?;
    Ok((CallbackQueue { notes }, thread))
}

struct Teller {
    callback: Callback,
    control: Arc<Control>,
    budget: Arc<Budget>,
    /// Messages that the callback has heard of.
    told: u64,
}

impl Teller {
    fn run(mut self, queue: &Receiver<Note>) {
        for note in queue {
            match note {
                Note::Run(settled) => self.tell(settled),
                Note::Flushed(ticket) => self.control.flushed(ticket),
                Note::Died { reason, accepted } => {
                    if let Some(lost) = lost(reason, accepted.saturating_sub(self.told)) {
                        self.tell(lost);
                    }
                }
            }
        }
        // It may own the last handle of the producer, or panic when dropped. Whoever waits for the end wants it gone.
        let callback = self.callback;
        if catch_unwind(AssertUnwindSafe(|| drop(callback))).is_err() {
            panicked(&self.control);
        }
        self.control.set_told();
    }

    fn tell(&mut self, settled: Settled) {
        self.told += u64::from(settled.count);
        let charge = settled.charge;
        let run = DeliveryRun::new(settled);
        if catch_unwind(AssertUnwindSafe(|| (self.callback)(&run))).is_err() {
            panicked(&self.control);
        }
        drop(run); // with the bytes of dropped messages and their charge
        self.budget.release(charge);
    }
}

/// The first panics are logged, then fewer and fewer of them.
fn panicked(control: &Control) {
    let times = control.callback_panicked();
    if times.is_power_of_two() {
        log::error!("the delivery callback panicked (for the {times}. time); the verdict counts as told");
    }
}

/// One run for all that was lost with the worker: nobody knows any more what it was.
fn lost(reason: Arc<str>, messages: u64) -> Option<Settled> {
    if messages == 0 {
        return None;
    }
    let error = DeliveryError::worker_died(reason);
    Some(Settled {
        topic: error.topic.clone(),
        partition: None,
        count: u32::try_from(messages).unwrap_or(u32::MAX),
        outcome: SettledOutcome::Dropped { error: Arc::new(error), returned: Vec::new() },
        charge: 0,
    })
}

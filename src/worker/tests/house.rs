//! A producer's inside around the worker, with a scripted engine.

use super::PATIENCE;
use crate::control::{Control, Flushed, Leftover};
use crate::delivery::block::{Outcome, Placement, Segment};
use crate::delivery::callback;
use crate::delivery::origin::Origin;
use crate::delivery::receipt::Receipt;
use crate::engine::io::{Actions, Event, NetAction, Settled, SettledOutcome};
use crate::error::SendError;
use crate::handover::WorkerSide;
use crate::intake::budget::Budget;
use crate::intake::chunk::Chunk;
use crate::intake::doorbell::Doorbell;
use crate::intake::{chunks_a_wake, Intake, Limits, Patience};
use crate::message::Message;
use crate::stats::{Stats, Status};
use crate::worker::{net, poll, start, Core, Pace, Worker};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the scripted engine heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Chunk(u32),
    Flush(u64),
    Stop,
    Pressure(bool),
    Want(Vec<u32>),
    Opened,
    Frame(Vec<u8>),
    Written(u64, u64),
    Resolved,
}

#[derive(Default)]
pub struct Script {
    pub heard: Vec<Heard>,
    /// Keeps what it is given until this is false.
    pub holds: bool,
    pub in_flight: bool,
    pub deadline: Option<Instant>,
    /// Panics with these words when it is given a chunk of so many messages.
    pub panics_on: Option<(u32, &'static str)>,
    /// What it asks for the next time.
    pub net: Vec<NetAction>,
    /// Runs in `advance`, as if a caller came at that moment.
    pub meanwhile: Option<Box<dyn FnOnce() + Send>>,
    pub callback: bool,
    pub advances: u64,
}

/// Takes messages and delivers them at once, or holds them.
pub struct Fake {
    pub script: Arc<Mutex<Script>>,
    held: Vec<(Segment, u64, u32)>,
    flushes: Vec<u64>,
    stop: Option<Instant>,
    settled: u64,
}

impl Fake {
    fn hold(&mut self, chunk: &Chunk) {
        let mut placement = Placement::new(chunk.block());
        let mut segment = placement.segment(0);
        for number in 0..chunk.len() {
            placement.put(number, &mut segment, number);
        }
        self.held.push((segment, chunk.charge(), chunk.len()));
    }
}

impl Core for Fake {
    fn absorb(&mut self, _: Instant, event: Event<'_>, _: &mut Actions) {
        let heard = match event {
            Event::Chunk(chunk) => {
                self.hold(chunk);
                let panics_on = self.script.lock().panics_on;
                if let Some((_, words)) = panics_on.filter(|(len, _)| *len == chunk.len()) {
                    panic!("{words}");
                }
                Heard::Chunk(chunk.len())
            }
            Event::Flush { ticket } => {
                self.flushes.push(ticket);
                Heard::Flush(ticket)
            }
            Event::Stop { deadline } => {
                self.stop = Some(deadline);
                Heard::Stop
            }
            Event::Pressure(pressure) => Heard::Pressure(pressure),
            Event::Want { topics } => Heard::Want(topics),
            Event::Opened { .. } => Heard::Opened,
            Event::Frame { frame, .. } => Heard::Frame(frame.to_vec()),
            Event::Written { begun, done, .. } => Heard::Written(begun, done),
            Event::Resolved { .. } => Heard::Resolved,
            other => panic!("not in any script: {other:?}"),
        };
        self.script.lock().heard.push(heard);
    }

    fn advance(&mut self, now: Instant, actions: &mut Actions) {
        let mut script = self.script.lock();
        script.advances += 1;
        if !script.holds || self.stop.is_some_and(|deadline| deadline <= now) {
            for (segment, charge, count) in self.held.drain(..) {
                let topic: Arc<str> = "t".into();
                segment.resolve(Outcome::Delivered {
                    topic: topic.clone(),
                    partition: 0,
                    base_offset: Some(0),
                    append_time: None,
                });
                self.settled += u64::from(count);
                if script.callback {
                    let outcome = SettledOutcome::Delivered { base_offset: Some(0), append_time: None };
                    actions.settled.push(Settled { topic, partition: Some(0), count, outcome, charge });
                } else {
                    actions.released += charge;
                }
            }
            actions.flushed.append(&mut self.flushes);
        }
        actions.net.append(&mut script.net);
        actions.stopped = self.stop.is_some() && self.held.is_empty();
        let meanwhile = script.meanwhile.take().filter(|_| actions.stopped);
        drop(script);
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.script.lock().deadline.into_iter().chain(self.stop).min()
    }

    fn has_work_in_flight(&self) -> bool {
        self.script.lock().in_flight
    }

    fn readiness(&mut self, topics: &[u32]) -> Result<(), String> {
        if topics.is_empty() {
            Ok(())
        } else {
            Err("no such topic".into())
        }
    }

    fn settled(&self) -> u64 {
        self.settled
    }

    fn stats(&self) -> Stats {
        Stats { delivered: self.settled, ..Stats::default() }
    }

    fn status(&self, _: Instant) -> Status {
        Status::default()
    }

    fn leftovers(&mut self) -> Vec<Leftover> {
        Vec::new()
    }
}

/// A producer's inside.
pub struct House {
    pub intake: Arc<Intake>,
    pub budget: Arc<Budget>,
    pub bell: Arc<Doorbell>,
    pub control: Arc<Control>,
    pub script: Arc<Mutex<Script>>,
    /// Messages that the callback has heard of.
    pub told: Arc<Mutex<Vec<u64>>>,
}

/// What the worker is made of.
pub struct Parts {
    core: Fake,
    poll: mio::Poll,
    origin: Arc<Origin>,
    side: WorkerSide,
}

impl Parts {
    /// To be driven by hand.
    pub fn worker(self) -> Worker<Fake> {
        let net = net(&self.poll, &self.side, Pace::default()).unwrap();
        Worker::new(self.core, self.poll, net, self.side, Duration::ZERO)
    }

    pub fn start(self) -> JoinHandle<()> {
        start(self.core, self.poll, self.origin, self.side, Pace::default()).unwrap()
    }
}

pub fn house(buffer_bytes: u64, linger: Duration, script: Script) -> (House, Parts) {
    let (poll, wake) = poll().unwrap();
    let budget = Arc::new(Budget::new(buffer_bytes));
    let bell = Arc::new(Doorbell::new(chunks_a_wake(buffer_bytes), wake));
    let origin = Arc::new(Origin::new(Duration::ZERO));
    let limits = Limits { max_message: 1 << 20, max_block: PATIENCE };
    let (intake, ends) = Intake::new(budget.clone(), bell.clone(), origin.clone(), &limits);
    let (intake, control) = (Arc::new(intake), Arc::new(Control::new()));
    let told = Arc::new(Mutex::new(Vec::new()));
    let callbacks = script.callback.then(|| {
        let told = told.clone();
        let callback = move |run: &crate::DeliveryRun| told.lock().push(run.len() as u64);
        let (control, budget, origin) = (control.clone(), budget.clone(), origin.clone());
        callback::start(Box::new(callback), control, budget, origin).unwrap().0
    });
    let script = Arc::new(Mutex::new(script));
    let core = Fake { script: script.clone(), held: Vec::new(), flushes: Vec::new(), stop: None, settled: 0 };
    let side = WorkerSide::new(intake.clone(), ends, control.clone(), callbacks, linger);
    (House { intake, budget, bell, control, script, told }, Parts { core, poll, origin, side })
}

impl House {
    pub fn send(&self, bytes: usize) -> Receipt {
        self.try_send(bytes).unwrap()
    }

    pub fn try_send(&self, bytes: usize) -> Result<Receipt, SendError> {
        self.intake.send(0, &Message::new(&vec![b'x'; bytes]), Patience::Wait)
    }

    /// As a caller in `flush` leaves its wish, without waiting.
    pub fn ask_to_flush(&self) {
        assert_eq!(self.control.flush(Duration::ZERO, || self.bell.urgent()), Flushed::TimedOut);
    }

    pub fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.script.lock().heard)
    }

    pub fn heard_chunks(&self) -> usize {
        self.heard().into_iter().filter(|heard| matches!(heard, Heard::Chunk(_))).count()
    }
}

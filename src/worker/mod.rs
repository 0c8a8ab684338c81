//! The worker thread: one loop that waits for events, tells the engine, and does what it asks for.
//!
//! A turn, always in this order: wait - what came from the network - what callers ask for, and their messages - the engine
//! goes on - its actions. Due deadlines are judged by the engine, after what has already arrived was read. The worker waits
//! for nothing but the poll: not for callers, callbacks, brokers or long computations.

mod core;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "testing"))]
mod whole;

use crate::config::settings::Settings;
use crate::control::{Leftover, Snapshot};
use crate::delivery::origin::Origin;
use crate::engine::io::{Actions, Event};
use crate::handover::{self, WorkerSide, CHUNKS_A_TURN};
use crate::intake::chunk::Chunk;
use crate::intake::Closed;
use crate::net::{Chores, Net, SocketBuffers};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use self::core::Core;

/// How often the engine is asked to go on within one turn, because something was written.
const ROUNDS: usize = 4;
/// More sockets than these with news at once have to wait for the next turn.
const EVENTS: usize = 1024;
/// The poll's name for whoever wakes it; connections count from 0.
const WAKER: mio::Token = mio::Token(usize::MAX);

/// The few settings that are the worker's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// How long the worker polls after work before it sleeps.
    pub spin: Duration,
    pub buffers: SocketBuffers,
}

impl Pace {
    pub fn of(settings: &Settings) -> Pace {
        let (send_bytes, receive_bytes) = (settings.send_buffer_bytes, settings.receive_buffer_bytes);
        Pace { spin: settings.worker_spin, buffers: SocketBuffers { send_bytes, receive_bytes } }
    }
}

/// What the worker sleeps in, and what wakes it (to be put into the `Doorbell`).
pub fn poll() -> io::Result<(mio::Poll, impl Fn() + Send + Sync + 'static)> {
    let poll = mio::Poll::new()?;
    let waker = mio::Waker::new(poll.registry(), WAKER)?;
    Ok((poll, move || waker.wake().expect("the poll can be woken as long as its waker lives")))
}

/// Starts the worker's thread.
pub fn start<C: Core + Send + 'static>(
    core: C,
    poll: mio::Poll,
    origin: Arc<Origin>,
    side: WorkerSide,
    pace: Pace,
) -> io::Result<JoinHandle<()>> {
    let net = net(&poll, &side, pace)?;
    std::thread::Builder::new().name("steadfast-worker".into()).spawn(move || {
        handover::serve(&origin, side, |side| Worker::new(core, poll, net, side, pace.spin));
    })
}

fn net(poll: &mio::Poll, side: &WorkerSide, pace: Pace) -> io::Result<Net> {
    let bell = side.intake.bell().clone();
    let wake = Arc::new(move || bell.urgent());
    Ok(Net::new(poll.registry().try_clone()?, pace.buffers, Chores::real(), wake))
}

/// Something from a caller that the engine has not absorbed yet.
enum Item {
    Chunk(Box<Chunk>),
    /// Covers all chunks before it.
    Flush(u64),
    Stop(Instant),
}

struct Worker<C> {
    core: C,
    actions: Actions,
    net: Net,
    poll: mio::Poll,
    events: mio::Events,
    side: WorkerSide,
    spin: Duration,
    /// In the order in which it came. More than a turn's share only when somebody waits for all of it.
    inbox: VecDeque<Item>,
    /// Chunks on their way into the inbox.
    taken: Vec<Box<Chunk>>,
    /// When this turn began.
    now: Instant,
    last_work: Instant,
    /// The engine wants another turn without a wait.
    again: bool,
    /// No linger any more.
    stopping: bool,
    snapshot_asked: bool,
    wakes: u64,
}

impl<C: Core> handover::Work for Worker<C> {
    /// Until the engine says that nothing is left, and nobody can bring more.
    fn run(&mut self) -> Vec<Leftover> {
        loop {
            self.wait();
            if self.turn() {
                self.net.close_all();
                return self.core.leftovers();
            }
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let WorkerSide { intake, budget, control, .. } = &self.side;
        let mut stats = self.core.stats();
        stats.accepted = intake.accepted();
        stats.bytes_queued = budget.used();
        stats.rings = intake.bell().rings();
        stats.worker_wakes = self.wakes;
        stats.callback_panics = control.callback_panics();
        Snapshot { stats, status: self.core.status(self.now) }
    }
}

impl<C: Core> Worker<C> {
    fn new(core: C, poll: mio::Poll, net: Net, side: WorkerSide, spin: Duration) -> Worker<C> {
        let now = Instant::now();
        Worker {
            core,
            actions: Actions::default(),
            net,
            poll,
            events: mio::Events::with_capacity(EVENTS),
            side,
            spin,
            inbox: VecDeque::new(),
            taken: Vec::new(),
            now,
            last_work: now,
            again: true,
            stopping: false,
            snapshot_asked: false,
            wakes: 0,
        }
    }

    /// Everything but the wait. True: it was the last one.
    fn turn(&mut self) -> bool {
        self.now = Instant::now();
        self.hear();
        self.judge_pressure();
        self.take();
        self.absorb();
        self.judge_pressure();
        self.act();
        self.report();
        self.actions.stopped && self.is_last()
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        let timeout =
            if self.has_more() || self.poll_a_while() { Some(Duration::ZERO) } else { self.sleep_time() };
        self.wakes += u64::from(timeout != Some(Duration::ZERO));
        self.poll_for(timeout);
        self.side.awake();
    }

    /// Whether something is left over from the last turn.
    fn has_more(&self) -> bool {
        self.again || !self.inbox.is_empty() || self.net.has_work()
    }

    /// Tells callers that it is about to sleep, and for how long it will; None: until something happens.
    fn sleep_time(&mut self) -> Option<Duration> {
        let until = self.side.prepare_sleep(self.core.deadline(), || self.core.has_work_in_flight());
        match until {
            // The helper too leaves its results first and rings after.
            Some(until) if !self.net.has_work() => {
                until.map(|until| until.saturating_duration_since(Instant::now()))
            }
            _ => Some(Duration::ZERO),
        }
    }

    fn poll_for(&mut self, timeout: Option<Duration>) {
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => self.net.note(&self.events),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            Err(e) => panic!("the poll failed: {e}"),
        }
    }

    /// A worker that was just busy may poll a while before it sleeps: a wake saved for CPU spent. True: something came.
    fn poll_a_while(&mut self) -> bool {
        if self.spin.is_zero() || self.last_work.elapsed() > 4 * self.spin {
            return false;
        }
        let end = Instant::now() + self.spin;
        let end = self.core.deadline().map_or(end, |deadline| deadline.min(end));
        loop {
            let now = Instant::now();
            if self.side.has_chunks(now) || self.side.control.is_asked() || self.net.has_work() {
                return true;
            }
            self.poll_for(Some(Duration::ZERO));
            if !self.events.is_empty() {
                return true;
            }
            if now >= end {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// What came from the network and from the helper.
    fn hear(&mut self) {
        let (core, actions, now) = (&mut self.core, &mut self.actions, self.now);
        let last_work = &mut self.last_work;
        self.net.receive(&mut |event| {
            *last_work = now;
            core.absorb(now, event, actions);
        });
    }

    /// What callers ask for, and their chunks: sealed ones first; the open one when its linger is over, or when somebody
    /// waits for what is in it.
    fn take(&mut self) {
        let asks = self.side.take_asks();
        self.snapshot_asked |= asks.snapshot;
        self.stopping |= asks.stop.is_some();
        let all = self.stopping || !asks.flushes.is_empty() || self.is_pressing();
        // A backlog comes first; the open chunk goes on filling up meanwhile.
        if all || self.inbox.is_empty() {
            self.side.take_chunks(self.now, all, &mut self.taken);
        }
        self.inbox.extend(self.taken.drain(..).map(Item::Chunk));
        self.inbox.extend(asks.flushes.into_iter().map(Item::Flush));
        self.inbox.extend(asks.stop.map(Item::Stop));
        for topics in asks.wants {
            self.core.absorb(self.now, Event::Want { topics }, &mut self.actions);
        }
    }

    /// Tells the engine of it, but of no more chunks than a turn's share.
    fn absorb(&mut self) {
        let mut chunks = 0;
        while let Some(item) = self.inbox.front() {
            // It stays in the inbox meanwhile: should the engine panic, the chunk is dropped when everything else is.
            let event = match item {
                Item::Chunk(_) if chunks == CHUNKS_A_TURN => break,
                Item::Chunk(chunk) => {
                    chunks += 1;
                    Event::Chunk(chunk)
                }
                Item::Flush(ticket) => Event::Flush { ticket: *ticket },
                Item::Stop(deadline) => Event::Stop { deadline: *deadline },
            };
            self.core.absorb(self.now, event, &mut self.actions);
            self.last_work = self.now;
            if let Some(Item::Chunk(chunk)) = self.inbox.pop_front() {
                self.side.recycle(chunk);
            }
        }
    }

    fn is_pressing(&self) -> bool {
        self.side.is_pressing(|| will_give_room(&self.inbox, &self.core))
    }

    fn judge_pressure(&mut self) {
        let (inbox, core) = (&self.inbox, &self.core);
        if let Some(pressure) = self.side.pressure_changed(|| will_give_room(inbox, core)) {
            self.core.absorb(self.now, Event::Pressure(pressure), &mut self.actions);
        }
    }

    /// The engine goes on, and what it asks for is done. What was written in the course of that it hears at once.
    fn act(&mut self) {
        self.again = true;
        for _ in 0..ROUNDS {
            self.core.advance(self.now, &mut self.actions);
            self.actions.net.drain(..).for_each(|action| self.net.perform(action));
            self.actions.compress.drain(..).for_each(|job| self.net.compress(job));
            let (core, actions, now) = (&mut self.core, &mut self.actions, self.now);
            let mut written = false;
            self.net.transmit(&mut |event| {
                written = true;
                core.absorb(now, event, actions);
            });
            if !written {
                self.again = false;
                break;
            }
        }
        let Actions { settled, flushed, released, .. } = &mut self.actions;
        let count = self.core.settled();
        self.side.deliver(settled.drain(..), flushed.drain(..), std::mem::take(released), count);
    }

    /// Answers those who want nothing but an answer.
    fn report(&mut self) {
        self.side.control.judge(|topics| self.core.readiness(topics));
        if std::mem::take(&mut self.snapshot_asked) {
            let snapshot = handover::Work::snapshot(self);
            self.side.control.publish(snapshot);
        }
    }

    /// The engine has nothing left. From here on nobody can hand anything over; what slipped in before is still taken care
    /// of: then the loop goes on.
    fn is_last(&mut self) -> bool {
        self.side.intake.close(Closed::Stopped);
        self.take();
        self.inbox.is_empty()
    }
}

/// Something of the inbox, or on its way to a broker, will give room back.
fn will_give_room<C: Core>(inbox: &VecDeque<Item>, core: &C) -> bool {
    !inbox.is_empty() || core.has_work_in_flight()
}

//! What stands in for the engine: a log, and a mode that says what becomes of messages.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::internal::config::settings::Settings;
use steadfast::internal::control::Leftover;
use steadfast::internal::delivery::block::{Charge, Outcome, Placement, Returned, Segment};
use steadfast::internal::delivery::callback::Callback;
use steadfast::internal::delivery::origin::Origin;
use steadfast::internal::engine::io::{Actions, Event, Settled, SettledOutcome};
use steadfast::internal::intake::chunk::Chunk;
use steadfast::internal::intake::head::{decode_tail, HEAD_LEN};
use steadfast::internal::producer::{around, Parts};
use steadfast::internal::worker::Core;
use steadfast::{Cause, Config, DeliveryError, Fate, Producer, Stats, Status};

/// So long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are in the log at once.
    #[default]
    Deliver,
    /// Nothing, until the mode changes or a stop's deadline is over.
    Hold,
    /// They are dropped.
    Drop,
    /// The worker panics.
    Die,
}

/// Shared with the test.
#[derive(Default)]
pub struct Broker {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mode: Mode,
    append_time: Option<i64>,
    /// The values of all messages that were delivered, in order; a message's place is its offset.
    log: Vec<Vec<u8>>,
    taken: u64,
}

impl Broker {
    pub fn set(&self, mode: Mode) {
        self.state.lock().mode = mode;
    }

    pub fn set_append_time(&self, append_time: i64) {
        self.state.lock().append_time = Some(append_time);
    }

    pub fn log(&self) -> Vec<Vec<u8>> {
        self.state.lock().log.clone()
    }

    /// How many messages the worker has taken.
    pub fn taken(&self) -> u64 {
        self.state.lock().taken
    }
}

/// One topic's messages of one chunk.
struct Run {
    topic: Arc<str>,
    segment: Segment,
    count: u32,
    charge: u64,
    values: Vec<Vec<u8>>,
    /// In the chunk's format.
    bytes: Vec<u8>,
}

struct StandIn {
    broker: Arc<Broker>,
    parts: Parts,
    held: Vec<Run>,
    flushes: Vec<u64>,
    stop: Option<Instant>,
    left: Vec<Leftover>,
    stats: Stats,
}

impl StandIn {
    fn take(&mut self, chunk: &Chunk) {
        let mut placement = Placement::new(chunk.block());
        let mut runs: Vec<(u32, Run)> = Vec::new();
        for (number, (head, tail)) in (0..).zip(chunk.messages()) {
            let at = runs.iter().position(|(topic, _)| *topic == head.topic).unwrap_or_else(|| {
                let topic = self.parts.names.name(head.topic);
                let segment = placement.segment(0);
                let run = Run { topic, segment, count: 0, charge: 0, values: Vec::new(), bytes: Vec::new() };
                runs.push((head.topic, run));
                runs.len() - 1
            });
            let run = &mut runs[at].1;
            placement.put(number, &mut run.segment, run.count);
            run.count += 1;
            run.charge += head.charge();
            run.values.push(decode_tail(tail).expect("a tail").value.unwrap_or_default());
            let mut bytes = [0; HEAD_LEN];
            head.write(&mut bytes);
            run.bytes.extend(bytes);
            run.bytes.extend(tail);
        }
        self.broker.state.lock().taken += u64::from(chunk.len());
        self.held.extend(runs.into_iter().map(|(_, run)| run));
    }

    fn deliver(&mut self, run: Run, state: &mut State, actions: &mut Actions) {
        let base_offset = Some(state.log.len() as i64);
        let append_time = state.append_time;
        state.log.extend(run.values);
        self.stats.delivered += u64::from(run.count);
        let topic = run.topic.clone();
        run.segment.resolve(Outcome::Delivered { topic, partition: 3, base_offset, append_time });
        if self.parts.has_callback {
            let outcome = SettledOutcome::Delivered { base_offset, append_time };
            let (topic, count, charge) = (run.topic, run.count, run.charge);
            actions.settled.push(Settled { topic, partition: Some(3), count, outcome, charge });
        } else {
            actions.released += run.charge;
        }
    }

    fn drop_run(&mut self, run: Run, cause: Cause, actions: &mut Actions) {
        let error = Arc::new(DeliveryError {
            cause,
            fate: Fate::NotWritten,
            attempts: 1,
            elapsed: Duration::ZERO,
            topic: run.topic.clone(),
            partition: Some(3),
        });
        self.stats.dropped += u64::from(run.count);
        let charge = Charge::new(&self.parts.budget, run.charge);
        let returned = Returned::new(run.topic.clone(), Some(3), 0, run.bytes.into(), charge);
        let returned = Arc::new(returned);
        run.segment.resolve(Outcome::Dropped { error: error.clone(), returned: returned.clone() });
        if matches!(error.cause, Cause::Stopped { .. }) {
            self.left.push(Leftover { error: error.clone(), returned: returned.clone() });
        }
        if self.parts.has_callback {
            let outcome = SettledOutcome::Dropped { error, returned: vec![returned] };
            let (topic, count) = (run.topic, run.count);
            actions.settled.push(Settled { topic, partition: Some(3), count, outcome, charge: 0 });
        }
    }
}

impl Core for StandIn {
    fn absorb(&mut self, _: Instant, event: Event<'_>, _: &mut Actions) {
        match event {
            Event::Chunk(chunk) => {
                if self.broker.state.lock().mode == Mode::Die {
                    panic!("as the test wants it");
                }
                self.take(chunk);
            }
            Event::Flush { ticket } => self.flushes.push(ticket),
            Event::Stop { deadline } => self.stop = Some(deadline),
            Event::Pressure(_) | Event::Want { .. } => {}
            other => panic!("not of this test: {other:?}"),
        }
    }

    fn advance(&mut self, now: Instant, actions: &mut Actions) {
        let broker = self.broker.clone();
        let mut state = broker.state.lock();
        let is_over = self.stop.is_some_and(|deadline| deadline <= now);
        if state.mode != Mode::Hold || is_over {
            for run in std::mem::take(&mut self.held) {
                match state.mode {
                    Mode::Deliver => self.deliver(run, &mut state, actions),
                    Mode::Drop => self.drop_run(run, Cause::NoLeader, actions),
                    Mode::Hold => self.drop_run(run, Cause::Stopped { last: None }, actions),
                    Mode::Die => panic!("as the test wants it"),
                }
            }
            actions.flushed.append(&mut self.flushes);
        }
        actions.stopped = self.stop.is_some() && self.held.is_empty();
    }

    fn deadline(&self) -> Option<Instant> {
        self.stop
    }

    fn has_work_in_flight(&self) -> bool {
        false
    }

    fn readiness(&mut self, topics: &[u32]) -> Result<(), String> {
        let name = |topic: &u32| self.parts.names.name(*topic);
        match topics.iter().map(name).find(|name| &**name == "missing") {
            Some(name) => Err(format!("the cluster does not know {name}")),
            None => Ok(()),
        }
    }

    fn settled(&self) -> u64 {
        self.stats.delivered + self.stats.dropped
    }

    fn stats(&self) -> Stats {
        self.stats.clone()
    }

    fn status(&self, _: Instant) -> Status {
        Status::default()
    }

    fn leftovers(&mut self) -> Vec<Leftover> {
        std::mem::take(&mut self.left)
    }
}

/// Settings for tests: no linger, a small buffer.
pub fn settings() -> Settings {
    let mut settings = Config::new("nowhere:1").settings().expect("the defaults fit");
    settings.linger = Duration::ZERO;
    settings.buffer_bytes = 1 << 20;
    settings.max_block = PATIENCE;
    settings
}

/// A producer and what stands behind it.
pub fn producer(settings: Settings, callback: Option<Callback>) -> (Producer, Arc<Broker>) {
    producer_of(settings, Origin::new(Duration::ZERO), callback)
}

pub fn producer_of(
    settings: Settings,
    origin: Origin,
    callback: Option<Callback>,
) -> (Producer, Arc<Broker>) {
    let broker = Arc::new(Broker::default());
    let make = |parts: Parts| StandIn {
        broker: broker.clone(),
        parts,
        held: Vec::new(),
        flushes: Vec::new(),
        stop: None,
        left: Vec::new(),
        stats: Stats::default(),
    };
    let producer = around(settings, origin, callback, make).expect("a thread and a poll");
    (producer, broker)
}

/// Lets the worker look at what has changed.
pub fn poke(producer: &Producer) {
    let _ = producer.stats();
}

/// Waits for what another thread must do.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

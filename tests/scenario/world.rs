//! A story's world: the engine in virtual time, a simulated network, and the cluster's model at the other end.
//!
//! The world does what the worker does (absorb what happened, advance, carry out the actions, come back at the
//! deadline), keeps a trace that is printed when a story fails, and watches what no story should have to say: that
//! nothing spins, that limits of requests in flight hold, that nobody sends to a broker that asked for quiet.

use super::ledger::{Ledger, Promise};
use super::network::{Happening, Network, Signal, EPOCH};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::internal::config::settings::{Acks, Idempotence, Settings};
use steadfast::internal::engine::io::{Actions, Compressed, ConnId, Event, NetAction};
use steadfast::internal::engine::Engine;
use steadfast::internal::intake::budget::Budget;
use steadfast::internal::intake::topics::TopicNames;
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Api;
use steadfast::internal::model::{Model, Options};
use steadfast::internal::protocol::compression;
use steadfast::Config;

/// More steps than this within a virtual second are a spin.
const MOST_STEPS: u32 = 5000;

#[path = "world/story.rs"]
mod story;
#[path = "world/watch.rs"]
mod watch;

pub struct World {
    pub net: Network,
    engine: Engine,
    pub settings: Arc<Settings>,
    names: Arc<TopicNames>,
    budget: Arc<Budget>,
    start: Instant,
    now: Duration,
    pub ledger: Ledger,
    trace: VecDeque<String>,
    /// Requests that are not answered, per connection: the partitions of each (none: not a produce request).
    asked: HashMap<ConnId, VecDeque<Vec<(String, i32)>>>,
    /// When each request went out: all of them, by kind.
    pub requests: Vec<(Duration, Api, ConnId)>,
    /// Brokers that asked for quiet.
    quiet: HashMap<i32, Duration>,
    steps: BTreeMap<u64, u32>,
    flushed: Vec<(Duration, u64)>,
    flushes: u64,
    stopped: Option<Duration>,
    /// Not all stories end with all that is promised by default.
    promise: Promise,
    checked: bool,
    /// How long compressing takes.
    pub compressing: Duration,
}

pub fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

pub fn secs(time: u64) -> Duration {
    Duration::from_secs(time)
}

/// A topic's settings as Kafka has them by default.
pub fn plain() -> TopicConfig {
    TopicConfig {
        min_insync_replicas: 1,
        max_message_bytes: 1_048_588,
        log_append_time: false,
        compacted: false,
        timestamp_after_max_ms: None,
    }
}

impl World {
    /// Three brokers, and a producer with these properties.
    pub fn new(properties: &[(&str, &str)]) -> World {
        World::seeded(1, properties)
    }

    pub fn seeded(seed: u64, properties: &[(&str, &str)]) -> World {
        let usual = ("bootstrap.servers", "b1:9092,b2:9092,b3:9092");
        let given = std::iter::once(&usual).chain(properties).copied();
        let config = Config::from_properties(given).expect("properties that exist");
        World::with(seed, config.settings().expect("settings that fit"))
    }

    pub fn with(seed: u64, settings: Settings) -> World {
        let options = Options { trace: true, ..Options::default() };
        let model = Model::new(options, (1..=3).map(|id| (id, format!("b{id}"), 9092)));
        let (settings, names) = (Arc::new(settings), Arc::new(TopicNames::new()));
        let budget = Arc::new(Budget::new(settings.buffer_bytes));
        let start = Instant::now();
        let engine = Engine::new(settings.clone(), names.clone(), budget.clone(), true, start, seed);
        let promise = Promise {
            no_duplicates: settings.idempotence != Idempotence::Off,
            nothing_lost: settings.acks == Acks::All,
            offsets: settings.acks != Acks::Zero,
        };
        World {
            net: Network::new(model),
            engine,
            settings,
            names,
            budget,
            start,
            now: Duration::ZERO,
            ledger: Ledger::default(),
            trace: VecDeque::new(),
            asked: HashMap::new(),
            requests: Vec::new(),
            quiet: HashMap::new(),
            steps: BTreeMap::new(),
            flushed: Vec::new(),
            flushes: 0,
            stopped: None,
            promise,
            checked: false,
            compressing: ms(1),
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn run_until(&mut self, end: Duration) {
        loop {
            let due = self.engine.deadline().filter(|_| self.stopped.is_none());
            let due = due.map(|at| at.saturating_duration_since(self.start));
            let tick = self.net.model.next_tick().map(|at| ms((at - EPOCH).max(0) as u64));
            let next = [self.net.next(), due, tick].into_iter().flatten().min();
            match next.filter(|next| *next <= end) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
            self.count_step();
            self.net.model.tick(Network::wall_clock(self.now));
            while let Some(signal) = self.net.pop(self.now) {
                self.signal(signal);
            }
            self.step();
        }
        self.now = end;
        self.step();
    }

    /// Until every message has its verdict; fails the story if that takes longer than `limit`.
    pub fn settle(&mut self, limit: Duration) {
        let end = self.now + limit;
        while self.ledger.unsettled() > 0 {
            assert!(
                self.now < end,
                "{} of {} messages without a verdict after {limit:?}: {:?}",
                self.ledger.unsettled(),
                self.ledger.entries.len(),
                self.engine.status(self.instant()).waiting
            );
            // Small steps, so that the end of the story comes soon after the last verdict.
            self.run_until((self.now + ms(10)).min(end));
        }
    }

    fn count_step(&mut self) {
        let second = self.now.as_secs();
        let steps = self.steps.entry(second).or_default();
        *steps += 1;
        assert!(*steps < MOST_STEPS, "it spins: {MOST_STEPS} steps in second {second}");
    }

    fn absorb(&mut self, event: Event<'_>) {
        if self.stopped.is_some() {
            return; // the worker has ended
        }
        let mut actions = Actions::default();
        self.engine.absorb(self.start + self.now, event, &mut actions);
        self.perform(actions);
    }

    fn step(&mut self) {
        if self.stopped.is_none() {
            let mut actions = Actions::default();
            self.engine.advance(self.start + self.now, &mut actions);
            self.perform(actions);
        }
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Resolved(conn, result) => {
                self.say(format!("{conn:?} resolved: {result:?}"));
                self.absorb(Event::Resolved { conn, result });
            }
            Signal::Opened(conn) => {
                self.say(format!("{conn:?} stands, to broker {:?}", self.net.broker_of(conn)));
                self.absorb(Event::Opened { conn });
            }
            Signal::Frame(conn, frame) => {
                self.hear(conn, &frame);
                self.absorb(Event::Frame { conn, frame: &frame });
            }
            Signal::Written(conn, begun, done) => self.absorb(Event::Written { conn, begun, done }),
            Signal::Closed(conn, reason) => {
                self.say(format!("{conn:?} ended: {reason:?}"));
                self.asked.remove(&conn);
                self.absorb(Event::Closed { conn, reason });
            }
            Signal::Compressed(compressed) => self.absorb(Event::Compressed(compressed)),
            Signal::None => {}
        }
    }

    fn perform(&mut self, actions: Actions) {
        for action in actions.net {
            self.act(action);
        }
        for job in actions.compress {
            let result = compression::compress(job.codec, job.level, &job.records[..job.used], Vec::new());
            let done = Compressed { job: job.job, result, records: job.records };
            self.net.schedule(self.now + self.compressing, Happening::Compressed(done));
        }
        let verdicts = !actions.settled.is_empty();
        for settled in actions.settled {
            let charge = self.ledger.told(&settled);
            self.say(format!("told: {settled:?}"));
            self.budget.release(charge);
        }
        self.budget.release(actions.released);
        if verdicts {
            self.ledger.look(self.now);
        }
        self.flushed.extend(actions.flushed.into_iter().map(|ticket| (self.now, ticket)));
        if actions.stopped {
            self.stopped.get_or_insert(self.now);
        }
    }

    fn act(&mut self, action: NetAction) {
        let now = self.now;
        match action {
            NetAction::Resolve { conn, host, port } => {
                self.say(format!("{conn:?} resolves {host}:{port}"));
                self.net.schedule(now + ms(1), Happening::Look(conn, host));
            }
            NetAction::Open { conn, addr } => {
                self.say(format!("{conn:?} opens {addr}"));
                self.net.open(now, conn, addr);
            }
            NetAction::Send { conn, frame } => {
                let bytes = frame.to_vec();
                self.watch(conn, &bytes);
                self.net.send(now, conn, bytes);
            }
            NetAction::Close { conn } => {
                self.say(format!("{conn:?} closed by us"));
                self.asked.remove(&conn);
                self.net.close(conn);
            }
        }
    }
}

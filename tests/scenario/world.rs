//! A story's world: the engine in virtual time, a simulated network, and the cluster's model at the other end.
//!
//! The world does what the worker does (absorb what happened, advance, carry out the actions, come back at the
//! deadline), keeps a trace that is printed when a story fails, and watches what no story should have to say: that
//! nothing spins, that limits of requests in flight hold, that nobody sends to a broker that asked for quiet.

use super::ledger::{Entry, Id, Ledger, Promise, Verdict};
use super::network::{address, Happening, Network, Signal, EPOCH};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::internal::config::settings::{Acks, Idempotence, Settings};
use steadfast::internal::engine::io::{Actions, Compressed, ConnId, Event, NetAction};
use steadfast::internal::engine::partitioner::murmur2;
use steadfast::internal::engine::Engine;
use steadfast::internal::intake::budget::Budget;
use steadfast::internal::intake::chunk::Chunk;
use steadfast::internal::intake::head::Head;
use steadfast::internal::intake::topics::TopicNames;
use steadfast::internal::model::fault::{Fault, On, Tail, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::{Api, Body, Request};
use steadfast::internal::model::{Model, Options, Seen};
use steadfast::internal::protocol::compression;
use steadfast::{Config, DeliveryError, Fate, Message, Stats};

/// More steps than this within a virtual second are a spin.
const MOST_STEPS: u32 = 5000;

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
    /// Requests that are not answered, per connection: correlation id and the partitions of a produce request.
    asked: HashMap<ConnId, VecDeque<(i32, Vec<(String, i32)>)>>,
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

    // --- the story's words: the cluster ---

    pub fn topic(mut self, name: &str, partitions: i32) -> World {
        self.create(name, partitions, plain());
        self
    }

    pub fn topic_with(mut self, name: &str, partitions: i32, config: TopicConfig) -> World {
        self.create(name, partitions, config);
        self
    }

    pub fn create(&mut self, name: &str, partitions: i32, config: TopicConfig) {
        assert!(self.net.model.create_topic(name, partitions, 3, config), "there is a topic {name}");
    }

    pub fn delete(&mut self, name: &str) {
        self.say(format!("story: delete topic {name}"));
        assert!(self.net.model.delete_topic(name), "no topic {name}");
        self.ledger.forget_offsets(name);
    }

    /// Duplicates are expected: at least once is all that was asked for.
    pub fn allow_duplicates(mut self) -> World {
        self.promise.no_duplicates = false;
        self
    }

    pub fn fault(&mut self, on: On, times: Times, fault: Fault) {
        self.say(format!("story: {fault:?} on {on:?}, {times:?}"));
        self.net.model.order(on, times, fault);
    }

    /// On partition 0 of "t".
    pub fn fault_t(&mut self, times: Times, fault: Fault) {
        self.fault(On::partition("t", 0), times, fault);
    }

    pub fn crash(&mut self, broker: i32) {
        self.crash_with(broker, Tail::Kept);
    }

    pub fn crash_with(&mut self, broker: i32, tail: Tail) {
        self.say(format!("story: broker {broker} crashes"));
        self.net.down(self.now, broker);
        self.net.model.crash(Network::wall_clock(self.now), broker, tail);
    }

    pub fn restart(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} is back"));
        self.net.model.restart(Network::wall_clock(self.now), broker);
        self.net.up(broker);
    }

    pub fn hang(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} hangs"));
        self.net.hang(self.now, broker, true);
    }

    pub fn resume(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} goes on"));
        self.net.hang(self.now, broker, false);
    }

    pub fn move_leader(&mut self, topic: &str, partition: i32, to: i32) {
        self.say(format!("story: {topic}-{partition} is led by {to}"));
        assert!(self.net.model.move_leader(topic, partition, to));
    }

    pub fn leader(&mut self, topic: &str, partition: i32) -> i32 {
        self.net.model.partition(topic, partition).expect("a partition").leader
    }

    pub fn in_sync(&mut self, topic: &str, partition: i32, replicas: &[i32]) {
        self.say(format!("story: {topic}-{partition} is in sync on {replicas:?}"));
        self.net.model.partition(topic, partition).expect("a partition").isr = replicas.to_vec();
    }

    // --- the story's words: the producer ---

    pub fn now(&self) -> Duration {
        self.now
    }

    /// So many messages without a key in one call.
    pub fn send(&mut self, topic: &str, count: usize) -> Range<Id> {
        self.send_sized(topic, None, count, 20)
    }

    /// So many messages for a partition in one call.
    pub fn send_to(&mut self, topic: &str, partition: i32, count: usize) -> Range<Id> {
        self.send_sized(topic, Some(partition), count, 20)
    }

    /// Values of at least `bytes` bytes.
    pub fn send_sized(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        count: usize,
        bytes: usize,
    ) -> Range<Id> {
        let from = self.ledger.entries.len();
        let messages = (from..from + count).map(|id| (None, format!("{id:0bytes$}").into_bytes()));
        self.send_all(topic, partition, messages.collect()).expect("room in the buffer")
    }

    /// One call with these keys and values. Err: no room.
    #[allow(clippy::type_complexity)]
    pub fn send_all(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        messages: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    ) -> Result<Range<Id>, ()> {
        let slot = self.names.intern(topic).expect("a topic's name");
        let timestamp = Network::wall_clock(self.now);
        let mut heads = Vec::new();
        for (key, value) in &messages {
            let message =
                Message { key: key.as_deref(), value: Some(value), partition, ..Message::default() };
            let hash = key.as_deref().map_or(0, murmur2);
            heads.push(Head::of(&message, slot, hash, timestamp).expect("small enough"));
        }
        self.budget.try_reserve(heads.iter().map(Head::charge).sum()).map_err(|_| ())?;
        let bytes = heads.iter().map(Head::encoded_len).sum();
        let mut chunk = Chunk::new(bytes, self.instant());
        let from = self.ledger.entries.len();
        for ((key, value), head) in messages.into_iter().zip(&heads) {
            let message =
                Message { key: key.as_deref(), value: Some(&value), partition, ..Message::default() };
            let number = chunk.append(&message, head, || self.instant());
            let entry = (topic, key, value, timestamp);
            self.ledger.accept(entry, chunk.block(), number, self.now);
        }
        let ids = from..self.ledger.entries.len();
        self.say(format!("sent {ids:?} to {topic}"));
        self.absorb(Event::Chunk(&chunk));
        drop(chunk);
        self.step();
        Ok(ids)
    }

    /// Returns the flush's ticket.
    pub fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.say(format!("flush {}", self.flushes));
        self.absorb(Event::Flush { ticket: self.flushes });
        self.step();
        self.flushes
    }

    /// When a flush was done, if it was.
    pub fn flushed(&self, ticket: u64) -> Option<Duration> {
        self.flushed.iter().find(|(_, done)| *done == ticket).map(|(at, _)| *at)
    }

    pub fn stop(&mut self, timeout: Duration) {
        self.say(format!("stop within {timeout:?}"));
        self.absorb(Event::Stop { deadline: self.start + self.now + timeout });
        self.step();
    }

    pub fn stopped(&self) -> Option<Duration> {
        self.stopped
    }

    pub fn pressure(&mut self, on: bool) {
        self.absorb(Event::Pressure(on));
        self.step();
    }

    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    pub fn instant(&self) -> Instant {
        self.start + self.now
    }

    pub fn budget_used(&self) -> u64 {
        self.budget.used()
    }

    // --- time ---

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn run_until(&mut self, end: Duration) {
        loop {
            let due = self.engine.deadline().map(|at| at.saturating_duration_since(self.start));
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
        let mut actions = Actions::default();
        self.engine.absorb(self.start + self.now, event, &mut actions);
        self.perform(actions);
    }

    fn step(&mut self) {
        let mut actions = Actions::default();
        self.engine.advance(self.start + self.now, &mut actions);
        self.perform(actions);
        self.ledger.look(self.now);
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
        for settled in actions.settled {
            let charge = self.ledger.told(&settled);
            self.say(format!("told: {settled:?}"));
            self.budget.release(charge);
        }
        self.budget.release(actions.released);
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
                self.net.schedule(now + ms(1), Happening::Look(conn, host, port));
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

    // --- what is watched ---

    /// A request goes out.
    fn watch(&mut self, conn: ConnId, bytes: &[u8]) {
        let request = Request::decode(bytes[4..].to_vec().into()).expect("a request that can be read");
        self.requests.push((self.now, request.api, conn));
        let mut partitions = Vec::new();
        let mut words =
            format!("{conn:?} -> {:?} v{} #{}", request.api, request.version, request.correlation);
        if let Body::Produce(produce) = &request.body {
            for topic in &produce.topics {
                for (index, batch) in &topic.partitions {
                    let name =
                        if topic.name.is_empty() { format!("{:?}", topic.id) } else { topic.name.clone() };
                    if let Ok(batch) = batch {
                        let (id, epoch, sequence) = (batch.producer_id, batch.epoch, batch.sequence);
                        words += &format!(" [{index}: {} from {sequence} of {id}/{epoch}]", batch.count);
                    }
                    partitions.push((name, *index));
                }
            }
            let broker = self.net.broker_of(conn).unwrap_or(-1);
            if self.quiet.get(&broker).is_some_and(|until| self.now < *until) {
                self.ledger
                    .faults
                    .push(format!("{:?}: a produce request to broker {broker}, throttled", self.now));
            }
        }
        self.say(words);
        self.asked.entry(conn).or_default().push_back((request.correlation, partitions));
        self.check_in_flight(conn);
    }

    fn check_in_flight(&mut self, conn: ConnId) {
        let max = self.settings.max_in_flight;
        let produce = self.asked[&conn].iter().filter(|(_, partitions)| !partitions.is_empty()).count();
        if produce > max && self.promise.offsets {
            self.ledger.faults.push(format!("{produce} produce requests in flight on {conn:?}"));
        }
        let mut counts: BTreeMap<&(String, i32), usize> = BTreeMap::new();
        for (_, partitions) in self.asked.values().flatten() {
            partitions.iter().for_each(|partition| *counts.entry(partition).or_default() += 1);
        }
        let most = if self.settings.idempotence == Idempotence::Off { 1 } else { max };
        let above = counts.into_iter().filter(|(_, count)| *count > most && self.promise.offsets);
        let above: Vec<_> =
            above.map(|(partition, count)| format!("{count} in flight for {partition:?}")).collect();
        self.ledger.faults.extend(above);
    }

    /// An answer comes in.
    fn hear(&mut self, conn: ConnId, frame: &[u8]) {
        let correlation = frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes));
        self.say(format!("{conn:?} <- {} bytes #{correlation:?}", frame.len()));
        if let Some(asked) = self.asked.get_mut(&conn) {
            asked.pop_front();
        }
    }

    /// From now on a produce request to this broker within `time` is a fault.
    pub fn expect_quiet(&mut self, broker: i32, time: Duration) {
        self.quiet.insert(broker, self.now + time);
    }

    fn say(&mut self, words: String) {
        if self.trace.len() == 2000 {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>12.3?} {words}", self.now));
    }

    // --- the end ---

    /// Everything that must hold at the end of every story.
    pub fn check(&mut self) {
        self.checked = true;
        let (mut faults, promise) = (std::mem::take(&mut self.ledger.faults), self.promise);
        self.ledger.check(&self.net.model, promise);
        faults.append(&mut self.ledger.faults);
        faults.extend(self.net.model.violations.iter().map(|violation| format!("violation: {violation}")));
        if self.ledger.unsettled() == 0 && !self.budget.is_unused() {
            faults.push(format!("{} bytes of the budget are not given back", self.budget.used()));
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }

    /// Until everything has its verdict, at most `limit`; then all that must hold.
    pub fn finish(&mut self, limit: Duration) {
        self.settle(limit);
        self.check();
    }

    /// As `finish`, and everything was delivered.
    pub fn finish_delivered(&mut self, limit: Duration) {
        self.finish(limit);
        let dropped = self.dropped();
        assert!(dropped.is_empty(), "dropped: {dropped:#?}");
    }

    pub fn entry(&self, id: Id) -> &Entry {
        &self.ledger.entries[id]
    }

    pub fn delivered(&self, ids: Range<Id>) -> bool {
        ids.into_iter().all(|id| matches!(self.entry(id).verdict, Some((_, Verdict::Delivered { .. }))))
    }

    /// Why a message was dropped.
    pub fn error(&self, id: Id) -> &DeliveryError {
        match &self.entry(id).verdict {
            Some((_, Verdict::Dropped(error))) => error,
            other => panic!("message {id}: {other:?}"),
        }
    }

    pub fn settled_at(&self, id: Id) -> Duration {
        self.entry(id)
            .verdict
            .as_ref()
            .map(|(at, _)| *at)
            .unwrap_or_else(|| panic!("message {id} has no verdict"))
    }

    /// Numbers and errors of all that was dropped.
    pub fn dropped(&self) -> Vec<(Id, &DeliveryError)> {
        let entries = self.ledger.entries.iter().enumerate();
        entries
            .filter_map(|(id, entry)| match &entry.verdict {
                Some((_, Verdict::Dropped(error))) => Some((id, &**error)),
                _ => None,
            })
            .collect()
    }

    pub fn fates(&self) -> Vec<(Id, Fate)> {
        self.dropped().into_iter().map(|(id, error)| (id, error.fate)).collect()
    }

    /// Attempts that reached a broker for a partition.
    pub fn seen(&self, topic: &str, partition: i32) -> Vec<&Seen> {
        self.net
            .model
            .seen
            .iter()
            .filter(|seen| *seen.topic == *topic && seen.partition == partition)
            .collect()
    }

    /// Epoch, first sequence and count of each attempt for partition 0 of "t".
    pub fn sequences(&self) -> Vec<(i16, i32, i32)> {
        let batches = self.seen("t", 0).into_iter().filter_map(|seen| seen.batch.as_ref());
        batches.map(|batch| (batch.epoch, batch.sequence, batch.count)).collect()
    }

    /// Requests of one kind.
    pub fn requests_of(&self, api: Api) -> usize {
        self.requests.iter().filter(|(_, kind, _)| *kind == api).count()
    }

    /// The most requests that went out within any second of the clock.
    pub fn busiest_second(&self) -> usize {
        let mut seconds: BTreeMap<u64, usize> = BTreeMap::new();
        self.requests.iter().for_each(|(at, ..)| *seconds.entry(at.as_secs()).or_default() += 1);
        seconds.into_values().max().unwrap_or(0)
    }

    /// The values in partition 0 of "t" as message numbers.
    pub fn log(&mut self) -> Vec<Id> {
        let partition = self.net.model.partition("t", 0).expect("a topic t");
        let messages = partition.messages("t", 0).expect("a log that can be read");
        let number = |value: Option<Vec<u8>>| String::from_utf8(value?).ok()?.parse().ok();
        messages.into_iter().map(|message| number(message.value).expect("a value of ours")).collect()
    }

    pub fn home(broker: i32) -> std::net::SocketAddr {
        address(broker)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let from = self.trace.len().saturating_sub(150);
            eprintln!("--- the last of {} lines ---", self.trace.len());
            self.trace.iter().skip(from).for_each(|line| eprintln!("{line}"));
        } else {
            assert!(self.checked, "a story must end with `check` or `finish`");
        }
    }
}

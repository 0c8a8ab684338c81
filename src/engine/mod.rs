//! The engine: everything that is decided, and nothing that is done.
//!
//! It has no sockets, threads or clock: time and randomness are arguments. The worker tells it what happened (`absorb`),
//! lets all stages go on in a fixed order (`advance`), carries out the `Actions`, and comes back at `deadline`. So the
//! whole of it runs in tests in virtual time.
//!
//! The rooms, in the order in which a message meets them:
//! `route` (topic and partition) - `partition`, `batch` (where it waits) - `requests` (one request per broker) -
//! `links`, `node` (connections) - `answers` (what came back) - `classify` (the table) - `retry` (the only place that sends
//! work back) - `delivery` (verdicts). Beside them: `metadata`, `refresh` (the view of the cluster), `identity` (producer
//! id), `eras` (flush), `timers`, `status`.

mod answers;
mod batch;
pub mod classify;
mod delivery;
mod eras;
mod identity;
pub mod io;
mod links;
mod metadata;
mod node;
mod partition;
pub mod partitioner;
mod pieces;
mod pool;
mod refresh;
mod requests;
mod retry;
mod route;
mod seal;
mod status;
mod timers;
mod topic;

use crate::config::settings::Settings;
use crate::delivery::block::Returned;
use crate::error::DeliveryError;
use crate::intake::budget::Budget;
use crate::intake::topics::TopicNames;
use eras::Eras;
use identity::Identity;
use io::{Actions, ConnId, Event};
use node::Node;
use partition::Partition;
use pool::BufferPool;
use refresh::Refresh;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use timers::{Timer, Timers};
use topic::Topic;

pub use status::EngineStats;

/// Buffers kept for reuse: as much as the budget, but not more than this.
const POOL_BYTES: u64 = 16 << 20;

pub struct Engine {
    settings: Arc<Settings>,
    names: Arc<TopicNames>,
    budget: Arc<Budget>,
    /// Whether verdicts are to be told one run after the other.
    callback: bool,
    rng: fastrand::Rng,
    /// By the caller's number of the topic.
    topics: Vec<Topic>,
    slots: HashMap<Arc<str>, u32>,
    partitions: Vec<Partition>,
    nodes: Vec<Node>,
    /// Broker id to its place in `nodes`.
    by_id: HashMap<i32, usize>,
    by_conn: HashMap<ConnId, usize>,
    /// Batches that are being compressed: where each belongs.
    jobs: HashMap<u64, u32>,
    /// Partitions whose open batch was due from its first message on.
    fresh: Vec<u32>,
    cluster_id: Option<String>,
    refresh: Refresh,
    identity: Identity,
    timers: Timers,
    pool: BufferPool,
    eras: Eras,
    stats: EngineStats,
    /// The next connection, batch, chunk.
    next_conn: u64,
    next_batch: u64,
    chunks: u64,
    /// When a connection was last begun for want of any.
    last_attempt: Option<Instant>,
    started: Instant,
    /// The time of the last `advance`: a coarse clock for what need not be exact.
    last_advance: Instant,
    /// Callers wait for room.
    pressure: bool,
    stop: Option<Instant>,
    /// What the end of the producer dropped.
    left: Vec<(Arc<DeliveryError>, Arc<Returned>)>,
}

impl Engine {
    /// `callback`: whether verdicts are told in `Actions::settled`. `seed`: of everything that is left to chance.
    pub fn new(
        settings: Arc<Settings>,
        names: Arc<TopicNames>,
        budget: Arc<Budget>,
        callback: bool,
        now: Instant,
        seed: u64,
    ) -> Engine {
        let seed_node =
            |(at, (host, port)): (usize, &(String, u16))| Node::new(-1 - at as i32, host.clone(), *port);
        let nodes: Vec<Node> = settings.bootstrap_servers.iter().enumerate().map(seed_node).collect();
        Engine {
            names,
            budget,
            callback,
            rng: fastrand::Rng::with_seed(seed),
            topics: Vec::new(),
            slots: HashMap::new(),
            partitions: Vec::new(),
            by_id: nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect(),
            nodes,
            by_conn: HashMap::new(),
            jobs: HashMap::new(),
            fresh: Vec::new(),
            cluster_id: None,
            refresh: Refresh::new(settings.metadata_max_age, now),
            identity: Identity::new(settings.idempotence, now),
            timers: Timers::default(),
            pool: BufferPool::new(settings.buffer_bytes.min(POOL_BYTES) as usize),
            eras: Eras::default(),
            stats: EngineStats::default(),
            next_conn: 0,
            next_batch: 0,
            chunks: 0,
            last_attempt: None,
            started: now,
            last_advance: now,
            pressure: false,
            stop: None,
            left: Vec::new(),
            settings,
        }
    }

    /// Takes in what happened.
    pub fn absorb(&mut self, now: Instant, event: Event<'_>, actions: &mut Actions) {
        match event {
            Event::Chunk(chunk) => self.route(now, chunk, actions),
            Event::Resolved { conn, result } => self.on_resolved(now, conn, result, actions),
            Event::Opened { conn } => self.on_opened(now, conn, actions),
            Event::Frame { conn, frame } => self.on_frame(now, conn, frame, actions),
            Event::Written { conn, begun, done } => self.on_written(now, conn, begun, done, actions),
            Event::Closed { conn, reason } => self.on_closed(now, conn, reason, actions),
            Event::Compressed(compressed) => self.on_compressed(now, compressed, actions),
            Event::Flush { ticket } => {
                self.eras.flush(ticket);
                self.end_lingering(now);
            }
            Event::Stop { deadline } => {
                self.stop = Some(self.stop.map_or(deadline, |earlier| earlier.min(deadline)));
                self.end_lingering(now);
            }
            Event::Pressure(pressure) => {
                self.pressure = pressure;
                if pressure {
                    self.end_lingering(now);
                }
            }
            Event::Want { topics } => self.want(now, &topics),
        }
    }

    /// Lets everything go on that can: in this order, each time.
    pub fn advance(&mut self, now: Instant, actions: &mut Actions) {
        self.last_advance = now;
        self.ring_timers(now, actions);
        self.check_links(now, actions);
        self.check_identity(now, actions);
        if self.stop.is_some_and(|deadline| deadline <= now) {
            self.drop_everything(now, actions);
        }
        self.ask_for_metadata(now, actions);
        self.ask_for_identity(now, actions);
        self.send_requests(now, actions);
        self.eras.take_done(&mut actions.flushed);
        actions.stopped = self.stop.is_some() && self.eras.is_empty();
    }

    /// When `advance` wants to be called again, if nothing happens before. None: only when something happens.
    pub fn deadline(&self) -> Option<Instant> {
        let links = self.nodes.iter().filter_map(|node| self.link_deadline(node)).min();
        let asking = [self.metadata_deadline(), self.identity_deadline()];
        [links, asking[0], asking[1], self.timers.next(), self.stop].into_iter().flatten().min()
    }

    /// The broker that leads a partition, as far as it is known.
    fn leader_of(&self, partition: &Partition) -> Option<&Node> {
        let leader = partition.leader?;
        self.by_id.get(&leader).map(|node| &self.nodes[*node])
    }

    fn ring_timers(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Linger(at) => self.on_linger(now, at),
                Timer::Expire(at) => self.on_expire(now, at, actions),
                Timer::Unmute(at) => self.on_unmute(now, at),
                Timer::Topic(slot) => self.on_topic_timer(now, slot, actions),
            }
        }
    }
}

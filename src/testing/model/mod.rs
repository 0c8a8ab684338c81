//! A Kafka cluster as its producers see it, without sockets, threads or a clock: time comes in with each request.
//!
//! It holds what real brokers hold (logs, leaders and their epochs, in-sync replicas, what each partition remembers of
//! idempotent producers), answers as they do, and does what was ordered instead where a fault was ordered. The
//! embedded cluster puts sockets before it, the tests of the engine a simulated network.

// Most of it is shown to the crate's own tests only; what users see is documented.
#![allow(missing_docs)]

pub mod batch;
pub mod code;
pub mod fault;
pub mod metadata;
pub mod partition;
pub mod produce;
pub mod producers;
pub mod request;
pub mod topics;
pub mod versions;

use batch::Batch;
use fault::{Effect, Fault, On, Orders, Tail};
use kafka_protocol::messages::{InitProducerIdResponse, ProducerId};
use metadata::View;
use partition::TopicConfig;
use request::{Api, Body, Request};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use topics::Topic;
use versions::{frame, Versions};

/// The cluster.
pub struct Model {
    pub(super) brokers: BTreeMap<i32, Broker>,
    pub(super) topics: BTreeMap<String, Topic>,
    /// Names of the topics by their ids.
    pub(super) names: HashMap<[u8; 16], String>,
    /// Topics that were deleted, with their logs.
    pub former: Vec<Topic>,
    pub(super) options: Options,
    pub(super) orders: Orders,
    pub(super) hook: Option<Hook>,
    next_producer_id: i64,
    pub(super) next_topic: u128,
    /// Brokers that will be found out to be away, and when.
    fencing: Vec<(i64, i32)>,
    /// What a producer did that it should not: the first hundred.
    pub violations: Vec<String>,
    /// Every batch of every produce request, where that was asked for.
    pub seen: Vec<Seen>,
    /// Requests so far, by broker and kind.
    pub counts: BTreeMap<(i32, Api), u64>,
    /// Messages appended so far, without duplicates.
    pub appended: u64,
}

/// Asked about each batch that comes: what to do instead of the ordinary.
pub type Hook = Box<dyn FnMut(&Arriving<'_>) -> Option<Fault> + Send>;

/// A batch on its way into a partition.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Arriving<'a> {
    /// The broker it was sent to.
    pub broker: i32,
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// How many batches came for this partition before it, repeats counted too.
    pub number: u64,
    /// Its messages.
    pub count: i32,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// Of its first message; -1 without idempotence.
    pub sequence: i32,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// How topics are made that somebody asks for; None: they are not.
    pub auto_create: Option<(i32, TopicConfig)>,
    /// Replicas of a topic, where it does not say.
    pub replication: usize,
    /// How long until the others find out that a broker is away.
    pub failover_after: Duration,
    /// Batches are kept to be read back, not only counted.
    pub keep_log: bool,
    /// Records are taken apart and checked as they come.
    pub check_records: bool,
    /// `seen` is kept.
    pub trace: bool,
}

#[derive(Debug)]
pub struct Broker {
    pub host: String,
    pub port: i32,
    pub rack: Option<String>,
    pub cluster_id: String,
    pub versions: Versions,
    pub up: bool,
    /// The others know that it is away.
    pub fenced: bool,
    /// None: it knows how things are.
    pub view: Option<View>,
    /// Said in every answer.
    pub throttle: Duration,
}

/// A batch that came, and what became of it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: i64,
    pub broker: i32,
    pub connection: u64,
    pub topic: Arc<str>,
    pub partition: i32,
    /// None: it could not be read.
    pub batch: Option<Batch>,
    /// None: nothing of the request was done.
    pub code: Option<i16>,
    /// Where it was appended, if it was.
    pub base_offset: Option<i64>,
    pub duplicate: bool,
}

/// What a broker does with a request.
#[derive(Debug)]
pub enum Step {
    /// Answers it.
    Reply(Reply),
    /// Takes it up later: the same request is handed in again, even when the connection is gone by then.
    Later(Duration),
}

/// An answer, and what becomes of the connection.
#[derive(Debug, Default)]
pub struct Reply {
    /// Goes out as it is, length and all; empty: nothing does.
    pub bytes: Vec<u8>,
    /// Before it goes out. The connection's next request waits for that, as with real brokers.
    pub delay: Duration,
    pub then: Then,
    /// After it went out, the broker reads nothing from this connection for so long.
    pub mute: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// The connection's next request.
    #[default]
    GoOn,
    /// The connection is closed.
    Close,
    /// The connection stays open, and nothing is read from it or written to it any more.
    Freeze,
}

impl Reply {
    fn close() -> Step {
        Step::Reply(Reply { then: Then::Close, ..Reply::default() })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            auto_create: None,
            replication: 3,
            failover_after: Duration::ZERO,
            keep_log: true,
            check_records: true,
            trace: false,
        }
    }
}

impl Model {
    /// A cluster with these brokers (id, host, port).
    pub fn new(options: Options, brokers: impl IntoIterator<Item = (i32, String, u16)>) -> Model {
        let brokers = brokers.into_iter().map(|(id, host, port)| {
            let broker = Broker {
                host,
                port: i32::from(port),
                rack: None,
                cluster_id: "steadfast-embedded-00".to_owned(),
                versions: Versions::kafka_4_4(),
                up: true,
                fenced: false,
                view: None,
                throttle: Duration::ZERO,
            };
            (id, broker)
        });
        Model {
            brokers: brokers.collect(),
            topics: BTreeMap::new(),
            names: HashMap::new(),
            former: Vec::new(),
            options,
            orders: Orders::default(),
            hook: None,
            next_producer_id: 4000,
            next_topic: 1,
            fencing: Vec::new(),
            violations: Vec::new(),
            seen: Vec::new(),
            counts: BTreeMap::new(),
            appended: 0,
        }
    }

    /// Ids of all brokers, up or not.
    pub fn broker_ids(&self) -> Vec<i32> {
        self.brokers.keys().copied().collect()
    }

    /// One broker, to look at or to change.
    pub fn broker(&mut self, id: i32) -> Option<&mut Broker> {
        self.brokers.get_mut(&id)
    }

    /// How long until the others find out that a broker is away.
    pub fn failover_after(&mut self, time: Duration) {
        self.options.failover_after = time;
    }

    /// `times` requests meet this fault.
    pub fn order(&mut self, on: On, times: fault::Times, fault: Fault) {
        self.orders.add(on, times, fault);
    }

    /// No more of what was ordered for exactly these.
    pub fn lift(&mut self, on: &On) {
        self.orders.lift(on);
    }

    /// `hook` is asked about each batch from now on.
    pub fn on_produce(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }

    pub fn violation(&mut self, what: String) {
        if self.violations.len() < 100 {
            self.violations.push(what);
        }
    }

    /// A request arrives at a broker. `taken_up`: it comes again after `Step::Later`.
    pub fn handle(
        &mut self,
        now: i64,
        broker: i32,
        connection: u64,
        request: &Request,
        taken_up: bool,
    ) -> Step {
        self.tick(now);
        if !self.brokers[&broker].up {
            return Reply::close();
        }
        let (api, version) = (request.api, request.version);
        let mut fault = None;
        if !taken_up {
            *self.counts.entry((broker, api)).or_default() += 1;
            fault = self.orders.take(|on| match on {
                On::Broker(id) => *id == broker,
                On::Requests(id, kind) => *id == broker && *kind == api,
                On::Partition(..) => false,
            });
        }
        match fault.as_ref().map(|fault| &fault.0) {
            Some(Effect::Late(time)) => return Step::Later(*time),
            Some(Effect::CloseBefore) => return Reply::close(),
            Some(Effect::Swallow) => {
                return Step::Reply(Reply { then: Then::Freeze, ..Reply::default() });
            }
            _ => {}
        }
        let known = &self.brokers[&broker].versions;
        if api != Api::ApiVersions && !known.serves(api, version) {
            self.violation(format!("broker {broker} does not offer {api:?} v{version}"));
            return Reply::close();
        }
        let throttle = self.throttle(broker, fault.as_ref());
        match &request.body {
            Body::Produce(produce) => {
                let arrival = produce::Arrival { now, broker, connection, taken_up };
                self.produce(arrival, request, produce, fault.as_ref())
            }
            Body::Metadata(metadata) => {
                let mut response = self.metadata(broker, version, metadata);
                response.throttle_time_ms = millis(throttle);
                if let Some(Effect::Error { code, .. }) = fault.as_ref().map(|f| &f.0) {
                    if *code == code::REBOOTSTRAP_REQUIRED {
                        response.error_code = *code; // said to who asks in v13, and of no topic
                    }
                    response.topics.iter_mut().for_each(|topic| topic.error_code = *code);
                    response.topics.iter_mut().for_each(|topic| topic.partitions.clear());
                }
                let bytes = Model::encode_metadata(request.correlation, version, &response);
                dress(bytes, throttle, fault.as_ref())
            }
            Body::InitProducerId(_) => {
                let response = self.init_producer_id(throttle, fault.as_ref());
                dress(frame(request.correlation, version >= 2, &response, version), throttle, fault.as_ref())
            }
            Body::ApiVersions | Body::Unreadable => {
                let Some((format, mut response)) = self.brokers[&broker].versions.answer(version) else {
                    return Reply::close();
                };
                if let Some(Effect::Error { code, .. }) = fault.as_ref().map(|f| &f.0) {
                    response.error_code = *code;
                }
                response.throttle_time_ms = if format > 0 { millis(throttle) } else { 0 };
                dress(frame(request.correlation, false, &response, format), throttle, fault.as_ref())
            }
        }
    }

    pub(super) fn throttle(&self, broker: i32, fault: Option<&Fault>) -> Duration {
        match fault.map(|fault| &fault.0) {
            Some(Effect::Throttle(time)) => *time,
            _ => self.brokers[&broker].throttle,
        }
    }

    fn init_producer_id(&mut self, throttle: Duration, fault: Option<&Fault>) -> InitProducerIdResponse {
        let response = InitProducerIdResponse::default().with_throttle_time_ms(millis(throttle));
        if let Some(Effect::Error { code, .. }) = fault.map(|f| &f.0) {
            return response.with_error_code(*code).with_producer_id(ProducerId(-1)).with_producer_epoch(-1);
        }
        // Without a transactional id a broker always grants a new id, whatever the request holds.
        self.next_producer_id += 1;
        response.with_producer_id(ProducerId(self.next_producer_id)).with_producer_epoch(0)
    }

    /// A broker goes away. The others find out after `failover_after`; then its partitions get other leaders.
    pub fn crash(&mut self, now: i64, id: i32, tail: Tail) {
        self.tick(now);
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| broker.up) else {
            return;
        };
        broker.up = false;
        if tail == Tail::Lost {
            let led = self.topics.values_mut().flat_map(|topic| &mut topic.partitions);
            led.filter(|partition| partition.leader == id).for_each(|partition| partition.lose_uncommitted());
        }
        self.fencing.push((now + self.options.failover_after.as_millis() as i64, id));
        self.tick(now);
    }

    /// It comes back, in sync at once.
    pub fn restart(&mut self, now: i64, id: i32) {
        self.tick(now);
        self.fencing.retain(|&(_, fenced)| fenced != id);
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| !broker.up) else {
            return;
        };
        (broker.up, broker.view) = (true, None);
        self.unfence(id);
    }

    /// The others take a broker for dead, and elect other leaders.
    pub fn fence(&mut self, id: i32) {
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| !broker.fenced) else {
            return;
        };
        broker.fenced = true;
        let present = self.present_and_up();
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            partition.lose(id, |id| present.contains(&id));
        }
    }

    /// They hear from it again.
    pub fn unfence(&mut self, id: i32) {
        let Some(broker) = self.brokers.get_mut(&id).filter(|broker| broker.up) else {
            return;
        };
        broker.fenced = false;
        let present = self.present_and_up();
        for partition in self.topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            partition.regain(id, |id| present.contains(&id));
        }
    }

    fn present_and_up(&self) -> Vec<i32> {
        self.brokers.iter().filter(|(_, broker)| broker.up && !broker.fenced).map(|(&id, _)| id).collect()
    }

    /// What time alone brings about.
    pub fn tick(&mut self, now: i64) {
        while let Some(at) = self.fencing.iter().position(|&(due, _)| due <= now) {
            let (_, id) = self.fencing.swap_remove(at);
            self.fence(id);
        }
    }

    /// When `tick` has something to do.
    pub fn next_tick(&self) -> Option<i64> {
        self.fencing.iter().map(|&(due, _)| due).min()
    }
}

pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

/// The answer as it goes out, with what was ordered for it.
pub(super) fn dress(bytes: Vec<u8>, throttle: Duration, fault: Option<&Fault>) -> Step {
    let mut reply = Reply { bytes, mute: throttle, ..Reply::default() };
    let Some(fault) = fault else {
        return Step::Reply(reply);
    };
    match &fault.0 {
        Effect::Delay(time) => reply.delay = *time,
        Effect::CloseAfter => (reply.bytes, reply.then) = (Vec::new(), Then::Close),
        Effect::LoseResponse => (reply.bytes, reply.then) = (Vec::new(), Then::Freeze),
        Effect::Raw(raw) => reply.bytes.clone_from(raw),
        Effect::Body(body) if reply.bytes.len() >= 8 => {
            reply.bytes.truncate(8);
            reply.bytes.extend(body);
            let length = reply.bytes.len() as i32 - 4;
            reply.bytes[..4].copy_from_slice(&length.to_be_bytes());
        }
        Effect::WrongCorrelation if reply.bytes.len() >= 8 => reply.bytes[4] ^= 0x40,
        Effect::Twice => reply.bytes.extend_from_within(..),
        Effect::Cut(count) => {
            reply.bytes.truncate(*count);
            reply.then = Then::Close;
        }
        _ => {}
    }
    Step::Reply(reply)
}

//! A network in virtual time with the cluster's model at its other end.
//!
//! Connections are first in, first out, both ways. A broker takes a connection's requests one after the other; what
//! arrived is worked on even when its sender has gone, as it is with real ones.

use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use steadfast::internal::engine::io::{CloseReason, Compressed, ConnId};
use steadfast::internal::model::request::Request;
use steadfast::internal::model::{Model, Reply, Step, Then};

/// Milliseconds since 1970 at the beginning of every story.
pub const EPOCH: i64 = 1_700_000_000_000;

/// What the kernel takes in for a broker that does not read.
const SOCKET_BUFFERS: usize = 256 * 1024;

/// Longer frames are refused by the real shell, too.
const LONGEST_FRAME: i32 = 64 << 20;

pub struct Network {
    pub model: Model,
    /// One way.
    pub latency: Duration,
    hosts: BTreeMap<i32, Host>,
    connections: BTreeMap<ConnId, Connection>,
    names: HashMap<String, Result<Vec<SocketAddr>, String>>,
    doors: HashMap<SocketAddr, i32>,
    queue: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    pub dials: Vec<(Duration, i32)>,
}

#[derive(Clone, Copy)]
struct Host {
    up: bool,
    hung: bool,
    /// Packets to it and from it get lost.
    black_hole: bool,
    /// How often its process was started.
    starts: u32,
}

struct Connection {
    broker: i32,
    /// The broker's process that it belongs to: what that had in its hands dies with it.
    start: u32,
    /// The client has not closed it and was not told of its end.
    ours: bool,
    /// The broker has not closed it.
    theirs: bool,
    /// Frames whose first byte the kernel took, and those that it took whole.
    begun: u64,
    done: u64,
    /// What it has not taken yet.
    outgoing: VecDeque<(Bytes, usize)>,
    /// Bytes taken and not read by the broker.
    buffered: usize,
    /// Bytes until the line is cut.
    cut: Option<usize>,
    inbox: VecDeque<Bytes>,
    busy: bool,
    /// Answers arrive no earlier than the one before.
    last_arrival: Duration,
    /// Bytes of answers that are not a whole frame yet.
    received: Vec<u8>,
}

/// What the engine is told.
pub enum Signal {
    Resolved(ConnId, Result<Vec<SocketAddr>, String>),
    Opened(ConnId),
    Frame(ConnId, Vec<u8>),
    Written(ConnId, u64, u64),
    Closed(ConnId, CloseReason),
    Compressed(Compressed),
    /// Nothing: it concerned others.
    None,
}

pub enum Happening {
    Look(ConnId, String),
    Knock(ConnId, SocketAddr),
    Written(ConnId),
    Arrive(ConnId, Bytes),
    /// A request that was put off.
    TakeUp(ConnId, Rc<Request>),
    /// The broker is free for the connection's next request.
    Free(ConnId),
    Answer(ConnId, Vec<u8>),
    End(ConnId, CloseReason),
    Compressed(Compressed),
}

struct Due {
    at: Duration,
    number: u64,
    what: Happening,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub fn address(broker: i32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, broker as u8), 9092))
}

impl Network {
    pub fn new(model: Model) -> Network {
        let ids = model.broker_ids();
        let host = Host { up: true, hung: false, black_hole: false, starts: 1 };
        Network {
            model,
            latency: Duration::from_millis(1),
            hosts: ids.iter().map(|&id| (id, host)).collect(),
            connections: BTreeMap::new(),
            names: ids.iter().map(|&id| (format!("b{id}"), Ok(vec![address(id)]))).collect(),
            doors: ids.iter().map(|&id| (address(id), id)).collect(),
            queue: BinaryHeap::new(),
            numbers: 0,
            dials: Vec::new(),
        }
    }

    pub fn wall_clock(now: Duration) -> i64 {
        EPOCH + now.as_millis() as i64
    }

    /// What a name resolves to from now on.
    pub fn name(&mut self, host: &str, to: Result<Vec<SocketAddr>, String>) {
        self.names.insert(host.to_owned(), to);
    }

    /// A broker has another address from now on; nobody is at the old one.
    pub fn readdress(&mut self, broker: i32, to: SocketAddr) {
        self.doors.retain(|_, at| *at != broker);
        self.doors.insert(to, broker);
    }

    pub fn schedule(&mut self, at: Duration, what: Happening) {
        self.numbers += 1;
        self.queue.push(Reverse(Due { at, number: self.numbers, what }));
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Duration> {
        self.queue.peek().map(|Reverse(due)| due.at)
    }

    /// Lets the next thing happen that is due.
    pub fn pop(&mut self, now: Duration) -> Option<Signal> {
        if self.next()? > now {
            return None;
        }
        let Reverse(due) = self.queue.pop()?;
        Some(self.happen(now, due.what))
    }

    fn happen(&mut self, now: Duration, what: Happening) -> Signal {
        match what {
            Happening::Look(conn, host) => {
                let unknown = || Err(format!("{host}: no such name"));
                Signal::Resolved(conn, self.names.get(&host).cloned().unwrap_or_else(unknown))
            }
            Happening::Knock(conn, address) => self.knock(now, conn, address),
            Happening::Written(conn) => self.written(now, conn),
            Happening::Arrive(conn, frame) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.inbox.push_back(frame);
                }
                self.work(now, conn);
                Signal::None
            }
            Happening::TakeUp(conn, request) => {
                self.handle(now, conn, request, true);
                Signal::None
            }
            Happening::Free(conn) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.busy = false;
                }
                self.work(now, conn);
                Signal::None
            }
            Happening::Answer(conn, bytes) => self.answered(now, conn, bytes),
            Happening::End(conn, reason) => match self.connections.get_mut(&conn) {
                Some(connection) if connection.ours => {
                    connection.ours = false;
                    Signal::Closed(conn, reason)
                }
                _ => Signal::None,
            },
            Happening::Compressed(compressed) => Signal::Compressed(compressed),
        }
    }

    fn knock(&mut self, now: Duration, conn: ConnId, address: SocketAddr) -> Signal {
        // A connection that was closed while it was being made is heard of no more.
        if !self.connections.get(&conn).is_some_and(|connection| connection.ours) {
            return Signal::None;
        }
        let broker = self.doors.get(&address).copied();
        self.dials.push((now, broker.unwrap_or(-1)));
        match broker.map(|broker| (broker, self.hosts[&broker])) {
            Some((_, host)) if host.black_hole => {
                self.schedule(now + Duration::from_secs(1), Happening::Knock(conn, address)); // as TCP does
                Signal::None
            }
            Some((broker, host)) if host.up => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    (connection.broker, connection.theirs) = (broker, true);
                    connection.start = host.starts;
                }
                Signal::Opened(conn)
            }
            _ => {
                self.connections.remove(&conn);
                Signal::Closed(conn, CloseReason::Refused)
            }
        }
    }

    /// The client asks for a connection. (Its number is known from here on.)
    pub fn open(&mut self, now: Duration, conn: ConnId, address: SocketAddr) {
        let connection = Connection {
            broker: -1,
            start: 0,
            ours: true,
            theirs: false,
            begun: 0,
            done: 0,
            outgoing: VecDeque::new(),
            buffered: 0,
            cut: None,
            inbox: VecDeque::new(),
            busy: false,
            last_arrival: Duration::ZERO,
            received: Vec::new(),
        };
        self.connections.insert(conn, connection);
        self.schedule(now + 2 * self.latency, Happening::Knock(conn, address));
    }

    pub fn broker_of(&self, conn: ConnId) -> Option<i32> {
        self.connections.get(&conn).map(|connection| connection.broker)
    }

    /// The client hands a frame to the kernel.
    pub fn send(&mut self, now: Duration, conn: ConnId, frame: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(&conn).filter(|c| c.ours) else {
            return;
        };
        connection.outgoing.push_back((frame.into(), 0));
        self.schedule(now, Happening::Written(conn));
    }

    /// The kernel takes what it has room for.
    fn written(&mut self, now: Duration, conn: ConnId) -> Signal {
        let Some(connection) = self.connections.get_mut(&conn).filter(|c| c.ours) else {
            return Signal::None;
        };
        let host = self.hosts[&connection.broker];
        let stalled = host.hung || host.black_hole;
        let mut arrived = Vec::new();
        let mut ended = false;
        while let Some((frame, taken)) = connection.outgoing.front_mut() {
            let mut room = frame.len() - *taken;
            if stalled {
                room = room.min(SOCKET_BUFFERS - connection.buffered.min(SOCKET_BUFFERS));
            }
            if let Some(cut) = connection.cut {
                ended = room > cut;
                room = room.min(cut);
                connection.cut = Some(cut - room);
            }
            if room > 0 && *taken == 0 {
                connection.begun += 1;
            }
            *taken += room;
            connection.buffered += if stalled { room } else { 0 };
            if *taken < frame.len() {
                break;
            }
            connection.done += 1;
            arrived.push(frame.slice(4..));
            connection.outgoing.pop_front();
        }
        let (begun, done, broker) = (connection.begun, connection.done, connection.broker);
        for frame in arrived {
            self.schedule(now + self.latency, Happening::Arrive(conn, frame));
        }
        if ended {
            self.hang_up(now, conn);
        }
        debug_assert!(broker > 0, "written to before it stands");
        Signal::Written(conn, begun, done)
    }

    /// The client closes.
    pub fn close(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.ours = false;
            connection.outgoing.clear();
        }
    }

    /// The broker closes, or the line breaks: the client learns of it.
    fn hang_up(&mut self, now: Duration, conn: ConnId) {
        let latency = self.latency;
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        connection.theirs = false;
        connection.inbox.clear();
        let at = connection.last_arrival.max(now + latency);
        connection.last_arrival = at;
        self.schedule(at, Happening::End(conn, CloseReason::Eof));
    }

    /// The broker goes on with this connection if it can.
    fn work(&mut self, now: Duration, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        let host = self.hosts[&connection.broker];
        if connection.busy || !connection.theirs || host.hung || host.black_hole || !host.up {
            return;
        }
        let Some(frame) = connection.inbox.pop_front() else {
            return;
        };
        connection.busy = true;
        match Request::decode(frame) {
            Ok(request) => self.handle(now, conn, Rc::new(request), false),
            Err(reason) => {
                self.model.violation(reason);
                self.hang_up(now, conn);
            }
        }
    }

    fn handle(&mut self, now: Duration, conn: ConnId, request: Rc<Request>, taken_up: bool) {
        let Some(broker) = self.broker_of(conn) else {
            return;
        };
        let host = self.hosts[&broker];
        if host.hung {
            // It has the request in its hands, and goes on when it can.
            return self.schedule(now + Duration::from_millis(50), Happening::TakeUp(conn, request));
        }
        if !host.up || self.connections[&conn].start != host.starts {
            return;
        }
        match self.model.handle(Network::wall_clock(now), broker, conn.0, &request, taken_up) {
            Step::Later(time) => self.schedule(now + time, Happening::TakeUp(conn, request)),
            Step::Reply(reply) => self.reply(now, conn, reply),
        }
    }

    fn reply(&mut self, now: Duration, conn: ConnId, reply: Reply) {
        let latency = self.latency;
        let out = now + reply.delay;
        let Some(connection) = self.connections.get_mut(&conn).filter(|c| c.theirs) else {
            return;
        };
        if !reply.bytes.is_empty() {
            let at = connection.last_arrival.max(out + latency);
            connection.last_arrival = at;
            self.schedule(at, Happening::Answer(conn, reply.bytes));
        }
        match reply.then {
            Then::GoOn => self.schedule(out + reply.mute, Happening::Free(conn)),
            Then::Freeze => {}
            Then::Close => self.hang_up(out, conn),
        }
    }

    /// Bytes arrive at the client: whole frames go on to the engine, one signal each.
    fn answered(&mut self, now: Duration, conn: ConnId, bytes: Vec<u8>) -> Signal {
        let Some(connection) = self.connections.get_mut(&conn).filter(|c| c.ours) else {
            return Signal::None;
        };
        if self.hosts[&connection.broker].black_hole {
            return Signal::None;
        }
        connection.received.extend(bytes);
        let Some(prefix) = connection.received.first_chunk::<4>() else {
            return Signal::None;
        };
        let length = i32::from_be_bytes(*prefix);
        if !(0..=LONGEST_FRAME).contains(&length) {
            connection.ours = false;
            return Signal::Closed(conn, CloseReason::BadLength(length));
        }
        let whole = length as usize + 4;
        if connection.received.len() < whole {
            return Signal::None;
        }
        let rest = connection.received.split_off(whole);
        let frame = std::mem::take(&mut connection.received).split_off(4);
        if !rest.is_empty() {
            self.schedule(now, Happening::Answer(conn, rest));
        }
        Signal::Frame(conn, frame)
    }

    fn connections_to(&self, broker: i32) -> Vec<ConnId> {
        let to = self.connections.iter().filter(|(_, c)| c.broker == broker && (c.ours || c.theirs));
        to.map(|(conn, _)| *conn).collect()
    }

    /// Connections that both sides hold open.
    pub fn open_to(&self, broker: i32) -> usize {
        self.connections.values().filter(|c| c.broker == broker && c.ours && c.theirs).count()
    }

    /// The broker's process ends. (What the cluster makes of it is the model's.)
    pub fn down(&mut self, now: Duration, broker: i32) {
        self.set(broker, |host| (host.up, host.hung) = (false, false));
        self.disconnect(now, broker);
    }

    pub fn up(&mut self, broker: i32) {
        self.set(broker, |host| {
            host.starts += u32::from(!host.up);
            host.up = true;
        });
    }

    pub fn disconnect(&mut self, now: Duration, broker: i32) {
        for conn in self.connections_to(broker) {
            self.hang_up(now, conn);
        }
    }

    /// The broker stops, or goes on where it was.
    pub fn hang(&mut self, now: Duration, broker: i32, hung: bool) {
        self.set(broker, |host| host.hung = hung);
        self.go_on(now, broker);
    }

    /// Packets get lost, or no longer do.
    pub fn black_hole(&mut self, now: Duration, broker: i32, lost: bool) {
        self.set(broker, |host| host.black_hole = lost);
        self.go_on(now, broker);
    }

    fn set(&mut self, broker: i32, change: impl FnOnce(&mut Host)) {
        change(self.hosts.get_mut(&broker).expect("a broker of this world"));
    }

    fn go_on(&mut self, now: Duration, broker: i32) {
        let host = self.hosts[&broker];
        if host.hung || host.black_hole {
            return;
        }
        for conn in self.connections_to(broker) {
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.buffered = 0;
            }
            self.schedule(now, Happening::Written(conn));
            self.work(now, conn);
        }
    }

    /// The line of each of the broker's connections breaks after so many more bytes towards it.
    pub fn cut_after(&mut self, broker: i32, bytes: usize) {
        for conn in self.connections_to(broker) {
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.cut = Some(bytes);
            }
        }
    }
}

//! One broker (or one of the addresses to start from): its connection's state and the requests on it.

use super::io::ConnId;
use crate::protocol::api_versions::Versions;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A broker may ask for pauses; a longer one than this is cut, and asked for again if it is meant.
pub const LONGEST_THROTTLE: Duration = Duration::from_secs(60);

/// What ApiVersions is asked with first.
pub const NEWEST_API_VERSIONS: i16 = 4;

#[derive(Debug)]
pub struct Node {
    /// The broker's id; negative for an address to start from, whose id is not known.
    pub id: i32,
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
    pub link: Link,
    /// Not to be connected to before.
    pub retry_at: Option<Instant>,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// The version ApiVersions is asked with on the next connection.
    pub api_versions: i16,
    pub throttled_until: Option<Instant>,
    /// Whether a connection to this address ever stood.
    pub reached: bool,
    pub last_error: Option<Arc<str>>,
    /// Its partitions that may have a batch to send.
    pub sendable: VecDeque<u32>,
    /// Somebody waits until it is connected (`wait_until_ready`). Said again each time they ask, so it ends with them.
    pub wished: bool,
    /// The cluster doesn't name it any more.
    pub gone: bool,
}

#[derive(Debug)]
pub enum Link {
    Idle,
    Resolving { conn: ConnId, until: Instant },
    Connecting { conn: ConnId, addrs: Vec<SocketAddr>, next: usize, until: Instant },
    Up(Session),
}

/// A connection that stands.
#[derive(Debug)]
pub struct Session {
    pub conn: ConnId,
    /// None: not negotiated yet.
    pub versions: Option<Versions>,
    pub in_flight: VecDeque<InFlight>,
    /// Frames given to the socket so far; of these begun and done.
    pub sent: u64,
    pub begun: u64,
    pub done: u64,
    correlation: i32,
    /// Produce requests in flight.
    pub produce: usize,
    pub last_used: Instant,
}

/// A request that is not answered.
#[derive(Debug)]
pub struct InFlight {
    pub correlation: i32,
    /// Its number among the connection's frames, from 1.
    pub number: u64,
    pub version: i16,
    pub since: Instant,
    pub deadline: Instant,
    pub what: Asked,
}

#[derive(Debug)]
pub enum Asked {
    ApiVersions,
    Metadata,
    InitProducerId,
    /// Partition and batch of each; `silent` (acks=0): no answer comes.
    Produce {
        batches: Vec<(u32, u64)>,
        silent: bool,
    },
}

impl Node {
    pub fn new(id: i32, host: String, port: u16) -> Node {
        Node {
            id,
            host,
            port,
            rack: None,
            link: Link::Idle,
            retry_at: None,
            failures: 0,
            api_versions: NEWEST_API_VERSIONS,
            throttled_until: None,
            reached: false,
            last_error: None,
            sendable: VecDeque::new(),
            wished: false,
            gone: false,
        }
    }

    pub fn is_seed(&self) -> bool {
        self.id < 0
    }

    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// For messages to people.
    pub fn name(&self) -> String {
        match self.id {
            id if id < 0 => self.address(),
            id => format!("broker {id} ({})", self.address()),
        }
    }

    pub fn conn(&self) -> Option<ConnId> {
        match &self.link {
            Link::Idle => None,
            Link::Resolving { conn, .. } | Link::Connecting { conn, .. } => Some(*conn),
            Link::Up(session) => Some(session.conn),
        }
    }

    pub fn session(&self) -> Option<&Session> {
        match &self.link {
            Link::Up(session) => Some(session),
            _ => None,
        }
    }

    pub fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.link {
            Link::Up(session) => Some(session),
            _ => None,
        }
    }

    /// Connected and negotiated.
    pub fn is_ready(&self) -> bool {
        self.session().is_some_and(|session| session.versions.is_some())
    }

    /// Whether a connection may be tried.
    pub fn may_connect(&self, now: Instant) -> bool {
        matches!(self.link, Link::Idle) && self.retry_at.is_none_or(|at| at <= now)
    }

    pub fn is_throttled(&self, now: Instant) -> bool {
        self.throttled_until.is_some_and(|until| until > now)
    }

    /// Whether it has something to take and has taken nothing for so long.
    pub fn is_slow(&self, now: Instant, timeout: Duration) -> bool {
        let stuck =
            self.oldest_question().is_some_and(|since| now.saturating_duration_since(since) > timeout);
        stuck || self.failures > 0
    }

    /// Since when the connection's oldest question is unanswered: a measure of how well it is.
    pub fn oldest_question(&self) -> Option<Instant> {
        self.session().and_then(|session| session.in_flight.front()).map(|request| request.since)
    }

    /// When this connection's state has to be looked at again. `idle`: how long it may be unused.
    pub fn deadline(&self, idle: Option<Duration>) -> Option<Instant> {
        match &self.link {
            Link::Idle => None,
            Link::Resolving { until, .. } | Link::Connecting { until, .. } => Some(*until),
            Link::Up(session) => match session.in_flight.front() {
                Some(request) => Some(request.deadline),
                None => idle.map(|idle| session.last_used + idle),
            },
        }
    }
}

impl Session {
    pub fn new(conn: ConnId, now: Instant) -> Session {
        Session {
            conn,
            versions: None,
            in_flight: VecDeque::new(),
            sent: 0,
            begun: 0,
            done: 0,
            correlation: 0,
            produce: 0,
            last_used: now,
        }
    }

    pub fn next_correlation(&mut self) -> i32 {
        self.correlation = self.correlation.wrapping_add(1) & i32::MAX;
        self.correlation
    }

    /// Notes a request that is about to be sent.
    pub fn asked(&mut self, correlation: i32, version: i16, what: Asked, now: Instant, timeout: Duration) {
        self.sent += 1;
        self.last_used = now;
        self.produce += usize::from(matches!(what, Asked::Produce { .. }));
        let (number, deadline) = (self.sent, now + timeout);
        self.in_flight.push_back(InFlight { correlation, number, version, since: now, deadline, what });
    }

    /// The request that an answer with this correlation id belongs to. Answers come in order; requests without an answer are
    /// skipped.
    pub fn answered(&mut self, correlation: i32, now: Instant) -> Option<InFlight> {
        let at =
            self.in_flight.iter().position(|r| !matches!(r.what, Asked::Produce { silent: true, .. }))?;
        if self.in_flight[at].correlation != correlation {
            return None;
        }
        self.last_used = now;
        self.take(at)
    }

    /// Takes the oldest request without an answer that is wholly written.
    pub fn written_silent(&mut self) -> Option<InFlight> {
        let done = self.done;
        let at = self
            .in_flight
            .iter()
            .position(|r| r.number <= done && matches!(r.what, Asked::Produce { silent: true, .. }))?;
        self.take(at)
    }

    fn take(&mut self, at: usize) -> Option<InFlight> {
        let request = self.in_flight.remove(at)?;
        self.produce -= usize::from(matches!(request.what, Asked::Produce { .. }));
        Some(request)
    }
}

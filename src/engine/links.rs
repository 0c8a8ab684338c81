//! Connections: made when something waits for them, all addresses of a name tried, given up after deadlines, never reused
//! after a timeout.

use super::classify::Attempt;
use super::io::{Actions, CloseReason, ConnId, NetAction};
use super::node::{Asked, InFlight, Link, Node, Session, NEWEST_API_VERSIONS};
use super::retry::Failure;
use super::Engine;
use crate::config::settings::Acks;
use crate::error::Cause;
use crate::protocol::api_versions::{self, Versions};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::frame::Frame;
use crate::protocol::header::{self, Api};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Engine {
    pub(super) fn link_deadline(&self, node: &Node) -> Option<Instant> {
        let idle = self.settings.connections_max_idle;
        // A pause ends: something waits for that.
        let waits = !node.sendable.is_empty();
        let retry = node.retry_at.filter(|_| waits && matches!(node.link, Link::Idle));
        let wished = node.wished && matches!(node.link, Link::Idle);
        let wish = wished.then(|| node.retry_at.unwrap_or(self.started));
        let throttle = node.throttled_until.filter(|_| waits);
        [node.deadline(idle), retry, wish, throttle].into_iter().flatten().min()
    }

    /// Begins a connection if one may be tried now.
    pub(super) fn connect(&mut self, now: Instant, node: usize, actions: &mut Actions) {
        if !self.nodes[node].may_connect(now) {
            return;
        }
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        let until = now + self.setup_timeout(node);
        let node_ref = &mut self.nodes[node];
        node_ref.link = Link::Resolving { conn, until };
        self.by_conn.insert(conn, node);
        let (host, port) = (node_ref.host.clone(), node_ref.port);
        actions.net.push(NetAction::Resolve { conn, host, port });
    }

    /// Longer with each failure.
    fn setup_timeout(&self, node: usize) -> Duration {
        let (first, longest) =
            (self.settings.connection_setup_timeout, self.settings.connection_setup_timeout_max);
        first.saturating_mul(1 << self.nodes[node].failures.min(16)).min(longest.max(first))
    }

    pub(super) fn on_resolved(
        &mut self,
        now: Instant,
        conn: ConnId,
        result: Result<Vec<SocketAddr>, String>,
        actions: &mut Actions,
    ) {
        let Some(&node) = self.by_conn.get(&conn) else { return };
        match result {
            Ok(addrs) if !addrs.is_empty() => self.try_address(now, node, addrs, 0, actions),
            Ok(_) => self.give_up(now, node, "the name has no address".into()),
            Err(reason) => self.give_up(now, node, reason),
        }
    }

    fn try_address(
        &mut self,
        now: Instant,
        node: usize,
        addrs: Vec<SocketAddr>,
        next: usize,
        actions: &mut Actions,
    ) {
        if let Some(old) = self.nodes[node].conn() {
            self.by_conn.remove(&old);
        }
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.by_conn.insert(conn, node);
        let until = now + self.setup_timeout(node);
        actions.net.push(NetAction::Open { conn, addr: addrs[next] });
        self.nodes[node].link = Link::Connecting { conn, addrs, next, until };
    }

    pub(super) fn on_opened(&mut self, now: Instant, conn: ConnId, actions: &mut Actions) {
        let Some(&node) = self.by_conn.get(&conn) else { return };
        self.nodes[node].link = Link::Up(Session::new(conn, now));
        self.nodes[node].reached = true;
        self.ask_for_versions(now, node, actions);
    }

    fn ask_for_versions(&mut self, now: Instant, node: usize, actions: &mut Actions) {
        let timeout = self.setup_timeout(node);
        let version = self.nodes[node].api_versions;
        let encode = |correlation, client_id: &str| api_versions::encode(version, correlation, client_id);
        self.put_question(now, node, version, Asked::ApiVersions, timeout, encode, actions);
    }

    /// Sends a request other than Produce. `encode` gets the correlation id and the client's.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn put_question(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        what: Asked,
        timeout: Duration,
        encode: impl FnOnce(i32, &str) -> Frame,
        actions: &mut Actions,
    ) {
        let Some(session) = self.nodes[node].session_mut() else { return };
        let correlation = session.next_correlation();
        let frame = encode(correlation, &self.settings.client_id);
        session.asked(correlation, version, what, now, timeout);
        actions.net.push(NetAction::Send { conn: session.conn, frame });
    }

    pub(super) fn on_versions(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        body: &[u8],
        actions: &mut Actions,
    ) -> Result<(), String> {
        let answer = api_versions::decode(body, version).map_err(|e| e.0)?;
        if answer.error == ErrorCode::UnsupportedVersion && version > 0 {
            // KIP-511: the broker may have named its own range; an older one did not.
            let newest =
                answer.ranges.iter().find(|(key, ..)| *key == Api::ApiVersions.key()).map(|(_, _, max)| *max);
            self.nodes[node].api_versions = newest.unwrap_or(0).clamp(0, version - 1);
            self.ask_for_versions(now, node, actions);
            return Ok(());
        }
        if answer.error != ErrorCode::None {
            return Err(format!("it refuses ApiVersions with {}", answer.error));
        }
        let versions = Versions::agree(&answer)?;
        let node = &mut self.nodes[node];
        if node.failures > 0 {
            log::info!("connected to {} again", node.name());
        }
        node.failures = 0;
        node.retry_at = None;
        if let Some(session) = node.session_mut() {
            session.versions = Some(versions);
        }
        Ok(())
    }

    /// A connection ended by the other side's doing, or was not to be had.
    pub(super) fn on_closed(
        &mut self,
        now: Instant,
        conn: ConnId,
        reason: CloseReason,
        actions: &mut Actions,
    ) {
        let Some(&node) = self.by_conn.get(&conn) else { return };
        if let Link::Connecting { addrs, next, .. } = &mut self.nodes[node].link {
            let (addrs, next) = (std::mem::take(addrs), *next + 1);
            if next < addrs.len() {
                self.try_address(now, node, addrs, next, actions);
                return;
            }
        }
        let idle = self.nodes[node].session().is_some_and(|s| s.in_flight.is_empty() && s.versions.is_some());
        if idle && reason == CloseReason::Eof {
            // Brokers close what was idle for long: nothing is wrong, and nothing was lost.
            log::debug!("{} closed an idle connection", self.nodes[node].name());
            if self.settings.acks == Acks::Zero {
                // It may be its way to say that it is no longer the leader: no answer could.
                self.refresh.doubt(now);
            }
            self.disconnected(now, node, "it closed an idle connection".into(), None, actions);
            return;
        }
        let negotiating = self.nodes[node].session().is_some_and(|session| session.versions.is_none());
        if negotiating && reason == CloseReason::Eof {
            // What only resembles a broker may close on a version it does not know: the oldest one is tried, then the newest
            // again.
            let version = &mut self.nodes[node].api_versions;
            *version = if *version > 0 { 0 } else { NEWEST_API_VERSIONS };
        }
        let words = words(&reason, negotiating);
        self.lose(now, node, words, None, actions);
    }

    /// We end a connection: the broker is silent, or talks nonsense.
    pub(super) fn hang_up(
        &mut self,
        now: Instant,
        node: usize,
        words: String,
        timed_out: Option<u64>,
        actions: &mut Actions,
    ) {
        if let Some(conn) = self.nodes[node].conn() {
            actions.net.push(NetAction::Close { conn });
        }
        self.lose(now, node, words, timed_out, actions);
    }

    /// A failure: says so, waits before the next try, and has somebody else asked for the state of things.
    fn lose(
        &mut self,
        now: Instant,
        node: usize,
        words: String,
        timed_out: Option<u64>,
        actions: &mut Actions,
    ) {
        self.note_failure(now, node, &words);
        self.disconnected(now, node, words.into(), timed_out, actions);
    }

    fn give_up(&mut self, now: Instant, node: usize, words: String) {
        self.note_failure(now, node, &words);
        if let Some(conn) = self.nodes[node].conn() {
            self.by_conn.remove(&conn);
        }
        self.nodes[node].link = Link::Idle;
        self.refresh.failed(node, now);
    }

    fn note_failure(&mut self, now: Instant, node: usize, words: &str) {
        let (first, longest) = (self.settings.reconnect_backoff, self.settings.reconnect_backoff_max);
        let node = &mut self.nodes[node];
        let pause = first.saturating_mul(1 << node.failures.min(20)).min(longest.max(first));
        // Upwards only, so that many clients don't come back together.
        node.retry_at = Some(now + pause.mul_f64(1.0 + 0.2 * self.rng.f64()));
        node.failures += 1;
        // The commonest mistake of all: brokers that name an address which is good only where they are.
        let hint = if node.reached || node.is_seed() {
            ""
        } else {
            "; that is the address it advertises (advertised.listeners), can it be reached from here?"
        };
        let text: Arc<str> = format!("{}: {words}{hint}", node.name()).into();
        if node.failures == 1 {
            log::warn!("{text}");
        } else if node.failures.is_power_of_two() {
            log::warn!("{text} ({} times in a row)", node.failures);
        }
        node.last_error = Some(text);
        self.refresh.want(now);
    }

    /// The connection is gone; what was on it comes to its end. `timed_out`: the request that nobody answered.
    fn disconnected(
        &mut self,
        now: Instant,
        node: usize,
        reason: Arc<str>,
        timed_out: Option<u64>,
        actions: &mut Actions,
    ) {
        if let Some(conn) = self.nodes[node].conn() {
            self.by_conn.remove(&conn);
        }
        self.refresh.failed(node, now);
        let link = std::mem::replace(&mut self.nodes[node].link, Link::Idle);
        let Link::Up(session) = link else { return };
        for request in session.in_flight {
            let begun = request.number <= session.begun;
            let late = timed_out == Some(request.number);
            self.ended(now, node, request, begun, late, &reason, actions);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn ended(
        &mut self,
        now: Instant,
        node: usize,
        request: InFlight,
        begun: bool,
        late: bool,
        reason: &Arc<str>,
        actions: &mut Actions,
    ) {
        let broker = self.nodes[node].id;
        match request.what {
            Asked::ApiVersions | Asked::Metadata => {}
            Asked::InitProducerId => {
                let why = format!("{}: {reason}", self.nodes[node].name());
                self.identity.unanswered(why, now);
            }
            Asked::Produce { batches, .. } => {
                for (at, id) in batches {
                    if !begun {
                        self.not_sent(now, at, id, actions);
                        continue;
                    }
                    let (attempt, cause) = match late {
                        true => (Attempt::TimedOut, Cause::RequestTimeout { broker }),
                        false => {
                            (Attempt::Disconnected, Cause::Disconnected { broker, reason: reason.clone() })
                        }
                    };
                    self.failed(now, at, id, Failure { attempt, cause, node, named: Vec::new() }, actions);
                }
            }
        }
    }

    pub(super) fn on_written(
        &mut self,
        now: Instant,
        conn: ConnId,
        begun: u64,
        done: u64,
        actions: &mut Actions,
    ) {
        let Some(&node) = self.by_conn.get(&conn) else { return };
        let Some(session) = self.nodes[node].session_mut() else { return };
        session.begun = begun;
        session.done = done;
        while let Some(request) = self.nodes[node].session_mut().and_then(Session::written_silent) {
            if let Asked::Produce { batches, .. } = request.what {
                for (at, id) in batches {
                    // Nobody will say more (acks=0).
                    self.delivered(now, at, id, None, None, actions);
                }
            }
        }
    }

    /// Deadlines of connections and requests, and connections that nobody uses.
    pub(super) fn check_links(&mut self, now: Instant, actions: &mut Actions) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].throttled_until.is_some_and(|until| until <= now) {
                self.nodes[node].throttled_until = None;
            }
            let idle = self.settings.connections_max_idle;
            if self.nodes[node].deadline(idle).is_none_or(|deadline| deadline > now) {
                continue;
            }
            match &self.nodes[node].link {
                Link::Idle => {}
                Link::Resolving { .. } => {
                    self.hang_up(now, node, "its name was not resolved in time".into(), None, actions)
                }
                Link::Connecting { conn, addrs, next, .. } => {
                    let (conn, addrs, next) = (*conn, addrs.clone(), *next + 1);
                    if next < addrs.len() {
                        actions.net.push(NetAction::Close { conn });
                        self.try_address(now, node, addrs, next, actions);
                    } else {
                        self.hang_up(
                            now,
                            node,
                            "it does not answer (connection timed out)".into(),
                            None,
                            actions,
                        );
                    }
                }
                Link::Up(session) => match session.in_flight.front() {
                    Some(request) => {
                        let number = request.number;
                        let words = match request.what {
                            Asked::ApiVersions => {
                                "it does not say what it speaks (socket.connection.setup.timeout.ms)"
                            }
                            _ => "it did not answer within request.timeout.ms",
                        };
                        self.hang_up(now, node, words.into(), Some(number), actions);
                    }
                    None => {
                        log::debug!("closing the idle connection to {}", self.nodes[node].name());
                        actions.net.push(NetAction::Close { conn: session.conn });
                        self.disconnected(now, node, "idle".into(), None, actions);
                    }
                },
            }
        }
    }

    /// An answer, whatever to.
    pub(super) fn on_frame(&mut self, now: Instant, conn: ConnId, frame: &[u8], actions: &mut Actions) {
        let Some(&node) = self.by_conn.get(&conn) else { return };
        if let Err(words) = self.take_answer(now, node, frame, actions) {
            self.hang_up(now, node, words, None, actions);
        }
    }

    fn take_answer(
        &mut self,
        now: Instant,
        node: usize,
        frame: &[u8],
        actions: &mut Actions,
    ) -> Result<(), String> {
        let correlation = header::correlation(frame).map_err(|e| e.0)?;
        let session = self.nodes[node].session_mut().ok_or("an answer before a question")?;
        let request = session.answered(correlation, now).ok_or_else(|| {
            format!("its answer {correlation} belongs to no question, or comes out of order")
        })?;
        let api = match request.what {
            Asked::ApiVersions => Api::ApiVersions,
            Asked::Metadata => Api::Metadata,
            Asked::InitProducerId => Api::InitProducerId,
            Asked::Produce { .. } => Api::Produce,
        };
        let version = request.version;
        let body = match header::split_response(api, version, frame) {
            Ok((_, body)) => body,
            Err(malformed) => {
                self.unreadable(now, node, request, &malformed.0, actions);
                return Err(format!("a malformed answer to {api:?}: {}", malformed.0));
            }
        };
        if matches!(api, Api::Metadata | Api::Produce) {
            // Only now: a broker that closes the connection on what it is there for is not well.
            self.nodes[node].last_error = None;
        }
        let result = match &request.what {
            Asked::ApiVersions => self.on_versions(now, node, version, body, actions),
            Asked::Metadata => self.on_metadata(now, node, version, body, actions),
            Asked::InitProducerId => self.on_identity(now, node, version, body),
            Asked::Produce { batches, .. } => self.on_produced(now, node, version, body, batches, actions),
        };
        result.map_err(|words| {
            let text = format!("a malformed answer to {api:?} v{version}: {words}");
            self.unreadable(now, node, request, &words, actions);
            text
        })
    }

    /// The answer to this request can't be read: what it carried may have been written.
    fn unreadable(
        &mut self,
        now: Instant,
        node: usize,
        request: InFlight,
        words: &str,
        actions: &mut Actions,
    ) {
        let broker = self.nodes[node].id;
        match request.what {
            Asked::ApiVersions => {}
            Asked::Metadata => self.refresh.failed(node, now),
            Asked::InitProducerId => {
                let why = format!("{}: a malformed answer: {words}", self.nodes[node].name());
                self.identity.unanswered(why, now);
            }
            Asked::Produce { batches, .. } => {
                for (at, id) in batches {
                    let cause = Cause::Malformed { broker, reason: words.into() };
                    let attempt = Attempt::Disconnected;
                    self.failed(now, at, id, Failure { attempt, cause, node, named: Vec::new() }, actions);
                }
            }
        }
    }
}

/// Why a connection ended, for people. `negotiating`: it ended on the first question.
fn words(reason: &CloseReason, negotiating: bool) -> String {
    match reason {
        CloseReason::Eof if negotiating => {
            "it closed the connection when asked for its versions: it may want \
            TLS or authentication, be older than Kafka 0.10, or not be Kafka"
                .into()
        }
        reason => reason.to_string(),
    }
}

//! What the engine tells about itself: counters, and what each partition waits for.

use super::batch::Batch;
use super::identity::State as IdState;
use super::node::{Link, Node};
use super::Engine;
use crate::error::{Cause, DeliveryError};
use crate::stats::{BrokerStatus, LatencySummary, PartitionStatus, Stats, Status};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Counters since the start. The worker adds what only it knows.
#[derive(Debug, Default)]
pub struct EngineStats {
    pub delivered: u64,
    pub dropped: u64,
    dropped_by_cause: BTreeMap<String, u64>,
    pub retries: u64,
    failures: BTreeMap<String, u64>,
    pub batches: u64,
    pub requests: u64,
    pub request_bytes: u64,
    pub splits: u64,
    queued: Times,
    lingered: Times,
    in_flight: Times,
}

impl EngineStats {
    /// A batch goes into a request.
    pub fn on_sent(&mut self, now: Instant, batch: &Batch) {
        if batch.tries.attempts == 0 {
            self.queued.add(now.saturating_duration_since(batch.opened));
            let due = batch.due_since.unwrap_or(now);
            self.lingered.add(due.saturating_duration_since(batch.opened));
        }
    }

    pub fn on_delivered(&mut self, now: Instant, batch: &Batch) {
        self.delivered += u64::from(batch.records);
        if let Some(since) = batch.first_sent {
            self.in_flight.add(now.saturating_duration_since(since));
        }
    }

    /// An attempt failed.
    pub fn on_failure(&mut self, cause: &Cause) {
        *self.failures.entry(cause.short_name()).or_default() += 1;
    }
}

/// A distribution of times in microseconds, with three digits.
#[derive(Debug)]
struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Times {
        // From 1 µs to an hour. The arguments are constants that the library accepts.
        Times(Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("constant bounds"))
    }
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    fn summary(&self) -> LatencySummary {
        let at = |quantile| Duration::from_micros(self.0.value_at_quantile(quantile));
        LatencySummary {
            count: self.0.len(),
            mean: Duration::from_micros(self.0.mean() as u64),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: Duration::from_micros(self.0.max()),
        }
    }
}

impl Engine {
    /// Messages that have their verdict.
    pub fn settled(&self) -> u64 {
        self.stats.delivered + self.stats.dropped
    }

    /// Something is on its way that will give room back.
    pub fn has_work_in_flight(&self) -> bool {
        let is_asked = |node: &Node| node.session().is_some_and(|session| session.produce > 0);
        !self.jobs.is_empty() || self.nodes.iter().any(is_asked)
    }

    /// Fills in what the engine knows.
    pub fn stats(&self) -> Stats {
        let by_count = |map: &BTreeMap<String, u64>| {
            let mut list: Vec<(String, u64)> =
                map.iter().map(|(name, count)| (name.clone(), *count)).collect();
            list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            list
        };
        let s = &self.stats;
        let in_flight = self.partitions.iter().flat_map(|p| &p.batches).filter(|batch| batch.is_in_flight());
        Stats {
            delivered: s.delivered,
            dropped: s.dropped,
            dropped_by_cause: by_count(&s.dropped_by_cause),
            retries: s.retries,
            retries_by_code: by_count(&s.failures),
            bytes_in_flight: in_flight.map(|batch| batch.charge).sum(),
            batches: s.batches,
            requests: s.requests,
            request_bytes: s.request_bytes,
            splits: s.splits,
            epoch_bumps: self.identity.bumps,
            queued: s.queued.summary(),
            lingered: s.lingered.summary(),
            in_flight: s.in_flight.summary(),
            ..Stats::default()
        }
    }

    pub(super) fn note_drop(&mut self, error: &DeliveryError, messages: u64) {
        self.stats.dropped += messages;
        let first = !self.stats.dropped_by_cause.contains_key(&error.cause.short_name());
        *self.stats.dropped_by_cause.entry(error.cause.short_name()).or_default() += messages;
        if first {
            log::warn!("dropped: {error} (more of this kind are counted, not logged)");
        }
    }

    /// What is connected, and what waits for what.
    pub fn status(&self, now: Instant) -> Status {
        let mut waiting: Vec<PartitionStatus> = Vec::new();
        for (slot, topic) in self.topics.iter().enumerate() {
            if let Some(first) = topic.parked.first() {
                waiting.push(PartitionStatus {
                    topic: topic.name.to_string(),
                    partition: None,
                    messages: topic.parked.iter().map(|run| u64::from(run.parked.count())).sum(),
                    bytes: topic.parked.iter().map(|run| run.bytes.len() as u64).sum(),
                    since: now.saturating_duration_since(first.opened),
                    reason: self
                        .reason_without_topic(slot as u32)
                        .map_or_else(String::new, |cause| cause.to_string()),
                });
            }
        }
        for (at, partition) in self.partitions.iter().enumerate() {
            let Some(reason) = self.words(now, at as u32).filter(|_| partition.has_messages()) else {
                continue;
            };
            let oldest = partition.oldest().unwrap_or(now);
            waiting.push(PartitionStatus {
                topic: self.topics[partition.topic as usize].name.to_string(),
                partition: Some(partition.index),
                messages: partition.messages(),
                bytes: partition.bytes() as u64,
                since: now.saturating_duration_since(oldest),
                reason,
            });
        }
        waiting.sort_by_key(|status| std::cmp::Reverse(status.since));
        let (idempotence, producer_id) = self.idempotence_words();
        Status {
            connections: self
                .nodes
                .iter()
                .filter(|node| shown(node))
                .map(|node| broker_status(now, node))
                .collect(),
            waiting,
            idempotence,
            producer_id,
            closed: None,
        }
    }

    fn idempotence_words(&self) -> (String, Option<i64>) {
        match self.identity.state() {
            IdState::Off(None) => ("off: delivery is at least once".into(), None),
            IdState::Off(Some(reason)) => (format!("off: {reason}"), None),
            IdState::Wanted { .. } | IdState::Asked => (self.identity.wish(), None),
            IdState::Granted { producer_id, epoch } => (format!("on, epoch {epoch}"), Some(*producer_id)),
            IdState::Refused { reason, .. } => (format!("required, and refused: {reason}"), None),
        }
    }

    /// What a partition waits for, in words. None: for nothing but its turn.
    fn words(&self, now: Instant, at: u32) -> Option<String> {
        let partition = &self.partitions[at as usize];
        if let Some(mute) = &partition.mute {
            return Some(mute.reason.to_string());
        }
        let seconds =
            |since: Option<Instant>| since.map_or(0, |at| now.saturating_duration_since(at).as_secs());
        match self.leader_of(partition) {
            None => Some(format!("no leader since {} s", seconds(partition.leaderless_since))),
            Some(node) if node.is_throttled(now) => {
                let left =
                    node.throttled_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
                Some(format!("throttled for {} ms by {}", left.as_millis(), node.name()))
            }
            Some(node) if !node.is_ready() => Some(match &node.last_error {
                Some(error) => error.to_string(),
                None => format!("connecting to {}", node.name()),
            }),
            Some(_) if !self.identity.is_decided() => Some(self.identity.wish()),
            Some(_) if partition.sequencing.hole || partition.sequencing.broken => {
                Some("waiting for what is in flight, then for a new producer epoch".into())
            }
            Some(node) => {
                let since = partition.batches.iter().find_map(Batch::in_flight_since)?;
                let silent = now.saturating_duration_since(since);
                (silent > Duration::from_secs(1))
                    .then(|| format!("no answer from {} for {} s", node.name(), silent.as_secs()))
            }
        }
    }

    /// The same as a cause, for messages that run out of time before they were tried.
    pub(super) fn reason(&self, now: Instant, at: u32) -> Option<Cause> {
        let partition = &self.partitions[at as usize];
        let topic = &self.topics[partition.topic as usize];
        if topic.unknown_since.is_some() {
            return Some(Cause::UnknownTopic);
        }
        let node = self.leader_of(partition);
        let present = match node {
            None => Some(Cause::NoLeader),
            Some(node) if !node.is_ready() => self.unreachable(node),
            Some(_) => None,
        };
        let waiting = || self.words(now, at).map(|reason| Cause::Waiting { reason: reason.into() });
        present.or_else(|| partition.last_failure.clone()).or_else(waiting)
    }

    /// A leader without a connection; None: nothing has failed yet.
    fn unreachable(&self, leader: &Node) -> Option<Cause> {
        let reason = leader.last_error.clone()?;
        Some(match self.nodes.iter().any(Node::is_ready) {
            true => Cause::LeaderUnreachable { broker: leader.id, reason },
            false => Cause::NoBroker { reason: self.connection_errors().into() },
        })
    }

    /// Why a topic's partitions are not known.
    pub(super) fn reason_without_topic(&self, slot: u32) -> Option<Cause> {
        let topic = &self.topics[slot as usize];
        if !topic.partitions.is_empty() {
            return Some(Cause::UnknownPartition { partitions: topic.partitions.len() as i32 });
        }
        if topic.unknown_since.is_some() {
            return Some(Cause::UnknownTopic);
        }
        if let Some(refusal) = &topic.refusal {
            return Some(Cause::Waiting { reason: refusal.as_str().into() });
        }
        let errors = self.connection_errors();
        match self.nodes.iter().any(Node::is_ready) {
            _ if errors.is_empty() => None,
            true => Some(Cause::Waiting { reason: format!("waiting for metadata ({errors})").into() }),
            false => Some(Cause::NoBroker { reason: errors.into() }),
        }
    }

    fn connection_errors(&self) -> String {
        let errors: Vec<&str> =
            self.nodes.iter().filter(|n| !n.gone).filter_map(|n| n.last_error.as_deref()).collect();
        errors.join("; ")
    }

    /// Whether these topics can be written to now; if not, what is in the way.
    pub fn readiness(&mut self, topics: &[u32]) -> Result<(), String> {
        if !self.nodes.iter().any(Node::is_ready) {
            let errors = self.connection_errors();
            return Err(if errors.is_empty() { "not connected yet".into() } else { errors });
        }
        if let IdState::Refused { reason, .. } = self.identity.state() {
            return Err(format!("enable.idempotence is required, and {reason}"));
        }
        if !self.identity.is_decided() {
            return Err(self.identity.wish());
        }
        if topics.is_empty() && self.refresh.last_success.is_none() {
            return Err("waiting for metadata".into());
        }
        for slot in topics {
            let Some(topic) = self.topics.get(*slot as usize) else {
                return Err("waiting for metadata".into());
            };
            let name = &topic.name;
            if topic.unknown_since.is_some() {
                return Err(format!("the cluster does not know the topic {name}"));
            }
            if let (true, Some(refusal)) = (topic.partitions.is_empty(), &topic.refusal) {
                return Err(refusal.clone());
            }
            if topic.partitions.is_empty() {
                let errors = self.connection_errors();
                let last = if errors.is_empty() { String::new() } else { format!(" ({errors})") };
                return Err(format!("waiting for metadata of the topic {name}{last}"));
            }
            let leaderless =
                topic.partitions.iter().filter(|at| self.partitions[**at as usize].leader.is_none()).count();
            if leaderless > 0 {
                return Err(format!("{leaderless} partitions of the topic {name} have no leader"));
            }
            self.leaders_readiness(*slot)?;
        }
        Ok(())
    }

    /// Whether the leaders of the topic's partitions are connected. Connections are made when something waits for them: here
    /// somebody does.
    fn leaders_readiness(&mut self, slot: u32) -> Result<(), String> {
        let partitions = &self.topics[slot as usize].partitions;
        let leaders = partitions.iter().filter_map(|at| self.partitions[*at as usize].leader);
        let mut result = Ok(());
        for at in leaders.filter_map(|leader| self.by_id.get(&leader)) {
            let node = &mut self.nodes[*at];
            if !node.is_ready() {
                node.wished = true;
                let last = node.last_error.as_deref().map(str::to_owned);
                result = Err(last.unwrap_or_else(|| format!("connecting to {}", node.name())));
            }
        }
        result
    }
}

/// Brokers that nothing was ever sent to are not worth a line.
fn shown(node: &Node) -> bool {
    !matches!(node.link, Link::Idle) || node.last_error.is_some() || !node.sendable.is_empty()
}

fn broker_status(now: Instant, node: &Node) -> BrokerStatus {
    let state = match &node.link {
        Link::Idle if node.retry_at.is_some_and(|at| at > now) => "waiting before the next try",
        Link::Idle => "not connected",
        Link::Resolving { .. } => "resolving its name",
        Link::Connecting { .. } => "connecting",
        Link::Up(session) if session.versions.is_none() => "asking for its versions",
        Link::Up(_) => "connected",
    };
    BrokerStatus {
        broker: (!node.is_seed()).then_some(node.id),
        address: node.address(),
        state: state.into(),
        throttled_for: node
            .throttled_until
            .map(|until| until.saturating_duration_since(now))
            .filter(|d| !d.is_zero()),
        in_flight: node.session().map_or(0, |session| session.in_flight.len()),
        last_error: node.last_error.as_deref().map(str::to_owned),
    }
}

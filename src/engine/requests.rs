//! Ready batches, leaders and limits make requests: one per broker at a time, one batch per partition in each.

use super::batch::State;
use super::io::{Actions, NetAction};
use super::node::{Asked, Link};
use super::Engine;
use crate::config::settings::Acks;
use crate::error::Cause;
use crate::protocol::frame::Frame;
use crate::protocol::produce::ProduceRequest;
use std::time::Instant;

/// The first version that names topics by their ids (KIP-516).
const BY_TOPIC_ID: i16 = 13;

/// Before this version (Kafka 1.0) brokers take one batch in flight per partition for sure only if it is alone.
const FIVE_IN_FLIGHT: i16 = 5;

impl Engine {
    /// Puts a partition into its leader's queue if it has something that may be sent.
    pub(super) fn enqueue(&mut self, now: Instant, at: u32) {
        if !self.identity.is_decided() {
            return;
        }
        let partition = &mut self.partitions[at as usize];
        if partition.queued {
            return;
        }
        let node = partition.leader.and_then(|leader| self.by_id.get(&leader));
        if let Some(node) = node {
            if partition.may_send(now, self.identity.is_idempotent(), self.settings.max_in_flight) {
                partition.queued = true;
                self.nodes[*node].sendable.push_back(at);
            }
        }
    }

    /// Looks at all partitions: after something that concerns them all.
    pub(super) fn enqueue_all(&mut self, now: Instant) {
        for at in 0..self.partitions.len() as u32 {
            self.enqueue(now, at);
        }
    }

    /// Sends what can be sent; connects where something waits.
    pub(super) fn send_requests(&mut self, now: Instant, actions: &mut Actions) {
        while let Some(at) = self.fresh.pop() {
            self.enqueue(now, at);
        }
        for node in 0..self.nodes.len() {
            let waits = !self.nodes[node].sendable.is_empty();
            if !waits && !std::mem::take(&mut self.nodes[node].wished) {
                continue;
            }
            if matches!(self.nodes[node].link, Link::Idle) {
                self.connect(now, node, actions);
            }
            while self.takes_produce(now, node) {
                if !self.send_request(now, node, actions) {
                    break;
                }
            }
        }
        // Sealing for a request may have made more work (a batch that went to be compressed leaves its partition).
        self.fresh.clear();
    }

    fn takes_produce(&self, now: Instant, node: usize) -> bool {
        let node = &self.nodes[node];
        node.is_ready()
            && !node.is_throttled(now)
            && !node.sendable.is_empty()
            && node.session().is_some_and(|session| session.produce < self.settings.max_in_flight)
    }

    /// Makes one request for this broker. False: nothing was to be sent after all.
    fn send_request(&mut self, now: Instant, node: usize, actions: &mut Actions) -> bool {
        let Some(mut version) = self.nodes[node].session().and_then(|s| s.versions).map(|v| v.produce())
        else {
            return false;
        };
        let taken = self.take_batches(now, node, version, actions);
        if taken.is_empty() {
            return false;
        }
        let no_id = |&(at, _): &(u32, usize)| {
            let partition = &self.partitions[at as usize];
            self.topics[partition.topic as usize].id == [0; 16]
        };
        if version >= BY_TOPIC_ID && taken.iter().any(no_id) {
            version = BY_TOPIC_ID - 1;
        }
        let settings = self.settings.clone();
        let Some(session) = self.nodes[node].session_mut() else { return false };
        let correlation = session.next_correlation();
        let conn = session.conn;
        let frame = self.encode(version, correlation, &taken);
        let mut batches = Vec::with_capacity(taken.len());
        for (at, place) in taken {
            let partition = &mut self.partitions[at as usize];
            let batch = &mut partition.batches[place];
            batch.state = State::InFlight { since: now };
            batch.first_sent.get_or_insert(now);
            partition.in_flight += 1;
            batches.push((at, batch.id));
            self.stats.on_sent(now, batch);
        }
        self.stats.requests += 1;
        self.stats.batches += batches.len() as u64;
        self.stats.request_bytes += frame.len() as u64;
        let silent = settings.acks == Acks::Zero;
        let again: Vec<u32> = batches.iter().map(|(at, _)| *at).collect();
        if let Some(session) = self.nodes[node].session_mut() {
            let what = Asked::Produce { batches, silent };
            session.asked(correlation, version, what, now, settings.request_timeout);
        }
        actions.net.push(NetAction::Send { conn, frame });
        for at in again {
            self.enqueue(now, at);
        }
        true
    }

    /// One batch of each partition that may send to this broker, up to the size of a request, stamped. By topic.
    fn take_batches(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        actions: &mut Actions,
    ) -> Vec<(u32, usize)> {
        let idempotent = self.identity.is_idempotent();
        let max = if version >= FIVE_IN_FLIGHT { self.settings.max_in_flight } else { 1 };
        let leader = self.nodes[node].id;
        let mut taken: Vec<(u32, usize)> = Vec::new();
        let mut bytes = 0;
        for _ in 0..self.nodes[node].sendable.len() {
            let Some(&at) = self.nodes[node].sendable.front() else { break };
            let partition = &self.partitions[at as usize];
            let still = partition.leader == Some(leader) && partition.may_send(now, idempotent, max);
            if still && partition.first_ready().is_none() {
                self.close(at, actions);
            }
            let partition = &mut self.partitions[at as usize];
            let place = partition.first_ready().filter(|_| still);
            let len = place.map_or(0, |place| partition.batches[place].wire_len());
            if bytes + len > self.settings.max_request_bytes && !taken.is_empty() {
                break;
            }
            self.nodes[node].sendable.pop_front();
            partition.queued = false;
            let Some(place) = place else {
                // Not from here, or not now: it comes back when that changes.
                self.enqueue_elsewhere(now, at, leader);
                continue;
            };
            let codec = partition.batches[place].codec();
            if codec.produce_from() > version {
                let reason = format!(
                    "it does not take {}, which Produce has from version {} on",
                    codec.name(),
                    codec.produce_from()
                );
                let cause = Cause::Unsupported { broker: leader, reason: reason.into() };
                self.drop_batch(now, at, place, cause, actions);
                continue;
            }
            if let Some(current) = self.identity.current() {
                partition.stamp(place, current);
            }
            bytes += len;
            taken.push((at, place));
        }
        taken.sort_unstable_by_key(|&(at, _)| (self.partitions[at as usize].topic, at));
        taken
    }

    /// A partition left a queue that was not (any more) its own.
    fn enqueue_elsewhere(&mut self, now: Instant, at: u32, not: i32) {
        if self.partitions[at as usize].leader != Some(not) {
            self.enqueue(now, at);
        }
    }

    fn encode(&self, version: i16, correlation: i32, taken: &[(u32, usize)]) -> Frame {
        let acks = match self.settings.acks {
            Acks::Zero => 0,
            Acks::One => 1,
            Acks::All => -1,
        };
        let topic_of = |at: u32| self.partitions[at as usize].topic;
        let groups = taken.chunk_by(|a, b| topic_of(a.0) == topic_of(b.0));
        let timeout_ms = self.settings.ack_timeout.as_millis() as i32;
        let topics = groups.clone().count();
        let client_id = &self.settings.client_id;
        let mut request = ProduceRequest::new(version, correlation, client_id, acks, timeout_ms, topics);
        for group in groups {
            let topic = &self.topics[topic_of(group[0].0) as usize];
            request.topic(&topic.name, &topic.id, group.len());
            for &(at, place) in group {
                let partition = &self.partitions[at as usize];
                if let Some((header, records, used)) = partition.batches[place].for_request() {
                    request.batch(partition.index, &header, records.clone(), used);
                }
            }
        }
        request.finish()
    }
}

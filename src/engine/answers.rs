//! What came back: answers to Produce and InitProducerId, and what they say besides the verdict.

use super::classify::{classify, Attempt, Verdict};
use super::io::Actions;
use super::node::{Asked, LONGEST_THROTTLE};
use super::retry::Failure;
use super::{identity, Engine};
use crate::error::Cause;
use crate::protocol::init_producer_id;
use crate::protocol::produce::{self, PartitionResponse, TopicRef};
use std::time::{Duration, Instant};

/// From this version of Produce on the client itself waits out a throttle (KIP-219).
const CLIENT_THROTTLES: i16 = 6;

impl Engine {
    pub(super) fn on_produced(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        body: &[u8],
        batches: &[(u32, u64)],
        actions: &mut Actions,
    ) -> Result<(), String> {
        let answer = produce::decode(body, version).map_err(|e| e.0)?;
        self.throttle(now, node, answer.throttle_ms, version >= CLIENT_THROTTLES);
        for endpoint in answer.endpoints {
            self.meet(now, endpoint.id, endpoint.host, endpoint.port, actions);
        }
        let mut left: Vec<Option<(u32, u64)>> = batches.iter().copied().map(Some).collect();
        let mut next = 0;
        for partition in &answer.partitions {
            // Brokers usually answer in the order of the request; if not, search.
            let is_it =
                |entry: &Option<(u32, u64)>| entry.is_some_and(|(at, _)| self.is_named(at, partition));
            let found = match left.get(next) {
                Some(entry) if is_it(entry) => Some(next),
                _ => left.iter().position(is_it),
            };
            let Some((at, id)) = found.and_then(|found| left[found].take()) else {
                return Err("it answers for a partition that was not in the request, or twice for one".into());
            };
            next = found.unwrap_or(next) + 1;
            self.on_partition_answer(now, node, at, id, partition, actions);
        }
        if left.iter().any(Option::is_some) {
            return Err("it does not answer for every partition of the request".into());
        }
        Ok(())
    }

    fn is_named(&self, at: u32, answer: &PartitionResponse<'_>) -> bool {
        let partition = &self.partitions[at as usize];
        let topic = &self.topics[partition.topic as usize];
        let same_topic = match answer.topic {
            TopicRef::Name(name) => *name == *topic.name,
            // The id may have changed since the request: then any topic's answer for that partition would do, so the old id is
            // remembered.
            TopicRef::Id(id) => id == topic.id || id == topic.previous_id,
        };
        partition.index == answer.partition && same_topic
    }

    fn on_partition_answer(
        &mut self,
        now: Instant,
        node: usize,
        at: u32,
        id: u64,
        answer: &PartitionResponse<'_>,
        actions: &mut Actions,
    ) {
        let broker = self.nodes[node].id;
        let attempt = Attempt::answered(answer.error, answer.base_offset);
        let idempotent = self.identity.is_idempotent();
        let ruling = classify(attempt, idempotent, self.settings.acks, &self.settings.class_overrides);
        if ruling.verdict == Verdict::Delivered {
            let append_time = Some(answer.append_time).filter(|time| *time >= 0);
            let base_offset = Some(answer.base_offset).filter(|offset| *offset >= 0);
            self.delivered(now, at, id, base_offset, append_time, actions);
            return;
        }
        if let Some((leader, epoch)) =
            answer.current_leader.filter(|(leader, epoch)| *leader >= 0 && *epoch >= 0)
        {
            if epoch > self.partitions[at as usize].leader_epoch && self.by_id.contains_key(&leader) {
                self.set_leader(now, at, Some(leader), epoch, None);
            }
        }
        let cause = Cause::Refused { code: answer.error, message: answer.message.map(Into::into), broker };
        let named =
            answer.record_errors.iter().map(|(place, words)| (*place, words.map(Into::into))).collect();
        let failure = Failure { attempt, cause, node, named };
        self.failed(now, at, id, failure, actions);
    }

    /// The broker asks for a pause.
    pub(super) fn throttle(&mut self, now: Instant, node: usize, ms: i32, ours: bool) {
        let Ok(ms) = u64::try_from(ms) else { return };
        if ms == 0 {
            return;
        }
        if ours {
            let until = now + Duration::from_millis(ms).min(LONGEST_THROTTLE);
            let node = &mut self.nodes[node];
            node.throttled_until = Some(node.throttled_until.map_or(until, |before| before.max(until)));
        }
    }

    /// When an id has to be asked for; with no connection, when one can be made.
    pub(super) fn identity_deadline(&self) -> Option<Instant> {
        let at = self.identity.next_question()?;
        match self.nodes.iter().any(|node| node.is_ready()) {
            true => Some(at),
            false if self.eras.is_empty() => None,
            false => self.next_connection().map(|next| next.max(at)),
        }
    }

    pub(super) fn ask_for_identity(&mut self, now: Instant, actions: &mut Actions) {
        if !self.identity.wants_to_ask(now) {
            return;
        }
        let Some(node) = self.best_node(|_| true) else {
            if !self.eras.is_empty() {
                self.connect_somewhere(now, actions);
            }
            return;
        };
        let Some(versions) = self.nodes[node].session().and_then(|session| session.versions) else { return };
        let Some(version) = versions.init_producer_id() else {
            let reason = "the cluster knows no producer ids (Kafka before 0.11, or a look-alike)";
            self.identity.refuse(reason.into(), now);
            self.enqueue_all(now);
            return;
        };
        let encode =
            |correlation, client_id: &str| init_producer_id::encode(version, correlation, client_id, -1, -1);
        self.put_question(
            now,
            node,
            version,
            Asked::InitProducerId,
            self.settings.request_timeout,
            encode,
            actions,
        );
        self.identity.asked();
    }

    pub(super) fn on_identity(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        body: &[u8],
    ) -> Result<(), String> {
        let answer = init_producer_id::decode(body, version).map_err(|e| e.0)?;
        self.throttle(now, node, answer.throttle_ms, version >= 1);
        if self.identity.answered(answer.error, answer.producer_id, answer.epoch, now) {
            self.enqueue_all(now);
        }
        Ok(())
    }

    /// Where an id is required and refused, nothing can be sent.
    pub(super) fn check_identity(&mut self, now: Instant, actions: &mut Actions) {
        if self.eras.is_empty() {
            return;
        }
        if let identity::State::Refused { reason, .. } = self.identity.state() {
            let cause = Cause::IdempotenceRefused { reason: reason.clone() };
            for slot in 0..self.topics.len() as u32 {
                self.fail_topic(now, slot, &cause, actions);
            }
        }
    }
}

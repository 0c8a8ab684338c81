//! The view of the cluster: who is asked for it, and what an answer changes.

use super::io::Actions;
use super::node::{Asked, Link, Node};
use super::partition::Partition;
use super::timers::Timer;
use super::Engine;
use crate::config::settings::RecoveryStrategy;
use crate::error::Cause;
use crate::protocol::error_code::ErrorCode;
use crate::protocol::metadata::{self, Metadata};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many topics are asked for at once: a thousand misspelt names must not make every answer huge.
const TOPICS_A_QUESTION: usize = 1000;

/// So many questions go out together when there are more topics that nobody was asked for yet.
const QUESTIONS_AT_ONCE: usize = 10;

/// A connection that is not ready after so long is not waited for: another one is begun beside it.
const PATIENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// When metadata has to be asked for. With no connection, what happens to connections decides.
    pub(super) fn metadata_deadline(&self) -> Option<Instant> {
        let at = self.refresh.next()?;
        if self.node_to_ask().is_some() {
            return Some(at);
        }
        self.next_connection().map(|next| next.max(at))
    }

    /// Asks somebody for what is wanted, or connects to somebody to ask.
    pub(super) fn ask_for_metadata(&mut self, now: Instant, actions: &mut Actions) {
        self.rebootstrap_if_lost(now, actions);
        if self.refresh.next().is_none_or(|at| at > now) {
            return;
        }
        match self.node_to_ask() {
            Some(node) => self.ask(now, node, actions),
            None => self.connect_somewhere(now, actions),
        }
    }

    /// Who is asked for metadata.
    fn node_to_ask(&self) -> Option<usize> {
        self.best_node(|node| !self.refresh.is_asking(node))
    }

    /// Of the connections that may be used, the one that answers best.
    pub(super) fn best_node(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let candidates = || (0..self.nodes.len()).filter(|&node| self.nodes[node].is_ready() && may(node));
        let silence = |node: &usize| self.nodes[*node].oldest_question();
        // The one whose oldest question is youngest; none at all is best.
        candidates().filter(|node| silence(node).is_none()).min().or_else(|| candidates().max_by_key(silence))
    }

    /// Begins a connection for whoever needs any: to a known broker, or to an address to start from.
    pub(super) fn connect_somewhere(&mut self, now: Instant, actions: &mut Actions) {
        if self.next_connection().is_none_or(|at| at > now) {
            return;
        }
        let free: Vec<usize> = self.connectable().filter(|&node| self.nodes[node].may_connect(now)).collect();
        // Known brokers first; who started a cluster may have gone since.
        let known: Vec<usize> = free.iter().copied().filter(|&node| !self.nodes[node].is_seed()).collect();
        let pool = if known.is_empty() { free } else { known };
        if let Some(&node) = self.rng.choice(&pool) {
            self.last_attempt = Some(now);
            self.connect(now, node, actions);
        }
    }

    fn connectable(&self) -> impl Iterator<Item = usize> + '_ {
        let stay = self.settings.recovery_strategy == RecoveryStrategy::None;
        let known = self.nodes.iter().any(|node| !node.is_seed() && !node.gone);
        (0..self.nodes.len())
            .filter(move |&node| matches!(self.nodes[node].link, Link::Idle) && !self.nodes[node].gone)
            .filter(move |&node| !(stay && known && self.nodes[node].is_seed()))
    }

    /// When the next connection may be begun for its own sake: one at a time, unless that takes long.
    pub(super) fn next_connection(&self) -> Option<Instant> {
        let free = self.connectable().map(|node| self.nodes[node].retry_at.unwrap_or(self.started)).min()?;
        let busy = self.nodes.iter().any(|node| !matches!(node.link, Link::Idle) && !node.is_ready());
        let patience = self.last_attempt.filter(|_| busy).map(|at| at + PATIENCE);
        Some(patience.map_or(free, |at| at.max(free)))
    }

    fn ask(&mut self, now: Instant, node: usize, actions: &mut Actions) {
        self.retire_topics(now);
        let old = self.refresh.is_old(now) || self.refresh.last_success.is_none();
        let mut new_ones = Vec::new();
        let mut others = Vec::new();
        for slot in 0..self.topics.len() {
            let topic = &self.topics[slot];
            let never_known = topic.partitions.is_empty();
            if topic.in_use && (old || self.topic_waits(slot)) {
                if never_known && self.settings.allow_auto_create_topics {
                    &mut new_ones
                } else {
                    &mut others
                }
                .push(slot);
            }
        }
        self.choose(&mut new_ones);
        self.choose(&mut others);
        // A question that names nobody asks for the brokers alone.
        if others.is_empty() && new_ones.is_empty() {
            self.send_question(now, node, &[], false, actions);
        }
        for (group, create) in [(others, false), (new_ones, true)] {
            for slots in group.chunks(TOPICS_A_QUESTION) {
                self.send_question(now, node, slots, create, actions);
            }
        }
        self.refresh.asked(node, now);
    }

    /// Leaves those that are asked for now: topics that are known and wait for a leader, and new ones, before those that
    /// were asked for in vain; of these no more than one question holds, and not always the same ones.
    fn choose(&mut self, slots: &mut Vec<usize>) {
        if slots.len() <= TOPICS_A_QUESTION {
            return;
        }
        let by = self.rng.usize(..slots.len());
        slots.rotate_left(by);
        slots.sort_by_key(|slot| self.topics[*slot].asked);
        let first_time = slots.partition_point(|slot| self.topics[*slot].asked == 0);
        slots.truncate(first_time.clamp(TOPICS_A_QUESTION, QUESTIONS_AT_ONCE * TOPICS_A_QUESTION));
    }

    fn send_question(
        &mut self,
        now: Instant,
        node: usize,
        slots: &[usize],
        create: bool,
        actions: &mut Actions,
    ) {
        let Some(versions) = self.nodes[node].session().and_then(|session| session.versions) else { return };
        let version = versions.metadata();
        let names: Vec<Arc<str>> = slots.iter().map(|slot| self.topics[*slot].name.clone()).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let encode =
            |correlation, client_id: &str| metadata::encode(version, correlation, client_id, &names, create);
        self.put_question(
            now,
            node,
            version,
            Asked::Metadata,
            self.settings.request_timeout,
            encode,
            actions,
        );
        for slot in slots {
            let topic = &mut self.topics[*slot];
            if !topic.is_known() {
                topic.asked = topic.asked.saturating_add(1);
            }
        }
    }

    /// Whether messages of this topic wait for a newer view.
    fn topic_waits(&self, slot: usize) -> bool {
        let topic = &self.topics[slot];
        if topic.doubted || topic.partitions.is_empty() || !topic.parked.is_empty() {
            return true;
        }
        topic.partitions.iter().any(|&at| self.waits_for_view(&self.partitions[at as usize]))
    }

    fn waits_for_view(&self, partition: &Partition) -> bool {
        if !partition.has_messages() {
            return false;
        }
        let leader = self.leader_of(partition);
        partition.mute.is_some() || leader.is_none_or(|node| node.failures > 0 || node.gone)
    }

    /// Topics that nobody uses any more are not asked for.
    fn retire_topics(&mut self, now: Instant) {
        let idle = self.settings.metadata_max_idle;
        for slot in 0..self.topics.len() {
            let is_idle = now.saturating_duration_since(self.topics[slot].last_used) > idle;
            if is_idle && !self.has_waiting(slot) {
                self.topics[slot].in_use = false;
            }
        }
    }

    pub(super) fn on_metadata(
        &mut self,
        now: Instant,
        node: usize,
        version: i16,
        body: &[u8],
        actions: &mut Actions,
    ) -> Result<(), String> {
        let view = metadata::decode(body, version).map_err(|e| e.0)?;
        self.throttle(now, node, view.throttle_ms, version >= 6);
        if view.error == ErrorCode::RebootstrapRequired {
            log::warn!("{} asks to start from bootstrap.servers again", self.nodes[node].name());
            self.rebootstrap(now, actions);
            return Ok(());
        }
        if view.error != ErrorCode::None {
            let node_ref = &mut self.nodes[node];
            let text = format!("{} answers the question for metadata with {}", node_ref.name(), view.error);
            log::debug!("{text}");
            node_ref.last_error = Some(text.into());
            self.refresh.failed(node, now);
            return Ok(());
        }
        if let (Some(ours), Some(theirs)) = (&self.cluster_id, &view.cluster_id) {
            if ours != theirs {
                let words = format!(
                    "it belongs to another cluster ({theirs}, ours is {ours}): its answers are not used"
                );
                self.hang_up(now, node, words, None, actions);
                return Ok(());
            }
        }
        self.apply_view(now, node, view, actions);
        Ok(())
    }

    fn apply_view(&mut self, now: Instant, node: usize, view: Metadata, actions: &mut Actions) {
        if self.cluster_id.is_none() {
            self.cluster_id = view.cluster_id;
        }
        self.refresh.succeeded(node, now);
        let named: Vec<i32> = view.brokers.iter().map(|broker| broker.id).collect();
        for broker in view.brokers {
            self.meet(now, broker.id, broker.host, broker.port, actions);
            if let Some(&at) = self.by_id.get(&broker.id) {
                self.nodes[at].rack = broker.rack;
            }
        }
        for known in &mut self.nodes {
            known.gone = !known.is_seed() && !named.contains(&known.id);
        }
        for topic in view.topics {
            if let Some(&slot) = self.slots.get(&*topic.name) {
                self.apply_topic(now, node, slot, topic, actions);
            }
        }
        if (0..self.topics.len())
            .any(|slot| self.topics[slot].in_use && self.topic_waits(slot) && self.has_waiting(slot))
        {
            self.refresh.want(now);
        }
    }

    /// Whether anything of this topic waits at all.
    fn has_waiting(&self, slot: usize) -> bool {
        let topic = &self.topics[slot];
        !topic.parked.is_empty()
            || topic.partitions.iter().any(|&at| self.partitions[at as usize].has_messages())
    }

    /// The cluster names a broker.
    pub(super) fn meet(&mut self, now: Instant, id: i32, host: String, port: i32, actions: &mut Actions) {
        let Ok(port) = u16::try_from(port) else { return };
        if id < 0 || host.is_empty() {
            return;
        }
        let Some(&at) = self.by_id.get(&id) else {
            self.by_id.insert(id, self.nodes.len());
            self.nodes.push(Node::new(id, host, port));
            return;
        };
        let node = &mut self.nodes[at];
        node.gone = false;
        if node.host != host || node.port != port {
            let words = format!("it moved to {host}:{port}");
            node.host = host;
            node.port = port;
            node.reached = false;
            if node.conn().is_some() {
                self.hang_up(now, at, words, None, actions);
            }
            // The new address has not failed yet.
            self.nodes[at].failures = 0;
            self.nodes[at].retry_at = None;
        }
    }

    fn apply_topic(
        &mut self,
        now: Instant,
        node: usize,
        slot: u32,
        view: metadata::Topic,
        actions: &mut Actions,
    ) {
        self.topics[slot as usize].doubted = false;
        match view.error {
            ErrorCode::None => {}
            ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => {
                return self.topic_unknown(now, slot)
            }
            ErrorCode::InvalidTopicException
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::PolicyViolation => {
                let broker = self.nodes[node].id;
                self.topics[slot as usize].refusal = Some(format!("topic {}: {}", view.name, view.error));
                self.fail_topic(
                    now,
                    slot,
                    &Cause::Refused { code: view.error, message: None, broker },
                    actions,
                );
                return;
            }
            // Leaders are being elected, or something we don't know: asked again.
            error => {
                self.topics[slot as usize].refusal = Some(format!("topic {}: {error}", view.name));
                return;
            }
        }
        let topic = &mut self.topics[slot as usize];
        topic.unknown_since = None;
        topic.refusal = None;
        topic.asked = 0;
        let another = topic.id != [0; 16] && view.id != [0; 16] && topic.id != view.id;
        if another {
            log::warn!("topic {} was deleted and made anew", topic.name);
            topic.previous_id = topic.id;
        }
        topic.id = view.id;
        let count = view.partitions.iter().map(|p| p.index + 1).max().unwrap_or(0).max(0) as usize;
        // A hostile index must not make us allocate: partitions are named one by one.
        let count = count.min(view.partitions.len());
        let before = topic.partitions.len();
        for index in before..count {
            topic.partitions.push(self.partitions.len() as u32);
            self.partitions.push(Partition::new(slot, index as i32));
        }
        if another {
            self.start_anew(now, slot, count, actions);
        }
        for view in view.partitions {
            let leader =
                Some(view.leader).filter(|id| *id >= 0 && view.error != ErrorCode::LeaderNotAvailable);
            let partitions = &self.topics[slot as usize].partitions;
            if let Some(&at) = usize::try_from(view.index).ok().and_then(|index| partitions.get(index)) {
                self.set_leader(now, at, leader, view.leader_epoch, Some(view.isr));
            }
        }
        if !self.topics[slot as usize].parked.is_empty() {
            self.place_parked(now, slot, actions);
        }
    }

    /// The topic was deleted and made anew: epochs start again, nothing is remembered, partitions may be fewer.
    fn start_anew(&mut self, now: Instant, slot: u32, count: usize, actions: &mut Actions) {
        for at in self.topics[slot as usize].partitions.clone() {
            let partition = &mut self.partitions[at as usize];
            partition.leader_epoch = -1;
            partition.forget_acknowledgements();
            partition.mute = None;
        }
        let gone = self.topics[slot as usize].partitions.split_off(count);
        for at in gone {
            self.partitions[at as usize].leader = None;
            self.drop_waiting(now, at, &Cause::UnknownPartition { partitions: count as i32 }, actions);
        }
    }

    /// The cluster says that it doesn't know the topic: it may still come, for a while.
    pub(super) fn topic_unknown(&mut self, now: Instant, slot: u32) {
        let grace = self.settings.unknown_topic_grace;
        let topic = &mut self.topics[slot as usize];
        if topic.unknown_since.is_none() {
            topic.unknown_since = Some(now);
            self.timers.set(now + grace, Timer::Topic(slot));
        }
    }

    /// Who leads a partition. `isr` is not known where a produce response told it.
    pub(super) fn set_leader(
        &mut self,
        now: Instant,
        at: u32,
        leader: Option<i32>,
        epoch: i32,
        isr: Option<Vec<i32>>,
    ) {
        let partition = &mut self.partitions[at as usize];
        if epoch >= 0 && epoch < partition.leader_epoch {
            return; // an older view
        }
        let isr_changed = isr.as_ref().is_some_and(|isr| *isr != partition.isr);
        if partition.queued && partition.leader != leader {
            // It must not wait for the old leader's connection.
            partition.queued = false;
            if let Some(node) = partition.leader.and_then(|leader| self.by_id.get(&leader)) {
                self.nodes[*node].sendable.retain(|queued| *queued != at);
            }
        }
        let changed = partition.leader != leader || partition.leader_epoch != epoch || isr_changed;
        partition.leader = leader;
        partition.leader_epoch = epoch;
        if let Some(isr) = isr {
            partition.isr = isr;
        }
        match leader {
            Some(_) => partition.leaderless_since = None,
            None => {
                partition.leaderless_since.get_or_insert(now);
                self.topics[partition.topic as usize].sticky.leave(partition.index as u32);
                if partition.has_messages() {
                    self.refresh.want(now);
                }
            }
        }
        if changed {
            self.end_pause_early(at);
        }
        self.enqueue(now, at);
    }

    fn rebootstrap_if_lost(&mut self, now: Instant, actions: &mut Actions) {
        let rebootstraps = self.settings.recovery_strategy == RecoveryStrategy::Rebootstrap;
        let lost = |since: Instant| since + self.settings.recovery_trigger <= now;
        if rebootstraps && self.refresh.failing_since.is_some_and(lost) {
            log::warn!(
                "no metadata for {:?}: starting from bootstrap.servers again",
                self.settings.recovery_trigger
            );
            self.rebootstrap(now, actions);
        }
    }

    /// Forgets the brokers and begins again with the addresses that the user gave. What is queued stays.
    pub(super) fn rebootstrap(&mut self, now: Instant, actions: &mut Actions) {
        self.refresh.restart(now);
        self.cluster_id = None;
        for node in 0..self.nodes.len() {
            if self.nodes[node].conn().is_some() {
                self.hang_up(now, node, "starting again from bootstrap.servers".into(), None, actions);
            }
            self.nodes[node].gone = !self.nodes[node].is_seed();
            self.nodes[node].failures = 0;
            self.nodes[node].retry_at = None;
        }
    }
}

//! What is watched while a story runs, and what must hold at its end.

use super::super::ledger::{Entry, Id, Verdict};
use super::World;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use steadfast::internal::config::settings::Idempotence;
use steadfast::internal::engine::io::ConnId;
use steadfast::internal::model::request::{Api, Body, Request};
use steadfast::internal::model::Seen;
use steadfast::{DeliveryError, Fate};

impl World {
    /// A request goes out.
    pub(super) fn watch(&mut self, conn: ConnId, bytes: &[u8]) {
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
        self.asked.entry(conn).or_default().push_back(partitions);
        self.check_in_flight(conn);
    }

    fn check_in_flight(&mut self, conn: ConnId) {
        let max = self.settings.max_in_flight;
        let produce = self.asked[&conn].iter().filter(|partitions| !partitions.is_empty()).count();
        if produce > max && self.promise.offsets {
            self.ledger.faults.push(format!("{produce} produce requests in flight on {conn:?}"));
        }
        let mut counts: BTreeMap<&(String, i32), usize> = BTreeMap::new();
        for partitions in self.asked.values().flatten() {
            partitions.iter().for_each(|partition| *counts.entry(partition).or_default() += 1);
        }
        let most = if self.settings.idempotence == Idempotence::Off { 1 } else { max };
        let above = counts.into_iter().filter(|(_, count)| *count > most && self.promise.offsets);
        let above: Vec<_> =
            above.map(|(partition, count)| format!("{count} in flight for {partition:?}")).collect();
        self.ledger.faults.extend(above);
    }

    /// An answer comes in.
    pub(super) fn hear(&mut self, conn: ConnId, frame: &[u8]) {
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

    pub(super) fn say(&mut self, words: String) {
        if self.trace.len() == 2000 {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{:>12.3?} {words}", self.now));
    }

    /// Everything that must hold at the end of every story.
    pub fn check(&mut self) {
        self.checked = true;
        drop(self.engine.leftovers()); // whoever stopped it has got them
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
        self.busiest_second_after(Duration::ZERO)
    }

    /// The same without what came before.
    pub fn busiest_second_after(&self, from: Duration) -> usize {
        let mut seconds: BTreeMap<u64, usize> = BTreeMap::new();
        let counted = self.requests.iter().filter(|(at, ..)| *at >= from);
        counted.for_each(|(at, ..)| *seconds.entry(at.as_secs()).or_default() += 1);
        seconds.into_values().max().unwrap_or(0)
    }

    /// How often the engine was woken since the beginning.
    pub fn all_steps(&self) -> u32 {
        self.steps.values().sum()
    }

    /// The values in partition 0 of "t" as message numbers.
    pub fn log(&mut self) -> Vec<Id> {
        let partition = self.net.model.partition("t", 0).expect("a topic t");
        let messages = partition.messages("t", 0).expect("a log that can be read");
        let number = |value: Option<Vec<u8>>| String::from_utf8(value?).ok()?.parse().ok();
        messages.into_iter().map(|message| number(message.value).expect("a value of ours")).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let wanted = std::env::var("STEADFAST_TRACE_LINES").ok().and_then(|text| text.parse().ok());
            let from = self.trace.len().saturating_sub(wanted.unwrap_or(150));
            eprintln!("--- the last of {} lines (more with STEADFAST_TRACE_LINES) ---", self.trace.len());
            self.trace.iter().skip(from).for_each(|line| eprintln!("{line}"));
        } else {
            assert!(self.checked, "a story must end with `check` or `finish`");
        }
    }
}

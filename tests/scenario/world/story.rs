//! The words of a story: what the cluster goes through, and what the producer is asked for.

use super::super::network::Network;
use super::{plain, World};
use std::ops::Range;
use std::time::{Duration, Instant};
use steadfast::internal::engine::io::Event;
use steadfast::internal::engine::partitioner::murmur2;
use steadfast::internal::engine::Engine;
use steadfast::internal::intake::chunk::Chunk;
use steadfast::internal::intake::head::Head;
use steadfast::internal::model::fault::{Fault, On, Tail, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::Arriving;
use steadfast::testing::Versions;
use steadfast::{Message, Stats};

use super::super::ledger::Id;

impl World {
    pub fn topic(mut self, name: &str, partitions: i32) -> World {
        self.create(name, partitions, plain());
        self
    }

    pub fn topic_with(mut self, name: &str, partitions: i32, config: TopicConfig) -> World {
        self.create(name, partitions, config);
        self
    }

    pub fn create(&mut self, name: &str, partitions: i32, config: TopicConfig) {
        assert!(self.net.model.create_topic(name, partitions, 3, config), "there is a topic {name}");
    }

    pub fn delete(&mut self, name: &str) {
        self.say(format!("story: delete topic {name}"));
        assert!(self.net.model.delete_topic(name), "no topic {name}");
        self.ledger.forget_offsets(name);
    }

    /// All brokers offer this.
    pub fn versions(mut self, versions: &Versions) -> World {
        for id in self.net.model.broker_ids() {
            self.net.model.broker(id).expect("there").versions = versions.clone();
        }
        self
    }

    /// Duplicates are expected: at least once is all that was asked for.
    pub fn allow_duplicates(mut self) -> World {
        self.promise.no_duplicates = false;
        self
    }

    pub fn fault(&mut self, on: On, times: Times, fault: Fault) {
        self.say(format!("story: {fault:?} on {on:?}, {times:?}"));
        self.net.model.order(on, times, fault);
    }

    /// On partition 0 of "t".
    pub fn fault_t(&mut self, times: Times, fault: Fault) {
        self.fault(On::partition("t", 0), times, fault);
    }

    pub fn crash(&mut self, broker: i32) {
        self.crash_with(broker, Tail::Kept);
    }

    pub fn crash_with(&mut self, broker: i32, tail: Tail) {
        self.say(format!("story: broker {broker} crashes"));
        self.net.down(self.now, broker);
        self.net.model.crash(Network::wall_clock(self.now), broker, tail);
    }

    pub fn restart(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} is back"));
        self.net.model.restart(Network::wall_clock(self.now), broker);
        self.net.up(broker);
    }

    pub fn hang(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} hangs"));
        self.net.hang(self.now, broker, true);
    }

    pub fn resume(&mut self, broker: i32) {
        self.say(format!("story: broker {broker} goes on"));
        self.net.hang(self.now, broker, false);
    }

    pub fn move_leader(&mut self, topic: &str, partition: i32, to: i32) {
        self.say(format!("story: {topic}-{partition} is led by {to}"));
        assert!(self.net.model.move_leader(topic, partition, to));
    }

    pub fn leader(&mut self, topic: &str, partition: i32) -> i32 {
        self.net.model.partition(topic, partition).expect("a partition").leader
    }

    pub fn in_sync(&mut self, topic: &str, partition: i32, replicas: &[i32]) {
        self.say(format!("story: {topic}-{partition} is in sync on {replicas:?}"));
        self.net.model.partition(topic, partition).expect("a partition").isr = replicas.to_vec();
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// What happens instead to batches for partition 0 of "t" of which `which` says so.
    pub fn hook(&mut self, mut which: impl FnMut(&Arriving<'_>) -> Option<Fault> + Send + 'static) {
        let hook =
            move |batch: &Arriving<'_>| (batch.topic == "t" && batch.partition == 0).then(|| which(batch))?;
        self.net.model.on_produce(Some(Box::new(hook)));
    }

    /// So many messages without a key in one call.
    pub fn send(&mut self, topic: &str, count: usize) -> Range<Id> {
        self.send_sized(topic, None, count, 20)
    }

    /// So many messages for a partition in one call.
    pub fn send_to(&mut self, topic: &str, partition: i32, count: usize) -> Range<Id> {
        self.send_sized(topic, Some(partition), count, 20)
    }

    /// Values of at least `bytes` bytes.
    pub fn send_sized(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        count: usize,
        bytes: usize,
    ) -> Range<Id> {
        let from = self.ledger.entries.len();
        let messages = (from..from + count).map(|id| (None, format!("{id:0bytes$}").into_bytes()));
        self.send_all(topic, partition, messages.collect()).expect("room in the buffer")
    }

    /// One call with these keys and values. Err: no room.
    #[allow(clippy::type_complexity)]
    pub fn send_all(
        &mut self,
        topic: &str,
        partition: Option<i32>,
        messages: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    ) -> Result<Range<Id>, ()> {
        let slot = self.names.intern(topic).expect("a topic's name");
        let timestamp = Network::wall_clock(self.now);
        let mut heads = Vec::new();
        for (key, value) in &messages {
            let message =
                Message { key: key.as_deref(), value: Some(value), partition, ..Message::default() };
            let hash = key.as_deref().map_or(0, murmur2);
            heads.push(Head::of(&message, slot, hash, timestamp).expect("small enough"));
        }
        self.budget.try_reserve(heads.iter().map(Head::charge).sum()).map_err(|_| ())?;
        let bytes = heads.iter().map(Head::encoded_len).sum();
        let mut chunk = Chunk::new(bytes, self.instant());
        let from = self.ledger.entries.len();
        for ((key, value), head) in messages.into_iter().zip(&heads) {
            let message =
                Message { key: key.as_deref(), value: Some(&value), partition, ..Message::default() };
            let number = chunk.append(&message, head, || self.instant());
            let entry = (topic, key, value, timestamp);
            self.ledger.accept(entry, chunk.block(), number);
        }
        let ids = from..self.ledger.entries.len();
        self.say(format!("sent {ids:?} to {topic}"));
        self.absorb(Event::Chunk(&chunk));
        drop(chunk);
        self.step();
        Ok(ids)
    }

    /// Returns the flush's ticket.
    pub fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.say(format!("flush {}", self.flushes));
        self.absorb(Event::Flush { ticket: self.flushes });
        self.step();
        self.flushes
    }

    /// When a flush was done, if it was.
    pub fn flushed(&self, ticket: u64) -> Option<Duration> {
        self.flushed.iter().find(|(_, done)| *done == ticket).map(|(at, _)| *at)
    }

    pub fn stop(&mut self, timeout: Duration) {
        self.say(format!("stop within {timeout:?}"));
        self.absorb(Event::Stop { deadline: self.start + self.now + timeout });
        self.step();
    }

    pub fn stopped(&self) -> Option<Duration> {
        self.stopped
    }

    pub fn pressure(&mut self, on: bool) {
        self.absorb(Event::Pressure(on));
        self.step();
    }

    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    pub fn instant(&self) -> Instant {
        self.start + self.now
    }

    pub fn budget_used(&self) -> u64 {
        self.budget.used()
    }
}

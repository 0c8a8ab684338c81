//! The producer as the application holds it.

use crate::config::Config;
use crate::delivery::receipt::Receipt;
use crate::delivery::run::DeliveryRun;
use crate::error::{Dropped, FlushError, NotReady, SendError, StartError};
use crate::message::Message;
use crate::stats::{Stats, Status};
use std::sync::Arc;
use std::time::Duration;

/// Sends messages to Kafka from any number of threads. Cloning gives another handle to the same producer.
///
/// One worker thread does the network and all else. When the last handle is dropped the producer is stopped with a bounded
/// wait (1 s unless set otherwise) and one log line if anything was left: call [`stop`](Self::stop) for more.
#[derive(Clone)]
pub struct Producer {
    _private: (),
}

/// Sets up a [`Producer`].
#[must_use]
pub struct ProducerBuilder {
    _config: Config,
}

/// What a `stop` came to.
#[derive(Clone, Debug)]
#[must_use = "says which messages were left"]
#[non_exhaustive]
pub struct StopReport {
    /// How it ended.
    pub end: StopEnd,
    /// Messages that had no verdict at the deadline and were dropped for it. If several threads stop, one of them gets
    /// these; the others get none.
    pub left: Vec<Dropped>,
    /// How many were left: the same for every call.
    pub left_count: u64,
}

/// How a `stop` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopEnd {
    /// Every message has its verdict, and the callback has heard of all.
    Clean,
    /// The deadline came first: messages were left (see the report), or the callback still had some to hear of.
    Deadline,
    /// Called on the callback's thread, which it would wait for. Nothing was done: stop from another thread, or drop the
    /// last handle.
    WouldDeadlock,
    /// The worker thread died: a fault of this crate. Every message without a verdict got one that says so.
    WorkerDied {
        /// The panic's text.
        reason: Arc<str>,
    },
    /// This process is a forked child: the producer belongs to its parent. Nothing was done.
    Forked,
}

impl StopReport {
    /// Whether every message had its verdict (and the callback heard of it) within the deadline.
    pub fn is_clean(&self) -> bool {
        self.end == StopEnd::Clean
    }
}

impl ProducerBuilder {
    /// Calls `callback` with every verdict, in runs: in order per partition, each message once.
    ///
    /// It runs on a thread of its own, one call at a time. A slow one slows the senders (what it has not heard of still
    /// counts as buffered) and never the worker. It may use the producer: sending from there never waits (a full buffer is
    /// [`SendError::BufferFull`] at once); `flush`, `stop` and waiting for a receipt are refused as a deadlock. A panic in
    /// it is caught, logged and counted ([`Stats::callback_panics`]). A callback that owns a handle keeps the producer
    /// alive until `stop` is called.
    pub fn on_delivery(self, callback: impl FnMut(&DeliveryRun) + Send + 'static) -> ProducerBuilder {
        let _ = callback;
        self
    }

    /// Starts the worker. Touches no network on this thread: brokers that can't be reached are no error here
    /// (see [`Producer::wait_until_ready`]).
    pub fn start(self) -> Result<Producer, StartError> {
        todo!()
    }
}

impl Producer {
    /// A producer with this configuration and no callback.
    pub fn new(config: Config) -> Result<Producer, StartError> {
        Producer::builder(config).start()
    }

    /// For more than `new` does.
    pub fn builder(config: Config) -> ProducerBuilder {
        ProducerBuilder { _config: config }
    }

    /// Hands one message over. Waits up to `max.block.ms` if the buffer is full; never for the network or for metadata.
    pub fn send<'a>(&self, topic: &str, message: impl Into<Message<'a>>) -> Result<Receipt, SendError> {
        let _ = (topic, message.into());
        todo!()
    }

    /// As [`send`](Self::send), but never waits: a full buffer is [`SendError::BufferFull`] at once.
    pub fn try_send<'a>(&self, topic: &str, message: impl Into<Message<'a>>) -> Result<Receipt, SendError> {
        let _ = (topic, message.into());
        todo!()
    }

    /// Hands messages over: all of them are accepted, in order and with no others between them, or none. Waits up to
    /// `max.block.ms` if the buffer is full.
    pub fn send_messages<'a, I>(&self, topic: &str, messages: I) -> Result<Receipt, SendError>
    where
        I: IntoIterator,
        I::Item: Into<Message<'a>>,
    {
        let _ = (topic, messages);
        todo!()
    }

    /// As [`send_messages`](Self::send_messages), but never waits.
    pub fn try_send_messages<'a, I>(&self, topic: &str, messages: I) -> Result<Receipt, SendError>
    where
        I: IntoIterator,
        I::Item: Into<Message<'a>>,
    {
        let _ = (topic, messages);
        todo!()
    }

    /// Waits until all that was accepted before this call has its verdict and the callback has heard of it. Linger is cut
    /// short for it. May be called by many threads at once.
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        let _ = timeout;
        todo!()
    }

    /// Refuses new messages, sends what is there without linger, and ends the producer, for all handles. What has no
    /// verdict after `timeout` is dropped and handed back in the report. A second call waits for the same end; the earlier
    /// deadline counts.
    pub fn stop(&self, timeout: Duration) -> StopReport {
        let _ = timeout;
        todo!()
    }

    /// Waits until the partitions' leaders of these topics are known and connected; with no topics, until any broker is.
    /// For those who want to fail at start-up: the error says what it waited for.
    pub fn wait_until_ready(&self, topics: &[&str], timeout: Duration) -> Result<(), NotReady> {
        let _ = (topics, timeout);
        todo!()
    }

    /// Counters. Cheap enough for once a second, from any thread.
    pub fn stats(&self) -> Stats {
        todo!()
    }

    /// What the producer is connected to and what it waits for.
    pub fn status(&self) -> Status {
        todo!()
    }
}

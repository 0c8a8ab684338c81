//! What can go wrong, who is to blame, and what to do.

use crate::message::OwnedMessage;
use crate::protocol::error_code::ErrorCode;
use std::sync::Arc;
use std::time::Duration;

/// Whether a dropped message may be in the log all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// No broker has it: sending it again makes no duplicate.
    NotWritten,
    /// It was sent and nobody said what became of it: it may be in the log, or may not.
    Unknown,
}

/// Where a delivered message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Its offset; `None` with acks=0, and for a duplicate whose offset the broker does not know.
    pub offset: Option<i64>,
    /// The timestamp that is in the log, in milliseconds since 1970.
    pub timestamp: i64,
    /// Whose clock that timestamp is of.
    pub timestamp_type: TimestampType,
}

/// Which clock a timestamp in the log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The message's own (`message.timestamp.type=CreateTime`).
    CreateTime,
    /// The broker's, when it appended the message (`LogAppendTime`).
    LogAppendTime,
}

/// A message that was not delivered, with the reason and its bytes.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Dropped {
    /// Why.
    pub error: Arc<DeliveryError>,
    /// The message. Empty only if the worker died ([`Cause::WorkerDied`]): it had the bytes.
    pub message: OwnedMessage,
}

/// Why a message (or a run of them: one batch) was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause} (topic {topic}, {}attempts {attempts}, after {elapsed:.1?}; {})", partition_text(*partition), fate_text(*fate))]
pub struct DeliveryError {
    /// The cause.
    pub cause: Cause,
    /// Whether it may be in the log.
    pub fate: Fate,
    /// Requests whose bytes went to a broker with this message and that came back refused, or unanswered.
    pub attempts: u32,
    /// From acceptance to verdict.
    pub elapsed: Duration,
    /// The topic.
    pub topic: Arc<str>,
    /// The partition, where one had been chosen.
    pub partition: Option<i32>,
}

impl DeliveryError {
    /// For what was lost with the worker: nobody knows any more which topic it was for.
    pub(crate) fn worker_died(reason: Arc<str>) -> DeliveryError {
        DeliveryError {
            cause: Cause::WorkerDied { reason },
            fate: Fate::Unknown,
            attempts: 0,
            elapsed: Duration::ZERO,
            topic: "".into(),
            partition: None,
        }
    }
}

fn partition_text(partition: Option<i32>) -> String {
    partition.map_or_else(String::new, |p| format!("partition {p}, "))
}

fn fate_text(fate: Fate) -> &'static str {
    match fate {
        Fate::NotWritten => "not written",
        Fate::Unknown => "may be in the log",
    }
}

/// The cause of a drop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A broker refused it for good.
    #[error("broker {broker} refused it: {code}{}{}", text(.message.as_deref()), advice(*.code))]
    Refused {
        /// The broker's code.
        code: ErrorCode,
        /// The broker's own words, where it has some (Produce v8 and later).
        message: Option<Arc<str>>,
        /// The broker's id.
        broker: i32,
    },
    /// `batch_retries_limit` is used up.
    #[error("gave up after {limit} retries (batch_retries_limit); last: {last}")]
    RetriesExhausted {
        /// The limit.
        limit: u32,
        /// What the last attempt came to.
        last: Box<Cause>,
    },
    /// `delivery.timeout.ms` is over.
    #[error("not delivered within delivery.timeout.ms{}", last_text(.last.as_deref()))]
    DeliveryTimeout {
        /// What it waited for, or what the last attempt came to.
        last: Option<Box<Cause>>,
    },
    /// The connection was lost with the request unanswered.
    #[error("lost the connection to broker {broker}: {reason}")]
    Disconnected {
        /// The broker's id.
        broker: i32,
        /// Why, in words.
        reason: Arc<str>,
    },
    /// The broker did not answer within `request.timeout.ms`.
    #[error("broker {broker} did not answer within request.timeout.ms")]
    RequestTimeout {
        /// The broker's id.
        broker: i32,
    },
    /// The cluster does not know the topic, and the grace for new topics is over.
    #[error("the cluster does not know the topic: create it, or check its name")]
    UnknownTopic,
    /// The topic exists and the partition does not.
    #[error("the topic has {partitions} partitions, there is no such one")]
    UnknownPartition {
        /// How many there are.
        partitions: i32,
    },
    /// No broker could be reached.
    #[error("no broker can be reached: {reason}")]
    NoBroker {
        /// The latest failures, broker by broker.
        reason: Arc<str>,
    },
    /// Other brokers can be reached, and the partition's leader can't.
    #[error("the leader, broker {broker}, can't be reached: {reason}")]
    LeaderUnreachable {
        /// The leader's id.
        broker: i32,
        /// Why the last connection to it, or the last try, came to nothing.
        reason: Arc<str>,
    },
    /// The partition has no leader.
    #[error("the partition has no leader")]
    NoLeader,
    /// Its turn never came: something else was waited for.
    #[error("{reason}")]
    Waiting {
        /// For what, in words: a throttle, a producer id, an answer to what was sent before.
        reason: Arc<str>,
    },
    /// The leader is too old for what the message or the settings need.
    #[error("broker {broker} is too old: {reason}")]
    Unsupported {
        /// The broker's id.
        broker: i32,
        /// What it can't do.
        reason: Arc<str>,
    },
    /// Idempotence is required and the cluster does not grant it.
    #[error("enable.idempotence is required, and: {reason}")]
    IdempotenceRefused {
        /// Why.
        reason: Arc<str>,
    },
    /// It was sent once under a producer epoch that is over; sending it again could double it.
    #[error("sequence lost after an unanswered attempt; sending it again could double it; last: {last}")]
    SequenceLost {
        /// What the last attempt came to.
        last: Box<Cause>,
    },
    /// An attempt may have been written, and `retry_ambiguous` says not to send it again.
    #[error("unanswered, and retry_ambiguous is off; last: {last}")]
    NotRetried {
        /// What the attempt came to.
        last: Box<Cause>,
    },
    /// A broker answered something that makes no sense.
    #[error("broker {broker} sent a malformed answer: {reason}")]
    Malformed {
        /// The broker's id.
        broker: i32,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// The codec failed, or is not built in.
    #[error("compression failed: {reason}")]
    Compression {
        /// Why.
        reason: Arc<str>,
    },
    /// The producer was stopped, or dropped, before a verdict came.
    #[error("the producer was stopped first{}", last_text(.last.as_deref()))]
    Stopped {
        /// What it waited for, or what the last attempt came to.
        last: Option<Box<Cause>>,
    },
    /// The worker thread died: a fault of this crate.
    #[error("the producer's worker died: {reason}")]
    WorkerDied {
        /// The panic's text.
        reason: Arc<str>,
    },
}

impl Cause {
    /// One or two words for counting: the broker's code where there is one.
    pub(crate) fn short_name(&self) -> String {
        match self {
            Cause::Refused { code, .. } => code.name().to_string(),
            Cause::RetriesExhausted { last, .. } => format!("retries exhausted: {}", last.short_name()),
            Cause::DeliveryTimeout { last: Some(last) } => format!("delivery timeout: {}", last.short_name()),
            Cause::DeliveryTimeout { last: None } => "delivery timeout".into(),
            Cause::Disconnected { .. } => "disconnected".into(),
            Cause::RequestTimeout { .. } => "request timeout".into(),
            Cause::UnknownTopic => "unknown topic".into(),
            Cause::UnknownPartition { .. } => "unknown partition".into(),
            Cause::NoBroker { .. } => "no broker".into(),
            Cause::LeaderUnreachable { .. } => "leader unreachable".into(),
            Cause::NoLeader => "no leader".into(),
            Cause::Waiting { .. } => "waiting".into(),
            Cause::Unsupported { .. } => "unsupported".into(),
            Cause::IdempotenceRefused { .. } => "idempotence refused".into(),
            Cause::SequenceLost { .. } => "sequence lost".into(),
            Cause::NotRetried { .. } => "not retried".into(),
            Cause::Malformed { .. } => "malformed answer".into(),
            Cause::Compression { .. } => "compression".into(),
            Cause::Stopped { .. } => "stopped".into(),
            Cause::WorkerDied { .. } => "worker died".into(),
        }
    }
}

fn text(message: Option<&str>) -> String {
    message.map_or_else(String::new, |m| format!(" ({m})"))
}

fn advice(code: ErrorCode) -> String {
    code.advice().map_or_else(String::new, |advice| format!(": {advice}"))
}

fn last_text(last: Option<&Cause>) -> String {
    last.map_or_else(String::new, |c| format!("; last: {c}"))
}

/// A call that was refused at the door: nothing of it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room in `buffer.memory` (at once for `try_send_messages`, else after `max.block.ms`).
    #[error(
        "the buffer is full ({buffer_bytes} bytes, buffer.memory): brokers are slower than callers, or away"
    )]
    BufferFull {
        /// The whole budget.
        buffer_bytes: u64,
    },
    /// The call is larger than the whole budget, so waiting would not help.
    #[error("the call needs {bytes} bytes, more than the whole buffer ({buffer_bytes}, buffer.memory): send less at once")]
    CallTooLarge {
        /// What the call would take.
        bytes: u64,
        /// The whole budget.
        buffer_bytes: u64,
    },
    /// One message is larger than `max.request.size`.
    #[error("message {index} of the call takes {bytes} bytes, the limit is {limit} (max.request.size)")]
    MessageTooLarge {
        /// Its place in the call.
        index: usize,
        /// Its encoded size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Not a name that Kafka accepts.
    #[error("not a topic name: {reason}")]
    InvalidTopic {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A negative partition.
    #[error("message {index} of the call asks for partition {partition}: partitions count from 0")]
    InvalidPartition {
        /// Its place in the call.
        index: usize,
        /// What was asked for.
        partition: i32,
    },
    /// A timestamp before 1970.
    #[error("message {index} of the call has the timestamp {timestamp}: before 1970")]
    InvalidTimestamp {
        /// Its place in the call.
        index: usize,
        /// What was asked for.
        timestamp: i64,
    },
    /// `stop` was called.
    #[error("the producer was stopped")]
    Stopped,
    /// The worker thread died: a fault of this crate.
    #[error("the producer's worker died: {reason}")]
    WorkerDied {
        /// The panic's text.
        reason: Arc<str>,
    },
    /// This process is a forked child: threads do not survive a fork.
    #[error("this process was forked after the producer was made: make a new one")]
    Forked,
}

/// `flush` or a wait that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// The time is over; messages accepted before the call have no verdict yet.
    #[error("{left} messages still have no verdict")]
    TimedOut {
        /// How many.
        left: u64,
    },
    /// Called on the callback's thread, which it would wait for.
    #[error("called from the delivery callback, which it would wait for")]
    WouldDeadlock,
    /// The worker thread died.
    #[error("the producer's worker died: {reason}")]
    WorkerDied {
        /// The panic's text.
        reason: Arc<str>,
    },
    /// This process is a forked child.
    #[error("this process was forked after the producer was made: make a new one")]
    Forked,
}

/// Waiting for a receipt did not end with everything delivered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// A message was dropped: the first one, if several were.
    #[error(transparent)]
    Dropped(#[from] Dropped),
    /// The time is over and there are messages without a verdict; the receipt can be waited for again.
    #[error("no verdict yet")]
    TimedOut,
    /// Called on the callback's thread of the same producer: the verdict might have to pass through it.
    #[error("called from the delivery callback, which it would wait for")]
    WouldDeadlock,
    /// The call had no messages: there is nothing to have a verdict.
    #[error("the call had no messages")]
    NoMessage,
    /// This process is a forked child: the verdict comes to its parent.
    #[error("this process was forked after the producer was made: the verdict comes to its parent")]
    Forked,
}

/// Why `wait_until_ready` gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not ready: {reason}")]
pub struct NotReady {
    /// In words: who refused, which name does not resolve, which topic is not there.
    pub reason: String,
}

/// Why a producer could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The settings don't fit.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operating system refused a thread or a poller.
    #[error("the operating system refused: {0}")]
    Io(#[from] std::io::Error),
}

/// A setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{property}: {reason}")]
pub struct ConfigError {
    /// The property's name.
    pub property: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

//! What a producer tells about itself: numbers (`Stats`), and what it waits for (`Status`).

use std::time::Duration;

/// Counters since the producer was made, and what is in it now. A snapshot: `Producer::stats` makes a new one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages taken from callers.
    pub accepted: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Messages dropped.
    pub dropped: u64,
    /// Dropped messages by cause, the most frequent first.
    pub dropped_by_cause: Vec<(String, u64)>,
    /// Attempts of a batch that were refused or unanswered and made again: what `batch_retries_limit` counts.
    pub retries: u64,
    /// Retries by what the attempt came to (`NOT_LEADER_OR_FOLLOWER`, `disconnected`, ...), the most frequent first.
    pub retries_by_code: Vec<(String, u64)>,
    /// Bytes of `buffer.memory` in use: all that has been accepted and has no verdict, and what was dropped and not yet
    /// taken back.
    pub bytes_queued: u64,
    /// Of these, bytes in requests that are on their way.
    pub bytes_in_flight: u64,
    /// Batches sent, each attempt counted.
    pub batches: u64,
    /// Produce requests sent.
    pub requests: u64,
    /// Bytes of these requests.
    pub request_bytes: u64,
    /// Batches that were cut because a broker found them too large.
    pub splits: u64,
    /// How often the producer epoch was raised.
    pub epoch_bumps: u64,
    /// How often the worker woke up.
    pub worker_wakes: u64,
    /// How often a caller woke it.
    pub rings: u64,
    /// How often the delivery callback panicked.
    pub callback_panics: u64,
    /// From acceptance to the batch's first request: time spent in the producer.
    pub queued: LatencySummary,
    /// Of that, the time in a batch that was not yet due.
    pub lingered: LatencySummary,
    /// From a batch's first request to its verdict, retries included.
    pub in_flight: LatencySummary,
}

/// The distribution of a time, taken over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatencySummary {
    /// How many were measured.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 95 % of them took no longer.
    pub p95: Duration,
    /// 99 % of them took no longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// What the producer is connected to, and what it waits for. A snapshot: `Producer::status` makes a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Every connection, and every broker that it would like to be connected to.
    pub connections: Vec<BrokerStatus>,
    /// Partitions (and topics) with messages that can't be sent now, the longest waiting first.
    pub waiting: Vec<PartitionStatus>,
    /// Whether messages are protected against duplicates, and if not, why.
    pub idempotence: String,
    /// The producer id that the cluster granted.
    pub producer_id: Option<i64>,
    /// Why the producer takes no more messages (`stopped`, or the worker's panic); `None` while it does.
    pub closed: Option<String>,
}

/// One broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerStatus {
    /// Its id; `None` for a bootstrap address whose id isn't known yet.
    pub broker: Option<i32>,
    /// Host and port.
    pub address: String,
    /// `connected`, `connecting`, `resolving`, `backing off`, ...
    pub state: String,
    /// The broker asked for a pause that lasts so long still.
    pub throttled_for: Option<Duration>,
    /// Requests on their way to it.
    pub in_flight: usize,
    /// Why the last connection, or the attempt at one, ended.
    pub last_error: Option<String>,
}

/// One partition (or a whole topic) that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// The topic.
    pub topic: String,
    /// The partition; `None` while the topic's partitions aren't known.
    pub partition: Option<i32>,
    /// Messages that wait.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how long.
    pub since: Duration,
    /// For what: `no leader since 4 s`, `broker 2 refused: ...`.
    pub reason: String,
}

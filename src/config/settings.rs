//! The settings as the rest of the crate reads them: validated, fitted to each other, every field decided.

use crate::protocol::compression::Codec;
use crate::protocol::error_code::ErrorCode;
use std::collections::HashMap;
use std::time::Duration;

/// How many replicas must have a message before it counts as delivered (`acks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// None: delivered means written to the socket.
    Zero,
    /// The leader.
    One,
    /// All in-sync replicas.
    All,
}

/// `enable.idempotence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// Off: at least once.
    Off,
    /// On where the cluster allows it, else one warning and off.
    Preferred,
    /// On, or every send fails with the reason.
    Required,
}

/// `retry_ambiguous`: what to do with an attempt that nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAmbiguous {
    /// Retried wherever the producer id protects it, and without idempotence too (at least once); never sent again under a
    /// new producer epoch.
    Auto,
    /// Always retried, also under a new epoch: at least once, whatever happens.
    Always,
    /// Never retried without the producer id's protection: the message is dropped, `Fate::Unknown`.
    Never,
}

/// `metadata.recovery.strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStrategy {
    /// Stay with the brokers that are known.
    None,
    /// Go back to `bootstrap.servers`.
    Rebootstrap,
}

/// A verdict's class, as a user may set it for single error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Refresh the view of the cluster, then again.
    RetryAfterRefresh,
    /// Wait, then again.
    RetryAfterBackoff,
    /// Give the messages back.
    Drop,
}

/// All settings, decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Host and port.
    pub bootstrap_servers: Vec<(String, u16)>,
    /// Sent with every request.
    pub client_id: String,
    /// Where this client runs.
    pub client_rack: Option<String>,
    /// Who must have a message.
    pub acks: Acks,
    /// `Off` already where the other settings rule it out.
    pub idempotence: Idempotence,
    /// How long an open batch waits for more.
    pub linger: Duration,
    /// When a batch is full: with its header, before compression; at least 1.
    pub batch_bytes: usize,
    /// The largest request over all partitions, and the largest message.
    pub max_request_bytes: usize,
    /// The whole budget.
    pub buffer_bytes: u64,
    /// How long a call waits for room.
    pub max_block: Duration,
    /// None: no limit.
    pub delivery_timeout: Option<Duration>,
    /// How long a broker may take to answer.
    pub request_timeout: Duration,
    /// What brokers are told to wait for the replicas: less than `request_timeout`, so that their answer still arrives.
    pub ack_timeout: Duration,
    /// None: no limit.
    pub batch_retries_limit: Option<u32>,
    /// The wait before the first retry.
    pub batch_retry_backoff: Duration,
    /// The longest wait; not less than the first.
    pub batch_retry_backoff_max: Duration,
    /// What to do with an attempt that nobody answered.
    pub retry_ambiguous: RetryAmbiguous,
    /// Codec and level (none: the codec's own default).
    pub compression: (Codec, Option<i32>),
    /// 1 to 5 per partition with idempotence; for a connection as a whole this many requests.
    pub max_in_flight: usize,
    /// When the view is refreshed anyway.
    pub metadata_max_age: Duration,
    /// When an unused topic is forgotten.
    pub metadata_max_idle: Duration,
    /// Asking for a topic may create it.
    pub allow_auto_create_topics: bool,
    /// What to do when no known broker answers.
    pub recovery_strategy: RecoveryStrategy,
    /// For how long that must have been so.
    pub recovery_trigger: Duration,
    /// How long a connection may take to stand.
    pub connection_setup_timeout: Duration,
    /// The same after failures; not less than that.
    pub connection_setup_timeout_max: Duration,
    /// The wait before connecting again.
    pub reconnect_backoff: Duration,
    /// The same after failures; not less than that.
    pub reconnect_backoff_max: Duration,
    /// None: never closed for idleness.
    pub connections_max_idle: Option<Duration>,
    /// None: the system's default.
    pub send_buffer_bytes: Option<usize>,
    /// None: the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// Spread messages with a key as those without.
    pub partitioner_ignore_keys: bool,
    /// Longer queues are chosen less.
    pub partitioner_adaptive: bool,
    /// None: leaders are never avoided for being slow.
    pub partitioner_availability_timeout: Option<Duration>,
    /// Prefer partitions whose leader is in `client_rack` (which then is there).
    pub partitioner_rack_aware: bool,
    /// How long a topic that the cluster does not know may still appear.
    pub unknown_topic_grace: Duration,
    /// The user's own classes; none for success.
    pub class_overrides: HashMap<ErrorCode, Class>,
    /// How long a caller in `Receipt::wait` polls before it sleeps.
    pub wait_spin: Duration,
    /// How long the worker polls after work before it sleeps.
    pub worker_spin: Duration,
    /// Bounded wait of `Drop`.
    pub drop_timeout: Duration,
}

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
    pub client_id: String,
    pub client_rack: Option<String>,
    pub acks: Acks,
    pub idempotence: Idempotence,
    pub linger: Duration,
    pub batch_bytes: usize,
    pub max_request_bytes: usize,
    pub buffer_bytes: u64,
    pub max_block: Duration,
    /// None: no limit.
    pub delivery_timeout: Option<Duration>,
    pub request_timeout: Duration,
    /// What brokers are told to wait for the replicas: less than `request_timeout`, so that their answer still arrives.
    pub ack_timeout: Duration,
    pub batch_retries_limit: Option<u32>,
    pub batch_retry_backoff: Duration,
    pub batch_retry_backoff_max: Duration,
    pub retry_ambiguous: RetryAmbiguous,
    /// Codec and level (none: the codec's own default).
    pub compression: (Codec, Option<i32>),
    /// 1 to 5 per partition with idempotence; for a connection as a whole this many requests.
    pub max_in_flight: usize,
    pub metadata_max_age: Duration,
    pub metadata_max_idle: Duration,
    pub allow_auto_create_topics: bool,
    pub recovery_strategy: RecoveryStrategy,
    pub recovery_trigger: Duration,
    pub connection_setup_timeout: Duration,
    pub connection_setup_timeout_max: Duration,
    pub reconnect_backoff: Duration,
    pub reconnect_backoff_max: Duration,
    /// None: never closed for idleness.
    pub connections_max_idle: Option<Duration>,
    /// None: the system's default.
    pub send_buffer_bytes: Option<usize>,
    pub receive_buffer_bytes: Option<usize>,
    pub partitioner_ignore_keys: bool,
    pub partitioner_adaptive: bool,
    /// None: leaders are never avoided for being slow.
    pub partitioner_availability_timeout: Option<Duration>,
    /// Prefer partitions whose leader is in `client_rack` (which then is there).
    pub partitioner_rack_aware: bool,
    /// How long a topic that the cluster does not know may still appear.
    pub unknown_topic_grace: Duration,
    pub class_overrides: HashMap<ErrorCode, Class>,
    /// How long a caller in `Receipt::wait` polls before it sleeps.
    pub wait_spin: Duration,
    /// How long the worker polls after work before it sleeps.
    pub worker_spin: Duration,
    /// Bounded wait of `Drop`.
    pub drop_timeout: Duration,
}

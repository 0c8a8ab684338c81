//! What goes into the engine and what comes out: the only words it shares with the outside.
//!
//! The engine has no sockets, threads or clock. The worker tells it what happened (`Event`), lets it go on
//! (`advance`), and does what it asks for (`Actions`).

use crate::delivery::block::Returned;
use crate::error::DeliveryError;
use crate::intake::chunk::Chunk;
use crate::protocol::compression::Codec;
use crate::protocol::frame::{Frame, Records};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// One connection, from its opening to its end; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Messages from callers; copied, so that the chunk can go back to the intake.
    Chunk(&'a Chunk),
    /// A name was looked up (or was not to be had: the words say why).
    Resolved { conn: ConnId, result: Result<Vec<SocketAddr>, String> },
    /// A connection stands.
    Opened { conn: ConnId },
    /// One whole response, without its length.
    Frame { conn: ConnId, frame: &'a [u8] },
    /// How many frames of this connection have gone to the socket so far: with their first byte, and whole.
    Written { conn: ConnId, begun: u64, done: u64 },
    /// A connection (or the attempt at one) ended, not by the engine's wish. `Written` was told before.
    Closed { conn: ConnId, reason: CloseReason },
    /// A batch came back from the helper thread.
    Compressed(Compressed),
    /// Whoever called `flush` wants to hear of `ticket` when all that was absorbed before has its verdict.
    Flush { ticket: u64 },
    /// Linger no more; at `deadline` drop what is left.
    Stop { deadline: Instant },
    /// Callers wait for room (true) or no longer do.
    Pressure(bool),
    /// Somebody asks whether these topics can be written to (`wait_until_ready`); they count as used.
    Want { topics: Vec<u32> },
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The other side closed it.
    Eof,
    /// Nobody listens there.
    Refused,
    /// The attempt took too long (only the engine judges time: not reported by the shell).
    TimedOut,
    /// A frame longer than we accept, or negative.
    BadLength(i32),
    /// Something else than a Kafka broker answers there, by its first bytes: in words.
    NotKafka(&'static str),
    /// Anything else, in words.
    Io(String),
}

/// The cause only: whoever tells it knows the address.
impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Eof => f.write_str("the other side closed the connection"),
            CloseReason::Refused => f.write_str("connection refused"),
            CloseReason::TimedOut => f.write_str("no connection in time"),
            CloseReason::BadLength(len) => write!(f, "an answer with the length {len}: no Kafka broker"),
            CloseReason::NotKafka(words) => f.write_str(words),
            CloseReason::Io(words) => f.write_str(words),
        }
    }
}

/// What is to be done, in this order.
#[derive(Debug, Default)]
pub struct Actions {
    /// For the sockets.
    pub net: Vec<NetAction>,
    /// For the helper thread.
    pub compress: Vec<CompressJob>,
    /// For the callback's thread, in order per partition. Only where the settings say that there is one.
    pub settled: Vec<Settled>,
    /// Bytes to give back to the budget.
    pub released: u64,
    /// Flushes that are done.
    pub flushed: Vec<u64>,
    /// After `Stop`: nothing is left, the worker may end.
    pub stopped: bool,
}

/// For the sockets.
#[derive(Debug)]
pub enum NetAction {
    /// Look a name up; answered by `Resolved`.
    Resolve { conn: ConnId, host: String, port: u16 },
    /// Connect; answered by `Opened` or `Closed`.
    Open { conn: ConnId, addr: SocketAddr },
    /// Write a frame behind those that were asked for before.
    Send { conn: ConnId, frame: Frame },
    /// Close at once (also when still connecting or resolving); nothing more is told of it.
    Close { conn: ConnId },
}

/// A batch to compress away from the worker; comes back as `Compressed`.
#[derive(Debug)]
pub struct CompressJob {
    /// Which batch: the engine's own number.
    pub job: u64,
    pub codec: Codec,
    pub level: Option<i32>,
    /// The records, uncompressed, shared with the engine; handed back for reuse.
    pub records: Records,
    /// How many bytes of `records` count.
    pub used: usize,
}

/// What the helper made of a `CompressJob`.
#[derive(Debug)]
pub struct Compressed {
    pub job: u64,
    /// The compressed records, or in words why not.
    pub result: Result<Vec<u8>, String>,
    /// The buffer of the job.
    pub records: Records,
}

/// The verdict on a run of messages of one partition: most often a batch.
#[derive(Debug)]
pub struct Settled {
    pub topic: Arc<str>,
    /// None: no partition had been chosen.
    pub partition: Option<i32>,
    pub count: u32,
    pub outcome: SettledOutcome,
    /// To be given back to the budget after the callback ran. (What was dropped returns its own charge with its bytes.)
    pub charge: u64,
}

#[derive(Debug)]
pub enum SettledOutcome {
    /// `base_offset`: of the first. `append_time`: the broker's timestamp, where it set its own.
    Delivered {
        base_offset: Option<i64>,
        append_time: Option<i64>,
    },
    Dropped {
        error: Arc<DeliveryError>,
        returned: Vec<Arc<Returned>>,
    },
}

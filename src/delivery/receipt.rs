//! What a caller gets back for a call.

use super::block::{Block, Outcome};
use super::origin::Origin;
use crate::error::{Delivered, DeliveryError, Dropped, TimestampType, WaitError};
use crate::message::OwnedMessage;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One call's receipt: the way to learn what became of its messages. May be dropped at no cost: the messages are
/// delivered all the same, and the callback, if there is one, still hears of them. May be kept for as long as you like, also
/// longer than the producer: it never holds the bytes of delivered messages. Those of dropped ones it does hold, to hand
/// them back, and they count as buffered until the receipt is dropped. (Messages share their place in the buffer with
/// others that were sent at about the same time: bytes of dropped ones are freed when the last receipt that shares it is.)
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let producer: steadfast::Producer = unimplemented!();
/// let delivered = producer.send("orders", "one more")?.wait_one()?;
/// println!("at offset {:?} of partition {}", delivered.offset, delivered.partition);
///
/// for delivered in producer.send_messages("orders", ["two", "three"])?.wait()? {
///     println!("{delivered:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "drop it with `let _ =` or `drop` if nobody is to wait for the messages"]
pub struct Receipt(Inner);

/// One is the ordinary case and needs no allocation: half of what a receipt costs.
enum Inner {
    One { span: Span, timestamp: i64 },
    Many(Box<Many>),
}

struct Many {
    spans: Vec<Span>,
    timestamps: Timestamps,
}

/// Where a call's messages are: in one block, or in several if it went over the end of a chunk.
pub enum Spans {
    One(Span),
    Many(Vec<Span>),
}

/// The messages' own timestamps; the log has these unless the broker sets its own.
pub enum Timestamps {
    /// All messages have this one.
    Same(i64),
    /// Each has its own.
    Each(Vec<i64>),
}

/// `count` messages of one block.
pub struct Span {
    block: Arc<Block>,
    first: u32,
    count: u32,
}

impl Span {
    #[inline]
    pub fn new(block: &Arc<Block>, first: u32, count: u32) -> Span {
        Span { block: block.clone(), first, count }
    }

    fn is_settled(&self) -> bool {
        self.block.is_settled(self.first, self.count)
    }

    /// Waits for its verdicts until `deadline`. False: not all are there.
    fn wait(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        if self.is_settled() {
            return Ok(());
        }
        if let Some(origin) = self.block.origin() {
            if origin.is_served_here() {
                return Err(WaitError::WouldDeadlock);
            }
            if origin.is_forked() {
                return Err(WaitError::Forked);
            }
            if !origin.wait_spin().is_zero() && self.spin(origin.wait_spin(), deadline) {
                return Ok(());
            }
        }
        match self.block.wait(self.first, self.count, deadline) {
            true => Ok(()),
            false => Err(WaitError::TimedOut),
        }
    }

    /// Polls for a while. True: its verdicts are there.
    fn spin(&self, spin: Duration, deadline: Option<Instant>) -> bool {
        let start = Instant::now();
        loop {
            if self.is_settled() {
                return true;
            }
            let now = Instant::now();
            if now - start >= spin || deadline.is_some_and(|deadline| deadline <= now) {
                return false;
            }
            std::thread::yield_now();
        }
    }

    fn result(&self, message: u32, timestamp: i64) -> Option<Result<Delivered, Dropped>> {
        let (outcome, place) = self.block.outcome(message)?;
        Some(match outcome {
            Outcome::Delivered { topic, partition, base_offset, append_time } => Ok(Delivered {
                topic,
                partition,
                offset: base_offset.map(|base| base + i64::from(place)),
                timestamp: append_time.unwrap_or(timestamp),
                timestamp_type: match append_time {
                    Some(_) => TimestampType::LogAppendTime,
                    None => TimestampType::CreateTime,
                },
            }),
            Outcome::Dropped { error, returned } => {
                Err(Dropped { error, message: returned.message(place).unwrap_or_default() })
            }
            Outcome::Lost => Err(lost(self.block.origin())),
        })
    }
}

/// The verdict that is there when the worker died before it had one. It had the message's bytes and its topic.
fn lost(origin: Option<&Origin>) -> Dropped {
    let reason = origin.map_or_else(|| "it lost the message".into(), Origin::death);
    let error = DeliveryError::worker_died(reason);
    Dropped { error: Arc::new(error), message: OwnedMessage::default() }
}

impl Timestamps {
    fn of(&self, index: usize) -> i64 {
        match self {
            Timestamps::Same(timestamp) => *timestamp,
            Timestamps::Each(timestamps) => timestamps[index],
        }
    }
}

/// When a wait that starts now and may take this long ends. None: never (further off than clocks go).
pub fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

impl Receipt {
    /// For a call with one message.
    #[inline]
    pub(crate) fn one(span: Span, timestamp: i64) -> Receipt {
        Receipt(Inner::One { span, timestamp })
    }

    /// For a call with any number of messages.
    pub(crate) fn of(spans: Spans, timestamps: Timestamps) -> Receipt {
        match (spans, timestamps) {
            (Spans::One(span), Timestamps::Same(timestamp)) => Receipt::one(span, timestamp),
            (Spans::One(span), timestamps) => Receipt::many(vec![span], timestamps),
            (Spans::Many(spans), timestamps) => Receipt::many(spans, timestamps),
        }
    }

    fn many(spans: Vec<Span>, timestamps: Timestamps) -> Receipt {
        Receipt(Inner::Many(Box::new(Many { spans, timestamps })))
    }

    fn spans(&self) -> &[Span] {
        match &self.0 {
            Inner::One { span, .. } => std::slice::from_ref(span),
            Inner::Many(many) => &many.spans,
        }
    }

    fn timestamp(&self, index: usize) -> i64 {
        match &self.0 {
            Inner::One { timestamp, .. } => *timestamp,
            Inner::Many(many) => many.timestamps.of(index),
        }
    }

    /// How many messages the call had.
    pub fn len(&self) -> usize {
        self.spans().iter().map(|span| span.count as usize).sum()
    }

    /// Whether the call had no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until every message of the call has its verdict. All delivered: where each is, in order. Otherwise the first
    /// one that was dropped ([`results`](Self::results) tells of all). The settings bound how long that can take
    /// (`delivery.timeout.ms`).
    pub fn wait(&self) -> Result<Vec<Delivered>, WaitError> {
        self.wait_until(None)
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Vec<Delivered>, WaitError> {
        self.wait_until(deadline_after(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Result<Vec<Delivered>, WaitError> {
        self.settle(deadline)?;
        let mut delivered = Vec::with_capacity(self.len());
        for result in self.results() {
            delivered.push(result.ok_or(WaitError::TimedOut)??);
        }
        Ok(delivered)
    }

    /// As [`wait`](Self::wait), for a call with one message. (With several: waits for the first one only.)
    pub fn wait_one(&self) -> Result<Delivered, WaitError> {
        self.wait_first(None)
    }

    /// As [`wait_one`](Self::wait_one), for at most `timeout`.
    pub fn wait_one_timeout(&self, timeout: Duration) -> Result<Delivered, WaitError> {
        self.wait_first(deadline_after(timeout))
    }

    fn wait_first(&self, deadline: Option<Instant>) -> Result<Delivered, WaitError> {
        let span = self.spans().first().ok_or(WaitError::NoMessage)?;
        Span::new(&span.block, span.first, 1).wait(deadline)?;
        let result = span.result(span.first, self.timestamp(0));
        Ok(result.ok_or(WaitError::TimedOut)??)
    }

    /// Waits for at most `timeout` until every message of the call has its verdict, whichever it is. Look at
    /// [`results`](Self::results) then.
    pub fn wait_settled(&self, timeout: Duration) -> Result<(), WaitError> {
        self.settle(deadline_after(timeout))
    }

    fn settle(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.spans().iter().try_for_each(|span| span.wait(deadline))
    }

    /// Whether every message of the call has its verdict. Never waits.
    pub fn is_settled(&self) -> bool {
        self.spans().iter().all(Span::is_settled)
    }

    /// The verdict on each message, in order; `None` where there is none yet. Never waits.
    pub fn results(&self) -> impl Iterator<Item = Option<Result<Delivered, Dropped>>> + '_ {
        let messages =
            self.spans().iter().flat_map(|span| (0..span.count).map(move |i| (span, span.first + i)));
        messages.enumerate().map(|(index, (span, message))| span.result(message, self.timestamp(index)))
    }

    /// The verdict on the message at this place of the call; `None` if there is none yet (or no such message). Never waits.
    pub fn result(&self, index: usize) -> Option<Result<Delivered, Dropped>> {
        let mut before = 0;
        for span in self.spans() {
            let place = index - before;
            if place < span.count as usize {
                return span.result(span.first + place as u32, self.timestamp(index));
            }
            before += span.count as usize;
        }
        None
    }
}

/// A panic elsewhere leaves nothing half-done in it.
impl std::panic::UnwindSafe for Receipt {}
impl std::panic::RefUnwindSafe for Receipt {}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("messages", &self.len()).field("settled", &self.is_settled()).finish()
    }
}

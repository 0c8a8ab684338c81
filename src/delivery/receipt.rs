//! What a caller gets back for a call.

use crate::error::{Delivered, Dropped, WaitError};
use std::time::Duration;

/// One call's receipt: the way to learn what became of its messages. May be dropped at no cost: the messages are
/// delivered all the same, and the callback, if there is one, still hears of them.
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
#[derive(Debug)]
#[must_use = "drop it with `let _ =` or `drop` if nobody is to wait for the messages"]
pub struct Receipt {
    _private: (),
}

impl Receipt {
    /// How many messages the call had.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether the call had no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until every message of the call has its verdict. All delivered: where each is, in order. Otherwise the first
    /// one that was dropped ([`results`](Self::results) tells of all). The settings bound how long that can take
    /// (`delivery.timeout.ms`).
    pub fn wait(&self) -> Result<Vec<Delivered>, WaitError> {
        todo!()
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Vec<Delivered>, WaitError> {
        let _ = timeout;
        todo!()
    }

    /// As [`wait`](Self::wait), for a call with one message. (With several: waits for the first one only.)
    pub fn wait_one(&self) -> Result<Delivered, WaitError> {
        todo!()
    }

    /// As [`wait_one`](Self::wait_one), for at most `timeout`.
    pub fn wait_one_timeout(&self, timeout: Duration) -> Result<Delivered, WaitError> {
        let _ = timeout;
        todo!()
    }

    /// Waits for at most `timeout` until every message of the call has its verdict, whichever it is. Look at
    /// [`results`](Self::results) then.
    pub fn wait_settled(&self, timeout: Duration) -> Result<(), WaitError> {
        let _ = timeout;
        todo!()
    }

    /// Whether every message of the call has its verdict. Never waits.
    pub fn is_settled(&self) -> bool {
        todo!()
    }

    /// The verdict on each message, in order; `None` where there is none yet. Never waits.
    pub fn results(&self) -> impl Iterator<Item = Option<Result<Delivered, Dropped>>> + '_ {
        (0..self.len()).map(|index| self.result(index))
    }

    /// The verdict on the message at this place of the call; `None` if there is none yet (or no such message). Never waits.
    pub fn result(&self, index: usize) -> Option<Result<Delivered, Dropped>> {
        let _ = index;
        todo!()
    }
}

//! What crosses from the callers to the worker: a buffer of encoded messages and the block of their outcomes.

use super::head::{self, Head};
use crate::delivery::block::Block;
use crate::delivery::origin::Origin;
use crate::message::Message;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

pub struct Chunk {
    /// Always at full length, so that appending is one bounds check and no growth; `used` says how far it is filled.
    buf: Vec<u8>,
    used: usize,
    messages: u32,
    /// What its messages took from the budget.
    charge: u64,
    block: Arc<Block>,
    /// When its first message came: linger and the delivery timeout count from here.
    opened: Instant,
}

impl Chunk {
    /// One whose receipts know of no producer.
    pub fn new(size: usize, now: Instant) -> Box<Chunk> {
        Chunk::with_block(size, now, Arc::default())
    }

    /// One for messages of this producer.
    pub fn of(size: usize, now: Instant, origin: &Arc<Origin>) -> Box<Chunk> {
        Chunk::with_block(size, now, Arc::new(Block::of(origin.clone())))
    }

    fn with_block(size: usize, now: Instant, block: Arc<Block>) -> Box<Chunk> {
        Box::new(Chunk { buf: vec![0; size], used: 0, messages: 0, charge: 0, block, opened: now })
    }

    /// Makes a used chunk ready for new messages. The block is new: receipts may still hold the old one.
    pub fn reset(&mut self) {
        self.give_up_if_untouched();
        self.used = 0;
        self.messages = 0;
        self.charge = 0;
        self.block = Arc::new(self.block.successor());
    }

    /// A chunk that nobody distributed will never be: its messages are lost (the worker died).
    fn give_up_if_untouched(&self) {
        if self.messages > 0 {
            self.block.abandon_if_untouched();
        }
    }

    /// Whether its buffer has the usual size: then it is worth keeping.
    pub fn is_ordinary(&self, size: usize) -> bool {
        self.buf.len() == size
    }

    #[inline]
    pub fn fits(&self, bytes: usize) -> bool {
        bytes <= self.buf.len() - self.used
    }

    /// Appends a message that `fits`; returns its number in the chunk. `now` is only asked for the first message: a reading
    /// of the clock costs as much as all the rest.
    #[inline]
    pub fn append(&mut self, message: &Message<'_>, head: &Head, now: impl FnOnce() -> Instant) -> u32 {
        let len = head.encoded_len();
        head::encode(message, head, &mut self.buf[self.used..self.used + len]);
        self.added(len, 1, head.charge(), now)
    }

    /// Appends messages that are encoded already and `fit`; returns the first one's number in the chunk.
    #[inline]
    pub fn append_encoded(
        &mut self,
        bytes: &[u8],
        messages: u32,
        charge: u64,
        now: impl FnOnce() -> Instant,
    ) -> u32 {
        self.buf[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.added(bytes.len(), messages, charge, now)
    }

    #[inline]
    fn added(&mut self, len: usize, messages: u32, charge: u64, now: impl FnOnce() -> Instant) -> u32 {
        let first = self.messages;
        if first == 0 {
            self.opened = now();
        }
        self.used += len;
        self.charge += charge;
        self.messages += messages;
        first
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// How many messages are in it.
    pub fn len(&self) -> u32 {
        self.messages
    }

    pub fn charge(&self) -> u64 {
        self.charge
    }

    #[inline]
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// Head and tail of each message, in order.
    pub fn messages(&self) -> Messages<'_> {
        Messages::new(&self.buf[..self.used])
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.give_up_if_untouched();
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} messages, {} bytes)", self.messages, self.used)
    }
}

/// The messages of a chunk: head and tail of each.
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// `bytes`: whole messages in the chunk's format.
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = (Head, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (head, rest) = Head::split_from(self.rest);
        let (tail, rest) = rest.split_at(head.tail_len as usize);
        self.rest = rest;
        Some((head, tail))
    }
}

//! A call with many messages: whole or not at all.
//!
//! The application's iterator runs here, before anything is reserved or locked. A small call is encoded as it comes, into a
//! buffer of the thread's, and copied into the open chunk in one go. A large one is collected (its messages are borrowed
//! anyway), and once its bytes are reserved, encoded into chunks of its own.

use super::head::{self, Head};
use super::{Intake, Patience};
use crate::delivery::receipt::{Receipt, Span, Spans, Timestamps};
use crate::error::SendError;
use crate::intake::chunk::Chunk;
use crate::message::Message;
use std::cell::Cell;
use std::time::Instant;

thread_local! {
    /// For small calls, so that they allocate nothing: as long as the longest of them, a quarter of a chunk.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What has come out of the iterator so far.
struct Call<'a> {
    /// The first messages, encoded.
    scratch: Scratch,
    /// How many they are, and their charge.
    encoded: u32,
    encoded_charge: u64,
    /// The others: the call is a large one.
    rest: Vec<(Message<'a>, Head)>,
    /// Of all.
    charge: u64,
    timestamps: Stamps,
}

/// The thread's buffer while a call has it. (An iterator that sends from within gets another one.)
struct Scratch {
    buf: Vec<u8>,
    used: usize,
}

impl Scratch {
    fn take(bytes: usize) -> Scratch {
        // A thread that is ending has lost its own.
        let mut buf = SCRATCH.try_with(Cell::take).unwrap_or_default();
        if buf.len() < bytes {
            buf.resize(bytes, 0);
        }
        Scratch { buf, used: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.buf[..self.used]
    }
}

/// Back to the thread, also when the iterator panics.
impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = SCRATCH.try_with(|scratch| scratch.set(std::mem::take(&mut self.buf)));
    }
}

/// The timestamps of a call: nearly always all the same.
enum Stamps {
    None,
    Same(i64, usize),
    Each(Vec<i64>),
}

impl Stamps {
    #[inline]
    fn add(&mut self, timestamp: i64) {
        match self {
            Stamps::None => *self = Stamps::Same(timestamp, 1),
            Stamps::Same(same, count) if *same == timestamp => *count += 1,
            Stamps::Same(same, count) => {
                let mut each = vec![*same; *count];
                each.push(timestamp);
                *self = Stamps::Each(each);
            }
            Stamps::Each(each) => each.push(timestamp),
        }
    }

    fn finish(self) -> Timestamps {
        match self {
            Stamps::None => Timestamps::Same(0),
            Stamps::Same(timestamp, _) => Timestamps::Same(timestamp),
            Stamps::Each(each) => Timestamps::Each(each),
        }
    }
}

impl<'a> Call<'a> {
    fn new(large: usize) -> Call<'a> {
        Call {
            scratch: Scratch::take(large),
            encoded: 0,
            encoded_charge: 0,
            rest: Vec::new(),
            charge: 0,
            timestamps: Stamps::None,
        }
    }

    #[inline(always)]
    fn add(&mut self, message: Message<'a>, head: Head, large: usize) {
        self.charge += head.charge();
        self.timestamps.add(head.timestamp);
        let (used, end) = (self.scratch.used, self.scratch.used + head.encoded_len());
        if !self.rest.is_empty() || end > large {
            return self.rest.push((message, head));
        }
        head::encode(&message, &head, &mut self.scratch.buf[used..end]);
        self.scratch.used = end;
        self.encoded += 1;
        self.encoded_charge = self.charge;
    }
}

impl Intake {
    /// Hands all of `messages` over, or none.
    pub fn send_all<'a, M: Into<Message<'a>>>(
        &self,
        topic: u32,
        messages: impl IntoIterator<Item = M>,
        patience: Patience,
    ) -> Result<Receipt, SendError> {
        let mut call = Call::new(self.large());
        let mut now = None;
        for (index, message) in messages.into_iter().enumerate() {
            let message = message.into();
            let head = self.head(topic, &message, index, &mut now)?;
            call.add(message, head, self.large());
            if call.charge > self.budget.limit() {
                break; // refused below; the iterator may have no end
            }
        }
        if call.charge == 0 {
            return self.nothing(patience);
        }
        self.reserve(call.charge, patience)?;
        let put = match call.rest.is_empty() {
            true => self.put_small(&call, patience).map(Spans::One),
            false => self.put_own(&call, patience).map(Spans::Many),
        };
        match put {
            Ok(spans) => Ok(Receipt::of(spans, call.timestamps.finish())),
            Err(error) => Err(self.give_back(call.charge, error)),
        }
    }

    /// A call without messages is fine as long as one with messages would be.
    #[cold]
    fn nothing(&self, patience: Patience) -> Result<Receipt, SendError> {
        match &self.lock(patience)?.closed {
            Some(closed) => Err(closed.error()),
            None => Ok(Receipt::of(Spans::Many(Vec::new()), Timestamps::Same(0))),
        }
    }

    /// Into the open chunk, or all of it into the next one.
    fn put_small(&self, call: &Call<'_>, patience: Patience) -> Result<Span, SendError> {
        let bytes = call.scratch.bytes();
        let (mut open, sealed) = self.lock_sealing(patience, |chunk| !chunk.fits(bytes.len()))?;
        let first = open.chunk.append_encoded(bytes, call.encoded, call.charge, Instant::now);
        let span = Span::new(open.chunk.block(), first, call.encoded);
        drop(open);
        self.after(patience, sealed, first == 0);
        Ok(span)
    }

    /// Into chunks of its own, as many as it takes.
    #[cold]
    fn put_own(&self, call: &Call<'_>, patience: Patience) -> Result<Vec<Span>, SendError> {
        let now = Instant::now();
        let scratch = call.scratch.bytes();
        let mut rest = &call.rest[..];
        let mut chunks: Vec<Box<Chunk>> = Vec::new();
        while !rest.is_empty() {
            // What came first is one piece already; it begins the first chunk.
            let mut bytes = if chunks.is_empty() { scratch.len() } else { 0 };
            let mut count = 0;
            for (_, head) in rest {
                if bytes > 0 && bytes + head.encoded_len() > self.chunk_bytes {
                    break;
                }
                bytes += head.encoded_len();
                count += 1;
            }
            let mut chunk = self.chunk_for(bytes);
            if chunks.is_empty() && call.encoded > 0 {
                chunk.append_encoded(scratch, call.encoded, call.encoded_charge, || now);
            }
            let (these, others) = rest.split_at(count);
            for (message, head) in these {
                chunk.append(message, head, || now);
            }
            rest = others;
            chunks.push(chunk);
        }
        let spans = chunks.iter().map(|chunk| Span::new(chunk.block(), 0, chunk.len())).collect();
        self.push_own(chunks, patience)?;
        Ok(spans)
    }
}

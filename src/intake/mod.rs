//! Where callers hand messages over.
//!
//! A call computes everything it can (lengths, key hash, time), reserves its bytes, and only then takes the lock, copies
//! its messages into the open chunk and leaves. No one waits for anything while holding the lock, and nothing of the
//! application's runs under it: a full chunk goes into a channel that has room by construction.

pub mod budget;
mod call;
pub mod chunk;
pub mod clock;
pub mod doorbell;
mod drain;
pub mod head;
pub mod topics;

use crate::delivery::origin::Origin;
use crate::delivery::receipt::{deadline_after, Receipt, Span};
use crate::engine::partitioner::murmur2;
use crate::error::SendError;
use crate::message::Message;
use budget::{Budget, Refused};
use chunk::Chunk;
use crossbeam_channel::{Receiver, Sender};
use doorbell::Doorbell;
use head::Head;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Intake {
    open: Mutex<Open>,
    sealed: Sender<Box<Chunk>>,
    /// Emptied chunks come back this way.
    spares: Receiver<Box<Chunk>>,
    budget: Arc<Budget>,
    bell: Arc<Doorbell>,
    origin: Arc<Origin>,
    chunk_bytes: usize,
    max_message: u64,
    max_block: Duration,
}

/// What the lock guards.
struct Open {
    chunk: Box<Chunk>,
    /// Takes the place of `chunk` when that is full. It is made ready without the lock, by whoever sealed the last one.
    next: Option<Box<Chunk>>,
    /// Messages in all chunks that were sealed or taken before.
    before: u64,
    /// Set once the producer takes no more: after the worker's last look nothing may slip in.
    closed: Option<Closed>,
}

/// Why nothing is taken any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    Stopped,
    Died(Arc<str>),
}

impl Closed {
    pub fn error(&self) -> SendError {
        match self {
            Closed::Stopped => SendError::Stopped,
            Closed::Died(reason) => SendError::WorkerDied { reason: reason.clone() },
        }
    }
}

/// How far a call goes for its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Waits for room, up to `max.block.ms`, and for the lock.
    Wait,
    /// Tries for some microseconds, then is refused.
    Try,
}

/// How long a `Try` tries to get the lock. The lock is never kept for long, but its holder may lose its core, and a sleeper
/// may get one late: 14 ms were seen with four busy threads on two cores.
const TRY_FOR: Duration = Duration::from_micros(20);

/// A caller that finds the lock taken polls it, then lets others run, and only after that sleeps: the lock is kept for some
/// tens of nanoseconds, and putting a thread to sleep and waking it costs a hundred times that.
const SPINS: usize = 30;
const YIELDS: usize = 50;

/// How often a sleeper that waits for the lock looks whether it sleeps in a forked child, where nobody may hold it.
const FORK_CHECK: Duration = Duration::from_millis(100);

/// The worker's ends of the two channels.
pub struct ChunkEnds {
    pub sealed: Receiver<Box<Chunk>>,
    pub spares: Sender<Box<Chunk>>,
}

/// What the intake must know.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Above this a message is refused.
    pub max_message: usize,
    /// How long a call waits for room.
    pub max_block: Duration,
}

const LARGEST_CHUNK: usize = 64 << 10;
const SMALLEST_CHUNK: usize = 512;

/// Spare chunks kept for reuse; beyond that they are freed.
const SPARES: usize = 64;

/// What takes more than this share of a chunk gets chunks of its own, filled without the lock.
const LARGE_SHARE: usize = 4;

/// So many sealed bytes are worth waking a worker whose linger timer runs.
const BYTES_A_WAKE: usize = 1 << 20;

/// What a lone record's batch takes besides its tail, at most: header, length, attributes, deltas (as Java counts it).
const RECORD_OVERHEAD: u64 = 61 + 21;

/// Chunks are smaller where the budget is: eight of them must not exceed it.
pub fn chunk_bytes(buffer_bytes: u64) -> usize {
    let share = usize::try_from(buffer_bytes / 8).unwrap_or(usize::MAX);
    share.clamp(SMALLEST_CHUNK, LARGEST_CHUNK) / 64 * 64
}

/// How many sealed chunks are worth a wake.
pub fn chunks_a_wake(buffer_bytes: u64) -> usize {
    // With a small budget callers would wait for room before there was 1 MiB.
    let bytes = BYTES_A_WAKE.min(usize::try_from(buffer_bytes / 4).unwrap_or(usize::MAX));
    (bytes / chunk_bytes(buffer_bytes)).max(1)
}

impl Intake {
    pub fn new(
        budget: Arc<Budget>,
        bell: Arc<Doorbell>,
        origin: Arc<Origin>,
        limits: &Limits,
    ) -> (Intake, ChunkEnds) {
        let chunk_bytes = chunk_bytes(budget.limit());
        // Why the channel cannot be full: of two chunks that follow each other in it, the first was sealed because what
        // came next did not fit (together more than a chunk), or because a large call followed (together more than a
        // quarter of one). All bytes in it are charged, so this many slots are enough.
        let quarters = usize::try_from(budget.limit()).unwrap_or(usize::MAX) / (chunk_bytes / LARGE_SHARE);
        let (sealed, sealed_end) = crossbeam_channel::bounded(2 * quarters + 4);
        let (spares_end, spares) = crossbeam_channel::bounded(SPARES);
        let new = || Chunk::of(chunk_bytes, Instant::now(), &origin);
        let open = Open { chunk: new(), next: Some(new()), before: 0, closed: None };
        let intake = Intake {
            open: Mutex::new(open),
            sealed,
            spares,
            budget,
            bell,
            chunk_bytes,
            max_message: (limits.max_message as u64).min(head::LARGEST),
            max_block: limits.max_block,
            origin,
        };
        (intake, ChunkEnds { sealed: sealed_end, spares: spares_end })
    }

    /// Hands one message over.
    #[inline]
    pub fn send(&self, topic: u32, message: &Message<'_>, patience: Patience) -> Result<Receipt, SendError> {
        let head = self.head(topic, message, 0, &mut None)?;
        self.reserve(head.charge(), patience)?;
        let put = if head.encoded_len() > self.large() {
            self.put_large(message, &head, patience)
        } else {
            self.put_one(message, &head, patience)
        };
        match put {
            Ok(span) => Ok(Receipt::one(span, head.timestamp)),
            Err(error) => Err(self.give_back(head.charge(), error)),
        }
    }

    /// Checks a message and computes what is to be known about it. `now` is the time of the call, once somebody asked for it.
    /// Always inlined, for the reason that `Head::with` has.
    #[inline(always)]
    fn head(
        &self,
        topic: u32,
        message: &Message<'_>,
        index: usize,
        now: &mut Option<i64>,
    ) -> Result<Head, SendError> {
        let tail_len = head::tail_len(message);
        let is_odd = tail_len + RECORD_OVERHEAD > self.max_message
            || message.partition.is_some_and(|partition| partition < 0)
            || message.timestamp.is_some_and(|timestamp| timestamp < 0);
        if is_odd {
            return Err(self.refusal(message, index));
        }
        let timestamp = match message.timestamp {
            Some(timestamp) => timestamp,
            None => *now.get_or_insert_with(clock::now_ms),
        };
        let key_hash = match message.key {
            Some(key) if message.partition.is_none() => murmur2(key),
            _ => 0,
        };
        Ok(Head::with(message, tail_len, topic, key_hash, timestamp))
    }

    /// What is wrong with a message that `head` found odd.
    #[cold]
    fn refusal(&self, message: &Message<'_>, index: usize) -> SendError {
        match (message.timestamp, message.partition) {
            (Some(timestamp), _) if timestamp < 0 => SendError::InvalidTimestamp { index, timestamp },
            (_, Some(partition)) if partition < 0 => SendError::InvalidPartition { index, partition },
            _ => SendError::MessageTooLarge {
                index,
                bytes: head::tail_len(message) + RECORD_OVERHEAD,
                limit: self.max_message,
            },
        }
    }

    #[inline]
    fn reserve(&self, charge: u64, patience: Patience) -> Result<(), SendError> {
        match self.budget.try_reserve(charge) {
            Ok(()) => Ok(()),
            Err(refused) => self.reserve_waiting(charge, patience, refused),
        }
    }

    #[cold]
    fn reserve_waiting(&self, charge: u64, patience: Patience, refused: Refused) -> Result<(), SendError> {
        if self.origin.is_forked() {
            return Err(SendError::Forked);
        }
        let buffer_bytes = self.budget.limit();
        let refused = match refused {
            // The callback's thread gives room back, and the worker makes it: if one of them waited for some (the worker
            // may run a logger that sends to Kafka), there would be none for ever.
            Refused::Full if patience == Patience::Wait && !self.origin.is_served_here() => {
                // The worker may be waiting for its linger timer while it holds what we wait for: ring.
                let deadline = deadline_after(self.max_block);
                match self.budget.reserve_waiting(charge, deadline, || self.bell.urgent()) {
                    Ok(()) => return Ok(()),
                    Err(refused) => refused,
                }
            }
            refused => refused,
        };
        // A full buffer is not the reason if there is a better one. (A `Try` does not queue for the lock to learn that.)
        if let Some(closed) = self.lock(patience)?.closed.as_ref() {
            return Err(closed.error());
        }
        Err(match refused {
            Refused::NeverFits => SendError::CallTooLarge { bytes: charge, buffer_bytes },
            Refused::Full | Refused::Closed => SendError::BufferFull { buffer_bytes },
        })
    }

    #[cold]
    fn give_back(&self, charge: u64, error: SendError) -> SendError {
        self.budget.release(charge);
        error
    }

    #[inline]
    fn put_one(&self, message: &Message<'_>, head: &Head, patience: Patience) -> Result<Span, SendError> {
        let (mut open, sealed) = self.lock_sealing(patience, |chunk| !chunk.fits(head.encoded_len()))?;
        let number = open.chunk.append(message, head, Instant::now);
        let span = Span::new(open.chunk.block(), number, 1);
        drop(open);
        self.after(patience, sealed, number == 0);
        Ok(span)
    }

    /// A large message is copied without the lock, into a chunk of its own; what is open goes before it.
    #[cold]
    fn put_large(&self, message: &Message<'_>, head: &Head, patience: Patience) -> Result<Span, SendError> {
        let mut chunk = self.chunk_for(head.encoded_len());
        chunk.append(message, head, Instant::now);
        let span = Span::new(chunk.block(), 0, 1);
        self.push_own(vec![chunk], patience)?;
        Ok(span)
    }

    /// Puts a call's own chunks into the channel, all or none.
    fn push_own(&self, chunks: Vec<Box<Chunk>>, patience: Patience) -> Result<(), SendError> {
        let (mut open, _) = self.lock_sealing(patience, |chunk| !chunk.is_empty())?;
        for chunk in chunks {
            self.push(&mut open.before, chunk);
        }
        drop(open);
        self.after(patience, true, false);
        Ok(())
    }

    /// From here on a call has chunks of its own.
    #[inline]
    fn large(&self) -> usize {
        self.chunk_bytes / LARGE_SHARE
    }

    /// A chunk for so many bytes: one of the usual size if it will be filled well, else an exact one. What waits in the
    /// channel must not take much more memory than it was charged for.
    fn chunk_for(&self, bytes: usize) -> Box<Chunk> {
        if bytes > self.chunk_bytes / 2 && bytes <= self.chunk_bytes {
            self.spare()
        } else {
            Chunk::of(bytes, Instant::now(), &self.origin)
        }
    }

    /// Takes the lock, if the intake isn't closed; seals the open chunk first if it `must` be. True: it was sealed.
    #[inline]
    fn lock_sealing(
        &self,
        patience: Patience,
        must: impl Fn(&Chunk) -> bool,
    ) -> Result<(MutexGuard<'_, Open>, bool), SendError> {
        loop {
            let mut open = self.lock(patience)?;
            if let Some(closed) = &open.closed {
                return Err(closed.error());
            }
            let must_seal = must(&open.chunk);
            // Once a chunk is often enough to look: a system call.
            if (must_seal || open.chunk.is_empty()) && self.origin.is_forked() {
                return Err(SendError::Forked);
            }
            if !must_seal {
                return Ok((open, false));
            }
            if let Some(next) = open.next.take() {
                let full = std::mem::replace(&mut open.chunk, next);
                self.push(&mut open.before, full);
                return Ok((open, true));
            }
            drop(open);
            self.provide_next(patience);
        }
    }

    #[inline]
    fn lock(&self, patience: Patience) -> Result<MutexGuard<'_, Open>, SendError> {
        match self.open.try_lock() {
            Some(open) => Ok(open),
            None => self.lock_contended(patience),
        }
    }

    #[cold]
    fn lock_contended(&self, patience: Patience) -> Result<MutexGuard<'_, Open>, SendError> {
        if patience == Patience::Try {
            let start = Instant::now();
            loop {
                std::hint::spin_loop();
                if let Some(open) = self.open.try_lock() {
                    return Ok(open);
                }
                if start.elapsed() > TRY_FOR {
                    return Err(SendError::BufferFull { buffer_bytes: self.budget.limit() });
                }
            }
        }
        for _ in 0..YIELDS {
            for _ in 0..SPINS {
                std::hint::spin_loop();
                if let Some(open) = self.open.try_lock() {
                    return Ok(open);
                }
            }
            std::thread::yield_now();
        }
        loop {
            if let Some(open) = self.open.try_lock_for(FORK_CHECK) {
                return Ok(open);
            }
            if self.origin.is_forked() {
                return Err(SendError::Forked);
            }
        }
    }

    /// What is left to do once the lock is free: the bell, and the chunk that comes after the next.
    #[inline]
    fn after(&self, patience: Patience, sealed: bool, first: bool) {
        if sealed {
            self.bell.sealed(self.sealed.len());
            self.provide_next(patience);
        } else if first {
            self.bell.first_message();
        }
    }

    fn provide_next(&self, patience: Patience) {
        let spare = self.spare();
        let Ok(mut open) = self.lock(patience) else { return }; // the next to seal one provides for itself
        let not_needed = match open.next {
            Some(_) => Some(spare),
            None => open.next.replace(spare),
        };
        drop(open);
        drop(not_needed); // freed without the lock
    }

    fn push(&self, before: &mut u64, chunk: Box<Chunk>) {
        *before += u64::from(chunk.len());
        self.sealed.try_send(chunk).unwrap_or_else(|_| panic!("the channel of sealed chunks is full"));
    }

    /// An empty chunk of the usual size.
    pub fn spare(&self) -> Box<Chunk> {
        let spare = self.spares.try_recv();
        spare.unwrap_or_else(|_| Chunk::of(self.chunk_bytes, Instant::now(), &self.origin))
    }

    /// From now on nothing is taken, and nobody waits for room. The first reason stays, except that a death outdoes a stop.
    pub fn close(&self, why: Closed) {
        let mut open = self.open.lock();
        if !matches!(open.closed, Some(Closed::Died(_))) {
            open.closed = Some(why);
        }
        drop(open);
        self.budget.close();
    }

    pub fn closed(&self) -> Option<Closed> {
        self.open.lock().closed.clone()
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub fn bell(&self) -> &Arc<Doorbell> {
        &self.bell
    }

    /// How many messages were accepted.
    pub fn accepted(&self) -> u64 {
        let open = self.open.lock();
        open.before + u64::from(open.chunk.len())
    }
}

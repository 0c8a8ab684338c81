//! The worker's side of the intake: it empties what callers fill.

use super::chunk::Chunk;
use super::{ChunkEnds, Intake};
use crossbeam_channel::Receiver;
use std::time::{Duration, Instant};

impl Intake {
    /// All sealed chunks and the open one, which is replaced by `empty`.
    pub fn take_open(&self, ends: &ChunkEnds, empty: &mut Box<Chunk>, out: &mut Vec<Box<Chunk>>) {
        let mut open = self.open.lock();
        out.extend(ends.sealed.try_iter());
        if !open.chunk.is_empty() {
            std::mem::swap(&mut open.chunk, empty);
            open.before += u64::from(empty.len());
            drop(open);
            out.push(std::mem::replace(empty, self.spare()));
        }
    }

    /// Before the worker sleeps. None: there are (enough) sealed chunks, don't sleep. Otherwise the time to sleep until, the
    /// earlier of `timer` and the end of the open chunk's linger; callers know from here on how it sleeps.
    ///
    /// They rely on a timer that ends within their own linger. On one that runs longer (a request's timeout, the age of
    /// metadata) a message must not wait: there the first one rings.
    pub fn prepare_sleep(
        &self,
        ends: &ChunkEnds,
        timer: Option<Instant>,
        linger: Duration,
    ) -> Option<Option<Instant>> {
        let lingered = Instant::now() + linger;
        let open = self.open.lock();
        let due = (!open.chunk.is_empty()).then(|| open.chunk.opened() + linger);
        let until = timer.into_iter().chain(due).min();
        let is_soon = until.is_some_and(|until| until <= lingered);
        let sealed = ends.sealed.len();
        if sealed >= self.bell.chunks_a_wake() || sealed > 0 && !is_soon {
            return None;
        }
        self.bell.going_to_sleep(is_soon);
        Some(until)
    }

    /// Whether the open chunk's linger is over.
    pub fn open_is_due(&self, now: Instant, linger: Duration) -> bool {
        let open = self.open.lock();
        !open.chunk.is_empty() && open.chunk.opened() + linger <= now
    }

    /// For a worker that polls: whether there is anything in the open chunk.
    pub fn has_messages(&self) -> bool {
        !self.open.lock().chunk.is_empty()
    }

    /// The worker died: nobody will take what is here. (To be called when it is closed.)
    pub fn abandon(&self, sealed: &Receiver<Box<Chunk>>) {
        let mut open = self.open.lock();
        open.before += u64::from(open.chunk.len());
        let mut lost = std::mem::replace(&mut open.chunk, Chunk::of(0, Instant::now(), &self.origin));
        drop(open);
        sealed.try_iter().for_each(drop);
        lost.reset();
    }

    /// A chunk whose messages were copied: it goes back to the callers, or away.
    pub fn recycle(&self, ends: &ChunkEnds, mut chunk: Box<Chunk>) {
        if chunk.is_ordinary(self.chunk_bytes) {
            chunk.reset();
            let _ = ends.spares.try_send(chunk); // no room: freed
        }
    }
}

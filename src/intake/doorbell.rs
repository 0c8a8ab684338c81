//! When a caller wakes the worker: as rarely as possible, because a wake costs more than a hundred messages.
//!
//! The worker says how it sleeps, under the intake's lock; callers look at that only with the first message of a chunk
//! and when they seal one. So the ordinary call touches nothing of this.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::*};

pub struct Doorbell {
    state: AtomicU8,
    /// Wakes the worker's poll, or whatever it sleeps in.
    wake: Box<dyn Fn() + Send + Sync>,
    /// So many sealed chunks are worth waking a worker whose linger timer runs.
    chunks_a_wake: usize,
    rings: AtomicU64,
}

const AWAKE: u8 = 0;
/// Asleep until a timer ends: only a good many sealed chunks, or somebody who waits, are worth a wake.
const TIMED: u8 = 1;
/// Asleep with nothing to do: the first message must ring.
const IDLE: u8 = 2;

impl Doorbell {
    pub fn new(chunks_a_wake: usize, wake: impl Fn() + Send + Sync + 'static) -> Doorbell {
        Doorbell {
            state: AtomicU8::new(AWAKE),
            wake: Box::new(wake),
            chunks_a_wake,
            rings: AtomicU64::new(0),
        }
    }

    pub fn chunks_a_wake(&self) -> usize {
        self.chunks_a_wake
    }

    /// The worker is about to sleep. Called under the intake's lock, so no message can slip in between its last look
    /// and this. What callers ask for by other ways (`urgent`) it must look at once more after this.
    pub fn going_to_sleep(&self, timer_runs: bool) {
        self.state.store(if timer_runs { TIMED } else { IDLE }, SeqCst);
    }

    pub fn awake(&self) {
        self.state.store(AWAKE, SeqCst);
    }

    /// A message was put into an empty chunk.
    #[inline]
    pub fn first_message(&self) {
        // The worker said so under the lock that the caller has held since: nothing stronger is needed.
        if self.state.load(Relaxed) == IDLE {
            self.ring();
        }
    }

    /// Chunks were sealed; `waiting` of them are in the channel now. While a timer runs, a few may wait for it.
    #[inline]
    pub fn sealed(&self, waiting: usize) {
        let state = self.state.load(SeqCst);
        if state == IDLE || state == TIMED && waiting >= self.chunks_a_wake {
            self.ring();
        }
    }

    /// Somebody waits: for room in the budget, for a flush, for the end. What it waits for must be visible before this.
    #[inline]
    pub fn urgent(&self) {
        if self.state.load(SeqCst) != AWAKE {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Of several callers who see the worker asleep one rings.
        if self.state.swap(AWAKE, SeqCst) != AWAKE {
            self.rings.fetch_add(1, Relaxed);
            (self.wake)();
        }
    }

    pub fn rings(&self) -> u64 {
        self.rings.load(Relaxed)
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doorbell({} rings)", self.rings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn bell() -> (Doorbell, Arc<AtomicU64>) {
        let woken = Arc::new(AtomicU64::new(0));
        let count = woken.clone();
        let bell = Doorbell::new(3, move || {
            count.fetch_add(1, SeqCst);
        });
        (bell, woken)
    }

    #[test]
    fn nobody_rings_while_the_worker_is_awake() {
        let (bell, woken) = bell();
        bell.first_message();
        bell.sealed(100);
        bell.urgent();
        assert_eq!((bell.rings(), woken.load(SeqCst)), (0, 0));
    }

    #[test]
    fn an_idle_worker_is_woken_by_the_first_message_once() {
        let (bell, woken) = bell();
        bell.going_to_sleep(false);
        bell.first_message();
        bell.first_message();
        bell.urgent();
        assert_eq!((bell.rings(), woken.load(SeqCst)), (1, 1));
    }

    #[test]
    fn while_a_timer_runs_only_many_chunks_or_somebody_who_waits_ring() {
        let (bell, woken) = bell();
        bell.going_to_sleep(true);
        bell.first_message();
        bell.sealed(2);
        assert_eq!(woken.load(SeqCst), 0);
        bell.sealed(3);
        assert_eq!(woken.load(SeqCst), 1);
        bell.going_to_sleep(true);
        bell.urgent();
        assert_eq!(woken.load(SeqCst), 2);
    }
}

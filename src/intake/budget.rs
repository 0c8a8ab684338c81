//! The byte budget: the only place where a caller waits, and it does so before it takes the intake's lock.
//!
//! Free bytes lie in one atomic, so an ordinary call costs one compare-and-swap. As soon as somebody waits, the free bytes move
//! into the queue behind the mutex; the atomic then reads zero, newcomers fail there and line up, and nobody overtakes.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::Instant;

pub struct Budget {
    limit: u64,
    free: AtomicU64,
    /// Whether `queue` has anybody in it; written under its lock.
    waiting: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Free bytes while somebody waits.
    free: u64,
    callers: VecDeque<Arc<Caller>>,
}

struct Caller {
    charge: u64,
    granted: AtomicBool,
    wake: Condvar,
}

#[derive(Debug, PartialEq)]
pub enum Refused {
    /// Larger than the whole budget: waiting would not help.
    NeverFits,
    /// No room now (`try_`), or not before the deadline.
    Full,
}

impl Budget {
    pub fn new(limit: u64) -> Budget {
        Budget {
            limit,
            free: AtomicU64::new(limit),
            waiting: AtomicBool::new(false),
            queue: Mutex::default(),
        }
    }

    /// Takes `charge` bytes or refuses at once.
    #[inline]
    pub fn try_reserve(&self, charge: u64) -> Result<(), Refused> {
        let taken = self.free.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(charge));
        match taken {
            Ok(_) => Ok(()),
            Err(_) if charge > self.limit => Err(Refused::NeverFits),
            Err(_) => Err(Refused::Full),
        }
    }

    /// Takes `charge` bytes, waiting in line until `deadline` if there are not enough. `in_line` is called once the
    /// worker can see that somebody waits.
    #[cold]
    pub fn reserve_waiting(
        &self,
        charge: u64,
        deadline: Instant,
        in_line: impl FnOnce(),
    ) -> Result<(), Refused> {
        if charge > self.limit {
            return Err(Refused::NeverFits);
        }
        let mut queue = self.queue.lock();
        let me = Arc::new(Caller { charge, granted: AtomicBool::new(false), wake: Condvar::new() });
        queue.callers.push_back(me.clone());
        // The order matters: raise the flag, then collect what is free. `release` adds first and looks at the flag
        // after, so one of us two sees the other.
        self.waiting.store(true, SeqCst);
        in_line();
        self.serve(&mut queue);
        while !me.granted.load(Relaxed) {
            if me.wake.wait_until(&mut queue, deadline).timed_out() && !me.granted.load(Relaxed) {
                queue.callers.retain(|caller| !Arc::ptr_eq(caller, &me));
                // The one behind may ask for less.
                self.serve(&mut queue);
                return Err(Refused::Full);
            }
        }
        Ok(())
    }

    /// Gives bytes back. Called by the worker once per response, so it may be slower than taking.
    pub fn release(&self, charge: u64) {
        self.free.fetch_add(charge, SeqCst);
        if self.waiting.load(SeqCst) {
            self.serve(&mut self.queue.lock());
        }
    }

    /// Whether a caller waits for room.
    pub fn is_contended(&self) -> bool {
        self.waiting.load(SeqCst)
    }

    /// Whether all that was taken has been given back.
    pub fn is_unused(&self) -> bool {
        self.free.load(SeqCst) + self.queue.lock().free == self.limit
    }

    /// Grants what can be granted, first come, first served.
    fn serve(&self, queue: &mut Queue) {
        queue.free += self.free.swap(0, SeqCst);
        while let Some(first) = queue.callers.front().filter(|first| first.charge <= queue.free) {
            queue.free -= first.charge;
            first.granted.store(true, Relaxed);
            first.wake.notify_one();
            queue.callers.pop_front();
        }
        if queue.callers.is_empty() {
            self.waiting.store(false, SeqCst);
            self.free.fetch_add(std::mem::take(&mut queue.free), SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_large_one_that_waits_is_not_overtaken() {
        let budget = Arc::new(Budget::new(100));
        budget.try_reserve(60).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let large = {
            let b = budget.clone();
            std::thread::spawn(move || b.reserve_waiting(80, deadline, || ()))
        };
        while !budget.waiting.load(SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(budget.try_reserve(1), Err(Refused::Full));
        budget.release(60);
        assert_eq!(large.join().unwrap(), Ok(()));
        budget.try_reserve(20).unwrap();
        budget.release(100);
        assert!(budget.is_unused());
    }

    #[test]
    fn refusals() {
        let budget = Budget::new(10);
        assert_eq!(budget.try_reserve(11), Err(Refused::NeverFits));
        budget.try_reserve(10).unwrap();
        assert_eq!(
            budget.reserve_waiting(1, Instant::now() + Duration::from_millis(5), || ()),
            Err(Refused::Full)
        );
        budget.release(10);
        assert!(budget.is_unused());
    }
}

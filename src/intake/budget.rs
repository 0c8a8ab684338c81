//! The byte budget: the only place where a caller waits, and it does so before it takes the intake's lock.
//!
//! Free bytes lie in one atomic, so an ordinary call costs one compare-and-swap. As soon as somebody waits, the free bytes move
//! into the queue behind the mutex; the atomic then reads zero, newcomers fail there and line up, and nobody overtakes.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
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
    /// Nobody waits any more.
    closed: bool,
}

struct Caller {
    charge: u64,
    granted: AtomicBool,
    wake: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Larger than the whole budget: waiting would not help.
    NeverFits,
    /// No room now (`try_`), or not before the deadline.
    Full,
    /// The producer has ended: there is nothing to wait for.
    Closed,
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

    pub fn limit(&self) -> u64 {
        self.limit
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

    /// Takes `charge` bytes, waiting in line until `deadline` (none: for as long as it takes) if there are not enough.
    /// `in_line` is called once it has to wait and the worker can see that.
    #[cold]
    pub fn reserve_waiting(
        &self,
        charge: u64,
        deadline: Option<Instant>,
        in_line: impl FnOnce(),
    ) -> Result<(), Refused> {
        if charge > self.limit {
            return Err(Refused::NeverFits);
        }
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(Refused::Closed);
        }
        let me = Arc::new(Caller { charge, granted: AtomicBool::new(false), wake: Condvar::new() });
        queue.callers.push_back(me.clone());
        // The order matters: raise the flag, then collect what is free. `release` adds first and looks at the flag
        // after, so one of us two sees the other.
        self.waiting.store(true, SeqCst);
        self.serve(&mut queue);
        if !me.granted.load(Relaxed) {
            in_line();
        }
        while !me.granted.load(Relaxed) {
            let timed_out = match deadline {
                Some(deadline) => me.wake.wait_until(&mut queue, deadline).timed_out(),
                None => {
                    me.wake.wait(&mut queue);
                    false
                }
            };
            if (timed_out || queue.closed) && !me.granted.load(Relaxed) {
                queue.callers.retain(|caller| !Arc::ptr_eq(caller, &me));
                // The one behind may ask for less.
                self.serve(&mut queue);
                return Err(if queue.closed { Refused::Closed } else { Refused::Full });
            }
        }
        Ok(())
    }

    /// Gives bytes back. Called by the worker once per response, so it may be slower than taking.
    pub fn release(&self, charge: u64) {
        if charge == 0 {
            return;
        }
        if self.waiting.load(SeqCst) {
            // Straight into the queue: a newcomer must not catch it in the atomic.
            let mut queue = self.queue.lock();
            queue.free += charge;
            return self.serve(&mut queue);
        }
        self.free.fetch_add(charge, SeqCst);
        if self.waiting.load(SeqCst) {
            self.serve(&mut self.queue.lock());
        }
    }

    /// The producer has ended: those who wait are refused, and nobody waits again. Taking and giving back go on, because
    /// messages may still be out there.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        for caller in &queue.callers {
            caller.wake.notify_one();
        }
    }

    /// Whether a caller waits for room.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.waiting.load(SeqCst)
    }

    /// How many bytes are taken.
    pub fn used(&self) -> u64 {
        // Bytes move between the two under the lock only, except when they are taken from or added to the atomic.
        let queue = self.queue.lock();
        self.limit.saturating_sub(self.free.load(SeqCst) + queue.free)
    }

    /// Whether all that was taken has been given back.
    pub fn is_unused(&self) -> bool {
        self.used() == 0
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

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {} bytes used)", self.used(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(5))
    }

    /// A thread that waits for `charge` bytes; returns once it stands in line.
    fn waiter(budget: &Arc<Budget>, charge: u64) -> std::thread::JoinHandle<Result<(), Refused>> {
        let (in_line, is_in_line) = mpsc::channel();
        let budget = budget.clone();
        let thread = std::thread::spawn(move || {
            let deadline = Some(Instant::now() + Duration::from_secs(60));
            budget.reserve_waiting(charge, deadline, || in_line.send(()).unwrap())
        });
        is_in_line.recv().unwrap();
        thread
    }

    #[test]
    fn a_large_one_that_waits_is_not_overtaken() {
        let budget = Arc::new(Budget::new(100));
        budget.try_reserve(60).unwrap();
        let large = waiter(&budget, 80);
        assert_eq!(budget.try_reserve(1), Err(Refused::Full));
        assert!(budget.is_contended());
        budget.release(60);
        assert_eq!(large.join().unwrap(), Ok(()));
        budget.try_reserve(20).unwrap();
        budget.release(100);
        assert!(budget.is_unused());
    }

    #[test]
    fn who_waits_is_served_first_come_first_served() {
        let budget = Arc::new(Budget::new(100));
        budget.try_reserve(100).unwrap();
        let waiters: Vec<_> = [70, 20, 60].map(|charge| waiter(&budget, charge)).into();
        budget.release(69);
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "20 fits but is not its turn");
        budget.release(21);
        let mut waiters = waiters.into_iter();
        assert_eq!(waiters.next().unwrap().join().unwrap(), Ok(()));
        assert_eq!(waiters.next().unwrap().join().unwrap(), Ok(()));
        assert!(budget.is_contended(), "the last one waits for 60");
        budget.release(60);
        assert_eq!(waiters.next().unwrap().join().unwrap(), Ok(()));
        assert!(!budget.is_contended());
        budget.release(100);
        assert!(budget.is_unused());
    }

    #[test]
    fn who_gives_up_lets_the_next_one_in() {
        let budget = Arc::new(Budget::new(100));
        budget.try_reserve(90).unwrap();
        let started = Arc::new(std::sync::Barrier::new(2));
        let large = {
            let (budget, started) = (budget.clone(), started.clone());
            std::thread::spawn(move || {
                budget.reserve_waiting(80, Some(Instant::now() + Duration::from_millis(50)), || {
                    started.wait();
                })
            })
        };
        started.wait();
        let small = waiter(&budget, 10);
        assert_eq!(large.join().unwrap(), Err(Refused::Full));
        assert_eq!(small.join().unwrap(), Ok(()));
        budget.release(100);
        assert!(budget.is_unused());
    }

    #[test]
    fn refusals() {
        let budget = Budget::new(10);
        assert_eq!(budget.try_reserve(11), Err(Refused::NeverFits));
        assert_eq!(budget.reserve_waiting(11, None, || ()), Err(Refused::NeverFits));
        budget.try_reserve(10).unwrap();
        assert_eq!(budget.used(), 10);
        assert_eq!(budget.reserve_waiting(1, soon(), || ()), Err(Refused::Full));
        budget.release(10);
        assert!(budget.is_unused());
    }

    #[test]
    fn closing_turns_away_who_waits_and_who_would() {
        let budget = Arc::new(Budget::new(10));
        budget.try_reserve(10).unwrap();
        let waiters = [waiter(&budget, 5), waiter(&budget, 1)];
        budget.close();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(Refused::Closed));
        }
        assert_eq!(budget.reserve_waiting(1, None, || ()), Err(Refused::Closed));
        assert!(!budget.is_contended());
        budget.release(10);
        assert!(budget.is_unused());
    }

    #[test]
    fn it_is_exact_whatever_goes_on_at_once() {
        let budget = Arc::new(Budget::new(1000));
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for i in 0..2_000 {
                        let charge = (i * 7 + thread * 131) % 400 + 1;
                        let taken = match i % 3 {
                            0 => budget.try_reserve(charge).is_ok(),
                            1 => budget.reserve_waiting(charge, Some(Instant::now()), || ()).is_ok(),
                            _ => budget.reserve_waiting(charge, None, || ()).is_ok(),
                        };
                        if taken {
                            budget.release(charge);
                        }
                    }
                });
            }
        });
        assert!(budget.is_unused());
        assert!(!budget.is_contended());
    }
}

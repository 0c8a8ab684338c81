//! Which producer a receipt is of, and what a thread must know before it waits for it.

use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

/// One for each producer, shared by everything that may outlive it.
#[derive(Debug)]
pub struct Origin {
    id: u64,
    /// The process that made it. Threads don't survive a fork: in a child there is no worker.
    process: u32,
    /// How long a caller that waits for a receipt polls before it sleeps.
    wait_spin: Duration,
    /// What the worker died of.
    death: Mutex<Option<Arc<str>>>,
    died: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Callback,
}

thread_local! {
    /// The producer whose own thread this is, and what it does for it.
    static SERVES: Cell<Option<(u64, Role)>> = const { Cell::new(None) };
}

/// How long `death` waits for a text that must come at any moment.
const PATIENCE: Duration = Duration::from_millis(200);

impl Origin {
    pub fn new(wait_spin: Duration) -> Origin {
        Origin::of_process(wait_spin, std::process::id())
    }

    /// As if it had been made by that process.
    pub fn of_process(wait_spin: Duration, process: u32) -> Origin {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Origin {
            id: NEXT.fetch_add(1, Relaxed),
            process,
            wait_spin,
            death: Mutex::default(),
            died: Condvar::new(),
        }
    }

    pub fn wait_spin(&self) -> Duration {
        self.wait_spin
    }

    /// Whether this is a forked child of the process that made it. A system call: not for the hot path.
    pub fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// This thread is from now on the producer's worker.
    pub fn serve(&self) {
        SERVES.set(Some((self.id, Role::Worker)));
    }

    /// This thread is from now on the one that runs the producer's callback.
    pub fn serve_callback(&self) {
        SERVES.set(Some((self.id, Role::Callback)));
    }

    /// Whether this thread is the producer's own, worker or callback: it must never wait for the producer.
    pub fn is_served_here(&self) -> bool {
        self.role_here().is_some()
    }

    /// Whether this thread is the worker. User code runs there in one case: a logger that sends to Kafka.
    pub fn is_worker_here(&self) -> bool {
        self.role_here() == Some(Role::Worker)
    }

    fn role_here(&self) -> Option<Role> {
        let serves = SERVES.try_with(Cell::get).ok().flatten();
        serves.filter(|(id, _)| *id == self.id).map(|(_, role)| role)
    }

    /// The worker died of this. The first text stays.
    pub fn set_death(&self, text: &str) {
        self.death.lock().get_or_insert_with(|| text.into());
        self.died.notify_all();
    }

    /// What the worker died of, for a verdict that was lost with it. Such a verdict can be seen a moment before the text
    /// is there, while the worker's stack unwinds.
    pub fn death(&self) -> Arc<str> {
        let mut death = self.death.lock();
        if death.is_none() {
            self.died.wait_while_for(&mut death, |death| death.is_none(), PATIENCE);
        }
        death.get_or_insert_with(|| "it lost the message".into()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_serves_one_producer() {
        let (one, other) = (Origin::new(Duration::ZERO), Origin::new(Duration::ZERO));
        assert!(!one.is_served_here());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                one.serve();
                assert!(one.is_served_here() && one.is_worker_here() && !other.is_served_here());
                other.serve_callback();
                assert!(other.is_served_here() && !other.is_worker_here() && !one.is_served_here());
            });
        });
        assert!(!one.is_served_here());
    }

    #[test]
    fn a_fork_is_seen() {
        assert!(!Origin::new(Duration::ZERO).is_forked());
        assert!(Origin::of_process(Duration::ZERO, std::process::id() ^ 1).is_forked());
    }

    #[test]
    fn the_death_is_waited_for_a_moment() {
        let origin = Arc::new(Origin::new(Duration::ZERO));
        let reader = {
            let origin = origin.clone();
            std::thread::spawn(move || origin.death())
        };
        origin.set_death("boom");
        origin.set_death("again");
        assert_eq!(&*reader.join().unwrap(), "boom");
        assert_eq!(&*Origin::new(Duration::ZERO).death(), "it lost the message");
    }
}

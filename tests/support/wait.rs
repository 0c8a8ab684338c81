//! Waiting for a condition with a deadline, and saying what was waited for when it passes.

use std::time::{Duration, Instant};

/// Asks `condition` again and again until it yields something; panics with `what` once `limit` has passed.
///
/// The pause between two questions only bounds how late the answer is noticed: nothing depends on its length.
pub fn until<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

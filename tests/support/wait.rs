//! Waiting for a condition with a deadline, and saying what was waited for when it passes.

use std::time::{Duration, Instant};

/// Asks `condition` again and again until it yields something; panics with `what` once `limit` has passed.
pub fn until<T>(limit: Duration, what: &str, condition: impl FnMut() -> Option<T>) -> T {
    until_or(limit, condition, || what.to_owned())
}

/// As [`until`], with a text that is made only when it is needed, after the last question.
///
/// The pause between two questions only bounds how late the answer is noticed: nothing depends on its length.
pub fn until_or<T>(
    limit: Duration,
    mut condition: impl FnMut() -> Option<T>,
    what: impl FnOnce() -> String,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for: {}", what());
        std::thread::sleep(Duration::from_millis(20));
    }
}

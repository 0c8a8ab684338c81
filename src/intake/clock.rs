//! The time that messages are stamped with.

/// Milliseconds since 1970, from the system's coarse clock: as old as its last timer tick (1 to 10 ms) and seven times
/// cheaper than a precise reading, which would be a quarter of what handing a message over costs.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[inline]
#[allow(clippy::useless_conversion)] // seconds have 32 bits on some targets
pub fn now_ms() -> i64 {
    use nix::time::{clock_gettime, ClockId};
    match clock_gettime(ClockId::CLOCK_REALTIME_COARSE) {
        Ok(t) => (i64::from(t.tv_sec()) * 1000 + i64::from(t.tv_nsec()) / 1_000_000).max(0),
        Err(_) => precise_ms(), // a kernel without that clock
    }
}

/// Milliseconds since 1970.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[inline]
pub fn now_ms() -> i64 {
    precise_ms()
}

/// A clock set to before 1970 counts as 1970: Kafka has no timestamps before that.
#[cold]
fn precise_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_is_close_to_the_precise_one() {
        let (coarse, precise) = (now_ms(), precise_ms());
        assert!((coarse - precise).abs() < 1000, "{coarse} and {precise}");
    }
}

//! What this process has used.

use std::time::Duration;

/// User and system time of all threads so far; None where the system does not tell.
#[cfg(unix)]
pub(crate) fn cpu() -> Option<Duration> {
    use nix::sys::resource::{getrusage, UsageWho};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let time = |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    Some(time(usage.user_time()) + time(usage.system_time()))
}

/// The most memory that was resident, in bytes; None where the system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn peak_rss() -> Option<u64> {
    // Not getrusage's: that starts with what the process that started this one had.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(not(unix))]
pub(crate) fn cpu() -> Option<Duration> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn peak_rss() -> Option<u64> {
    None
}

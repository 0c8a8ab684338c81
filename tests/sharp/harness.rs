//! What these tests share: a time limit for each, a process of one's own for what is measured, and how late this machine is.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Does `work` in a thread of its own; panics, naming it, if it has not ended after `limit`. (What hangs is left behind.)
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, end) = channel();
    let thread = std::thread::Builder::new().name(what.to_owned()).spawn(move || {
        let result = work();
        // Nobody hears of it once the limit has passed.
        let _ = done.send(());
        result
    });
    let thread = thread.expect("a thread");
    if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(limit) {
        panic!("{what}: still not done after {limit:?}");
    }
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Asks again and again until it yields something; panics with `what` once `limit` has passed. The pause between two
/// questions only bounds how late the answer is noticed.
pub(crate) fn until<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for: {what}");
        std::thread::sleep(ms(2));
    }
}

/// Tests that take all there is of the machine, or measure what others would spoil, come one after the other.
pub(crate) fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock()
}

/// The name under which a test can be asked for.
macro_rules! test_name {
    ($name:ident) => {
        concat!(module_path!(), "::", stringify!($name)).strip_prefix("sharp::").expect("this binary's name")
    };
}
pub(crate) use test_name;

/// Runs the test of this name alone, in a process of its own: `body` there, a wait for its end here.
pub(crate) fn alone(name: &str, body: impl FnOnce()) {
    const ALONE: &str = "STEADFAST_SHARP_ALONE";
    if std::env::var(ALONE).as_deref() == Ok(name) {
        return body();
    }
    let program = std::env::current_exe().expect("this test's own file");
    let mut command = Command::new(program);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, name).stdin(Stdio::null());
    let output = command.output().expect("this test's own file can be run");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{out}{err}");
    assert!(output.status.success() && out.contains("1 passed"), "{name} failed in a process of its own");
}

/// How long threads that could run had to wait for a core, from now on: what others do to a test that measures time.
pub(crate) struct Lateness {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Duration>,
}

impl Lateness {
    /// Of the producers' threads and of the calling one: they wait for each other, so it adds up.
    pub(crate) fn start() -> Lateness {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let caller = std::fs::read_link("/proc/thread-self").ok();
        let caller = caller.and_then(|path| Some(path.file_name()?.to_owned()));
        let before = run_delays();
        let thread = std::thread::spawn(move || {
            // Threads end meanwhile, and their figures with them: looked at again and again.
            let mut last = before.clone();
            let mut own = Duration::ZERO;
            while !stopped.load(Relaxed) {
                let start = Instant::now();
                std::thread::sleep(ms(2));
                own = own.max(start.elapsed().saturating_sub(ms(2)));
                last.extend(run_delays());
            }
            let mut worst: HashMap<String, Duration> = HashMap::new();
            for (task, (name, delay)) in last {
                let name = if Some(&task) == caller.as_ref() { "caller".to_owned() } else { name };
                if name == "caller" || name.starts_with("steadfast-") {
                    let earlier = before.get(&task).map_or(Duration::ZERO, |(_, delay)| *delay);
                    // (A number may be given to another thread.)
                    let more = delay.saturating_sub(earlier);
                    let worst = worst.entry(name).or_default();
                    *worst = more.max(*worst);
                }
            }
            own + worst.values().sum::<Duration>()
        });
        Lateness { stop, thread }
    }

    pub(crate) fn worst(self) -> Duration {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("it only looks")
    }
}

/// Name of each thread of this process, and for how long it has waited for a core so far; nothing where the system does
/// not tell.
fn run_delays() -> HashMap<OsString, (String, Duration)> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let delay = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.ok()?;
        // A thread may have ended meanwhile.
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let nanos = times.split(' ').nth(1)?.parse().ok()?;
        Some((task.file_name(), (name.trim().to_owned(), Duration::from_nanos(nanos))))
    };
    tasks.filter_map(delay).collect()
}

/// Does `work`; how long that took, and how late this machine was meanwhile.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration, Duration) {
    let lateness = Lateness::start();
    let start = Instant::now();
    let result = work();
    let took = start.elapsed();
    (result, took, lateness.worst())
}

/// CPU time that the producer's own threads of this process have taken so far; None where the system does not tell.
pub(crate) fn producer_cpu() -> Option<Duration> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let task = task.ok()?.path();
        // A thread may have ended meanwhile.
        let (Ok(name), Ok(times)) =
            (std::fs::read_to_string(task.join("comm")), std::fs::read_to_string(task.join("schedstat")))
        else {
            continue;
        };
        // Names are cut after 15 bytes. The embedded cluster's threads don't count.
        let cluster = ["steadfast-broke", "steadfast-clust"].contains(&name.trim());
        if name.starts_with("steadfast-") && !cluster {
            sum += times.split(' ').next()?.parse::<u64>().ok()?;
        }
    }
    Some(Duration::from_nanos(sum))
}

/// A count or time that a build without optimisation can do in the same time.
pub(crate) fn scaled<T>(release: T, debug: T) -> T {
    if cfg!(debug_assertions) && std::env::var_os("STEADFAST_SHARP_FULL").is_none() {
        debug
    } else {
        release
    }
}

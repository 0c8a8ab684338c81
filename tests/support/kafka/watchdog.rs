//! Ends the brokers when the test process does, however it ends: a small shell process that waits for the end of a pipe.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Reads orders; at the end of its input kills what still runs and removes the folder.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=' '
keep=no
while read -r order pid; do
  case $order in
    runs) pids="$pids$pid " ;;
    ended) case $pids in *" $pid "*) pids="${pids%%" $pid "*} ${pids#*" $pid "}" ;; esac ;;
    keep) keep=yes ;;
  esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
for pid in $pids; do
  tries=0
  while kill -0 "$pid" 2>/dev/null && [ $tries -lt 40 ]; do sleep 0.05; tries=$((tries + 1)); done
done
[ $keep = yes ] || rm -rf "$1"
"#;

struct Watchdog {
    folder: PathBuf,
    orders: Mutex<ChildStdin>,
    /// Never waited for: it outlives this process.
    _shell: Child,
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    WATCHDOG.get_or_init(|| {
        let folder =
            tempfile::Builder::new().prefix("steadfast-kafka-").tempdir().expect("a temporary folder").keep();
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own: an interrupt at the terminal must not end it before it has done its work.
            .process_group(0)
            .spawn()
            .expect("a shell");
        let orders = Mutex::new(shell.stdin.take().expect("a pipe"));
        Watchdog { folder, orders, _shell: shell }
    })
}

fn orders() -> MutexGuard<'static, ChildStdin> {
    watchdog().orders.lock().unwrap_or_else(PoisonError::into_inner)
}

fn order(text: &str) {
    orders().write_all(text.as_bytes()).expect("the watchdog listens");
}

/// The folder of this process; gone when the process is, unless a test failed.
pub fn folder() -> &'static Path {
    &watchdog().folder
}

/// This process must not outlive us.
pub fn runs(pid: u32) {
    order(&format!("runs {pid}\n"));
}

/// Say so before the process is waited for: afterwards its number may be another's.
pub fn ended(pid: u32) {
    order(&format!("ended {pid}\n"));
}

/// Keeps the folder with logs and data: something failed.
pub fn keep() {
    order("keep\n");
}

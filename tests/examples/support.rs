//! Starting the examples, and waiting for what they do.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{mpsc, OnceLock};
use std::time::{Duration, Instant};

/// Long enough for anything that is meant to end, also on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The example's binary, built from what is there now.
pub(crate) fn example(name: &str) -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let path = FOLDER.get_or_init(build_examples).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built: run `cargo build --examples`", path.display());
    let mut command = Command::new(path);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// `cargo test` has built them beside this test, `cargo test --test examples` has not: so they are asked for here, with the
/// same profile and features. Nothing is left to do for the former.
fn build_examples() -> PathBuf {
    let this = std::env::current_exe().expect("a test has a path");
    let folder = this.ancestors().nth(2).expect("it is in PROFILE/deps").to_owned();
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--examples", "--no-default-features", "--features", &features()]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let built = build.status().expect("cargo can be started");
        assert!(built.success(), "the examples can't be built");
    }
    folder.join("examples")
}

fn features() -> String {
    let all = [
        ("default", cfg!(feature = "default")),
        ("gzip", cfg!(feature = "gzip")),
        ("snappy", cfg!(feature = "snappy")),
        ("lz4", cfg!(feature = "lz4")),
        ("zstd", cfg!(feature = "zstd")),
        ("testing", cfg!(feature = "testing")),
    ];
    let on: Vec<&str> = all.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    on.join(",")
}

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) after: Duration,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The last line of standard output.
    pub(crate) fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }

    /// The last line, which is JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.last_line()).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// A program that runs; killed if it is dropped before its end.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

/// Starts it with pipes; both outputs are read all the while.
pub(crate) fn start(mut command: Command) -> Running {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example can be started");
    let stdin = child.stdin.take();
    let stdout = read_all(child.stdout.take().expect("piped"));
    let stderr = read_all(child.stderr.take().expect("piped"));
    Running { child, started: Instant::now(), stdin, stdout, stderr }
}

fn read_all(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (text, read) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        // The receiver is gone only if the test has failed already.
        _ = text.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    read
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for its end; a program that does not end within `limit` is a failed test.
    pub(crate) fn end_within(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "it still runs after {limit:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        let after = self.started.elapsed();
        let text = |from: &mpsc::Receiver<String>| from.recv_timeout(SOON).expect("its pipes end with it");
        Ended { status, stdout: text(&self.stdout), stderr: text(&self.stderr), after }
    }

    pub(crate) fn end(self) -> Ended {
        self.end_within(SOON)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Runs it to its end with this input.
pub(crate) fn run(command: Command, input: &[u8]) -> Ended {
    let mut running = start(command);
    let mut stdin = running.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let ended = running.end();
    // A program that was used wrongly has not read its input: then this is a broken pipe.
    _ = writer.join().expect("writing does not panic");
    ended
}

/// Waits until it is true.
pub(crate) fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_true() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A signal for a running program.
#[cfg(unix)]
pub(crate) fn signal(running: &Running, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.pid()), signal).expect("it runs");
}

/// A folder of its own for each test, removed with it.
pub(crate) fn folder() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    (folder, move |name| path.join(name))
}

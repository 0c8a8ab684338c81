//! One broker process (and, in KRaft's combined mode, one controller).

use super::install::Install;
use super::ports::{self, Port};
use super::watchdog;
use crate::support::wait;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One node of a cluster, running or not. Its ports and data stay the same over restarts.
pub struct Node {
    pub id: i32,
    pub port: Port,
    pub controller_port: Port,
    /// A second listener, which tells clients that the broker is at `proxy_port`.
    pub proxied_port: Port,
    /// For a proxy of the test's.
    pub proxy_port: Port,
    dir: PathBuf,
    class_path: String,
    process: Mutex<Option<Child>>,
}

impl Node {
    pub fn new(id: i32, cluster: &Path, install: &Install) -> Node {
        let dir = cluster.join(format!("node-{id}"));
        fs::create_dir_all(dir.join("data")).expect("a folder for the node");
        Node {
            id,
            port: ports::claim(),
            controller_port: ports::claim(),
            proxied_port: ports::claim(),
            proxy_port: ports::claim(),
            dir,
            class_path: install.class_path.clone(),
            process: Mutex::new(None),
        }
    }

    pub fn properties_path(&self) -> PathBuf {
        self.dir.join("server.properties")
    }

    pub fn log_path(&self) -> PathBuf {
        self.dir.join("server.log")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Where clients find the broker without a proxy.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// Writes `server.properties`; `voters` is the whole quorum, `extra` comes last and wins.
    pub fn configure(&self, voters: &str, nodes: usize, extra: &[(&str, &str)]) {
        let address = self.address();
        let controller = self.controller_port.number;
        let (proxied, proxy) = (self.proxied_port.number, self.proxy_port.number);
        let replicas = nodes.min(3);
        let mut lines = vec![
            "process.roles=broker,controller".to_owned(),
            format!("node.id={}", self.id),
            format!("controller.quorum.voters={voters}"),
            format!(
                "listeners=PLAINTEXT://{address},PROXIED://127.0.0.1:{proxied},CONTROLLER://127.0.0.1:{controller}"
            ),
            format!("advertised.listeners=PLAINTEXT://{address},PROXIED://127.0.0.1:{proxy}"),
            "controller.listener.names=CONTROLLER".to_owned(),
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT".to_owned(),
            format!("log.dirs={}", self.data_dir().display()),
            format!("offsets.topic.replication.factor={replicas}"),
            format!("transaction.state.log.replication.factor={replicas}"),
            "transaction.state.log.min.isr=1".to_owned(),
            "auto.create.topics.enable=false".to_owned(),
            // Small ones: many partitions, and several brokers on one machine.
            "log.index.size.max.bytes=1048576".to_owned(),
            "num.network.threads=2".to_owned(),
            "num.io.threads=4".to_owned(),
            "log.cleaner.dedupe.buffer.size=8388608".to_owned(),
            // Fenced after 6 s instead of 9: each failover is waited for.
            "broker.session.timeout.ms=6000".to_owned(),
            "broker.heartbeat.interval.ms=1000".to_owned(),
        ];
        lines.extend(extra.iter().map(|(name, value)| format!("{name}={value}")));
        fs::write(self.properties_path(), lines.join("\n") + "\n").expect("server.properties");
    }

    /// Starts the process on the data that is there. Not ready yet: see `Cluster::await_nodes`.
    pub fn start(&self) {
        let mut process = self.process();
        assert!(process.is_none(), "node {} runs already", self.id);
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).expect("the node's log");
        let child = Command::new("java")
            .args(["-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .args(["-Dorg.slf4j.simpleLogger.showDateTime=true"])
            .args(["-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"])
            .args(["-cp", &self.class_path, "kafka.Kafka"])
            .arg(self.properties_path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log a second time"))
            .stderr(log)
            .process_group(0)
            .spawn()
            .expect("java");
        watchdog::runs(child.id());
        *process = Some(child);
    }

    /// `kill -9`: a crash.
    pub fn kill(&self) {
        if let Some(mut child) = self.process().take() {
            child.kill().expect("kill -9");
            Self::reap(&mut child);
        }
    }

    /// SIGTERM: a shutdown as an operator does it, leaders handed over first.
    pub fn stop(&self) {
        let Some(mut child) = self.process().take() else { return };
        signal(&child, Signal::SIGTERM);
        wait::until(Duration::from_secs(60), &format!("node {} to shut down", self.id), || {
            // Told to the watchdog too late by a moment: harmless, the number is hardly another's yet.
            child.try_wait().expect("a child").map(|_| watchdog::ended(child.id()))
        });
    }

    /// SIGSTOP: it hangs, its sockets stay open.
    pub fn pause(&self) {
        signal(self.process().as_ref().expect("a running node"), Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        if let Some(child) = self.process().as_ref() {
            signal(child, Signal::SIGCONT);
        }
    }

    pub fn is_running(&self) -> bool {
        self.process().is_some()
    }

    /// Panics with the end of the log if the process ended by itself.
    pub fn assert_alive(&self) {
        let mut process = self.process();
        if let Some(status) = process.as_mut().and_then(|child| child.try_wait().expect("a child")) {
            *process = None;
            panic!("node {} ended with {status}:\n{}", self.id, self.log_tail(40));
        }
    }

    /// The last lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// The segments of one partition, oldest first.
    pub fn segments(&self, topic: &str, partition: i32) -> Vec<PathBuf> {
        let dir = self.data_dir().join(format!("{topic}-{partition}"));
        let Ok(entries) = fs::read_dir(&dir) else { return Vec::new() };
        let mut segments: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "log"))
            .filter(|path| File::open(path).and_then(|f| f.metadata()).is_ok_and(|m| m.len() > 0))
            .collect();
        segments.sort();
        segments
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reap(child: &mut Child) {
        watchdog::ended(child.id());
        child.wait().expect("a child");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    kill(pid, signal).expect("the process can be signalled");
}

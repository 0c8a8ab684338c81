//! The embedded cluster in a process of its own: this program, started again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use steadfast::testing::{Cluster, TopicSpec};

/// The argument that makes this program the cluster.
const SERVE: &str = "--serve-embedded-cluster";

/// The cluster's process; it ends with this.
pub(crate) struct ClusterProcess {
    child: Child,
    bootstrap: String,
}

impl ClusterProcess {
    /// Starts it and waits until it listens.
    pub(crate) fn start(brokers: u32, topic: &str, partitions: u32) -> io::Result<ClusterProcess> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SERVE, &brokers.to_string(), topic, &partitions.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut bootstrap = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut bootstrap)?;
        if bootstrap.trim().is_empty() {
            return Err(io::Error::other(format!("its process ended: {}", child.wait()?)));
        }
        Ok(ClusterProcess { child, bootstrap: bootstrap.trim().to_owned() })
    }

    /// What belongs into `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }
}

impl Drop for ClusterProcess {
    fn drop(&mut self) {
        // It ends when its standard input does; so it does when this process is killed, too.
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("perf: the embedded cluster's process: {error}");
        }
    }
}

/// Is the cluster, if the arguments say so.
pub(crate) fn serve_if_asked() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [serve, brokers, topic, partitions] = &arguments[..] else { return None };
    if serve != SERVE {
        return None;
    }
    Some(match serve_cluster(brokers, topic, partitions) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perf: the embedded cluster: {error}");
            ExitCode::FAILURE
        }
    })
}

fn serve_cluster(brokers: &str, topic: &str, partitions: &str) -> Result<(), Box<dyn std::error::Error>> {
    let topic = TopicSpec::new(topic).partitions(partitions.parse()?);
    // It acknowledges and keeps nothing: what is measured is the producer.
    let builder = Cluster::builder().brokers(brokers.parse()?).topic(topic);
    let cluster = builder.keep_log(false).check_records(false).start()?;
    let mut out = io::stdout();
    writeln!(out, "{}", cluster.bootstrap())?;
    out.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

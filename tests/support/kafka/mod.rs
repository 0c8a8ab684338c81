//! Real Kafka: downloaded once, started on free ports, driven and read back with Kafka's own code.
//!
//! A test asks for a cluster with [`one`] or [`three`] and gets none where Java or Maven is missing; it then returns, having
//! said so. `STEADFAST_REQUIRE_KAFKA=1` makes that a failure. Clusters are shared by the tests of a binary.

mod dump;
mod install;
mod node;
mod ports;
mod record;
mod watchdog;
mod witness;

pub use dump::{Batch, DumpedRecord};
pub use node::Node;
pub use record::{ConsumedRecord, TimestampKind};
pub use witness::Witness;

use crate::support::ledger::{self, Found};
use crate::support::proxy::Proxy;
use crate::support::wait;
use install::Unavailable;
use std::io::Write as _;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The version that most tests run against.
pub const NEWEST: &str = "4.4.0";

/// How long a broker may take to come up, or a partition to find a leader, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A KRaft cluster whose nodes are brokers and controllers at once.
pub struct Cluster {
    pub version: String,
    pub nodes: Vec<Node>,
    witness: Witness,
    dir: PathBuf,
    files: AtomicU32,
}

/// A message's key and value; None is null.
pub type KeyValue = (Option<Vec<u8>>, Option<Vec<u8>>);

/// One partition as the cluster describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    /// -1: none.
    pub leader: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
}

/// A cluster for the length of a test. If the test fails, logs and data are kept and named.
pub struct Lease {
    cluster: Held,
    _alone: Option<MutexGuard<'static, ()>>,
}

enum Held {
    Shared(&'static Cluster),
    Own(Box<Cluster>),
}

/// The newest Kafka on one node, shared with other tests.
pub fn one() -> Option<Lease> {
    static CLUSTER: OnceLock<Result<Cluster, Unavailable>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| Cluster::start(NEWEST, 1, &[]));
    Some(Lease { cluster: Held::Shared(found(cluster.as_ref())?), _alone: None })
}

/// The newest Kafka on three nodes, for one test at a time: it may kill them, and all run and are in sync at its begin.
pub fn three() -> Option<Lease> {
    static CLUSTER: OnceLock<Result<Cluster, Unavailable>> = OnceLock::new();
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = found(CLUSTER.get_or_init(|| Cluster::start(NEWEST, 3, &[])).as_ref())?;
    cluster.heal();
    Some(Lease { cluster: Held::Shared(cluster), _alone: Some(alone) })
}

/// One node of this version, for one test, ended with it.
pub fn own(version: &str) -> Option<Lease> {
    let cluster = match Cluster::start(version, 1, &[]) {
        Ok(cluster) => cluster,
        Err(error) => found(Err(&error))?,
    };
    Some(Lease { cluster: Held::Own(Box::new(cluster)), _alone: None })
}

fn found<T>(cluster: Result<T, &Unavailable>) -> Option<T> {
    match cluster {
        Ok(cluster) => Some(cluster),
        Err(Unavailable::Failed(why)) => panic!("no Kafka: {why}"),
        Err(Unavailable::Missing(what)) => {
            let demanded =
                std::env::var_os("STEADFAST_REQUIRE_KAFKA").is_some_and(|v| !v.is_empty() && v != "0");
            assert!(!demanded, "STEADFAST_REQUIRE_KAFKA is set, and {what}");
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            // Past the test harness, which hides what a passing test prints.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {what}; real Kafka needs Java 17 and Maven");
            None
        }
    }
}

impl Deref for Lease {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match &self.cluster {
            Held::Shared(cluster) => cluster,
            Held::Own(cluster) => cluster,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if std::thread::panicking() {
            watchdog::keep();
            eprintln!("Kafka {}: logs and data are kept in {}", self.version, self.dir.display());
            for node in &self.nodes {
                eprintln!("-- node {}:\n{}", node.id, node.log_tail(12));
            }
        }
    }
}

impl Cluster {
    fn start(version: &str, nodes: usize, extra: &[(&str, &str)]) -> Result<Cluster, Unavailable> {
        static CLUSTERS: AtomicU32 = AtomicU32::new(0);
        let install = install::install(version)?;
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let dir = watchdog::folder().join(format!("{version}-{number}"));
        std::fs::create_dir_all(&dir).expect("a folder for the cluster");
        let witness = Witness::start(&install, &dir);
        let nodes: Vec<Node> = (1..=nodes).map(|n| Node::new(id_of(n), &dir, &install)).collect();
        let voters: Vec<String> =
            nodes.iter().map(|n| format!("{}@127.0.0.1:{}", n.id, n.controller_port.number)).collect();
        for node in &nodes {
            node.configure(&voters.join(","), nodes.len(), extra);
            let properties = node.properties_path().display().to_string();
            // Sixteen bytes in base64; every node of a cluster is formatted with the same.
            witness.ask("format", &[&properties, "c3RlYWRmYXN0LXRlc3QtMQ"]);
            node.start();
        }
        let cluster = Cluster { version: version.to_owned(), nodes, witness, dir, files: AtomicU32::new(0) };
        cluster.await_nodes();
        Ok(cluster)
    }

    /// `bootstrap.servers` with all nodes.
    pub fn bootstrap(&self) -> String {
        self.nodes.iter().map(Node::address).collect::<Vec<_>>().join(",")
    }

    /// A proxy before every node, in the order of `nodes`, and the `bootstrap.servers` that lead through them.
    pub fn proxies(&self) -> (Vec<Proxy>, String) {
        let loopback = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let start = |node: &Node| Proxy::start(node.proxy_port.number, loopback(node.proxied_port.number));
        let proxies: Vec<Proxy> = self.nodes.iter().map(start).collect();
        let bootstrap = proxies.iter().map(|p| p.address().to_string()).collect::<Vec<_>>().join(",");
        (proxies, bootstrap)
    }

    /// The node with this id (ids count from 1).
    pub fn node(&self, id: i32) -> &Node {
        self.nodes.iter().find(|n| n.id == id).unwrap_or_else(|| panic!("no node {id}"))
    }

    /// Waits until the brokers that should run are up and none else is counted.
    pub fn await_nodes(&self) {
        let running: Vec<&Node> = self.nodes.iter().filter(|n| n.is_running()).collect();
        let expected = running.iter().map(|n| n.id.to_string()).collect::<Vec<_>>().join(" ");
        wait::until(PATIENCE, &format!("nodes {expected}"), || {
            running.iter().for_each(|n| n.assert_alive());
            let nodes = self.witness.try_ask("nodes", &[&self.bootstrap()]).ok()?;
            (nodes == [expected.as_str()]).then_some(())
        });
    }

    /// Everything runs again, whatever an earlier test left behind.
    pub fn heal(&self) {
        for node in &self.nodes {
            node.resume();
            if !node.is_running() {
                node.start();
            }
        }
        self.await_nodes();
    }

    /// Creates a topic and waits until every partition has a leader and all its replicas in sync.
    pub fn create_topic(&self, topic: &str, partitions: u32, replication: u32, config: &[(&str, &str)]) {
        let config: Vec<String> = config.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let (partitions, replication) = (partitions.to_string(), replication.to_string());
        let bootstrap = self.bootstrap();
        let mut arguments = vec![bootstrap.as_str(), topic, &partitions, &replication];
        arguments.extend(config.iter().map(String::as_str));
        self.witness.ask("create", &arguments);
        self.await_in_sync(topic);
    }

    /// As `create_topic`, with the replicas of each partition; the first one is the preferred leader.
    pub fn create_topic_on(&self, topic: &str, replicas: &[&[i32]], config: &[(&str, &str)]) {
        let config: Vec<String> = config.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let (bootstrap, placement) = (self.bootstrap(), placement(replicas));
        let mut arguments = vec![bootstrap.as_str(), topic, &placement];
        arguments.extend(config.iter().map(String::as_str));
        self.witness.ask("create-placed", &arguments);
        self.await_in_sync(topic);
    }

    pub fn delete_topic(&self, topic: &str) {
        self.witness.ask("delete", &[&self.bootstrap(), topic]);
        wait::until(PATIENCE, &format!("topic {topic} to be gone"), || self.try_describe(topic).err());
    }

    pub fn set_topic_config(&self, topic: &str, name: &str, value: &str) {
        self.witness.ask("topic-config", &[&self.bootstrap(), topic, &format!("{name}={value}")]);
    }

    pub fn describe(&self, topic: &str) -> Vec<Partition> {
        self.try_describe(topic).unwrap_or_else(|error| panic!("describing {topic}: {error}"))
    }

    fn try_describe(&self, topic: &str) -> Result<Vec<Partition>, String> {
        let lines = self.witness.try_ask("describe", &[&self.bootstrap(), topic])?;
        Ok(lines.iter().map(|line| Partition::parse(line)).collect())
    }

    /// Waits until `condition` holds for what the cluster says of the topic.
    pub fn await_topic(
        &self,
        topic: &str,
        what: &str,
        condition: impl Fn(&[Partition]) -> bool,
    ) -> Vec<Partition> {
        wait::until(PATIENCE, &format!("{topic}: {what}"), || {
            let partitions = self.try_describe(topic).ok()?;
            condition(&partitions).then_some(partitions)
        })
    }

    pub fn await_in_sync(&self, topic: &str) {
        self.await_topic(topic, "all replicas in sync", |partitions| {
            partitions.iter().all(|p| p.leader >= 0 && p.isr.len() == p.replicas.len())
        });
    }

    pub fn leader(&self, topic: &str, partition: i32) -> i32 {
        let found = self
            .await_topic(topic, "a leader", |all| all.iter().any(|p| p.index == partition && p.leader > 0));
        found.iter().find(|p| p.index == partition).expect("it is there").leader
    }

    /// Waits until a node other than `former` leads the partition; its id.
    pub fn await_other_leader(&self, topic: &str, partition: i32, former: i32) -> i32 {
        let is_new = |p: &Partition| p.index == partition && p.leader > 0 && p.leader != former;
        let all =
            self.await_topic(topic, &format!("a leader other than {former}"), |all| all.iter().any(is_new));
        all.iter().find(|p| is_new(p)).expect("it was there").leader
    }

    /// Moves every partition to these replicas and waits until that is done.
    pub fn reassign(&self, topic: &str, replicas: &[&[i32]]) {
        self.witness.ask("reassign", &[&self.bootstrap(), topic, &placement(replicas)]);
        wait::until(PATIENCE, &format!("the reassignment of {topic}"), || {
            (self.witness.ask("reassigning", &[&self.bootstrap()]) == ["0"]).then_some(())
        });
    }

    /// The brokers throttle this client's requests to so many bytes a second.
    pub fn set_byte_rate(&self, client_id: &str, bytes_per_second: u32) {
        self.witness.ask("byte-rate", &[&self.bootstrap(), client_id, &bytes_per_second.to_string()]);
    }

    pub fn elect_preferred_leaders(&self, topic: &str) {
        self.witness.ask("elect-preferred", &[&self.bootstrap(), topic]);
    }

    /// The offset after the last record, by partition.
    pub fn end_offsets(&self, topic: &str) -> Vec<i64> {
        let lines = self.witness.ask("ends", &[&self.bootstrap(), topic]);
        lines.iter().map(|l| l.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("an offset")).collect()
    }

    /// All records of the topic, through Kafka's consumer; those of a partition are in order.
    pub fn consume(&self, topic: &str) -> Vec<ConsumedRecord> {
        let file = self.scratch("consumed");
        self.witness.ask("consume", &[&self.bootstrap(), topic, &file.display().to_string()]);
        record::read(&file)
    }

    /// All batches of the topic, read from the leaders' segments by `DumpLogSegments`; those of a partition are in order.
    pub fn dump(&self, topic: &str) -> Vec<Batch> {
        let segments: Vec<PathBuf> =
            self.describe(topic).iter().flat_map(|p| self.node(p.leader).segments(topic, p.index)).collect();
        if segments.is_empty() {
            return Vec::new();
        }
        let list = segments.iter().map(|s| s.display().to_string()).collect::<Vec<_>>().join(",");
        let file = self.scratch("dumped");
        self.witness.ask("dump", &[&list, &file.display().to_string()]);
        dump::read(&file)
    }

    /// The numbered messages of the topic (see `ledger`), which Kafka's consumer and the segments must agree about; every
    /// batch's CRC is right.
    pub fn numbered_log(&self, topic: &str) -> Vec<Found> {
        let number = |partition, offset, value: Option<&str>| {
            let (thread, number) = value.and_then(ledger::parse).expect("a numbered message");
            Found { partition, offset, thread, number }
        };
        let mut dumped = Vec::new();
        for batch in self.dump(topic) {
            assert!(batch.is_valid, "{topic}: the CRC of the batch at {} is wrong", batch.base_offset);
            dumped
                .extend(batch.records.iter().map(|r| number(batch.partition, r.offset, r.value.as_deref())));
        }
        let mut consumed: Vec<Found> = self
            .consume(topic)
            .iter()
            .map(|r| {
                number(r.partition, r.offset, r.value.as_deref().and_then(|v| std::str::from_utf8(v).ok()))
            })
            .collect();
        for list in [&mut dumped, &mut consumed] {
            list.sort_by_key(|found| (found.partition, found.offset));
        }
        assert!(dumped == consumed, "{topic}: the consumer and the segments disagree");
        dumped
    }

    /// Sends these messages with Java's own producer; partition and offset of each.
    pub fn produce_with_java(
        &self,
        topic: &str,
        messages: &[KeyValue],
        properties: &[(&str, &str)],
    ) -> Vec<(i32, i64)> {
        let file = self.scratch("messages");
        let lines: Vec<String> = messages
            .iter()
            .map(|(k, v)| format!("{}\t{}\n", record::hex(k.as_deref()), record::hex(v.as_deref())))
            .collect();
        std::fs::write(&file, lines.concat()).expect("the messages");
        let properties: Vec<String> = properties.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let (bootstrap, path) = (self.bootstrap(), file.display().to_string());
        let mut arguments = vec![bootstrap.as_str(), topic, &path];
        arguments.extend(properties.iter().map(String::as_str));
        let lines = self.witness.ask("produce", &arguments);
        let parse =
            |line: &String| line.split_once(' ').and_then(|(p, o)| Some((p.parse().ok()?, o.parse().ok()?)));
        lines.iter().map(|line| parse(line).expect("partition and offset")).collect()
    }

    fn scratch(&self, what: &str) -> PathBuf {
        self.dir.join(format!("{what}-{}", self.files.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Partition {
    fn parse(line: &str) -> Partition {
        let fields: Vec<&str> = line.split('\t').collect();
        let ids = |list: &str| list.split(',').filter_map(|id| id.parse().ok()).collect();
        Partition {
            index: fields[0].parse().expect("a partition"),
            leader: fields[1].parse().expect("a leader"),
            replicas: ids(fields[2]),
            isr: ids(fields[3]),
        }
    }
}

fn id_of(n: usize) -> i32 {
    i32::try_from(n).expect("few nodes")
}

fn placement(replicas: &[&[i32]]) -> String {
    let one = |ids: &&[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    replicas.iter().map(one).collect::<Vec<_>>().join(";")
}

//! The cluster as a test holds it.

use super::model::fault::{Fault, On, Tail, Times};
use super::model::partition::TopicConfig;
use super::model::request::Api;
use super::model::topics::LoggedMessage;
use super::model::versions::Versions;
use super::model::{Arriving, Model, Options};
use super::server::{Ports, Server};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A Kafka cluster in this process: real brokers on TCP ports of this machine, for producers to produce to.
///
/// Brokers have the ids 1, 2, 3 and so on. Everything ends when this is dropped. The methods panic, saying so, when
/// they are given a broker, topic or partition that does not exist: that is a fault of the test.
pub struct Cluster {
    server: Server,
    brokers: i32,
}

/// A cluster before it starts.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    brokers: i32,
    ports: Vec<u16>,
    topics: Vec<TopicSpec>,
    auto_create: Option<TopicSpec>,
    versions: Versions,
    options: Options,
}

/// A topic and its settings, to be made.
#[derive(Clone, Debug)]
pub struct TopicSpec {
    name: String,
    partitions: i32,
    replication: Option<usize>,
    config: TopicConfig,
}

/// How many requests of each kind came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Produce requests, repeats counted too.
    pub produce: u64,
    /// Metadata requests.
    pub metadata: u64,
    /// `ApiVersions` requests.
    pub api_versions: u64,
    /// `InitProducerId` requests.
    pub init_producer_id: u64,
    /// Connections ever made.
    pub connections: u64,
}

impl TopicSpec {
    /// One partition, on up to three brokers; messages of any time, up to 1 MiB a batch.
    pub fn new(name: &str) -> TopicSpec {
        let config = TopicConfig {
            min_insync_replicas: 1,
            max_message_bytes: 1_048_588,
            log_append_time: false,
            compacted: false,
            timestamp_after_max_ms: None,
        };
        TopicSpec { name: name.to_owned(), partitions: 1, replication: None, config }
    }

    /// So many partitions (default 1).
    #[must_use]
    pub fn partitions(mut self, count: i32) -> TopicSpec {
        self.partitions = count;
        self
    }

    /// Each on so many brokers (default: three, or all where there are fewer).
    #[must_use]
    pub fn replication(mut self, count: usize) -> TopicSpec {
        self.replication = Some(count);
        self
    }

    /// `min.insync.replicas` (default 1): with fewer in sync, messages sent with acks=all are refused with
    /// `NOT_ENOUGH_REPLICAS`.
    #[must_use]
    pub fn min_insync_replicas(mut self, count: usize) -> TopicSpec {
        self.config.min_insync_replicas = count;
        self
    }

    /// `max.message.bytes` (default 1,048,588): larger batches are refused with `MESSAGE_TOO_LARGE`.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> TopicSpec {
        self.config.max_message_bytes = bytes;
        self
    }

    /// `message.timestamp.type=LogAppendTime`: messages get the broker's time.
    #[must_use]
    pub fn log_append_time(mut self) -> TopicSpec {
        self.config.log_append_time = true;
        self
    }

    /// `cleanup.policy=compact`: messages without a key are refused with `INVALID_RECORD`, and named.
    #[must_use]
    pub fn compacted(mut self) -> TopicSpec {
        self.config.compacted = true;
        self
    }

    /// `message.timestamp.after.max.ms` (default: any): messages that are further ahead of the broker's clock are
    /// refused with `INVALID_TIMESTAMP`, and named.
    #[must_use]
    pub fn max_timestamp_ahead(mut self, time: Duration) -> TopicSpec {
        self.config.timestamp_after_max_ms = Some(time.as_millis() as i64);
        self
    }
}

impl From<(&str, i32)> for TopicSpec {
    fn from((name, partitions): (&str, i32)) -> TopicSpec {
        TopicSpec::new(name).partitions(partitions)
    }
}

impl From<&str> for TopicSpec {
    fn from(name: &str) -> TopicSpec {
        TopicSpec::new(name)
    }
}

impl ClusterBuilder {
    /// So many brokers (default 3).
    #[must_use]
    pub fn brokers(mut self, count: i32) -> ClusterBuilder {
        self.brokers = count.max(1);
        self
    }

    /// The brokers' ports (default: whatever is free); as many brokers as ports.
    #[must_use]
    pub fn ports(mut self, ports: &[u16]) -> ClusterBuilder {
        self.brokers = ports.len().max(1) as i32;
        self.ports = ports.to_vec();
        self
    }

    /// With this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<TopicSpec>) -> ClusterBuilder {
        self.topics.push(topic.into());
        self
    }

    /// Topics that somebody asks for come into being (default: they do not), like this one but for its name.
    #[must_use]
    pub fn auto_create(mut self, like: impl Into<TopicSpec>) -> ClusterBuilder {
        self.auto_create = Some(like.into());
        self
    }

    /// What all brokers offer (default: what Kafka 4.4 does).
    #[must_use]
    pub fn versions(mut self, versions: Versions) -> ClusterBuilder {
        self.versions = versions;
        self
    }

    /// How long after a crash the other brokers elect new leaders (default: at once). With Kafka's own settings that
    /// takes up to 9 s.
    #[must_use]
    pub fn failover_after(mut self, time: Duration) -> ClusterBuilder {
        self.options.failover_after = time;
        self
    }

    /// Whether messages are kept, to be read back (default: yes). Without, memory does not grow with what is sent.
    #[must_use]
    pub fn keep_log(mut self, keep: bool) -> ClusterBuilder {
        self.options.keep_log = keep;
        self
    }

    /// Whether each record is looked at as it comes (default: yes); checksums and sequences are, in any case.
    #[must_use]
    pub fn check_records(mut self, check: bool) -> ClusterBuilder {
        self.options.check_records = check;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// A port is taken, or the system refuses a socket or a thread.
    pub fn start(self) -> io::Result<Cluster> {
        let ports = (1..=self.brokers).zip(self.ports.into_iter().chain(std::iter::repeat(0)));
        let ports = Ports::bind(ports)?;
        let mut options = self.options;
        options.auto_create = self.auto_create.map(|spec| (spec.partitions, spec.config));
        let addresses = ports.addresses().map(|(id, address)| (id, address.ip().to_string(), address.port()));
        let mut model = Model::new(options, addresses);
        for id in model.broker_ids() {
            model.broker(id).expect("just made").versions = self.versions.clone();
        }
        let cluster = Cluster { server: Server::start(model, ports)?, brokers: self.brokers };
        for topic in self.topics {
            cluster.create_topic_with(topic);
        }
        Ok(cluster)
    }
}

impl Cluster {
    /// A cluster of so many brokers, without topics.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn start(brokers: i32) -> io::Result<Cluster> {
        Cluster::builder().brokers(brokers).start()
    }

    /// A cluster with settings.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            brokers: 3,
            ports: Vec::new(),
            topics: Vec::new(),
            auto_create: None,
            versions: Versions::kafka_4_4(),
            options: Options::default(),
        }
    }

    /// What belongs into `bootstrap.servers`: all brokers.
    pub fn bootstrap(&self) -> String {
        let addresses: Vec<_> = self.brokers().map(|id| self.address(id).to_string()).collect();
        addresses.join(",")
    }

    /// The brokers' ids.
    pub fn brokers(&self) -> impl Iterator<Item = i32> {
        1..=self.brokers
    }

    /// Where a broker listens, also while it is down.
    pub fn address(&self, broker: i32) -> SocketAddr {
        self.server.address(broker).unwrap_or_else(|| panic!("no broker {broker}"))
    }

    /// Makes a topic, its leaders spread over the brokers.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.create_topic_with((name, partitions));
    }

    /// Makes a topic with settings.
    pub fn create_topic_with(&self, topic: impl Into<TopicSpec>) {
        let TopicSpec { name, partitions, replication, config } = topic.into();
        let mut model = self.server.model();
        let replication = replication.unwrap_or(3);
        assert!(model.create_topic(&name, partitions, replication, config), "there is a topic {name}");
    }

    /// The topics' names, in order.
    pub fn topics(&self) -> Vec<String> {
        self.server.model().topic_names()
    }

    /// Deletes a topic, messages and all. Made anew under its name it has another id.
    pub fn delete_topic(&self, name: &str) {
        assert!(self.server.model().delete_topic(name), "no topic {name}");
    }

    /// More partitions for a topic.
    pub fn add_partitions(&self, name: &str, more: i32) {
        self.server.model().add_partitions(name, more);
    }

    /// The partition's leader.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        self.with_partition(topic, partition, |p| Some(p.leader).filter(|&leader| leader >= 0))
    }

    /// Another broker leads the partition from now on, under a new epoch; `None`: nobody does.
    pub fn move_leader(&self, topic: &str, partition: i32, to: impl Into<Option<i32>>) {
        let to = to.into();
        to.iter().for_each(|&broker| self.check_broker(broker));
        let moved = self.server.model().move_leader(topic, partition, to.unwrap_or(-1));
        assert!(moved, "no partition {partition} of a topic {topic}");
    }

    /// Only these replicas are in sync.
    pub fn set_in_sync(&self, topic: &str, partition: i32, replicas: &[i32]) {
        self.with_partition(topic, partition, |partition| partition.isr = replicas.to_vec());
    }

    /// What the partition remembers of idempotent producers is gone, as after `producer.id.expiration.ms`; with
    /// `log_too` the messages are, as after `retention.ms` (they can still be read back here).
    pub fn forget_producers(&self, topic: &str, partition: i32, log_too: bool) {
        self.with_partition(topic, partition, |partition| partition.forget_producers(log_too));
    }

    /// A broker dies: nobody listens there, its connections are gone, its partitions get other leaders.
    pub fn crash(&self, broker: i32) {
        self.crash_with(broker, Tail::Kept);
    }

    /// A broker dies, with or without what only it had.
    pub fn crash_with(&self, broker: i32, tail: Tail) {
        self.check_broker(broker);
        self.server.crash(broker, tail);
    }

    /// It comes back on its old port, in sync; leaders stay where they are.
    ///
    /// # Errors
    /// Something else took the port. (On Linux the port is kept.)
    pub fn restart(&self, broker: i32) -> io::Result<()> {
        self.check_broker(broker);
        self.server.restart(broker)
    }

    /// A broker reads and answers nothing any more, as if stopped by SIGSTOP; its connections stand, new ones seem to
    /// succeed, and it stays the leader (see [`move_leader`](Cluster::move_leader)).
    pub fn hang(&self, broker: i32) {
        self.check_broker(broker);
        self.server.hang(broker, true).expect("hanging touches no socket");
    }

    /// It goes on where it was, with all that was sent to it meanwhile.
    pub fn resume(&self, broker: i32) {
        self.check_broker(broker);
        self.server.hang(broker, false).expect("the listener of a running broker can be polled");
    }

    /// A broker closes all of its connections.
    pub fn disconnect(&self, broker: i32) {
        self.check_broker(broker);
        self.server.disconnect(broker);
    }

    /// Orders a fault: the requests that it is `on` meet it, so many `times`. Of several the oldest comes first.
    pub fn fault(&self, on: On, times: Times, fault: Fault) {
        if let On::Broker(broker) | On::Requests(broker, _) = on {
            self.check_broker(broker);
        }
        self.server.model().order(on, times, fault);
    }

    /// Takes back what was ordered for exactly these requests.
    pub fn lift(&self, on: &On) {
        self.server.model().lift(on);
    }

    /// Asks `hook` about each batch as it comes: `Some` is done instead of the ordinary. It runs inside the cluster, so
    /// it must not call it.
    pub fn on_produce(&self, hook: impl FnMut(&Arriving<'_>) -> Option<Fault> + Send + 'static) {
        self.server.model().on_produce(Some(Box::new(hook)));
    }

    /// From now on a broker tells its clients in each answer to be quiet for so long, and reads nothing from them
    /// meanwhile; zero ends it.
    pub fn throttle(&self, broker: i32, time: Duration) {
        self.check_broker(broker);
        self.server.model().broker(broker).expect("just checked").throttle = time;
    }

    /// From now on a broker knows nothing of what happens in the cluster, and answers accordingly.
    pub fn hold_view(&self, broker: i32) {
        self.check_broker(broker);
        self.server.model().hold_view(broker);
    }

    /// It knows again.
    pub fn release_view(&self, broker: i32) {
        self.check_broker(broker);
        self.server.model().release_view(broker);
    }

    /// A broker takes `leader` for the leader of this partition, under that epoch, and hears of nothing else until
    /// [`release_view`](Cluster::release_view).
    pub fn mislead(&self, broker: i32, topic: &str, partition: i32, leader: i32, leader_epoch: i32) {
        self.check_broker(broker);
        self.server.model().mislead(broker, topic, partition, leader, leader_epoch);
    }

    /// What a broker offers from now on; connections that stand are closed, as by an upgrade.
    pub fn set_versions(&self, broker: i32, versions: Versions) {
        self.check_broker(broker);
        self.server.model().broker(broker).expect("just checked").versions = versions;
        self.server.disconnect(broker);
    }

    /// Under which address the others name a broker (default: its own): for one that can't be reached there.
    pub fn advertise(&self, broker: i32, host: &str, port: u16) {
        self.check_broker(broker);
        let mut model = self.server.model();
        let broker = model.broker(broker).expect("just checked");
        (broker.host, broker.port) = (host.to_owned(), i32::from(port));
    }

    /// All messages of a topic: partition by partition, in order of offsets.
    pub fn messages(&self, topic: &str) -> Vec<LoggedMessage> {
        let partitions = self.server.model().topic(topic).map(|topic| topic.partitions.len());
        let partitions = partitions.unwrap_or_else(|| panic!("no topic {topic}"));
        (0..partitions as i32).flat_map(|partition| self.messages_of(topic, partition)).collect()
    }

    /// The messages of a partition, in order of offsets.
    pub fn messages_of(&self, topic: &str, partition: i32) -> Vec<LoggedMessage> {
        let messages = self.with_partition(topic, partition, |p| p.messages(topic, partition));
        messages.unwrap_or_else(|(offset, defect)| {
            panic!("the batch at offset {offset} of {topic}-{partition} can't be read: {}", defect.what)
        })
    }

    /// The offset that the partition's next message will get.
    pub fn end_offset(&self, topic: &str, partition: i32) -> i64 {
        self.with_partition(topic, partition, |partition| partition.end)
    }

    /// Messages appended so far, all topics together; what came twice and was recognised counts once.
    pub fn appended(&self) -> u64 {
        self.server.model().appended
    }

    /// What producers did that the protocol forbids (wrong checksums, counts or timestamps, versions that were not
    /// offered, ...), in words: the first hundred. Empty for any producer that does as it should.
    pub fn violations(&self) -> Vec<String> {
        self.server.model().violations.clone()
    }

    /// What came to all brokers together.
    pub fn requests(&self) -> Requests {
        self.brokers().map(|broker| self.requests_to(broker)).fold(Requests::default(), |a, b| Requests {
            produce: a.produce + b.produce,
            metadata: a.metadata + b.metadata,
            api_versions: a.api_versions + b.api_versions,
            init_producer_id: a.init_producer_id + b.init_producer_id,
            connections: a.connections + b.connections,
        })
    }

    /// What came to one broker.
    pub fn requests_to(&self, broker: i32) -> Requests {
        self.check_broker(broker);
        let (_, connections) = self.server.connections(broker);
        let model = self.server.model();
        let count = |api| model.counts.get(&(broker, api)).copied().unwrap_or(0);
        Requests {
            produce: count(Api::Produce),
            metadata: count(Api::Metadata),
            api_versions: count(Api::ApiVersions),
            init_producer_id: count(Api::InitProducerId),
            connections,
        }
    }

    /// Connections that stand now.
    pub fn connections(&self, broker: i32) -> usize {
        self.check_broker(broker);
        self.server.connections(broker).0
    }

    fn check_broker(&self, broker: i32) {
        assert!((1..=self.brokers).contains(&broker), "no broker {broker}: there are 1 to {}", self.brokers);
    }

    fn with_partition<T>(
        &self,
        topic: &str,
        partition: i32,
        work: impl FnOnce(&mut super::model::partition::Partition) -> T,
    ) -> T {
        let mut model = self.server.model();
        let found = model.partition(topic, partition);
        work(found.unwrap_or_else(|| panic!("no partition {partition} of a topic {topic}")))
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cluster({})", self.bootstrap())
    }
}

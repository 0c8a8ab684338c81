//! The embedded cluster answers as Kafka does: the same requests to both, and the same answers.

#[path = "../embedded/client.rs"]
#[allow(dead_code, unreachable_pub)]
mod client;

use super::support::kafka;
use bytes::Bytes;
use client::{batch, metadata, produce, Batch, Connection};
use kafka_protocol::messages::{ApiVersionsRequest, InitProducerIdRequest, ProduceRequest};
use std::net::SocketAddr;
use std::time::Duration;
use steadfast::testing::{Cluster, TopicSpec};

const TIMESTAMP: i64 = 1_700_000_000_000;

/// Plays the script on a broker that has the topics; what it answered, line by line.
struct Script {
    address: SocketAddr,
    connection: Connection,
    /// Names are different from run to run.
    prefix: String,
    producer_id: i64,
    lines: Vec<String>,
}

impl Script {
    fn play(address: SocketAddr, prefix: &str) -> Vec<String> {
        let connection = Connection::open(address);
        let prefix = prefix.to_owned();
        let mut script = Script { address, connection, prefix, producer_id: -1, lines: Vec::new() };
        script.producer_id = script.new_producer();
        script.sequences();
        script.forgotten_sequences();
        script.validation();
        script.damage();
        script.lookups();
        script.lines
    }

    fn say(&mut self, what: &str, answer: impl std::fmt::Display) {
        self.lines.push(format!("{what}: {answer}"));
    }

    fn new_producer(&mut self) -> i64 {
        for _ in 0..100 {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(60_000);
            let answer = self.connection.call(&request, 4).expect("an answer");
            match answer.error_code {
                0 => return answer.producer_id.0,
                // A young cluster has none to give yet.
                14 | 15 => std::thread::sleep(Duration::from_millis(100)),
                other => panic!("no producer id: {other}"),
            }
        }
        panic!("no producer id within 10 s");
    }

    fn send(&mut self, what: &str, topic: &str, batch: &Batch) {
        self.send_bytes(what, topic, batch.encode(), 9);
    }

    fn send_bytes(&mut self, what: &str, topic: &str, bytes: Bytes, version: i16) {
        let request = produce(&format!("{}{topic}", self.prefix), 0, bytes, -1);
        self.ask(what, &request, version);
    }

    fn ask(&mut self, what: &str, request: &ProduceRequest, version: i16) {
        let Some(response) = self.connection.call(request, version) else {
            self.connection = Connection::open(self.address);
            return self.say(what, "closed");
        };
        let answer = &response.responses[0].partition_responses[0];
        let time = match answer.log_append_time_ms {
            -1 => "none".to_owned(),
            time if time < TIMESTAMP + 1_000_000 => format!("base+{}", time - TIMESTAMP),
            _ => "now".to_owned(),
        };
        let named: Vec<_> = answer.record_errors.iter().map(|error| error.batch_index).collect();
        let line = format!(
            "code {} offset {} time {time} start {} named {named:?} words {}",
            answer.error_code,
            answer.base_offset,
            answer.log_start_offset,
            answer.error_message.is_some(),
        );
        self.say(what, line);
    }

    fn sequences(&mut self) {
        let id = self.producer_id;
        let by = |epoch, sequence, count| batch(count).by(id, epoch, sequence);
        self.send("first", "plain", &by(0, 0, 2));
        self.send("the same again", "plain", &by(0, 0, 2));
        self.send("next", "plain", &by(0, 2, 3));
        self.send("the first once more", "plain", &by(0, 0, 2));
        self.send("a part of a known one", "plain", &by(0, 2, 1));
        self.send("a gap", "plain", &by(0, 7, 1));
        self.send("a new epoch that does not begin at 0", "plain", &by(1, 5, 1));
        self.send("a new epoch", "plain", &by(1, 0, 1));
        self.send("the old epoch", "plain", &by(0, 5, 1));
        self.send("without an id", "plain", &batch(2));
        self.send("the broker's time", "appended", &by(1, 0, 2));
        self.send("the same again", "appended", &by(1, 0, 2));
    }

    fn forgotten_sequences(&mut self) {
        let id = self.new_producer();
        for number in 0..7 {
            self.send("any first one", "plain", &batch(2).by(id, 3, 40 + 2 * number));
        }
        for number in 0..7 {
            self.send("one of the last five, or not", "plain", &batch(2).by(id, 3, 40 + 2 * number));
        }
        let id = self.new_producer();
        self.send("up to the largest", "plain", &batch(3).by(id, 0, i32::MAX - 1));
        self.send("behind it", "plain", &batch(1).by(id, 0, 1));
    }

    fn validation(&mut self) {
        let mut keyless = batch(4);
        (keyless.records[1].0, keyless.records[3].0) = (None, None);
        for version in [7, 8, 9] {
            self.send_bytes("without keys", "compacted", keyless.encode(), version);
        }
        self.send("with keys", "compacted", &batch(2));
        self.send("too large", "small", &batch(40));
        self.send("small enough", "small", &batch(2));
        let mut early = batch(3);
        early.timestamp = 4_000_000_000_000;
        self.send("ahead of its time", "plain", &early);
        let name = format!("{}plain", self.prefix);
        for acks in [1, 5] {
            self.ask("acks", &produce(&name, 0, batch(1).encode(), acks), 9);
        }
    }

    fn damage(&mut self) {
        let whole = batch(2).encode();
        let twice = [&whole[..], &whole[..]].concat();
        self.send_bytes("nothing", "plain", Bytes::new(), 9);
        self.send_bytes("two batches", "plain", twice.into(), 9);
        let mut torn = whole.to_vec();
        let at = torn.len() - 2;
        torn[at] = b'?';
        self.send_bytes("damaged", "plain", torn.into(), 9);
        // Header fields that don't fit the records, the checksum made right again.
        for (what, at, value) in [("count", 60, 3), ("last offset delta", 26, 4), ("control batch", 22, 0x20)]
        {
            let mut bytes = whole.to_vec();
            bytes[at] = value;
            let crc = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            self.send_bytes(what, "plain", bytes.into(), 9);
        }
    }

    fn lookups(&mut self) {
        let name = format!("{}plain", self.prefix);
        self.ask("no such partition", &produce(&name, 9, batch(1).encode(), -1), 9);
        self.send("no such topic", "missing", &batch(1));
        let answer = self.connection.call(&metadata(&["bad/name", "missing-for-good"], false), 9);
        let topics = answer.expect("an answer").topics;
        let mut codes: Vec<_> = topics.iter().map(|topic| topic.error_code).collect();
        codes.sort_unstable();
        self.say("metadata", format!("{codes:?}"));
        // Without acks a failure closes the connection.
        let silent = produce(&format!("{}missing", self.prefix), 0, batch(1).encode(), 0);
        self.connection.send(&silent, 9);
        let closed = self.connection.frame().is_none();
        self.say("failure without acks", format!("closed {closed}"));
        self.connection = Connection::open(self.address);
        let versions = self.connection.call(&ApiVersionsRequest::default(), 0).expect("an answer");
        let range = |key| {
            let found = versions.api_keys.iter().find(|range| range.api_key == key);
            found.map(|range| (range.min_version, range.max_version))
        };
        self.say("ranges", format!("{:?}", [range(0), range(3), range(22)]));
    }
}

#[test]
fn the_embedded_cluster_answers_as_kafka_does() {
    let Some(kafka) = kafka::one() else { return };
    let prefix = "model-";
    kafka.create_topic("model-plain", 1, 1, &[]);
    kafka.create_topic("model-appended", 1, 1, &[("message.timestamp.type", "LogAppendTime")]);
    kafka.create_topic("model-compacted", 1, 1, &[("cleanup.policy", "compact")]);
    kafka.create_topic("model-small", 1, 1, &[("max.message.bytes", "500")]);
    let real = Script::play(kafka.bootstrap().parse().expect("one address"), prefix);
    let hour = Duration::from_secs(3600);
    let topic = |name| TopicSpec::new(name).max_timestamp_ahead(hour);
    let embedded = Cluster::builder()
        .brokers(1)
        .topic(topic("model-plain"))
        .topic(topic("model-appended").log_append_time())
        .topic(topic("model-compacted").compacted())
        .topic(topic("model-small").max_message_bytes(500))
        .start()
        .expect("a cluster");
    let ours = Script::play(embedded.address(1), prefix);
    let different: Vec<_> = real.iter().zip(&ours).filter(|(real, ours)| real != ours).collect();
    assert!(different.is_empty(), "Kafka and the embedded cluster: {different:#?}");
    assert_eq!(real.len(), ours.len());
}

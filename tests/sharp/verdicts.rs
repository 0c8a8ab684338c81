//! Whatever happens to brokers and connections, and whenever the producer is stopped: each accepted message has exactly one
//! verdict, and the verdict is true of the log.

use crate::harness::*;
use crate::ledger::{parse, value, Found, Ledger, Verdict};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::testing::{Api, Cluster, Fault, On, Tail, Times, TopicSpec, Versions};
use steadfast::{
    Acks, Cause, Codec, Config, Delivered, Dropped, ErrorCode, Fate, Idempotence, Message, Producer, Receipt,
    RetryAmbiguous, SendError,
};

const PARTITIONS: i32 = 4;
const THREADS: u32 = 3;
const TOPICS: [&str; 2] = ["one", "two"];

/// One run, all of it drawn from its seed.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    idempotent: bool,
    acks: Acks,
    ambiguous: RetryAmbiguous,
    /// What the brokers are, and what some of them become meanwhile.
    versions: [usize; 2],
    codec: Codec,
    retries: Option<u32>,
    delivery_timeout: Duration,
    buffer_bytes: u64,
    batch_bytes: usize,
    callback: bool,
    /// How long messages are sent and faults happen.
    length: Duration,
    /// How long the stop may take.
    stop: Duration,
}

impl Plan {
    fn draw(seed: u64, idempotent: bool) -> Plan {
        let mut rng = fastrand::Rng::with_seed(seed);
        let pick = |rng: &mut fastrand::Rng, of: &[u64]| of[rng.usize(..of.len())];
        // Without optimisation a codec takes a millisecond for the smallest batch.
        let codec = [Codec::None, Codec::None, Codec::Lz4, Codec::Snappy][rng.usize(..4)];
        let smallest = if codec == Codec::None { 1 } else { 10_000 };
        Plan {
            seed,
            idempotent,
            // Idempotence needs all.
            acks: if idempotent { Acks::All } else { [Acks::All, Acks::One, Acks::Zero][rng.usize(..3)] },
            ambiguous: [RetryAmbiguous::Auto, RetryAmbiguous::Never][rng.usize(..2)],
            versions: [rng.usize(..VERSIONS.len()), rng.usize(..3)],
            codec,
            // Idempotence needs a retry.
            retries: [None, Some(5), Some(1), Some(u32::from(idempotent))][rng.usize(..4)],
            delivery_timeout: ms(pick(&mut rng, &[600, 1500, 10_000])),
            buffer_bytes: pick(&mut rng, &[64 << 10, 1 << 20]),
            batch_bytes: pick(&mut rng, &[smallest, 2_000, 20_000, 1_000_000]) as usize,
            callback: rng.bool(),
            length: ms(rng.u64(500..1500)),
            stop: ms(pick(&mut rng, &[0, 5, 100, 15_000])),
        }
    }

    fn config(&self, cluster: &Cluster) -> Config {
        Config::new(cluster.bootstrap())
            .enable_idempotence(if self.idempotent { Idempotence::Required } else { Idempotence::Off })
            .acks(self.acks)
            .retry_ambiguous(self.ambiguous)
            .compression(self.codec)
            .batch_retries_limit(self.retries)
            .batch_retry_backoff(ms(5))
            .batch_retry_backoff_max(ms(100))
            .reconnect_backoff(ms(5))
            .reconnect_backoff_max(ms(50))
            .connection_setup_timeout(ms(400))
            .connection_setup_timeout_max(ms(800))
            .request_timeout(ms(400))
            .delivery_timeout(self.delivery_timeout)
            .buffer_bytes(self.buffer_bytes)
            .batch_bytes(self.batch_bytes)
            .linger(ms(1))
            .max_block(ms(200))
    }
}

/// What brokers there are: the first three offer all that a stamped batch may need.
const VERSIONS: [fn() -> Versions; 5] = [
    Versions::kafka_4_4,
    Versions::kafka_3_9,
    Versions::kafka_2_8,
    Versions::kafka_1_1,
    Versions::kafka_0_11,
];

/// Something goes wrong. What hangs or is down comes back with one of the next steps, or at the end.
fn cause_fault(cluster: &Cluster, plan: &Plan, rng: &mut fastrand::Rng) {
    let (topic, partition) = (TOPICS[rng.usize(..TOPICS.len())], rng.i32(0..PARTITIONS));
    let (broker, other) = (rng.i32(1..=3), rng.i32(1..=3));
    let on = On::partition(topic, partition);
    let times = Times::Next(rng.u32(1..4));
    let asked = On::Requests(broker, OTHER_CALLS[rng.usize(..OTHER_CALLS.len())]);
    let refusals = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::KafkaStorageError,
        ErrorCode::MessageTooLarge,
        ErrorCode::PolicyViolation,
        ErrorCode::CorruptMessage,
        ErrorCode::ThrottlingQuotaExceeded,
    ];
    match rng.u32(..34) {
        0 | 1 => cluster.fault(on, times, Fault::close_before()),
        2 | 3 => cluster.fault(on, times, Fault::close_after()),
        4 => cluster.fault(on, Times::Once, Fault::lose_response()),
        5 => cluster.fault(on, Times::Once, Fault::swallow()),
        6 => cluster.fault(on, Times::Once, Fault::late(ms(rng.u64(1..400)))),
        7 => cluster.fault(on, times, Fault::delay(ms(rng.u64(1..100)))),
        8 | 9 => cluster.fault(on, times, Fault::error(refusals[rng.usize(..refusals.len())])),
        10 => cluster.fault(on, times, Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend)),
        11 => cluster.fault(on, times, Fault::error_after_append(ErrorCode::RequestTimedOut)),
        12 => cluster.fault(on, Times::Once, Fault::cut_answer(rng.usize(1..40))),
        13 => cluster.fault(on, Times::Once, Fault::hostile_body(&[0xff; 9])),
        14 => cluster.disconnect(broker),
        15 => cluster.move_leader(topic, partition, other),
        16 => cluster.move_leader(topic, partition, None),
        17 => cluster.crash_with(broker, Tail::Kept),
        18 => cluster.hang(broker),
        19 => cluster.throttle(broker, ms(rng.u64(1..80))),
        20 => cluster.hold_view(broker),
        21 if plan.versions[0] < 3 => cluster.set_versions(broker, VERSIONS[plan.versions[1]]()),
        22 => cluster.fault(asked, times, Fault::close_before()),
        23 => cluster.fault(asked, times, Fault::error(refusals[rng.usize(..refusals.len())])),
        24 => cluster.fault(asked, Times::Once, Fault::lose_response()),
        25 => cluster.fault(asked, Times::Once, Fault::delay(ms(rng.u64(1..400)))),
        _ => heal(cluster),
    }
}

/// Everybody is there again, and every partition has a leader.
fn heal(cluster: &Cluster) {
    for broker in cluster.brokers() {
        cluster.resume(broker);
        cluster.throttle(broker, Duration::ZERO);
        cluster.release_view(broker);
        cluster.restart(broker).expect("its port is kept for it");
    }
    for topic in TOPICS {
        for partition in 0..PARTITIONS {
            if cluster.leader(topic, partition).is_none() {
                cluster.move_leader(topic, partition, partition % 3 + 1);
            }
        }
    }
}

/// What is asked besides Produce.
const OTHER_CALLS: [Api; 3] = [Api::Metadata, Api::ApiVersions, Api::InitProducerId];

fn lift(cluster: &Cluster) {
    for broker in cluster.brokers() {
        OTHER_CALLS.iter().for_each(|&api| cluster.lift(&On::Requests(broker, api)));
    }
    for topic in TOPICS {
        (0..PARTITIONS).for_each(|partition| cluster.lift(&On::partition(topic, partition)));
    }
}

/// What one thread sent.
struct Sent {
    thread: u32,
    /// Calls of which not all verdicts were looked at yet: topic and number of the first message.
    open: Vec<(usize, u64, Receipt)>,
    /// Topic, number and verdict.
    settled: Vec<(usize, u64, Result<Delivered, Dropped>)>,
    messages: u64,
}

impl Sent {
    fn new(thread: u32) -> Sent {
        Sent { thread, open: Vec::new(), settled: Vec::new(), messages: 0 }
    }

    /// Takes the verdicts that are there. What a receipt of dropped messages holds counts as buffered until then.
    fn take_verdicts(&mut self) {
        for (topic, first, receipt) in self.open.extract_if(.., |(.., receipt)| receipt.is_settled()) {
            let results = receipt.results().map(|result| result.expect("settled"));
            self.settled.extend((first..).zip(results).map(|(number, result)| (topic, number, result)));
        }
    }
}

fn length_of(number: u64) -> usize {
    (number * 37 % 400) as usize
}

/// Keyed, unkeyed and to explicit partitions; one by one and many at once.
fn send(producer: &Producer, thread: u32, seed: u64) -> Sent {
    let mut rng = fastrand::Rng::with_seed(seed ^ u64::from(thread) << 32);
    let mut sent = Sent::new(thread);
    loop {
        let topic = rng.usize(..TOPICS.len());
        let count = [1, 1, 2, 7, 40][rng.usize(..5)];
        let first = sent.messages;
        let values: Vec<String> =
            (first..first + count).map(|number| value(thread, number, length_of(number))).collect();
        let key = rng.u8(..).to_string();
        let partition = rng.i32(0..PARTITIONS);
        let kind = rng.u32(..3);
        let messages = values.iter().map(|value| {
            let message = Message::new(value.as_bytes());
            match kind {
                0 => message,
                1 => Message { key: Some(key.as_bytes()), ..message },
                _ => Message { partition: Some(partition), ..message },
            }
        });
        let result = match rng.bool() {
            true => producer.send_messages(TOPICS[topic], messages),
            false => producer.try_send_messages(TOPICS[topic], messages),
        };
        match result {
            Ok(receipt) => {
                sent.open.push((topic, first, receipt));
                sent.messages += count;
            }
            // These numbers are used again: they must not be in the log twice.
            Err(SendError::BufferFull { .. }) => {
                sent.take_verdicts();
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(SendError::Stopped) => return sent,
            Err(error) => panic!("{error}"),
        }
        if rng.u32(..4) == 0 {
            std::thread::sleep(Duration::from_micros(rng.u64(..2000)));
        }
    }
}

/// When everything is well again every partition takes messages.
fn deliver_everywhere(cluster: &Cluster, producer: &Producer) -> Sent {
    let mut sent = Sent::new(THREADS);
    for (topic, partition) in (0..TOPICS.len()).flat_map(|topic| (0..PARTITIONS).map(move |p| (topic, p))) {
        let start = Instant::now();
        loop {
            let number = sent.messages;
            let text = value(THREADS, number, length_of(number));
            let message = Message { partition: Some(partition), ..Message::new(text.as_bytes()) };
            // The other senders go on: there may be no room at the moment.
            let told = match producer.send(TOPICS[topic], message) {
                Err(full) => full.to_string(),
                Ok(receipt) => {
                    let result = receipt.wait_timeout(15 * SECOND);
                    sent.open.push((topic, number, receipt));
                    sent.take_verdicts();
                    sent.messages += 1;
                    match result {
                        Ok(_) => break,
                        Err(error) => error.to_string(),
                    }
                }
            };
            let (name, status, stats) = (TOPICS[topic], producer.status(), producer.stats());
            let leader = cluster.leader(name, partition);
            assert!(
                start.elapsed() < 15 * SECOND,
                "{name}-{partition} (leader {leader:?}): {told}: {status:#?} {stats:#?}"
            );
        }
    }
    sent
}

fn verdict(plan: &Plan, result: &Result<Delivered, Dropped>, topic: &str, sent: &str) -> Verdict {
    match result {
        Ok(delivered) => {
            assert_eq!(&*delivered.topic, topic);
            if plan.acks == Acks::Zero {
                assert_eq!(delivered.offset, None);
                return Verdict::Unknown("written to the socket".to_owned());
            }
            Verdict::Delivered { partition: delivered.partition, offset: delivered.offset }
        }
        Err(dropped) => {
            assert_eq!(
                dropped.message.value.as_deref(),
                Some(sent.as_bytes()),
                "its bytes come back: {dropped}"
            );
            assert_eq!((&*dropped.message.topic, &*dropped.error.topic), (topic, topic));
            match dropped.error.fate {
                Fate::NotWritten => Verdict::NotWritten(dropped.to_string()),
                Fate::Unknown => Verdict::Unknown(dropped.to_string()),
            }
        }
    }
}

/// One ledger for each topic, and how many drops the stop is to blame for.
fn judge(plan: &Plan, all: &[Sent]) -> ([Ledger; 2], u64) {
    let mut ledgers = [Ledger::default(), Ledger::default()];
    let mut stopped = 0;
    for sent in all {
        for (topic, number, result) in &sent.settled {
            if let Err(Dropped { error, .. }) = &result {
                stopped += u64::from(matches!(error.cause, Cause::Stopped { .. }));
            }
            let value = value(sent.thread, *number, length_of(*number));
            ledgers[*topic].record(sent.thread, *number, verdict(plan, result, TOPICS[*topic], &value));
        }
    }
    (ledgers, stopped)
}

/// The log, each message compared with what was sent under its number.
fn found(cluster: &Cluster, topic: &str) -> Vec<Found> {
    let found = cluster.messages(topic).into_iter().map(|message| {
        let text = String::from_utf8(message.value.expect("a value")).expect("as it was sent");
        let (thread, number) = parse(&text).expect("numbered");
        assert_eq!(text, value(thread, number, length_of(number)), "other bytes than were sent");
        Found { partition: message.partition, offset: message.offset, thread, number }
    });
    found.collect()
}

/// Without idempotence what nobody answered may come late, after what was sent behind it; what is delivered is in order.
fn without(log: Vec<Found>, unknown: &HashSet<(u32, u64)>) -> Vec<Found> {
    log.into_iter().filter(|found| !unknown.contains(&(found.thread, found.number))).collect()
}

fn run(plan: &Plan) -> u64 {
    let mut builder = Cluster::builder().brokers(3).versions(VERSIONS[plan.versions[0]]());
    for topic in TOPICS {
        builder = builder.topic(TopicSpec::new(topic).partitions(PARTITIONS));
    }
    let cluster = builder.start().expect("a cluster");
    let told = Arc::new(AtomicU64::new(0));
    let mut builder = Producer::builder(plan.config(&cluster));
    if plan.callback {
        let told = told.clone();
        builder = builder.on_delivery(move |run| {
            told.fetch_add(run.len() as u64, Relaxed);
        });
    }
    let producer = builder.start().expect("a producer");
    let stopped = AtomicBool::new(false);
    let (mut all, report) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let producer = producer.clone();
                    move || send(&producer, thread, plan.seed)
                })
            })
            .collect();
        let faults = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(plan.seed);
            while !stopped.load(Relaxed) {
                std::thread::sleep(ms(rng.u64(1..60)));
                cause_fault(&cluster, plan, &mut rng);
            }
            heal(&cluster);
            lift(&cluster);
        });
        let start = Instant::now();
        while start.elapsed() < plan.length {
            // In the middle of everything.
            let _ = producer.flush(ms(20));
            let (stats, status) = (producer.stats(), producer.status());
            assert!(stats.bytes_queued <= plan.buffer_bytes, "{stats:?}");
            assert!(stats.delivered + stats.dropped <= stats.accepted, "{stats:?}");
            assert_eq!(status.closed, None);
        }
        let mut faults = Some(faults);
        let mut all = Vec::new();
        if plan.stop > SECOND {
            stopped.store(true, Relaxed);
            if let Some(faults) = faults.take() {
                faults.join().expect("the faults");
            }
            all.push(deliver_everywhere(&cluster, &producer));
        }
        let (report, took, late) = timed(|| producer.stop(plan.stop));
        assert!(took <= plan.stop + ms(200) + late, "{took:?}, on a machine that is {late:?} late");
        stopped.store(true, Relaxed);
        all.extend(senders.into_iter().map(|sender| sender.join().expect("a sender")));
        if let Some(faults) = faults.take() {
            faults.join().expect("the faults");
        }
        // A worker that got no core in time told nothing yet of what it left.
        let report = if report.left.is_empty() { producer.stop(10 * SECOND) } else { report };
        (all, report)
    });
    all.iter_mut().for_each(Sent::take_verdicts);
    assert!(
        all.iter().all(|sent| sent.open.is_empty()),
        "the producer has stopped, and messages have no verdict"
    );
    let (ledgers, left) = judge(plan, &all);
    let messages: u64 = all.iter().map(|sent| sent.messages).sum();
    let stats = producer.stats();
    assert_eq!(stats.accepted, messages);
    assert_eq!(stats.delivered + stats.dropped, messages, "{stats:?}");
    assert_eq!((report.left_count, report.left.len() as u64), (left, left), "{report:?}");
    for (topic, ledger) in TOPICS.iter().zip(&ledgers) {
        let log = found(&cluster, topic);
        let outcome = match plan.idempotent {
            true => ledger.check_exactly_once(&log),
            false => ledger.check_at_least_once(&without(log, &unknown(plan, &all, topic))),
        };
        outcome.assert_kept(&format!("{plan:?}, {topic}, {report:?}"));
    }
    drop((report, ledgers, all));
    if plan.callback {
        // The callback may be behind when the stop's time is over, but not for long.
        until(5 * SECOND, "the callback has heard of all", || (told.load(Relaxed) == messages).then_some(()));
    }
    until(5 * SECOND, "the budget is back", || (producer.stats().bytes_queued == 0).then_some(()));
    let mut violations = cluster.violations();
    // A request may be on its way while its broker becomes another.
    violations.retain(|what| plan.versions[0] >= 3 || !what.contains("does not offer"));
    assert!(violations.is_empty(), "{violations:?}");
    println!(
        "{plan:?}: {messages} messages, {} delivered, {} dropped {:?}, {} retries, {} bumps",
        stats.delivered, stats.dropped, stats.dropped_by_cause, stats.retries, stats.epoch_bumps
    );
    stats.delivered
}

/// Messages of a topic of which nobody can say whether, or when, they are in the log.
fn unknown(plan: &Plan, all: &[Sent], topic: &str) -> HashSet<(u32, u64)> {
    let is_unknown = |result: &Result<Delivered, Dropped>| match result {
        Ok(_) => plan.acks == Acks::Zero,
        Err(dropped) => dropped.error.fate == Fate::Unknown,
    };
    let all = all.iter().flat_map(|sent| sent.settled.iter().map(|settled| (sent.thread, settled)));
    let of_topic = all.filter(|(_, (at, _, result))| TOPICS[*at] == topic && is_unknown(result));
    of_topic.map(|(thread, (_, number, _))| (thread, *number)).collect()
}

/// So many seeds, or those that are asked for: `STEADFAST_SHARP_SEED=17` or `STEADFAST_SHARP_SEEDS=1000`.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("STEADFAST_SHARP_SEED"), number("STEADFAST_SHARP_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..count,
    }
}

fn every_message_has_one_true_verdict(idempotent: bool) {
    let mut delivered = 0;
    for seed in seeds(6) {
        let plan = Plan::draw(seed, idempotent);
        delivered += within(40 * SECOND, &format!("{plan:?}"), move || run(&plan));
    }
    assert!(delivered > 0, "all of it was for nothing");
}

#[test]
fn every_message_has_one_true_verdict_with_idempotence() {
    every_message_has_one_true_verdict(true);
}

#[test]
fn every_message_has_one_true_verdict_without_idempotence() {
    every_message_has_one_true_verdict(false);
}

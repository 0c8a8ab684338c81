//! Three nodes, acks=all, several threads that send all the while, and everything that can happen to a partition's leader.
//!
//! Each fault meets three producers at once, with topics on the same leaders: one with idempotence, which must deliver every
//! message once; one without, which must lose nothing and keep the order; and one that neither has idempotence nor sends
//! again what may have been written, whose verdicts must say exactly what may be there.

use crate::client::{producer, Outcome, Traffic};
use crate::support::kafka::{self, Batch, Cluster};
use crate::support::ledger::{Found, Report};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Each node leads one partition.
const SPREAD: [&[i32]; 3] = [&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]];

/// What an attempt can come to that leaves open whether it was written. (A leader that loses its office while it waits for the
/// replicas says so with the same code as one that had lost it before.)
const AMBIGUOUS: [&str; 6] = [
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "disconnected",
    "request timeout",
];

/// The three producers at work.
pub struct Fleet<'a> {
    cluster: &'a Cluster,
    name: String,
    idempotent: Traffic,
    plain: Traffic,
    cautious: Traffic,
}

impl<'a> Fleet<'a> {
    /// `bootstrap` is the cluster's, or leads through proxies.
    pub fn start(cluster: &'a Cluster, name: &str, bootstrap: &str) -> Fleet<'a> {
        let start = |kind: &str, threads: u32, properties: &[(&str, &str)]| {
            let topic = format!("{name}-{kind}");
            cluster.create_topic_on(&topic, &SPREAD, &[("min.insync.replicas", "2")]);
            let mut all = vec![("request.timeout.ms", "2500")];
            all.extend(properties);
            Traffic::start(producer(bootstrap, &all), &topic, threads)
        };
        let fleet = Fleet {
            cluster,
            name: name.to_owned(),
            idempotent: start("idempotent", 4, &[("enable.idempotence", "required")]),
            plain: start("plain", 2, &[("enable.idempotence", "false")]),
            cautious: start("cautious", 2, &[("enable.idempotence", "false"), ("retry_ambiguous", "never")]),
        };
        fleet.await_delivered(300);
        fleet
    }

    pub fn topics(&self) -> [String; 3] {
        ["idempotent", "plain", "cautious"].map(|kind| format!("{}-{kind}", self.name))
    }

    fn all(&self) -> [&Traffic; 3] {
        [&self.idempotent, &self.plain, &self.cautious]
    }

    /// Each of them goes on delivering.
    pub fn await_delivered(&self, more: u64) {
        let goals = self.all().map(|traffic| traffic.producer.stats().delivered + more);
        for (traffic, goal) in self.all().into_iter().zip(goals) {
            traffic.await_stats(&format!("{more} more messages delivered"), |stats| stats.delivered >= goal);
        }
    }

    /// Waits until each of them has an attempt that nobody answered.
    pub fn await_unanswered(&self) {
        for traffic in self.all() {
            traffic.await_stats("an unanswered attempt", |stats| {
                ambiguous(&stats.retries_by_code) + stats.dropped > 0
            });
        }
    }

    pub fn await_in_sync(&self) {
        for topic in self.topics() {
            self.cluster.await_in_sync(&topic);
        }
    }

    /// Waits until the partition that `former` led has another leader, in all topics; its id.
    pub fn await_other_leader(&self, partition: i32, former: i32) -> i32 {
        self.topics().map(|topic| self.cluster.await_other_leader(&topic, partition, former))[0]
    }

    /// Stops the senders and holds all that was promised against the log.
    pub fn check(self) {
        let [idempotent_topic, plain_topic, cautious_topic] = self.topics();
        let mut summary = String::new();
        let outcome = self.idempotent.finish();
        let report = outcome.ledger.check_exactly_once(&self.cluster.numbered_log(&idempotent_topic));
        told(&mut summary, "idempotent", &report, &outcome);
        report.assert_kept(&summary);
        assert_eq!(report.delivered, report.sent, "{summary}");
        check_sequences(&self.cluster.dump(&idempotent_topic));

        let outcome = self.plain.finish();
        let log = self.cluster.numbered_log(&plain_topic);
        let report = outcome.ledger.check_at_least_once(&log);
        told(&mut summary, "plain", &report, &outcome);
        report.assert_kept(&summary);
        assert_eq!(report.delivered, report.sent, "{summary}");
        // A batch is there twice only if an attempt at it went unanswered.
        let again = batches_with_repeats(&self.cluster.dump(&plain_topic), &log);
        let unanswered = ambiguous(&outcome.stats.retries_by_code);
        assert!(again <= unanswered, "{again} batches are repeats, {unanswered} went unanswered\n{summary}");

        let outcome = self.cautious.finish();
        let report = outcome.ledger.check_exactly_once(&self.cluster.numbered_log(&cautious_topic));
        told(&mut summary, "cautious", &report, &outcome);
        report.assert_kept(&summary);
        assert_eq!(report.delivered + report.unknown, report.sent, "{summary}");
        println!("{}: {summary}", self.name);
    }
}

fn told(summary: &mut String, kind: &str, report: &Report, outcome: &Outcome) {
    let stats = &outcome.stats;
    let _ = writeln!(
        summary,
        "{kind}: sent {}, delivered {}, not written {}, unknown {}, duplicates {}, without offset {}, retries {:?}, \
         epoch bumps {}, drops {:?}",
        report.sent,
        report.delivered,
        report.not_written,
        report.unknown,
        report.duplicates,
        report.without_offset,
        stats.retries_by_code,
        stats.epoch_bumps,
        stats.dropped_by_cause
    );
}

fn ambiguous(retries_by_code: &[(String, u64)]) -> u64 {
    let of_kind = |code: &str| AMBIGUOUS.contains(&code);
    retries_by_code.iter().filter(|(code, _)| of_kind(code)).map(|(_, count)| count).sum()
}

/// Within one producer epoch the sequences of a partition follow each other without a gap.
fn check_sequences(batches: &[Batch]) {
    let mut next = std::collections::HashMap::new();
    for batch in batches {
        let key = (batch.partition, batch.producer_id, batch.producer_epoch);
        assert!(batch.producer_id >= 0, "a batch without a producer id");
        let expected = next.entry(key).or_insert(0);
        assert_eq!(batch.base_sequence, *expected, "{key:?}, offset {}", batch.base_offset);
        *expected += i32::try_from(batch.count).expect("few");
    }
}

/// Batches that hold a message which an earlier offset holds already.
fn batches_with_repeats(batches: &[Batch], log: &[Found]) -> u64 {
    let mut seen = HashSet::new();
    let repeats: HashSet<(i32, i64)> = log
        .iter()
        .filter(|found| !seen.insert((found.thread, found.number)))
        .map(|found| (found.partition, found.offset))
        .collect();
    let repeated = |batch: &&Batch| {
        (batch.base_offset..=batch.last_offset).any(|o| repeats.contains(&(batch.partition, o)))
    };
    batches.iter().filter(repeated).count() as u64
}

/// The leader-switch test of the producer this one comes from, grown up: kill -9, twice, another node each time.
#[test]
fn failover_leader_killed() {
    let Some(cluster) = kafka::three() else { return };
    let fleet = Fleet::start(&cluster, "killed", &cluster.bootstrap());
    for partition in [0, 2] {
        let leader = cluster.leader(&fleet.topics()[0], partition);
        cluster.node(leader).kill();
        fleet.await_other_leader(partition, leader);
        fleet.await_delivered(300);
        cluster.node(leader).start();
        cluster.await_nodes();
        fleet.await_in_sync();
        fleet.await_delivered(300);
    }
    fleet.check();
}

/// A leader hangs for longer than the request timeout, but not so long that it loses its office: it answers late what was sent
/// again already.
#[test]
fn failover_leader_hangs_and_stays_leader() {
    let Some(cluster) = kafka::three() else { return };
    let fleet = Fleet::start(&cluster, "hangs", &cluster.bootstrap());
    for id in [1, 3] {
        cluster.node(id).pause();
        fleet.await_unanswered();
        cluster.node(id).resume();
        fleet.await_in_sync();
        fleet.await_delivered(300);
    }
    fleet.check();
}

/// A leader hangs until another one has its office, and wakes up with requests in its sockets that are over.
#[test]
fn failover_leader_hangs_and_is_replaced() {
    let Some(cluster) = kafka::three() else { return };
    let fleet = Fleet::start(&cluster, "replaced", &cluster.bootstrap());
    let leader = cluster.leader(&fleet.topics()[0], 1);
    cluster.node(leader).pause();
    fleet.await_other_leader(1, leader);
    fleet.await_delivered(300);
    cluster.node(leader).resume();
    fleet.await_in_sync();
    fleet.await_delivered(300);
    fleet.check();
}

/// Replicas move to other nodes, leaders with them, and preferred leaders are elected, again and again.
#[test]
fn failover_partitions_reassigned_and_preferred_leaders_elected() {
    let Some(cluster) = kafka::three() else { return };
    let fleet = Fleet::start(&cluster, "moved", &cluster.bootstrap());
    let placements: [[&[i32]; 3]; 4] = [
        [&[2, 3], &[3, 1], &[1, 2]],
        [&[3, 1], &[1, 2], &[2, 3]],
        [&[1, 3, 2], &[2, 1, 3], &[3, 2, 1]],
        [&[2, 1, 3], &[3, 2, 1], &[1, 3, 2]],
    ];
    for placement in placements {
        for topic in fleet.topics() {
            cluster.reassign(&topic, &placement);
            cluster.elect_preferred_leaders(&topic);
            cluster.await_topic(&topic, "the preferred leaders", |all| {
                all.iter().all(|p| p.leader == p.replicas[0])
            });
        }
        fleet.await_delivered(200);
    }
    fleet.check();
}

/// Every node is shut down and started again, one after the other, as for an upgrade.
#[test]
fn failover_rolling_restart() {
    let Some(cluster) = kafka::three() else { return };
    let fleet = Fleet::start(&cluster, "rolling", &cluster.bootstrap());
    for id in [1, 2, 3] {
        cluster.node(id).stop();
        fleet.await_delivered(200);
        cluster.node(id).start();
        cluster.await_nodes();
        fleet.await_in_sync();
        for topic in fleet.topics() {
            cluster.elect_preferred_leaders(&topic);
        }
        fleet.await_delivered(200);
    }
    fleet.check();
}

/// A leader hangs for longer than `delivery.timeout.ms`, again and again. What is dropped with requests on their way may be
/// written when it wakes up, or not; what was never sent is not; and what is accepted afterwards is taken, once and in order.
#[test]
fn failover_messages_expire_while_the_leader_hangs() {
    let Some(cluster) = kafka::three() else { return };
    for (kind, idempotence) in [("idempotent", "required"), ("plain", "false")] {
        let topic = format!("expired-{kind}");
        cluster.create_topic_on(&topic, &[&[1], &[1], &[1]], &[]);
        let properties = [
            ("enable.idempotence", idempotence),
            ("delivery.timeout.ms", "2000"),
            ("request.timeout.ms", "1000"),
        ];
        let traffic = Traffic::start(producer(&cluster.bootstrap(), &properties), &topic, 4);
        traffic.await_delivered(300);
        for _ in 0..3 {
            let dropped = traffic.producer.stats().dropped;
            cluster.node(1).pause();
            traffic.await_stats("messages to expire", |stats| stats.dropped >= dropped + 300);
            cluster.node(1).resume();
            traffic.await_delivered(300);
        }
        let outcome = traffic.finish();
        let log = cluster.numbered_log(&topic);
        let mut summary = String::new();
        let report = match kind {
            "idempotent" => outcome.ledger.check_exactly_once(&log),
            _ => outcome.ledger.check_at_least_once(&log),
        };
        told(&mut summary, kind, &report, &outcome);
        report.assert_kept(&summary);
        assert!(report.unknown > 0 && report.not_written > 0, "{summary}");
        assert!(!summary.contains("no broker"), "two others can be reached: {summary}");
        if kind == "idempotent" {
            assert!(outcome.stats.epoch_bumps > 0, "{summary}");
            check_sequences(&cluster.dump(&topic));
        }
        println!("{summary}");
    }
}

//! The harness itself, against Kafka's own producer and consumer: before it judges us, it is judged.

use crate::support::kafka::{self, Cluster, KeyValue};
use crate::support::ledger::{self, Found, Ledger, Verdict};
use crate::support::proxy::{Cut, Way};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn numbered(thread: u32, numbers: std::ops::Range<u64>) -> Vec<KeyValue> {
    numbers.map(|n| (None, Some(ledger::value(thread, n, 50 + (n % 100) as usize).into_bytes()))).collect()
}

/// What lies in the log, by both witnesses, which must agree.
fn log(cluster: &Cluster, topic: &str) -> Vec<Found> {
    cluster.numbered_log(topic)
}

#[test]
fn harness_reads_back_what_java_wrote() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("harness-java", 2, 1, &[]);
    let messages = [
        (Some(b"key: of".to_vec()), Some(b"a value".to_vec())),
        (None, Some(b"0/1/".to_vec())),
        (Some(vec![]), None),
        (Some(vec![0, 255]), Some(vec![])),
    ];
    let sent = cluster.produce_with_java("harness-java", &messages, &[("compression.type", "lz4")]);
    let back = cluster.consume("harness-java");
    assert_eq!(back.len(), messages.len());
    for ((key, value), (partition, offset)) in messages.iter().zip(&sent) {
        let record =
            back.iter().find(|r| (r.partition, r.offset) == (*partition, *offset)).expect("it is there");
        assert_eq!((&record.key, &record.value), (key, value));
    }
    let batches = cluster.dump("harness-java");
    assert_eq!(batches.iter().map(|b| b.count).sum::<usize>(), messages.len());
    for batch in &batches {
        assert!(batch.is_valid && batch.codec == "lz4" && batch.producer_id >= 0 && batch.base_sequence == 0);
    }
    let records: Vec<_> = batches.iter().flat_map(|b| &b.records).collect();
    assert!(records
        .iter()
        .any(|r| r.key.as_deref() == Some("key: of") && r.value.as_deref() == Some("a value")));
    assert!(records.iter().any(|r| r.key.is_none() && r.value.as_deref() == Some("0/1/")));
    assert!(records.iter().any(|r| r.key.as_deref() == Some("") && r.value.is_none()));
}

/// Java's producer through crashes, hangs, moves and cut connections of this harness: all of them happen, and the ledger
/// agrees that Kafka's own idempotent producer loses and doubles nothing.
#[test]
fn harness_java_survives_every_fault() {
    let Some(cluster) = kafka::three() else { return };
    let topic = "harness-faults";
    cluster.create_topic_on(topic, &[&[1, 2, 3]], &[("min.insync.replicas", "2")]);
    let (proxies, through) = cluster.proxies();
    for proxy in &proxies {
        proxy.plan(|n| {
            let way = if n % 2 == 0 { Way::ToBroker } else { Way::ToClient };
            (n < 12).then_some(Cut { way, frame: 4 + n % 3, percent: 50 })
        });
    }
    let done = AtomicBool::new(false);
    let mut ledger = Ledger::default();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut ledger = Ledger::default();
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                let messages = numbered(0, number..number + 200);
                let properties = [
                    ("bootstrap.servers", through.as_str()),
                    ("acks", "all"),
                    ("batch.size", "2000"),
                    ("request.timeout.ms", "3000"),
                ];
                for (partition, offset) in cluster.produce_with_java(topic, &messages, &properties) {
                    ledger.record(0, number, Verdict::Delivered { partition, offset: Some(offset) });
                    number += 1;
                }
            }
            ledger
        });
        let first = cluster.leader(topic, 0);
        cluster.node(first).kill();
        let second = cluster.await_other_leader(topic, 0, first);
        cluster.node(first).start();
        cluster.await_in_sync(topic);
        cluster.node(second).pause();
        let third = cluster.await_other_leader(topic, 0, second);
        cluster.node(second).resume();
        cluster.await_in_sync(topic);
        cluster.reassign(topic, &[&[second, third]]);
        cluster.elect_preferred_leaders(topic);
        cluster.await_topic(topic, "the preferred leader", |all| all[0].leader == second);
        cluster.node(second).stop();
        cluster.await_other_leader(topic, 0, second);
        cluster.node(second).start();
        cluster.await_in_sync(topic);
        done.store(true, Ordering::Relaxed);
        ledger.merge(sender.join().expect("the sender ends"));
    });
    let report = ledger.check_exactly_once(&log(&cluster, topic));
    report.assert_kept("Java's producer");
    assert!(report.delivered >= 200);
    for way in [Way::ToBroker, Way::ToClient] {
        assert!(proxies.iter().map(|p| p.cuts(way)).sum::<u64>() > 0, "no connection was cut {way:?}");
    }
}

#[test]
fn harness_proxy_stalls_and_delays() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("harness-stall", 1, 1, &[]);
    let (proxies, through) = cluster.proxies();
    let properties = [("bootstrap.servers", through.as_str())];
    proxies[0].delay(Way::ToBroker, Duration::from_millis(5));
    cluster.produce_with_java("harness-stall", &numbered(0, 0..10), &properties);
    assert_eq!(cluster.end_offsets("harness-stall"), [10]);
    proxies[0].stall(Way::ToClient, true);
    std::thread::scope(|scope| {
        let sender =
            scope.spawn(|| cluster.produce_with_java("harness-stall", &numbered(0, 10..20), &properties));
        crate::support::wait::until(Duration::from_secs(30), "a connection", || {
            (proxies[0].accepted() >= 3).then_some(())
        });
        assert!(!sender.is_finished(), "nothing can be answered through a stalled proxy");
        proxies[0].stall(Way::ToClient, false);
        assert_eq!(sender.join().expect("the sender ends").len(), 10);
    });
}

//! Messages cross from callers to the worker in chunks of 64 KiB, with those of others. One message that stays for long
//! must not keep a chunk alive.

use crate::harness::*;
use crate::MEMORY;
use steadfast::testing::{Cluster, TopicSpec};
use steadfast::{Config, Message, Producer, Receipt};

const ROUNDS: usize = 200;

/// What a round may leave behind: a receipt, its block of outcomes, and two messages that wait.
const LEFT_A_ROUND: usize = 4 << 10;

/// In each round one message whose receipt is kept, one for a partition without a leader and one to an unknown topic, among
/// two chunks' worth of others that are delivered.
fn round(producer: &Producer, number: usize, bulk: &[u8]) -> [Receipt; 3] {
    let mut others = Vec::new();
    let mut send_others = || {
        let keyed = vec![Message { partition: Some(0), ..Message::new(bulk) }; 64];
        others.push(producer.send_messages("busy", keyed).expect("room"));
    };
    send_others();
    let value = number.to_string();
    let to_partition = |partition| Message { partition: Some(partition), ..Message::new(value.as_bytes()) };
    let kept = [("busy", 0), ("leaderless", 0), ("unknown", 0)]
        .map(|(topic, partition)| producer.send(topic, to_partition(partition)).expect("room"));
    send_others();
    for others in others {
        others.wait_timeout(10 * SECOND).expect("delivered");
    }
    kept
}

#[test]
fn no_message_keeps_a_chunk_alive() {
    alone(test_name!(no_message_keeps_a_chunk_alive), || {
        within(60 * SECOND, "rounds of messages", || {
            let mut cluster = Cluster::builder().brokers(2).keep_log(false);
            for topic in ["busy", "leaderless"] {
                cluster = cluster.topic(TopicSpec::new(topic));
            }
            let cluster = cluster.start().expect("a cluster");
            cluster.move_leader("leaderless", 0, None);
            let config = Config::new(cluster.bootstrap())
                .linger(ms(1))
                .delivery_timeout(None)
                .unknown_topic_grace(600 * SECOND);
            let producer = Producer::new(config).expect("a producer");
            let bulk = vec![b'b'; 1000];
            // Until everything that is kept for reuse is there.
            let mut kept: Vec<_> = (0..20).map(|number| round(&producer, number, &bulk)).collect();
            let (memory, queued) = (MEMORY.current_usage(), producer.stats().bytes_queued);
            kept.extend((0..ROUNDS).map(|number| round(&producer, number, &bulk)));
            let more = MEMORY.current_usage().saturating_sub(memory);
            let stats = producer.stats();
            println!(
                "{} bytes more after {ROUNDS} rounds ({} a round), {} more bytes charged",
                more,
                more / ROUNDS,
                stats.bytes_queued - queued
            );
            assert!(more < ROUNDS * LEFT_A_ROUND, "{} bytes stay of each round", more / ROUNDS);
            // Two small messages each are charged, and no more than that.
            assert!(stats.bytes_queued - queued < (ROUNDS * 2 * 256) as u64, "{stats:?}");
            for [busy, leaderless, unknown] in &kept {
                assert!(busy.wait_one().is_ok());
                assert!(!leaderless.is_settled() && !unknown.is_settled());
            }
            // They were not forgotten either.
            cluster.move_leader("leaderless", 0, 1);
            cluster.create_topic("unknown", 1);
            for [_, leaderless, unknown] in &kept {
                leaderless.wait_one_timeout(20 * SECOND).expect("delivered");
                unknown.wait_one_timeout(20 * SECOND).expect("delivered");
            }
            assert_eq!(producer.stats().bytes_queued, 0);
            let before = MEMORY.current_usage();
            drop(kept);
            println!("the receipts held {} bytes", before - MEMORY.current_usage());
            assert!(producer.stop(5 * SECOND).is_clean());
        });
    });
}

/// What a dropped message's receipt holds is that message's share of the batch, charged, until it is let go.
#[test]
fn a_dropped_message_is_held_by_its_receipt_and_by_nothing_else() {
    alone(test_name!(a_dropped_message_is_held_by_its_receipt_and_by_nothing_else), || {
        within(60 * SECOND, "dropped messages", || {
            let cluster =
                Cluster::builder().brokers(1).keep_log(false).topic(("t", 1)).start().expect("a cluster");
            let config = Config::new(cluster.bootstrap())
                .linger(ms(1))
                .delivery_timeout(ms(500))
                .request_timeout(ms(400));
            let producer = Producer::new(config).expect("a producer");
            producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
            cluster.move_leader("t", 0, None);
            let bulk = vec![b'b'; 1000];
            let receipts: Vec<Receipt> =
                (0..2000).map(|_| producer.send("t", &bulk).expect("room")).collect();
            producer.flush(20 * SECOND).expect("each has its verdict");
            let charged = producer.stats().bytes_queued;
            assert!((2000 * 1000..2000 * 1200).contains(&charged), "{charged} bytes are charged");
            let full = MEMORY.current_usage();
            drop(receipts);
            let freed = full.saturating_sub(MEMORY.current_usage());
            println!("{charged} bytes charged, {freed} freed with the receipts");
            assert!(freed > 2000 * 1000, "the messages were held by something else: {freed}");
            assert_eq!(producer.stats().bytes_queued, 0, "their charge is given back");
        });
    });
}

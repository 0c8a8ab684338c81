//! `min.insync.replicas` lost and found while numbered messages flow, with brokers that hold no state of the producer.
//!
//! The trap: two batches in flight to a partition of which the broker remembers nothing. The first is refused for missing
//! replicas, the replicas come, the second is accepted as a beginning, and the first follows it.

use crate::client::{producer, Traffic};
use crate::support::kafka::{self, Cluster};

/// Two replicas, one of them down: whether there are enough is a matter of the topic's configuration, which changes fast.
fn lose_and_find(cluster: &Cluster, topic: &str, traffic: &Traffic, times: u64) {
    for _ in 0..times {
        let refused = refusals(traffic);
        cluster.set_topic_config(topic, "min.insync.replicas", "2");
        traffic.await_stats("a refusal", |_| refusals(traffic) > refused);
        cluster.set_topic_config(topic, "min.insync.replicas", "1");
        traffic.await_delivered(50);
    }
}

fn refusals(traffic: &Traffic) -> u64 {
    let stats = traffic.producer.stats();
    stats
        .retries_by_code
        .iter()
        .filter(|(code, _)| code.contains("NOT_ENOUGH_REPLICAS"))
        .map(|(_, n)| n)
        .sum()
}

#[test]
fn min_isr_lost_and_found_while_messages_flow() {
    let Some(cluster) = kafka::three() else { return };
    let topic = "lost-and-found";
    cluster.create_topic_on(topic, &[&[1, 2], &[1, 2]], &[("min.insync.replicas", "2")]);
    cluster.node(2).stop();
    cluster.await_topic(topic, "one replica in sync", |all| all.iter().all(|p| p.isr == [1]));
    // The very first batches are refused: nothing is known of this producer anywhere.
    let properties = [("enable.idempotence", "required"), ("linger.ms", "0"), ("batch.size", "20000")];
    let traffic = Traffic::start(producer(&cluster.bootstrap(), &properties), topic, 4);
    traffic.await_stats("a refusal", |_| refusals(&traffic) > 0);
    cluster.set_topic_config(topic, "min.insync.replicas", "1");
    traffic.await_delivered(200);
    lose_and_find(&cluster, topic, &traffic, 5);
    // Found and lost for real: the second replica comes, and is killed with messages on their way to it.
    cluster.set_topic_config(topic, "min.insync.replicas", "2");
    cluster.node(2).start();
    cluster.await_in_sync(topic);
    traffic.await_delivered(200);
    let refused = refusals(&traffic);
    cluster.node(2).kill();
    traffic.await_stats("a refusal", |_| refusals(&traffic) > refused);
    cluster.node(2).start();
    cluster.await_in_sync(topic);
    traffic.await_delivered(200);
    let outcome = traffic.finish();
    let report = outcome.ledger.check_exactly_once(&cluster.numbered_log(topic));
    report.assert_kept(&format!("{:#?}", outcome.stats));
    assert_eq!(report.delivered, report.sent, "{report:?}\n{:#?}", outcome.stats);
}

//! The older versions of Kafka: a short run each.

use crate::client::{producer, Traffic};
use crate::codecs;
use crate::support::kafka;
use steadfast::Message;

fn short_run(version: &str) {
    let Some(cluster) = kafka::own(version) else { return };
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        if codec == "zstd" && !cfg!(feature = "zstd") {
            continue;
        }
        let topic = format!("codec-{codec}");
        cluster.create_topic(&topic, 1, 1, &[]);
        codecs::round_trip(&cluster, &topic, codec, None);
        codecs::check(&cluster, &topic, codec, 1);
    }
    only_the_keyless_are_refused(&cluster);
    // The broker restarts and crashes under traffic.
    cluster.create_topic("traffic", 3, 1, &[]);
    let traffic = Traffic::start(producer(&cluster.bootstrap(), &[]), "traffic", 2);
    traffic.await_delivered(500);
    cluster.node(1).stop();
    cluster.node(1).start();
    traffic.await_delivered(500);
    cluster.node(1).kill();
    cluster.node(1).start();
    traffic.await_delivered(500);
    let outcome = traffic.finish();
    cluster.await_nodes();
    let report = outcome.ledger.check_exactly_once(&cluster.numbered_log("traffic"));
    report.assert_kept(version);
    assert_eq!(report.delivered, report.sent, "{report:?}\n{:#?}", outcome.stats);
}

fn only_the_keyless_are_refused(cluster: &kafka::Lease) {
    cluster.create_topic("compacted", 1, 1, &[("cleanup.policy", "compact")]);
    let producer = producer(&cluster.bootstrap(), &[("linger.ms", "50")]);
    let messages = [Message::keyed(b"a", b"1"), Message::new(b"2"), Message::keyed(b"c", b"3")];
    let results = crate::client::settled(&producer.send_messages("compacted", messages).expect("accepted"));
    let arrived: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(arrived, [true, false, true], "{results:?}");
    let _ = crate::client::stop(&producer);
    let back: Vec<_> = cluster.consume("compacted").into_iter().map(|r| r.value.expect("a value")).collect();
    assert_eq!(back, [b"1", b"3"]);
}

#[test]
fn versions_4_1() {
    short_run("4.1.0");
}

#[test]
fn versions_3_9() {
    short_run("3.9.2");
}

//! Topics that come late, go, come again, or never come.

use crate::client::{delivered, producer, stop, PATIENCE};
use crate::support::kafka;
use crate::support::wait;
use std::time::{Duration, Instant};
use steadfast::{Cause, Fate, Message, WaitError};

/// Asked whether it is ready, a producer says yes, or what is missing; a dead address among those to start from does not matter.
#[test]
fn topics_that_are_ready_and_one_that_is_not() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("ready", 3, 1, &[]);
    let bootstrap = format!("127.0.0.1:1,{}", cluster.bootstrap());
    let producer = producer(&bootstrap, &[("allow.auto.create.topics", "false")]);
    producer.wait_until_ready(&[], PATIENCE).expect("a broker is there");
    producer.wait_until_ready(&["ready"], PATIENCE).expect("the topic is there");
    let missing = producer.wait_until_ready(&["ready", "not-there"], Duration::from_millis(1500));
    let words = missing.expect_err("one topic is not there").to_string();
    assert!(words.contains("not-there"), "{words}");
    let _ = stop(&producer);
}

/// Messages for a topic that does not exist yet wait for it, hold nobody up, and arrive in order once it does.
#[test]
fn topics_created_late() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("early", 1, 1, &[]);
    let producer = producer(&cluster.bootstrap(), &[("allow.auto.create.topics", "false")]);
    let receipts: Vec<_> = (0..200)
        .map(|n| {
            producer.send("late", Message::keyed(b"same key", format!("{n}").as_bytes())).expect("accepted")
        })
        .collect();
    wait::until(PATIENCE, "the status to name the topic", || {
        producer.status().waiting.iter().any(|waiting| waiting.topic == "late").then_some(())
    });
    let _ = delivered(&producer.send("early", "not held up").expect("accepted"));
    assert!(receipts.iter().all(|receipt| !receipt.is_settled()));
    cluster.create_topic("late", 3, 1, &[]);
    let offsets: Vec<_> = receipts.iter().map(|r| delivered(r)[0].offset).collect();
    assert!(offsets.iter().copied().eq((0..200).map(Some)), "{offsets:?}");
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped, stats.retries), (201, 0, 0));
}

/// Messages accepted while the topic is gone arrive in the one that has its name afterwards, from offset 0, in order.
#[test]
fn topics_deleted_and_created_again() {
    let Some(cluster) = kafka::one() else { return };
    let topic = "again";
    let producer = producer(&cluster.bootstrap(), &[("allow.auto.create.topics", "false")]);
    for round in 0..3 {
        cluster.create_topic(topic, 1 + round, 1, &[]);
        let values: Vec<String> = (0..100).map(|n| format!("{round}/{n}")).collect();
        for value in &values[..50] {
            let _ = delivered(
                &producer
                    .send(topic, Message { partition: Some(0), ..Message::from(value.as_str()) })
                    .expect("accepted"),
            );
        }
        cluster.delete_topic(topic);
        let receipts: Vec<_> = values[50..]
            .iter()
            .map(|v| {
                producer
                    .send(topic, Message { partition: Some(0), ..Message::from(v.as_str()) })
                    .expect("accepted")
            })
            .collect();
        cluster.create_topic(topic, 1 + round, 1, &[]);
        for (n, receipt) in (0..).zip(&receipts) {
            assert_eq!(delivered(receipt)[0].offset, Some(n), "round {round}");
        }
        let back: Vec<_> = cluster.consume(topic).into_iter().map(|r| r.value.expect("a value")).collect();
        assert!(
            back.iter().map(Vec::as_slice).eq(values[50..].iter().map(|v| v.as_bytes())),
            "round {round}"
        );
        cluster.delete_topic(topic);
    }
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped), (300, 0));
}

/// Ten thousand wrong names come back as unknown topics when their grace is over, and hold nobody up meanwhile.
#[test]
fn topics_ten_thousand_named_and_never_created() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("the-only-one", 1, 1, &[]);
    let properties = [("allow.auto.create.topics", "false"), ("unknown_topic_grace_ms", "5000")];
    let producer = producer(&cluster.bootstrap(), &properties);
    let start = Instant::now();
    let receipts: Vec<_> =
        (0..10_000).map(|n| producer.send(&format!("never-{n}"), "lost").expect("accepted")).collect();
    let mut took = Vec::new();
    while !receipts.iter().all(|receipt| receipt.is_settled()) {
        let begin = Instant::now();
        let _ = delivered(&producer.send("the-only-one", "not held up").expect("accepted"));
        took.push(begin.elapsed());
        assert!(start.elapsed() < PATIENCE, "not all are settled: {:#?}", producer.stats());
        std::thread::sleep(Duration::from_millis(20));
    }
    for receipt in &receipts {
        match receipt.wait_one() {
            Err(WaitError::Dropped(dropped)) => {
                assert!(matches!(dropped.error.cause, Cause::UnknownTopic), "{}", dropped.error);
                assert_eq!((dropped.error.fate, dropped.error.attempts), (Fate::NotWritten, 0));
                assert_eq!(dropped.message.value.as_deref(), Some(&b"lost"[..]));
            }
            other => panic!("{other:?}"),
        }
    }

    took.sort_unstable();
    let (median, slowest) = (took[took.len() / 2], took[took.len() - 1]);
    // The broker answers one request of a connection at a time, so a question about 10,000 topics is felt, and only that.
    assert!(
        median < Duration::from_millis(500) && slowest < Duration::from_secs(5),
        "{median:?}, {slowest:?}"
    );
    let sent = took.len() as u64;
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped), (sent, 10_000));
    assert_eq!(cluster.end_offsets("the-only-one"), [i64::try_from(sent).expect("few")]);
}

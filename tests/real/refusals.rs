//! What a broker refuses: in whole, in part, or for now.

use crate::client::{delivered, dropped, producer, settled, stop, PATIENCE};
use crate::support::kafka;
use crate::support::wait;
use std::time::{Duration, Instant};
use steadfast::{Cause, ErrorCode, Fate, Message};

fn is_refused(cause: &Cause, expected: ErrorCode) -> bool {
    matches!(cause, Cause::Refused { code, .. } if *code == expected)
}

/// A batch above `max.message.bytes` is cut until its pieces fit: that is no retry, and nothing is lost or out of order.
#[test]
fn refusals_a_batch_above_max_message_bytes_is_split() {
    let Some(cluster) = kafka::one() else { return };
    for codec in ["none", "gzip"] {
        let topic = format!("split-{codec}");
        cluster.create_topic(&topic, 1, 1, &[("max.message.bytes", "10000")]);
        let properties = [("compression.type", codec), ("linger.ms", "50")];
        let producer = producer(&cluster.bootstrap(), &properties);
        let mut random = fastrand::Rng::with_seed(1);
        let values: Vec<String> = (0..1000)
            .map(|n| format!("{n} {}", (0..200).map(|_| random.alphanumeric()).collect::<String>()))
            .collect();
        let receipt = producer.send_messages(&topic, values.iter().map(String::as_str)).expect("accepted");
        for (n, place) in (0..).zip(delivered(&receipt)) {
            assert_eq!(place.offset, Some(n));
        }
        let stats = stop(&producer);
        assert!(stats.splits > 0 && stats.retries == 0 && stats.epoch_bumps == 0, "{stats:?}");
        let back: Vec<_> = cluster.consume(&topic).into_iter().map(|r| r.value.expect("a value")).collect();
        assert!(back.iter().map(Vec::as_slice).eq(values.iter().map(String::as_bytes)));
        let batches = cluster.dump(&topic);
        assert!(batches.iter().all(|b| b.is_valid && b.codec == codec && b.size <= 10_000));
        // The pieces tile the sequences, whatever their number.
        let mut next = 0;
        for batch in batches {
            assert_eq!(batch.base_sequence, next);
            next += i32::try_from(batch.count).expect("few");
        }
    }
}

/// A single message above `max.message.bytes` comes back with its bytes; its neighbours arrive.
#[test]
fn refusals_a_single_message_above_max_message_bytes_is_returned() {
    let Some(cluster) = kafka::one() else { return };
    let topic = "too-large";
    cluster.create_topic(topic, 1, 1, &[("max.message.bytes", "10000")]);
    let producer = producer(&cluster.bootstrap(), &[("linger.ms", "50")]);
    let large = vec![b'L'; 20_000];
    let messages = [Message::new(b"first"), Message::keyed(b"key", &large), Message::new(b"last")];
    let results = settled(&producer.send_messages(topic, messages).expect("accepted"));
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    let returned = results[1].as_ref().expect_err("it is above the limit");
    assert!(is_refused(&returned.error.cause, ErrorCode::MessageTooLarge), "{}", returned.error);
    assert_eq!(returned.error.fate, Fate::NotWritten);
    assert_eq!(returned.message.value.as_deref(), Some(&large[..]));
    assert_eq!(returned.message.key.as_deref(), Some(&b"key"[..]));
    let after = delivered(&producer.send(topic, "after").expect("accepted"));
    assert_eq!(after[0].offset, Some(2));
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped), (3, 1));
    let back: Vec<_> = cluster.consume(topic).into_iter().map(|r| r.value.expect("a value")).collect();
    assert_eq!(back, [&b"first"[..], b"last", b"after"]);
}

/// A compacted topic refuses messages without a key; the broker names them, and all others of their batch arrive in order.
#[test]
fn refusals_a_compacted_topic_refuses_only_messages_without_a_key() {
    let Some(cluster) = kafka::one() else { return };
    let topic = "compacted";
    cluster.create_topic(topic, 1, 1, &[("cleanup.policy", "compact")]);
    for (round, codec) in ["none", "lz4"].into_iter().enumerate() {
        let producer = producer(&cluster.bootstrap(), &[("linger.ms", "50"), ("compression.type", codec)]);
        let values: Vec<String> = (0..100).map(|n| format!("{round}/{n}")).collect();
        let has_key = |n: usize| n % 10 != 3;
        let messages = values.iter().enumerate().map(|(n, value)| Message {
            key: has_key(n).then_some(value.as_bytes()),
            value: Some(value.as_bytes()),
            ..Message::default()
        });
        let results = settled(&producer.send_messages(topic, messages).expect("accepted"));
        for (n, result) in results.iter().enumerate() {
            match result {
                Ok(_) => assert!(has_key(n), "{n} has no key"),
                Err(returned) => {
                    assert!(!has_key(n), "{n} has a key: {}", returned.error);
                    assert!(
                        is_refused(&returned.error.cause, ErrorCode::InvalidRecord),
                        "{}",
                        returned.error
                    );
                    assert_eq!(returned.error.fate, Fate::NotWritten);
                    assert_eq!(returned.message.value.as_deref(), Some(values[n].as_bytes()));
                }
            }
        }
        // The hole in the sequences is closed: what comes next is taken.
        let next = format!("{round}/next");
        let _ = delivered(&producer.send(topic, (next.as_bytes(), next.as_bytes())).expect("accepted"));
        let stats = stop(&producer);
        assert_eq!((stats.delivered, stats.dropped), (91, 10), "{stats:?}");
        let back: Vec<_> = cluster.consume(topic).into_iter().map(|r| r.value.expect("a value")).collect();
        let mut expected: Vec<&str> = (0..100).filter(|n| has_key(*n)).map(|n| values[n].as_str()).collect();
        expected.push(&next);
        assert!(back[back.len() - 91..].iter().map(Vec::as_slice).eq(expected.iter().map(|v| v.as_bytes())));
    }
}

/// `min.insync.replicas` not met: nothing is dropped, the status says why. Met: everything arrives, in order.
#[test]
fn refusals_min_insync_replicas_not_met_and_then_met() {
    let Some(cluster) = kafka::three() else { return };
    let topic = "min-isr";
    cluster.create_topic_on(topic, &[&[1, 2]], &[("min.insync.replicas", "2")]);
    cluster.node(2).stop();
    cluster.await_topic(topic, "one replica in sync", |all| all[0].isr == [1]);
    let producer = producer(&cluster.bootstrap(), &[]);
    let receipts: Vec<_> =
        (0..100).map(|n| producer.send(topic, format!("{n}").as_str()).expect("accepted")).collect();
    wait::until(Duration::from_secs(20), "a refusal for too few replicas", || {
        let stats = producer.stats();
        let refused = stats.retries_by_code.iter().any(|(code, _)| code.contains("NOT_ENOUGH_REPLICAS"));
        (refused && stats.delivered == 0 && stats.dropped == 0).then_some(())
    });
    let status = producer.status();
    let waits = status.waiting.iter().find(|waiting| waiting.topic == topic);
    let reason = &waits.unwrap_or_else(|| panic!("nothing waits: {status:#?}")).reason;
    assert!(reason.contains("NOT_ENOUGH_REPLICAS"), "{reason}");
    assert_eq!(cluster.end_offsets(topic), [0]);
    cluster.node(2).start();
    for (n, receipt) in receipts.iter().enumerate() {
        assert_eq!(delivered(receipt)[0].offset, Some(n as i64));
    }
    let _ = stop(&producer);
    let back: Vec<_> = cluster.consume(topic).into_iter().map(|r| r.value.expect("a value")).collect();
    assert!(back.iter().map(Vec::as_slice).eq((0..100)
        .map(|n| n.to_string().into_bytes())
        .collect::<Vec<_>>()
        .iter()
        .map(Vec::as_slice)));
}

/// With no retries the same refusal comes back at once, after one attempt, with the promise that nothing was written.
#[test]
fn refusals_without_retries_come_back_after_one_attempt() {
    let Some(cluster) = kafka::three() else { return };
    let topic = "min-isr-no-retries";
    cluster.create_topic_on(topic, &[&[1, 2]], &[("min.insync.replicas", "2")]);
    cluster.node(2).stop();
    cluster.await_topic(topic, "one replica in sync", |all| all[0].isr == [1]);
    let producer = producer(&cluster.bootstrap(), &[("batch_retries_limit", "0")]);
    let returned = dropped(&producer.send(topic, "once").expect("accepted"));
    assert_eq!((returned.error.attempts, returned.error.fate), (1, Fate::NotWritten), "{}", returned.error);
    assert_eq!(returned.message.value.as_deref(), Some(&b"once"[..]));
    let _ = stop(&producer);
    assert_eq!(cluster.end_offsets(topic), [0]);
}

/// A client above its quota is asked to pause: that slows it, counts as no retry and drops nothing, and the status tells it.
#[test]
fn refusals_a_quota_slows_and_drops_nothing() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("quota", 1, 1, &[]);
    cluster.set_byte_rate("above-its-quota", 20_000);
    let properties = [("client.id", "above-its-quota"), ("batch.size", "10000")];
    let producer = producer(&cluster.bootstrap(), &properties);
    let value = [b'q'; 1000];
    let start = Instant::now();
    let receipts: Vec<_> = (0..400).map(|_| producer.send("quota", &value[..]).expect("accepted")).collect();
    wait::until(PATIENCE, "a throttle in the status", || {
        producer.status().connections.iter().any(|broker| broker.throttled_for.is_some()).then_some(())
    });
    for (n, receipt) in (0..).zip(&receipts) {
        assert_eq!(delivered(receipt)[0].offset, Some(n));
    }
    // What was sent before the first answer is for free, and the quota is an average over some seconds.
    assert!(start.elapsed() > Duration::from_millis(500), "400 kB at 20 kB/s took {:?}", start.elapsed());
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped, stats.retries), (400, 0, 0));
}

//! Which partition a message goes to.

use crate::client::{delivered, producer, stop, PATIENCE};
use crate::support::kafka::{self, KeyValue};
use std::collections::HashMap;
use steadfast::{Message, Producer};

/// A thousand keys of all kinds and lengths, each to the partition to which Java's own producer sends it.
#[test]
fn partitions_of_keys_are_java_s() {
    let Some(cluster) = kafka::one() else { return };
    let mut random = fastrand::Rng::with_seed(11);
    let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![255; 3], b"key".to_vec(), "Schlüssel".into()];
    keys.extend((0..500).map(|n| format!("order-{n}").into_bytes()));
    keys.extend((keys.len()..1000).map(|n| (0..n % 70).map(|_| random.u8(..)).collect::<Vec<u8>>()));
    assert_eq!(keys.len(), 1000);
    let messages: Vec<KeyValue> = keys.iter().map(|key| (Some(key.clone()), Some(b"v".to_vec()))).collect();
    // Numbers of partitions with and without common divisors with what the hash favours.
    for partitions in [7, 12] {
        let (by_java, by_us) = (format!("keys-java-{partitions}"), format!("keys-ours-{partitions}"));
        cluster.create_topic(&by_java, partitions, 1, &[]);
        cluster.create_topic(&by_us, partitions, 1, &[]);
        let expected = cluster.produce_with_java(&by_java, &messages, &[]);
        let producer = producer(&cluster.bootstrap(), &[]);
        let keyed = keys.iter().map(|key| Message::keyed(key, b"v"));
        let places = delivered(&producer.send_messages(&by_us, keyed).expect("accepted"));
        let _ = stop(&producer);
        for ((key, java), ours) in keys.iter().zip(&expected).zip(&places) {
            assert_eq!(ours.partition, java.0, "key {key:?} of {partitions} partitions");
        }
        let mut back = cluster.consume(&by_us);
        let mut java = cluster.consume(&by_java);
        for list in [&mut back, &mut java] {
            list.sort_by(|x, y| (&x.key, x.offset).cmp(&(&y.key, y.offset)));
        }
        let place = |list: &[kafka::ConsumedRecord]| -> Vec<_> {
            list.iter().map(|r| (r.key.clone(), r.partition)).collect()
        };
        assert!(place(&back) == place(&java));
    }
}

/// 200,000 keyed messages of random length from four threads at full speed: all there once, each key in one partition and in
/// the order in which its thread sent it.
#[test]
fn partitions_keep_keys_together_and_in_order() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("bulk", 5, 1, &[]);
    let producer = producer(&cluster.bootstrap(), &[("compression.type", "lz4")]);
    let mut expected: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|thread| {
                let producer = &producer;
                scope.spawn(move || send_keyed(producer, thread))
            })
            .collect();
        for sender in senders {
            expected.extend(sender.join().expect("a sender ends well"));
        }
    });
    producer.flush(PATIENCE).expect("all delivered");
    let stats = stop(&producer);
    assert_eq!((stats.delivered, stats.dropped), (200_000, 0));
    let mut found: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    let mut partitions: HashMap<Vec<u8>, i32> = HashMap::new();
    for record in cluster.consume("bulk") {
        let key = record.key.expect("a key");
        assert_eq!(*partitions.entry(key.clone()).or_insert(record.partition), record.partition);
        found.entry(key).or_default().push(record.value.expect("a value"));
    }
    assert!(found == expected, "what was read is not what was sent");
}

/// Fifty thousand messages over keys of this thread's own; what was sent by key.
fn send_keyed(producer: &Producer, thread: u64) -> HashMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut random = fastrand::Rng::with_seed(thread);
    let mut sent: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    for n in 0..50_000 {
        let key = format!("{thread}-{}", random.u32(0..500)).into_bytes();
        let mut value = format!("{n} ").into_bytes();
        value.resize(value.len() + random.usize(0..200), b'a' + random.u8(0..26));
        let _ = producer.send("bulk", Message::keyed(&key, &value)).expect("accepted");
        sent.entry(key).or_default().push(value);
    }
    sent
}

/// Explicit partitions are obeyed, and what has neither key nor partition is spread over all.
#[test]
fn partitions_explicit_and_unkeyed() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("spread", 4, 1, &[]);
    let producer = producer(&cluster.bootstrap(), &[("batch.size", "2000"), ("linger.ms", "0")]);
    let explicit: Vec<Message<'_>> =
        (0..40).map(|n| Message { partition: Some(n % 4), ..Message::keyed(b"same", b"explicit") }).collect();
    for (n, place) in (0..).zip(delivered(&producer.send_messages("spread", explicit).expect("accepted"))) {
        assert_eq!(place.partition, n % 4);
    }
    let mut counts = [0; 4];
    for _ in 0..100 {
        let unkeyed = (0..20).map(|_| Message::new(&[b'u'; 100]));
        for place in delivered(&producer.send_messages("spread", unkeyed).expect("accepted")) {
            counts[usize::try_from(place.partition).expect("not negative")] += 1;
        }
    }
    let _ = stop(&producer);
    assert_eq!(counts.iter().sum::<i32>(), 2000);
    assert!(counts.iter().all(|count| *count > 100), "2000 messages over four partitions: {counts:?}");
}

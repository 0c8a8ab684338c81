//! What a message consists of arrives as it was: headers, nulls, empties, timestamps; and what receipts say of it.

use crate::client::{delivered, producer, stop};
use crate::support::kafka::{self, ConsumedRecord, TimestampKind};
use steadfast::{Header, Message, TimestampType};

#[test]
fn contents_headers_nulls_and_empties_arrive_as_they_are() {
    let Some(cluster) = kafka::one() else { return };
    let topic = "contents";
    cluster.create_topic(topic, 1, 1, &[]);
    let header = |name, value| Header { name, value };
    let headers = [
        header("trace", Some(&b"1"[..])),
        header("trace", Some(&[0, 255, 10][..])),
        header("other", None),
        header("trace", Some(&b""[..])),
        header("", Some(&b"no name"[..])),
        header("größe", Some(&b"not ASCII"[..])),
    ];
    type Content<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [Header<'a>]);
    let contents: [Content<'_>; 9] = [
        (None, None, &[]),
        (None, Some(b""), &[]),
        (Some(b""), None, &[]),
        (Some(b""), Some(b""), &[]),
        (Some(b"key"), None, &headers[..1]),
        (None, Some(b"value"), &headers[2..3]),
        (Some(b"key"), Some(b"value"), &headers),
        (Some(&[0, 1, 254, 255]), Some(&[10, 13, 0]), &headers[..2]),
        (None, None, &headers),
    ];
    for codec in ["none", "lz4"] {
        let producer = producer(&cluster.bootstrap(), &[("compression.type", codec)]);
        let messages = contents.iter().map(|(key, value, headers)| Message {
            key: *key,
            value: *value,
            headers,
            ..Message::default()
        });
        let _ = delivered(&producer.send_messages(topic, messages).expect("accepted"));
        let _ = stop(&producer);
    }
    let back = cluster.consume(topic);
    assert_eq!(back.len(), 2 * contents.len());
    for (record, (key, value, headers)) in back.iter().zip(contents.iter().cycle()) {
        assert_eq!(record.key.as_deref(), *key, "offset {}", record.offset);
        assert_eq!(record.value.as_deref(), *value, "offset {}", record.offset);
        let names: Vec<_> =
            headers.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
        assert_eq!(record.headers, names, "offset {}", record.offset);
    }
}

#[test]
fn contents_timestamps_are_the_callers_or_the_logs_as_the_receipt_says() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("times-create", 1, 1, &[("message.timestamp.type", "CreateTime")]);
    cluster.create_topic("times-append", 1, 1, &[("message.timestamp.type", "LogAppendTime")]);
    // The producer reads a coarse clock, which is behind by some milliseconds.
    let before = now_ms() - 50;
    let producer = producer(&cluster.bootstrap(), &[]);
    let given = [Some(1_700_000_000_000), None, Some(1_600_000_000_000), Some(0), Some(1_700_000_000_001)];
    for (topic, kind, stamp) in [
        ("times-create", TimestampKind::Create, TimestampType::CreateTime),
        ("times-append", TimestampKind::LogAppend, TimestampType::LogAppendTime),
    ] {
        let messages =
            given.iter().map(|timestamp| Message { timestamp: *timestamp, ..Message::new(b"now") });
        let places = delivered(&producer.send_messages(topic, messages).expect("accepted"));
        let back = cluster.consume(topic);
        let after = now_ms();
        assert_eq!(places.len(), back.len());
        for ((place, record), given) in places.iter().zip(&back).zip(given) {
            assert_eq!((place.offset, place.timestamp), (Some(record.offset), record.timestamp), "{topic}");
            assert_eq!((place.timestamp_type, record.timestamp_kind), (stamp, kind));
            match given {
                Some(given) if kind == TimestampKind::Create => assert_eq!(record.timestamp, given),
                _ => assert!((before..=after).contains(&record.timestamp), "{record:?}"),
            }
        }
    }
    let _ = stop(&producer);
}

fn now_ms() -> i64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since_1970.as_millis()).expect("a time of this age")
}

/// Each of the three: all there and in order, with an offset unless nobody was asked for it.
#[test]
fn contents_acks_zero_one_and_all() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("acks", 3, 1, &[]);
    for (partition, acks) in (0..).zip(["0", "1", "all"]) {
        let producer = producer(&cluster.bootstrap(), &[("acks", acks)]);
        for call in 0..50 {
            let values: Vec<String> = (0..20).map(|n| format!("{}", call * 20 + n)).collect();
            let messages =
                values.iter().map(|v| Message { partition: Some(partition), ..Message::from(v.as_str()) });
            for (n, place) in
                (0..).zip(delivered(&producer.send_messages("acks", messages).expect("accepted")))
            {
                assert_eq!(place.partition, partition);
                assert_eq!(place.offset, (acks != "0").then_some(call * 20 + n), "acks={acks}");
            }
        }
        let _ = stop(&producer);
    }
    // With acks=0 the last request may still be on its way when the producer is gone.
    crate::support::wait::until(crate::client::PATIENCE, "the messages without acknowledgement", || {
        (cluster.end_offsets("acks") == [1000; 3]).then_some(())
    });
    let back = cluster.consume("acks");
    for partition in 0..3 {
        let of_this = |record: &&ConsumedRecord| record.partition == partition;
        let values: Vec<_> = back.iter().filter(of_this).map(|r| r.value.clone().expect("a value")).collect();
        let expected: Vec<_> = (0..1000).map(|n| n.to_string().into_bytes()).collect();
        assert!(values == expected, "partition {partition}");
    }
}

//! Each accepted message has one verdict, and each call is whole.

use crate::stand_in::{eventually, poke, producer, settings, Mode, PATIENCE};
use std::collections::HashSet;
use std::panic::catch_unwind;
use steadfast::internal::producer::bytes_charged;
use steadfast::{Cause, Header, Message, SendError, TimestampType, WaitError};

#[test]
fn one_message() {
    let (producer, broker) = producer(settings(), None);
    let receipt = producer.send("t", "hello").unwrap();
    assert_eq!(receipt.len(), 1);
    let delivered = receipt.wait_one().unwrap();
    assert_eq!((&*delivered.topic, delivered.partition, delivered.offset), ("t", 3, Some(0)));
    assert_eq!(delivered.timestamp_type, TimestampType::CreateTime);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert!((now - delivered.timestamp).abs() < 60_000, "{}", delivered.timestamp);
    assert!(receipt.is_settled());
    assert_eq!(receipt.result(0).unwrap().unwrap(), delivered);
    assert!(receipt.result(1).is_none());
    assert_eq!(broker.log(), [b"hello"]);
    eventually("its bytes are given back", || bytes_charged(&producer) == 0);
}

#[test]
fn calls_of_every_size_are_settled_in_order() {
    let (producer, broker) = producer(settings(), None);
    let mut sent = 0u64;
    // From nothing over several in one chunk to many chunks; the last ones larger than a chunk by single messages.
    for (count, size) in
        [(0, 9), (1, 9), (10, 9), (3, 6_000), (500, 100), (3_000, 20), (4, 70_000), (2, 200_000)]
    {
        let values: Vec<Vec<u8>> = (0..count)
            .map(|i| {
                let mut value = (sent + i).to_be_bytes().to_vec();
                value.resize(size, b'.');
                value
            })
            .collect();
        let receipt = producer.send_messages("t", &values).unwrap();
        assert_eq!(receipt.len() as u64, count);
        let delivered = receipt.wait().unwrap();
        let offsets: Vec<u64> = delivered.iter().map(|d| d.offset.unwrap() as u64).collect();
        assert_eq!(offsets, (sent..sent + count).collect::<Vec<_>>(), "{count} of {size}");
        assert_eq!(receipt.results().count() as u64, count);
        sent += count;
    }
    let log = broker.log();
    assert_eq!(log.len() as u64, sent);
    assert!((0..sent).zip(&log).all(|(number, value)| value[..8] == number.to_be_bytes()));
}

#[test]
fn a_call_is_in_one_piece_whoever_else_sends() {
    let (producer, broker) = producer(settings(), None);
    std::thread::scope(|scope| {
        for thread in 0..6u32 {
            let producer = &producer;
            scope.spawn(move || {
                for call in 0..60u32 {
                    let count = [1, 7, 90, 400][(call % 4) as usize];
                    let size = 12 + (call as usize * 37) % 300;
                    let messages: Vec<Vec<u8>> = (0..count)
                        .map(|i: u32| {
                            let mut value = [thread, call, i].map(u32::to_be_bytes).concat();
                            value.resize(size, 0);
                            value
                        })
                        .collect();
                    drop(producer.send_messages("t", &messages).unwrap());
                }
            });
        }
    });
    producer.flush(PATIENCE).unwrap();
    let word = |value: &[u8], at: usize| u32::from_be_bytes(value[at..at + 4].try_into().unwrap());
    let log = broker.log();
    let mut at = 0;
    let mut last_call = [None; 6];
    while at < log.len() {
        let (thread, call) = (word(&log[at], 0), word(&log[at], 4));
        let count = [1, 7, 90, 400][(call % 4) as usize];
        for i in 0..count {
            let value = &log[at + i as usize];
            assert_eq!([word(value, 0), word(value, 4), word(value, 8)], [thread, call, i]);
        }
        assert_eq!(
            last_call[thread as usize].map_or(0, |last| last + 1),
            call,
            "a thread's calls stay in order"
        );
        last_call[thread as usize] = Some(call);
        at += count as usize;
    }
    assert_eq!(last_call, [Some(59); 6]);
}

#[test]
fn timestamps_are_the_messages_own_or_the_brokers() {
    let (producer, broker) = producer(settings(), None);
    let at = |timestamp| Message { value: Some(b"x"), timestamp: Some(timestamp), ..Message::default() };
    let delivered = producer.send_messages("t", [at(5), at(5), at(7), at(0)]).unwrap().wait().unwrap();
    assert_eq!(delivered.iter().map(|d| d.timestamp).collect::<Vec<_>>(), [5, 5, 7, 0]);
    let many = producer.send_messages("t", (0..5_000).map(at)).unwrap().wait().unwrap();
    assert!(many.iter().zip(0..).all(|(delivered, timestamp)| delivered.timestamp == timestamp));
    broker.set_append_time(99);
    let delivered = producer.send("t", at(5)).unwrap().wait_one().unwrap();
    assert_eq!((delivered.timestamp, delivered.timestamp_type), (99, TimestampType::LogAppendTime));
}

#[test]
fn a_panicking_iterator_hands_nothing_over() {
    let (producer, broker) = producer(settings(), None);
    for panics_at in [0, 5, 2_000] {
        let messages = (0..3_000).map(|i| if i == panics_at { panic!("mine") } else { "0123456789" });
        assert!(catch_unwind(|| producer.send_messages("t", messages)).is_err());
    }
    assert_eq!((producer.stats().accepted, bytes_charged(&producer)), (0, 0));
    let receipt = producer.send_messages("t", ["a", "b"]).unwrap();
    assert_eq!(receipt.wait().unwrap().len(), 2);
    assert_eq!(broker.log(), [b"a", b"b"]);
}

/// Sends a message of its own when it is turned into one.
struct Nested<'a>(&'a steadfast::Producer);

impl<'a> From<Nested<'a>> for Message<'a> {
    fn from(nested: Nested<'a>) -> Self {
        drop(nested.0.send_messages("t", ["inner", "inner"]).unwrap());
        nested.0.flush(PATIENCE).unwrap();
        Message::new(b"outer")
    }
}

#[test]
fn an_iterator_may_use_the_producer() {
    let (producer, broker) = producer(settings(), None);
    let receipt = producer.send_messages("t", (0..3).map(|_| Nested(&producer))).unwrap();
    receipt.wait().unwrap();
    producer.send("t", Nested(&producer)).unwrap().wait_one().unwrap();
    let log = broker.log();
    assert_eq!(log[..6], [b"inner"; 6], "they came before the call was handed over");
    assert_eq!(log[6..], [&b"outer"[..], b"outer", b"outer", b"inner", b"inner", b"outer"]);
}

#[test]
fn a_refused_call_says_which_message_and_accepts_nothing() {
    let mut settings = settings();
    settings.max_request_bytes = 10_000;
    let (producer, broker) = producer(settings, None);
    let fine = Message::new(b"fine");
    let large = [0; 10_000];
    for (odd, error) in [
        (Message { partition: Some(-1), ..fine }, SendError::InvalidPartition { index: 2, partition: -1 }),
        (Message { timestamp: Some(-7), ..fine }, SendError::InvalidTimestamp { index: 2, timestamp: -7 }),
        (Message::new(&large), SendError::MessageTooLarge { index: 2, bytes: 10_000 + 87, limit: 10_000 }),
    ] {
        assert_eq!(producer.send_messages("t", [fine, fine, odd, fine]).unwrap_err(), error);
    }
    for name in ["", "..", "a b"] {
        assert!(matches!(producer.send(name, "x"), Err(SendError::InvalidTopic { .. })));
    }
    poke(&producer);
    assert_eq!((producer.stats().accepted, bytes_charged(&producer), broker.taken()), (0, 0, 0));
}

#[test]
fn a_call_larger_than_the_buffer_is_refused_at_once() {
    let (producer, _) = producer(settings(), None);
    // Waiting would not help; and this iterator has no end.
    let refused = producer.send_messages("t", std::iter::repeat("0123456789")).unwrap_err();
    let SendError::CallTooLarge { bytes, buffer_bytes } = refused else { panic!("{refused}") };
    assert!(bytes > buffer_bytes && bytes < buffer_bytes + 200);
    assert_eq!(bytes_charged(&producer), 0);
}

#[test]
fn dropped_messages_come_back_whole() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Drop);
    let headers = [Header { name: "h", value: None }, Header { name: "h", value: Some(b"") }];
    let odd = Message { key: None, value: None, headers: &headers, timestamp: Some(5), partition: Some(1) };
    let plain = Message::keyed(b"k", b"v");
    let receipt = producer.send_messages("t", [plain, odd]).unwrap();
    receipt.wait_settled(PATIENCE).unwrap();
    assert!(matches!(receipt.wait(), Err(WaitError::Dropped(dropped)) if dropped.message.key.is_some()));
    let mut back = receipt.results().map(|result| result.unwrap().unwrap_err());
    let (first, second) = (back.next().unwrap(), back.next().unwrap());
    assert!(back.next().is_none());
    assert_eq!(first.error.cause, Cause::NoLeader);
    assert_eq!(
        (first.message.key.as_deref(), first.message.value.as_deref()),
        (Some(&b"k"[..]), Some(&b"v"[..]))
    );
    assert_eq!((&second.message.key, &second.message.value, second.message.timestamp), (&None, &None, 5));
    assert_eq!(second.message.headers, [("h".into(), None), ("h".into(), Some(Vec::new()))]);

    // They can be sent again as they are.
    broker.set(Mode::Deliver);
    let borrowed = second.message.borrowed_headers();
    producer.send("t", second.message.as_message(&borrowed)).unwrap().wait_one().unwrap();

    // And they stay charged until nobody can ask for them any more.
    assert!(bytes_charged(&producer) > 0);
    drop(back);
    drop(receipt);
    eventually("their bytes are given back", || bytes_charged(&producer) == 0);
}

#[test]
fn receipts_outlive_the_producer() {
    let (producer, broker) = producer(settings(), None);
    let delivered = producer.send("t", "a").unwrap();
    delivered.wait_one().unwrap();
    broker.set(Mode::Hold);
    let left = producer.send("t", "b").unwrap();
    assert!(matches!(left.wait_one_timeout(std::time::Duration::ZERO), Err(WaitError::TimedOut)));
    let waiting = std::thread::spawn(move || (left.wait_one(), left));
    let report = producer.stop(std::time::Duration::ZERO);
    assert_eq!((report.left_count, report.left.len()), (1, 1));
    drop((producer, report));
    let (result, left) = waiting.join().unwrap();
    let Err(WaitError::Dropped(dropped)) = result else { panic!("{result:?}") };
    assert!(matches!(dropped.error.cause, Cause::Stopped { .. }));
    assert_eq!(left.result(0).unwrap().unwrap_err().message.value.as_deref(), Some(&b"b"[..]));
    assert_eq!(delivered.wait_one().unwrap().offset, Some(0));
}

#[test]
fn an_empty_call_is_fine() {
    let (producer, _) = producer(settings(), None);
    let receipt = producer.send_messages("t", Vec::<&str>::new()).unwrap();
    assert!(receipt.is_empty() && receipt.is_settled());
    assert_eq!(receipt.wait().unwrap(), []);
    assert!(matches!(receipt.wait_one(), Err(WaitError::NoMessage)));
    assert_eq!(receipt.results().count(), 0);
}

#[test]
fn topics_do_not_mix() {
    let (producer, _) = producer(settings(), None);
    let receipts: Vec<_> =
        (0..200).map(|i| producer.send(&format!("topic-{}", i % 50), "x").unwrap()).collect();
    let mut offsets = HashSet::new();
    for (i, receipt) in receipts.iter().enumerate() {
        let delivered = receipt.wait_one().unwrap();
        assert_eq!(*delivered.topic, format!("topic-{}", i % 50));
        assert!(offsets.insert(delivered.offset), "two messages at {:?}", delivered.offset);
    }
}

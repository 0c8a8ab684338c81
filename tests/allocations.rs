//! Handing over allocates nothing a message: only a chunk now and then.
//!
//! Alone in its process for the counting allocator, which counts for the calling thread only: here the caller's.

use allocation_counter::measure;
use std::time::Duration;
use steadfast::testing::Cluster;
use steadfast::{Config, Message, Producer};

const MESSAGES: u64 = 50_000;

fn producer(cluster: &Cluster) -> Producer {
    Producer::new(Config::new(cluster.bootstrap())).unwrap()
}

/// Allocations a message while `send` hands over `MESSAGES` of them, once everything is warm.
fn allocations(mut send: impl FnMut(u64)) -> f64 {
    (0..MESSAGES).for_each(&mut send);
    measure(|| (0..MESSAGES).for_each(&mut send)).count_total as f64 / MESSAGES as f64
}

#[test]
fn callers_allocate_nothing_a_message() {
    let cluster = Cluster::builder().brokers(1).topic("t").keep_log(false).start().unwrap();
    let producer = producer(&cluster);
    let value = [b'x'; 100];

    // 485 of these fill a chunk. A new one is three allocations, where none has come back from the worker yet.
    let single = allocations(|_| drop(producer.send("t", &value).unwrap()));
    assert!(single < 0.02, "{single} allocations a message");

    let keyed = allocations(|i| {
        let key = i.to_be_bytes();
        drop(producer.send("t", Message::keyed(&key, &value)).unwrap());
    });
    assert!(keyed < 0.02, "{keyed} allocations a message with a key");

    let call = allocations(|_| drop(producer.send_messages("t", [&value; 10]).unwrap())) / 10.0;
    assert!(call < 0.02, "{call} allocations a message in calls of ten");

    let mut kept = Vec::with_capacity(2 * MESSAGES as usize);
    let kept_ones = allocations(|_| kept.push(producer.send("t", &value).unwrap()));
    assert!(kept_ones < 0.02, "{kept_ones} allocations a message with its receipt kept");
    assert!(producer.stop(Duration::from_secs(60)).is_clean());
    assert!(kept.iter().all(|receipt| receipt.wait_one().is_ok()));
}

//! A receipt may be kept for ever: it holds no bytes of delivered messages.
//!
//! Alone in its process, because it measures the whole process's memory.

use peak_alloc::PeakAlloc;
use std::time::Duration;
use steadfast::testing::Cluster;
use steadfast::{Config, Producer};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MESSAGES: usize = 10_000;
const SIZE: usize = 10_000;

#[test]
fn kept_receipts_hold_no_messages() {
    let cluster = Cluster::builder().brokers(1).topic("t").keep_log(false).start().unwrap();
    let config = Config::new(cluster.bootstrap()).set("buffer.memory", "4194304").unwrap();
    let producer = Producer::new(config).unwrap();
    let value = vec![b'x'; SIZE];
    let mut kept = Vec::with_capacity(MESSAGES);
    let mut send = |count: usize| {
        kept.extend((0..count).map(|_| producer.send("t", &value).unwrap()));
        producer.flush(Duration::from_secs(60)).unwrap();
    };
    // Pools and buffers have their size after this.
    send(MESSAGES / 10);
    let before = ALLOCATED.current_usage();
    send(MESSAGES - MESSAGES / 10);
    let grown = ALLOCATED.current_usage().saturating_sub(before);
    // 90 MB went through. A receipt's own share is a part of its chunk's outcomes: about a hundred bytes here, where a chunk
    // has six messages.
    assert!(grown < 4 << 20, "{grown} bytes for {MESSAGES} receipts");
    drop(producer);
    assert!(kept.iter().zip(0..).all(|(receipt, i)| receipt.wait_one().unwrap().offset == Some(i)));
}

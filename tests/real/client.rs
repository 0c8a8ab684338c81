//! Our producer in these tests: made from properties, and kept busy by several threads whose messages are numbered.

use crate::support::ledger::{self, Ledger, Verdict};
use crate::support::wait;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use steadfast::{Config, Delivered, DeliveryError, Dropped, Fate, Message, Producer, Receipt, Stats};

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A producer for this cluster; `properties` win over the few that all tests share.
pub fn producer(bootstrap: &str, properties: &[(&str, &str)]) -> Producer {
    // What the producer logs is shown with a failed test, as far as RUST_LOG asks for it. Only the first call does anything.
    let _ = env_logger::builder().is_test(true).try_init();
    let shared = [("bootstrap.servers", bootstrap), ("client.id", "steadfast-test")];
    let config = Config::from_properties(shared.iter().chain(properties).copied()).expect("valid properties");
    Producer::new(config).expect("a producer")
}

/// Waits for all verdicts of a call.
pub fn settled(receipt: &Receipt) -> Vec<Result<Delivered, Dropped>> {
    receipt.wait_settled(PATIENCE).expect("verdicts");
    receipt.results().map(|result| result.expect("a settled receipt has them all")).collect()
}

/// Waits for all verdicts of a call, which must all be good.
pub fn delivered(receipt: &Receipt) -> Vec<Delivered> {
    receipt.wait_timeout(PATIENCE).expect("all delivered")
}

/// Waits for the verdict on the only message of a call, which must be bad.
pub fn dropped(receipt: &Receipt) -> Dropped {
    match settled(receipt).remove(0) {
        Ok(delivered) => panic!("delivered: {delivered:?}"),
        Err(dropped) => dropped,
    }
}

/// Stops a producer that must have nothing left.
pub fn stop(producer: &Producer) -> Stats {
    let report = producer.stop(PATIENCE);
    assert!(report.is_clean() && report.left_count == 0, "{report:?}");
    producer.stats()
}

fn verdict(result: Result<Delivered, Dropped>) -> Verdict {
    let text = |error: &DeliveryError| error.to_string();
    match result {
        Ok(Delivered { partition, offset, .. }) => Verdict::Delivered { partition, offset },
        Err(Dropped { error, .. }) if error.fate == Fate::NotWritten => Verdict::NotWritten(text(&error)),
        Err(Dropped { error, .. }) => Verdict::Unknown(text(&error)),
    }
}

/// Threads that send numbered messages to one topic until they are told to stop.
///
/// They pause between calls, so that a fault of some seconds meets some thousand messages: enough to have several requests
/// in flight all the while, few enough to be read back.
pub struct Traffic {
    pub producer: Producer,
    topic: String,
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(Receipt, u64)>>>,
}

/// What came of it.
pub struct Outcome {
    pub ledger: Ledger,
    pub stats: Stats,
}

impl Traffic {
    pub fn start(producer: Producer, topic: &str, threads: u32) -> Traffic {
        let done = Arc::new(AtomicBool::new(false));
        let threads = (0..threads)
            .map(|thread| {
                let (producer, topic, done) = (producer.clone(), topic.to_owned(), done.clone());
                std::thread::spawn(move || send_all_the_while(&producer, &topic, thread, &done))
            })
            .collect();
        Traffic { producer, topic: topic.to_owned(), done, threads }
    }

    /// Waits until this many more messages were delivered.
    pub fn await_delivered(&self, more: u64) {
        let goal = self.producer.stats().delivered + more;
        self.await_stats(&format!("{more} more messages delivered"), |stats| stats.delivered >= goal);
    }

    /// Waits until the counters say so.
    pub fn await_stats(&self, what: &str, condition: impl Fn(&Stats) -> bool) {
        wait::until_or(
            PATIENCE,
            || condition(&self.producer.stats()).then_some(()),
            || {
                let (stats, status) = (self.producer.stats(), self.producer.status());
                format!("{what} (topic {})\n{stats:#?}\n{status:#?}", self.topic)
            },
        );
    }

    /// No more messages; all verdicts; the producer stopped.
    pub fn finish(mut self) -> Outcome {
        self.done.store(true, Ordering::Relaxed);
        let mut ledger = Ledger::default();
        let threads = std::mem::take(&mut self.threads);
        let receipts: Vec<_> = threads.into_iter().map(|t| t.join().expect("a sender ends well")).collect();
        self.producer.flush(PATIENCE).unwrap_or_else(|error| {
            panic!("flush: {error}\n{:#?}\n{:#?}", self.producer.stats(), self.producer.status())
        });
        for (thread, receipts) in (0..).zip(receipts) {
            for (receipt, first) in receipts {
                for (number, result) in (first..).zip(settled(&receipt)) {
                    ledger.record(thread, number, verdict(result));
                }
            }
        }
        Outcome { ledger, stats: stop(&self.producer) }
    }
}

impl Drop for Traffic {
    /// After a panic in the test: the threads must not send for ever.
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

fn send_all_the_while(
    producer: &Producer,
    topic: &str,
    thread: u32,
    done: &AtomicBool,
) -> Vec<(Receipt, u64)> {
    let mut receipts = Vec::new();
    let mut number = 0;
    let mut random = fastrand::Rng::with_seed(u64::from(thread));
    while !done.load(Ordering::Relaxed) {
        let values: Vec<String> = (number..number + random.u64(1..6))
            .map(|n| ledger::value(thread, n, random.usize(10..300)))
            .collect();
        // Half of the threads by key, half as the partitioner likes.
        let key = format!("{}", random.u32(0..50));
        let key = thread.is_multiple_of(2).then_some(key.as_bytes());
        let messages =
            values.iter().map(|v| Message { key, value: Some(v.as_bytes()), ..Message::default() });
        let receipt = producer.send_messages(topic, messages).expect("accepted");
        let count = values.len() as u64;
        receipts.push((receipt, number));
        number += count;
        std::thread::sleep(Duration::from_millis(4));
    }
    receipts
}

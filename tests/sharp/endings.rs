//! Flush, stop and drop: in time, and with a word about what was left.

use crate::harness::*;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use steadfast::testing::{Cluster, Fault, On, Times};
use steadfast::{Cause, Config, FlushError, Message, Producer, Receipt, SendError, StopEnd};

/// Lines of the log, of a process with one test in it.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.lock().push(format!("{} {}", record.level(), record.args()));
    }

    fn flush(&self) {}
}

const SECRET: &str = "what nobody may read in a log";

/// Dropped with messages left: bounded, and one line that counts them.
#[test]
fn a_dropped_producer_logs_what_it_leaves_and_does_not_wait_for_long() {
    alone(test_name!(a_dropped_producer_logs_what_it_leaves_and_does_not_wait_for_long), || {
        log::set_logger(&Lines).expect("the only logger");
        log::set_max_level(log::LevelFilter::Trace);
        within(30 * SECOND, "dropping producers", || {
            for hung in [true, false] {
                let cluster = Cluster::builder().topic(("t", 3)).start().expect("a cluster");
                let config = Config::new(cluster.bootstrap()).drop_timeout(ms(300)).linger(60 * SECOND);
                let config = config.delivery_timeout(None);
                let producer = Producer::new(config).expect("a producer");
                producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
                if hung {
                    cluster.brokers().for_each(|broker| cluster.hang(broker));
                }
                LINES.lock().clear();
                let keyed = (0..90).map(|_| Message::keyed(SECRET.as_bytes(), SECRET.as_bytes()));
                let receipt = producer.send_messages("t", keyed).expect("room");
                let other = producer.clone();
                drop(producer);
                assert!(!receipt.is_settled(), "there is another handle");
                let ((), took, late) = timed(|| drop(other));
                let lines = std::mem::take(&mut *LINES.lock());
                assert!(lines.iter().all(|line| !line.contains(SECRET)), "{lines:?}");
                assert!(receipt.is_settled());
                // The first drop of a kind is worth a line of its own; what the producer left is told once.
                let told: Vec<_> = lines.iter().filter(|line| line.contains("90")).collect();
                if hung {
                    assert!(took >= ms(300) && took < ms(500) + late, "{took:?}");
                    assert_eq!(told.len(), 1, "{lines:?}");
                    assert!(told[0].starts_with("WARN"), "{told:?}");
                    let error = receipt.result(0).expect("settled").expect_err("left").error;
                    assert!(matches!(error.cause, Cause::Stopped { .. }), "{error}");
                } else {
                    assert!(took < ms(300) + late, "{took:?}");
                    assert_eq!(cluster.appended(), 90, "linger does not hold up the end");
                    assert!(told.is_empty(), "{lines:?}");
                }
            }
        });
    });
}

/// Many threads flush at once, each for its own messages, while others go on sending.
#[test]
fn flush_from_many_threads_covers_what_each_has_sent() {
    within(60 * SECOND, "flushing", || {
        let cluster = Cluster::builder().topic(("t", 6)).start().expect("a cluster");
        for partition in 0..6 {
            cluster.fault(On::partition("t", partition), Times::Always, Fault::delay(ms(2)));
        }
        // Without flush they would wait for a minute.
        let config = Config::new(cluster.bootstrap()).linger(60 * SECOND);
        let told = Arc::new(AtomicU64::new(0));
        let counted = told.clone();
        let builder = Producer::builder(config).on_delivery(move |run| {
            counted.fetch_add(run.len() as u64, Relaxed);
        });
        let producer = builder.start().expect("a producer");
        let sent = AtomicU64::new(0);
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8usize {
                let (producer, sent, start, told) = (&producer, &sent, &start, &told);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..25 {
                        let receipts: Vec<Receipt> = (0..thread * 3 + 1)
                            .map(|_| producer.send("t", "flushed").expect("room"))
                            .collect();
                        sent.fetch_add(receipts.len() as u64, Relaxed);
                        producer.flush(20 * SECOND).expect("flushed");
                        let open = receipts.iter().filter(|receipt| !receipt.is_settled()).count();
                        assert_eq!(open, 0, "thread {thread}, round {round}");
                        assert!(told.load(Relaxed) >= receipts.len() as u64);
                    }
                });
            }
        });
        assert_eq!(told.load(Relaxed), sent.into_inner(), "the callback has heard of all");
        assert_eq!(cluster.appended(), told.load(Relaxed));
    });
}

/// A flush whose time is over says how many are left, costs nothing, and can be asked for again.
#[test]
fn flush_keeps_its_deadline_and_counts_what_is_left() {
    within(30 * SECOND, "flushing in vain", || {
        let cluster = Cluster::builder().topic(("t", 1)).start().expect("a cluster");
        let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        cluster.brokers().for_each(|broker| cluster.hang(broker));
        let receipt = producer.send_messages("t", ["x"; 17]).expect("room");
        std::thread::scope(|scope| {
            for thread in 1..5 {
                let producer = &producer;
                scope.spawn(move || {
                    let timeout = ms(50 * thread);
                    let (result, took, late) = timed(|| producer.flush(timeout));
                    assert_eq!(result, Err(FlushError::TimedOut { left: 17 }));
                    assert!(took >= timeout && took < timeout + ms(100) + late, "{took:?}");
                });
            }
        });
        cluster.brokers().for_each(|broker| cluster.resume(broker));
        producer.flush(10 * SECOND).expect("flushed");
        receipt.wait_timeout(Duration::ZERO).expect("delivered");
        assert!(producer.stop(SECOND).is_clean());
        assert_eq!(producer.flush(SECOND), Ok(()), "after the end there is nothing left");
    });
}

/// Several threads stop at once, with different deadlines, and others send meanwhile: one end, the earliest deadline.
#[test]
fn stop_from_many_threads_is_one_end() {
    within(30 * SECOND, "stopping", || {
        let cluster = Cluster::builder().topic(("t", 3)).start().expect("a cluster");
        let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        cluster.brokers().for_each(|broker| cluster.hang(broker));
        let accepted = AtomicU64::new(0);
        let (reports, took, late) = timed(|| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| loop {
                        match producer.try_send_messages("t", ["left"; 3]) {
                            Ok(receipt) => accepted.fetch_add(receipt.len() as u64, Relaxed),
                            Err(SendError::BufferFull { .. }) => continue,
                            Err(error) => return assert_eq!(error, SendError::Stopped),
                        };
                        std::thread::sleep(ms(1));
                    });
                }
                until(5 * SECOND, "some are sent", || (accepted.load(Relaxed) > 30).then_some(()));
                let stopping = [60_000, 300, 5000, 60_000].map(|timeout| {
                    let producer = producer.clone();
                    scope.spawn(move || producer.stop(ms(timeout)))
                });
                stopping.map(|stopping| stopping.join().expect("no panic"))
            })
        });
        assert!(took < SECOND + late, "the earliest deadline counts: {took:?}");
        let accepted = accepted.into_inner();
        let left: usize = reports.iter().map(|report| report.left.len()).sum();
        assert_eq!(left as u64, accepted, "each is handed back once");
        for report in &reports {
            assert_eq!((&report.end, report.left_count), (&StopEnd::Deadline, accepted), "{report:?}");
        }
        let again = producer.stop(60 * SECOND);
        assert_eq!((again.end, again.left_count, again.left.len()), (StopEnd::Deadline, accepted, 0));
        assert_eq!(producer.send("t", "late").err(), Some(SendError::Stopped));
        drop(reports);
        assert_eq!(producer.stats().bytes_queued, 0);
    });
}

/// Stopping takes no longer than delivering does: linger is over, and a clean end comes at once.
#[test]
fn stop_ends_linger_and_comes_back_as_soon_as_all_is_delivered() {
    within(30 * SECOND, "a clean stop", || {
        let cluster = Cluster::builder().topic(("t", 3)).start().expect("a cluster");
        let producer =
            Producer::new(Config::new(cluster.bootstrap()).linger(60 * SECOND)).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        let receipts: Vec<Receipt> = (0..300).map(|_| producer.send("t", "x").expect("room")).collect();
        let (report, took, late) = timed(|| producer.stop(60 * SECOND));
        assert!(report.is_clean() && report.left.is_empty(), "{report:?}");
        assert!(took < SECOND + late, "{took:?}");
        for receipt in receipts {
            receipt.wait_timeout(Duration::ZERO).expect("delivered");
        }
        assert_eq!(cluster.appended(), 300);
    });
}

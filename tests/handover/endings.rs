//! Flush, stop, drop, death, fork: nobody waits for ever, and each says what it left.

use crate::stand_in::{eventually, poke, producer, producer_of, settings, Mode, PATIENCE};
use std::time::{Duration, Instant};
use steadfast::internal::delivery::origin::Origin;
use steadfast::internal::producer::bytes_charged;
use steadfast::{Cause, FlushError, SendError, StopEnd, WaitError};

/// What is sent lies in an open chunk until somebody asks for it.
fn with_long_linger() -> steadfast::internal::config::settings::Settings {
    let mut settings = settings();
    settings.linger = Duration::from_secs(3600);
    settings
}

#[test]
fn a_flush_covers_what_came_before_it_and_ends_linger() {
    let (producer, broker) = producer(with_long_linger(), None);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (producer, broker) = (&producer, &broker);
            scope.spawn(move || {
                for i in 0..50 {
                    let value = format!("{thread} {i}");
                    let receipt = producer.send("t", &value).unwrap();
                    producer.flush(PATIENCE).unwrap();
                    assert!(receipt.is_settled());
                    assert!(broker.log().iter().any(|logged| logged == value.as_bytes()));
                }
            });
        }
    });
    assert_eq!(broker.log().len(), 8 * 50);
}

#[test]
fn a_flush_keeps_its_deadline_and_says_what_is_left() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    let receipts: Vec<_> = (0..7).map(|_| producer.send("t", "x").unwrap()).collect();
    let start = Instant::now();
    assert_eq!(producer.flush(Duration::from_millis(30)), Err(FlushError::TimedOut { left: 7 }));
    assert!(start.elapsed() >= Duration::from_millis(30));
    broker.set(Mode::Deliver);
    producer.flush(PATIENCE).unwrap();
    assert!(receipts.iter().all(|receipt| receipt.is_settled()));
}

#[test]
fn a_flush_without_time_succeeds_when_nothing_is_left() {
    let (producer, _broker) = producer(settings(), None);
    assert_eq!(producer.flush(Duration::ZERO), Ok(()));
    producer.send("t", "x").unwrap().wait().unwrap();
    producer.flush(PATIENCE).unwrap();
    assert_eq!(producer.flush(Duration::ZERO), Ok(()));
}

#[test]
fn a_stop_sends_what_lingers_and_then_refuses() {
    let (producer, broker) = producer(with_long_linger(), None);
    let receipts = [producer.send("t", "a").unwrap(), producer.send("t", "b").unwrap()];
    let other = producer.clone();
    assert!(producer.stop(PATIENCE).is_clean());
    assert!(receipts.iter().all(|receipt| receipt.wait_one().is_ok()));
    assert_eq!(broker.log().len(), 2);
    assert_eq!(other.send("t", "c").unwrap_err(), SendError::Stopped);
    assert!(other.stop(Duration::ZERO).is_clean());
    assert_eq!(other.flush(Duration::ZERO), Ok(()));
    assert!(other.wait_until_ready(&[], PATIENCE).unwrap_err().reason.contains("stopped"));
    let stats = other.stats();
    assert_eq!((stats.accepted, stats.delivered, stats.dropped, stats.bytes_queued), (2, 2, 0, 0));
    assert!(other.status().closed.is_some());
}

#[test]
fn a_stop_keeps_its_deadline_and_hands_back_what_is_left() {
    let (producer, broker) = producer(with_long_linger(), None);
    broker.set(Mode::Hold);
    for i in 0..1_000 {
        drop(producer.send("t", &format!("{i}")).unwrap());
    }
    let start = Instant::now();
    let report = producer.stop(Duration::from_millis(50));
    // It has a fifth of a second for taking apart what is left; anything like `max.block.ms` would be much longer.
    assert!(start.elapsed() >= Duration::from_millis(50) && start.elapsed() < PATIENCE / 2);
    assert_eq!((&report.end, report.left_count, report.left.len()), (&StopEnd::Deadline, 1_000, 1_000));
    for (i, left) in report.left.iter().enumerate() {
        assert_eq!(left.message.value, Some(format!("{i}").into_bytes()));
        assert_eq!(left.error.cause, Cause::Stopped { last: None });
    }
    drop(report);
    eventually("their bytes are given back", || bytes_charged(&producer) == 0);
}

#[test]
fn many_may_stop_and_one_gets_what_is_left() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    for _ in 0..100 {
        drop(producer.send("t", "x").unwrap());
    }
    let reports: Vec<_> = std::thread::scope(|scope| {
        let stop = |timeout| {
            let producer = producer.clone();
            scope.spawn(move || producer.stop(timeout))
        };
        // The earliest deadline counts, whoever comes first.
        let threads: Vec<_> = [PATIENCE * 10, Duration::from_millis(40), Duration::MAX].map(stop).into();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(reports.iter().all(|report| report.left_count == 100));
    assert_eq!(reports.iter().map(|report| report.left.len()).sum::<usize>(), 100);
}

#[test]
fn dropping_the_last_handle_is_a_stop_with_a_bound() {
    let mut settings = settings();
    settings.drop_timeout = Duration::from_millis(50);
    let (producer, broker) = producer(settings, None);
    let delivered = producer.send("t", "a").unwrap();
    delivered.wait_one().unwrap();
    broker.set(Mode::Hold);
    let left: Vec<_> = (0..100).map(|_| producer.send("t", "b").unwrap()).collect();
    let second = producer.clone();
    drop(producer);
    assert!(second.send("t", "c").is_ok(), "it was not the last one");
    let start = Instant::now();
    drop(second);
    assert!(start.elapsed() < PATIENCE / 2);
    for receipt in left {
        let Err(WaitError::Dropped(dropped)) = receipt.wait_one() else { panic!("not dropped") };
        assert_eq!(dropped.message.value.as_deref(), Some(&b"b"[..]));
    }
}

#[test]
fn the_workers_death_reaches_everybody() {
    let (producer, broker) = producer(with_long_linger(), None);
    let delivered = producer.send("t", "a").unwrap();
    producer.flush(PATIENCE).unwrap();
    broker.set(Mode::Hold);
    // One is with the worker, one in the open chunk, and some in sealed ones or on their way.
    let mut lost = vec![producer.send("t", "b").unwrap()];
    assert!(producer.flush(Duration::from_millis(1)).is_err());
    lost.push(producer.send("t", "c").unwrap());
    let waiting = {
        let producer = producer.clone();
        std::thread::spawn(move || producer.flush(PATIENCE))
    };
    lost.push(producer.send_messages("t", &vec![[0; 1_000]; 200]).unwrap());
    broker.set(Mode::Die);
    poke(&producer);
    let words = "as the test wants it";
    let died = SendError::WorkerDied { reason: words.into() };
    for receipt in &lost {
        let Err(WaitError::Dropped(dropped)) = receipt.wait() else { panic!("not dropped") };
        assert_eq!(dropped.error.cause, Cause::WorkerDied { reason: words.into() });
        assert_eq!(dropped.message, steadfast::OwnedMessage::default());
    }
    assert!(delivered.wait_one().is_ok());
    assert_eq!(waiting.join().unwrap(), Err(FlushError::WorkerDied { reason: words.into() }));
    assert_eq!(producer.send("t", "late").unwrap_err(), died);
    assert_eq!(producer.try_send_messages("t", ["late"]).unwrap_err(), died);
    assert!(producer.wait_until_ready(&[], PATIENCE).unwrap_err().reason.contains(words));
    let report = producer.stop(PATIENCE);
    assert_eq!((report.end, report.left_count), (StopEnd::WorkerDied { reason: words.into() }, 202));
    let stats = producer.stats();
    assert_eq!((stats.accepted, stats.delivered, stats.dropped), (203, 1, 202));
    assert_eq!(stats.dropped_by_cause, [("worker died".to_owned(), 202)]);
    assert!(producer.status().closed.unwrap().contains(words));
}

#[test]
fn a_forked_child_gets_errors() {
    // As the child sees it: the process that made the producer is another one.
    let origin = Origin::of_process(Duration::ZERO, std::process::id() ^ 1);
    let mut settings = settings();
    settings.drop_timeout = Duration::from_secs(3600);
    let (producer, _) = producer_of(settings, origin, None);
    assert_eq!(producer.send("t", "x").unwrap_err(), SendError::Forked);
    assert_eq!(producer.try_send_messages("t", &vec![[0; 1_000]; 100]).unwrap_err(), SendError::Forked);
    assert_eq!(bytes_charged(&producer), 0);
    assert_eq!(producer.flush(PATIENCE), Err(FlushError::Forked));
    assert_eq!(producer.stop(PATIENCE).end, StopEnd::Forked);
    assert!(producer.wait_until_ready(&[], PATIENCE).unwrap_err().reason.contains("forked"));
    assert_eq!(producer.stats().accepted, 0);
    drop(producer); // and neither waits for nor ends the parent's worker
}

#[test]
fn readiness_is_the_engines_word() {
    let (producer, _) = producer(settings(), None);
    assert_eq!(producer.wait_until_ready(&["t"], PATIENCE), Ok(()));
    let start = Instant::now();
    let not_ready = producer.wait_until_ready(&["t", "missing"], Duration::from_millis(30)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(not_ready.to_string(), "not ready: the cluster does not know missing");
    assert!(producer.wait_until_ready(&["a b"], PATIENCE).unwrap_err().reason.contains("not a topic name"));
}

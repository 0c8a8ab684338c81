//! The delivery callback: it hears of everything once, and can't stall anybody but the senders.

use crate::stand_in::{eventually, poke, producer, settings, Mode, PATIENCE};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc, OnceLock};
use std::time::Duration;
use steadfast::internal::producer::bytes_charged;
use steadfast::{Cause, DeliveryRun, FlushError, Producer, SendError, StopEnd, WaitError};

#[test]
fn it_hears_of_each_message_once_and_in_order() {
    let (heard, told) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
    let callback = {
        let (heard, told) = (heard.clone(), told.clone());
        Box::new(move |run: &DeliveryRun| {
            assert_eq!((run.topic(), run.partition()), ("t", Some(3)));
            match run.error() {
                None => heard.lock().extend(run.offsets().unwrap()),
                Some(_) => assert_eq!(run.messages().count(), run.len()),
            }
            told.fetch_add(run.len() as u64, SeqCst);
        })
    };
    let (producer, broker) = producer(settings(), Some(callback));
    for i in 0..2_000 {
        drop(producer.send("t", &vec![0; i % 300]).unwrap());
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(*heard.lock(), (0..2_000).collect::<Vec<i64>>(), "a flush waits for the callback too");
    broker.set(Mode::Drop);
    for _ in 0..100 {
        drop(producer.send("t", "x").unwrap());
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(told.load(SeqCst), 2_100);
    assert_eq!(bytes_charged(&producer), 0);
    assert!(producer.stop(PATIENCE).is_clean());
}

#[test]
fn a_slow_one_slows_the_senders_and_not_the_worker() {
    let (go_on, gate) = mpsc::channel::<()>();
    let callback = Box::new(move |_: &DeliveryRun| {
        let _ = gate.recv(); // until the test lets go of the other end
    });
    let (producer, _) = producer(settings(), Some(callback));
    // The callback hangs with the first one, yet the worker settles the others.
    let receipts: Vec<_> = (0..100).map(|_| producer.send("t", &vec![0; 5_000]).unwrap()).collect();
    assert!(receipts.iter().all(|receipt| receipt.wait_one().is_ok()));
    // What it has not heard of is charged still, so senders are held in the end, and a flush and a stop say so.
    assert!(bytes_charged(&producer) > 100 * 5_000);
    let refused = loop {
        if let Err(refused) = producer.try_send("t", &vec![0; 50_000]) {
            break refused;
        }
    };
    assert!(matches!(refused, SendError::BufferFull { .. }));
    assert!(matches!(producer.flush(Duration::from_millis(20)), Err(FlushError::TimedOut { .. })));
    let report = producer.stop(Duration::from_millis(20));
    assert_eq!((report.end, report.left_count), (StopEnd::Deadline, 0));
    drop(go_on);
    assert_eq!(producer.stop(PATIENCE).end, StopEnd::Clean);
    assert_eq!(bytes_charged(&producer), 0);
}

#[test]
fn a_panic_in_it_is_counted_and_the_others_are_told() {
    let told = Arc::new(AtomicU64::new(0));
    let callback = {
        let told = told.clone();
        Box::new(move |run: &DeliveryRun| {
            if told.fetch_add(run.len() as u64, SeqCst).is_multiple_of(2) {
                panic!("mine");
            }
        })
    };
    let (producer, _) = producer(settings(), Some(callback));
    for _ in 0..10 {
        producer.send("t", "x").unwrap().wait_one().unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    assert_eq!(told.load(SeqCst), 10);
    assert_eq!(producer.stats().callback_panics, 5);
    assert_eq!(bytes_charged(&producer), 0);
}

/// What a callback that uses its producer came upon.
#[derive(Default)]
struct Findings {
    sent: u64,
    full: u64,
    told: u64,
}

#[test]
fn it_may_use_the_producer_and_is_never_held() {
    let itself: Arc<OnceLock<Producer>> = Arc::default();
    let findings = Arc::new(Mutex::new(Findings::default()));
    let callback = {
        let (itself, findings) = (itself.clone(), findings.clone());
        Box::new(move |run: &DeliveryRun| {
            let producer = itself.wait();
            let mut findings = findings.lock();
            findings.told += run.len() as u64;
            assert_eq!(producer.flush(PATIENCE), Err(FlushError::WouldDeadlock));
            assert_eq!(producer.stop(PATIENCE).end, StopEnd::WouldDeadlock);
            assert_eq!(producer.wait_until_ready(&[], PATIENCE), Ok(()));
            assert!(producer.stats().accepted > 0);
            // More than the buffer holds: it would wait for itself, because it gives room back.
            for _ in 0..30 {
                match producer.send("t", &vec![0; if findings.sent < 500 { 50_000 } else { 2_000_000 }]) {
                    Ok(receipt) => {
                        findings.sent += 1;
                        match receipt.wait_one() {
                            Err(WaitError::WouldDeadlock) | Ok(_) => {}
                            other => panic!("{other:?}"),
                        }
                    }
                    Err(SendError::BufferFull { .. } | SendError::CallTooLarge { .. }) => findings.full += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        })
    };
    let mut settings = settings();
    settings.max_request_bytes = 10 << 20;
    let (producer, broker) = producer(settings, Some(callback));
    itself.set(producer.clone()).unwrap();
    drop(producer.send("t", "first").unwrap());
    eventually("it comes to rest", || {
        let findings = findings.lock();
        findings.told == findings.sent + 1 && findings.sent >= 500
    });
    assert!(findings.lock().full > 0);
    assert_eq!(producer.stats().callback_panics, 0);
    assert!(producer.stop(PATIENCE).is_clean());
    assert_eq!(broker.log().len() as u64, findings.lock().told);
}

#[test]
fn it_may_drop_the_last_handle() {
    let slot: Arc<Mutex<Option<Producer>>> = Arc::default();
    let (told, all) = mpsc::channel();
    let callback = {
        let slot = slot.clone();
        Box::new(move |run: &DeliveryRun| {
            drop(slot.lock().take());
            told.send(run.len()).unwrap();
        })
    };
    let (producer, broker) = producer(settings(), Some(callback));
    broker.set(Mode::Hold);
    let receipts: Vec<_> = (0..500).map(|_| producer.send("t", "x").unwrap()).collect();
    *slot.lock() = Some(producer.clone());
    broker.set(Mode::Deliver);
    poke(&producer);
    // One of the two is the last one.
    drop(producer);
    // The channel ends with the callback: worker and callback's thread have come to their end by themselves.
    let mut count = 0;
    while let Ok(more) = all.recv_timeout(PATIENCE) {
        count += more;
    }
    assert!(matches!(all.try_recv(), Err(mpsc::TryRecvError::Disconnected)));
    assert_eq!(count, 500);
    assert!(receipts.iter().all(|receipt| receipt.wait_one().is_ok()));
}

#[test]
fn it_may_own_the_last_handle() {
    let itself: Arc<Mutex<Option<Producer>>> = Arc::default();
    let (alive, gone) = mpsc::channel::<()>();
    let callback = {
        let itself = itself.clone();
        Box::new(move |_: &DeliveryRun| {
            let _ = (&itself, &alive);
        })
    };
    let (producer, _) = producer(settings(), Some(callback));
    *itself.lock() = Some(producer.clone());
    drop(itself);
    producer.send("t", "x").unwrap().wait_one().unwrap();
    assert!(producer.stop(PATIENCE).is_clean());
    // The stop has waited for the callback to be dropped, with the handle in it.
    assert_eq!(gone.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn the_workers_death_is_told_once_for_all_that_it_had() {
    let (heard, all) = mpsc::channel();
    let callback = Box::new(move |run: &DeliveryRun| {
        heard.send((run.len(), run.error().map(|error| error.cause.clone()))).unwrap();
    });
    let (producer, broker) = producer(settings(), Some(callback));
    for _ in 0..10 {
        producer.send("t", "x").unwrap().wait_one().unwrap();
    }
    broker.set(Mode::Hold);
    for _ in 0..25 {
        drop(producer.send("t", "x").unwrap());
    }
    broker.set(Mode::Die);
    poke(&producer);
    let report = producer.stop(PATIENCE);
    assert!(matches!(report.end, StopEnd::WorkerDied { .. }));
    assert_eq!(report.left_count, 25);
    drop(producer);
    let heard: Vec<_> = all.iter().collect();
    let (last, delivered) = heard.split_last().unwrap();
    assert_eq!(delivered.iter().map(|(count, _)| count).sum::<usize>(), 10);
    assert!(delivered.iter().all(|(_, cause)| cause.is_none()));
    assert_eq!(*last, (25, Some(Cause::WorkerDied { reason: "as the test wants it".into() })));
}

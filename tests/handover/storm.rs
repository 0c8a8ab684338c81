//! Everything at once, and the accounts afterwards.

use crate::stand_in::{eventually, poke, producer, settings, Broker, Mode, PATIENCE};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use steadfast::internal::producer::bytes_charged;
use steadfast::{Cause, DeliveryRun, Fate, Producer, Receipt, SendError, StopEnd, WaitError};

const SENDERS: u64 = 32;

const ALL: [Mode; 3] = [Mode::Deliver, Mode::Hold, Mode::Drop];

/// What a sender got for its messages: the receipt, and the numbers that the messages carry.
type Sent = Vec<(Receipt, Vec<u64>)>;

/// Sends until the producer is stopped.
fn send(producer: &Producer, thread: u64, seed: u64) -> Sent {
    let mut rng = fastrand::Rng::with_seed(seed ^ thread);
    let mut sent = Vec::new();
    let mut next = thread << 32;
    loop {
        let count = [1, 1, 1, 1, 10, 100, 600][rng.usize(..7)];
        let size = [8, 30, 100, 1_000][rng.usize(..4)];
        let numbers: Vec<u64> = (next..next + count).collect();
        next += count;
        let values: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| {
                let mut value = number.to_be_bytes().to_vec();
                value.resize(size, 0);
                value
            })
            .collect();
        let topic = ["t", "u", "v"][rng.usize(..3)];
        let result = match (count, rng.bool()) {
            (1, true) => producer.send(topic, &values[0]),
            (1, false) => producer.try_send(topic, &values[0]),
            (_, true) => producer.send_messages(topic, &values),
            (_, false) => producer.try_send_messages(topic, &values),
        };
        match result {
            Ok(receipt) => sent.push((receipt, numbers)),
            Err(SendError::BufferFull { .. }) => std::thread::yield_now(),
            Err(SendError::Stopped | SendError::WorkerDied { .. }) => return sent,
            Err(other) => panic!("{other}"),
        }
        if rng.u32(..200) == 0 {
            let _ = producer.flush(Duration::from_millis(rng.u64(..20)));
        }
        if rng.u32(..50) == 0 {
            sent.last().map(|(receipt, _)| receipt.wait_timeout(Duration::from_millis(rng.u64(..5))));
        }
        if rng.u32(..20) == 0 {
            sent.pop().map(|_| ()).unwrap_or_default(); // a receipt may be dropped at any time
        }
    }
}

/// Lets `SENDERS` threads send while the broker changes its mind, then ends it.
fn storm(producer: &Producer, broker: &Broker, modes: &[Mode], seed: u64, end: impl FnOnce()) -> Vec<Sent> {
    std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..SENDERS).map(|thread| scope.spawn(move || send(producer, thread, seed))).collect();
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..30 {
            broker.set(modes[rng.usize(..modes.len())]);
            poke(producer);
            std::thread::sleep(Duration::from_millis(rng.u64(..8)));
        }
        end();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    })
}

/// Every message that there is a receipt for is in the log at its offset, or was not delivered: one of the two.
fn check(sent: &[Sent], broker: &Broker) {
    let log: Vec<u64> =
        broker.log().iter().map(|value| u64::from_be_bytes(value[..8].try_into().unwrap())).collect();
    let delivered: HashSet<u64> = log.iter().copied().collect();
    assert_eq!(delivered.len(), log.len(), "a message is in the log twice");
    for (receipt, numbers) in sent.iter().flatten() {
        assert_eq!(receipt.len(), numbers.len());
        for (result, number) in receipt.results().zip(numbers) {
            match result.expect("a message without a verdict") {
                Ok(at) => assert_eq!(log[at.offset.unwrap() as usize], *number),
                Err(dropped) => {
                    assert!(!delivered.contains(number), "delivered and dropped");
                    if dropped.error.fate == Fate::NotWritten {
                        assert_eq!(dropped.message.value.unwrap()[..8], number.to_be_bytes());
                    }
                }
            }
        }
    }
}

#[test]
fn stops_in_the_middle_of_everything() {
    for seed in 0..3 {
        let mut settings = settings();
        settings.buffer_bytes = 800_000 << (2 * seed);
        settings.linger = Duration::from_millis(seed);
        let (producer, broker) = producer(settings, None);
        let sent = storm(&producer, &broker, &ALL, seed, || {
            broker.set([Mode::Deliver, Mode::Hold][seed as usize % 2]);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| drop(producer.stop(Duration::from_millis(20))));
                }
            });
        });
        let report = producer.stop(PATIENCE);
        assert!(matches!(report.end, StopEnd::Clean | StopEnd::Deadline));
        check(&sent, &broker);
        let stats = producer.stats();
        assert_eq!(stats.accepted, stats.delivered + stats.dropped);
        assert_eq!(stats.delivered, broker.log().len() as u64);
        drop((sent, report));
        eventually("all is given back", || bytes_charged(&producer) == 0);
    }
}

#[test]
fn the_worker_dies_in_the_middle_of_everything() {
    let (producer, broker) = producer(settings(), None);
    // Nothing is dropped before: what the receipts hold of that would fill the buffer, and then nobody sends any more.
    let sent = storm(&producer, &broker, &[Mode::Deliver, Mode::Hold], 7, || {
        broker.set(Mode::Die);
        poke(&producer);
    });
    let report = producer.stop(PATIENCE);
    assert!(matches!(report.end, StopEnd::WorkerDied { .. }));
    for (receipt, _) in sent.iter().flatten() {
        if let Err(WaitError::Dropped(dropped)) = receipt.wait_timeout(PATIENCE) {
            assert!(matches!(dropped.error.cause, Cause::WorkerDied { .. } | Cause::NoLeader));
        }
    }
    check(&sent, &broker);
    let stats = producer.stats();
    assert_eq!(stats.accepted, stats.delivered + stats.dropped);
}

#[test]
fn with_a_callback_that_sends_and_panics() {
    let itself: Arc<std::sync::OnceLock<Producer>> = Arc::default();
    let told = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let callback = {
        let (itself, told) = (itself.clone(), told.clone());
        Box::new(move |run: &DeliveryRun| {
            let before = told.fetch_add(run.len() as u64, std::sync::atomic::Ordering::SeqCst);
            let producer = itself.wait();
            if before.is_multiple_of(7) {
                let _ = producer.send("w", [0xff; 8].as_slice());
            }
            let _ = producer.flush(PATIENCE);
            let _ = producer.stop(PATIENCE);
            if before.is_multiple_of(11) {
                panic!("mine");
            }
        })
    };
    let (producer, broker) = producer(settings(), Some(callback));
    itself.set(producer.clone()).unwrap();
    let sent = storm(&producer, &broker, &ALL, 11, || {
        broker.set(Mode::Deliver);
        drop(producer.stop(PATIENCE));
    });
    assert!(producer.stop(PATIENCE).is_clean());
    let stats = producer.stats();
    assert_eq!(stats.accepted, stats.delivered + stats.dropped);
    assert_eq!(told.load(std::sync::atomic::Ordering::SeqCst), stats.accepted);
    drop(sent);
    eventually("all is given back", || bytes_charged(&producer) == 0);
}

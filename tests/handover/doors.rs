//! Getting in: who waits for room, who doesn't, and who is turned away.

use crate::stand_in::{eventually, poke, producer, settings, Mode, PATIENCE};
use std::time::{Duration, Instant};
use steadfast::internal::producer::bytes_charged;
use steadfast::{Producer, Receipt, SendError, StopEnd};

/// Fills the buffer until nothing goes in any more.
fn fill(producer: &Producer) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for size in [10_000, 500, 10] {
        let value = vec![b'f'; size];
        loop {
            match producer.try_send("t", &value) {
                Ok(receipt) => receipts.push(receipt),
                Err(SendError::BufferFull { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
    }
    receipts
}

#[test]
fn try_send_never_waits() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    // Nothing will ever give room back here: whatever waited would hang for `max.block.ms`.
    let receipts = fill(&producer);
    let charged = bytes_charged(&producer);
    assert!(matches!(producer.try_send("t", [0; 2_000].as_slice()), Err(SendError::BufferFull { .. })));
    let many = vec![[0; 1_000]; 30];
    assert!(matches!(producer.try_send_messages("t", &many), Err(SendError::BufferFull { .. })));
    assert_eq!(bytes_charged(&producer), charged);
    assert_eq!(producer.stats().accepted, receipts.len() as u64);
    broker.set(Mode::Deliver);
    poke(&producer);
    assert!(receipts.iter().all(|receipt| receipt.wait_one().is_ok()));
}

#[test]
fn a_call_whose_deadline_passes_has_accepted_nothing() {
    let mut settings = settings();
    settings.max_block = Duration::from_millis(30);
    let (producer, broker) = producer(settings, None);
    broker.set(Mode::Hold);
    let receipts = fill(&producer);
    let (charged, accepted) = (bytes_charged(&producer), producer.stats().accepted);
    let start = Instant::now();
    let many = vec![[0; 1_000]; 30];
    assert!(matches!(producer.send_messages("t", &many), Err(SendError::BufferFull { .. })));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!((bytes_charged(&producer), producer.stats().accepted), (charged, accepted));
    broker.set(Mode::Deliver);
    producer.flush(PATIENCE).unwrap();
    assert_eq!(broker.log().len(), receipts.len());
    assert_eq!(bytes_charged(&producer), 0);
}

#[test]
fn who_waits_gets_in_when_there_is_room() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    let full = fill(&producer).len();
    std::thread::scope(|scope| {
        let send = |size: usize| {
            let producer = &producer;
            move || producer.send("t", &vec![0; size]).unwrap()
        };
        let waiting = [400_000, 2_000, 200_000, 100].map(|size| scope.spawn(send(size)));
        // They can't have got in (the order in which they do is the budget's, and tested there).
        poke(&producer);
        assert!(broker.taken() <= full as u64);
        broker.set(Mode::Deliver);
        poke(&producer);
        for thread in waiting {
            thread.join().unwrap().wait_one().unwrap();
        }
    });
    assert_eq!(broker.log().len(), full + 4);
    eventually("all is given back", || bytes_charged(&producer) == 0);
}

#[test]
fn a_stop_turns_away_who_waits() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    let receipts = fill(&producer);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| producer.send("t", &vec![0; 5_000]))).collect();
        let report = producer.stop(Duration::from_millis(20));
        for thread in waiting {
            assert_eq!(thread.join().unwrap().unwrap_err(), SendError::Stopped);
        }
        assert_eq!(report.left_count, receipts.len() as u64);
    });
    assert_eq!(producer.send("t", "late").unwrap_err(), SendError::Stopped);
    assert_eq!(producer.send_messages("t", Vec::<&str>::new()).unwrap_err(), SendError::Stopped);
    assert_eq!(producer.try_send("t", &vec![0; 5_000]).unwrap_err(), SendError::Stopped);
}

#[test]
fn the_workers_death_turns_away_who_waits() {
    let (producer, broker) = producer(settings(), None);
    broker.set(Mode::Hold);
    let receipts = fill(&producer);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| producer.send("t", &vec![0; 5_000]))).collect();
        broker.set(Mode::Die);
        poke(&producer);
        for thread in waiting {
            let error = thread.join().unwrap().unwrap_err();
            assert_eq!(error, SendError::WorkerDied { reason: "as the test wants it".into() });
        }
    });
    assert!(matches!(producer.stop(PATIENCE).end, StopEnd::WorkerDied { .. }));
    assert!(receipts.iter().all(Receipt::is_settled));
}

#[test]
fn the_smallest_buffers_work() {
    for buffer_bytes in [200, 1_000, 5_000, 70_000] {
        let mut settings = settings();
        settings.buffer_bytes = buffer_bytes;
        let (producer, broker) = producer(settings, None);
        let mut rng = fastrand::Rng::with_seed(buffer_bytes);
        let mut sent = Vec::new();
        for _ in 0..500 {
            let mut room = buffer_bytes as usize * 9 / 10;
            let mut call = Vec::new();
            // A message is charged 67 bytes besides its value, and up to three more for lengths.
            while room > 90 && call.len() < 40 {
                let size = rng.usize(..room - 89);
                call.push(vec![rng.u8(..); size]);
                room -= size + 80;
            }
            drop(producer.send_messages("t", &call).unwrap());
            sent.extend(call);
        }
        producer.flush(PATIENCE).unwrap();
        assert_eq!(broker.log(), sent, "{buffer_bytes}");
        assert_eq!(bytes_charged(&producer), 0);
    }
}

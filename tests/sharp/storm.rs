//! Callbacks that do everything they should not, while the buffer is full: one verdict for each message, no hang, and what
//! was left is counted.

use crate::harness::*;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::time::Duration;
use steadfast::testing::{Cluster, Fault, On, Times};
use steadfast::{
    Cause, Config, DeliveryRun, ErrorCode, FlushError, Producer, Receipt, SendError, StopEnd, WaitError,
};

/// What the callback does, each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Send,
    Flush,
    Stop,
    Wait,
    Panic,
    /// Drops a handle: the last one, where the test has dropped its own.
    Drop,
    Sleep,
    /// All of them in turn.
    Mixed,
}

/// What the brokers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brokers {
    Take,
    /// Each answer late.
    Slow,
    /// Each batch is refused for good.
    Refuse,
    /// Nothing is read or answered.
    Hang,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `stop`, in time for everything where the brokers take it.
    Stop,
    /// `stop` with next to no time.
    StopNow,
    /// All handles but the callback's are dropped.
    Drop,
}

const VALUE: [u8; 700] = [b'v'; 700];

/// What the callback shares with its test.
struct Shared {
    /// The callback's own handle.
    producer: Mutex<Option<Producer>>,
    act: Act,
    calls: AtomicU64,
    delivered: AtomicU64,
    stopped: AtomicU64,
    dropped: AtomicU64,
    accepted: AtomicU64,
    panics: AtomicU64,
    /// No more messages from the callback, or the storm would feed itself for ever.
    calm: AtomicBool,
    /// A receipt of a message that may still be on its way.
    receipt: Mutex<Option<Receipt>>,
    /// What was not as it should be: a panic here would be caught.
    faults: Mutex<Vec<String>>,
}

/// Tells when the callback itself was dropped.
struct Gone(Sender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        // The test may have given up.
        let _ = self.0.send(());
    }
}

impl Shared {
    fn check(&self, is_right: bool, what: impl FnOnce() -> String) {
        if !is_right {
            self.faults.lock().push(what());
        }
    }

    fn called(&self, run: &DeliveryRun) {
        let calls = self.calls.fetch_add(1, Relaxed);
        let count = run.len() as u64;
        match run.error().map(|error| &error.cause) {
            None => &self.delivered,
            Some(Cause::Stopped { .. }) => &self.stopped,
            Some(_) => &self.dropped,
        }
        .fetch_add(count, Relaxed);
        if !run.is_delivered() {
            let back = run.messages().filter(|message| message.value.as_deref() == Some(&VALUE[..])).count();
            self.check(back == run.len(), || format!("{back} messages of {run:?} came back"));
        }
        let acts = [Act::Send, Act::Flush, Act::Stop, Act::Wait, Act::Panic, Act::Sleep];
        let act = if self.act == Act::Mixed { acts[calls as usize % acts.len()] } else { self.act };
        self.act(act);
    }

    fn act(&self, act: Act) {
        if act == Act::Drop {
            drop(self.producer.lock().take());
        }
        if act == Act::Panic {
            self.panics.fetch_add(1, Relaxed);
            panic!("as ordered");
        }
        if act == Act::Sleep {
            // A slow callback.
            std::thread::sleep(ms(1));
        }
        let Some(producer) = self.producer.lock().clone() else { return };
        match act {
            Act::Send if !self.calm.load(Relaxed) => {
                // `send` too must not wait here.
                for result in [producer.try_send("t", &VALUE), producer.send("t", &VALUE)] {
                    match result {
                        Ok(receipt) => {
                            self.accepted.fetch_add(1, Relaxed);
                            *self.receipt.lock() = Some(receipt);
                        }
                        Err(SendError::BufferFull { .. } | SendError::Stopped) => {}
                        Err(error) => self.check(false, || error.to_string()),
                    }
                }
            }
            Act::Flush => {
                let flushed = producer.flush(60 * SECOND);
                self.check(flushed == Err(FlushError::WouldDeadlock), || format!("{flushed:?}"));
            }
            Act::Stop => {
                let report = producer.stop(60 * SECOND);
                self.check(report.end == StopEnd::WouldDeadlock, || format!("{report:?}"));
            }
            Act::Wait => {
                if let Some(receipt) = self.receipt.lock().take() {
                    let waited = receipt.wait_timeout(60 * SECOND);
                    let refused = matches!(waited, Err(WaitError::WouldDeadlock));
                    self.check(refused || receipt.is_settled(), || format!("{waited:?}"));
                }
            }
            _ => {}
        }
        // The handle that is dropped here may be the last one, too.
    }
}

/// Sends until the end, or until it has sent enough; keeps some receipts.
fn send(producer: Producer, shared: &Shared, calls: usize) -> Vec<Receipt> {
    let mut kept = Vec::new();
    for call in 0..calls {
        match producer.send_messages("t", vec![&VALUE; call % 5 + 1]) {
            Ok(receipt) => {
                shared.accepted.fetch_add(receipt.len() as u64, Relaxed);
                if call % 3 == 0 {
                    kept.push(receipt);
                } else if call % 3 == 1 {
                    *shared.receipt.lock() = Some(receipt);
                }
            }
            Err(SendError::BufferFull { .. }) => {}
            Err(SendError::Stopped) => break,
            Err(error) => panic!("{error}"),
        }
    }
    kept
}

fn cluster(brokers: Brokers) -> Cluster {
    let cluster = Cluster::start(1).expect("a cluster");
    cluster.create_topic("t", 3);
    for partition in 0..3 {
        let on = On::partition("t", partition);
        match brokers {
            Brokers::Slow => cluster.fault(on, Times::Always, Fault::delay(ms(3))),
            Brokers::Refuse => cluster.fault(on, Times::Always, Fault::error(ErrorCode::PolicyViolation)),
            Brokers::Take | Brokers::Hang => {}
        }
    }
    cluster
}

fn storm(act: Act, brokers: Brokers, end: End) {
    let cluster = cluster(brokers);
    let shared = Arc::new(Shared {
        producer: Mutex::new(None),
        act,
        calls: AtomicU64::new(0),
        delivered: AtomicU64::new(0),
        stopped: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        accepted: AtomicU64::new(0),
        panics: AtomicU64::new(0),
        calm: AtomicBool::new(false),
        receipt: Mutex::new(None),
        faults: Mutex::new(Vec::new()),
    });
    let (gone, is_gone) = channel();
    let gone = Gone(gone);
    let config = Config::new(cluster.bootstrap())
        .buffer_bytes(32 << 10)
        .batch_bytes(4 << 10)
        .linger(ms(1))
        .max_block(ms(10))
        // What hangs has verdicts too: a callback that is never called would never let go of its handle.
        .request_timeout(ms(500))
        .delivery_timeout(SECOND)
        .drop_timeout(ms(100));
    let told = shared.clone();
    let builder = Producer::builder(config).on_delivery(move |run| {
        let _ = &gone;
        told.called(run);
    });
    let producer = builder.start().expect("a producer");
    *shared.producer.lock() = Some(producer.clone());
    producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
    if brokers == Brokers::Hang {
        cluster.hang(1);
    }
    let calls = if brokers == Brokers::Hang { 30 } else { 90 };
    let kept: Vec<Receipt> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let (producer, shared) = (producer.clone(), &shared);
                scope.spawn(move || send(producer, shared, calls))
            })
            .collect();
        senders.into_iter().flat_map(|sender| sender.join().expect("the sender's calls")).collect()
    });
    let report = match end {
        End::Stop if brokers == Brokers::Hang => Some(producer.stop(ms(60))),
        End::Stop => {
            shared.calm.store(true, Relaxed);
            Some(producer.stop(20 * SECOND))
        }
        End::StopNow => Some(producer.stop(Duration::ZERO)),
        End::Drop => {
            shared.calm.store(true, Relaxed);
            None
        }
    };
    if end == End::Drop {
        drop(producer);
        if act != Act::Drop {
            // Its own handle keeps the producer alive; here the callback loses it from outside.
            drop(shared.producer.lock().take());
        }
    }
    is_gone.recv_timeout(20 * SECOND).expect("the callback is dropped once it has heard of everything");
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    let accepted = count(&shared.accepted);
    let verdicts = count(&shared.delivered) + count(&shared.dropped) + count(&shared.stopped);
    let numbers = format!(
        "accepted {accepted}, delivered {:?}, dropped {:?}, stopped {:?}, calls {:?}; {report:?}",
        shared.delivered, shared.dropped, shared.stopped, shared.calls
    );
    assert!(shared.faults.lock().is_empty(), "{:?}", shared.faults);
    assert_eq!(verdicts, accepted, "one verdict each: {numbers}");
    assert!(count(&shared.calls) > 0, "{numbers}");
    assert!(kept.iter().all(Receipt::is_settled), "{numbers}");
    if brokers == Brokers::Refuse {
        assert_eq!(count(&shared.delivered), 0, "{numbers}");
    }
    if let Some(report) = report {
        assert_eq!(report.left_count, count(&shared.stopped), "{numbers}");
        assert_eq!(report.left.len() as u64, report.left_count, "{numbers}");
        let clean = end == End::Stop && brokers != Brokers::Hang;
        assert!(!clean || report.is_clean() && report.left_count == 0, "{numbers}");
        let last = shared.producer.lock().take();
        if let Some(last) = last {
            let stats = last.stats();
            assert_eq!(stats.callback_panics, count(&shared.panics), "{numbers}");
            assert_eq!(stats.accepted, accepted, "{numbers}");
            assert_eq!(
                (stats.delivered, stats.dropped),
                (count(&shared.delivered), accepted - stats.delivered)
            );
            drop((kept, report, shared.receipt.lock().take()));
            assert_eq!(last.stats().bytes_queued, 0, "{numbers}");
        }
    }
    assert!(cluster.violations().is_empty(), "{:?}", cluster.violations());
}

/// Each ending, and each kind of brokers, all at once, while the callback does this.
fn storms(act: Act) {
    std::thread::scope(|scope| {
        for brokers in [Brokers::Take, Brokers::Slow, Brokers::Refuse, Brokers::Hang] {
            for end in [End::Stop, End::StopNow, End::Drop] {
                let what = format!("{act:?}, {brokers:?}, {end:?}");
                scope.spawn(move || within(60 * SECOND, &what, move || storm(act, brokers, end)));
            }
        }
    });
}

#[test]
fn callbacks_that_send_into_a_full_buffer() {
    storms(Act::Send);
}

#[test]
fn callbacks_that_flush() {
    storms(Act::Flush);
}

#[test]
fn callbacks_that_stop() {
    storms(Act::Stop);
}

#[test]
fn callbacks_that_wait_for_receipts() {
    storms(Act::Wait);
}

#[test]
fn callbacks_that_panic() {
    storms(Act::Panic);
}

#[test]
fn callbacks_that_drop_the_last_handle() {
    storms(Act::Drop);
}

#[test]
fn callbacks_that_are_slow() {
    storms(Act::Sleep);
}

#[test]
fn callbacks_that_do_all_of_it_at_once() {
    storms(Act::Mixed);
}

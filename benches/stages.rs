//! What each stage of a message's way costs by itself, in CPU time of the thread that does it.
//!
//! `cargo bench --bench stages`. Caller's side: the intake with a stand-in for the worker that only empties chunks. The
//! messages are windows into one text, so that they cost nothing to make and aren't all the same.

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use nix::time::{clock_gettime, ClockId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::internal::delivery::origin::Origin;
use steadfast::internal::intake::budget::Budget;
use steadfast::internal::intake::chunk::Chunk;
use steadfast::internal::intake::doorbell::Doorbell;
use steadfast::internal::intake::head::Head;
use steadfast::internal::intake::topics::TopicNames;
use steadfast::internal::intake::{chunks_a_wake, clock, Intake, Limits, Patience};
use steadfast::Message;

const BUFFER: u64 = 64 << 20;

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock of this thread");
    Duration::new(t.tv_sec() as u64, t.tv_nsec() as u32)
}

fn cpu_of(work: impl FnOnce()) -> Duration {
    let before = thread_cpu();
    work();
    thread_cpu() - before
}

/// Distinct messages that cost nothing to make: windows into one text.
struct Payload {
    text: Vec<u8>,
    size: usize,
}

const WINDOWS: usize = 256 << 10;

impl Payload {
    fn new(size: usize) -> Payload {
        let mut rng = fastrand::Rng::with_seed(7);
        let words = ["alpha", "beta", "gamma", "delta", "order", "customer", "status", "shipped"];
        let mut text = Vec::new();
        while text.len() < WINDOWS + size {
            text.extend(format!("{}={},", words[rng.usize(..words.len())], rng.u32(..10_000)).bytes());
        }
        Payload { text, size }
    }

    #[inline]
    fn message(&self, number: u64) -> &[u8] {
        let at = (number as usize * 61) % WINDOWS; // 61 is odd: all windows come before one comes again
        &self.text[at..at + self.size]
    }
}

/// An intake whose chunks are emptied as fast as they come.
struct Drained {
    intake: Arc<Intake>,
    names: TopicNames,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl Drained {
    fn new() -> Drained {
        let budget = Arc::new(Budget::new(BUFFER));
        let bell = Arc::new(Doorbell::new(chunks_a_wake(BUFFER), || ()));
        let origin = Arc::new(Origin::new(Duration::ZERO));
        let limits = Limits { max_message: 1 << 20, max_block: Duration::from_secs(60) };
        let (intake, ends) = Intake::new(budget.clone(), bell, origin, &limits);
        let intake = Arc::new(intake);
        let drain = intake.clone();
        let worker = std::thread::spawn(move || {
            while drain.closed().is_none() {
                while let Ok(chunk) = ends.sealed.recv_timeout(Duration::from_millis(5)) {
                    budget.release(chunk.charge());
                    drain.recycle(&ends, chunk);
                }
            }
        });
        Drained { intake, names: TopicNames::new(), worker: Some(worker) }
    }

    #[inline]
    fn send(&self, message: &Message<'_>) {
        let topic = self.names.intern("benchmark").expect("a good name");
        drop(black_box(self.intake.send(topic, message, Patience::Wait).expect("accepted")));
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        self.intake.close(steadfast::internal::intake::Closed::Stopped);
        if let Some(worker) = self.worker.take() {
            worker.join().expect("it only empties chunks");
        }
    }
}

fn hand_over(c: &mut Criterion) {
    let mut group = c.benchmark_group("hand-over");
    let drained = Drained::new();
    for size in [100, 1024] {
        let payload = Payload::new(size);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("one message a call", size), |b| {
            b.iter_custom(|n| cpu_of(|| (0..n).for_each(|i| drained.send(&Message::new(payload.message(i))))))
        });
        group.bench_function(BenchmarkId::new("with a key of 8 bytes", size), |b| {
            b.iter_custom(|n| {
                cpu_of(|| {
                    (0..n).for_each(|i| drained.send(&Message::keyed(&i.to_be_bytes(), payload.message(i))))
                })
            })
        });
        group.throughput(Throughput::Elements(10));
        group.bench_function(BenchmarkId::new("ten messages a call", size), |b| {
            b.iter_custom(|n| {
                cpu_of(|| {
                    for i in 0..n {
                        let messages = (i * 10..i * 10 + 10).map(|i| Message::new(payload.message(i)));
                        let topic = drained.names.intern("benchmark").expect("a good name");
                        let receipt = drained.intake.send_all(topic, messages, Patience::Wait);
                        drop(black_box(receipt.expect("accepted")));
                    }
                })
            })
        });
    }
}

/// Several threads at once: CPU time of all of them, for each message.
fn contended(c: &mut Criterion) {
    let mut group = c.benchmark_group("hand-over by several threads");
    let drained = Drained::new();
    let payload = Payload::new(100);
    for threads in [2, 4] {
        group.bench_function(BenchmarkId::new("one message a call", threads), |b| {
            b.iter_custom(|n| {
                let send = || cpu_of(|| (0..n).for_each(|i| drained.send(&Message::new(payload.message(i)))));
                let cpu = std::thread::scope(|scope| {
                    let senders: Vec<_> = (0..threads).map(|_| scope.spawn(send)).collect();
                    senders.into_iter().map(|sender| sender.join().expect("it only sends")).sum::<Duration>()
                });
                cpu / threads
            })
        });
    }
}

/// The parts of it, everything in the cache.
fn parts(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts of the hand-over");
    let payload = Payload::new(100);
    let message = |i| Message::new(payload.message(i));
    group.bench_function("take the next message", |b| {
        b.iter_custom(|n| cpu_of(|| (0..n).for_each(|i| _ = black_box(message(i)))))
    });
    group.bench_function("coarse clock", |b| {
        b.iter_custom(|n| cpu_of(|| (0..n).for_each(|_| _ = black_box(clock::now_ms()))))
    });
    let names = TopicNames::new();
    group.bench_function("topic's number", |b| {
        b.iter_custom(|n| cpu_of(|| (0..n).for_each(|_| _ = black_box(names.intern(black_box("benchmark"))))))
    });
    group.bench_function("head", |b| {
        b.iter_custom(|n| cpu_of(|| (0..n).for_each(|i| _ = black_box(Head::of(&message(i), 0, 0, 0)))))
    });
    let budget = Budget::new(u64::MAX);
    group.bench_function("reserve", |b| {
        b.iter_custom(|n| cpu_of(|| (0..n).for_each(|_| _ = black_box(budget.try_reserve(1)))))
    });
    let lock = parking_lot::Mutex::new(0u64);
    group.bench_function("lock", |b| b.iter_custom(|n| cpu_of(|| (0..n).for_each(|i| *lock.lock() += i))));
    let mut chunk = Chunk::new(64 << 10, Instant::now());
    group.bench_function("encode", |b| {
        b.iter_custom(|n| {
            cpu_of(|| {
                for i in 0..n {
                    let head = Head::of(&message(i), 0, 0, 0).expect("small");
                    if !chunk.fits(head.encoded_len()) {
                        chunk.reset();
                    }
                    chunk.append(&message(i), &head, Instant::now);
                }
            })
        })
    });
}

criterion_group!(stages, hand_over, contended, parts);
criterion_main!(stages);

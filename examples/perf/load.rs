//! What is sent, how fast, and which of it is timed.

use crossbeam_channel::{Receiver, Sender};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use steadfast::{Producer, Receipt};

/// So many records of a run are timed: enough for a p99, and too few to cost anything. (A receipt that is waited for wakes
/// its waiter, which costs more than sending a record.)
const SAMPLES_MAX: u64 = 10_000;
/// Values are windows into a text of this many bytes, or twice their size: distinct, and already in memory.
const TEXT_BYTES: usize = 1 << 18;
/// A waiter's patience; the settings (delivery.timeout.ms) end it before.
const FOREVER: Duration = Duration::from_secs(24 * 3600);
/// How often a thread says how far it is.
const TOLD_EVERY: u64 = 1024;

/// The whole run.
pub(crate) struct Load {
    records: u64,
    size: usize,
    threads: u64,
    throughput: Option<u64>,
    text: Vec<u8>,
    /// Sent so far, roughly.
    pub(crate) sent: AtomicU64,
    /// Refused at the door.
    pub(crate) refused: AtomicU64,
}

impl Load {
    pub(crate) fn new(records: u64, size: usize, threads: u32, throughput: Option<u64>) -> Load {
        let mut rng = fastrand::Rng::with_seed(20);
        let text = (0..TEXT_BYTES.max(2 * size)).map(|_| rng.alphanumeric() as u8).collect();
        let (sent, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Load { records, size, threads: u64::from(threads), throughput, text, sent, refused }
    }

    /// One record in how many is timed.
    pub(crate) fn sampled_one_in(&self, sync: bool) -> u64 {
        if sync {
            1
        } else {
            self.records.div_ceil(SAMPLES_MAX)
        }
    }

    /// Sends everything from all threads; returns latencies in microseconds.
    pub(crate) fn send_all(&self, producer: &Producer, topic: &str, sync: bool) -> Histogram<u64> {
        let started = Instant::now();
        let (samples, timed) = crossbeam_channel::unbounded();
        std::thread::scope(|scope| {
            let timer = scope.spawn(move || time_samples(&timed));
            let senders: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let samples = samples.clone();
                    let pace = self.pace(started);
                    scope.spawn(move || {
                        if sync {
                            self.send_one_by_one(producer, topic, thread, pace)
                        } else {
                            self.send(producer, topic, thread, pace, &samples);
                            no_latencies()
                        }
                    })
                })
                .collect();
            drop(samples);
            let mut latencies = no_latencies();
            for part in senders.into_iter().chain([timer]) {
                let part = part.join().expect("a thread that sends or times does not panic");
                latencies.add(part).expect("histograms of one shape");
            }
            latencies
        })
    }

    /// As fast as it goes, or as asked.
    fn send(&self, producer: &Producer, topic: &str, thread: u64, pace: Pace, samples: &Sender<Sample>) {
        let every = self.sampled_one_in(false);
        let mut until_sample = thread % every;
        for number in self.numbers(thread) {
            pace.wait_for(number);
            let value = self.value(number);
            if until_sample > 0 {
                until_sample -= 1;
                if producer.send(topic, value).is_err() {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            } else {
                until_sample = every - 1;
                let called = Instant::now();
                match producer.send(topic, value) {
                    Ok(receipt) => {
                        samples.send(Sample { called, receipt }).expect("the timer outlives the senders")
                    }
                    Err(_) => _ = self.refused.fetch_add(1, Ordering::Relaxed),
                }
            }
            self.tell(number);
        }
    }

    fn send_one_by_one(&self, producer: &Producer, topic: &str, thread: u64, pace: Pace) -> Histogram<u64> {
        let mut latencies = no_latencies();
        for number in self.numbers(thread) {
            pace.wait_for(number);
            let called = Instant::now();
            match producer.send(topic, self.value(number)) {
                Ok(receipt) => {
                    // Delivered or not is in the producer's statistics.
                    _ = receipt.wait_one();
                    note(&mut latencies, called.elapsed());
                }
                Err(_) => _ = self.refused.fetch_add(1, Ordering::Relaxed),
            }
            self.tell(number);
        }
        latencies
    }

    /// This thread's share: every so-many-th number.
    fn numbers(&self, thread: u64) -> impl Iterator<Item = u64> {
        (thread..self.records).step_by(self.threads as usize)
    }

    fn value(&self, number: u64) -> &[u8] {
        let start = number as usize % (self.text.len() - self.size);
        &self.text[start..start + self.size]
    }

    fn tell(&self, number: u64) {
        if number.is_multiple_of(TOLD_EVERY) {
            self.sent.fetch_add(TOLD_EVERY, Ordering::Relaxed);
        }
    }

    fn pace(&self, started: Instant) -> Pace {
        Pace { started, nanos_each: self.throughput.map(|per_s| 1e9 / per_s as f64) }
    }
}

/// When a record is due.
#[derive(Clone, Copy)]
struct Pace {
    started: Instant,
    nanos_each: Option<f64>,
}

impl Pace {
    fn wait_for(&self, number: u64) {
        let Some(nanos_each) = self.nanos_each else { return };
        let due = self.started + Duration::from_nanos((number as f64 * nanos_each) as u64);
        // The system does not wake a thread to the microsecond: records that are due within one go together.
        let early = due.saturating_duration_since(Instant::now());
        if early > Duration::from_millis(1) {
            std::thread::sleep(early);
        }
    }
}

struct Sample {
    called: Instant,
    receipt: Receipt,
}

fn time_samples(samples: &Receiver<Sample>) -> Histogram<u64> {
    let mut latencies = no_latencies();
    for Sample { called, receipt } in samples {
        // Delivered or not is in the producer's statistics.
        _ = receipt.wait_settled(FOREVER);
        note(&mut latencies, called.elapsed());
    }
    latencies
}

fn no_latencies() -> Histogram<u64> {
    Histogram::new(3).expect("3 digits are allowed")
}

fn note(latencies: &mut Histogram<u64>, elapsed: Duration) {
    latencies.record(elapsed.as_micros() as u64).expect("it grows by itself");
}

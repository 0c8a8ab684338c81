//! A sink slower than the senders: nothing hangs, nobody who does not want to wait waits, ends come when they were asked for.

use crate::harness::*;
use crate::sink::Sink;
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use steadfast::testing::Cluster;
use steadfast::{Cause, Config, Fate, Message, Producer, SendError, StopEnd};

const BUDGET: u64 = 1 << 20;
const PAYLOAD: [u8; 100] = [b'x'; 100];

/// Of each call's messages: single ones and a few at once.
const CALL: u64 = 10;

fn bytes_per_second() -> u64 {
    scaled(50_000_000, 8_000_000)
}

fn sink() -> Sink {
    Sink::start(bytes_per_second(), "sink", 4)
}

fn config(sink: &Sink) -> Config {
    // The kernel must not hold more than the budget does.
    Config::new(sink.bootstrap()).buffer_bytes(BUDGET).send_buffer_bytes(64 << 10)
}

/// What a thread has used so far: CPU, and how often it went to sleep by itself.
fn usage() -> (Duration, i64) {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("asked for oneself");
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    (Duration::from_micros(cpu as u64), usage.voluntary_context_switches())
}

/// What the calls that must not wait came to.
#[derive(Debug, Default)]
struct Tries {
    accepted: u64,
    refused: u64,
    times: Vec<Duration>,
    /// Calls that took more than 5 ms, and not because the thread had lost its core.
    waited: Vec<(Duration, Duration, i64)>,
}

/// Calls `try_send_messages` until told to stop.
fn try_until(stop: &AtomicBool, producer: &Producer) -> Tries {
    let mut tries = Tries::default();
    while !stop.load(Relaxed) {
        let (cpu, sleeps) = usage();
        let start = Instant::now();
        let result = producer.try_send_messages("sink", [&PAYLOAD; 4]);
        let took = start.elapsed();
        let (cpu, sleeps) = (usage().0 - cpu, usage().1 - sleeps);
        match result {
            Ok(receipt) => tries.accepted += receipt.len() as u64,
            Err(SendError::BufferFull { .. }) => tries.refused += 1,
            Err(error) => panic!("{error}"),
        }
        tries.times.push(took);
        if took > ms(5) && (sleeps > 0 || cpu > ms(5)) {
            tries.waited.push((took, cpu, sleeps));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    tries.times.sort_unstable();
    tries
}

/// `messages` from so many threads, and beside them one that never waits.
fn send_all(producer: &Producer, messages: u64, threads: u64) -> Tries {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let trying = scope.spawn(|| try_until(&done, producer));
        let senders: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    for call in 0..messages / threads / CALL {
                        let sent = match call % 2 {
                            0 => producer.send_messages("sink", [&PAYLOAD; CALL as usize]).map(drop),
                            _ => (0..CALL).try_for_each(|_| producer.send("sink", &PAYLOAD).map(drop)),
                        };
                        sent.unwrap_or_else(|error| panic!("{error}"));
                    }
                })
            })
            .collect();
        let results: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
        done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.expect("the sender's calls"));
        trying.join().expect("the calls that don't wait")
    })
}

fn a_slow_sink_holds_the_senders_back(name: &'static str, threads: u64) {
    let _machine = machine();
    alone(name, || {
        let messages = scaled(8_000_000, 200_000);
        within(scaled(120, 40) * SECOND, name, move || {
            let sink = sink();
            let producer = Producer::new(config(&sink)).expect("a producer");
            let start = Instant::now();
            let tries = send_all(&producer, messages, threads);
            producer.flush(30 * SECOND).expect("all of it has its verdict");
            let (took, (bytes, idle)) = (start.elapsed(), sink.traffic());
            let stats = producer.stats();
            let (p50, p999) =
                (tries.times[tries.times.len() / 2], tries.times[tries.times.len() * 999 / 1000]);
            println!(
                "{messages} messages, {threads} threads: {took:.1?}, {:.1} MB/s of {} MB/s, nothing came for {idle:.1?}; \
                 try_send_messages: {} accepted, {} refused, p50 {p50:.1?}, p99.9 {p999:.1?}, max {:.1?}",
                bytes as f64 / took.as_secs_f64() / 1e6,
                bytes_per_second() / 1_000_000,
                tries.accepted,
                tries.refused,
                tries.times.last().expect("some calls"),
            );
            let sent = messages + tries.accepted;
            assert_eq!((stats.accepted, stats.delivered, stats.dropped), (sent, sent, 0));
            assert_eq!(sink.messages(), sent);
            assert_eq!(stats.bytes_queued, 0, "all of the budget is back");
            assert!(sink.violations().is_empty(), "{:?}", sink.violations());
            assert!(tries.refused > 0, "the sink was never slower than the senders: {stats:?}");
            assert!(tries.waited.is_empty(), "(took, CPU, sleeps) of calls: {:?}", tries.waited);
            assert!(p999 < ms(5), "of {} calls: {p999:?}", tries.times.len());
            let floor = Duration::from_secs_f64(bytes as f64 / bytes_per_second() as f64);
            assert!(took < floor * 3 / 2 + 2 * SECOND, "{took:?}, and the sink alone takes {floor:?}");
            let stopped = producer.stop(SECOND);
            assert_eq!((stopped.end, stopped.left_count), (StopEnd::Clean, 0));
        });
    });
}

#[test]
fn a_slow_sink_holds_one_sender_back() {
    a_slow_sink_holds_the_senders_back(test_name!(a_slow_sink_holds_one_sender_back), 1);
}

#[test]
fn a_slow_sink_holds_four_senders_back() {
    a_slow_sink_holds_the_senders_back(test_name!(a_slow_sink_holds_four_senders_back), 4);
}

/// With a sink of 1 MB/s a full buffer takes a second: what 200 ms don't take is handed back, and not written.
#[test]
fn stop_keeps_its_deadline_while_the_sink_is_slow() {
    let _machine = machine();
    within(30 * SECOND, "a stop with a full buffer", || {
        let sink = Sink::start(1_000_000, "sink", 4);
        // Requests that the sink takes in 64 ms each: some are answered, some on their way, others not begun.
        let config = config(&sink).batch_bytes(16 << 10).max_request_bytes(64 << 10);
        let producer = Producer::new(config).expect("a producer");
        let accepted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| loop {
                    match producer.send_messages("sink", [&PAYLOAD; CALL as usize]) {
                        Ok(receipt) => accepted.fetch_add(receipt.len() as u64, Relaxed),
                        Err(SendError::Stopped) => return,
                        Err(error) => panic!("{error}"),
                    };
                });
            }
            until(10 * SECOND, "the sink takes messages, and senders wait for room", || {
                let stats = producer.stats();
                (stats.delivered > 0 && stats.bytes_queued > BUDGET / 16 * 15).then_some(())
            });
            let (report, took, late) = timed(|| producer.stop(ms(200)));
            assert!(took <= ms(400) + late, "{took:?}, on a machine that is {late:?} late");
            // A worker that got no core in time told nothing yet of what it left.
            let report = if report.left.is_empty() { producer.stop(10 * SECOND) } else { report };
            let stats = producer.stats();
            assert_eq!(report.end, StopEnd::Deadline);
            assert!(report.left_count > 0);
            assert_eq!(report.left.len() as u64, report.left_count);
            assert_eq!(stats.delivered + stats.dropped, stats.accepted);
            assert_eq!(stats.dropped, report.left_count);
            let (mut not_written, mut unknown) = (0, 0);
            for dropped in report.left.iter() {
                assert_eq!(dropped.message.value.as_deref(), Some(&PAYLOAD[..]));
                assert!(matches!(dropped.error.cause, Cause::Stopped { .. }), "{}", dropped.error);
                match dropped.error.fate {
                    Fate::NotWritten => not_written += 1,
                    Fate::Unknown => unknown += 1,
                }
            }
            let delivered = stats.delivered;
            println!("{took:.1?}: {delivered} delivered, {unknown} may be written, {not_written} not");
            assert!(delivered > 0 && unknown > 0 && not_written > 0);
            assert!(sink.messages() >= stats.delivered);
            assert!(sink.messages() <= stats.delivered + unknown, "what was not written is not there");
            drop(report);
        });
        assert_eq!(producer.stats().accepted, accepted.into_inner());
        assert_eq!(producer.stats().bytes_queued, 0);
    });
}

/// Whoever is refused after `max.block.ms` has handed over nothing: not a part of the call, and not later either.
#[test]
fn a_call_whose_deadline_passes_has_accepted_nothing() {
    within(30 * SECOND, "calls that are refused", || {
        let cluster = Cluster::start(1).expect("a cluster");
        cluster.create_topic("t", 1);
        let config = Config::new(cluster.bootstrap()).buffer_bytes(64 << 10).max_block(ms(80));
        let producer = Producer::new(config).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        cluster.hang(1);
        let keyed = |key: &'static [u8]| Message::keyed(key, &PAYLOAD);
        let mut kept = Vec::new();
        while let Ok(receipt) = producer.send_messages("t", [keyed(b"kept"); 7]) {
            kept.push(receipt);
        }
        let accepted = producer.stats().accepted;
        // Several at once, so that most of them wait in line behind others.
        std::thread::scope(|scope| {
            for size in [300, 60, 200, 8] {
                let producer = &producer;
                scope.spawn(move || {
                    let start = Instant::now();
                    let result = producer.send_messages("t", vec![keyed(b"refused"); size]);
                    assert!(matches!(result, Err(SendError::BufferFull { .. })), "{size}: {result:?}");
                    assert!(start.elapsed() >= ms(80), "refused before its time: {:?}", start.elapsed());
                });
            }
        });
        let stats = producer.stats();
        assert_eq!(stats.accepted, accepted);
        cluster.resume(1);
        for receipt in kept {
            receipt.wait().expect("delivered");
        }
        let stopped = producer.stop(5 * SECOND);
        assert!(stopped.is_clean(), "{stopped:?}");
        let log = cluster.messages("t");
        assert_eq!(log.len() as u64, accepted);
        assert!(log.iter().all(|message| message.key.as_deref() == Some(b"kept")));
    });
}

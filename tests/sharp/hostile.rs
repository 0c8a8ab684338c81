//! Brokers that answer nonsense, or the same refusal for ever: a clear error, few requests, next to no CPU.

use crate::harness::*;
use std::time::{Duration, Instant};
use steadfast::testing::{Api, Cluster, Fault, On, Times};
use steadfast::{Cause, Config, DeliveryError, ErrorCode, Fate, Message, Producer, Receipt};

/// Requests a second, of any kind, to all brokers together.
const REQUESTS_A_SECOND: f64 = 20.0;
/// What a start takes: versions, metadata, a producer id, a first attempt or two.
const FIRST_REQUESTS: f64 = 12.0;
/// Of a core.
const CPU_SHARE: f64 = 0.05;

/// CPU that a start takes, a build without optimisation included.
fn first_cpu() -> Duration {
    scaled(ms(20), ms(100))
}

/// How long a message may take.
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(2000);

fn on() -> On {
    On::partition("t", 0)
}

fn config(cluster: &Cluster) -> Config {
    Config::new(cluster.bootstrap()).delivery_timeout(DELIVERY_TIMEOUT).request_timeout(ms(1500))
}

/// What came of it.
struct Outcome {
    errors: Vec<DeliveryError>,
    took: Duration,
    produce: u64,
    violations: Vec<String>,
}

/// Sends a few messages to a cluster that the fault was ordered for, and more every 100 ms until the first has its verdict;
/// waits for all of them. The rates must hold for all of this, and for a while after it.
fn suffer(faults: &[(On, Fault)], config: impl Fn(&Cluster) -> Config) -> Outcome {
    let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
    for (on, fault) in faults {
        cluster.fault(on.clone(), Times::Always, fault.clone());
    }
    let cpu = producer_cpu().unwrap_or_default();
    let start = Instant::now();
    let producer = Producer::new(config(&cluster)).expect("a producer");
    let send = || producer.send_messages("t", [Message::new(b"one"), Message::new(b"two")]).expect("room");
    let mut receipts: Vec<Receipt> = (0..3).map(|_| send()).collect();
    while receipts[0].wait_settled(ms(100)).is_err() {
        receipts.push(send());
    }
    producer.flush(4 * DELIVERY_TIMEOUT).expect("each has its verdict");
    let took = start.elapsed();
    std::thread::sleep(ms(500));
    let (seconds, requests) = (start.elapsed().as_secs_f64(), cluster.requests());
    let cpu = producer_cpu().unwrap_or_default() - cpu;
    let all = requests.produce + requests.metadata + requests.api_versions + requests.init_producer_id;
    println!("{seconds:.2} s, {requests:?}, CPU {cpu:.1?}");
    assert!((all as f64) <= FIRST_REQUESTS + REQUESTS_A_SECOND * seconds, "in {seconds:.1} s: {requests:?}");
    let share = (cpu.as_secs_f64() - first_cpu().as_secs_f64()) / seconds;
    assert!(share <= CPU_SHARE, "{cpu:?} of CPU in {seconds:.1} s");
    let results = receipts.iter().flat_map(Receipt::results).map(|result| result.expect("settled"));
    let errors: Vec<_> = results.filter_map(|result| Some((*result.err()?.error).clone())).collect();
    errors.iter().take(2).for_each(|error| println!("    {error}"));
    assert_eq!(producer.stats().dropped, errors.len() as u64);
    let stopped = producer.stop(SECOND);
    assert!(stopped.is_clean(), "{stopped:?}");
    Outcome { errors, took, produce: requests.produce, violations: cluster.violations() }
}

/// What stands at the end of the reasons.
fn root(cause: &Cause) -> &Cause {
    match cause {
        Cause::RetriesExhausted { last, .. } | Cause::SequenceLost { last } | Cause::NotRetried { last } => {
            root(last)
        }
        Cause::DeliveryTimeout { last: Some(last) } => root(last),
        cause => cause,
    }
}

fn refused_with(error: &DeliveryError, code: ErrorCode) -> bool {
    matches!(root(&error.cause), Cause::Refused { code: told, .. } if *told == code)
}

/// All messages are dropped for this code. `fate`: of those that were tried.
fn always(name: &'static str, code: ErrorCode, fate: Fate) {
    alone(name, || {
        let outcome = suffer(&[(on(), Fault::error(code))], config);
        assert!(!outcome.errors.is_empty());
        for error in &outcome.errors {
            assert!(refused_with(error, code), "{error}");
            let fate = if error.attempts > 0 { fate } else { Fate::NotWritten };
            assert_eq!(error.fate, fate, "{error}");
        }
        assert!(outcome.took < 3 * DELIVERY_TIMEOUT, "{:?}", outcome.took);
        assert!(outcome.produce >= 2, "it was tried again");
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    });
}

#[test]
fn always_out_of_order_sequence_number() {
    always(
        test_name!(always_out_of_order_sequence_number),
        ErrorCode::OutOfOrderSequenceNumber,
        Fate::NotWritten,
    );
}

#[test]
fn always_invalid_producer_epoch() {
    always(test_name!(always_invalid_producer_epoch), ErrorCode::InvalidProducerEpoch, Fate::NotWritten);
}

#[test]
fn always_unknown_producer_id() {
    always(test_name!(always_unknown_producer_id), ErrorCode::UnknownProducerId, Fate::NotWritten);
}

#[test]
fn always_a_code_of_the_future() {
    always(test_name!(always_a_code_of_the_future), ErrorCode::Unknown(4711), Fate::Unknown);
}

/// Records named by the broker that make no sense: the batch is dropped after one attempt, with the broker's code.
#[test]
fn record_errors_that_make_no_sense() {
    let cases: [(&str, &[i32]); 6] = [
        ("empty", &[]),
        ("out of range", &[99]),
        ("negative", &[-1]),
        ("the largest", &[i32::MAX]),
        ("one right, one out of range", &[0, 99]),
        ("all", &[0, 1]),
    ];
    for (what, named) in cases {
        within(30 * SECOND, what, move || {
            for code in [ErrorCode::InvalidRecord, ErrorCode::InvalidTimestamp] {
                let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
                cluster.fault(on(), Times::Always, Fault::error(code).naming(named));
                let producer = Producer::new(config(&cluster)).expect("a producer");
                producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
                let receipt = producer.send_messages("t", ["one", "two"]).expect("room");
                receipt.wait_settled(20 * SECOND).expect("a verdict");
                for result in receipt.results() {
                    let error = result.expect("settled").expect_err("refused").error;
                    assert!(refused_with(&error, code), "{what}: {error}");
                    assert_eq!((error.attempts, error.fate), (1, Fate::NotWritten), "{what}: {error}");
                }
                assert_eq!(cluster.requests().produce, 1, "{what}");
            }
        });
    }
}

/// A record that is named twice is one record: the other one is delivered.
#[test]
fn record_errors_that_name_one_twice() {
    within(30 * SECOND, "a record named twice", || {
        let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
        cluster.fault(on(), Times::Once, Fault::error(ErrorCode::InvalidRecord).naming(&[1, 1]));
        let producer = Producer::new(config(&cluster)).expect("a producer");
        let receipt = producer.send_messages("t", ["one", "two", "three"]).expect("room");
        receipt.wait_settled(20 * SECOND).expect("a verdict");
        let results: Vec<_> = receipt.results().map(|result| result.expect("settled")).collect();
        let delivered = results.iter().map(Result::is_ok);
        if delivered.eq([true, false, true]) {
            let log = cluster.messages("t");
            let values: Vec<_> = log.iter().filter_map(|message| message.value.as_deref()).collect();
            assert_eq!(values, [&b"one"[..], b"three"]);
        } else {
            assert!(results.iter().all(Result::is_err), "all of the batch, or the named one: {results:?}");
        }
        assert!(cluster.requests().produce <= 2);
    });
}

/// Records are named in every answer, one each: the batch gets smaller each time, and that has an end.
#[test]
fn record_errors_without_end() {
    let name = test_name!(record_errors_without_end);
    alone(name, || {
        let fault = Fault::error(ErrorCode::InvalidRecord).naming(&[0]);
        let outcome = suffer(&[(on(), fault)], config);
        assert!(outcome.errors.len() >= 6);
        assert!(outcome.errors.iter().all(|error| refused_with(error, ErrorCode::InvalidRecord)));
        assert!(outcome.took < SECOND, "{:?}", outcome.took);
    });
}

/// A pause of 24 days: messages wait for it, visibly, and end with their deadline.
#[test]
fn a_throttle_of_24_days() {
    alone(test_name!(a_throttle_of_24_days), || {
        let cluster = Cluster::builder().brokers(1).topic(("t", 1)).start().expect("a cluster");
        let producer = Producer::new(config(&cluster)).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        let fault = Fault::throttle(Duration::from_millis(i32::MAX as u64));
        cluster.fault(On::Requests(1, Api::Produce), Times::Always, fault);
        // It is delivered; the pause comes with its answer.
        producer.send("t", "first").expect("room").wait_one_timeout(5 * SECOND).expect("delivered");
        let (cpu, start) = (producer_cpu().unwrap_or_default(), Instant::now());
        let requests = cluster.requests();
        let receipt = producer.send("t", "second").expect("room");
        let status = until(5 * SECOND, "the status tells of the pause", || {
            let status = producer.status();
            (!status.waiting.is_empty()).then_some(status)
        });
        assert!(status.waiting[0].reason.contains("throttled"), "{status:?}");
        let pause = status.connections.iter().find_map(|connection| connection.throttled_for);
        assert!(pause.is_some_and(|pause| pause <= 60 * SECOND), "a pause has a ceiling: {status:?}");
        receipt.wait_settled(3 * DELIVERY_TIMEOUT).expect("a verdict");
        let error = receipt.result(0).expect("settled").expect_err("too late").error;
        println!("{error}");
        assert!(matches!(error.cause, Cause::DeliveryTimeout { .. }), "{error}");
        assert!(error.to_string().contains("throttle"), "it says what it waited for: {error}");
        assert_eq!((error.fate, error.attempts), (Fate::NotWritten, 0), "{error}");
        assert_eq!(cluster.requests().produce, requests.produce, "the pause is kept");
        let (cpu, seconds) = (producer_cpu().unwrap_or_default() - cpu, start.elapsed().as_secs_f64());
        let more = cluster.requests().metadata - requests.metadata;
        assert!((more as f64) < REQUESTS_A_SECOND * seconds, "{more} in {seconds:.1} s");
        assert!(cpu.as_secs_f64() < CPU_SHARE * seconds + first_cpu().as_secs_f64(), "{cpu:?}");
    });
}

/// Frames of 2 GiB, of negative length, and other nonsense in place of an answer to Produce: it may have been written.
fn nonsense(name: &'static str, fault: Fault) {
    alone(name, || {
        let faults = [(On::Requests(1, Api::Produce), fault)];
        let outcome =
            suffer(&faults, |cluster| config(cluster).batch_retries_limit(3).batch_retry_backoff(ms(60)));
        assert!(!outcome.errors.is_empty());
        for error in &outcome.errors {
            let is_clear = matches!(root(&error.cause), Cause::Disconnected { .. } | Cause::Malformed { .. });
            let waited = matches!(error.cause, Cause::DeliveryTimeout { .. });
            assert!(is_clear || waited, "{error}");
            assert!(!is_clear || error.attempts == 0 || error.fate == Fate::Unknown, "{error}");
        }
        let first = &outcome.errors[0];
        assert_eq!((first.fate, first.attempts), (Fate::Unknown, 4), "{first}");
        assert!(first.to_string().contains("length") || first.to_string().contains("malformed"), "{first}");
    });
}

#[test]
fn a_frame_of_2_gib() {
    nonsense(test_name!(a_frame_of_2_gib), Fault::frame_length(i32::MAX));
}

#[test]
fn a_frame_of_negative_length() {
    nonsense(test_name!(a_frame_of_negative_length), Fault::frame_length(-1));
}

#[test]
fn an_answer_of_noise() {
    nonsense(test_name!(an_answer_of_noise), Fault::hostile_body(&[0xff; 40]));
}

/// The same in place of what comes before any message can be sent.
fn nonsense_before(name: &'static str, api: Api) {
    alone(name, || {
        for fault in [Fault::frame_length(i32::MAX), Fault::hostile_body(&[0xff; 40])] {
            let outcome = suffer(&[(On::Requests(1, api), fault)], config);
            assert!(!outcome.errors.is_empty(), "nothing was dropped");
            for error in &outcome.errors {
                assert!(matches!(error.cause, Cause::DeliveryTimeout { last: Some(_) }), "{error}");
                assert_eq!((error.fate, error.attempts), (Fate::NotWritten, 0), "{error}");
                let text = error.to_string();
                assert!(text.contains("length") || text.contains("malformed"), "{error}");
            }
            assert_eq!(outcome.produce, 0);
        }
    });
}

#[test]
fn nonsense_when_asked_for_versions() {
    nonsense_before(test_name!(nonsense_when_asked_for_versions), Api::ApiVersions);
}

#[test]
fn nonsense_when_asked_for_metadata() {
    nonsense_before(test_name!(nonsense_when_asked_for_metadata), Api::Metadata);
}

#[test]
fn nonsense_when_asked_for_a_producer_id() {
    nonsense_before(test_name!(nonsense_when_asked_for_a_producer_id), Api::InitProducerId);
}

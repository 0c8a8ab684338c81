//! Brokers that are away for long, and refusals without end.

use crate::harness::*;
use crate::ledger::{parse, value, Found, Ledger, Verdict};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;
use steadfast::testing::{Cluster, Fault, On, Times, TopicSpec, Versions};
use steadfast::{Cause, Config, ErrorCode, Fate, Idempotence, Message, Producer, Receipt, WaitError};

const PARTITIONS: i32 = 6;

/// Sends a message every few milliseconds until told to stop.
fn send_steadily(producer: &Producer, thread: u32, stop: &AtomicBool) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    while !stop.load(Relaxed) {
        let number = receipts.len() as u64;
        let text = value(thread, number, 100);
        let message =
            Message { partition: Some((number % PARTITIONS as u64) as i32), ..Message::new(text.as_bytes()) };
        receipts.push(producer.send("t", message).expect("there is room"));
        std::thread::sleep(ms(5));
    }
    receipts
}

/// With the settings as they are by default: two of three brokers are away for 25 s, and a write needs two.
#[test]
fn two_of_three_brokers_away_for_25_s_lose_nothing() {
    within(80 * SECOND, "an outage", || {
        let topic = TopicSpec::new("t").partitions(PARTITIONS).replication(3).min_insync_replicas(2);
        let cluster = Cluster::builder().topic(topic).failover_after(3 * SECOND).start().expect("a cluster");
        let producer = Producer::new(Config::new(cluster.bootstrap())).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        let stop = AtomicBool::new(false);
        let receipts: Vec<Vec<Receipt>> = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn({
                        let (producer, stop) = (&producer, &stop);
                        move || send_steadily(producer, thread, stop)
                    })
                })
                .collect();
            let some = || (cluster.appended() > 200).then_some(());
            until(10 * SECOND, "messages arrive", some);
            cluster.crash(2);
            cluster.crash(3);
            // Until the others are found to be away the embedded cluster goes on without them.
            std::thread::sleep(4 * SECOND);
            let before = cluster.appended();
            std::thread::sleep(21 * SECOND);
            assert_eq!(cluster.appended(), before, "one broker alone takes nothing");
            cluster.restart(2).expect("its port is kept for it");
            cluster.restart(3).expect("its port is kept for it");
            until(20 * SECOND, "messages arrive again", || (cluster.appended() > before).then_some(()));
            stop.store(true, Relaxed);
            senders.into_iter().map(|sender| sender.join().expect("a sender")).collect()
        });
        producer.flush(40 * SECOND).expect("all of it is delivered");
        let stats = producer.stats();
        println!("{} messages, {} retries {:?}", stats.accepted, stats.retries, stats.retries_by_code);
        assert_eq!((stats.dropped, stats.delivered), (0, stats.accepted), "{:?}", stats.dropped_by_cause);
        assert!(stats.retries > 0);
        let mut ledger = Ledger::default();
        for (thread, receipts) in (0..).zip(&receipts) {
            for (number, receipt) in (0..).zip(receipts) {
                let delivered = receipt.wait_one().expect("delivered");
                let verdict = Verdict::Delivered { partition: delivered.partition, offset: delivered.offset };
                ledger.record(thread, number, verdict);
            }
        }
        let log = cluster.messages("t").into_iter().map(|message| {
            let text = String::from_utf8(message.value.expect("a value")).expect("as it was sent");
            let (thread, number) = parse(&text).expect("numbered");
            Found { partition: message.partition, offset: message.offset, thread, number }
        });
        ledger.check_exactly_once(&log.collect::<Vec<_>>()).assert_kept("after the outage");
        assert!(cluster.violations().is_empty(), "{:?}", cluster.violations());
    });
}

/// A broker that says for ever that it isn't the leader, while the whole cluster says that it is.
fn not_leader(limit: u32, idempotence: Idempotence) {
    let cluster = Cluster::builder().topic(("t", 1)).start().expect("a cluster");
    let refused = Fault::error(ErrorCode::NotLeaderOrFollower);
    cluster.fault(On::partition("t", 0), Times::Always, refused);
    let config = Config::new(cluster.bootstrap())
        .enable_idempotence(idempotence)
        .batch_retries_limit(limit)
        .batch_retry_backoff(ms(5))
        .batch_retry_backoff_max(ms(20));
    let producer = Producer::new(config).expect("a producer");
    let receipt = producer.send("t", "refused").expect("accepted");
    let Err(WaitError::Dropped(dropped)) = receipt.wait_timeout(20 * SECOND) else {
        panic!("{receipt:?} was not dropped: {:?}", producer.status());
    };
    let error = &dropped.error;
    assert_eq!((error.attempts, error.fate), (limit + 1, Fate::NotWritten), "{error}");
    match &error.cause {
        Cause::RetriesExhausted { limit: told, last } => {
            assert_eq!(*told, limit);
            let code = ErrorCode::NotLeaderOrFollower;
            assert!(matches!(**last, Cause::Refused { code: last, .. } if last == code), "{error}");
        }
        cause => panic!("{cause:?}"),
    }
    assert_eq!(dropped.message.value.as_deref(), Some(&b"refused"[..]));
    assert_eq!(cluster.requests().produce, u64::from(limit) + 1, "requests that were made");
    let stats = producer.stats();
    assert_eq!((stats.retries, stats.dropped), (u64::from(limit), 1));
    assert_eq!(cluster.appended(), 0);
}

#[test]
fn a_permanent_not_leader_makes_six_attempts_with_limit_5_and_one_with_limit_0() {
    // Without retries there is no idempotence: `required` would be an error.
    for (limit, idempotence) in [
        (5, Idempotence::Required),
        (5, Idempotence::Off),
        (0, Idempotence::Preferred),
        (0, Idempotence::Off),
    ] {
        let what = format!("limit {limit}, {idempotence:?}");
        within(30 * SECOND, &what, move || not_leader(limit, idempotence));
    }
}

/// Without retries nothing waits for the new leader: the next message finds it all the same. (Such brokers give no hint.)
#[test]
fn a_leader_that_moved_is_found_though_nothing_is_left_to_be_retried() {
    within(30 * SECOND, "finding the leader", || {
        for versions in [Versions::kafka_0_11(), Versions::kafka_2_8(), Versions::kafka_4_4()] {
            let cluster = Cluster::builder().versions(versions).topic(("t", 1)).start().expect("a cluster");
            cluster.move_leader("t", 0, 1);
            let config = Config::new(cluster.bootstrap()).batch_retries_limit(0);
            let producer = Producer::new(config).expect("a producer");
            producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
            let send = || producer.send("t", "x").expect("room").wait_one_timeout(10 * SECOND);
            send().expect("delivered");
            cluster.move_leader("t", 0, 2);
            let Err(WaitError::Dropped(dropped)) = send() else { panic!("broker 1 does not lead any more") };
            assert!(dropped.to_string().contains("NOT_LEADER_OR_FOLLOWER"), "{dropped}");
            until(5 * SECOND, "a message is delivered", || send().ok());
        }
    });
}

/// An outage that outlasts everything: each message comes back once the limit is reached, with what the matter was.
#[test]
fn an_outage_without_end_hands_everything_back() {
    within(30 * SECOND, "an outage without end", || {
        let cluster = Cluster::builder().topic(("t", 3)).start().expect("a cluster");
        let config = Config::new(cluster.bootstrap())
            .linger(ms(1))
            .request_timeout(ms(500))
            .delivery_timeout(Some(ms(1500)));
        let producer = Producer::new(config).expect("a producer");
        producer.wait_until_ready(&["t"], 5 * SECOND).expect("ready");
        cluster.brokers().for_each(|broker| cluster.crash(broker));
        let receipts: Vec<Receipt> =
            (0..30).map(|_| producer.send("t", "never").expect("accepted")).collect();
        let (_, took, late) = timed(|| producer.flush(20 * SECOND).expect("each has its verdict"));
        assert!(took < ms(1500) + SECOND + late, "{took:?}");
        for receipt in receipts {
            let Some(Err(dropped)) = receipt.result(0) else { panic!("{receipt:?}") };
            let error = &dropped.error;
            assert!(matches!(error.cause, Cause::DeliveryTimeout { last: Some(_) }), "{error}");
            assert_eq!((error.fate, error.attempts), (Fate::NotWritten, 0), "{error}");
            assert!(error.to_string().contains("connection refused"), "{error}");
            assert!(error.elapsed >= Duration::from_millis(1500), "{error}");
        }
    });
}

//! Batches that are too large, messages that are bad, and what happens to their neighbours.

use super::world::{ms, plain, secs, World};
use steadfast::internal::model::fault::{Fault, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::{Cause, ErrorCode, Fate};

fn small(bytes: usize) -> TopicConfig {
    TopicConfig { max_message_bytes: bytes, ..plain() }
}

/// Field note H2: a legal batch that is too large for the topic is cut, as often as it takes.
#[test]
fn a_batch_that_is_too_large_is_cut_until_it_fits() {
    for (codec, idempotent) in [("none", "true"), ("none", "false"), ("lz4", "true")] {
        let mut world = World::new(&[
            ("batch.size", "100000"),
            ("compression.type", codec),
            ("enable.idempotence", idempotent),
        ])
        .topic_with("t", 1, small(1000));
        for _ in 0..3 {
            world.send_sized("t", None, 100, 100);
            world.run_for(ms(1));
        }
        world.finish_delivered(secs(10));
        assert!(world.stats().splits > 0, "{codec}");
        assert_eq!(world.stats().retries, 0, "cutting is no retry");
    }
}

/// Field note H1: a large message does not take its small neighbours with it.
#[test]
fn a_message_that_is_too_large_by_itself_comes_back_alone() {
    for idempotent in ["true", "false"] {
        let mut world = World::new(&[("enable.idempotence", idempotent)]).topic_with("t", 1, small(1000));
        world.send_sized("t", None, 2, 100);
        let large = world.send_sized("t", None, 1, 2000);
        world.send_sized("t", None, 2, 100);
        world.finish(secs(10));
        assert_eq!(world.fates(), [(large.start, Fate::NotWritten)]);
        let error = world.error(large.start);
        let code = ErrorCode::MessageTooLarge;
        assert!(matches!(error.cause, Cause::Refused { code: is, .. } if is == code), "{error}");
    }
}

#[test]
fn a_batch_above_a_segment_is_cut_too() {
    let mut world = World::new(&[]).topic("t", 1);
    world.hook(|batch| (batch.count > 3).then(|| Fault::error(ErrorCode::RecordListTooLarge)));
    world.send("t", 10);
    world.finish_delivered(secs(10));
    assert_eq!(world.stats().retries, 0);
}

/// That the repeat is too large says nothing of the first try, whose answer got lost.
#[test]
fn too_large_after_an_unanswered_try_leaves_the_fate_open() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
    world.fault_t(Times::Once, Fault::close_after());
    world.fault_t(Times::Once, Fault::error(ErrorCode::MessageTooLarge));
    let ids = world.send("t", 1);
    world.finish(secs(30));
    assert_eq!(world.error(ids.start).fate, Fate::Unknown);
}

/// Field note H4: the broker names the bad ones, so the good ones go again.
#[test]
fn only_the_messages_that_the_broker_named_come_back() {
    for idempotent in ["true", "false"] {
        let config = TopicConfig { compacted: true, ..plain() };
        let mut world = World::new(&[("enable.idempotence", idempotent)]).topic_with("t", 1, config);
        for round in 0..5 {
            let messages = (0..10).map(|place| {
                let key = (place % 4 != 1).then(|| b"key".to_vec());
                (key, format!("{:020}", round * 10 + place).into_bytes())
            });
            world.send_all("t", None, messages.collect()).expect("room");
            world.run_for(ms(2));
        }
        world.finish(secs(30));
        let bad: Vec<_> = (0..50).filter(|id| id % 10 % 4 == 1).map(|id| (id, Fate::NotWritten)).collect();
        assert_eq!(world.fates(), bad);
        let error = world.error(1);
        assert!(
            matches!(&error.cause, Cause::Refused { code: ErrorCode::InvalidRecord, message: Some(_), .. }),
            "{error}"
        );
        assert_eq!(world.stats().retries, 0, "the good ones are not to blame");
    }
}

/// What can't be believed drops the batch, and asks nobody again and again.
#[test]
fn named_records_that_make_no_sense_drop_the_batch() {
    let all: Vec<i32> = (0..4).collect();
    for places in [&[][..], &[1, 1], &[7], &[-1], &[i32::MAX], &all] {
        let mut world = World::new(&[]).topic("t", 1);
        world.fault_t(Times::Always, Fault::error(ErrorCode::InvalidRecord).naming(places));
        let ids = world.send("t", 4);
        world.finish(secs(30));
        assert_eq!(world.fates(), ids.map(|id| (id, Fate::NotWritten)).collect::<Vec<_>>(), "{places:?}");
        assert_eq!(world.seen("t", 0).len(), 1, "{places:?}");
    }
}

/// Named again each time: the batch gets smaller each time, and so it ends.
#[test]
fn a_broker_that_names_one_more_each_time_comes_to_an_end() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Always, Fault::error(ErrorCode::InvalidTimestamp).naming(&[0]));
    world.send("t", 20);
    world.finish(secs(30));
    assert_eq!((world.fates().len(), world.seen("t", 0).len()), (20, 20));
}

/// Field note H4: what older brokers say instead.
#[test]
fn a_corrupt_message_is_tried_three_times_and_comes_back_with_a_hint() {
    let mut world = World::new(&[]).topic("t", 1);
    world.fault_t(Times::Always, Fault::error(ErrorCode::CorruptMessage));
    let ids = world.send("t", 2);
    world.finish(secs(60));
    assert_eq!(world.seen("t", 0).len(), 3);
    assert!(world.error(ids.start).to_string().contains("key"), "{}", world.error(ids.start));
}

/// Codes that no repetition mends are final at once, and the next batch goes its way.
#[test]
fn a_final_refusal_comes_back_at_once_and_the_next_batch_is_delivered() {
    let codes = [
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::InvalidTopicException,
        ErrorCode::PolicyViolation,
        ErrorCode::UnsupportedCompressionType,
        ErrorCode::InvalidRequiredAcks,
    ];
    for code in codes {
        let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
        world.fault_t(Times::Once, Fault::error(code).with_message("its own words"));
        let refused = world.send("t", 2);
        world.run_for(ms(200));
        let after = world.send("t", 2);
        world.finish(secs(10));
        let error = world.error(refused.start);
        assert!(error.to_string().contains("its own words"), "{error}");
        assert_eq!((error.attempts, error.fate), (1, Fate::NotWritten), "{error}");
        assert!(world.delivered(after), "{code}");
    }
}

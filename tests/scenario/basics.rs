//! Nothing goes wrong.

use super::world::{ms, plain, secs, World};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Api;

#[test]
fn messages_arrive_in_order_and_once() {
    let mut world = World::new(&[]).topic("t", 3);
    for _ in 0..20 {
        world.send("t", 10);
        world.run_for(ms(3));
    }
    world.finish_delivered(secs(5));
    assert_eq!(world.stats().retries, 0);
}

#[test]
fn linger_gathers_what_comes_within_it() {
    let mut world = World::new(&[("linger.ms", "50")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1)); // everything is found out by now
    let ids = world.send("t", 1);
    let sent = world.now();
    world.run_for(ms(20));
    world.send("t", 1);
    world.finish_delivered(secs(5));
    assert_eq!(world.requests_of(Api::Produce), 2);
    let waited = world.settled_at(ids.start) - sent;
    assert!(waited >= ms(50) && waited < ms(70), "{waited:?}");
    let stats = world.engine().stats();
    assert_eq!((stats.lingered.count, stats.queued.count), (2, 2));
    assert!(stats.lingered.max >= ms(50) && stats.lingered.max < ms(52), "{:?}", stats.lingered);
}

/// Issue 3, field note G7: without linger a message does not wait for others.
#[test]
fn without_linger_a_lone_message_goes_at_once() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    let (ids, sent) = (world.send("t", 1), world.now());
    world.finish_delivered(secs(5));
    let waited = world.settled_at(ids.start) - sent;
    assert!(waited <= ms(5), "{waited:?}");
}

#[test]
fn keys_stay_in_their_partitions_in_order() {
    let mut world = World::new(&[]).topic("t", 5);
    for round in 0..50 {
        let messages = (0..10).map(|key| {
            let value = format!("{:020}", round * 10 + key);
            (Some(format!("key-{key}").into_bytes()), value.into_bytes())
        });
        world.send_all("t", None, messages.collect()).expect("room");
        world.run_for(ms(2));
    }
    world.finish_delivered(secs(5));
    let topic = world.net.model.topic("t").expect("there");
    let mut homes = std::collections::HashMap::new();
    for (index, partition) in (0..).zip(&topic.partitions) {
        for message in partition.messages("t", index).expect("readable") {
            assert_eq!(*homes.entry(message.key.clone()).or_insert(index), index);
        }
    }
    assert_eq!(homes.len(), 10);
}

#[test]
fn the_timestamp_that_is_told_is_the_one_in_the_log() {
    let mut world = World::new(&[]).topic_with("t", 2, TopicConfig { log_append_time: true, ..plain() });
    world.send("t", 10);
    world.finish_delivered(secs(5)); // the comparison itself is part of every story's end
}

#[test]
fn without_acks_delivered_means_written() {
    let mut world = World::new(&[("acks", "0"), ("enable.idempotence", "false")]).topic("t", 2);
    world.send("t", 10);
    world.run_for(ms(50));
    world.send("t", 10);
    world.finish_delivered(secs(5));
    assert_eq!(world.stats().retries, 0);
}

#[test]
fn every_codec_arrives_in_order() {
    for codec in ["gzip", "snappy", "lz4"] {
        let mut world = World::new(&[("compression.type", codec), ("batch.size", "2000")]).topic("t", 2);
        for _ in 0..30 {
            world.send_sized("t", None, 10, 200);
            world.run_for(ms(1));
        }
        world.finish_delivered(secs(5));
        let seen = world.seen("t", 0);
        assert!(
            seen.iter().all(|seen| seen.batch.as_ref().is_some_and(|batch| batch.codec() != 0)),
            "{codec}"
        );
    }
}

/// A slow codec holds up its own partitions, and keeps their order.
#[test]
fn compression_away_from_the_worker_keeps_the_order() {
    let mut world = World::new(&[("compression.type", "gzip"), ("linger.ms", "0")]).topic("t", 2);
    world.compressing = ms(40);
    for _ in 0..30 {
        world.send_sized("t", None, 5, 300);
        world.run_for(ms(3));
    }
    world.finish_delivered(secs(5));
}

/// A full buffer is no end: what gets its verdict gives its room back (field note G4).
#[test]
fn a_full_buffer_takes_more_once_there_is_room() {
    let mut world = World::new(&[("buffer.memory", "65536"), ("linger.ms", "1000")]).topic("t", 1);
    let call = |world: &mut World, from: usize| {
        let values = (from..from + 10).map(|id| (None, format!("{id:0500}").into_bytes())).collect();
        world.send_all("t", None, values)
    };
    let mut from = 0;
    while call(&mut world, from).is_ok() {
        from += 10;
    }
    assert!(from > 50);
    world.pressure(true);
    world.run_for(ms(100));
    assert!(world.delivered(0..from), "who waits for room ends the linger");
    world.pressure(false);
    call(&mut world, from).expect("room again");
    world.finish_delivered(secs(5));
}

/// Field note G8: batches come about by themselves.
#[test]
fn many_small_messages_make_few_requests() {
    let mut world = World::new(&[("batch.size", "1000000")]).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    let before = world.requests_of(Api::Produce);
    for _ in 0..100 {
        world.send_sized("t", None, 100, 100);
    }
    world.finish_delivered(secs(5));
    assert!(world.requests_of(Api::Produce) - before <= 5, "{}", world.requests_of(Api::Produce));
}

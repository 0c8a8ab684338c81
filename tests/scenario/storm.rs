//! Everything at once, by seeds: and when the cluster is well again, everything is well (field note F7).

use super::world::{ms, plain, secs, World};
use fastrand::Rng;
use std::ops::Range;
use steadfast::internal::model::fault::{Fault, On, Tail, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Api;
use steadfast::internal::model::Seen;
use steadfast::testing::Versions;
use steadfast::ErrorCode;

/// How many seeds each storm is run with, and from which on.
fn seeds() -> Range<u64> {
    let given = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = given("STEADFAST_STORM_FIRST").unwrap_or(0);
    first..first + given("STEADFAST_STORM_SEEDS").unwrap_or(40)
}

const TOPICS: [(&str, i32); 2] = [("t", 2), ("u", 3)];

fn some_fault(rng: &mut Rng) -> Fault {
    let passing = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::KafkaStorageError,
        ErrorCode::UnknownTopicOrPartition,
    ];
    match rng.u32(0..13) {
        0..=3 => Fault::error(passing[rng.usize(0..passing.len())]),
        4 => Fault::error_after_append(ErrorCode::NotEnoughReplicasAfterAppend),
        5 => Fault::close_before(),
        6 => Fault::close_after(),
        7 => Fault::lose_response(),
        8 => Fault::swallow(),
        9 => Fault::delay(ms(rng.u64(0..3000))),
        10 => Fault::late(ms(rng.u64(0..15_000))),
        11 => Fault::cut_answer(rng.usize(0..60)),
        _ => Fault::throttle(ms(rng.u64(0..2000))),
    }
}

/// One thing that goes wrong, or is mended.
fn weather(world: &mut World, rng: &mut Rng) {
    let (topic, partitions) = TOPICS[rng.usize(0..TOPICS.len())];
    let partition = rng.i32(0..partitions);
    let broker = rng.i32(1..=3);
    match rng.u32(0..12) {
        0..=4 => {
            let times = Times::Next(rng.u32(1..3));
            let fault = some_fault(rng);
            world.fault(On::partition(topic, partition), times, fault);
        }
        5 => {
            let api = [Api::Metadata, Api::ApiVersions, Api::InitProducerId, Api::Produce][rng.usize(0..4)];
            let fault =
                [Fault::close_before(), Fault::close_after(), Fault::delay(secs(1)), Fault::swallow()];
            world.fault(On::Requests(broker, api), Times::Once, fault[rng.usize(0..4)].clone());
        }
        6 => world.crash_with(broker, if rng.bool() { Tail::Kept } else { Tail::Lost }),
        7 => world.restart(broker),
        8 => world.hang(broker),
        9 => world.resume(broker),
        10 => {
            if world.net.model.broker(broker).is_some_and(|broker| broker.up) {
                world.move_leader(topic, partition, broker);
            }
        }
        _ => {
            let leader = world.leader(topic, partition);
            let replicas = if rng.bool() { vec![1, 2, 3] } else { vec![leader] };
            if leader > 0 {
                world.in_sync(topic, partition, &replicas);
            }
        }
    }
}

/// What only the wilder storms have.
fn wild_weather(world: &mut World, rng: &mut Rng) {
    let (topic, partitions) = TOPICS[rng.usize(0..TOPICS.len())];
    let partition = rng.i32(0..partitions);
    let broker = rng.i32(1..=3);
    match rng.u32(0..12) {
        0 => {
            let code = ErrorCode::ALL[rng.usize(0..ErrorCode::ALL.len())];
            // These two say that the batch is there: no fault, but a lie.
            if !matches!(code, ErrorCode::None | ErrorCode::DuplicateSequenceNumber) {
                world.fault(On::partition(topic, partition), Times::Once, Fault::error(code));
            }
        }
        1 => {
            let places: Vec<i32> = (0..rng.i32(0..4)).map(|_| rng.i32(0..6)).collect();
            let fault = Fault::error(ErrorCode::InvalidRecord).naming(&places);
            world.fault(On::partition(topic, partition), Times::Once, fault);
        }
        2 => {
            let body: Vec<u8> = (0..rng.usize(0..50)).map(|_| rng.u8(..)).collect();
            let faults = [
                Fault::hostile_body(&body),
                Fault::raw_answer(body),
                Fault::frame_length(rng.i32(..)),
                Fault::wrong_correlation(),
                Fault::answer_twice(),
            ];
            let api = [Api::Metadata, Api::ApiVersions, Api::InitProducerId, Api::Produce][rng.usize(0..4)];
            world.fault(On::Requests(broker, api), Times::Once, faults[rng.usize(0..5)].clone());
        }
        3 => {
            world.delete(topic);
            world.run_for(ms(rng.u64(0..2000)));
            world.create(topic, partitions, config());
        }
        4 => world.net.model.hold_view(broker),
        5 => {
            let (leader, epoch) = (rng.i32(-1..=3), rng.i32(0..6));
            world.net.model.mislead(broker, topic, partition, leader, epoch);
        }
        6 => world.net.model.release_view(broker),
        7 => world.net.cut_after(broker, rng.usize(0..2000)),
        8 => world.net.black_hole(world.now(), broker, true),
        9 => world.net.black_hole(world.now(), broker, false),
        10 => {
            world.flush();
        }
        _ => {
            let versions = [
                Versions::kafka_4_4(),
                Versions::kafka_3_9(),
                Versions::kafka_2_8(),
                Versions::kafka_1_1(),
                Versions::kafka_0_11(),
            ];
            let versions = versions[rng.usize(0..versions.len())].clone();
            world.crash(broker);
            world.net.model.broker(broker).expect("there").versions = versions;
            world.restart(broker);
        }
    }
}

fn fair_weather(world: &mut World) {
    for broker in 1..=3 {
        world.restart(broker);
        world.resume(broker);
        world.net.model.unfence(broker);
        world.net.black_hole(world.now(), broker, false);
        world.net.model.release_view(broker);
        world.net.model.lift(&On::Broker(broker));
        for api in [Api::Metadata, Api::ApiVersions, Api::InitProducerId, Api::Produce] {
            world.net.model.lift(&On::Requests(broker, api));
        }
    }
    for (topic, partitions) in TOPICS {
        for partition in 0..partitions {
            world.net.model.lift(&On::partition(topic, partition));
            world.in_sync(topic, partition, &[1, 2, 3]);
            if world.leader(topic, partition) < 0 {
                world.move_leader(topic, partition, 1);
            }
        }
    }
}

fn config() -> TopicConfig {
    TopicConfig { min_insync_replicas: 2, max_message_bytes: 2000, ..plain() }
}

fn storm(seed: u64, properties: &[(&str, &str)], wild: bool) -> World {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::seeded(seed, properties);
    TOPICS.iter().for_each(|(name, partitions)| world.create(name, *partitions, config()));
    if rng.bool() {
        world.net.model.failover_after(secs(9));
    }
    for _ in 0..40 {
        for _ in 0..rng.u32(0..4) {
            let (topic, _) = TOPICS[rng.usize(0..TOPICS.len())];
            let bytes = if wild && rng.u32(0..5) == 0 { rng.usize(20..2500) } else { 20 };
            world.send_sized(topic, None, rng.usize(1..6), bytes);
            world.run_for(ms(rng.u64(0..30)));
        }
        match wild && rng.bool() {
            true => wild_weather(&mut world, &mut rng),
            false => weather(&mut world, &mut rng),
        }
        let longest = if rng.u32(0..4) == 0 { 4000 } else { 200 };
        world.run_for(ms(rng.u64(0..longest)));
    }
    fair_weather(&mut world);
    world.send("t", 3);
    world
}

#[test]
fn after_any_storm_everything_is_delivered_in_order_and_once() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let properties =
            [("batch_retries_limit", "none"), ("delivery.timeout.ms", "600000"), ("linger.ms", "1")];
        let mut world = storm(seed, &properties, false);
        // What was unanswered when its sequence was lost is told as unknown; nothing else is dropped.
        world.finish(secs(120));
        for (id, error) in world.dropped() {
            assert_eq!(error.fate, steadfast::Fate::Unknown, "message {id}: {error}");
        }
    }
}

#[test]
fn after_any_storm_every_message_has_one_true_verdict_within_short_limits() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let properties = [
            ("batch_retries_limit", "2"),
            ("delivery.timeout.ms", "8000"),
            ("request.timeout.ms", "2000"),
            ("linger.ms", "5"),
        ];
        let mut world = storm(seed, &properties, false);
        world.finish(secs(60));
    }
}

#[test]
fn after_any_storm_at_least_once_is_at_least_once_in_order() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let properties = [
            ("enable.idempotence", "false"),
            ("batch_retries_limit", "none"),
            ("delivery.timeout.ms", "600000"),
            ("linger.ms", "1"),
        ];
        let mut world = storm(seed, &properties, false).allow_duplicates();
        world.finish_delivered(secs(120));
    }
}

/// Settings and events of every kind: whatever happens, what is told is true, and comes in time.
#[test]
fn in_the_wildest_storm_every_verdict_is_true() {
    for seed in seeds() {
        eprintln!("seed {seed}");
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let mut draw = |values: &[&'static str]| values[rng.usize(0..values.len())];
        let idempotence = draw(&["preferred", "preferred", "false"]);
        let properties = [
            ("enable.idempotence", idempotence),
            ("batch_retries_limit", draw(&["none", "5", "1", "0"])),
            ("delivery.timeout.ms", draw(&["8000", "30000", "120000"])),
            ("request.timeout.ms", draw(&["1000", "5000"])),
            ("retry_ambiguous", draw(&["auto", "auto", "never"])),
            ("linger.ms", draw(&["0", "5", "50"])),
            ("batch.size", draw(&["100", "1000", "16384"])),
            ("compression.type", draw(&["none", "lz4", "gzip"])),
            ("max.in.flight.requests.per.connection", draw(&["1", "2", "5"])),
            ("buffer.memory", "10000000"),
        ];
        let mut world = storm(seed, &properties, true);
        world.settle(secs(200));
        let without_id = |seen: &Seen| seen.batch.as_ref().is_some_and(|batch| batch.producer_id < 0);
        if world.net.model.seen.iter().any(without_id) {
            world = world.allow_duplicates();
        }
        world.check();
    }
}

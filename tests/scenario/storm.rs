//! Everything at once, by seeds: and when the cluster is well again, everything is well (field note F7).

use super::world::{ms, plain, secs, World};
use fastrand::Rng;
use steadfast::internal::model::fault::{Fault, On, Tail, Times};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Api;
use steadfast::ErrorCode;

/// How many seeds each storm is run with.
fn seeds() -> u64 {
    std::env::var("STEADFAST_STORM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
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

fn fair_weather(world: &mut World) {
    for broker in 1..=3 {
        world.restart(broker);
        world.resume(broker);
        world.net.model.unfence(broker);
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

fn storm(seed: u64, properties: &[(&str, &str)]) -> World {
    let mut rng = Rng::with_seed(seed);
    let config = TopicConfig { min_insync_replicas: 2, ..plain() };
    let mut world = World::seeded(seed, properties);
    TOPICS.iter().for_each(|(name, partitions)| world.create(name, *partitions, config.clone()));
    if rng.bool() {
        world.net.model.failover_after(secs(9));
    }
    for _ in 0..40 {
        for _ in 0..rng.u32(0..4) {
            let (topic, _) = TOPICS[rng.usize(0..TOPICS.len())];
            world.send(topic, rng.usize(1..6));
            world.run_for(ms(rng.u64(0..30)));
        }
        weather(&mut world, &mut rng);
        let longest = if rng.u32(0..4) == 0 { 4000 } else { 200 };
        world.run_for(ms(rng.u64(0..longest)));
    }
    fair_weather(&mut world);
    world.send("t", 3);
    world
}

#[test]
fn after_any_storm_everything_is_delivered_in_order_and_once() {
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        let properties =
            [("batch_retries_limit", "none"), ("delivery.timeout.ms", "600000"), ("linger.ms", "1")];
        let mut world = storm(seed, &properties);
        // What was unanswered when its sequence was lost is told as unknown; nothing else is dropped.
        world.finish(secs(120));
        for (id, error) in world.dropped() {
            assert_eq!(error.fate, steadfast::Fate::Unknown, "message {id}: {error}");
        }
    }
}

#[test]
fn after_any_storm_every_message_has_one_true_verdict_within_short_limits() {
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        let properties = [
            ("batch_retries_limit", "2"),
            ("delivery.timeout.ms", "8000"),
            ("request.timeout.ms", "2000"),
            ("linger.ms", "5"),
        ];
        let mut world = storm(seed, &properties);
        world.finish(secs(60));
    }
}

#[test]
fn after_any_storm_at_least_once_is_at_least_once_in_order() {
    for seed in 0..seeds() {
        eprintln!("seed {seed}");
        let properties = [
            ("enable.idempotence", "false"),
            ("batch_retries_limit", "none"),
            ("delivery.timeout.ms", "600000"),
            ("linger.ms", "1"),
        ];
        let mut world = storm(seed, &properties).allow_duplicates();
        world.finish_delivered(secs(120));
    }
}

//! In order and once, by the exact rules of what brokers remember.

use super::world::{ms, secs, World};
use steadfast::internal::config::settings::RetryAmbiguous;
use steadfast::internal::model::fault::{Fault, On, Times};
use steadfast::internal::model::request::Api;
use steadfast::testing::Versions;
use steadfast::{Cause, ErrorCode, Fate};

const DELIVERY: &[(&str, &str)] =
    &[("linger.ms", "0"), ("delivery.timeout.ms", "12000"), ("request.timeout.ms", "10000")];

/// A world in which the first batch (one message) is acknowledged.
fn under_way(properties: &[(&str, &str)]) -> World {
    let mut world = World::new(properties).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    assert_eq!(world.log(), [0]);
    world
}

/// Five batches of three messages each (numbers 1 to 15) in flight at once; the last two came three seconds later. Broker 1
/// hangs until five seconds after the first.
fn five_in_flight(world: &mut World) {
    world.hang(1);
    let before = world.requests_of(Api::Produce);
    for _ in 0..3 {
        world.send("t", 3);
        world.run_for(ms(1));
    }
    world.run_for(ms(2997));
    for _ in 0..2 {
        world.send("t", 3);
        world.run_for(ms(1));
    }
    assert_eq!(world.requests_of(Api::Produce) - before, 5, "all five are on their way");
    world.run_for(ms(1998));
}

/// Every batch under the new epoch went out after the last one under the old epoch, and they begin at 0.
fn assert_one_bump(world: &World) {
    let sequences = world.sequences();
    let first_new = sequences.iter().position(|(epoch, ..)| *epoch == 1).expect("a new epoch");
    assert!(sequences[first_new..].iter().all(|(epoch, ..)| *epoch == 1), "{sequences:?}");
    assert_eq!(sequences[first_new].1, 0, "{sequences:?}");
    assert_eq!(world.stats().epoch_bumps, 1);
    assert_eq!(world.requests_of(Api::InitProducerId), 1, "the bump is local");
}

/// Issue 3, sharp test 2: with nothing remembered the broker would take the second batch first.
#[test]
fn a_partition_without_state_gets_one_batch_until_it_is_settled() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 1);
    world.fault_t(Times::Next(3), Fault::error(ErrorCode::NotEnoughReplicas));
    for _ in 0..20 {
        world.send("t", 2);
        world.run_for(ms(20));
    }
    world.finish_delivered(secs(60));
    let firsts: Vec<_> =
        world.seen("t", 0).iter().map(|s| (s.code, s.batch.as_ref().map(|b| b.sequence))).collect();
    assert_eq!(
        firsts[..4],
        [(Some(19), Some(0)), (Some(19), Some(0)), (Some(19), Some(0)), (Some(0), Some(0))]
    );
}

/// The same when replicas are really missing, for the log says what was taken.
#[test]
fn lost_and_found_replicas_leave_the_order_as_it_was() {
    use super::world::plain;
    use steadfast::internal::model::partition::TopicConfig;
    for seed in 0..20 {
        let config = TopicConfig { min_insync_replicas: 2, ..plain() };
        let mut world = World::seeded(seed, &[("linger.ms", "1")]).topic_with("t", 2, config);
        for round in 0..100 {
            world.send("t", 3);
            world.run_for(ms(50));
            let leader = world.leader("t", 0);
            match round % 20 {
                3 => world.in_sync("t", 0, &[leader]),
                9 => world.in_sync("t", 0, &[1, 2, 3]),
                _ => {}
            }
        }
        world.finish_delivered(secs(60));
    }
}

#[test]
fn five_batches_travel_at_once_and_no_more() {
    let mut world = under_way(&[("linger.ms", "0")]);
    world.hang(1);
    let before = world.requests_of(Api::Produce);
    for _ in 0..10 {
        world.send("t", 1);
        world.run_for(ms(1));
    }
    assert_eq!(world.requests_of(Api::Produce) - before, 5);
    world.resume(1);
    world.finish_delivered(secs(5));
}

/// Issue 3, sharp test 3.
#[test]
fn when_the_third_of_five_expires_the_others_stay_in_order_under_one_new_epoch() {
    let mut world = under_way(DELIVERY);
    five_in_flight(&mut world);
    let third = 7; // the first sequence of the third batch
    world.hook(move |batch| {
        let it_is = batch.producer_epoch == 0 && batch.sequence == third;
        it_is.then(|| Fault::error(ErrorCode::NotEnoughReplicas))
    });
    world.resume(1);
    world.finish(secs(30));
    assert!(world.delivered(1..7) && world.delivered(10..16));
    for id in 7..10 {
        let error = world.error(id);
        assert_eq!(error.fate, Fate::NotWritten, "{error}");
        assert!(matches!(error.cause, Cause::DeliveryTimeout { .. }), "{error}");
    }
    assert_eq!(world.log(), (0..7).chain(10..16).collect::<Vec<_>>());
    assert_one_bump(&world);
}

/// Issue 3, sharp test 3.
#[test]
fn when_the_third_of_five_has_a_bad_message_the_others_stay_in_order_under_one_new_epoch() {
    let mut world = under_way(DELIVERY);
    five_in_flight(&mut world);
    world.hook(|batch| {
        let it_is = batch.producer_epoch == 0 && batch.sequence == 7;
        it_is.then(|| Fault::error(ErrorCode::InvalidRecord).with_message("bad").naming(&[1]))
    });
    world.resume(1);
    world.finish(secs(30));
    assert_eq!(
        world.dropped().into_iter().map(|(id, error)| (id, error.fate)).collect::<Vec<_>>(),
        [(8, Fate::NotWritten)]
    );
    assert_eq!(world.log(), (0..8).chain(9..16).collect::<Vec<_>>());
    assert_one_bump(&world);
}

/// Issue 3, sharp test 3: what may have been written is not sent again under another epoch.
#[test]
fn nothing_of_unknown_fate_travels_under_a_new_epoch() {
    let mut world = under_way(DELIVERY);
    five_in_flight(&mut world);
    // The third is taken and its answer lost; the connection says nothing more, so nobody knows of the fourth and fifth.
    world.fault_t(Times::Nth(3), Fault::lose_response());
    world.resume(1);
    world.run_for(ms(4900));
    // Whatever is tried again finds a broker that does not answer either, until the third is too old.
    world.fault_t(Times::Next(1), Fault::swallow());
    world.run_for(secs(5));
    world.send("t", 3);
    world.finish(secs(40));
    assert!(world.delivered(0..7));
    let new_epoch =
        world.seen("t", 0).into_iter().filter_map(|seen| seen.batch.as_ref()).filter(|b| b.epoch > 0);
    let values: Vec<_> = new_epoch
        .flat_map(|batch| batch.records().expect("readable"))
        .filter_map(|record| record.value)
        .collect();
    for (id, fate) in world.fates() {
        let value = format!("{id:020}");
        let sent = values.iter().any(|sent| *sent == *value.as_bytes());
        assert!(fate == Fate::NotWritten || !sent, "message {id} of unknown fate went out under a new epoch");
    }
    assert!(world.fates().iter().any(|(_, fate)| *fate == Fate::Unknown));
    assert!(world.delivered(16..19), "and life goes on");
}

/// Issue 3, sharp test 4.
#[test]
fn pieces_of_a_batch_that_is_too_large_tile_its_sequences() {
    let mut world = under_way(&[("linger.ms", "0")]);
    world.hang(1);
    for _ in 0..3 {
        world.send("t", 4);
        world.run_for(ms(1));
    }
    world.hook(|batch| {
        (batch.count == 4 && batch.sequence == 1).then(|| Fault::error(ErrorCode::MessageTooLarge))
    });
    world.resume(1);
    world.finish_delivered(secs(30));
    let stored: Vec<_> = world
        .seen("t", 0)
        .into_iter()
        .filter(|seen| seen.code == Some(0))
        .filter_map(|seen| seen.batch.as_ref().map(|batch| (batch.epoch, batch.sequence, batch.count)))
        .collect();
    assert_eq!(stored, [(0, 0, 1), (0, 1, 2), (0, 3, 2), (0, 5, 4), (0, 9, 4)]);
    assert_eq!((world.stats().epoch_bumps, world.requests_of(Api::InitProducerId)), (0, 1));
    assert_eq!(world.stats().splits, 1);
}

/// Field note D1.
#[test]
fn a_sequence_that_is_refused_is_begun_anew_and_delivered() {
    for code in
        [ErrorCode::OutOfOrderSequenceNumber, ErrorCode::InvalidProducerEpoch, ErrorCode::UnknownProducerId]
    {
        let mut world = under_way(&[("linger.ms", "0")]);
        world.fault_t(Times::Once, Fault::error(ErrorCode::NotLeaderOrFollower));
        world.fault_t(Times::Once, Fault::error(code));
        world.send("t", 2);
        world.finish_delivered(secs(30));
        assert_one_bump(&world);
        assert_eq!(world.log(), [0, 1, 2], "{code}");
    }
}

/// The broker's own refusal after retention took what it remembered (before Kafka 2.5).
#[test]
fn a_producer_that_retention_forgot_goes_on() {
    let mut world = World::new(&[("linger.ms", "0")]).versions(&Versions::kafka_1_1()).topic("t", 1);
    world.send("t", 2);
    world.run_for(secs(1));
    world.net.model.partition("t", 0).expect("there").forget_producers(true);
    world.send("t", 2);
    world.finish_delivered(secs(30));
    assert_eq!(world.sequences(), [(0, 0, 2), (0, 2, 2), (1, 0, 2)]);
}

/// And with newer ones, which take any first sequence: nothing to recover.
#[test]
fn a_forgotten_producer_is_welcome_with_any_sequence() {
    let mut world = under_way(&[("linger.ms", "0")]);
    world.net.model.partition("t", 0).expect("there").forget_producers(true);
    world.send("t", 2);
    world.finish_delivered(secs(30));
    assert_eq!(world.stats().epoch_bumps, 0);
}

/// Field note D8.
#[test]
fn a_duplicate_is_a_delivery_without_an_offset() {
    use super::ledger::Verdict;
    let mut world = under_way(&[("linger.ms", "0")]);
    world.fault_t(Times::Once, Fault::close_after());
    world.fault_t(Times::Once, Fault::error(ErrorCode::DuplicateSequenceNumber));
    let ids = world.send("t", 1);
    world.finish_delivered(secs(30));
    let verdict = &world.entry(ids.start).verdict;
    assert!(
        matches!(verdict, Some((_, Verdict::Delivered { offset: None, partition: 0, .. }))),
        "{verdict:?}"
    );
}

/// The answer got lost, the batch did not: brokers answer the repeat with the first one's offset.
#[test]
fn a_lost_answer_costs_a_repeat_and_nothing_else() {
    for fault in [Fault::close_after(), Fault::cut_answer(0), Fault::cut_answer(7), Fault::cut_answer(30)] {
        let mut world = under_way(&[("linger.ms", "0")]);
        world.fault_t(Times::Once, fault);
        world.send("t", 3);
        world.finish_delivered(secs(30));
        assert_eq!(world.log(), [0, 1, 2, 3]);
        assert_eq!(world.stats().retries, 1);
    }
}

/// Field note D4: the repeat has the bytes of the first try, whatever came in between.
#[test]
fn a_repeat_is_the_same_batch_byte_by_byte() {
    let mut world = under_way(&[("linger.ms", "0"), ("compression.type", "lz4")]);
    world.fault_t(Times::Next(3), Fault::error(ErrorCode::NotEnoughReplicas));
    for _ in 0..10 {
        world.send("t", 5);
        world.run_for(ms(100));
    }
    world.finish_delivered(secs(60));
    let tries: Vec<_> =
        world.seen("t", 0)[1..5].iter().filter_map(|s| s.batch.as_ref()).map(|b| &b.bytes).collect();
    assert_eq!(tries.len(), 4);
    assert!(tries.iter().all(|bytes| *bytes == tries[0]));
}

/// A request that a busy broker takes up after its repeat was acknowledged elsewhere.
#[test]
fn a_request_that_comes_to_life_late_doubles_nothing() {
    for late in [3, 12, 40] {
        let mut world = under_way(&[
            ("linger.ms", "0"),
            ("request.timeout.ms", "2000"),
            ("delivery.timeout.ms", "60000"),
        ]);
        world.fault_t(Times::Once, Fault::late(secs(late)));
        for _ in 0..30 {
            world.send("t", 2);
            world.run_for(ms(500));
        }
        world.run_for(secs(40));
        world.finish(secs(60));
        assert!(world.dropped().iter().all(|(_, error)| error.fate == Fate::Unknown));
    }
}

/// After long silence the broker may have forgotten: one goes ahead.
#[test]
fn after_long_idleness_one_batch_goes_ahead_alone() {
    let mut world = under_way(&[("linger.ms", "0")]);
    world.run_for(secs(100));
    assert_eq!(requests_while_hung(&mut world, 3, ms(10)), 1);
    world.finish_delivered(secs(10));
}

/// How many requests go out for `batches`, each sent `pause` after the one before, while the leader answers none.
fn requests_while_hung(world: &mut World, batches: usize, pause: std::time::Duration) -> usize {
    world.hang(1);
    let before = world.requests_of(Api::Produce);
    for _ in 0..batches {
        world.send("t", 1);
        world.run_for(pause);
    }
    let requests = world.requests_of(Api::Produce) - before;
    world.resume(1);
    requests
}

/// Partitions take up a new epoch when nothing of theirs is in flight, idle ones with their next batch.
#[test]
fn other_partitions_adopt_the_new_epoch_when_they_are_empty() {
    let mut world = World::new(&[("linger.ms", "0")]).topic("t", 2);
    world.send_to("t", 0, 1);
    world.send_to("t", 1, 1);
    world.run_for(secs(1));
    world.fault_t(Times::Once, Fault::error(ErrorCode::OutOfOrderSequenceNumber));
    world.send_to("t", 0, 1);
    world.run_for(secs(5));
    world.send_to("t", 1, 1);
    world.finish_delivered(secs(5));
    let of_1: Vec<_> =
        world.seen("t", 1).iter().filter_map(|s| s.batch.as_ref()).map(|b| (b.epoch, b.sequence)).collect();
    assert_eq!(of_1, [(0, 0), (1, 0)]);
}

/// Field note D7.
#[test]
fn without_the_right_to_be_idempotent_messages_flow_all_the_same_if_it_was_only_preferred() {
    let denied = |world: &mut World| {
        for broker in 1..=3 {
            world.fault(
                On::Requests(broker, Api::InitProducerId),
                Times::Always,
                Fault::error(ErrorCode::ClusterAuthorizationFailed),
            );
        }
    };
    let mut world = World::new(&[]).topic("t", 1);
    denied(&mut world);
    world.send("t", 3);
    world.finish_delivered(secs(10));
    assert!(world
        .seen("t", 0)
        .iter()
        .all(|seen| seen.batch.as_ref().is_some_and(|batch| batch.producer_id == -1)));
    let mut world = World::new(&[("enable.idempotence", "true")]).topic("t", 1);
    denied(&mut world);
    let ids = world.send("t", 3);
    world.finish(secs(130));
    let error = world.error(ids.start);
    assert!(matches!(error.cause, Cause::IdempotenceRefused { .. }), "{error}");
    assert_eq!((error.fate, world.seen("t", 0).len()), (Fate::NotWritten, 0));
}

#[test]
fn a_cluster_without_producer_ids_is_written_to_one_batch_at_a_time() {
    let versions = Versions::kafka_4_4().without(Api::InitProducerId);
    let mut world = World::new(&[("linger.ms", "0")]).versions(&versions).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    assert_eq!(requests_while_hung(&mut world, 5, ms(1)), 1);
    world.finish_delivered(secs(10));
}

#[test]
fn an_id_that_is_not_to_be_had_yet_is_asked_for_again() {
    let mut world = World::new(&[]).topic("t", 1);
    for broker in 1..=3 {
        for code in [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable] {
            world.fault(On::Requests(broker, Api::InitProducerId), Times::Next(2), Fault::error(code));
        }
        world.fault(On::Requests(broker, Api::InitProducerId), Times::Once, Fault::close_before());
    }
    world.send("t", 3);
    world.finish_delivered(secs(30));
    assert!(world
        .seen("t", 0)
        .iter()
        .all(|seen| seen.batch.as_ref().is_some_and(|batch| batch.producer_id >= 0)));
}

/// Kafka 0.11 remembers one batch only.
#[test]
fn brokers_before_produce_v5_get_one_batch_at_a_time() {
    let mut world = World::new(&[("linger.ms", "0")]).versions(&Versions::kafka_0_11()).topic("t", 1);
    world.send("t", 1);
    world.run_for(secs(1));
    assert_eq!(requests_while_hung(&mut world, 5, ms(1)), 1);
    world.finish_delivered(secs(10));
}

/// An unanswered batch whose sequence the broker then refuses: dropped as unknown, unless doubles were accepted.
#[test]
fn an_unknown_fate_ends_with_the_sequence_unless_at_least_once_was_asked_for() {
    for always in [false, true] {
        let mut world = under_way(&[("linger.ms", "0")]);
        if always {
            let mut settings = (*world.settings).clone();
            settings.retry_ambiguous = RetryAmbiguous::Always;
            world.check();
            world = World::with(1, settings).topic("t", 1).allow_duplicates();
            world.send("t", 1);
            world.run_for(secs(1));
        }
        world.fault_t(Times::Once, Fault::close_after());
        world.fault_t(Times::Once, Fault::error(ErrorCode::OutOfOrderSequenceNumber));
        let ids = world.send("t", 1);
        world.finish(secs(30));
        if always {
            assert!(world.delivered(ids));
            assert_eq!(world.log(), [0, 1, 1]);
        } else {
            let error = world.error(ids.start);
            assert_eq!(error.fate, Fate::Unknown, "{error}");
            assert!(matches!(error.cause, Cause::SequenceLost { .. }), "{error}");
            assert_eq!(world.log(), [0, 1]);
        }
    }
}

use super::*;
use crate::intake::chunk::Chunk;
use crate::intake::head::Head;
use crate::message::Message;
use std::time::Duration;

fn delivered(base_offset: i64) -> Outcome {
    Outcome::Delivered { topic: "t".into(), partition: 0, base_offset: Some(base_offset), append_time: None }
}

fn offset_of(block: &Block, message: u32) -> Option<i64> {
    match block.outcome(message)? {
        (Outcome::Delivered { base_offset, .. }, place) => Some(base_offset? + i64::from(place)),
        (other, _) => panic!("{other:?}"),
    }
}

fn is_lost(block: &Block, message: u32) -> bool {
    matches!(block.outcome(message), Some((Outcome::Lost, _)))
}

#[test]
fn a_chunks_messages_go_to_many_batches() {
    let block = Arc::new(Block::default());
    let mut placement = Placement::new(&block);
    // Two batches that have 10 and 0 records already.
    let (mut a, mut b) = (placement.segment(10), placement.segment(0));
    placement.put(0, &mut a, 10);
    placement.put(1, &mut a, 11);
    placement.put(2, &mut b, 0);
    placement.put(3, &mut a, 12);
    assert!(block.outcome(0).is_none());
    drop(placement);
    assert_eq!((a.place(), a.count(), b.place(), b.count()), (10, 3, 0, 1));
    b.resolve(delivered(500));
    assert_eq!(offset_of(&block, 2), Some(500));
    assert!(!block.is_settled(0, 4) && block.is_settled(2, 1));
    a.resolve(delivered(100));
    assert_eq!([0, 1, 3].map(|message| offset_of(&block, message)), [Some(110), Some(111), Some(112)]);
    assert!(block.is_settled(0, 4));
}

#[test]
fn what_is_dropped_without_a_verdict_is_lost() {
    let block = Arc::new(Block::default());
    let mut placement = Placement::new(&block);
    let mut segment = placement.segment(0);
    placement.put(0, &mut segment, 0);
    drop(placement);
    let mut parked = Parked::new(&block);
    parked.add(1);
    drop(segment);
    assert!(is_lost(&block, 0) && block.outcome(1).is_none());
    drop(parked);
    assert!(is_lost(&block, 1));

    // A segment that goes before anybody knows which messages are its own.
    let block = Arc::new(Block::default());
    let mut placement = Placement::new(&block);
    let mut segment = placement.segment(0);
    placement.put(0, &mut segment, 0);
    drop(segment);
    drop(placement);
    assert!(is_lost(&block, 0));
}

#[test]
fn a_chunk_that_nobody_took_is_lost_and_one_that_waits_for_its_topic_is_not() {
    let chunk = || {
        let mut chunk = Chunk::new(1_000, Instant::now());
        let message = Message::new(b"x");
        let head = Head::of(&message, 0, 0, 0).unwrap();
        chunk.append(&message, &head, Instant::now);
        chunk
    };
    let untouched = chunk();
    let block = untouched.block().clone();
    drop(untouched);
    assert!(is_lost(&block, 0));

    let mut reused = chunk();
    let block = reused.block().clone();
    reused.reset();
    assert!(is_lost(&block, 0));
    assert!(!Arc::ptr_eq(&block, reused.block()));

    let waiting = chunk();
    let block = waiting.block().clone();
    let mut parked = Parked::new(&block);
    parked.add(0);
    drop(waiting);
    assert!(block.outcome(0).is_none());
    let (mut placement, numbers) = parked.place();
    let mut segment = placement.segment(7);
    numbers.for_each(|number| placement.put(number, &mut segment, 7));
    drop(placement);
    segment.resolve(delivered(0));
    assert_eq!(offset_of(&block, 0), Some(7));
}

#[test]
fn a_panic_in_the_middle_of_a_chunk_loses_the_rest_of_it() {
    let block = Arc::new(Block::default());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut placement = Placement::new(&block);
        let mut segment = placement.segment(0);
        placement.put(0, &mut segment, 0);
        panic!("between two messages");
    }));
    assert!(panicked.is_err());
    assert!(is_lost(&block, 0) && is_lost(&block, 1));
}

/// Where each message of a block goes, kept the simple way.
#[derive(Clone, Copy)]
struct At {
    batch: usize,
    place: u32,
}

/// Chunks that are distributed, parked, split and thinned out in every way: each message is found at its place in the end.
#[test]
fn messages_are_found_through_every_regrouping() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let block = Arc::new(Block::default());
        let count = rng.u32(1..60);
        let mut at: Vec<Option<At>> = vec![None; count as usize];
        // (number of the batch, records in it, segment)
        let mut batches: Vec<(u32, Option<Segment>)> = (0..4).map(|_| (rng.u32(0..5), None)).collect();
        let mut parked = Parked::new(&block);
        let mut placement = Placement::new(&block);
        let mut put = |placement: &mut Placement, number: u32, rng: &mut fastrand::Rng| {
            let batch = rng.usize(0..4);
            let (records, segment) = &mut batches[batch];
            let segment = segment.get_or_insert_with(|| placement.segment(*records));
            placement.put(number, segment, *records);
            at[number as usize] = Some(At { batch, place: *records });
            *records += 1;
        };
        for number in 0..count {
            if rng.u8(..4) == 0 {
                parked.add(number);
            } else {
                put(&mut placement, number, &mut rng);
            }
        }
        drop(placement);
        // Those that waited come into batches of their own: a segment is a stretch of one batch.
        let (mut placement, numbers) = parked.place();
        let late = batches.len();
        let mut late_segment = placement.segment(0);
        for (place, number) in (0..).zip(numbers) {
            placement.put(number, &mut late_segment, place);
            at[number as usize] = Some(At { batch: late, place });
        }
        drop(placement);
        let mut segments: Vec<(usize, Segment)> = Vec::new();
        for (batch, (_, segment)) in batches.into_iter().enumerate() {
            segments.extend(segment.map(|segment| (batch, segment)));
        }
        segments.push((late, late_segment));

        // Some batches are cut in two, as a broker that finds them too large makes us do.
        let mut next_batch = late + 1;
        let mut whole = Vec::new();
        for (batch, segment) in segments {
            if rng.bool() {
                whole.push((batch, segment));
                continue;
            }
            let cut = segment.place() + rng.u32(0..=segment.count());
            let (low, high) = (next_batch, next_batch + 1);
            next_batch += 2;
            let pieces = segment.regroup(|place| match place < cut {
                true => (low, place),
                false => (high, place - cut),
            });
            for entry in at.iter_mut().flatten().filter(|at| at.batch == batch) {
                *entry = match entry.place < cut {
                    true => At { batch: low, place: entry.place },
                    false => At { batch: high, place: entry.place - cut },
                };
            }
            whole.extend(pieces);
        }
        rng.shuffle(&mut whole);
        for (batch, segment) in whole {
            segment.resolve(delivered(1_000 * batch as i64));
        }
        for (number, at) in (0..).zip(at) {
            let at = at.expect("every message went somewhere");
            let expected = 1_000 * at.batch as i64 + i64::from(at.place);
            assert_eq!(offset_of(&block, number), Some(expected), "seed {seed}, message {number}");
        }
        assert!(block.is_settled(0, count));
    }
}

#[test]
fn a_wait_ends_with_the_verdict_or_the_deadline() {
    let block = Arc::new(Block::default());
    let mut placement = Placement::new(&block);
    let (mut early, mut late) = (placement.segment(0), placement.segment(0));
    placement.put(0, &mut early, 0);
    placement.put(1, &mut late, 0);
    drop(placement);
    assert!(!block.wait(0, 1, Some(Instant::now() + Duration::from_millis(5))));
    assert!(block.state.lock().waiting.is_empty());
    let wait = |first, count| {
        let block = block.clone();
        std::thread::spawn(move || block.wait(first, count, None))
    };
    let waiting = [wait(0, 1), wait(0, 1), wait(1, 1), wait(0, 2)];
    while block.state.lock().waiting.len() < 4 {
        std::thread::yield_now();
    }
    early.resolve(delivered(0));
    // The others are not even woken.
    assert_eq!(block.state.lock().waiting.len(), 2);
    waiting[2].thread().unpark(); // somebody else wakes it, and it goes on waiting
    late.resolve(delivered(0));
    assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
    assert!(block.state.lock().waiting.is_empty());
}

#[test]
fn returned_messages_are_found_by_their_place() {
    let budget = Arc::new(Budget::new(1_000));
    budget.try_reserve(300).unwrap();
    let mut bytes = Vec::new();
    for value in [&b"a"[..], b"", b"ccc"] {
        let message = Message { partition: Some(2), ..Message::new(value) };
        let head = Head::of(&message, 0, 0, 44).unwrap();
        let at = bytes.len();
        bytes.resize(at + head.encoded_len(), 0);
        crate::intake::head::encode(&message, &head, &mut bytes[at..]);
    }
    let charge = Charge::new(&budget, 300);
    let returned = Returned::new("t".into(), None, 10, bytes.into(), charge);
    assert_eq!(returned.len(), 3);
    let message = returned.message(12).unwrap();
    assert_eq!(
        (message.value.as_deref(), message.timestamp, message.partition),
        (Some(&b"ccc"[..]), 44, Some(2))
    );
    assert!(returned.message(9).is_none() && returned.message(13).is_none());
    let values: Vec<_> = returned.messages().map(|message| message.value.unwrap()).collect();
    assert_eq!(values, [&b"a"[..], b"", b"ccc"]);
    assert_eq!(budget.used(), 300);
    drop(returned);
    assert!(budget.is_unused());
}

/// Messages of one chunk whose topics become known one by one, in any order: each finds its own verdict.
#[test]
fn runs_that_come_one_by_one_are_found() {
    const MESSAGES: u32 = 1000;
    let block = Arc::new(Block::default());
    let mut order: Vec<u32> = (0..MESSAGES).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    // Some alone, some in larger companies: both ways of taking runs over.
    let (alone, together) = order.split_at(700);
    for numbers in alone.chunks(1).chain(together.chunks(50)) {
        let mut placement = Placement::new(&block);
        for number in numbers {
            let mut segment = placement.segment(0);
            placement.put(*number, &mut segment, 0);
            segment.resolve(Outcome::Delivered {
                topic: "t".into(),
                partition: 0,
                base_offset: Some(i64::from(*number)),
                append_time: None,
            });
        }
    }
    for number in 0..MESSAGES {
        match block.outcome(number) {
            Some((Outcome::Delivered { base_offset, .. }, 0)) => {
                assert_eq!(base_offset, Some(i64::from(number)));
            }
            other => panic!("{number}: {other:?}"),
        }
    }
}

//! Which partition a message belongs to, as Java's producer decides it: by the key's hash, or, without a key, one
//! partition for about a batch's worth of bytes and then another (KIP-794).

/// What Java's producer makes of a key: murmur2 with Kafka's seed.
pub fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a key with this hash. `partitions` is not 0.
#[inline]
pub fn keyed(hash: u32, partitions: u32) -> u32 {
    (hash & 0x7fff_ffff) % partitions
}

/// How well a partition suits messages without a key. The better ones get them all, as long as there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has no leader.
    Leaderless,
    /// Its leader has taken nothing for `partitioner.availability.timeout.ms`.
    Slow,
    /// Its leader takes messages.
    Good,
    /// So it does, and `partitioner.rack.aware` asks for leaders in the rack that it is in.
    Near,
}

/// What the choice of a partition depends on.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Whether it comes into question.
    pub standing: Standing,
    /// Batches that wait for it or are on their way; 0 for all where the choice is not adaptive.
    pub queued: u32,
}

/// Where the messages without a key of one topic go for the time being.
///
/// A stay at a partition lasts `limit` (`batch.size`) bytes, however long that takes: if it ended with a batch that linger sent,
/// slow brokers, whose batches wait and grow, would get more than fast ones. It ends where a batch ends if it can, so as
/// not to leave a batch of a few messages behind, and at twice the limit if no batch ended till then.
#[derive(Clone, Debug, Default)]
pub struct Sticky {
    current: Option<u32>,
    /// Bytes of this stay.
    produced: usize,
    limit: usize,
}

impl Sticky {
    /// Where the next message goes. None: `choose` has to say.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        self.current
    }

    /// A message of this size went to the current partition.
    #[inline]
    pub fn added(&mut self, bytes: usize, limit: usize) {
        self.produced += bytes;
        self.limit = limit;
        if self.produced >= limit.saturating_mul(2) {
            self.current = None;
        }
    }

    /// A message of this size does not fit into the current partition's open batch: to be asked before it is placed, since it
    /// should open a batch at the next partition if the stay is over with it.
    pub fn does_not_fit(&mut self, bytes: usize, limit: usize) {
        if self.produced.saturating_add(bytes) >= limit {
            self.current = None;
        }
    }

    /// A batch of this partition takes no more messages.
    pub fn batch_closed(&mut self, partition: u32) {
        if self.current == Some(partition) && self.produced >= self.limit {
            self.current = None;
        }
    }

    /// This partition is not what it was when it was chosen (it lost its leader): the stay, if it is at it, is over.
    pub fn leave(&mut self, partition: u32) {
        if self.current == Some(partition) {
            self.current = None;
        }
    }

    /// Chooses the partition of the next stay: by chance among those of the best standing, less likely the more batches
    /// queue up for it. `loads` has one entry for each partition of the topic, and is not empty.
    pub fn choose(&mut self, loads: &[Load], rng: &mut fastrand::Rng) -> u32 {
        let best = loads.iter().map(|load| load.standing).max();
        let candidates = || loads.iter().enumerate().filter(|(_, load)| Some(load.standing) == best);
        let longest = candidates().map(|(_, load)| u64::from(load.queued)).max().unwrap_or(0);
        let weight = |load: &Load| longest + 1 - u64::from(load.queued);
        let total: u64 = candidates().map(|(_, load)| weight(load)).sum();
        let mut ticket = rng.u64(0..total.max(1));
        let mut chosen = 0;
        for (partition, load) in candidates() {
            chosen = partition as u32;
            match ticket.checked_sub(weight(load)) {
                Some(rest) => ticket = rest,
                None => break,
            }
        }
        self.current = Some(chosen);
        self.produced = 0;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SplitMix64, as the program used that made the vectors.
    struct SplitMix(u64);

    impl SplitMix {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }
    }

    #[test]
    fn keys_go_where_javas_producer_sends_them() {
        let vectors = include_str!("../../tests/data/murmur2.tsv");
        let mut random = SplitMix(794);
        let mut keys = 0;
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let key: Vec<u8> = (0..keys % 301).map(|_| random.next() as u8).collect();
            let (hash, partition) = line.split_once('\t').expect("two columns");
            let hash = u32::from_str_radix(hash, 16).expect("a hash");
            assert_eq!(murmur2(&key), hash, "key {keys}");
            assert_eq!(keyed(hash, 1 + keys % 97).to_string(), partition, "key {keys}");
            keys += 1;
        }
        assert_eq!(keys, 1000);
    }

    fn good(queued: u32) -> Load {
        Load { standing: Standing::Good, queued }
    }

    /// How often each partition is chosen.
    fn shares(loads: &[Load], times: u32, seed: u64) -> Vec<u32> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sticky = Sticky::default();
        let mut counts = vec![0; loads.len()];
        for _ in 0..times {
            counts[sticky.choose(loads, &mut rng) as usize] += 1;
        }
        counts
    }

    /// Five standard deviations of a share of `weight` in `total`: one run in a million is outside.
    fn bounds(times: u32, weight: u64, total: u64) -> std::ops::RangeInclusive<f64> {
        let p = weight as f64 / total as f64;
        let (mean, deviation) = (f64::from(times) * p, (f64::from(times) * p * (1.0 - p)).sqrt());
        mean - 5.0 * deviation - 1e-9..=mean + 5.0 * deviation + 1e-9
    }

    #[test]
    fn equal_queues_are_chosen_equally() {
        for queued in [0, 1, 7, u32::MAX] {
            for (partition, count) in shares(&[good(queued); 9], 20_000, 1).into_iter().enumerate() {
                assert!(bounds(20_000, 1, 9).contains(&f64::from(count)), "partition {partition}: {count}");
            }
        }
    }

    #[test]
    fn a_longer_queue_is_chosen_less_and_still_sometimes() {
        // Longest 3: weights 4, 3, 1, 4.
        let counts = shares(&[good(0), good(1), good(3), good(0)], 24_000, 2);
        for (count, weight) in counts.iter().zip([4, 3, 1, 4]) {
            assert!(bounds(24_000, weight, 12).contains(&f64::from(*count)), "{counts:?}");
        }
    }

    #[test]
    fn only_the_best_standing_is_chosen() {
        use Standing::{Good, Leaderless, Near, Slow};
        for (standings, expected) in [
            ([Good, Leaderless, Good, Slow], [true, false, true, false]),
            ([Leaderless, Slow, Leaderless, Slow], [false, true, false, true]),
            ([Leaderless; 4], [true; 4]),
            ([Near, Good, Slow, Near], [true, false, false, true]),
        ] {
            // A good partition with a long queue is still better than a slow one without.
            let loads = standings.map(|standing| Load { standing, queued: 9 * u32::from(standing == Good) });
            let chosen: Vec<bool> = shares(&loads, 1000, 3).into_iter().map(|count| count > 0).collect();
            assert_eq!(chosen, expected, "{standings:?}");
        }
    }

    proptest! {
        #[test]
        fn shares_follow_the_weights(queues in prop::collection::vec((0u32..20, any::<bool>()), 1..12), seed: u64) {
            let loads: Vec<Load> = queues
                .iter()
                .map(|(queued, led)| Load {
                    standing: if *led { Standing::Good } else { Standing::Leaderless },
                    queued: *queued,
                })
                .collect();
            let any_led = queues.iter().any(|(_, led)| *led);
            let counts_in = |led: bool| led || !any_led;
            let longest = queues.iter().filter(|(_, led)| counts_in(*led)).map(|(q, _)| *q).max().unwrap_or(0);
            let weights: Vec<u64> = queues
                .iter()
                .map(|(q, led)| if counts_in(*led) { u64::from(longest + 1 - q) } else { 0 })
                .collect();
            let total = weights.iter().sum();
            for (count, weight) in shares(&loads, 4000, seed).into_iter().zip(weights) {
                prop_assert!(bounds(4000, weight, total).contains(&f64::from(count)), "{} of weight {}", count, weight);
            }
        }
    }

    #[test]
    fn a_stay_lasts_a_batch_and_ends_with_one() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut sticky = Sticky::default();
        assert_eq!(sticky.current(), None);
        let here = sticky.choose(&[good(0); 3], &mut rng);
        sticky.added(99, 100);
        sticky.batch_closed(here); // by linger
        assert_eq!(sticky.current(), Some(here), "a batch that ended early is no reason to go");
        sticky.added(1, 100);
        assert_eq!(sticky.current(), Some(here), "in the midst of a batch it stays");
        sticky.batch_closed(here + 1);
        assert_eq!(sticky.current(), Some(here), "another partition's batch");
        sticky.batch_closed(here);
        assert_eq!(sticky.current(), None);

        let here = sticky.choose(&[good(0); 3], &mut rng);
        sticky.added(199, 100);
        assert_eq!(sticky.current(), Some(here), "the bytes of the stay before do not count");
        sticky.added(1, 100);
        assert_eq!(sticky.current(), None, "twice the limit");

        let here = sticky.choose(&[good(0); 3], &mut rng);
        sticky.added(50, 100);
        sticky.does_not_fit(49, 100);
        assert_eq!(sticky.current(), Some(here));
        sticky.does_not_fit(50, 100);
        assert_eq!(sticky.current(), None);

        let here = sticky.choose(&[good(0); 3], &mut rng);
        sticky.leave(here + 1);
        assert_eq!(sticky.current(), Some(here));
        sticky.leave(here);
        assert_eq!(sticky.current(), None);
    }

    /// Messages of random sizes over partitions whose batches end at `LIMIT` bytes, or at a message in `linger` by
    /// linger: what each partition gets, and how many bytes there are to a batch.
    fn simulate(linger: impl Fn(u32) -> u32) -> (Vec<f64>, f64) {
        const LIMIT: usize = 10_000;
        let mut rng = fastrand::Rng::with_seed(5);
        let mut sticky = Sticky::default();
        let mut open = [0usize; 4];
        let (mut bytes, mut batches) = (vec![0usize; 4], 0u32);
        for _ in 0..400_000 {
            let size = rng.usize(20..400);
            if sticky.current().is_some_and(|at| open[at as usize] + size > LIMIT) {
                sticky.does_not_fit(size, LIMIT);
            }
            let at = match sticky.current() {
                Some(at) => at,
                None => sticky.choose(&[good(0); 4], &mut rng),
            };
            let batch = &mut open[at as usize];
            if *batch + size > LIMIT {
                (*batch, batches) = (0, batches + 1);
                sticky.batch_closed(at);
            }
            *batch += size;
            bytes[at as usize] += size;
            sticky.added(size, LIMIT);
            if rng.u32(0..linger(at)) == 0 {
                (*batch, batches) = (0, batches + 1);
                sticky.batch_closed(at);
            }
        }
        let total = bytes.iter().sum::<usize>() as f64;
        (bytes.into_iter().map(|b| b as f64 / total).collect(), total / f64::from(batches))
    }

    #[test]
    fn partitions_get_the_same_and_batches_are_full() {
        let (shares, bytes_a_batch) = simulate(|_| u32::MAX);
        assert!(shares.iter().all(|share| (0.24..0.26).contains(share)), "{shares:?}");
        assert!(bytes_a_batch > 9_700.0, "{bytes_a_batch}");
    }

    #[test]
    fn a_partition_whose_batches_linger_less_gets_no_less() {
        // Partition 0 is fast: its batches leave after 5 messages on average, those of the others after 5000. If stays ended
        // with batches it would get a thirtieth. (It gets a little more than the others: its stays end some messages late.)
        let (shares, _) = simulate(|partition| if partition == 0 { 5 } else { 5000 });
        assert!(shares.iter().all(|share| (0.22..0.28).contains(share)), "{shares:?}");
    }
}

//! Every codec at every level, read back by Kafka's consumer and found under its name in the segments.

use crate::client::{delivered, producer, stop};
use crate::support::kafka::{self, Cluster};
use steadfast::Message;

/// Text that shrinks, noise that does not, and the empty value.
fn values() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(4);
    let words = ["partition", "leader", "replica", "offset", "batch", "record", "broker", "topic"];
    let text = |random: &mut fastrand::Rng, n: usize| -> Vec<u8> {
        (0..n).flat_map(|_| [words[random.usize(..words.len())].as_bytes(), b" "].concat()).collect()
    };
    let mut values: Vec<Vec<u8>> = (0..100).map(|n| text(&mut random, n)).collect();
    values.push(text(&mut random, 20_000));
    values.push((0..70_000).map(|_| random.u8(..)).collect());
    values.push(Vec::new());
    values
}

/// Sends all values in one call and holds what comes back against them.
pub fn round_trip(cluster: &Cluster, topic: &str, codec: &str, level: Option<i32>) {
    let values = values();
    let mut properties = vec![("compression.type", codec.to_owned())];
    let level_name = format!("compression.{codec}.level");
    properties.extend(level.map(|level| (level_name.as_str(), level.to_string())));
    let properties: Vec<(&str, &str)> = properties.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let producer = producer(&cluster.bootstrap(), &properties);
    let messages = values.iter().map(|value| Message { partition: Some(0), ..Message::new(value) });
    let places = delivered(&producer.send_messages(topic, messages).expect("accepted"));
    let _ = stop(&producer);
    let offsets: Vec<Option<i64>> = places.iter().map(|place| place.offset).collect();
    let base = offsets[0].expect("an offset");
    let ascending: Vec<Option<i64>> = (base..base + values.len() as i64).map(Some).collect();
    assert_eq!(offsets, ascending, "{codec} {level:?}");
}

/// What several round trips left in a topic of one partition.
pub fn check(cluster: &Cluster, topic: &str, codec: &str, rounds: usize) {
    let values = values();
    let back = cluster.consume(topic);
    assert_eq!(back.len(), values.len() * rounds, "{codec}");
    for (record, value) in back.iter().zip(values.iter().cycle()) {
        assert!(record.value.as_ref() == Some(value), "{codec}: offset {} differs", record.offset);
    }
    for batch in cluster.dump(topic) {
        assert!(batch.is_valid, "{codec}: the CRC of the batch at {} is wrong", batch.base_offset);
        assert_eq!((batch.codec.as_str(), batch.magic), (codec, 2));
    }
}

fn every_level(codec: &str, levels: impl IntoIterator<Item = Option<i32>>) {
    let Some(cluster) = kafka::one() else { return };
    let topic = format!("codec-{codec}");
    cluster.create_topic(&topic, 1, 1, &[]);
    let mut rounds = 0;
    for level in levels {
        round_trip(&cluster, &topic, codec, level);
        rounds += 1;
    }
    check(&cluster, &topic, codec, rounds);
}

#[test]
fn codec_none() {
    every_level("none", [None]);
}

#[test]
fn codec_gzip_at_every_level() {
    every_level("gzip", std::iter::once(None).chain((1..=9).map(Some)));
}

#[test]
fn codec_snappy() {
    every_level("snappy", [None]);
}

#[test]
fn codec_lz4_at_every_level() {
    every_level("lz4", std::iter::once(None).chain((1..=17).map(Some)));
}

/// The negative levels reach down to -131072, where nothing shrinks any more: some of them.
#[cfg(feature = "zstd")]
#[test]
fn codec_zstd_at_every_level() {
    every_level("zstd", std::iter::once(None).chain([-500, -50, -7, -1].map(Some)).chain((1..=22).map(Some)));
}

/// What compression would not make smaller travels as it is.
#[test]
fn codec_is_left_out_where_nothing_shrinks() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("noise", 1, 1, &[]);
    let mut random = fastrand::Rng::with_seed(5);
    let noise: Vec<u8> = (0..50_000).map(|_| random.u8(..)).collect();
    for codec in ["gzip", "snappy", "lz4"] {
        let producer = producer(&cluster.bootstrap(), &[("compression.type", codec)]);
        let _ = delivered(&producer.send("noise", noise.as_slice()).expect("accepted"));
        let _ = stop(&producer);
    }
    assert!(cluster.consume("noise").iter().all(|record| record.value.as_ref() == Some(&noise)));
    let codecs: Vec<String> = cluster.dump("noise").into_iter().map(|batch| batch.codec).collect();
    assert_eq!(codecs, ["none"; 3]);
}

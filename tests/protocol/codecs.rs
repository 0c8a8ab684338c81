//! The codecs by themselves: levels, limits, and streams as others write them.

use crate::batches::codecs;
use proptest::prelude::*;
use steadfast::internal::protocol::compression::{compress, decompress, Codec};

fn built_in() -> impl Iterator<Item = Codec> {
    Codec::ALL.into_iter().filter(|codec| codec.is_built_in())
}

/// Nothing, a byte, around the block sizes of snappy (32 KiB) and lz4 (64 KiB), and several MiB.
const SIZES: [usize; 10] = [0, 1, 100, 32_767, 32_768, 32_769, 65_536, 65_537, 131_072, 3_000_000];

/// `kind` 0: all the same, 1: words that repeat, 2: noise.
fn input(len: usize, kind: u32) -> Vec<u8> {
    match kind {
        0 => vec![b'x'; len],
        1 => b"once upon a time there was a message, ".iter().copied().cycle().take(len).collect(),
        _ => (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 15) as u8).collect(),
    }
}

#[test]
fn every_size_and_level_comes_back() {
    for codec in built_in() {
        let ends = codec.levels().map(|levels| [*levels.start(), *levels.end()]);
        let middle = codec.levels().map(|levels| 3.clamp(*levels.start(), *levels.end()));
        for size in SIZES {
            for kind in 0..3 {
                let plain = input(size, kind);
                let mut levels = vec![None];
                if size <= 32_769 {
                    levels.push(middle);
                    levels.extend(ends.into_iter().flatten().map(Some));
                }
                for level in levels {
                    let packed = compress(codec, level, &plain, Vec::new()).unwrap();
                    let again = decompress(codec, &packed, size).unwrap();
                    assert!(again == plain, "{codec} {level:?} {size} {kind}");
                    if kind < 2 && size >= 32_767 && codec != Codec::None && level.is_none() {
                        assert!(packed.len() < size / 10, "{codec} {level:?} {size}: {}", packed.len());
                    }
                }
            }
        }
    }
}

#[test]
fn a_higher_level_is_smaller() {
    let plain = input(40_000, 1).iter().zip(input(40_000, 2)).map(|(a, b)| a ^ (b & 7)).collect::<Vec<_>>();
    for codec in built_in() {
        let Some(levels) = codec.levels() else { continue };
        let low = compress(codec, Some(1), &plain, Vec::new()).unwrap();
        let high = compress(codec, Some(*levels.end()), &plain, Vec::new()).unwrap();
        assert!(high.len() < low.len(), "{codec}: {} and {}", high.len(), low.len());
    }
}

#[test]
fn levels_that_are_not_there() {
    for (codec, level, words) in [
        (Codec::Gzip, 10, "levels 1 to 9"),
        (Codec::Gzip, 0, "levels 1 to 9"),
        (Codec::Zstd, 23, "to 22"),
        (Codec::Snappy, 1, "no levels"),
        (Codec::Lz4, 1, "no levels"),
        (Codec::None, 1, "no levels"),
    ] {
        let error = compress(codec, Some(level), b"abc", Vec::new()).unwrap_err();
        assert!(error.contains(words) && error.contains(codec.name()), "{error}");
    }
}

#[test]
fn a_codec_that_is_not_built_in_names_its_feature() {
    for codec in Codec::ALL.into_iter().filter(|codec| !codec.is_built_in()) {
        for error in [compress(codec, None, b"abc", Vec::new()), decompress(codec, b"abc", 10)] {
            assert!(error.unwrap_err().contains(&format!("enable the feature `{codec}`")));
        }
    }
}

#[test]
fn a_buffer_for_reuse_is_overwritten_and_reused() {
    for codec in built_in() {
        let mut buffer = Vec::with_capacity(1 << 20);
        buffer.extend(b"left over");
        let place = buffer.as_ptr();
        let packed = compress(codec, None, b"hello hello hello", buffer).unwrap();
        assert_eq!(packed.as_ptr(), place, "{codec}");
        assert_eq!(decompress(codec, &packed, 100).unwrap(), b"hello hello hello");
    }
}

/// A few bytes that unpack to many are refused at the limit, not after it.
#[test]
fn bombs() {
    for codec in built_in() {
        let packed = compress(codec, None, &vec![0; 5_000_000], Vec::new()).unwrap();
        for limit in [0, 1, 1000, 4_999_999] {
            let error = decompress(codec, &packed, limit).unwrap_err();
            assert!(error.contains(&format!("more than {limit} bytes")), "{codec}: {error}");
        }
        for limit in [5_000_000, usize::MAX] {
            assert_eq!(decompress(codec, &packed, limit).unwrap().len(), 5_000_000);
        }
    }
}

#[test]
fn streams_that_end_too_early_or_too_late() {
    for codec in built_in().filter(|codec| *codec != Codec::None) {
        let packed = compress(codec, None, &input(70_000, 2), Vec::new()).unwrap();
        for end in (0..packed.len()).step_by(997).chain([packed.len() - 1]) {
            // A snappy stream that ends between blocks can't be told from a shorter one: the number of records says it.
            if let Ok(short) = decompress(codec, &packed[..end], 1 << 20) {
                assert!(codec == Codec::Snappy && short.len() < 70_000, "{codec}, {end} bytes");
            }
        }
        let long = [&packed[..], &[1, 2, 3, 4, 5, 6, 7, 8, 9]].concat();
        assert!(decompress(codec, &long, 1 << 20).is_err(), "{codec}");
    }
}

/// Other clients write the format itself, without Java's stream around it.
#[cfg(feature = "snappy")]
#[test]
fn snappy_without_javas_stream() {
    let plain = input(100_000, 1);
    let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    assert_eq!(decompress(Codec::Snappy, &raw, 100_000).unwrap(), plain);
    assert!(decompress(Codec::Snappy, &raw, 99_999).unwrap_err().contains("more than"));
    // A length that no such few bytes can hold is not believed, so nothing is allocated for it.
    let lie = [0xff, 0xff, 0xff, 0x3f, 0, b'x'];
    assert!(decompress(Codec::Snappy, &lie, 1 << 30).unwrap_err().contains("can't hold"));
}

#[cfg(feature = "snappy")]
#[test]
fn snappy_streams_are_javas() {
    let plain = input(70_000, 2);
    let packed = compress(Codec::Snappy, None, &plain, Vec::new()).unwrap();
    assert_eq!(packed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    // Blocks of 32 KiB, each behind its length.
    let mut rest = &packed[16..];
    let mut sizes = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        let (block, behind) = behind.split_at(u32::from_be_bytes(*len) as usize);
        sizes.push(snap::raw::Decoder::new().decompress_vec(block).unwrap().len());
        rest = behind;
    }
    assert_eq!(sizes, [32_768, 32_768, 4_464]);
    // Two streams, one behind the other, as Java's reader takes them.
    let twice = [&packed[..], &packed].concat();
    assert_eq!(decompress(Codec::Snappy, &twice, 140_000).unwrap(), [&plain[..], &plain].concat());
}

/// As Java writes it: version 1, independent blocks of at most 64 KiB, no checksums but the header's own.
#[cfg(feature = "lz4")]
#[test]
fn lz4_frames_are_javas() {
    let packed = compress(Codec::Lz4, None, &input(70_000, 2), Vec::new()).unwrap();
    assert_eq!(packed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(packed[packed.len() - 4..], [0; 4], "the end mark");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn anything_comes_back(plain in prop::collection::vec(0..4u8, 0..9000), codec in codecs()) {
        let packed = compress(codec, None, &plain, vec![9; 10]).unwrap();
        prop_assert_eq!(decompress(codec, &packed, plain.len()).unwrap(), plain);
    }

}

proptest! {
    /// Whatever comes in: an error or an answer within the limit, no panic.
    #[test]
    fn noise_is_survived(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kind in 0..3u32,
        codec in codecs(),
    ) {
        for input in [noise, {
            let mut packed = compress(codec, None, &input(3000, kind), Vec::new()).unwrap();
            for (at, value) in hits {
                let at = at.index(packed.len());
                packed[at] = value;
            }
            packed
        }] {
            if let Ok(plain) = decompress(codec, &input, 10_000) {
                prop_assert!(plain.len() <= 10_000);
            }
        }
    }
}

//! Lengths that lie must cost nothing: memory is taken for bytes that are there, not for bytes that are announced.
//! Alone in its process, because it measures the whole process's peak.

use peak_alloc::PeakAlloc;
use steadfast::internal::protocol::compression::{compress, decompress, Codec};
use steadfast::internal::protocol::record_batch::{decode_batches, records};
use steadfast::internal::protocol::{api_versions, init_producer_id, metadata, produce};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// By how many bytes the peak rises above what is held before.
fn peak_of(what: impl FnOnce()) -> usize {
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    what();
    ALLOCATED.peak_usage() - before
}

/// As if every count and length in it were huge.
fn liars() -> Vec<Vec<u8>> {
    let mut liars = vec![vec![0xff; 4096], vec![0x7f; 4096], vec![0x01; 4096], vec![0x00; 4096]];
    // A count of 2^31-1, of exactly what is left, and as a varint, at every place of some zeros.
    for at in 0..64 {
        for lie in [
            &[0x7f, 0xff, 0xff, 0xff][..],
            &[0, 0, 0x0f, 0xf0],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0xf0, 0x1f],
        ] {
            let mut liar = vec![0; 4096];
            liar[at..at + lie.len()].copy_from_slice(lie);
            liars.push(liar);
        }
    }
    liars
}

/// Streams that begin as they should and then announce more than is there.
fn lying_streams(codec: Codec) -> Vec<Vec<u8>> {
    match codec {
        Codec::None | Codec::Gzip => Vec::new(),
        Codec::Snappy => [&[0xff, 0xff, 0xff, 0xf0][..], &[0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x07]]
            .map(|lie| [&b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"[..], lie].concat())
            .to_vec(),
        // Blocks of up to 4 MiB, and one of 4 MiB.
        Codec::Lz4 => vec![vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 0, 0, 0x40, 0, 1, 2, 3]],
        // A window of 128 MiB, and a content of 2^60 bytes.
        Codec::Zstd => vec![
            vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 1, 2, 3],
            vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 2, 3],
        ],
    }
}

#[test]
fn memory_follows_the_bytes_that_are_there() {
    for liar in liars() {
        for version in 0..=13 {
            let peak = peak_of(|| {
                let _ = produce::decode(&liar, version.max(3));
                let _ = metadata::decode(&liar, version.max(4));
                let _ = api_versions::decode(&liar, version.min(4));
                let _ = init_producer_id::decode(&liar, version.min(5));
            });
            // 4096 bytes hold at most some 1400 of the smallest things, of about 150 bytes each in memory, in a vector that
            // doubles.
            assert!(peak < 700_000, "version {version}: {peak} bytes for {:?}...", &liar[..70]);
        }
        let peak = peak_of(|| {
            let _ = decode_batches(&liar).count();
            let _ = records(&liar, i32::MAX).count();
        });
        assert!(peak < 1000, "{peak} bytes for {:?}...", &liar[..70]);
    }

    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        let bomb = compress(codec, None, &vec![0; 30_000_000], Vec::new()).expect("it can be compressed");
        let peak = peak_of(|| {
            decompress(codec, &bomb, 1_000_000).expect_err("too long");
        });
        // The vector doubles; each codec has windows and tables of its own.
        assert!(peak < 6_000_000, "{codec}: {peak} bytes for a limit of 1,000,000");
        for liar in liars().into_iter().chain(lying_streams(codec)) {
            let peak = peak_of(|| {
                let _ = decompress(codec, &liar, 1 << 30);
            });
            // lz4's largest blocks have 4 MiB, and its decoder makes room for one.
            assert!(peak < 10_000_000, "{codec}: {peak} bytes for {:?}...", &liar[..liar.len().min(70)]);
        }
    }
}

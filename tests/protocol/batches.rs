//! Record batches: ours read by the other implementation, theirs by ours, and Java's.

use crate::oracle::{any as some, text};
use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record as TheirRecord, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType,
};
use proptest::prelude::*;
use std::collections::HashSet;
use steadfast::internal::protocol::compression::{compress, decompress, Codec};
use steadfast::internal::protocol::record_batch::{
    decode_batches, put_record, record_len, records, restamp, Batch, BatchHeader, HEADER_LEN, MAX_RECORD_HEAD,
};
use steadfast::internal::protocol::varint;

pub(crate) const LIMIT: usize = 64 << 20;

/// A record as a test wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) ts_delta: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Wanted {
    /// Key, value and headers, written the slow and obvious way.
    fn tail(&self) -> Vec<u8> {
        let mut out = Vec::new();
        nullable(&mut out, self.key.as_deref());
        nullable(&mut out, self.value.as_deref());
        number(&mut out, self.headers.len() as i64);
        for (name, value) in &self.headers {
            nullable(&mut out, Some(name.as_bytes()));
            nullable(&mut out, value.as_deref());
        }
        out
    }
}

fn number(out: &mut Vec<u8>, value: i64) {
    let mut buffer = [0; varint::MAX_LEN];
    let len = varint::put(&mut buffer, value);
    out.extend(&buffer[..len]);
}

fn nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    number(out, bytes.map_or(-1, |bytes| bytes.len() as i64));
    out.extend(bytes.unwrap_or_default());
}

prop_compose! {
    fn wanted(longest: usize)(
        ts_delta in prop_oneof![Just(0), -1000..1000i64, -(1i64 << 40)..1i64 << 40],
        key in prop::option::of(some::bytes(longest)),
        value in prop::option::of(some::bytes(longest)),
        headers in prop::collection::vec((some::string(), prop::option::of(some::bytes(100))), 0..4),
    ) -> Wanted {
        Wanted { ts_delta, key, value, headers }
    }
}

pub(crate) fn codecs() -> impl Strategy<Value = Codec> {
    let built_in: Vec<Codec> = Codec::ALL.into_iter().filter(|codec| codec.is_built_in()).collect();
    prop::sample::select(built_in)
}

const FIRST: i64 = 1_700_000_000_000;

/// A batch of ours: header, then records.
pub(crate) fn encode(wanted: &[Wanted], codec: Codec, identity: (i64, i16, i32)) -> Vec<u8> {
    let mut plain = Vec::new();
    for (place, record) in wanted.iter().enumerate() {
        let tail = record.tail();
        let start = plain.len();
        plain.resize(start + MAX_RECORD_HEAD + tail.len(), 0xee);
        let len = put_record(&mut plain[start..], record.ts_delta, place as i64, &tail);
        assert_eq!(len, record_len(record.ts_delta, place as i64, tail.len()));
        plain.truncate(start + len);
    }
    let records = compress(codec, None, &plain, Vec::new()).unwrap();
    let header = BatchHeader {
        codec,
        records: wanted.len() as i32,
        first_timestamp: FIRST,
        max_timestamp: FIRST + wanted.iter().map(|record| record.ts_delta).max().unwrap_or(0),
        producer_id: identity.0,
        epoch: identity.1,
        sequence: identity.2,
    };
    [&header.encode(&records)[..], &records].concat()
}

/// All that our decoder finds in a batch.
pub(crate) fn decode(batch: &Batch<'_>) -> Result<Vec<Wanted>, String> {
    let plain = decompress(batch.codec, batch.records, LIMIT)?;
    let mut found = Vec::new();
    for (place, record) in records(&plain, batch.count).enumerate() {
        let record = record.map_err(|error| error.0)?;
        let wanted = Wanted {
            ts_delta: record.ts_delta,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.map(|(name, value)| (name.into(), value.map(<[u8]>::to_vec))).collect(),
        };
        if record.offset_delta != place as i32 || record.tail != wanted.tail() {
            return Err("offset or tail is wrong".into());
        }
        found.push(wanted);
    }
    Ok(found)
}

fn only(bytes: &[u8]) -> Batch<'_> {
    let mut batches = decode_batches(bytes);
    let batch = batches.next().expect("a batch").expect("a good one");
    assert!(batches.next().is_none());
    batch
}

fn their_codec(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}

fn our_codec(compression: Compression) -> Codec {
    Codec::from_id(compression as u8).expect("one of five")
}

/// Their batch decoder, with our decompression: the codecs themselves have tests of their own.
fn their_reading(bytes: &[u8]) -> Vec<TheirRecord> {
    let mut bytes = Bytes::copy_from_slice(bytes);
    let set = RecordBatchDecoder::decode_with_custom_compression(
        &mut bytes,
        Some(|compressed: &mut Bytes, compression| {
            let plain =
                decompress(our_codec(compression), compressed, LIMIT).map_err(std::io::Error::other)?;
            Ok(Bytes::from(plain))
        }),
    );
    let set = set.expect("they can read it");
    assert!(bytes.is_empty());
    set.records
}

/// Without headers of the same name: theirs merges them.
fn with_unique_headers(mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    for record in &mut wanted {
        let mut names = HashSet::new();
        record.headers.retain(|(name, _)| names.insert(name.clone()));
    }
    wanted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn ours_read_by_ours(
        wanted in prop::collection::vec(wanted(3000), 1..12),
        codec in codecs(),
        identity: (i64, i16, i32),
    ) {
        let bytes = encode(&wanted, codec, identity);
        let batch = only(&bytes);
        prop_assert_eq!((batch.producer_id, batch.epoch, batch.sequence), identity);
        prop_assert_eq!((batch.codec, batch.count as usize), (codec, wanted.len()));
        prop_assert_eq!((batch.base_offset, batch.leader_epoch), (0, -1));
        prop_assert_eq!(batch.last_offset_delta, batch.count - 1);
        prop_assert!(!batch.log_append_time && !batch.transactional && !batch.control);
        prop_assert_eq!(decode(&batch).unwrap(), wanted);
    }

    #[test]
    fn ours_read_by_theirs(
        wanted in prop::collection::vec(wanted(3000), 1..12),
        codec in codecs(),
        producer_id in -1..i64::MAX, epoch in -1..i16::MAX, sequence in -1..i32::MAX - 100,
    ) {
        let wanted = with_unique_headers(wanted);
        let found = their_reading(&encode(&wanted, codec, (producer_id, epoch, sequence)));
        prop_assert_eq!(found.len(), wanted.len());
        for (place, (theirs, ours)) in found.iter().zip(&wanted).enumerate() {
            prop_assert_eq!(theirs.offset, place as i64);
            prop_assert_eq!(theirs.timestamp, FIRST + ours.ts_delta);
            prop_assert_eq!(theirs.key.as_deref(), ours.key.as_deref());
            prop_assert_eq!(theirs.value.as_deref(), ours.value.as_deref());
            let headers: Vec<_> =
                theirs.headers.iter().map(|(name, value)| (name.to_string(), value.as_ref().map(|v| v.to_vec()))).collect();
            prop_assert_eq!(&headers, &ours.headers);
            prop_assert_eq!((theirs.producer_id, theirs.producer_epoch), (producer_id, epoch));
            prop_assert_eq!(theirs.sequence, sequence + place as i32);
            prop_assert_eq!(theirs.timestamp_type, TimestampType::Creation);
        }
    }

    #[test]
    fn theirs_read_by_ours(
        wanted in prop::collection::vec(wanted(3000), 1..12),
        codec in codecs(),
        base_offset in 0..1i64 << 50,
        producer_id in 0..i64::MAX, epoch in 0..i16::MAX, transactional: bool,
    ) {
        let wanted = with_unique_headers(wanted);
        let theirs: Vec<TheirRecord> = wanted.iter().enumerate().map(|(place, record)| TheirRecord {
            transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 12,
            producer_id,
            producer_epoch: epoch,
            timestamp_type: TimestampType::Creation,
            offset: base_offset + place as i64,
            sequence: 700 + place as i32,
            timestamp: FIRST + record.ts_delta,
            key: record.key.clone().map(Bytes::from),
            value: record.value.clone().map(Bytes::from),
            headers: record.headers.iter().map(|(name, value)| (text(name), value.clone().map(Bytes::from))).collect(),
        }).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: their_codec(codec) };
        RecordBatchEncoder::encode_with_custom_compression(&mut bytes, &theirs, &options, Some(
            |plain: &mut BytesMut, out: &mut BytesMut, compression| {
                out.extend(compress(our_codec(compression), None, plain, Vec::new()).map_err(std::io::Error::other)?);
                Ok(())
            },
        )).unwrap();
        let batch = only(&bytes);
        prop_assert_eq!((batch.base_offset, batch.leader_epoch, batch.codec), (base_offset, 12, codec));
        prop_assert_eq!((batch.producer_id, batch.epoch, batch.sequence), (producer_id, epoch, 700));
        prop_assert_eq!(batch.transactional, transactional);
        let mut found = decode(&batch).unwrap();
        // Their base is the smallest timestamp, ours was the first one.
        for record in &mut found {
            record.ts_delta += batch.first_timestamp - FIRST;
        }
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn another_identity_leaves_the_records_alone(
        wanted in prop::collection::vec(wanted(200), 1..5),
        codec in codecs(),
        before: (i64, i16, i32),
        after: (i64, i16, i32),
    ) {
        let mut bytes = encode(&wanted, codec, before);
        let expected = encode(&wanted, codec, after);
        let (header, records) = bytes.split_first_chunk_mut::<HEADER_LEN>().unwrap();
        restamp(header, after.0, after.1, after.2, records);
        prop_assert_eq!(bytes, expected);
    }
}

#[test]
fn several_batches_in_a_row_and_none() {
    let one = Wanted { ts_delta: 0, key: None, value: Some(vec![1]), headers: Vec::new() };
    let bytes: Vec<u8> =
        (0..3).flat_map(|i| encode(&vec![one.clone(); i + 1], Codec::None, (1, 2, i as i32))).collect();
    let batches: Vec<_> = decode_batches(&bytes).map(Result::unwrap).collect();
    assert_eq!(
        batches.iter().map(|batch| (batch.sequence, batch.count)).collect::<Vec<_>>(),
        [(0, 1), (1, 2), (2, 3)]
    );
    assert!(decode_batches(&[]).next().is_none());
}

#[test]
fn large_records_and_many_records() {
    let noise: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let large = Wanted { ts_delta: 1, key: Some(Vec::new()), value: Some(noise), headers: Vec::new() };
    let small: Vec<Wanted> = (0..20_000)
        .map(|i| Wanted {
            ts_delta: i,
            key: None,
            value: Some(i.to_string().into_bytes()),
            headers: Vec::new(),
        })
        .collect();
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        for wanted in [std::slice::from_ref(&large), &small] {
            let bytes = encode(wanted, codec, (-1, -1, -1));
            assert_eq!(decode(&only(&bytes)).unwrap(), wanted, "{codec}");
        }
    }
}

/// The same five records, written by Java's producer classes (4.4.0) with each codec.
const JAVA: [(Codec, &str); 5] = [
    (
        Codec::None,
        "0000000000000000000000e8ffffffff02f193d1b10000000000040000018bcfe568000000018bcfe56be800000000000000 \
         4d00030000002a0000000516000000010a76616c75650012000a02066b657901001e0006040000060268023102680100008c \
         01000006046b307c7468652073616d6520776f72647320616761696e20616e6420616761696e2c207468652073616d652077 \
         6f72647320616761696e20616e6420616761696e008e0100d00f08046b317c7468652073616d6520776f7264732061676169 \
         6e20616e6420616761696e2c207468652073616d6520776f72647320616761696e20616e6420616761696e00",
    ),
    (
        Codec::Gzip,
        "00000000000000000000009dffffffff02e6847e780001000000040000018bcfe568000000018bcfe56be800000000000000 \
         4d00030000002a000000051f8b08000000000000ff1363606060e42a4bcc294d651062e06262cb4ead646490636063616060 \
         63ca603264ca606460e8016236966c839a928c5485e2c4dc5485f2fca2946285c4f4c4cc3c85c4bc14084b4701bf3c431f23 \
         c3057e0e966c434a0d020044756650b7000000",
    ),
    (
        Codec::Snappy,
        "0000000000000000000000aaffffffff02ec63e54f0002000000040000018bcfe568000000018bcfe56be800000000000000 \
         4d00030000002a0000000582534e4150505900000000010000000100000065b701f04616000000010a76616c75650012000a \
         02066b657901001e0006040000060268023102680100008c01000006046b307c7468652073616d6520776f72647320616761 \
         696e20616e64090a042c2076200028008e0100d00f08046b317c762900824900",
    ),
    (
        Codec::Lz4,
        "0000000000000000000000a5ffffffff020d4cdb990003000000040000018bcfe568000000018bcfe56be800000000000000 \
         4d00030000002a0000000504224d1860408265000000f23816000000010a76616c75650012000a02066b657901001e000604 \
         0000060268023102680100008c01000006046b307c7468652073616d6520776f72647320616761696e20616e640a002f2c20 \
         20000baf008e0100d00f08046b31490028506761696e0000000000",
    ),
    (
        Codec::Zstd,
        "00000000000000000000009dffffffff0248a787840004000000040000018bcfe568000000018bcfe56be800000000000000 \
         4d00030000002a0000000528b52ffd0058040300340516000000010a76616c75650012000a02066b657901001e0006040000 \
         060268023102680100008c01000006046b307c7468652073616d6520776f72647320616761696e20616e642c20008e0100d0 \
         0f08046b310300658284861278142b67010000",
    ),
];

fn java(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn java_records() -> Vec<Wanted> {
    let some = |text: &str| Some(text.as_bytes().to_vec());
    let words = "the same words again and again, the same words again and again";
    let plain = |ts_delta, key, value| Wanted { ts_delta, key, value, headers: Vec::new() };
    let headers = vec![("h".into(), some("1")), ("h".into(), None), (String::new(), some(""))];
    vec![
        plain(0, None, some("value")),
        plain(5, some("key"), None),
        Wanted { ts_delta: 3, key: some(""), value: some(""), headers },
        plain(0, some("k0"), some(words)),
        plain(1000, some("k1"), some(words)),
    ]
}

#[test]
fn javas_batches_are_read() {
    for (codec, hex) in JAVA {
        let bytes = java(hex);
        let batch = only(&bytes);
        assert_eq!(batch.codec, codec);
        assert_eq!((batch.producer_id, batch.epoch, batch.sequence, batch.count), (77, 3, 42, 5));
        assert_eq!((batch.first_timestamp, batch.max_timestamp), (FIRST, FIRST + 1000));
        if codec.is_built_in() {
            assert_eq!(decode(&batch).unwrap(), java_records(), "{codec}");
        } else {
            let error = decode(&batch).unwrap_err();
            assert!(error.contains(&format!("feature `{codec}`")), "{error}");
        }
    }
}

/// Uncompressed there is only one way to write them.
#[test]
fn ours_are_javas_byte_for_byte() {
    assert_eq!(encode(&java_records(), Codec::None, (77, 3, 42)), java(JAVA[0].1));
}

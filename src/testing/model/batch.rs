//! A record batch as a broker looks at it: its own reader, so that it can be a witness against the crate's writer.

use super::code;
use crate::protocol::compression::{self, Codec};
use bytes::Bytes;

/// Bytes of a batch before its records.
pub const HEADER_LEN: usize = 61;

/// The largest batch that is decompressed, in bytes: far above what any test sends.
const DECOMPRESSED_LIMIT: usize = 1 << 30;

/// A whole batch of format v2, its header read and its checksum compared.
#[derive(Clone, Debug)]
pub struct Batch {
    /// All of it, as it was sent.
    pub bytes: Bytes,
    pub crc: u32,
    pub attributes: i16,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub epoch: i16,
    pub sequence: i32,
    pub count: i32,
}

/// What is wrong with a batch: what a broker answers, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    pub code: i16,
    pub what: String,
    /// The log's own checks found it, not those of the request: then the answer has the log's start.
    pub by_log: bool,
}

impl Defect {
    fn corrupt(what: impl Into<String>) -> Defect {
        Defect { code: code::CORRUPT_MESSAGE, what: what.into(), by_log: false }
    }

    fn invalid(what: impl Into<String>) -> Defect {
        Defect { code: code::INVALID_RECORD, what: what.into(), by_log: false }
    }
}

/// One record of a batch, its bytes still where they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub offset_delta: i32,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl Batch {
    /// Reads the header and compares the checksum; the records themselves are not looked at.
    pub fn parse(bytes: Bytes) -> Result<Batch, Defect> {
        if bytes.is_empty() {
            return Err(Defect::invalid("no batch for a partition"));
        }
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Defect::corrupt(format!(
                "a batch of {} bytes: shorter than its header",
                bytes.len()
            )));
        };
        let length = i32_at(header, 8);
        let magic = header[16];
        if magic != 2 {
            return Err(Defect::corrupt(format!("record format {magic} where 2 is expected")));
        }
        let whole = i64::from(length) + 12;
        if whole > bytes.len() as i64 || whole < HEADER_LEN as i64 {
            return Err(Defect::corrupt(format!("a batch that claims {whole} bytes of {}", bytes.len())));
        }
        if whole < bytes.len() as i64 {
            return Err(Defect::invalid("more than one batch for a partition"));
        }
        let crc = i32_at(header, 17) as u32;
        let computed = crc32c::crc32c(&bytes[21..]);
        if crc != computed {
            return Err(Defect::corrupt(format!("checksum {crc:08x}, the bytes give {computed:08x}")));
        }
        let batch = Batch {
            crc,
            attributes: i16_at(header, 21),
            base_timestamp: i64_at(header, 27),
            max_timestamp: i64_at(header, 35),
            producer_id: i64_at(header, 43),
            epoch: i16_at(header, 51),
            sequence: i32_at(header, 53),
            count: i32_at(header, 57),
            bytes: bytes.clone(),
        };
        batch.check_header(i32_at(header, 23)).map_err(|defect| Defect { by_log: true, ..defect })?;
        Ok(batch)
    }

    fn check_header(&self, last_offset_delta: i32) -> Result<(), Defect> {
        if self.count <= 0 || last_offset_delta != self.count - 1 {
            let what = format!("{} records, the last at offset delta {last_offset_delta}", self.count);
            return Err(Defect::invalid(what));
        }
        if self.attributes & !0b111 != 0 {
            return Err(Defect::invalid(format!("attributes {:#06b} from a producer", self.attributes)));
        }
        if self.codec() > 4 {
            return Err(Defect::invalid(format!("codec {}", self.codec())));
        }
        let consistent = if self.producer_id < 0 {
            (self.producer_id, self.epoch, self.sequence) == (-1, -1, -1)
        } else {
            self.epoch >= 0 && self.sequence >= 0
        };
        if !consistent {
            let (id, epoch, sequence) = (self.producer_id, self.epoch, self.sequence);
            return Err(Defect::invalid(format!("producer {id}, epoch {epoch}, sequence {sequence}")));
        }
        Ok(())
    }

    /// The codec's number.
    pub fn codec(&self) -> i16 {
        self.attributes & 0b111
    }

    /// Whether its records can be read here: some codecs are features of the crate.
    pub fn is_readable(&self) -> bool {
        u8::try_from(self.codec()).ok().and_then(Codec::from_id).is_some_and(Codec::is_built_in)
    }

    /// Size on the wire.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sequence of its last record; they wrap from 2^31-1 to 0.
    pub fn last_sequence(&self) -> i32 {
        sequence_plus(self.sequence, self.count - 1)
    }

    /// All records, taken apart and checked against the header.
    pub fn records(&self) -> Result<Vec<Record>, Defect> {
        let raw = self.bytes.slice(HEADER_LEN..);
        let mut rest = decompress(self.codec(), raw)?;
        // Every record takes at least seven bytes: a count that claims more reserves nothing.
        let mut records = Vec::with_capacity((self.count as usize).min(rest.len() / 7));
        for index in 0..self.count {
            let record = take_record(&mut rest, self.base_timestamp)
                .ok_or_else(|| Defect::corrupt(format!("record {index} of {} is malformed", self.count)))?;
            if record.offset_delta != index {
                let what = format!("record {index} says it is number {}", record.offset_delta);
                return Err(Defect::invalid(what));
            }
            records.push(record);
        }
        if !rest.is_empty() {
            return Err(Defect::corrupt(format!("{} bytes behind the last record", rest.len())));
        }
        let max = records.iter().map(|record| record.timestamp).max();
        if max != Some(self.max_timestamp) {
            let what = format!("max timestamp {}, its records have {max:?}", self.max_timestamp);
            return Err(Defect::invalid(what));
        }
        Ok(records)
    }
}

/// `sequence` and `count` more; they wrap from 2^31-1 to 0.
pub fn sequence_plus(sequence: i32, count: i32) -> i32 {
    ((i64::from(sequence) + i64::from(count)) & 0x7fff_ffff) as i32
}

fn decompress(codec: i16, raw: Bytes) -> Result<Bytes, Defect> {
    let codec = u8::try_from(codec).ok().and_then(Codec::from_id);
    let codec = codec.ok_or_else(|| Defect::invalid("no such codec"))?;
    if codec == Codec::None {
        return Ok(raw);
    }
    match compression::decompress(codec, &raw, DECOMPRESSED_LIMIT) {
        Ok(bytes) => Ok(bytes.into()),
        Err(reason) => Err(Defect::corrupt(format!("{codec:?}: {reason}"))),
    }
}

fn take_record(rest: &mut Bytes, base_timestamp: i64) -> Option<Record> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    if length > rest.len() {
        return None;
    }
    let mut body = rest.split_to(length);
    if body.is_empty() || body.split_to(1)[0] != 0 {
        return None; // no attribute of a record is in use
    }
    let timestamp = base_timestamp.checked_add(take_varint(&mut body)?)?;
    let offset_delta = i32::try_from(take_varint(&mut body)?).ok()?;
    let key = take_bytes(&mut body)?;
    let value = take_bytes(&mut body)?;
    let count = take_varint(&mut body)?;
    let mut headers = Vec::new();
    for _ in 0..count {
        let name = String::from_utf8(take_bytes(&mut body)??.to_vec()).ok()?;
        headers.push((name, take_bytes(&mut body)?));
    }
    (count >= 0 && body.is_empty()).then_some(Record { offset_delta, timestamp, key, value, headers })
}

#[allow(clippy::option_option)] // outer: malformed; inner: null
fn take_bytes(rest: &mut Bytes) -> Option<Option<Bytes>> {
    let length = take_varint(rest)?;
    if length == -1 {
        return Some(None);
    }
    let length = usize::try_from(length).ok()?;
    (length <= rest.len()).then(|| Some(rest.split_to(length)))
}

fn take_varint(rest: &mut Bytes) -> Option<i64> {
    let mut raw = 0u64;
    for (index, byte) in rest.iter().enumerate().take(10) {
        raw |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let _ = rest.split_to(index + 1);
            return Some((raw >> 1) as i64 ^ -((raw & 1) as i64));
        }
    }
    None
}

fn i16_at(bytes: &[u8; HEADER_LEN], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8; HEADER_LEN], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn i64_at(bytes: &[u8; HEADER_LEN], at: usize) -> i64 {
    i64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]))
}

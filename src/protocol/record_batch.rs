//! Record batches, format v2: 61 bytes of header, then records, which may be compressed as a whole.

use super::compression::Codec;
use super::varint;
use super::wire::{Malformed, Reader};

/// The header of a batch; the records follow.
pub const HEADER_LEN: usize = 61;

/// A record without its tail is at most this long: length, attributes, two deltas.
pub const MAX_RECORD_HEAD: usize = 3 * varint::MAX_LEN + 1;

/// Base offset and length, which the length does not count.
const LENGTH_END: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// The CRC covers everything from here on.
const CRC_FROM: usize = 21;
const PRODUCER_AT: usize = 43;

const MAGIC: u8 = 2;
const CODEC_BITS: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// How many bytes a record takes, with its length in front.
#[inline]
pub fn record_len(ts_delta: i64, offset_delta: i64, tail_len: usize) -> usize {
    let len = body_len(ts_delta, offset_delta, tail_len);
    varint::len(len as i64) + len
}

#[inline]
fn body_len(ts_delta: i64, offset_delta: i64, tail_len: usize) -> usize {
    1 + varint::len(ts_delta) + varint::len(offset_delta) + tail_len
}

/// Writes a record to the front of `out`, which has room for it (`record_len`; `MAX_RECORD_HEAD` + tail is always enough),
/// and returns how many bytes it took. `tail` is key, value and headers as they stand in a record.
#[inline]
pub fn put_record(out: &mut [u8], ts_delta: i64, offset_delta: i64, tail: &[u8]) -> usize {
    let mut at = varint::put(out, body_len(ts_delta, offset_delta, tail.len()) as i64);
    out[at] = 0; // attributes: none are defined
    at += 1;
    at += varint::put(&mut out[at..], ts_delta);
    at += varint::put(&mut out[at..], offset_delta);
    out[at..at + tail.len()].copy_from_slice(tail);
    at + tail.len()
}

/// What a producer decides in a batch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub codec: Codec,
    pub records: i32,
    pub first_timestamp: i64,
    pub max_timestamp: i64,
    /// -1: no idempotence, then `epoch` and `sequence` are -1 too.
    pub producer_id: i64,
    pub epoch: i16,
    pub sequence: i32,
}

impl BatchHeader {
    /// The header for `records`, compressed as `codec` says. The CRC is computed here, once over the whole.
    pub fn encode(&self, records: &[u8]) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let length = HEADER_LEN - LENGTH_END + records.len();
        // 0..8 base offset: the broker's
        header[8..12].copy_from_slice(&(length as i32).to_be_bytes());
        header[12..16].copy_from_slice(&(-1i32).to_be_bytes()); // leader epoch: the broker's
        header[MAGIC_AT] = MAGIC;
        header[21..23].copy_from_slice(&i16::from(self.codec.id()).to_be_bytes());
        header[23..27].copy_from_slice(&(self.records - 1).to_be_bytes()); // last offset delta
        header[27..35].copy_from_slice(&self.first_timestamp.to_be_bytes());
        header[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        header[57..61].copy_from_slice(&self.records.to_be_bytes());
        restamp(&mut header, self.producer_id, self.epoch, self.sequence, records);
        header
    }
}

/// Gives a batch another identity; its records stay as they are.
pub fn restamp(header: &mut [u8; HEADER_LEN], producer_id: i64, epoch: i16, sequence: i32, records: &[u8]) {
    header[PRODUCER_AT..51].copy_from_slice(&producer_id.to_be_bytes());
    header[51..53].copy_from_slice(&epoch.to_be_bytes());
    header[53..57].copy_from_slice(&sequence.to_be_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[CRC_FROM..]), records);
    header[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
}

/// A batch as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub codec: Codec,
    /// `max_timestamp` is the broker's and counts for all records.
    pub log_append_time: bool,
    pub transactional: bool,
    pub control: bool,
    pub last_offset_delta: i32,
    pub first_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub epoch: i16,
    pub sequence: i32,
    /// How many records there are; not negative.
    pub count: i32,
    /// The records, compressed as `codec` says.
    pub records: &'a [u8],
}

/// The batches that `bytes` consist of. Ends after the first error.
pub fn decode_batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

/// See `decode_batches`.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let batch = decode_batch(&mut self.rest);
        if batch.is_err() {
            self.rest = &[];
        }
        Some(batch)
    }
}

fn decode_batch<'a>(rest: &mut &'a [u8]) -> Result<Batch<'a>, Malformed> {
    let mut reader = Reader::new(rest, false);
    let base_offset = reader.i64("base offset")?;
    let length = reader.i32("batch length")?;
    let length = usize::try_from(length).map_err(|_| Malformed(format!("a batch length of {length}")))?;
    let bytes = reader.bytes(length, "batch")?;
    *rest = reader.rest();

    let mut reader = Reader::new(bytes, false);
    let leader_epoch = reader.i32("leader epoch")?;
    let magic = reader.i8("magic")?;
    if magic != MAGIC as i8 {
        return Err(Malformed(format!("message format {magic}, not 2")));
    }
    let crc = reader.i32("crc")? as u32;
    let computed = crc32c::crc32c(reader.rest());
    if crc != computed {
        return Err(Malformed(format!("the batch's checksum is {crc:08x}, its bytes give {computed:08x}")));
    }
    let attributes = reader.i16("attributes")?;
    let batch = Batch {
        base_offset,
        leader_epoch,
        codec: Codec::from_id((attributes & CODEC_BITS) as u8)
            .ok_or_else(|| Malformed(format!("unknown codec {}", attributes & CODEC_BITS)))?,
        log_append_time: attributes & LOG_APPEND_TIME != 0,
        transactional: attributes & TRANSACTIONAL != 0,
        control: attributes & CONTROL != 0,
        last_offset_delta: reader.i32("last offset delta")?,
        first_timestamp: reader.i64("first timestamp")?,
        max_timestamp: reader.i64("max timestamp")?,
        producer_id: reader.i64("producer id")?,
        epoch: reader.i16("producer epoch")?,
        sequence: reader.i32("base sequence")?,
        count: reader.i32("number of records")?,
        records: reader.rest(),
    };
    if batch.count < 0 {
        return Err(Malformed(format!("{} records", batch.count)));
    }
    Ok(batch)
}

/// One record of a batch; it borrows from the records' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// To the batch's first timestamp.
    pub ts_delta: i64,
    /// To the batch's base offset.
    pub offset_delta: i32,
    /// Key, value and headers as they stand there: what `put_record` takes.
    pub tail: &'a [u8],
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The headers of a record in their order, each with its name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    left: usize,
    /// Was gone through once when the record was read.
    rest: &'a [u8],
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        take_header(&mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// The `count` records that `bytes` (no longer compressed) consist of. Ends after the first error; fewer records than
/// `count`, and bytes behind them, are errors too.
pub fn records(bytes: &[u8], count: i32) -> Records<'_> {
    Records { rest: bytes, left: count.max(0), ended: false }
}

/// See `records`.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    left: i32,
    ended: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let record = if self.left > 0 {
            self.left -= 1;
            take_record(&mut self.rest)
        } else if self.rest.is_empty() {
            self.ended = true;
            return None;
        } else {
            Err(Malformed(format!("{} bytes behind the last record", self.rest.len())))
        };
        self.ended = record.is_err();
        Some(record)
    }
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>, Malformed> {
    let len = take_varint(rest, "record's length")?;
    let len = usize::try_from(len).map_err(|_| Malformed(format!("a record length of {len}")))?;
    let mut body = take_bytes(rest, len, "record")?;
    take_bytes(&mut body, 1, "record's attributes")?;
    let ts_delta = take_varint(&mut body, "timestamp delta")?;
    let offset_delta = take_varint(&mut body, "offset delta")?;
    let offset_delta =
        i32::try_from(offset_delta).map_err(|_| Malformed(format!("an offset delta of {offset_delta}")))?;
    let tail = body;
    let key = take_nullable(&mut body, "key")?;
    let value = take_nullable(&mut body, "value")?;
    let headers = take_headers(&mut body)?;
    if !body.is_empty() {
        return Err(Malformed(format!("{} bytes behind the headers of a record", body.len())));
    }
    Ok(Record { ts_delta, offset_delta, tail, key, value, headers })
}

/// Goes through all headers, so that handing them out later can't fail.
fn take_headers<'a>(rest: &mut &'a [u8]) -> Result<Headers<'a>, Malformed> {
    let count = take_varint(rest, "number of headers")?;
    // Two lengths are the least that a header takes.
    let headers = match usize::try_from(count) {
        Ok(count) if count <= rest.len() / 2 => Headers { left: count, rest },
        _ => return Err(Malformed(format!("{count} headers announced, {} bytes left", rest.len()))),
    };
    for _ in 0..headers.left {
        take_header(rest)?;
    }
    Ok(headers)
}

fn take_header<'a>(rest: &mut &'a [u8]) -> Result<(&'a str, Option<&'a [u8]>), Malformed> {
    let name =
        take_nullable(rest, "header's name")?.ok_or_else(|| Malformed("header's name: null".into()))?;
    let name = std::str::from_utf8(name).map_err(|_| Malformed("header's name: not UTF-8".into()))?;
    Ok((name, take_nullable(rest, "header's value")?))
}

fn take_nullable<'a>(rest: &mut &'a [u8], what: &str) -> Result<Option<&'a [u8]>, Malformed> {
    match take_varint(rest, what)? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) => take_bytes(rest, len, what).map(Some),
            Err(_) => Err(Malformed(format!("{what}: a length of {len}"))),
        },
    }
}

fn take_bytes<'a>(rest: &mut &'a [u8], len: usize, what: &str) -> Result<&'a [u8], Malformed> {
    let (bytes, behind) = rest
        .split_at_checked(len)
        .ok_or_else(|| Malformed(format!("{what}: {len} bytes expected, {} left", rest.len())))?;
    *rest = behind;
    Ok(bytes)
}

fn take_varint(rest: &mut &[u8], what: &str) -> Result<i64, Malformed> {
    varint::take(rest).ok_or_else(|| Malformed(format!("{what}: a varint that is cut off or too long")))
}

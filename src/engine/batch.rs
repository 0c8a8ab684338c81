//! One partition's record batch, from its first record to its verdict. It carries the retry counter.

use super::pool::{BufferPool, SMALLEST};
use crate::delivery::block::Segment;
use crate::error::{Cause, Fate};
use crate::intake::head::{Head, FIXED_CHARGE, HEAD_LEN};
use crate::protocol::compression::{self, Codec};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::frame::Records;
use crate::protocol::record_batch::{self, BatchHeader, HEADER_LEN};
use std::sync::Arc;
use std::time::Instant;

/// A record without its tail: length, attributes, two deltas.
const MAX_RECORD_HEAD: usize = 26;

#[derive(Debug)]
pub struct Batch {
    /// Unique within the engine.
    pub id: u64,
    /// Where it stands among all of its partition's batches: the number of the batch that it is a piece of, and its first
    /// record's place there.
    pub order: (u64, u32),
    body: Body,
    /// Bytes of records, uncompressed, without the batch's header.
    raw_len: usize,
    pub records: u32,
    first_timestamp: i64,
    max_timestamp: i64,
    /// Acceptance of its first message: linger and the delivery timeout count from here.
    pub opened: Instant,
    /// The flush period of its oldest message.
    pub era: u64,
    /// What its messages took from the budget.
    pub charge: u64,
    /// Which chunks its records came from: who is to be told.
    pub segments: Vec<Segment>,
    pub state: State,
    pub sequence: Option<Sequence>,
    pub tries: Tries,
    /// When it had lingered: it was full, its time was over, or somebody waited.
    pub due_since: Option<Instant>,
    /// When it first went into a request.
    pub first_sent: Option<Instant>,
}

#[derive(Debug)]
enum Body {
    /// Records are being added; the buffer is always at full length and grows by doubling.
    Open(Vec<u8>),
    /// At the helper thread to be compressed; shared, so that they can be handed back all the same.
    Away(Records),
    /// Complete: these bytes never change again, whatever is tried with them.
    Sealed { records: Records, used: usize, codec: Codec },
}

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being compressed: not to be sent yet.
    Compressing,
    /// To be sent, for the first time or again.
    Ready,
    /// In a request since then.
    InFlight { since: Instant },
}

/// The numbers by which a broker knows a batch of an idempotent producer. Given when a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub producer_id: i64,
    pub epoch: i16,
    pub first: i32,
}

/// What has been tried with a batch so far.
#[derive(Debug, Default, Clone)]
pub struct Tries {
    /// Attempts whose bytes went to a broker and that came back refused, or unanswered.
    pub attempts: u32,
    /// Those of them that count against `batch_retries_limit`.
    pub retries: u32,
    /// An attempt may have been written.
    pub ambiguous: bool,
    /// The last attempt failed: until it is acknowledged this batch travels alone.
    pub failed: bool,
    /// Recoveries of the sequence since the last acknowledgement.
    pub recoveries: u32,
    /// How often in a row the same code came, for codes with a limit of their own.
    pub repeats: Option<(ErrorCode, u32)>,
    /// The newest (leader, epoch) that refused it as not the leader.
    pub refused_by: Option<(i32, i32)>,
    /// Such refusals in a row.
    pub refusals: u32,
    pub last: Option<Cause>,
}

impl Batch {
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    pub fn new(id: u64, buf: Vec<u8>, opened: Instant, era: u64) -> Batch {
        Batch {
            id,
            order: (id, 0),
            body: Body::Open(buf),
            raw_len: 0,
            records: 0,
            first_timestamp: 0,
            max_timestamp: 0,
            opened,
            era,
            charge: 0,
            segments: Vec::new(),
            state: State::Ready,
            sequence: None,
            tries: Tries::default(),
            due_since: None,
            first_sent: None,
        }
    }

    /// How long it is at most with one more record, its header included.
    #[inline]
    pub fn len_with(&self, tail_len: usize) -> usize {
        HEADER_LEN + self.raw_len + MAX_RECORD_HEAD + tail_len
    }

    /// Its length before compression, the header included.
    pub fn raw_len(&self) -> usize {
        HEADER_LEN + self.raw_len
    }

    /// Its length on the wire.
    pub fn wire_len(&self) -> usize {
        match &self.body {
            Body::Sealed { used, .. } => HEADER_LEN + used,
            _ => self.raw_len(),
        }
    }

    /// How its records are packed.
    pub fn codec(&self) -> Codec {
        match &self.body {
            Body::Sealed { codec, .. } => *codec,
            _ => Codec::None,
        }
    }

    pub fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight { .. })
    }

    pub fn in_flight_since(&self) -> Option<Instant> {
        match self.state {
            State::InFlight { since } => Some(since),
            _ => None,
        }
    }

    /// Adds a record to an open batch.
    #[inline]
    pub fn append(&mut self, timestamp: i64, tail: &[u8], pool: &mut BufferPool) {
        let Body::Open(buf) = &mut self.body else { unreachable!("records are added to open batches only") };
        let needed = self.raw_len + MAX_RECORD_HEAD + tail.len();
        if needed > buf.len() {
            grow(buf, self.raw_len, needed, pool);
        }
        if self.records == 0 {
            self.first_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        let time_delta = timestamp - self.first_timestamp;
        let out = &mut buf[self.raw_len..needed];
        self.raw_len += record_batch::put_record(out, time_delta, i64::from(self.records), tail);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.charge += (HEAD_LEN + tail.len()) as u64 + FIXED_CHARGE;
        self.records += 1;
    }

    /// Nothing is added any more; not compressed.
    pub fn seal(&mut self) {
        if let Body::Open(buf) = &mut self.body {
            let records = Arc::new(std::mem::take(buf));
            self.body = Body::Sealed { records, used: self.raw_len, codec: Codec::None };
        }
    }

    /// Nothing is added any more; the records are shared with whoever compresses them, and `put_records` ends that.
    pub fn lend_records(&mut self) -> Option<(Records, usize)> {
        let Body::Open(buf) = &mut self.body else { return None };
        let records = Arc::new(std::mem::take(buf));
        self.body = Body::Away(records.clone());
        Some((records, self.raw_len))
    }

    /// The records came back compressed, or as they were (`Codec::None`).
    pub fn put_records(&mut self, records: Records, used: usize, codec: Codec) {
        self.body = Body::Sealed { records, used, codec };
    }

    /// Its header for the wire (with or without a sequence) and its records.
    pub fn for_request(&self) -> Option<([u8; HEADER_LEN], &Records, usize)> {
        let Body::Sealed { records, used, codec } = &self.body else { return None };
        let sequence = self.sequence.unwrap_or(Sequence { producer_id: -1, epoch: -1, first: -1 });
        let header = BatchHeader {
            codec: *codec,
            records: self.records as i32,
            first_timestamp: self.first_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: sequence.producer_id,
            epoch: sequence.epoch,
            sequence: sequence.first,
        };
        Some((header.encode(&records[..*used]), records, *used))
    }

    /// Its records in order: timestamp and tail of each. Err, in words: what was compressed here can't be read back.
    pub fn each_record(&self, mut each: impl FnMut(i64, &[u8])) -> Result<(), String> {
        let unpacked;
        let bytes = match &self.body {
            Body::Open(buf) => &buf[..self.raw_len],
            Body::Sealed { records, used, codec: Codec::None } => &records[..*used],
            Body::Sealed { records, used, codec } => {
                unpacked = compression::decompress(*codec, &records[..*used], self.raw_len)?;
                &unpacked[..]
            }
            Body::Away(records) => &records[..self.raw_len],
        };
        for record in record_batch::records(bytes, self.records as i32) {
            let record = record.map_err(|e| e.0)?;
            each(self.first_timestamp + record.ts_delta, record.tail);
        }
        Ok(())
    }

    /// The sequence behind its last record.
    pub fn next_sequence(&self) -> Option<i32> {
        self.sequence.map(|s| sequence_after(s.first, self.records))
    }

    /// Whether it may be in the log if it is dropped now.
    pub fn fate(&self) -> Fate {
        if self.tries.ambiguous || self.is_in_flight() {
            Fate::Unknown
        } else {
            Fate::NotWritten
        }
    }

    /// Gives the buffer back if nobody else (a request that is still being written) holds it.
    pub fn recycle(self, pool: &mut BufferPool) {
        match self.body {
            Body::Open(buf) => pool.give(buf),
            Body::Sealed { records, .. } | Body::Away(records) => give_back(records, pool),
        }
    }
}

/// Gives a buffer back if nobody else holds it.
pub fn give_back(records: Records, pool: &mut BufferPool) {
    if let Ok(buf) = Arc::try_unwrap(records) {
        pool.give(buf);
    }
}

#[cold]
fn grow(buf: &mut Vec<u8>, used: usize, needed: usize, pool: &mut BufferPool) {
    let mut larger = pool.take(needed.max(2 * buf.len()).max(SMALLEST));
    larger[..used].copy_from_slice(&buf[..used]);
    pool.give(std::mem::replace(buf, larger));
}

/// Sequences go from 0 to `i32::MAX` and then start anew.
pub fn sequence_after(first: i32, records: u32) -> i32 {
    (i64::from(first) + i64::from(records)).rem_euclid(1 << 31) as i32
}

/// A record of a batch in the chunk's format, for the hand-back and for pieces.
pub fn put_message(out: &mut Vec<u8>, topic: u32, partition: i32, timestamp: i64, tail: &[u8]) {
    let head = Head {
        tail_len: tail.len() as u32,
        topic,
        partition,
        key_hash: 0,
        timestamp,
        key_len: 0,
        value_len: 0,
    };
    let mut bytes = [0; HEAD_LEN];
    head.write(&mut bytes);
    out.extend_from_slice(&bytes);
    out.extend_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(pool: &mut BufferPool, records: u32) -> Batch {
        let mut batch = Batch::new(1, pool.take(1), Instant::now(), 0);
        for i in 0..records {
            batch.append(1000 - i64::from(i), &[2, b'k', 2, b'v', 0], pool);
        }
        batch
    }

    #[test]
    fn records_come_back_as_they_were_put_in() {
        let mut pool = BufferPool::new(1 << 20);
        let mut batch = batch(&mut pool, 500);
        for sealed in [false, true] {
            if sealed {
                batch.seal();
            }
            let mut seen = Vec::new();
            batch.each_record(|timestamp, tail| seen.push((timestamp, tail.to_vec()))).expect("readable");
            assert_eq!(seen.len(), 500);
            assert_eq!(seen[499], (501, vec![2, b'k', 2, b'v', 0]));
        }
        assert_eq!(batch.charge, 500 * (32 + 32 + 5));
    }

    #[test]
    fn a_new_stamp_changes_the_header_only() {
        let mut pool = BufferPool::new(1 << 20);
        let mut batch = batch(&mut pool, 10);
        batch.seal();
        batch.sequence = Some(Sequence { producer_id: 7, epoch: 0, first: i32::MAX - 4 });
        assert_eq!(batch.next_sequence(), Some(5));
        let (first, records, used) = batch.for_request().expect("sealed");
        let before = records[..used].to_vec();
        batch.sequence = Some(Sequence { producer_id: 7, epoch: 1, first: 0 });
        let (second, records, used) = batch.for_request().expect("sealed");
        assert_eq!(records[..used], before);
        assert_ne!(first, second);
    }
}

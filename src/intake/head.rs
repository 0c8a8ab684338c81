//! The form in which a message crosses to the worker: a fixed head and the tail of a v2 record.
//!
//! The head is what the worker needs to route it; the tail is key, value and headers as they stand in the record. The
//! tail depends neither on the batch nor on its place in it, so the caller writes it once and the worker copies it.

use crate::message::{Header, Message, OwnedMessage};
use crate::protocol::varint;

/// Everything about a message that is computed before the intake's lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub tail_len: u32,
    /// The topic's number (`TopicNames`).
    pub topic: u32,
    /// -1: the partitioner decides.
    pub partition: i32,
    /// The partitioner's hash of the key; 0 without a key.
    pub key_hash: u32,
    pub timestamp: i64,
    /// Lengths of key and value (-1: null). With these a message can be taken apart again without reading varints.
    pub key_len: i32,
    pub value_len: i32,
}

pub const HEAD_LEN: usize = 32;

/// Charged per message on top of its encoded bytes: what the outcome of a lone message costs in memory.
pub const FIXED_CHARGE: u64 = 32;

/// The largest message that can be encoded at all: lengths in the protocol are `i32`.
pub const LARGEST: u64 = 1 << 30;

impl Head {
    /// None: longer than `LARGEST`. `key_hash`: what the partitioner makes of the key.
    #[inline]
    pub fn of(message: &Message<'_>, topic: u32, key_hash: u32, now_ms: i64) -> Option<Head> {
        let tail_len = tail_len(message);
        let timestamp = message.timestamp.unwrap_or(now_ms);
        (tail_len <= LARGEST).then(|| Head::with(message, tail_len, topic, key_hash, timestamp))
    }

    /// The same for a message whose `tail_len` is known and not above `LARGEST`. Always inlined: a head that goes through
    /// memory is written by the field and read by the word, and the processor has to wait for that.
    #[inline(always)]
    pub fn with(message: &Message<'_>, tail_len: u64, topic: u32, key_hash: u32, timestamp: i64) -> Head {
        Head {
            tail_len: tail_len as u32,
            topic,
            partition: message.partition.unwrap_or(-1),
            key_hash,
            timestamp,
            key_len: message.key.map_or(-1, |k| k.len() as i32),
            value_len: message.value.map_or(-1, |v| v.len() as i32),
        }
    }

    /// Bytes the message takes in a chunk.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        HEAD_LEN + self.tail_len as usize
    }

    /// What it takes from the budget.
    #[inline]
    pub fn charge(&self) -> u64 {
        self.encoded_len() as u64 + FIXED_CHARGE
    }

    /// Reads a head and returns it with what lies behind it.
    #[inline]
    pub fn split_from(bytes: &[u8]) -> (Head, &[u8]) {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().expect("chunk ends inside a head");
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let head = Head {
            tail_len: word(0),
            topic: word(4),
            partition: word(8) as i32,
            key_hash: word(12),
            timestamp: (u64::from(word(16)) | u64::from(word(20)) << 32) as i64,
            key_len: word(24) as i32,
            value_len: word(28) as i32,
        };
        (head, rest)
    }

    /// Writes the head.
    #[inline]
    pub fn write(&self, out: &mut [u8; HEAD_LEN]) {
        out[0..4].copy_from_slice(&self.tail_len.to_le_bytes());
        out[4..8].copy_from_slice(&self.topic.to_le_bytes());
        out[8..12].copy_from_slice(&self.partition.to_le_bytes());
        out[12..16].copy_from_slice(&self.key_hash.to_le_bytes());
        out[16..24].copy_from_slice(&self.timestamp.to_le_bytes());
        out[24..28].copy_from_slice(&self.key_len.to_le_bytes());
        out[28..32].copy_from_slice(&self.value_len.to_le_bytes());
    }
}

/// Writes head and tail into `out`, which is exactly `head.encoded_len()` long. Runs under the intake's lock: it only
/// copies slices, nothing of the application's runs here.
#[inline(always)]
pub fn encode(message: &Message<'_>, head: &Head, out: &mut [u8]) {
    let (head_out, tail) = out.split_first_chunk_mut::<HEAD_LEN>().expect("room for the head");
    head.write(head_out);
    let mut at = put_bytes(tail, 0, message.key);
    at = put_bytes(tail, at, message.value);
    at += varint::put(&mut tail[at..], message.headers.len() as i64);
    for Header { name, value } in message.headers {
        at = put_bytes(tail, at, Some(name.as_bytes()));
        at = put_bytes(tail, at, *value);
    }
    debug_assert_eq!(at, tail.len());
}

#[inline]
fn put_bytes(out: &mut [u8], mut at: usize, bytes: Option<&[u8]>) -> usize {
    let len = bytes.map_or(-1, |b| b.len() as i64);
    at += varint::put(&mut out[at..], len);
    if let Some(bytes) = bytes {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    at
}

/// Bytes of key, value and headers as they stand in a record.
#[inline(always)]
pub fn tail_len(message: &Message<'_>) -> u64 {
    let bytes = |b: Option<&[u8]>| match b {
        Some(b) => varint::len(b.len() as i64) as u64 + b.len() as u64,
        None => 1,
    };
    let headers =
        message.headers.iter().map(|h| bytes(Some(h.name.as_bytes())) + bytes(h.value)).sum::<u64>();
    bytes(message.key) + bytes(message.value) + varint::len(message.headers.len() as i64) as u64 + headers
}

/// Takes a tail apart again: for the hand-back. None: not a tail (never the case for what `encode` wrote).
pub fn decode_tail(tail: &[u8]) -> Option<OwnedMessage> {
    let mut rest = tail;
    let mut message =
        OwnedMessage { key: take_bytes(&mut rest)?, value: take_bytes(&mut rest)?, ..Default::default() };
    for _ in 0..varint::take(&mut rest)? {
        let name = String::from_utf8_lossy(&take_bytes(&mut rest)??).into_owned();
        message.headers.push((name, take_bytes(&mut rest)?));
    }
    rest.is_empty().then_some(message)
}

#[allow(clippy::option_option)] // outer: malformed; inner: null
fn take_bytes(rest: &mut &[u8]) -> Option<Option<Vec<u8>>> {
    let len = varint::take(rest)?;
    if len < 0 {
        return Some(None);
    }
    let (bytes, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(Some(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_trip() {
        let headers = [
            Header { name: "trace", value: Some(b"12") },
            Header { name: "trace", value: None },
            Header { name: "", value: Some(b"") },
        ];
        for (key, value) in [(Some(&b"k"[..]), Some(&b"value"[..])), (None, Some(b"")), (Some(b""), None)] {
            let message = Message { key, value, headers: &headers, partition: Some(4), ..Default::default() };
            let head = Head::of(&message, 3, 7, 1_700_000_000_000).expect("small");
            let mut bytes = vec![0; head.encoded_len()];
            encode(&message, &head, &mut bytes);
            let (read, tail) = Head::split_from(&bytes);
            assert_eq!(read, head);
            let back = decode_tail(tail).expect("well-formed");
            assert_eq!((back.key.as_deref(), back.value.as_deref()), (key, value));
            let expected: Vec<_> =
                headers.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
            assert_eq!(back.headers, expected);
        }
    }
}

//! What came in from one connection, cut into frames.

use crate::engine::io::CloseReason;

/// Longest frame we take: what brokers take by default (`socket.request.max.bytes`), and several times the largest answer that
/// a producer asks for (metadata of 100,000 partitions is about 10 MB).
pub const LONGEST_FRAME: usize = 100 << 20;

/// Enough for most answers to a produce request.
const SMALLEST: usize = 16 << 10;
/// A buffer that one large frame made larger than this is given back after it.
const KEPT: usize = 64 << 10;

/// The length before a frame.
const LENGTH: usize = 4;

/// Bytes that came and are not handed out yet. What it takes in memory follows what came, never what a length claims.
#[derive(Debug)]
pub struct Input {
    buf: Vec<u8>,
    filled: usize,
    /// Whether a whole frame ever came: what speaks Kafka once does not turn out to be TLS later.
    spoke_kafka: bool,
}

impl Input {
    pub fn new() -> Input {
        Input { buf: Vec::new(), filled: 0, spoke_kafka: false }
    }

    /// Room to read into; never empty.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled == self.buf.len() {
            // At most doubled, and not beyond the frame's end: `frames` has checked its length.
            let frame = length(&self.buf[..self.filled]).map_or(0, |len| LENGTH + len as usize);
            let doubled = 2 * self.buf.len();
            let len = if frame > self.buf.len() { doubled.min(frame) } else { doubled };
            self.buf.resize(len.max(SMALLEST), 0);
        }
        &mut self.buf[self.filled..]
    }

    /// `count` bytes were read into `room`.
    pub fn filled(&mut self, count: usize) {
        self.filled += count;
    }

    /// Hands out each whole frame, without its length.
    pub fn frames(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), CloseReason> {
        let mut rest = &self.buf[..self.filled];
        while let Some(len) = length(rest) {
            let Some(len) = usize::try_from(len).ok().filter(|len| *len <= LONGEST_FRAME) else {
                return Err(self.bad_length(rest, len));
            };
            let Some((frame, behind)) = rest[LENGTH..].split_at_checked(len) else { break };
            each(frame);
            self.spoke_kafka = true;
            rest = behind;
        }
        let left = rest.len();
        self.buf.copy_within(self.filled - left..self.filled, 0);
        self.filled = left;
        if self.buf.len() > KEPT && self.filled <= SMALLEST {
            self.buf.truncate(SMALLEST);
            self.buf.shrink_to_fit();
        }
        Ok(())
    }

    fn bad_length(&self, bytes: &[u8], len: i32) -> CloseReason {
        match other_protocol(bytes) {
            Some(words) if !self.spoke_kafka => CloseReason::NotKafka(words),
            _ => CloseReason::BadLength(len),
        }
    }
}

fn length(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk::<LENGTH>().map(|len| i32::from_be_bytes(*len))
}

/// Servers that don't speak Kafka betray themselves by their first bytes, which make no length.
fn other_protocol(first: &[u8]) -> Option<&'static str> {
    match first {
        // A record of type alert or handshake, TLS 1.x.
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => Some("the port speaks TLS, this client plain text"),
        [b'H', b'T', b'T', b'P', ..] => Some("the port answers HTTP, it is no Kafka broker"),
        [b'S', b'S', b'H', b'-', ..] => Some("the port speaks SSH, it is no Kafka broker"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(input: &mut Input, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, CloseReason> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let room = input.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            input.filled(count);
            bytes = &bytes[count..];
            input.frames(|frame| frames.push(frame.to_vec()))?;
        }
        Ok(frames)
    }

    fn framed(bodies: &[&[u8]]) -> Vec<u8> {
        bodies.iter().flat_map(|body| [&(body.len() as i32).to_be_bytes(), *body].concat()).collect()
    }

    #[test]
    fn frames_come_out_whole_wherever_they_are_cut() {
        let bodies: [&[u8]; 4] = [b"first", b"", b"a third one", b"x"];
        let bytes = framed(&bodies);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut input = Input::new();
                let mut frames = feed(&mut input, &bytes[..first]).unwrap();
                frames.extend(feed(&mut input, &bytes[first..second]).unwrap());
                frames.extend(feed(&mut input, &bytes[second..]).unwrap());
                assert_eq!(frames, bodies);
            }
        }
    }

    #[test]
    fn memory_follows_the_bytes_and_not_the_claimed_length() {
        let mut input = Input::new();
        let claimed = LONGEST_FRAME as i32;
        assert_eq!(feed(&mut input, &claimed.to_be_bytes()).unwrap().len(), 0);
        input.room();
        assert!(input.buf.capacity() <= SMALLEST);
        let part = vec![7; 1 << 20];
        assert_eq!(feed(&mut input, &part).unwrap().len(), 0);
        input.room();
        assert!(input.buf.capacity() <= 2 * (part.len() + LENGTH), "{}", input.buf.capacity());
    }

    #[test]
    fn a_large_frame_comes_whole_and_its_memory_goes() {
        let mut input = Input::new();
        let large: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let frames = feed(&mut input, &framed(&[b"before", &large, b"behind"])).unwrap();
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [6, large.len(), 6]);
        assert_eq!(frames[1], large);
        assert!(input.buf.capacity() <= KEPT, "{}", input.buf.capacity());
    }

    #[test]
    fn lengths_that_are_none() {
        for len in [-1, i32::MIN, i32::MAX, LONGEST_FRAME as i32 + 1] {
            assert_eq!(feed(&mut Input::new(), &len.to_be_bytes()), Err(CloseReason::BadLength(len)));
        }
    }

    #[test]
    fn frames_before_a_bad_length_are_still_handed_out() {
        let mut input = Input::new();
        let mut bytes = framed(&[b"good"]);
        bytes.extend((-5i32).to_be_bytes());
        let room = input.room();
        room[..bytes.len()].copy_from_slice(&bytes);
        input.filled(bytes.len());
        let mut frames = 0;
        assert_eq!(input.frames(|_| frames += 1), Err(CloseReason::BadLength(-5)));
        assert_eq!(frames, 1);
    }

    #[test]
    fn other_protocols_are_named() {
        let words = |bytes: &[u8]| match feed(&mut Input::new(), bytes) {
            Err(CloseReason::NotKafka(words)) => words,
            other => panic!("{other:?}"),
        };
        assert!(words(&[0x15, 3, 3, 0, 2, 2, 0x50]).contains("TLS"));
        assert!(words(b"HTTP/1.1 400 Bad Request\r\n").contains("HTTP"));
        assert!(words(b"SSH-2.0-OpenSSH_9.6\r\n").contains("SSH"));
        // Once it spoke Kafka, a strange length is a strange length.
        let mut input = Input::new();
        feed(&mut input, &framed(&[b"fine"])).unwrap();
        assert!(matches!(feed(&mut input, b"HTTP"), Err(CloseReason::BadLength(_))));
    }
}

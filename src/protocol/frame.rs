//! A request as it goes to the socket: its own bytes with the batches' records between them, copied nowhere.

use std::io::IoSlice;
use std::sync::Arc;

/// Owns or shares every byte of a request until it is written or its socket is gone.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// What lies before, between and behind the inserts; begins with the length.
    framing: Vec<u8>,
    /// Where in `framing` an insert belongs, and the insert.
    inserts: Vec<Insert>,
    len: usize,
}

/// Shorter records are copied: a slice more for the socket costs more than that, and a request can have thousands of them.
const WORTH_SHARING: usize = 1 << 10;

/// The records of a batch: shared by the batch and the requests that carry it.
pub type Records = Arc<Vec<u8>>;

#[derive(Clone, Debug)]
struct Insert {
    at: usize,
    records: Records,
    used: usize,
}

impl Frame {
    /// An empty one; the length is filled in by `finish`.
    pub fn new(capacity: usize) -> Frame {
        let mut framing = Vec::with_capacity(capacity + 4);
        framing.extend([0; 4]);
        Frame { framing, inserts: Vec::new(), len: 0 }
    }

    /// The request's own bytes, to write to.
    pub fn framing(&mut self) -> &mut Vec<u8> {
        &mut self.framing
    }

    /// Puts the first `used` bytes of `records` behind what was written so far.
    pub fn insert(&mut self, records: Records, used: usize) {
        if used <= WORTH_SHARING {
            self.framing.extend_from_slice(&records[..used]);
        } else {
            self.inserts.push(Insert { at: self.framing.len(), records, used });
        }
    }

    /// Writes the length in front. Nothing is added after this.
    pub fn finish(mut self) -> Frame {
        self.len = self.framing.len() + self.inserts.iter().map(|insert| insert.used).sum::<usize>();
        self.framing[0..4].copy_from_slice(&(self.len as i32 - 4).to_be_bytes());
        self
    }

    /// All of its bytes, the length included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What lies behind the first `written` bytes, as far as it fits into `slices`; how many were filled.
    pub fn unwritten<'a>(&'a self, written: usize, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skip = written;
        let mut count = 0;
        for piece in self.pieces() {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            if count == slices.len() {
                break;
            }
            slices[count] = IoSlice::new(&piece[skip..]);
            count += 1;
            skip = 0;
        }
        count
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.inserts.iter().map(|insert| insert.at));
        let ends = self.inserts.iter().map(|insert| insert.at).chain(std::iter::once(self.framing.len()));
        let inserts =
            self.inserts.iter().map(|insert| &insert.records[..insert.used]).chain(std::iter::once(&[][..]));
        starts.zip(ends).zip(inserts).flat_map(|((start, end), insert)| [&self.framing[start..end], insert])
    }

    /// In one piece, the length included: for tests and for the embedded cluster.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_from_any_offset() {
        let mut frame = Frame::new(16);
        frame.framing().extend(b"ab");
        let long = [b'R'; 2 * WORTH_SHARING];
        frame.insert(Arc::new([&long[..], b"--"].concat()), long.len());
        frame.framing().extend(b"cd");
        frame.insert(Arc::new(b"MORE".to_vec()), 4);
        let frame = frame.finish();
        let whole = frame.to_vec();
        assert_eq!(whole[4..], [b"ab", &long[..], b"cdMORE"].concat());
        assert_eq!(whole[..4], (8 + long.len() as i32).to_be_bytes());
        assert_eq!(frame.inserts.len(), 1, "only what is worth it is shared");
        for written in 0..=whole.len() {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = frame.unwritten(written, &mut slices);
            let rest: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(rest, whole[written..]);
        }
    }
}

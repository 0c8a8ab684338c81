//! What is to go out on one connection: a queue of frames, and how far they have gone.

use super::stream::{Stream, SHORT_MEANS_DRAINED};
use crate::protocol::frame::Frame;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

/// Pieces handed to the system at once; it takes 1024 at most.
const PIECES: usize = 256;

#[derive(Debug, Default)]
pub struct Output {
    frames: VecDeque<Frame>,
    /// Of the first frame.
    written: usize,
    progress: Progress,
}

/// Frames of which the first byte, and the last one, was taken by the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub begun: u64,
    pub done: u64,
}

/// Why writing ended for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// All is written.
    Empty,
    /// The socket takes no more; it will say when it does.
    Full,
    /// The socket would take more, but others have their turn.
    Turn,
}

impl Output {
    pub fn push(&mut self, frame: Frame) {
        debug_assert!(!frame.is_empty(), "a frame that was not finished");
        self.frames.push_back(frame);
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Writes as much as the socket takes, `limit` bytes at most (give or take one call).
    pub fn write(&mut self, stream: &mut Stream, limit: usize) -> io::Result<Pause> {
        let mut total = 0;
        while !self.frames.is_empty() {
            if total >= limit {
                return Ok(Pause::Turn);
            }
            match self.write_once(stream) {
                Ok((written, offered)) => {
                    total += written;
                    if SHORT_MEANS_DRAINED && written < offered {
                        return Ok(Pause::Full);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Pause::Full),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Pause::Empty)
    }

    /// One call to the system: how much it took, of how much.
    fn write_once(&mut self, stream: &mut Stream) -> io::Result<(usize, usize)> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        let mut skip = self.written;
        for frame in &self.frames {
            count += frame.unwritten(std::mem::take(&mut skip), &mut slices[count..]);
            if count == PIECES {
                break;
            }
        }
        let offered = slices[..count].iter().map(|slice| slice.len()).sum();
        let written = stream.write(&slices[..count])?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        self.went(written);
        Ok((written, offered))
    }

    /// `count` more bytes are gone.
    fn went(&mut self, mut count: usize) {
        while count > 0 {
            let front = self.frames.front().expect("no more was written than offered");
            if self.written == 0 {
                self.progress.begun += 1;
            }
            let left = front.len() - self.written;
            if count < left {
                self.written += count;
                return;
            }
            count -= left;
            self.written = 0;
            self.progress.done += 1;
            self.frames.pop_front();
        }
    }
}

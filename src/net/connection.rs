//! One connection: requests go out, frames come in, nothing blocks.

use super::input::Input;
use super::output::{Output, Pause, Progress};
use super::stream::{Stream, SHORT_MEANS_DRAINED};
use crate::engine::io::{CloseReason, ConnId};
use crate::protocol::frame::Frame;
use std::io::{self, ErrorKind};

/// Read from one connection in one turn, so that a busy one does not starve the others.
const READ_A_TURN: usize = 256 << 10;
/// Written to one connection in one turn.
const WRITE_A_TURN: usize = 4 << 20;

#[derive(Debug)]
pub struct Connection {
    pub id: ConnId,
    pub stream: Stream,
    is_open: bool,
    output: Output,
    input: Input,
    /// The poller reports changes only (edges), so they are remembered until the socket says "would block".
    readable: bool,
    writable: bool,
    /// The other side said that no more comes: to be read to the very end, however short the reads come.
    ends: bool,
    /// Writing failed. What the other side said before is still to be read: an answer that is here makes an attempt known.
    write_failure: Option<CloseReason>,
    /// Whether it stands in the list of those to read, or to write, in the next turn.
    pub listed_to_read: bool,
    pub listed_to_write: bool,
}

/// What came of reading.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing more is there.
    Drained,
    /// More may be there, but others have their turn.
    More,
}

impl Connection {
    pub fn new(id: ConnId, stream: Stream) -> Connection {
        Connection {
            id,
            stream,
            is_open: false,
            output: Output::default(),
            input: Input::new(),
            readable: false,
            writable: false,
            ends: false,
            write_failure: None,
            listed_to_read: false,
            listed_to_write: false,
        }
    }

    pub fn note(&mut self, event: &mio::event::Event) {
        let ends = event.is_read_closed() || event.is_error();
        self.ends |= ends;
        self.readable |= event.is_readable() || ends;
        self.writable |= event.is_writable() || event.is_write_closed() || event.is_error();
    }

    pub fn wants_to_read(&self) -> bool {
        self.readable || !self.is_open && self.writable
    }

    pub fn wants_to_write(&self) -> bool {
        self.is_open && self.writable && !self.output.is_empty()
    }

    pub fn send(&mut self, frame: Frame) {
        self.output.push(frame);
    }

    /// Whether it has come to stand with this call.
    pub fn check_opened(&mut self) -> Result<bool, CloseReason> {
        if self.is_open || !self.writable {
            return Ok(false);
        }
        self.is_open = self.stream.is_connected().map_err(|e| reason(&e))?;
        self.writable = self.is_open; // a false alarm: the next event tells
        Ok(self.is_open)
    }

    /// Reads what is there and hands each whole frame to `each`.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> Result<Received, CloseReason> {
        let mut total = 0;
        while self.is_open && self.readable {
            if total >= READ_A_TURN {
                return Ok(Received::More);
            }
            let room = self.input.room();
            let offered = room.len();
            match self.stream.read(room) {
                Ok(0) => return Err(self.write_failure.take().unwrap_or(CloseReason::Eof)),
                Ok(count) => {
                    self.readable = count == offered || self.ends || !SHORT_MEANS_DRAINED;
                    self.input.filled(count);
                    total += count;
                    self.input.frames(&mut each)?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.write_failure.take().unwrap_or_else(|| reason(&e))),
            }
        }
        match self.write_failure.take() {
            Some(failure) => Err(failure),
            None => Ok(Received::Drained),
        }
    }

    /// Writes what is queued. Some: how far it has gone now, if it moved.
    pub fn transmit(&mut self) -> Option<Progress> {
        let before = self.output.progress();
        match self.output.write(&mut self.stream, WRITE_A_TURN) {
            Ok(Pause::Full) => self.writable = false,
            Ok(Pause::Empty | Pause::Turn) => {}
            Err(e) => {
                self.write_failure = Some(reason(&e));
                self.writable = false;
                self.readable = true;
                self.ends = true;
            }
        }
        Some(self.output.progress()).filter(|progress| *progress != before)
    }
}

/// What the system says, as a reason.
pub fn reason(e: &io::Error) -> CloseReason {
    match e.kind() {
        ErrorKind::ConnectionRefused => CloseReason::Refused,
        _ => CloseReason::Io(e.to_string()),
    }
}

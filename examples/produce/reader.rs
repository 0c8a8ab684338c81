//! Reads lines and sends each as it arrives.

use crate::input::{read_line, Line, Separators};
use crate::settle::Entry;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::Instant;
use steadfast::{Header, Message, Producer, SendError};

/// What makes messages of lines.
pub(crate) struct Reader {
    pub(crate) producer: Producer,
    pub(crate) topic: String,
    pub(crate) separators: Separators,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) partition: Option<i32>,
    /// A longer line could never be sent, so no more of it is kept.
    pub(crate) longest_line: u64,
}

/// Where lines go on, until it is closed. A line counts as read once it is through: after `close` none is.
#[derive(Clone)]
pub(crate) struct Door(Arc<Mutex<Opening>>);

struct Opening {
    /// None: closed.
    entries: Option<Sender<Entry>>,
    lines: u64,
}

impl Door {
    pub(crate) fn new(entries: Sender<Entry>) -> Door {
        Door(Arc::new(Mutex::new(Opening { entries: Some(entries), lines: 0 })))
    }

    /// How many lines went through.
    pub(crate) fn close(&self) -> u64 {
        let mut opening = self.0.lock();
        opening.entries = None;
        opening.lines
    }
}

impl Reader {
    /// Sends every line, until there are no more or the door is closed.
    pub(crate) fn read_all(&self, input: &mut impl Read, door: &Door) -> io::Result<()> {
        let mut input = BufReader::with_capacity(1 << 18, input);
        let headers: Vec<Header<'_>> =
            self.headers.iter().map(|(name, value)| Header { name, value: Some(value) }).collect();
        let mut line = Vec::new();
        loop {
            let read = read_line(&mut input, &mut line, self.longest_line)?;
            if read == Line::End {
                return Ok(());
            }
            // Held while the line is sent: whoever closes the door knows that no line is half through it.
            let mut opening = door.0.lock();
            let index = opening.lines;
            let Some(entries) = &opening.entries else { return Ok(()) };
            let (entry, over) = match read {
                Line::TooLong(bytes) => {
                    let limit = self.longest_line;
                    let error =
                        format!("the line has {bytes} bytes; buffer.memory, all that may wait, is {limit}");
                    (Entry::refused(index, Instant::now(), error), false)
                }
                _ => self.send(index, &line, &headers),
            };
            if entries.send(entry).is_err() {
                return Err(io::Error::other("the thread that waits for verdicts has died"));
            }
            opening.lines += 1;
            drop(opening);
            if over {
                return Ok(());
            }
            if line.capacity() > LINE_KEPT {
                line = Vec::new();
            }
        }
    }

    /// Also says whether the producer is over: then no further line can be sent.
    fn send(&self, index: u64, line: &[u8], headers: &[Header<'_>]) -> (Entry, bool) {
        let read = Instant::now();
        let fields = match self.separators.split(line) {
            Ok(fields) => fields,
            Err(error) => return (Entry::refused(index, read, error), false),
        };
        let message = Message {
            key: fields.key,
            value: Some(fields.value),
            headers,
            timestamp: fields.timestamp,
            partition: self.partition,
        };
        match self.producer.send(&self.topic, message) {
            Ok(receipt) => (Entry::accepted(index, read, receipt), false),
            Err(error) => {
                let over = matches!(error, SendError::Stopped | SendError::WorkerDied { .. });
                (Entry::refused(index, read, error), over)
            }
        }
    }
}

/// The memory of one huge line is not kept for the small ones that follow.
const LINE_KEPT: usize = 1 << 20;

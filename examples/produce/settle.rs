//! Waits for verdicts in the order of the lines, counts them, and writes the report.

use crate::tally::{Drop, Outcome, Tally};
use crossbeam_channel::{Receiver, TryRecvError};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};
use steadfast::{Fate, Receipt, TimestampType};

/// A line that was read, and how far it is.
pub(crate) struct Entry {
    index: u64,
    read: Instant,
    state: State,
}

enum State {
    Pending(Receipt),
    Settled { outcome: Outcome, elapsed: Duration },
}

/// So many lines may wait for their verdicts, or behind one that does. It bounds the memory of endless input; without a
/// report a line with a verdict does not wait for those before it.
const WINDOW: usize = 1 << 17;
/// How long the oldest line is waited for before all others are looked at: the error of a report's `ms` at most.
const PATIENCE: Duration = Duration::from_millis(20);

impl Entry {
    /// A line that the producer has accepted.
    pub(crate) fn accepted(index: u64, read: Instant, receipt: Receipt) -> Entry {
        Entry { index, read, state: State::Pending(receipt) }
    }

    /// A line that was refused at the door.
    pub(crate) fn refused(index: u64, read: Instant, error: impl ToString) -> Entry {
        let outcome = Outcome::Dropped(Drop::refused(error));
        Entry { index, read, state: State::Settled { outcome, elapsed: read.elapsed() } }
    }

    /// Whether it has a verdict; waits for at most `timeout`.
    fn settle(&mut self, timeout: Duration) -> bool {
        let State::Pending(receipt) = &self.state else { return true };
        if !receipt.is_settled() && (timeout.is_zero() || receipt.wait_settled(timeout).is_err()) {
            return false;
        }
        let Some(result) = receipt.result(0) else { return false };
        let (outcome, elapsed) = match result {
            Ok(delivered) => (Outcome::Delivered(delivered), self.read.elapsed()),
            // Of a dropped line only the verdict is kept: its bytes go back to the budget.
            Err(dropped) => (Outcome::Dropped(Drop::undelivered(&dropped.error)), dropped.error.elapsed),
        };
        self.state = State::Settled { outcome, elapsed };
        true
    }
}

/// The report file, if one is wanted.
pub(crate) struct Report(Option<BufWriter<File>>);

impl Report {
    pub(crate) fn new(file: Option<File>) -> Report {
        Report(file.map(|file| BufWriter::with_capacity(1 << 16, file)))
    }

    fn write(&mut self, index: u64, outcome: &Outcome, elapsed: Duration) -> io::Result<()> {
        let Some(out) = &mut self.0 else { return Ok(()) };
        let ms = elapsed.as_millis();
        match outcome {
            Outcome::Delivered(delivered) => {
                let clock = match delivered.timestamp_type {
                    TimestampType::CreateTime => "create",
                    TimestampType::LogAppendTime => "log_append",
                };
                let (partition, offset) = (delivered.partition, delivered.offset.unwrap_or(-1));
                let timestamp = delivered.timestamp;
                writeln!(
                    out,
                    r#"{{"index":{index},"partition":{partition},"offset":{offset},"timestamp":{timestamp},"timestamp_type":"{clock}","ms":{ms}}}"#
                )
            }
            Outcome::Dropped(drop) => {
                let fate = match drop.fate {
                    Fate::NotWritten => "not_written",
                    Fate::Unknown => "unknown",
                };
                let error = serde_json::Value::from(drop.error.as_str());
                let attempts = drop.attempts;
                writeln!(
                    out,
                    r#"{{"index":{index},"error":{error},"fate":"{fate}","attempts":{attempts},"ms":{ms}}}"#
                )
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Takes lines until there are no more and all have their verdict. A report that can't be written is an error at the end;
/// the lines are counted all the same.
pub(crate) fn settle_all(entries: &Receiver<Entry>, mut report: Report) -> (Tally, io::Result<()>) {
    let mut tally = Tally::default();
    let mut written = Ok(());
    let mut window: VecDeque<Entry> = VecDeque::new();
    loop {
        if window.is_empty() && entries.is_empty() {
            // Before it waits for lines: what is known can be read in the file.
            written = written.and_then(|()| report.flush());
        }
        if !take_in(entries, &mut window) {
            break;
        }
        let oldest_waits = window.front_mut().is_some_and(|oldest| !oldest.settle(PATIENCE));
        if oldest_waits {
            window.iter_mut().for_each(|entry| _ = entry.settle(Duration::ZERO));
            if report.0.is_none() {
                // Nobody asked for the order: what has its verdict need not wait behind what has none.
                window.retain(|entry| match &entry.state {
                    State::Pending(_) => true,
                    State::Settled { outcome, .. } => {
                        tally.add(outcome);
                        false
                    }
                });
            }
        }
        while window.front_mut().is_some_and(|entry| entry.settle(Duration::ZERO)) {
            let Some(Entry { index, state: State::Settled { outcome, elapsed }, .. }) = window.pop_front()
            else {
                unreachable!("it has just been settled");
            };
            tally.add(&outcome);
            written = written.and_then(|()| report.write(index, &outcome, elapsed));
        }
    }
    (tally, written.and_then(|()| report.flush()))
}

/// Takes what has come in, as far as there is room, and waits for something if there is nothing. False: all is done.
fn take_in(entries: &Receiver<Entry>, window: &mut VecDeque<Entry>) -> bool {
    if window.is_empty() {
        match entries.recv() {
            Ok(entry) => window.push_back(entry),
            Err(_) => return false,
        }
    }
    while window.len() < WINDOW {
        match entries.try_recv() {
            Ok(entry) => window.push_back(entry),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
        }
    }
    true
}

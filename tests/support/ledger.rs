//! Numbered messages: what was sent and what the producer said of it, compared with what is in the log.
//!
//! Each sending thread numbers its messages from 0 and puts thread and number into the value. Kafka keeps order within a
//! partition, so within one the numbers of a thread must ascend, whichever way the messages were spread.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// What the producer said of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Delivered {
        partition: i32,
        /// None where the producer says that it does not know.
        offset: Option<i64>,
    },
    /// Dropped, with the promise that it is not in the log.
    NotWritten(String),
    /// Dropped; it may be in the log.
    Unknown(String),
}

/// All that was sent in one run.
#[derive(Default)]
pub struct Ledger {
    sent: BTreeMap<(u32, u64), Verdict>,
}

/// One numbered message in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub partition: i32,
    pub offset: i64,
    pub thread: u32,
    pub number: u64,
}

/// What the comparison found; `problems` is empty if all promises were kept.
#[derive(Debug, Default)]
pub struct Report {
    pub sent: usize,
    pub delivered: usize,
    pub not_written: usize,
    pub unknown: usize,
    /// Further occurrences of messages, in all.
    pub duplicates: usize,
    /// Delivered messages without an offset.
    pub without_offset: usize,
    pub problems: Vec<String>,
}

/// The value of a numbered message, filled up to `length` so that messages differ in size.
pub fn value(thread: u32, number: u64, length: usize) -> String {
    let mut value = format!("{thread}/{number}/");
    while value.len() < length {
        value.push(char::from(b'a' + (value.len() % 26) as u8));
    }
    value
}

/// Reads thread and number out of a value.
pub fn parse(value: &str) -> Option<(u32, u64)> {
    let mut parts = value.split('/');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Ledger {
    pub fn record(&mut self, thread: u32, number: u64, verdict: Verdict) {
        let before = self.sent.insert((thread, number), verdict);
        assert!(before.is_none(), "message {thread}/{number} has two verdicts");
    }

    pub fn merge(&mut self, other: Ledger) {
        for ((thread, number), verdict) in other.sent {
            self.record(thread, number, verdict);
        }
    }

    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Every message is there once, in order, where its receipt says.
    pub fn check_exactly_once(&self, log: &[Found]) -> Report {
        let mut report = self.check(log);
        if report.duplicates > 0 {
            let text = format!("{} duplicates: {}", report.duplicates, self.some_duplicates(log));
            report.problems.push(text);
        }
        report
    }

    /// Every message is there, the first occurrences in order; there may be more than one of each.
    pub fn check_at_least_once(&self, log: &[Found]) -> Report {
        self.check(log)
    }

    fn check(&self, log: &[Found]) -> Report {
        let mut report = Report { sent: self.sent.len(), ..Report::default() };
        let mut places: HashMap<(u32, u64), Vec<(i32, i64)>> = HashMap::new();
        let mut newest: HashMap<(i32, u32), (u64, i64)> = HashMap::new();
        for found in log {
            let id = (found.thread, found.number);
            let seen = places.entry(id).or_default();
            seen.push((found.partition, found.offset));
            if seen.len() > 1 {
                report.duplicates += 1;
            } else if matches!(self.sent.get(&id), Some(Verdict::Delivered { .. })) {
                // What was given up may still arrive, from a socket that nobody listens to any more, and then has no place.
                let before = newest.insert((found.partition, found.thread), (found.number, found.offset));
                if let Some((number, offset)) = before.filter(|(number, _)| *number >= found.number) {
                    report.problem(format!(
                        "reordered in partition {}: {}/{number} at {offset} before {}/{} at {}",
                        found.partition, found.thread, found.thread, found.number, found.offset
                    ));
                    // The next one is held against what was newest, or one early message would blame all others.
                    newest.insert((found.partition, found.thread), (number, offset));
                }
            }
            if !self.sent.contains_key(&id) {
                report.problem(format!("{found:?} was never accepted"));
            }
        }
        for (id, verdict) in &self.sent {
            let places = places.get(id).map_or(&[][..], Vec::as_slice);
            report.judge(*id, verdict, places);
        }
        report
    }

    fn some_duplicates(&self, log: &[Found]) -> String {
        let mut places: BTreeMap<(u32, u64), Vec<(i32, i64)>> = BTreeMap::new();
        for found in log {
            places.entry((found.thread, found.number)).or_default().push((found.partition, found.offset));
        }
        let mut text = String::new();
        for ((thread, number), places) in places.iter().filter(|(_, places)| places.len() > 1).take(5) {
            let _ = write!(text, "{thread}/{number} at (partition, offset) {places:?}; ");
        }
        text
    }
}

impl Report {
    /// A run that goes wrong goes wrong a thousand times: the first few say why.
    fn problem(&mut self, text: String) {
        match self.problems.len() {
            0..20 => self.problems.push(text),
            20 => self.problems.push("and more".to_owned()),
            _ => {}
        }
    }

    fn judge(&mut self, (thread, number): (u32, u64), verdict: &Verdict, places: &[(i32, i64)]) {
        match verdict {
            Verdict::Delivered { partition, offset } => {
                self.delivered += 1;
                self.without_offset += usize::from(offset.is_none());
                let there =
                    places.iter().any(|(p, o)| p == partition && offset.is_none_or(|offset| offset == *o));
                if places.is_empty() {
                    self.problem(format!("lost: {thread}/{number}, {verdict:?}"));
                } else if !there {
                    self.problem(format!(
                        "{thread}/{number}: the receipt says {verdict:?}, the log {places:?}"
                    ));
                }
            }
            Verdict::NotWritten(error) => {
                self.not_written += 1;
                if !places.is_empty() {
                    self.problem(format!("{thread}/{number} is at {places:?} and was not written: {error}"));
                }
            }
            Verdict::Unknown(_) => self.unknown += 1,
        }
    }

    /// Panics with all of it unless nothing went wrong.
    pub fn assert_kept(&self, what: &str) {
        assert!(self.problems.is_empty(), "{what}: {self:#?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(offset: i64) -> Verdict {
        Verdict::Delivered { partition: 0, offset: Some(offset) }
    }

    fn ledger(verdicts: &[Verdict]) -> Ledger {
        let mut ledger = Ledger::default();
        for (number, verdict) in verdicts.iter().enumerate() {
            ledger.record(0, number as u64, verdict.clone());
        }
        ledger
    }

    fn log(numbers: &[u64]) -> Vec<Found> {
        let found = |(offset, number): (usize, &u64)| Found {
            partition: 0,
            offset: offset as i64,
            thread: 0,
            number: *number,
        };
        numbers.iter().enumerate().map(found).collect()
    }

    #[test]
    fn ledger_accepts_what_is_right() {
        let report = ledger(&[delivered(0), delivered(1)]).check_exactly_once(&log(&[0, 1]));
        report.assert_kept("two messages");
        assert_eq!((report.sent, report.delivered, report.duplicates), (2, 2, 0));
    }

    #[test]
    fn ledger_notices_each_kind_of_fault() {
        let two = [delivered(0), delivered(1)];
        let cases: [(&str, &[Verdict], &[u64]); 5] = [
            ("lost", &two, &[0]),
            ("duplicates", &two, &[0, 1, 1]),
            ("reordered", &[delivered(1), delivered(0)], &[1, 0]),
            ("never accepted", &two, &[0, 1, 2]),
            ("the receipt says", &[delivered(0), delivered(7)], &[0, 1]),
        ];
        for (word, verdicts, numbers) in cases {
            let report = ledger(verdicts).check_exactly_once(&log(numbers));
            assert_eq!(report.problems.len(), 1, "{word}: {report:?}");
            assert!(report.problems[0].contains(word), "{word}: {report:?}");
        }
    }

    #[test]
    fn ledger_holds_a_drop_to_its_fate() {
        let dropped = [Verdict::NotWritten("why".to_owned()), Verdict::Unknown("why".to_owned())];
        ledger(&dropped).check_exactly_once(&log(&[1])).assert_kept("what is unknown may be there");
        ledger(&dropped).check_exactly_once(&log(&[])).assert_kept("or not");
        let report = ledger(&dropped).check_exactly_once(&log(&[0]));
        assert!(report.problems[0].contains("was not written"), "{report:?}");
    }

    #[test]
    fn ledger_counts_duplicates_without_idempotence_and_still_wants_order() {
        let three = [delivered(0), delivered(1), delivered(3)];
        let report = ledger(&three).check_at_least_once(&log(&[0, 1, 0, 2, 1]));
        report.assert_kept("a batch that was sent twice");
        assert_eq!(report.duplicates, 2);
        let report = ledger(&three).check_at_least_once(&log(&[0, 2, 1, 2]));
        assert!(report.problems.iter().any(|p| p.contains("reordered")), "{report:?}");
    }
}

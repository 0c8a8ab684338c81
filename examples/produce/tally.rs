//! What became of the lines: counted, and the causes of drops in words that say what to do.

use steadfast::{Cause, ErrorCode, Fate};

/// What became of one line.
#[derive(Debug)]
pub(crate) enum Outcome {
    Delivered(steadfast::Delivered),
    Dropped(Drop),
}

/// One line that was not delivered.
#[derive(Debug)]
pub(crate) struct Drop {
    /// Why, in words.
    pub(crate) error: String,
    pub(crate) fate: Fate,
    pub(crate) attempts: u32,
    /// What to do about it.
    pub(crate) advice: Option<&'static str>,
}

impl Drop {
    /// A line that never got into the producer.
    pub(crate) fn refused(error: impl ToString) -> Drop {
        Drop { error: error.to_string(), fate: Fate::NotWritten, attempts: 0, advice: None }
    }

    /// A line that got in and was not delivered.
    pub(crate) fn undelivered(error: &steadfast::DeliveryError) -> Drop {
        Drop {
            error: error.cause.to_string(),
            fate: error.fate,
            attempts: error.attempts,
            advice: advice(&error.cause),
        }
    }
}

/// How many lines came to what.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) delivered: u64,
    pub(crate) dropped: u64,
    causes: Vec<CauseCount>,
    /// Drops for causes beyond the ones that are kept.
    other: u64,
}

#[derive(Debug)]
struct CauseCount {
    key: (String, Fate),
    count: u64,
    example: String,
    advice: Option<&'static str>,
}

/// More distinct causes than this are only counted: a report that endless input can't blow up.
const CAUSES_MAX: usize = 32;

impl Tally {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Delivered(_) => self.delivered += 1,
            Outcome::Dropped(drop) => {
                self.dropped += 1;
                self.count(drop);
            }
        }
    }

    fn count(&mut self, drop: &Drop) {
        // Causes that differ in a number only (a size, a time, a broker's id) are one.
        let key = (without_numbers(&drop.error), drop.fate);
        if let Some(cause) = self.causes.iter_mut().find(|cause| cause.key == key) {
            cause.count += 1;
        } else if self.causes.len() < CAUSES_MAX {
            self.causes.push(CauseCount { key, count: 1, example: drop.error.clone(), advice: drop.advice });
        } else {
            self.other += 1;
        }
    }

    /// Each distinct cause of a drop, with its count and what to do about it; the most frequent first.
    pub(crate) fn causes(&mut self) -> Vec<String> {
        self.causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        let mut texts: Vec<String> = self.causes.iter().map(CauseCount::text).collect();
        if self.other > 0 {
            texts.push(format!("{} dropped for yet other causes: see --report", lines(self.other)));
        }
        texts
    }
}

impl CauseCount {
    fn text(&self) -> String {
        let fate = match self.key.1 {
            Fate::NotWritten => "dropped, not written",
            Fate::Unknown => "dropped, may be in the log all the same",
        };
        let advice = self.advice.map_or_else(String::new, |advice| format!("\n    {advice}"));
        format!("{} {fate}: {}{advice}", lines(self.count), self.example)
    }
}

fn lines(count: u64) -> String {
    if count == 1 {
        "1 line".to_owned()
    } else {
        format!("{count} lines")
    }
}

fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// What an operator can do about it, where the cause's own words don't say.
fn advice(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::RetriesExhausted { last, .. } | Cause::NotRetried { last } => advice(last),
        Cause::DeliveryTimeout { last } | Cause::Stopped { last } => advice(last.as_deref()?),
        Cause::SequenceLost { .. } => Some(
            "If a second copy is better than none, set retry_ambiguous=always; else look whether the line is in the log before \
             you send it again.",
        ),
        Cause::Refused { code, .. } => advice_on_code(*code),
        Cause::RequestTimeout { .. } => Some(
            "Is that broker hung or overloaded, or does a firewall swallow what is sent to it? request.timeout.ms is how long to wait.",
        ),
        _ => None,
    }
}

/// Beyond what the error itself says (`ErrorCode::advice`).
fn advice_on_code(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::MessageTooLarge => "--compression makes batches smaller; max.message.bytes counts them compressed.",
        ErrorCode::CorruptMessage | ErrorCode::InvalidRecord => {
            "If the topic is compacted (cleanup.policy=compact), lines need a key: use --key-separator."
        }
        ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId => {
            "The broker does not know what was acknowledged before: acknowledged messages may be gone from the log (an unclean \
             leader election, a lost disk). Compare the log with the source."
        }
        ErrorCode::NotLeaderOrFollower | ErrorCode::LeaderNotAvailable => {
            "The partition had no usable leader for as long as the settings allow: look at the cluster's controller, or raise \
             delivery.timeout.ms and batch_retries_limit."
        }
        _ => return None,
    })
}

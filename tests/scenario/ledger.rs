//! What was sent, what callers were told, and whether the two and the logs agree.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use steadfast::internal::delivery::block::{Block, Outcome};
use steadfast::internal::engine::io::{Settled, SettledOutcome};
use steadfast::internal::model::topics::LoggedMessage;
use steadfast::internal::model::Model;
use steadfast::{DeliveryError, Fate};

/// A message's number in its story: they count from 0, in order of acceptance.
pub type Id = usize;

#[derive(Clone, Debug)]
pub enum Verdict {
    Delivered { partition: i32, offset: Option<i64>, append_time: Option<i64> },
    Dropped(Arc<DeliveryError>),
    Lost,
}

pub struct Entry {
    pub topic: String,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub timestamp: i64,
    /// Until its verdict is known.
    block: Option<Arc<Block>>,
    number: u32,
    pub verdict: Option<(Duration, Verdict)>,
}

#[derive(Default)]
pub struct Ledger {
    pub entries: Vec<Entry>,
    /// Messages that the callback would have heard of, by topic and partition.
    told: BTreeMap<(String, Option<i32>), u64>,
    /// The last offset that it heard of, by topic and partition.
    last_told: HashMap<(Arc<str>, i32), i64>,
    /// Topics that were deleted at some time.
    reborn: HashSet<String>,
    pub faults: Vec<String>,
    /// Those without a verdict.
    open: Vec<Id>,
}

/// How much may be expected of a story's end.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// No message is in a log twice.
    pub no_duplicates: bool,
    /// With acks=all: what was delivered stays.
    pub nothing_lost: bool,
    /// Offsets are known (not with acks=0).
    pub offsets: bool,
}

impl Entry {
    fn is_unknown(&self) -> bool {
        matches!(&self.verdict, Some((_, Verdict::Dropped(error))) if error.fate == Fate::Unknown)
    }
}

impl Ledger {
    pub fn accept(
        &mut self,
        entry: (&str, Option<Vec<u8>>, Vec<u8>, i64),
        block: &Arc<Block>,
        number: u32,
    ) -> Id {
        let (topic, key, value, timestamp) = entry;
        let block = Some(block.clone());
        let topic = topic.to_owned();
        self.entries.push(Entry { topic, key, value, timestamp, block, number, verdict: None });
        self.open.push(self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// Bytes that go back once the callback has heard of this.
    pub fn told(&mut self, settled: &Settled) -> u64 {
        let place = (settled.topic.to_string(), settled.partition);
        *self.told.entry(place).or_default() += u64::from(settled.count);
        match (&settled.outcome, settled.partition) {
            (SettledOutcome::Delivered { base_offset: Some(base), .. }, Some(partition)) => {
                let last = self.last_told.insert((settled.topic.clone(), partition), *base);
                let reborn = self.reborn.contains(&*settled.topic);
                if last.is_some_and(|last| last >= *base) && !reborn {
                    let topic = &settled.topic;
                    self.faults.push(format!("{topic}-{partition}: offset {base} told after {last:?}"));
                }
            }
            (SettledOutcome::Dropped { returned, .. }, _) => {
                let back: u64 = returned.iter().map(|back| back.messages().count() as u64).sum();
                if back != u64::from(settled.count) {
                    self.faults.push(format!("{} dropped, {back} handed back", settled.count));
                }
            }
            _ => {}
        }
        settled.charge
    }

    /// A topic was made anew: its offsets begin again, while answers from the old one may be on their way.
    pub fn forget_offsets(&mut self, topic: &str) {
        self.reborn.insert(topic.to_owned());
    }

    /// Takes in verdicts that are there now.
    pub fn look(&mut self, now: Duration) {
        for id in std::mem::take(&mut self.open) {
            let entry = &mut self.entries[id];
            let Some((outcome, place)) = entry.block.as_ref().and_then(|block| block.outcome(entry.number))
            else {
                self.open.push(id);
                continue;
            };
            let verdict = match outcome {
                Outcome::Delivered { topic, partition, base_offset, append_time } => {
                    if *topic != *entry.topic {
                        self.faults.push(format!("message {id} for {} delivered to {topic}", entry.topic));
                    }
                    let offset = base_offset.map(|base| base + i64::from(place));
                    Verdict::Delivered { partition, offset, append_time }
                }
                Outcome::Dropped { error, returned } => {
                    let back = returned.message(place);
                    let same = back.as_ref().is_some_and(|message| {
                        message.value.as_ref() == Some(&entry.value)
                            && message.key == entry.key
                            && message.timestamp == entry.timestamp
                    });
                    if !same {
                        self.faults.push(format!("message {id} came back as another one: {back:?}"));
                    }
                    Verdict::Dropped(error)
                }
                Outcome::Lost => Verdict::Lost,
            };
            entry.verdict = Some((now, verdict));
            entry.block = None;
        }
    }

    pub fn unsettled(&self) -> usize {
        self.open.len()
    }

    /// Every promise that can be seen at a story's end.
    pub fn check(&mut self, model: &Model, promise: Promise) {
        self.check_told();
        let logs = Logs::read(model);
        for (id, entry) in self.entries.iter().enumerate() {
            let found = logs.of(&entry.topic, &entry.value);
            let fault = match &entry.verdict {
                None => Some("no verdict".to_owned()),
                Some((_, verdict)) => wrong(entry, verdict, found, promise),
            };
            self.faults.extend(fault.map(|fault| format!("message {id}: {fault}")));
        }
        self.check_order(&logs, promise);
    }

    /// Each verdict is told once.
    fn check_told(&mut self) {
        let mut known: BTreeMap<(String, Option<i32>), u64> = BTreeMap::new();
        for entry in &self.entries {
            let partition = match &entry.verdict {
                Some((_, Verdict::Delivered { partition, .. })) => Some(*partition),
                Some((_, Verdict::Dropped(error))) => error.partition,
                Some((_, Verdict::Lost)) | None => continue,
            };
            *known.entry((entry.topic.clone(), partition)).or_default() += 1;
        }
        if known != self.told {
            self.faults.push(format!("verdicts: {known:?}, told: {:?}", self.told));
        }
    }

    fn check_order(&mut self, logs: &Logs, promise: Promise) {
        let ids: HashMap<&[u8], Id> =
            self.entries.iter().enumerate().map(|(id, entry)| (&entry.value[..], id)).collect();
        let mut faults = Vec::new();
        for ((topic, incarnation, partition), log) in &logs.logs {
            let mut seen = vec![false; self.entries.len()];
            let mut last = None;
            for message in log {
                let Some(&id) = message.value.as_deref().and_then(|value| ids.get(value)) else {
                    faults.push(format!(
                        "{topic}-{partition}: a message at {} that nobody sent",
                        message.offset
                    ));
                    continue;
                };
                if std::mem::replace(&mut seen[id], true) {
                    if promise.no_duplicates {
                        faults.push(format!("{topic}-{partition}: message {id} again at {}", message.offset));
                    }
                    continue;
                }
                if !promise.no_duplicates && self.entries[id].is_unknown() {
                    // Given up unanswered, with no sequence to keep its place: a busy broker may take it up at any time.
                    continue;
                }
                if last.is_some_and(|last| last > id) {
                    faults.push(format!("{topic}-{partition} ({incarnation}): message {id} behind {last:?}"));
                }
                last = Some(id);
            }
        }
        self.faults.extend(faults);
    }
}

/// What is wrong with a verdict, if anything.
fn wrong(entry: &Entry, verdict: &Verdict, found: &[Place], promise: Promise) -> Option<String> {
    match verdict {
        Verdict::Lost => Some("its verdict got lost".to_owned()),
        Verdict::Dropped(error) if error.fate == Fate::NotWritten && !found.is_empty() => {
            Some(format!("said not to be written ({error}), and it is at {}", found[0].message.offset))
        }
        Verdict::Dropped(_) => None,
        Verdict::Delivered { partition, offset: Some(offset), append_time } => {
            let place = found
                .iter()
                .find(|place| place.message.partition == *partition && place.message.offset == *offset);
            let Some(place) = place else {
                let told = format!("said to be at {offset} of {partition}, and it is not");
                return promise.nothing_lost.then_some(told);
            };
            if place.message.key != entry.key {
                return Some(format!("another key at {offset}"));
            }
            let stands = place.message.timestamp;
            let told = append_time.unwrap_or(entry.timestamp);
            (stands != told).then(|| format!("timestamp {told} told, {stands} in the log"))
        }
        Verdict::Delivered { partition, offset: None, .. } => {
            let there = found.iter().any(|place| place.message.partition == *partition);
            (promise.nothing_lost && !there).then(|| format!("said to be in {partition}, and it is not"))
        }
    }
}

/// All logs, those of deleted topics too.
struct Logs {
    /// Topic, incarnation and partition.
    logs: BTreeMap<(String, usize, i32), Vec<LoggedMessage>>,
    places: HashMap<(String, Vec<u8>), Vec<Place>>,
}

#[derive(Clone)]
struct Place {
    message: LoggedMessage,
}

impl Logs {
    fn read(model: &Model) -> Logs {
        let mut logs = Logs { logs: BTreeMap::new(), places: HashMap::new() };
        let names = model.topic_names();
        let current = names.iter().filter_map(|name| model.topic(name));
        for (incarnation, topic) in model.former.iter().chain(current).enumerate() {
            for (index, partition) in (0..).zip(&topic.partitions) {
                let messages = partition.messages(&topic.name, index).expect("a log that can be read");
                for message in &messages {
                    let value = message.value.clone().unwrap_or_default();
                    let places = logs.places.entry((topic.name.clone(), value)).or_default();
                    places.push(Place { message: message.clone() });
                }
                logs.logs.insert((topic.name.clone(), incarnation, index), messages);
            }
        }
        logs
    }

    fn of(&self, topic: &str, value: &[u8]) -> &[Place] {
        self.places.get(&(topic.to_owned(), value.to_vec())).map_or(&[], Vec::as_slice)
    }
}

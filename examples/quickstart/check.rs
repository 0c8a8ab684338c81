//! Compares the brokers' logs with what was sent and with what the receipts say.

use crate::send::{parse, Sent};
use crate::TOPICS;
use std::collections::HashMap;
use steadfast::testing::{Cluster, LoggedMessage};

/// More complaints than this say nothing new.
const WRONG_MAX: usize = 20;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Messages that their receipts call delivered.
    pub(crate) delivered: u64,
    /// Messages that are not in the log.
    pub(crate) lost: u64,
    /// Copies beyond the first.
    pub(crate) duplicated: u64,
    /// Messages behind a later one of their thread in the same partition.
    pub(crate) reordered: u64,
    /// Whatever else is wrong.
    pub(crate) wrong: Vec<String>,
}

impl Findings {
    pub(crate) fn wrong(&mut self, what: String) {
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }
}

/// Where a message is in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    topic: usize,
    partition: i32,
    offset: i64,
}

/// Where each message of each thread is.
type Places = Vec<Vec<Option<Place>>>;

/// Fills in what the logs and the receipts say.
pub(crate) fn compare(cluster: &Cluster, sent: &[Sent], findings: &mut Findings) {
    let mut places: Places = sent.iter().map(|sent| vec![None; sent.messages as usize]).collect();
    for (topic, (name, partitions)) in TOPICS.into_iter().enumerate() {
        let mut partition_of_key = HashMap::new();
        for partition in 0..partitions {
            let messages = cluster.messages_of(name, partition);
            for key in messages.iter().filter_map(|message| message.key.clone()) {
                if *partition_of_key.entry(key).or_insert(partition) != partition {
                    findings.wrong(format!("{name}: messages of one key in two partitions"));
                }
            }
            read_partition(topic, partition, messages, &mut places, findings);
        }
    }
    findings.lost = places.iter().flatten().filter(|place| place.is_none()).count() as u64;
    for (sent, places) in sent.iter().zip(&places) {
        if let Some(error) = &sent.error {
            findings.wrong(format!("a thread gave up: {error}"));
        }
        compare_receipts(sent, places, findings);
    }
}

fn read_partition(
    topic: usize,
    partition: i32,
    messages: Vec<LoggedMessage>,
    places: &mut Places,
    findings: &mut Findings,
) {
    let mut last = vec![None; places.len()];
    for message in messages {
        let place = Place { topic, partition, offset: message.offset };
        let whose = message.value.as_deref().and_then(parse);
        let slot = whose.and_then(|(thread, number)| places.get_mut(thread)?.get_mut(number as usize));
        let (Some((thread, number)), Some(slot)) = (whose, slot) else {
            findings.wrong(format!("{} offset {}: nobody sent this", TOPICS[topic].0, message.offset));
            continue;
        };
        if slot.is_some() {
            findings.duplicated += 1;
            continue;
        }
        *slot = Some(place);
        findings.reordered += u64::from(last[thread] > Some(number));
        last[thread] = last[thread].max(Some(number));
    }
}

fn compare_receipts(sent: &Sent, places: &[Option<Place>], findings: &mut Findings) {
    for call in &sent.calls {
        for (number, result) in (call.first..).zip(call.receipt.results()) {
            match (result, places[number as usize]) {
                (Some(Ok(delivered)), place) => {
                    findings.delivered += 1;
                    // No offset: the broker had the message already, and does not remember where.
                    let is_there = place.is_some_and(|place| {
                        (place.topic, place.partition) == (call.topic, delivered.partition)
                            && delivered.offset.is_none_or(|offset| offset == place.offset)
                    });
                    if !is_there {
                        findings.wrong(format!("not where its receipt says: {delivered:?}"));
                    }
                }
                (Some(Err(dropped)), _) => findings.wrong(format!("dropped: {}", dropped.error)),
                (None, _) => findings.wrong(format!("message {number} of a thread has no verdict")),
            }
        }
    }
}

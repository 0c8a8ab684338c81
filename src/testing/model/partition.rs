//! One partition: its leader, its replicas and its log.

use super::batch::{Batch, Record};
use super::code;
use super::producers::{Admission, Producers};

/// One partition of a topic.
#[derive(Debug)]
pub struct Partition {
    /// -1: none.
    pub leader: i32,
    pub leader_epoch: i32,
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    /// In order of offsets; empty where the log is only counted.
    pub log: Vec<Stored>,
    /// First offset that is still there.
    pub start: i64,
    /// The next offset.
    pub end: i64,
    /// Below this all in-sync replicas have it.
    pub committed: i64,
    /// What the log lost when a leader went away with what nobody else had.
    pub truncated: Vec<Stored>,
    /// Followers fetch nothing at the moment: what is appended stays uncommitted.
    pub replication_held: bool,
    producers: Producers,
    /// The log from here on is what producers are remembered by.
    producers_from: i64,
}

/// A batch in the log.
#[derive(Clone, Debug)]
pub struct Stored {
    pub base_offset: i64,
    pub batch: Batch,
    /// Where the topic keeps the broker's time.
    pub append_time: Option<i64>,
    pub leader_epoch: i32,
}

/// A topic's settings.
#[derive(Clone, Debug)]
pub struct TopicConfig {
    pub min_insync_replicas: usize,
    pub max_message_bytes: usize,
    /// `message.timestamp.type=LogAppendTime`.
    pub log_append_time: bool,
    /// `cleanup.policy=compact`: a message without a key is refused.
    pub compacted: bool,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: Option<i64>,
}

/// How an append goes.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub now: i64,
    pub acks: i16,
    /// Batches are kept, not only counted.
    pub keep: bool,
    /// Records are taken apart and checked, not only the header.
    pub check_records: bool,
    /// As brokers before 2.5: 59 to a producer that nothing is remembered of.
    pub refuse_unknown_producers: bool,
    /// It never reaches the other replicas.
    pub uncommitted: bool,
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: i64,
    /// -1: none.
    pub append_time: i64,
    pub duplicate: bool,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub code: i16,
    pub message: Option<String>,
    pub records: Vec<(i32, String)>,
    /// A producer that does as it should never causes it.
    pub violation: bool,
}

impl Refusal {
    pub fn code(code: i16) -> Refusal {
        Refusal { code, ..Refusal::default() }
    }
}

impl Partition {
    pub fn new(replicas: Vec<i32>) -> Partition {
        Partition {
            leader: replicas.first().copied().unwrap_or(-1),
            leader_epoch: 0,
            isr: replicas.clone(),
            replicas,
            log: Vec::new(),
            start: 0,
            end: 0,
            committed: 0,
            truncated: Vec::new(),
            replication_held: false,
            producers: Producers::default(),
            producers_from: 0,
        }
    }

    /// The leader's answer to a batch.
    pub fn append(&mut self, batch: &Batch, config: &TopicConfig, terms: Terms) -> Result<Appended, Refusal> {
        if terms.acks == -1 && self.isr.len() < config.min_insync_replicas {
            return Err(Refusal::code(code::NOT_ENOUGH_REPLICAS));
        }
        if batch.len() > config.max_message_bytes {
            return Err(Refusal::code(code::MESSAGE_TOO_LARGE));
        }
        check_records(batch, config, terms)?;
        match self.producers.admit(batch, terms.refuse_unknown_producers) {
            Admission::Append => {}
            Admission::Refuse(code) => return Err(Refusal::code(code)),
            // A broker answers with the time it remembers, whichever kind it is.
            Admission::Duplicate(known) => {
                if !self.replication_held && !terms.uncommitted {
                    self.committed = self.end;
                }
                let (base_offset, append_time) = (known.base_offset, known.timestamp);
                return Ok(Appended { base_offset, append_time, duplicate: true });
            }
        }
        Ok(self.take(batch, config, terms))
    }

    fn take(&mut self, batch: &Batch, config: &TopicConfig, terms: Terms) -> Appended {
        let base_offset = self.end;
        let append_time = config.log_append_time.then_some(terms.now);
        self.producers.remember(batch, base_offset, append_time.unwrap_or(batch.max_timestamp));
        self.end += i64::from(batch.count);
        if !self.replication_held && !terms.uncommitted {
            self.committed = self.end;
        }
        if terms.keep {
            let (batch, leader_epoch) = (batch.clone(), self.leader_epoch);
            self.log.push(Stored { base_offset, batch, append_time, leader_epoch });
        }
        Appended { base_offset, append_time: append_time.unwrap_or(-1), duplicate: false }
    }

    /// Followers catch up.
    pub fn replicate(&mut self) {
        self.replication_held = false;
        self.committed = self.end;
    }

    /// What only the old leader had is gone.
    pub fn lose_uncommitted(&mut self) {
        let kept = self.log.partition_point(|stored| stored.base_offset < self.committed);
        self.truncated.extend(self.log.drain(kept..));
        self.end = self.committed;
        self.producers.forget();
        for stored in self.log.iter().filter(|stored| stored.base_offset >= self.producers_from) {
            let timestamp = stored.append_time.unwrap_or(stored.batch.max_timestamp);
            self.producers.remember(&stored.batch, stored.base_offset, timestamp);
        }
    }

    /// Producers' ids expire, and with `log_too` retention takes the log: what it begins with moves to its end.
    pub fn forget_producers(&mut self, log_too: bool) {
        self.producers.forget();
        self.producers_from = self.end;
        if log_too {
            self.start = self.end;
        }
    }

    /// `broker` is away: out of the in-sync replicas (the last one stays), and no longer the leader.
    pub fn lose(&mut self, broker: i32, is_up: impl Fn(i32) -> bool) {
        if self.isr.len() > 1 {
            self.isr.retain(|&replica| replica != broker);
        }
        if self.leader == broker {
            self.elect(is_up);
        }
    }

    /// `broker` is back, and in sync.
    pub fn regain(&mut self, broker: i32, is_up: impl Fn(i32) -> bool) {
        if !self.replicas.contains(&broker) {
            return;
        }
        // With no leader there is nobody to catch up with: only who was in sync may lead.
        if self.leader < 0 {
            self.elect(is_up);
        }
        if self.leader >= 0 && !self.isr.contains(&broker) {
            self.isr.push(broker);
        }
    }

    /// The first replica that is in sync and up leads; none: nobody does.
    fn elect(&mut self, is_up: impl Fn(i32) -> bool) {
        let able = |replica: &&i32| self.isr.contains(replica) && is_up(**replica);
        let leader = self.replicas.iter().find(able).copied().unwrap_or(-1);
        self.lead(leader);
    }

    /// `leader` leads from now on, under a new epoch.
    pub fn lead(&mut self, leader: i32) {
        if leader != self.leader {
            self.leader = leader;
            self.leader_epoch += 1;
            self.committed = self.end; // whatever the new leader has is the log
        }
    }
}

/// What a broker looks at in the records themselves.
fn check_records(batch: &Batch, config: &TopicConfig, terms: Terms) -> Result<(), Refusal> {
    let latest = config.timestamp_after_max_ms.map_or(i64::MAX, |ms| terms.now.saturating_add(ms));
    let wanted = config.compacted || batch.max_timestamp > latest || terms.check_records;
    if !wanted || !batch.is_readable() {
        return Ok(());
    }
    let records = batch.records().map_err(|defect| Refusal {
        code: defect.code,
        message: Some(defect.what),
        violation: true,
        ..Refusal::default()
    })?;
    let late = |record: &&Record| record.timestamp > latest;
    let keyless = |record: &&Record| config.compacted && record.key.is_none();
    refuse_named(code::INVALID_TIMESTAMP, &records, late, "the timestamp is too far ahead")?;
    refuse_named(code::INVALID_RECORD, &records, keyless, "a compacted topic takes no message without a key")
}

fn refuse_named(
    code: i16,
    records: &[Record],
    wrong: impl Fn(&&Record) -> bool,
    why: &str,
) -> Result<(), Refusal> {
    let named: Vec<_> = records.iter().filter(wrong).map(|r| (r.offset_delta, why.to_owned())).collect();
    match named.is_empty() {
        true => Ok(()),
        false => Err(Refusal { code, message: Some(why.to_owned()), records: named, violation: false }),
    }
}

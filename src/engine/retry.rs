//! The only place that sends work back: what an attempt that failed means for its batch, and when it is tried again.
//!
//! Nothing moves here: a batch stays where it is in its partition, and becomes ready again.

use super::batch::{Batch, State};
use super::classify::{classify, Attempt, Ruling, Special, Verdict};
use super::io::Actions;
use super::partition::Mute;
use super::timers::Timer;
use super::Engine;
use crate::config::settings::RetryAmbiguous;
use crate::error::Cause;
use crate::protocol::error_code::ErrorCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An attempt that was not acknowledged.
#[derive(Debug)]
pub struct Failure {
    pub attempt: Attempt,
    pub cause: Cause,
    /// Where it was sent.
    pub node: usize,
    /// Places of the records that the broker named as bad, with its words.
    pub named: Vec<(i32, Option<Arc<str>>)>,
}

/// Each retry waits so many times longer than the one before.
const GROWTH: u32 = 3;

/// How much longer a pause may be by chance: upwards only, so that it outlasts what it is meant to outlast.
const JITTER: f64 = 0.2;

impl Engine {
    /// A request ended before its first byte was written: no attempt at all.
    pub(super) fn not_sent(&mut self, now: Instant, at: u32, id: u64, actions: &mut Actions) {
        let partition = &mut self.partitions[at as usize];
        if !partition.bury(id, false, now) {
            let Some(place) = partition.find_in_flight(id) else { return };
            partition.in_flight -= 1;
            partition.batches[place].state = State::Ready;
        }
        self.go_on(now, at, actions);
    }

    /// An attempt failed: judges it by the table and does what that says.
    pub(super) fn failed(&mut self, now: Instant, at: u32, id: u64, failure: Failure, actions: &mut Actions) {
        let partition = &mut self.partitions[at as usize];
        if partition.bury(id, false, now) {
            self.go_on(now, at, actions);
            return;
        }
        let Some(place) = partition.find_in_flight(id) else { return };
        let topic = partition.topic;
        partition.in_flight -= 1;
        let is_head = place == 0 && partition.tombstones.is_empty();
        let idempotent = partition.batches[place].sequence.is_some();
        let ruling =
            classify(failure.attempt, idempotent, self.settings.acks, &self.settings.class_overrides);
        let batch = &mut partition.batches[place];
        batch.state = State::Ready;
        batch.tries.attempts += 1;
        batch.tries.failed = true;
        batch.tries.ambiguous |= ruling.ambiguous;
        batch.tries.last = Some(failure.cause.clone());
        partition.last_failure = Some(failure.cause.clone());
        self.stats.on_failure(&failure.cause);
        if ruling.refresh {
            // Also when nothing is left that waits for it: the next message must not meet the same refusal.
            self.topics[topic as usize].doubted = true;
            self.refresh.want(now);
        }
        match ruling.special {
            Special::Split if batch.records > 1 => self.split(now, at, place, actions),
            Special::NamedRecords => self.thin_out(now, at, place, failure, actions),
            Special::RecoverSequence if idempotent && !is_head && is_follower(failure.attempt) => {
                // What comes before it has failed too, and is sent first; then this one's turn comes again.
            }
            special => {
                if special == Special::RecoverSequence && idempotent {
                    self.warn_of_loss(at, failure.attempt);
                    self.partitions[at as usize].sequencing.broken = true;
                }
                if special == Special::Renegotiate {
                    self.hang_up(
                        now,
                        failure.node,
                        "it does not take this version of Produce".into(),
                        None,
                        actions,
                    );
                }
                self.retry_or_drop(now, at, place, failure, ruling, actions);
            }
        }
        self.go_on(now, at, actions);
    }

    /// The oldest batch is out of order for a broker that acknowledged the one before: it has lost that, or forgotten it.
    fn warn_of_loss(&self, at: u32, attempt: Attempt) {
        let partition = &self.partitions[at as usize];
        if is_follower(attempt) && partition.sequencing.has_acknowledgement() && !partition.sequencing.broken
        {
            let (topic, index) = (&self.topics[partition.topic as usize].name, partition.index);
            log::warn!(
                "{topic}-{index}: the broker does not know what was acknowledged before; acknowledged messages may be gone \
                 from the log (an unclean leader election, a lost disk)"
            );
        }
    }

    fn retry_or_drop(
        &mut self,
        now: Instant,
        at: u32,
        place: usize,
        failure: Failure,
        ruling: Ruling,
        actions: &mut Actions,
    ) {
        let limit = self.settings.batch_retries_limit;
        let never = self.settings.retry_ambiguous == RetryAmbiguous::Never;
        let topic = self.partitions[at as usize].topic;
        let batch = &mut self.partitions[at as usize].batches[place];
        let Tally { counted, exhausted } = tally(batch, &failure, &ruling);
        let cause = with_hint(failure.cause.clone());
        if ruling.verdict == Verdict::Drop || exhausted {
            return self.drop_batch(now, at, place, cause, actions);
        }
        if ruling.ambiguous && batch.sequence.is_none() && never {
            return self.drop_batch(now, at, place, Cause::NotRetried { last: Box::new(cause) }, actions);
        }
        if counted {
            if limit.is_some_and(|limit| batch.tries.retries >= limit) {
                let limit = limit.unwrap_or(0);
                let cause = Cause::RetriesExhausted { limit, last: Box::new(cause) };
                return self.drop_batch(now, at, place, cause, actions);
            }
            batch.tries.retries += 1;
            self.stats.retries += 1;
        }
        if ruling.special == Special::UnknownTopic {
            self.topic_unknown(now, topic);
        }
        self.pause(now, at, place, &failure, ruling.verdict == Verdict::RetryAfterRefresh);
    }

    /// The partition waits before this batch is tried again, unless the view already knows better.
    fn pause(&mut self, now: Instant, at: u32, place: usize, failure: &Failure, not_leader: bool) {
        let broker = self.nodes[failure.node].id;
        let partition = &mut self.partitions[at as usize];
        let (leader, epoch) = (partition.leader, partition.leader_epoch);
        let batch = &mut partition.batches[place];
        let tries = &mut batch.tries;
        let mut refused_by = None;
        if not_leader {
            // The view may have moved on since the request was made; then this refusal says nothing about the new leader.
            let by = if leader == Some(broker) { epoch } else { -1 };
            let newest = tries.refused_by.map_or(by, |(_, before)| before.max(by));
            tries.refused_by = Some((broker, newest));
            tries.refusals += 1;
            refused_by = tries.refused_by;
            let elsewhere = leader.is_some() && leader != Some(broker);
            let newer = if epoch >= 0 { epoch > newest } else { tries.refusals <= 1 };
            if elsewhere && newer {
                return;
            }
        } else {
            tries.refusals = 0;
        }
        let nth = tries.retries.max(tries.refusals).max(1) - 1;
        let pause = self.backoff(nth);
        let until = now + pause;
        let reason: Arc<str> = format!("{}; trying again", failure.cause).into();
        self.partitions[at as usize].mute = Some(Mute { until, refused_by, reason });
        self.timers.set(until, Timer::Unmute(at));
        self.refresh.want(now);
    }

    /// The pause before retry number `nth` (from 0).
    fn backoff(&mut self, nth: u32) -> Duration {
        let (first, longest) = (self.settings.batch_retry_backoff, self.settings.batch_retry_backoff_max);
        let pause = first.saturating_mul(GROWTH.saturating_pow(nth.min(20))).min(longest.max(first));
        pause.mul_f64(1.0 + JITTER * self.rng.f64())
    }

    pub(super) fn on_unmute(&mut self, now: Instant, at: u32) {
        let partition = &mut self.partitions[at as usize];
        if partition.mute.as_ref().is_some_and(|mute| mute.until <= now) {
            partition.mute = None;
            self.enqueue(now, at);
        }
    }

    /// Leader, epoch or in-sync replicas have changed: a pause may be over.
    pub(super) fn end_pause_early(&mut self, at: u32) {
        let partition = &mut self.partitions[at as usize];
        let Some(mute) = &partition.mute else { return };
        let over = match mute.refused_by {
            None => true,
            Some((_, epoch)) if partition.leader_epoch >= 0 => {
                partition.leader.is_some() && partition.leader_epoch > epoch
            }
            Some((by, _)) => {
                let first = partition.batches.iter().all(|batch| batch.tries.refusals <= 1);
                first && partition.leader.is_some_and(|leader| leader != by)
            }
        };
        if over {
            partition.mute = None;
        }
    }

    /// After anything ended: the identity may have to change, and there may be more to send.
    pub(super) fn go_on(&mut self, now: Instant, at: u32, actions: &mut Actions) {
        let again = self.settings.retry_ambiguous == RetryAmbiguous::Always;
        while self.partitions[at as usize].must_change_identity() {
            self.identity.bump(self.partitions[at as usize].sequencing.identity, now);
            let lost = self.partitions[at as usize].change_identity(self.identity.current(), again);
            for place in lost {
                let batch = &self.partitions[at as usize].batches[place];
                let last = batch.tries.last.clone().unwrap_or(Cause::NoLeader);
                self.drop_only(now, at, place, Cause::SequenceLost { last: Box::new(last) }, actions);
            }
            // Dropping what had no number any more leaves no new hole, so this ends.
        }
        self.enqueue(now, at);
    }
}

/// What a code most often means, where the broker has no words of its own.
fn with_hint(cause: Cause) -> Cause {
    match cause {
        Cause::Refused { code: code @ ErrorCode::CorruptMessage, message: None, broker } => {
            let hint = "older brokers say this of a message without a key for a compacted topic";
            Cause::Refused { code, message: Some(hint.into()), broker }
        }
        cause => cause,
    }
}

/// Whether this refusal follows from an earlier batch's: the sequence is out of order because that one is missing.
fn is_follower(attempt: Attempt) -> bool {
    attempt == Attempt::Answered(ErrorCode::OutOfOrderSequenceNumber)
}

struct Tally {
    counted: bool,
    /// The code's own limit is used up.
    exhausted: bool,
}

/// Whether this failure counts against the limit, and whether the code's own limit is used up.
fn tally(batch: &mut Batch, failure: &Failure, ruling: &Ruling) -> Tally {
    let mut counted = ruling.counted;
    if ruling.special == Special::RecoverSequence {
        batch.tries.recoveries += 1;
        counted = batch.tries.recoveries > 1;
    }
    let mut exhausted = false;
    if let (Some(limit), Attempt::Answered(code)) = (ruling.limit, failure.attempt) {
        let repeats = match batch.tries.repeats {
            Some((before, count)) if before == code => count + 1,
            _ => 1,
        };
        batch.tries.repeats = Some((code, repeats));
        exhausted = repeats > limit;
    }
    Tally { counted, exhausted }
}

//! The producer id and epoch: whether the cluster grants one, and what comes after it.

use crate::config::settings::Idempotence;
use crate::protocol::error_code::ErrorCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits between two questions for an id.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A refusal that may be mended at the cluster (an ACL granted later) is asked about again after so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Codes that we don't understand are asked about so often before the answer counts as a refusal.
const STRANGE_ANSWERS: u32 = 5;

#[derive(Debug)]
pub struct Identity {
    state: State,
    required: bool,
    pause: Duration,
    strange: u32,
    /// What the last question came to, if not to an id.
    last: Option<String>,
    /// Epochs begun since the start.
    pub bumps: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Not idempotent; the words say why if that was not the user's own wish.
    Off(Option<Arc<str>>),
    /// To be asked for, not before `from`.
    Wanted {
        from: Instant,
    },
    /// Asked on some connection.
    Asked,
    Granted {
        producer_id: i64,
        epoch: i16,
    },
    /// Required, and refused: what is sent meanwhile is dropped with these words. Asked again from `again` on.
    Refused {
        reason: Arc<str>,
        again: Instant,
    },
}

impl Identity {
    pub fn new(idempotence: Idempotence, now: Instant) -> Identity {
        let state = match idempotence {
            Idempotence::Off => State::Off(None),
            Idempotence::Preferred | Idempotence::Required => State::Wanted { from: now },
        };
        Identity {
            state,
            required: idempotence == Idempotence::Required,
            pause: FIRST_PAUSE,
            strange: 0,
            last: None,
            bumps: 0,
        }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether batches carry sequences (or will, once the id is there).
    pub fn is_idempotent(&self) -> bool {
        !matches!(self.state, State::Off(_))
    }

    pub fn current(&self) -> Option<(i64, i16)> {
        match self.state {
            State::Granted { producer_id, epoch } => Some((producer_id, epoch)),
            _ => None,
        }
    }

    /// Whether requests can be made: there is an id, or none is needed.
    pub fn is_decided(&self) -> bool {
        matches!(self.state, State::Granted { .. } | State::Off(_))
    }

    pub fn wants_to_ask(&self, now: Instant) -> bool {
        self.next_question().is_some_and(|at| at <= now)
    }

    pub fn next_question(&self) -> Option<Instant> {
        match self.state {
            State::Wanted { from } => Some(from),
            State::Refused { again, .. } => Some(again),
            _ => None,
        }
    }

    pub fn asked(&mut self) {
        self.state = State::Asked;
    }

    /// The question got lost with its connection, for this reason.
    pub fn unanswered(&mut self, reason: String, now: Instant) {
        if self.state == State::Asked {
            self.last = Some(reason);
            self.wait(now);
        }
    }

    /// What is waited for until there is an id, in words.
    pub fn wish(&self) -> String {
        match &self.last {
            Some(last) => format!("waiting for a producer id ({last})"),
            None => "waiting for a producer id".into(),
        }
    }

    /// The cluster's answer. True: what is queued can go on (or has to be dropped: see `state`).
    pub fn answered(&mut self, error: ErrorCode, producer_id: i64, epoch: i16, now: Instant) -> bool {
        match error {
            ErrorCode::None if producer_id >= 0 && epoch >= 0 => {
                self.pause = FIRST_PAUSE;
                self.strange = 0;
                self.last = None;
                self.state = State::Granted { producer_id, epoch };
            }
            ErrorCode::None => self.refuse("the cluster answered with no producer id".into(), now),
            ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::RequestTimedOut
            | ErrorCode::NotController
            | ErrorCode::BrokerNotAvailable
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::ConcurrentTransactions
            | ErrorCode::ThrottlingQuotaExceeded
            | ErrorCode::NetworkException => {
                self.last = Some(format!("the cluster answered {error}"));
                self.wait(now);
                return false;
            }
            ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::UnsupportedVersion
            | ErrorCode::InvalidRequest => {
                let hint = match error {
                    ErrorCode::ClusterAuthorizationFailed => ": grant IDEMPOTENT_WRITE on the cluster",
                    _ => "",
                };
                self.refuse(format!("the cluster refuses a producer id with {error}{hint}").into(), now);
            }
            strange => {
                self.strange += 1;
                if self.strange < STRANGE_ANSWERS {
                    self.last = Some(format!("the cluster answered {strange}"));
                    self.wait(now);
                    return false;
                }
                self.refuse(format!("the cluster refuses a producer id with {strange}").into(), now);
            }
        }
        true
    }

    /// No id is to be had: what is queued goes on without one, or has to be dropped (see `state`).
    pub fn refuse(&mut self, reason: Arc<str>, now: Instant) {
        if self.required {
            log::warn!(
                "enable.idempotence is required, and {reason}; messages are dropped until that is mended"
            );
            self.state = State::Refused { reason, again: now + REFUSED_PAUSE };
        } else {
            log::warn!("not idempotent: {reason}; delivery is at least once (set enable.idempotence=false to say so)");
            self.state = State::Off(Some(reason));
        }
    }

    /// Begins the next epoch if `used` is the current one. At the end of the range a new id is asked for.
    pub fn bump(&mut self, used: Option<(i64, i16)>, now: Instant) {
        let State::Granted { producer_id, epoch } = self.state else { return };
        if used.is_some_and(|used| used != (producer_id, epoch)) {
            return;
        }
        self.bumps += 1;
        self.state = match epoch.checked_add(1) {
            // The broker's own limit: it hands out no epoch above this.
            Some(next) if next < i16::MAX => State::Granted { producer_id, epoch: next },
            _ => State::Wanted { from: now },
        };
    }

    fn wait(&mut self, now: Instant) {
        self.state = State::Wanted { from: now + self.pause };
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(now: Instant) -> Identity {
        let mut identity = Identity::new(Idempotence::Preferred, now);
        assert!(identity.wants_to_ask(now));
        identity.asked();
        assert!(identity.answered(ErrorCode::None, 9, 0, now));
        identity
    }

    #[test]
    fn epochs_are_begun_once_and_end_in_a_new_id() {
        let now = Instant::now();
        let mut identity = granted(now);
        identity.bump(Some((9, 0)), now);
        identity.bump(Some((9, 0)), now);
        assert_eq!(identity.current(), Some((9, 1)));
        while let Some(current) = identity.current() {
            identity.bump(Some(current), now);
        }
        assert!(identity.wants_to_ask(now));
        assert!(identity.is_idempotent() && !identity.is_decided());
    }

    #[test]
    fn a_refusal_switches_it_off_unless_required() {
        let now = Instant::now();
        for (wish, idempotent) in [(Idempotence::Preferred, false), (Idempotence::Required, true)] {
            let mut identity = Identity::new(wish, now);
            identity.asked();
            assert!(identity.answered(ErrorCode::ClusterAuthorizationFailed, -1, -1, now));
            assert_eq!(identity.is_idempotent(), idempotent);
            assert_eq!(identity.is_decided(), !idempotent);
            assert_eq!(identity.wants_to_ask(now + REFUSED_PAUSE), idempotent);
        }
    }

    #[test]
    fn it_says_what_the_last_question_came_to() {
        let now = Instant::now();
        let mut identity = Identity::new(Idempotence::Preferred, now);
        assert_eq!(identity.wish(), "waiting for a producer id");
        identity.asked();
        identity.unanswered("broker 1 went away".into(), now);
        assert_eq!(identity.wish(), "waiting for a producer id (broker 1 went away)");
        identity.asked();
        identity.answered(ErrorCode::CoordinatorLoadInProgress, -1, -1, now);
        assert!(identity.wish().ends_with("(the cluster answered COORDINATOR_LOAD_IN_PROGRESS (14))"));
    }

    #[test]
    fn what_may_pass_is_asked_again_with_growing_pauses() {
        let mut now = Instant::now();
        let mut identity = Identity::new(Idempotence::Preferred, now);
        for pause in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            identity.asked();
            assert!(!identity.answered(ErrorCode::CoordinatorLoadInProgress, -1, -1, now));
            assert_eq!(identity.next_question(), Some(now + Duration::from_millis(pause)));
            now += Duration::from_millis(pause);
        }
        for _ in 0..STRANGE_ANSWERS {
            identity.asked();
            identity.answered(ErrorCode::Unknown(999), -1, -1, now);
        }
        assert!(!identity.is_idempotent());
    }
}

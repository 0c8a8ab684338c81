//! What is to be done about an attempt to deliver a batch: the one table that every ending goes through.
//!
//! It is pure and complete: each code has its row, and a code that a later Kafka adds has one too. `docs/classification.md`
//! is printed from it.

use crate::config::settings::{Acks, Class};
use crate::protocol::error_code::ErrorCode;
use std::collections::HashMap;

#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;

/// How an attempt ended. An attempt is a request with the batch of which at least the first byte was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// The broker answered with this code, and with nothing that says it had appended the batch before.
    Answered(ErrorCode),
    /// The broker appended the batch, and answered with this code when it lost the partition while it waited for the
    /// replicas: the answer names an offset. The next leader may have the batch, or may not.
    AnsweredAfterAppend(ErrorCode),
    /// The connection was lost first.
    Disconnected,
    /// `request.timeout.ms` was over first.
    TimedOut,
}

impl Attempt {
    /// From a partition's answer. `base_offset` is -1 where the broker appended nothing.
    pub fn answered(code: ErrorCode, base_offset: i64) -> Attempt {
        match code {
            ErrorCode::NotLeaderOrFollower
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::KafkaStorageError
                if base_offset >= 0 =>
            {
                Attempt::AnsweredAfterAppend(code)
            }
            _ => Attempt::Answered(code),
        }
    }
}

/// What is done about an attempt, unless the ruling names a special way that can be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The messages are in the log.
    Delivered,
    /// The view of the cluster is refreshed. Again at once where it then names a newer leader than those that refused the
    /// batch, else after a backoff.
    RetryAfterRefresh,
    /// Again after a backoff.
    RetryAfterBackoff,
    /// The messages are handed back with the error.
    Drop,
}

/// A way that is tried before the verdict is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// None: the verdict is followed.
    None,
    /// The broker had the batch already; its offset is known only where the answer names it.
    Duplicate,
    /// A batch of several messages is cut into pieces, which are sent again. The verdict is for a single message.
    Split,
    /// The messages that the broker named are dropped and the others sent again. The verdict is for a batch of which it
    /// named none, or all, or a message that is not there.
    NamedRecords,
    /// The sequence numbers are put right (after what is in flight was answered, under a new producer epoch where they have
    /// a hole), then the batch goes again. Not counted once; the next time without an acknowledgement in between is.
    RecoverSequence,
    /// The topic may still appear: retried while its grace lasts (30 s), then dropped.
    UnknownTopic,
    /// The connection is closed; the next one agrees on the versions anew.
    Renegotiate,
    /// All connections are closed, and the cluster is looked for at `bootstrap.servers` again.
    Rebootstrap,
}

/// The table's word on one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What is done, unless `special` says more.
    pub verdict: Verdict,
    /// What is tried first.
    pub special: Special,
    /// Whether the view of the cluster is refreshed.
    pub refresh: bool,
    /// Whether the batch may be in the log all the same. If so and it is dropped, its fate is unknown; and without
    /// idempotence `retry_ambiguous` decides whether it is sent again at all.
    pub ambiguous: bool,
    /// Whether a repetition counts towards `batch_retries_limit`.
    pub counted: bool,
    /// How many repetitions this code gets at most, however many `batch_retries_limit` allows. None: no limit of its own.
    pub limit: Option<u32>,
    /// Why the table says so.
    pub reason: &'static str,
}

/// How often an answer is retried of which nobody knows whether it can pass.
const A_FEW: u32 = 3;

impl Ruling {
    const fn new(verdict: Verdict, reason: &'static str) -> Ruling {
        let retried = matches!(verdict, Verdict::RetryAfterRefresh | Verdict::RetryAfterBackoff);
        Ruling {
            verdict,
            special: Special::None,
            refresh: matches!(verdict, Verdict::RetryAfterRefresh),
            ambiguous: false,
            counted: retried,
            limit: None,
            reason,
        }
    }

    const fn special(self, special: Special) -> Ruling {
        Ruling { special, ..self }
    }

    const fn refreshing(self) -> Ruling {
        Ruling { refresh: true, ..self }
    }

    const fn ambiguous(self) -> Ruling {
        Ruling { ambiguous: true, ..self }
    }

    const fn uncounted(self) -> Ruling {
        Ruling { counted: false, ..self }
    }

    const fn at_most(self, limit: u32) -> Ruling {
        Ruling { limit: Some(limit), ..self }
    }
}

const fn delivered(reason: &'static str) -> Ruling {
    Ruling::new(Verdict::Delivered, reason)
}

const fn after_refresh(reason: &'static str) -> Ruling {
    Ruling::new(Verdict::RetryAfterRefresh, reason)
}

const fn after_backoff(reason: &'static str) -> Ruling {
    Ruling::new(Verdict::RetryAfterBackoff, reason)
}

const fn dropped(reason: &'static str) -> Ruling {
    Ruling::new(Verdict::Drop, reason)
}

/// Rules on an attempt.
///
/// `idempotent`: whether the batch carries a producer id. `overrides`: the classes that the user gave to single codes.
/// A code with a class of its own has no special way and no limit of its own; whether it leaves the batch's fate open is a
/// fact and stays. `NONE` and `DUPLICATE_SEQUENCE_NUMBER` can't be overridden, they are no failures.
pub fn classify(
    attempt: Attempt,
    idempotent: bool,
    acks: Acks,
    overrides: &HashMap<ErrorCode, Class>,
) -> Ruling {
    match attempt {
        Attempt::Answered(code) => with_overrides(code, idempotent, overrides),
        Attempt::AnsweredAfterAppend(code) => with_overrides(code, idempotent, overrides).ambiguous(),
        // With acks=0 a batch counts as delivered once it is written to the socket, so this one wasn't wholly written, and
        // a broker takes no part of a request.
        Attempt::Disconnected if acks == Acks::Zero => {
            after_backoff("a request of which only a part was written is not taken").refreshing()
        }
        Attempt::Disconnected => {
            after_backoff("the broker may have written it before the connection was lost; it may be down")
                .refreshing()
                .ambiguous()
        }
        Attempt::TimedOut => {
            after_backoff("the broker may still write it, hang, or be gone").refreshing().ambiguous()
        }
    }
}

fn with_overrides(code: ErrorCode, idempotent: bool, overrides: &HashMap<ErrorCode, Class>) -> Ruling {
    let ruling = rule(code, idempotent);
    if ruling.verdict == Verdict::Delivered || overrides.is_empty() {
        return ruling;
    }
    let reason = "set by the user";
    let of_the_user = match overrides.get(&code) {
        Some(Class::RetryAfterRefresh) => after_refresh(reason),
        Some(Class::RetryAfterBackoff) => after_backoff(reason),
        Some(Class::Drop) => dropped(reason),
        None => return ruling,
    };
    Ruling { ambiguous: ruling.ambiguous, ..of_the_user }
}

/// The table. No code is left to a wildcard: one that is added to `ErrorCode` must be given its row here.
#[rustfmt::skip] // one row a line
fn rule(code: ErrorCode, idempotent: bool) -> Ruling {
    use ErrorCode as E;
    match code {
        E::None => delivered("acknowledged"),
        E::DuplicateSequenceNumber => delivered("an earlier attempt was written").special(Special::Duplicate),

        // The leader is another one, or about to be.
        E::NotLeaderOrFollower => after_refresh("the leader has moved"),
        E::UnknownTopicOrPartition => after_refresh("the topic may be new and not known everywhere yet, or moved, or gone").special(Special::UnknownTopic),
        E::UnknownTopicId => after_refresh("the topic may be new and not known everywhere yet, or was made anew").special(Special::UnknownTopic),
        E::InconsistentTopicId => after_refresh("the topic was made anew: it has another id"),
        E::KafkaStorageError => after_refresh("the leader's disk failed; another replica will lead"),
        E::BrokerNotAvailable | E::ReplicaNotAvailable => after_refresh("the partition is being moved, or its broker starts or stops"),
        E::ListenerNotFound => after_refresh("the leader has no listener of this kind yet"),
        E::FencedLeaderEpoch => after_refresh("our view of the leader is old"),
        E::StaleBrokerEpoch => after_refresh("the broker has registered anew"),
        E::LeaderNotAvailable => after_backoff("a leader is being elected").refreshing(),
        E::UnknownLeaderEpoch => after_backoff("the broker's view is older than ours; it will catch up"),

        // The same leader may take it later.
        E::NotEnoughReplicas => after_backoff("nothing was written; replicas may come back into sync"),
        E::NotEnoughReplicasAfterAppend => after_backoff("the leader has it; replicas may come back into sync").ambiguous(),
        E::RequestTimedOut => after_backoff("the leader has it; the replicas were slow").ambiguous(),
        E::NetworkException => after_backoff("the same as a lost connection").refreshing().ambiguous(),
        E::ThrottlingQuotaExceeded => after_backoff("a quota is used up for now"),
        E::InvalidReplicationFactor => after_backoff("too few brokers are up to create the topic"),
        E::OperationNotAttempted => after_backoff("nothing was tried, because something else in the request failed"),
        E::CorruptMessage => after_backoff("damage on the way heals; a message without a key in a compacted topic, which older brokers report like this, does not").at_most(2),
        E::UnknownServerError if idempotent => after_backoff("nobody knows; the sequence makes a repetition safe").ambiguous().at_most(A_FEW),
        E::UnknownServerError => dropped("nobody knows, and a repetition could double it").ambiguous(),
        E::Unknown(_) => after_backoff("a code that is newer than this client: it may pass").ambiguous().at_most(A_FEW),

        // What the sequence numbers are for.
        E::OutOfOrderSequenceNumber if idempotent => after_backoff("a batch before it failed, or the broker lost its memory of the producer").special(Special::RecoverSequence).uncounted(),
        E::InvalidProducerEpoch if idempotent => after_backoff("the broker has seen a newer epoch of this producer").special(Special::RecoverSequence).uncounted(),
        E::UnknownProducerId if idempotent => after_backoff("retention removed what the broker knew of the producer").special(Special::RecoverSequence).uncounted(),
        E::OutOfOrderSequenceNumber | E::InvalidProducerEpoch | E::UnknownProducerId => dropped("makes no sense for a batch without a producer id"),

        // Smaller, or without the bad ones, it may pass.
        E::MessageTooLarge => dropped("above the topic's max.message.bytes").special(Special::Split),
        E::RecordListTooLarge => dropped("above the topic's segment.bytes").special(Special::Split),
        E::InvalidRecord => dropped("the broker's validation refused messages of the batch").special(Special::NamedRecords),
        E::InvalidTimestamp => dropped("timestamps of the batch are outside of what the topic allows").special(Special::NamedRecords),

        // The broker or the cluster is not the one we took it for.
        E::UnsupportedVersion => after_backoff("the broker was replaced by an older one").special(Special::Renegotiate).refreshing().at_most(1),
        E::RebootstrapRequired => after_refresh("the broker says that our view of the cluster is useless").special(Special::Rebootstrap),
        E::InconsistentClusterId => after_refresh("the address belongs to another cluster now").special(Special::Rebootstrap),

        // Said of the connection, not of the messages.
        E::UnsupportedSaslMechanism | E::IllegalSaslState | E::SaslAuthenticationFailed
        | E::DelegationTokenAuthDisabled | E::DelegationTokenNotFound | E::DelegationTokenOwnerMismatch
        | E::DelegationTokenRequestNotAllowed | E::DelegationTokenAuthorizationFailed | E::DelegationTokenExpired
            => after_backoff("says something of the connection, not of the messages; credentials may be put right"),
        E::PrincipalDeserializationFailure => after_backoff("a fault between brokers; more than one repetition won't help").at_most(1),

        // No repetition changes it.
        E::TopicAuthorizationFailed | E::ClusterAuthorizationFailed | E::GroupAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed
            => dropped("not allowed: a repetition would not be either"),
        E::InvalidTopicException => dropped("no topic can have this name, or clients may not write to it"),
        E::InvalidRequiredAcks => dropped("a wrong setting"),
        E::InvalidRequest => dropped("the broker can't read the request: a fault of this client, or of a proxy"),
        E::UnsupportedForMessageFormat => dropped("the topic's format can't hold the messages"),
        E::UnsupportedCompressionType => dropped("the broker does not take the codec"),
        E::PolicyViolation => dropped("a policy of the cluster forbids it"),
        E::InvalidPartitions | E::InvalidReplicaAssignment | E::InvalidConfig | E::TopicAlreadyExists
            => dropped("the topic can't be created like this"),
        E::SecurityDisabled => dropped("the cluster has no authorizer"),
        E::InvalidTxnState | E::InvalidProducerIdMapping | E::InvalidTransactionTimeout | E::ProducerFenced
        | E::TransactionalIdNotFound | E::TransactionAbortable
            => dropped("belongs to transactions, which this client does not make"),

        // Kafka calls these temporary; none of them belongs to an answer to Produce.
        E::ConcurrentTransactions | E::CoordinatorLoadInProgress | E::FetchSessionIdNotFound
        | E::InvalidFetchSessionEpoch | E::OffsetNotAvailable | E::UnstableOffsetCommit | E::FetchSessionTopicIdError
        | E::ShareSessionNotFound | E::InvalidShareSessionEpoch | E::ShareSessionLimitReached | E::NotController
            => after_backoff("not expected here, and temporary by Kafka's own word"),
        E::CoordinatorNotAvailable | E::NotCoordinator | E::TransactionCoordinatorFenced
        | E::PreferredLeaderNotAvailable | E::EligibleLeadersNotAvailable | E::ElectionNotNeeded
            => after_refresh("not expected here, and temporary by Kafka's own word"),

        // Neither does any of these, and they are not temporary.
        E::OffsetOutOfRange | E::InvalidFetchSize | E::StaleControllerEpoch | E::OffsetMetadataTooLarge
        | E::IllegalGeneration | E::InconsistentGroupProtocol | E::InvalidGroupId | E::UnknownMemberId
        | E::InvalidSessionTimeout | E::RebalanceInProgress | E::InvalidCommitOffsetSize | E::LogDirNotFound
        | E::ReassignmentInProgress | E::InvalidPrincipalType | E::NonEmptyGroup | E::GroupIdNotFound
        | E::TopicDeletionDisabled | E::MemberIdRequired | E::GroupMaxSizeReached | E::FencedInstanceId
        | E::NoReassignmentInProgress | E::GroupSubscribedToTopic | E::ResourceNotFound | E::DuplicateResource
        | E::UnacceptableCredential | E::InconsistentVoterSet | E::InvalidUpdateVersion | E::FeatureUpdateFailed
        | E::SnapshotNotFound | E::PositionOutOfRange | E::DuplicateBrokerRegistration | E::BrokerIdNotRegistered
        | E::IneligibleReplica | E::NewLeaderElected | E::OffsetMovedToTieredStorage | E::FencedMemberEpoch
        | E::UnreleasedInstanceId | E::UnsupportedAssignor | E::StaleMemberEpoch | E::MismatchedEndpointType
        | E::UnsupportedEndpointType | E::UnknownControllerId | E::UnknownSubscriptionId | E::TelemetryTooLarge
        | E::InvalidRegistration | E::InvalidRecordState | E::FencedStateEpoch | E::InvalidVoterKey
        | E::DuplicateVoter | E::VoterNotFound | E::InvalidRegularExpression | E::StreamsInvalidTopology
        | E::StreamsInvalidTopologyEpoch | E::StreamsTopologyFenced | E::GroupDeletionFailed
        | E::StreamsTopologyDescriptionUpdateFailed | E::ControllerIdNotRegistered
            => dropped("does not belong to an answer to Produce"),
    }
}

//! Kafka's error codes, all that Kafka 4.4 knows, each with its name and what it says in a few words.

use std::fmt;

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $text:literal;)*) => {
        /// An error code as brokers send it.
        ///
        /// Codes that are newer than this crate are kept as their number in `Unknown`. Make one from a number with
        /// `ErrorCode::from`, which never yields an `Unknown` with a known number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(
                #[doc = concat!("`", $name, "` (", $code, "): ", $text, ".")]
                $variant,
            )*
            /// A code that Kafka 4.4 does not have.
            Unknown(i16),
        }

        impl ErrorCode {
            /// Every code with a name, in ascending order of its number.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The number on the wire.
            pub const fn code(self) -> i16 {
                match self {
                    $(ErrorCode::$variant => $code,)*
                    ErrorCode::Unknown(code) => code,
                }
            }

            /// Kafka's name for it, `UNKNOWN` for a code that Kafka 4.4 does not have.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                    ErrorCode::Unknown(_) => "UNKNOWN",
                }
            }

            /// What it says, in a few words.
            pub const fn description(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $text,)*
                    ErrorCode::Unknown(_) => "a code that is newer than this client",
                }
            }
        }

        impl From<i16> for ErrorCode {
            fn from(code: i16) -> ErrorCode {
                match code {
                    $($code => ErrorCode::$variant,)*
                    other => ErrorCode::Unknown(other),
                }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR", "something unexpected went wrong inside the broker";
    None = 0, "NONE", "no error";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE", "the log does not reach to the offset that was asked for";
    CorruptMessage = 2, "CORRUPT_MESSAGE", "the checksum is wrong, the size is invalid, or a compacted topic got a message without a key";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION", "the broker does not have this topic or partition";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE", "a fetch asked for an impossible size";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE", "the partition has no leader at the moment";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER", "the broker does not lead the partition (any more)";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT", "the replicas did not confirm within the time the request gave";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE", "the broker is not available";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE", "the broker's replica of the partition is not available";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE", "the batch is larger than the topic's max.message.bytes";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH", "the controller has moved to another broker";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE", "the text beside a committed offset is too long";
    NetworkException = 13, "NETWORK_EXCEPTION", "the connection was lost before the answer came";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is still reading its state";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE", "the coordinator is not available";
    NotCoordinator = 16, "NOT_COORDINATOR", "the broker is not the coordinator asked for";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION", "the topic's name is invalid, or clients may not write to it";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE", "the batch is larger than the topic's segment.bytes";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS", "fewer replicas are in sync than min.insync.replicas; nothing was written";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "written, but then fewer replicas were in sync than min.insync.replicas";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS", "acks is none of 0, 1 and all";
    IllegalGeneration = 22, "ILLEGAL_GENERATION", "the consumer group is in another generation";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL", "the group's members share no protocol with this one";
    InvalidGroupId = 24, "INVALID_GROUP_ID", "the group's id is invalid";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID", "the group does not know this member";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT", "the session timeout is outside of what the broker allows";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS", "the group is being rebalanced";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE", "the offsets to commit take too many bytes";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED", "not allowed on this topic";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED", "not allowed on this group";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED", "not allowed on this cluster";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP", "a timestamp is further from the broker's clock than the topic allows";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM", "the broker does not have this SASL mechanism";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE", "the request does not fit the state of the authentication";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION", "the broker does not speak this version of the request";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS", "there is a topic of this name";
    InvalidPartitions = 37, "INVALID_PARTITIONS", "the number of partitions is invalid";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR", "the replication factor is invalid, or more than there are brokers";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT", "the assignment of replicas is invalid";
    InvalidConfig = 40, "INVALID_CONFIG", "the configuration is invalid";
    NotController = 41, "NOT_CONTROLLER", "the broker is not the controller";
    InvalidRequest = 42, "INVALID_REQUEST", "the broker can't make sense of the request";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "the topic's message format can't hold this";
    PolicyViolation = 44, "POLICY_VIOLATION", "a policy of the cluster forbids it";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "the batch does not follow on the last one that the broker has of this producer";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER", "the broker has the batch already";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH", "the producer's epoch is older than the one the broker knows";
    InvalidTxnState = 48, "INVALID_TXN_STATE", "the transaction is in a state that does not allow this";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING", "the producer id does not belong to the transactional id";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT", "the transaction timeout is longer than the broker allows";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS", "the transaction is busy with another operation";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED", "the transaction coordinator has been replaced";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "not allowed with this transactional id";
    SecurityDisabled = 54, "SECURITY_DISABLED", "the cluster has no authorizer";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED", "not tried, because another part of the request failed";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR", "the broker's disk failed";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND", "the broker has no such log directory";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED", "the credentials were refused";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID", "the broker knows nothing of this producer on this partition (any more)";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS", "the partition is being reassigned";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED", "delegation tokens are not enabled";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND", "the broker does not have this delegation token";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH", "the delegation token belongs to somebody else";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "this connection may not ask for delegation tokens";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "not allowed on this delegation token";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED", "the delegation token has expired";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE", "this kind of principal is not supported";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP", "the group has members";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND", "there is no such group";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND", "the broker does not have this fetch session";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH", "the fetch session is in another epoch";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND", "the leader has no listener like the one that was asked on";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED", "topics can't be deleted on this cluster";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH", "the request's leader epoch is older than the broker's";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH", "the request's leader epoch is newer than the broker's";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE", "the codec can't be used with this topic or version";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH", "the broker has registered anew since";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE", "a newly elected leader does not know the offset yet";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED", "the group wants a member id first";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not available";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED", "the group is full";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID", "another member uses the same group.instance.id";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica may become the leader";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED", "the partition has the leader it should have";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS", "no partition is being reassigned";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC", "the group still consumes the topic";
    InvalidRecord = 87, "INVALID_RECORD", "the broker's validation refused a message";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT", "a transaction on these offsets is still open";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED", "a quota is used up for now";
    ProducerFenced = 90, "PRODUCER_FENCED", "a newer producer uses the same transactional id";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND", "the request names something that does not exist";
    DuplicateResource = 92, "DUPLICATE_RESOURCE", "the request names something twice";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL", "the credential is not good enough";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET", "sender and receiver don't agree on who votes";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION", "the version to update to is invalid";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED", "the cluster's features could not be updated";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE", "one broker forwarded a principal that another could not read";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND", "there is no such snapshot";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE", "the snapshot does not reach to the position asked for";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID", "the broker has no topic with this id";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION", "another broker has this id";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED", "no broker with this id is registered";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID", "the partition's log belongs to another topic id";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID", "the broker belongs to another cluster";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND", "there is no such transactional id";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR", "a fetch session mixed topic ids with names";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA", "a replica may not join the in-sync ones";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED", "the partition got a new leader by this change";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE", "the offset is in tiered storage";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH", "the group has fenced this member's epoch";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID", "another member still holds this instance id";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR", "the group does not have this assignor";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH", "the member's epoch is stale";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE", "the request went to the wrong kind of endpoint";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE", "this kind of endpoint is not supported";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID", "the controller's id is not known";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID", "the telemetry subscription is not known or out of date";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE", "the telemetry pushed is too large";
    InvalidRegistration = 119, "INVALID_REGISTRATION", "the broker's registration is invalid";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE", "the transaction failed and can be aborted";
    InvalidRecordState = 121, "INVALID_RECORD_STATE", "the record is in a state that does not allow this acknowledgement";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND", "the broker does not have this share session";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH", "the share session is in another epoch";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH", "the share group's state is in another epoch";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY", "the voter's key belongs to another replica";
    DuplicateVoter = 126, "DUPLICATE_VOTER", "the voter is one already";
    VoterNotFound = 127, "VOTER_NOT_FOUND", "there is no such voter";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION", "the regular expression is invalid";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED", "what the client knows of the cluster is out of date: it should start from its bootstrap servers again";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY", "the streams topology is invalid";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH", "the streams topology's epoch is invalid";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED", "the streams topology's epoch is out of date";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED", "the broker has as many share sessions as it allows";
    GroupDeletionFailed = 134, "GROUP_DELETION_FAILED", "the group could not be deleted";
    StreamsTopologyDescriptionUpdateFailed = 135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "the streams topology's description could not be updated";
    ControllerIdNotRegistered = 136, "CONTROLLER_ID_NOT_REGISTERED", "no controller with this id is registered";
}

impl ErrorCode {
    /// What to do about it, for the refusals that somebody can do something about.
    pub const fn advice(self) -> Option<&'static str> {
        Some(match self {
            ErrorCode::MessageTooLarge => {
                "send smaller messages, compress them, or raise max.message.bytes of the topic"
            }
            ErrorCode::InvalidTopicException => {
                "check the topic's name; topics of Kafka's own can't be written to"
            }
            ErrorCode::RecordListTooLarge => "send smaller messages, or raise segment.bytes of the topic",
            ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
                "bring brokers back, or lower min.insync.replicas of the topic"
            }
            ErrorCode::TopicAuthorizationFailed => "allow this principal to write to the topic",
            ErrorCode::ClusterAuthorizationFailed => {
                "allow this principal IdempotentWrite on the cluster (older brokers ask for it), or set \
                 enable.idempotence=false"
            }
            ErrorCode::InvalidTimestamp => {
                "check the messages' timestamps and the clock, or the limits that the topic sets to them"
            }
            ErrorCode::UnsupportedForMessageFormat => "headers need a topic of message format 2 (Kafka 0.11)",
            ErrorCode::UnsupportedCompressionType => "choose another compression.type",
            ErrorCode::InvalidRecord => "a compacted topic takes no message without a key",
            ErrorCode::SaslAuthenticationFailed => "check the credentials",
            _ => return None,
        })
    }
}

/// `NOT_LEADER_OR_FOLLOWER (6)`
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

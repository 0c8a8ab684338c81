//! The error codes that a broker of the model gives of its own accord.

pub const NONE: i16 = 0;
pub const CORRUPT_MESSAGE: i16 = 2;
pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub const LEADER_NOT_AVAILABLE: i16 = 5;
pub const NOT_LEADER_OR_FOLLOWER: i16 = 6;
pub const REQUEST_TIMED_OUT: i16 = 7;
pub const MESSAGE_TOO_LARGE: i16 = 10;
pub const INVALID_TOPIC: i16 = 17;
pub const NOT_ENOUGH_REPLICAS: i16 = 19;
pub const INVALID_REQUIRED_ACKS: i16 = 21;
pub const INVALID_TIMESTAMP: i16 = 32;
pub const UNSUPPORTED_VERSION: i16 = 35;
pub const OUT_OF_ORDER_SEQUENCE: i16 = 45;
pub const INVALID_PRODUCER_EPOCH: i16 = 47;
pub const UNKNOWN_PRODUCER_ID: i16 = 59;
pub const UNSUPPORTED_COMPRESSION: i16 = 76;
pub const INVALID_RECORD: i16 = 87;
pub const UNKNOWN_TOPIC_ID: i16 = 100;
pub const REBOOTSTRAP_REQUIRED: i16 = 129;

//! A Kafka producer for blocking, threaded services.
// What only the tests look at is dead without them; with them, nothing may be. What they look at is no interface.
#![cfg_attr(not(feature = "testing"), allow(dead_code))]
#![cfg_attr(feature = "testing", allow(missing_docs))]
// Chunks cross the threads as pointers, and stay in their boxes all the way.
#![allow(clippy::vec_box)]

// In the order in which data meets them.
mod config;
mod control;
mod delivery;
mod engine;
mod error;
mod handover;
mod intake;
mod message;
mod net;
mod producer;
mod protocol;
mod stats;
#[cfg(feature = "testing")]
#[warn(missing_docs)]
pub mod testing;
mod worker;

pub use config::bootstrap::BootstrapServers;
pub use config::settings::{Acks, Class, Idempotence, RecoveryStrategy, RetryAmbiguous};
pub use config::Config;
pub use delivery::receipt::Receipt;
pub use delivery::run::DeliveryRun;
pub use engine::classify::{classify, Attempt, Ruling, Special, Verdict};
pub use error::{
    Cause, ConfigError, Delivered, DeliveryError, Dropped, Fate, FlushError, NotReady, SendError, StartError,
    TimestampType, WaitError,
};
pub use message::{Header, Message, OwnedMessage};
pub use producer::{Leftovers, Producer, ProducerBuilder, StopEnd, StopReport};
pub use protocol::compression::Codec;
pub use protocol::error_code::ErrorCode;
pub use stats::{BrokerStatus, LatencySummary, PartitionStatus, Stats, Status};

/// The crate's insides, for its own tests. No promises.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod internal {
    macro_rules! shown {
        ($($module:ident),*) => {
            $(pub mod $module {
                pub use crate::$module::*;
            })*
        };
    }
    shown!(config, control, delivery, engine, handover, intake, producer, protocol, worker);

    /// The cluster without its sockets.
    pub mod model {
        pub use crate::testing::model::*;
    }
}

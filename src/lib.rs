//! A Kafka producer for blocking, threaded services.
//!
//! **What it is.** Callers on any thread hand messages over and go on; one worker thread batches them, sends them,
//! judges every refusal and retries what can be saved. Each accepted message gets exactly one verdict: it is in the
//! log, in order and once, or it comes back with its bytes, the reason, and whether it may be in the log all the
//! same ([`Fate`]). Memory is bounded in bytes, idempotence is on by default, and there is no `unsafe`, no async
//! runtime, and no C in the default features.
//!
//! **What it is not.** A consumer, an admin client, a transactional producer. It speaks plain TCP: TLS and SASL are
//! not in this version.
//!
//! ```no_run
//! use std::time::Duration;
//! use steadfast::{Config, Message, Producer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let producer = Producer::new(Config::new("kafka-1:9092,kafka-2:9092"))?;
//! producer.wait_until_ready(&["orders"], Duration::from_secs(10))?; // only for those who want to fail at start-up
//!
//! // From any thread. Bytes are copied before the call returns; the receipt may be dropped.
//! let receipt = producer.send("orders", Message::keyed(b"customer 7", b"one more"))?;
//! let delivered = receipt.wait_one()?;
//! println!("partition {}, offset {:?}", delivered.partition, delivered.offset);
//!
//! // Many at once, and whoever never wants to wait.
//! drop(producer.send_messages("clicks", ["one", "two", "three"])?);
//! if let Err(refused) = producer.try_send("clicks", "four") {
//!     println!("nothing was accepted: {refused}");
//! }
//!
//! let report = producer.stop(Duration::from_secs(10));
//! println!("{} messages were left", report.left.len());
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  caller threads                              |  the worker thread (one)
//!  Producer::send_messages -> intake ==chunks==|=> worker -> route -> partitions -> requests -> connections ==> brokers
//!       borrowed messages     open chunk,      |   the      topic,    batches       Produce
//!                             byte budget      |   loop     partition               requests
//!                                              |                                                     |
//!  Receipt::wait / on_delivery <== outcomes <==|== delivery <-- retry <-- classify <-- answers <=====+
//!                                              |                (in place)  (pure table)
//! ```
//!
//! Where to go on: [`Config`] for settings, [`Producer`] for what can be called, [`Receipt`] and
//! [`ProducerBuilder::on_delivery`] for learning what became of messages, [`Cause`] and [`classify`] for what goes
//! wrong and what is done about it, [`Stats`] and [`Status`] for looking at it from outside, and the module
//! `testing` (feature `testing`) for a cluster inside your own tests. In the repository, `docs/semantics.md` says
//! exactly what is promised and what each setting costs, and `docs/architecture.md` is the way into the code.
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

/// The README's example must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

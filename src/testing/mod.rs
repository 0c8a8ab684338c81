//! A Kafka cluster inside your tests: real brokers on TCP ports of this machine, no download, no JVM, up in a millisecond.
//!
//! They hold what is sent, as messages to read back; they check what a broker checks (checksums, sequences of idempotent
//! producers, leaders, in-sync replicas, sizes); and they fail as brokers fail, when you order it.
//!
//! Needs the feature `testing`: put it under `[dev-dependencies]`.
//!
//! ```
//! use steadfast::testing::{Cluster, Fault, On, Times};
//! use steadfast::ErrorCode;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::start(3)?;
//! cluster.create_topic("orders", 1);
//! // The first batch is refused, and broker 2 is away.
//! let refused = Fault::error(ErrorCode::NotEnoughReplicas);
//! cluster.fault(On::partition("orders", 0), Times::Once, refused);
//! cluster.crash(2);
//!
//! // Here your service sends to `cluster.bootstrap()`.
//!
//! assert!(cluster.violations().is_empty());
//! for message in cluster.messages("orders") {
//!     println!("{} {:?}", message.offset, message.value);
//! }
//! # Ok(())
//! # }
//! ```

mod cluster;
pub(crate) mod model;
mod server;

pub use cluster::{Cluster, ClusterBuilder, Requests, TopicSpec};
pub use model::fault::{Fault, On, Tail, Times};
pub use model::request::Api;
pub use model::topics::LoggedMessage;
pub use model::versions::Versions;
pub use model::Arriving;

//! A Kafka cluster inside your tests: real brokers on TCP ports of this machine, no download, no JVM, up in a millisecond.
//!
//! They hold what is sent, as messages to read back; they check what a broker checks (checksums, sequences of idempotent
//! producers, leaders, in-sync replicas, sizes); and they fail as brokers fail, when you order it.
//!
//! Needs the feature `testing`: put it under `[dev-dependencies]`.
//!
//! ```
//! use std::time::Duration;
//! use steadfast::testing::{Cluster, Fault, On, Times};
//! use steadfast::{Config, ErrorCode, Producer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::start(3)?;
//! cluster.create_topic("orders", 2);
//! // The first batch for partition 0 is refused, its next one is stored and the answer lost, and broker 3 is away.
//! let orders = On::partition("orders", 0);
//! cluster.fault(orders.clone(), Times::Once, Fault::error(ErrorCode::NotEnoughReplicas));
//! cluster.fault(orders, Times::Once, Fault::close_after());
//! cluster.crash(3);
//!
//! // Your service comes here, with `cluster.bootstrap()` as its servers.
//! let producer = Producer::new(Config::new(cluster.bootstrap().as_str()))?;
//! for customer in ["anna", "ben", "anna"] {
//!     producer.send("orders", (customer.as_bytes(), &b"one pear"[..]))?;
//! }
//! assert!(producer.stop(Duration::from_secs(30)).is_clean());
//!
//! let messages = cluster.messages("orders");
//! assert_eq!(messages.len(), 3, "each of them once");
//! assert!(messages.iter().all(|message| message.value.as_deref() == Some(&b"one pear"[..])));
//! assert_eq!(cluster.violations(), [""; 0]);
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

//! What the integration tests share: real Kafka clusters, a proxy that cuts connections, a ledger of numbered messages.
//!
//! Each test binary takes what it needs of this, so what one of them leaves unused is not dead.
#![allow(dead_code, unused_imports, unreachable_pub)]

pub mod kafka;
pub mod ledger;
pub mod proxy;
pub mod wait;

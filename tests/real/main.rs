//! Tests against real Kafka, which they download once and start; see `support/kafka`.
#![cfg(unix)]
#![allow(unreachable_pub)] // a test binary exports nothing: `pub` only says what its parts share

#[path = "../support/mod.rs"]
mod support;

mod client;
mod harness;
mod model;

// One node.
mod codecs;
mod contents;
mod partitions;
mod refusals;
mod topics;
mod versions;

// Three nodes.
mod failover;
mod min_isr;
mod network;

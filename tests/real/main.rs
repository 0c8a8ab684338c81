//! Tests against real Kafka, which they download once and start; see `support/kafka`.
#![cfg(unix)]
#![allow(unreachable_pub)] // a test binary exports nothing: `pub` only says what its parts share

#[path = "../support/mod.rs"]
mod support;

#[path = "../examples/support.rs"]
#[allow(dead_code)] // as much of it as is needed here
mod programs;

mod client;
mod harness;
mod model;

// One node.
mod codecs;
mod command;
mod contents;
mod partitions;
mod refusals;
mod topics;
mod versions;

// Three nodes.
mod failover;
mod min_isr;
mod network;

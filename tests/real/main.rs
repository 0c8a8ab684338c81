//! Tests against real Kafka, which they download once and start.
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod harness;
mod model;

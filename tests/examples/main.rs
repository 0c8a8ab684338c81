//! Runs the examples as a newcomer would: as programs, against the embedded cluster.
#![cfg(unix)]

mod perf;
mod produce;
mod quickstart;
mod service;
mod support;

/// The part of `produce` that has tests of its own.
#[path = "../../examples/produce/input.rs"]
#[allow(dead_code, reason = "its own tests use a part of it")]
mod input;

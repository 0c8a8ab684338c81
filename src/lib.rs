//! A Kafka producer for blocking, threaded services.
#![allow(dead_code, missing_docs, unreachable_pub)] // while it is being built

// In the order in which data meets them.
mod config;
mod delivery;
mod engine;
mod error;
mod intake;
mod message;
mod net;
mod protocol;

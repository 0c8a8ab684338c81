//! The pure engine.
pub mod classify;
pub mod io;
pub mod partitioner;

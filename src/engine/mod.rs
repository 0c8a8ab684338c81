//! The pure engine.
pub mod io;

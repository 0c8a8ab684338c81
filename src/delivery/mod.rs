//! How callers learn what became of their messages.
pub mod block;

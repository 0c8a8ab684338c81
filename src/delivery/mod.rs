//! How callers learn what became of their messages.
pub mod block;
pub mod callback;
pub mod origin;
pub mod receipt;
pub mod run;

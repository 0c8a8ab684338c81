//! Where callers hand messages over.
pub mod budget;
pub mod chunk;
pub mod head;
pub mod topics;

//! The callers' side of the producer, with the real worker's loop and a stand-in for the engine behind it.

mod callback;
mod doors;
mod endings;
mod stand_in;
mod storm;
mod verdicts;

//! The embedded cluster behaves as a broker does: asked by an independent client, with and without sockets.

#![allow(unreachable_pub)] // modules of a test are read by that test alone

#[path = "embedded/client.rs"]
mod client;
#[path = "embedded/faults.rs"]
mod faults;
#[path = "embedded/produce.rs"]
mod produce;
#[path = "embedded/sockets.rs"]
mod sockets;

//! Stories over the engine in virtual time: what is promised, and what hurts.

#![allow(unreachable_pub)] // modules of a test are read by that test alone

#[path = "scenario/ledger.rs"]
mod ledger;
#[path = "scenario/network.rs"]
mod network;
#[path = "scenario/world.rs"]
mod world;

#[path = "scenario/basics.rs"]
mod basics;

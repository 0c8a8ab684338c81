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
#[path = "scenario/connections.rs"]
mod connections;
#[path = "scenario/endings.rs"]
mod endings;
#[path = "scenario/hostile.rs"]
mod hostile;
#[path = "scenario/idempotence.rs"]
mod idempotence;
#[path = "scenario/leaders.rs"]
mod leaders;
#[path = "scenario/negotiation.rs"]
mod negotiation;
#[path = "scenario/refusals.rs"]
mod refusals;
#[path = "scenario/retries.rs"]
mod retries;
#[path = "scenario/storm.rs"]
mod storm;
#[path = "scenario/topics.rs"]
mod topics;

//! What the worker needs of the engine.

use crate::control::Leftover;
use crate::engine::io::{Actions, Event};
use crate::engine::Engine;
use crate::stats::{Stats, Status};
use std::time::Instant;

/// The engine as the loop sees it: so the loop's own rules (when it sleeps, who wakes it, what becomes of everything when it
/// dies) are tested with a scripted one, without a cluster.
pub trait Core {
    /// Takes in what happened.
    fn absorb(&mut self, now: Instant, event: Event<'_>, actions: &mut Actions);
    /// Lets everything go on that can.
    fn advance(&mut self, now: Instant, actions: &mut Actions);
    /// When `advance` wants to be called again if nothing happens before.
    fn deadline(&self) -> Option<Instant>;
    /// Something is on its way that will give room back.
    fn has_work_in_flight(&self) -> bool;
    /// Whether these topics can be written to; if not, why.
    fn readiness(&mut self, topics: &[u32]) -> Result<(), String>;
    /// Messages that have their verdict.
    fn settled(&self) -> u64;
    fn stats(&self) -> Stats;
    fn status(&self, now: Instant) -> Status;
    /// What the end of the producer dropped.
    fn leftovers(&mut self) -> Vec<Leftover>;
}

impl Core for Engine {
    fn absorb(&mut self, now: Instant, event: Event<'_>, actions: &mut Actions) {
        Engine::absorb(self, now, event, actions);
    }

    fn advance(&mut self, now: Instant, actions: &mut Actions) {
        Engine::advance(self, now, actions);
    }

    fn deadline(&self) -> Option<Instant> {
        Engine::deadline(self)
    }

    fn has_work_in_flight(&self) -> bool {
        Engine::has_work_in_flight(self)
    }

    fn readiness(&mut self, topics: &[u32]) -> Result<(), String> {
        Engine::readiness(self, topics)
    }

    fn settled(&self) -> u64 {
        Engine::settled(self)
    }

    fn stats(&self) -> Stats {
        Engine::stats(self)
    }

    fn status(&self, now: Instant) -> Status {
        Engine::status(self, now)
    }

    fn leftovers(&mut self) -> Vec<Leftover> {
        let left = Engine::leftovers(self);
        left.into_iter().map(|(error, returned)| Leftover { error, returned }).collect()
    }
}

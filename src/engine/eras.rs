//! What a flush waits for: everything that was there when it was asked for, and nothing that came later.
//!
//! Each batch (and each parked run) belongs to the era of its oldest message; a flush ends the current era and is done when
//! nothing of that era, or of one before it, is left.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Eras {
    current: u64,
    /// Batches and parked runs without a verdict, by era.
    left: BTreeMap<u64, u64>,
    /// Era and ticket.
    flushes: Vec<(u64, u64)>,
}

impl Eras {
    /// Something new is here; it belongs to the era that is returned.
    pub fn enter(&mut self) -> u64 {
        self.enter_as(self.current)
    }

    /// Something takes part in an era that is under way: a piece of a batch, or messages that were parked.
    pub fn enter_as(&mut self, era: u64) -> u64 {
        *self.left.entry(era).or_default() += 1;
        era
    }

    pub fn leave(&mut self, era: u64) {
        if let Some(count) = self.left.get_mut(&era) {
            *count -= 1;
            if *count == 0 {
                self.left.remove(&era);
            }
        }
    }

    /// A flush begins: what comes from here on belongs to the next era.
    pub fn flush(&mut self, ticket: u64) {
        self.flushes.push((self.current, ticket));
        self.current += 1;
    }

    /// Whether somebody waits for this era: then it doesn't linger.
    pub fn is_waited_for(&self, era: u64) -> bool {
        self.flushes.iter().any(|(until, _)| era <= *until)
    }

    /// The flushes that are done.
    pub fn take_done(&mut self, done: &mut Vec<u64>) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.left.keys().next().copied();
        self.flushes.retain(|(era, ticket)| {
            let is_done = oldest.is_none_or(|oldest| oldest > *era);
            if is_done {
                done.push(*ticket);
            }
            !is_done
        });
    }

    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_what_was_there_and_for_nothing_else() {
        let mut eras = Eras::default();
        let mut done = Vec::new();
        let first = eras.enter();
        eras.flush(1);
        let second = eras.enter();
        assert!(eras.is_waited_for(first) && !eras.is_waited_for(second));
        eras.flush(2);
        let piece = eras.enter_as(first);
        eras.leave(second);
        eras.leave(first);
        eras.take_done(&mut done);
        assert_eq!(done, [] as [u64; 0]);
        eras.leave(piece);
        eras.take_done(&mut done);
        assert_eq!(done, [1, 2]);
        eras.flush(3);
        eras.take_done(&mut done);
        assert_eq!(done, [1, 2, 3]);
        assert!(eras.is_empty());
    }
}

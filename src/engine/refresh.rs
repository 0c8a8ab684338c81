//! When the view of the cluster is refreshed: at once when something waits for it, then about once a second.

use std::time::{Duration, Instant};

/// Between two questions while something waits: grows from the first to the second.
const FIRST_GAP: Duration = Duration::from_millis(100);
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// A node that has not answered for so long is not waited for: another one is asked beside it.
const HEDGE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Refresh {
    wanted: bool,
    /// What is wanted includes something that was never asked for: it need not wait as long as repetitions do.
    fresh: bool,
    gap: Duration,
    last_asked: Option<Instant>,
    /// Questions that are not answered: which node, since when.
    asking: Vec<(usize, Instant)>,
    pub last_success: Option<Instant>,
    /// When something was first wanted and not had since the last success: what re-bootstrap counts from.
    pub failing_since: Option<Instant>,
    max_age: Duration,
    started: Instant,
}

impl Refresh {
    pub fn new(max_age: Duration, now: Instant) -> Refresh {
        Refresh {
            wanted: false,
            fresh: false,
            gap: FIRST_GAP,
            last_asked: None,
            asking: Vec::new(),
            last_success: None,
            failing_since: None,
            max_age,
            started: now,
        }
    }

    /// Something waits for a newer view.
    pub fn want(&mut self, now: Instant) {
        self.wanted = true;
        self.failing_since.get_or_insert(now);
    }

    /// Something waits for the view of a topic that nobody was asked for yet.
    pub fn want_new(&mut self, now: Instant) {
        self.fresh = true;
        self.want(now);
    }

    /// The whole view may be wrong.
    pub fn doubt(&mut self, now: Instant) {
        self.last_success = None;
        self.want(now);
    }

    /// Whether the whole view is too old.
    pub fn is_old(&self, now: Instant) -> bool {
        self.last_success.is_some_and(|at| at + self.max_age <= now)
    }

    /// When the next question is to be asked.
    pub fn next(&self) -> Option<Instant> {
        let age = self.last_success.map(|at| at + self.max_age);
        let gap = if self.fresh { FIRST_GAP.min(self.gap) } else { self.gap };
        let wish = match self.wanted {
            true => Some(self.last_asked.map_or(self.started, |at| at + gap)),
            // What was asked for is still wanted while nobody answers.
            false => self.asking.iter().map(|(_, since)| *since + HEDGE).max(),
        };
        let at = match (wish, age) {
            (Some(wish), Some(age)) => wish.min(age),
            (wish, age) => wish.or(age)?,
        };
        // One question at a time, unless the one who was asked is silent; an old view alone is no hurry.
        let free = self.asking.iter().map(|(_, since)| *since + HEDGE).max();
        let paced = self.last_asked.map(|last| last + gap);
        Some([Some(at), free, paced].into_iter().flatten().max().unwrap_or(at))
    }

    /// Whether this node is being asked: then another one is better.
    pub fn is_asking(&self, node: usize) -> bool {
        self.asking.iter().any(|(n, _)| *n == node)
    }

    /// The whole need was put into a question to `node`.
    pub fn asked(&mut self, node: usize, now: Instant) {
        self.pace(now);
        (self.wanted, self.fresh) = (false, false);
        self.asking.push((node, now));
    }

    fn pace(&mut self, now: Instant) {
        let calm = self.last_asked.is_none_or(|last| now.saturating_duration_since(last) > 5 * LONGEST_GAP);
        self.gap = if calm { FIRST_GAP } else { (2 * self.gap).min(LONGEST_GAP) };
        self.last_asked = Some(now);
    }

    /// An answer that could be used.
    pub fn succeeded(&mut self, node: usize, now: Instant) {
        self.asking.retain(|(n, _)| *n != node);
        self.last_success = Some(now);
        self.failing_since = None;
    }

    /// The question came to nothing.
    pub fn failed(&mut self, node: usize, now: Instant) {
        let before = self.asking.len();
        self.asking.retain(|(n, _)| *n != node);
        if self.asking.len() < before {
            self.want(now);
        }
    }

    /// Starts anew from the addresses that the user gave.
    pub fn restart(&mut self, now: Instant) {
        self.asking.clear();
        self.gap = FIRST_GAP;
        self.failing_since = None;
        self.want(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_get_rarer_up_to_one_a_second() {
        let start = Instant::now();
        let mut refresh = Refresh::new(Duration::from_secs(300), start);
        assert_eq!(refresh.next(), None);
        let mut now = start;
        let mut gaps = Vec::new();
        for _ in 0..7 {
            refresh.want(now);
            let at = refresh.next().expect("wanted").max(now);
            gaps.push(at.duration_since(now).as_millis());
            now = at;
            refresh.asked(0, now);
            refresh.succeeded(0, now);
        }
        assert_eq!(gaps, [0, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(refresh.next(), Some(now + Duration::from_secs(300)));
    }

    #[test]
    fn what_was_never_asked_for_does_not_wait_its_turn() {
        let mut now = Instant::now();
        let mut refresh = Refresh::new(Duration::from_secs(300), now);
        for _ in 0..7 {
            refresh.want(now);
            now = refresh.next().expect("wanted").max(now);
            refresh.asked(0, now);
            refresh.succeeded(0, now);
        }
        refresh.want(now);
        assert_eq!(refresh.next(), Some(now + LONGEST_GAP));
        refresh.want_new(now);
        assert_eq!(refresh.next(), Some(now + FIRST_GAP));
        refresh.asked(0, now + FIRST_GAP);
        refresh.succeeded(0, now + FIRST_GAP);
        refresh.want(now + FIRST_GAP);
        assert_eq!(refresh.next(), Some(now + FIRST_GAP + LONGEST_GAP), "the others keep their pace");
    }

    #[test]
    fn a_silent_node_is_not_waited_for() {
        let now = Instant::now();
        let mut refresh = Refresh::new(Duration::from_secs(300), now);
        refresh.want(now);
        refresh.asked(3, now);
        refresh.want(now);
        assert_eq!(refresh.next(), Some(now + HEDGE));
        assert!(refresh.is_asking(3) && !refresh.is_asking(4));
        refresh.asked(4, now + HEDGE);
        refresh.succeeded(4, now + HEDGE);
        assert!(refresh.is_asking(3));
        refresh.failed(3, now + HEDGE);
        assert!(refresh.wanted);
    }
}

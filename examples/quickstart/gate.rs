//! Holds the senders back until the next fault has happened, so that every run meets all of them.

use std::sync::{Condvar, Mutex};

/// How many messages have been sent, and how many may be.
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    sent: u64,
    allowed: u64,
}

impl Gate {
    /// Closed.
    pub(crate) fn new() -> Gate {
        Gate { state: Mutex::new(State { sent: 0, allowed: 0 }), changed: Condvar::new() }
    }

    /// A sender's: waits until it may send so many more, and counts them as sent.
    pub(crate) fn pass(&self, messages: u64) {
        let state = self.state.lock().expect("nobody panics with it");
        let mut state =
            self.changed.wait_while(state, |s| s.sent >= s.allowed).expect("nobody panics with it");
        state.sent += messages;
        let told = state.sent >= state.allowed;
        drop(state);
        if told {
            self.changed.notify_all();
        }
    }

    /// Lets the senders go on until so many are sent, and waits for that.
    pub(crate) fn let_through(&self, until: u64) {
        let mut state = self.state.lock().expect("nobody panics with it");
        state.allowed = state.allowed.max(until);
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |s| s.sent < until).expect("nobody panics with it"));
    }

    /// Lets everything through.
    pub(crate) fn open(&self) {
        self.state.lock().expect("nobody panics with it").allowed = u64::MAX;
        self.changed.notify_all();
    }

    /// A sender has given up: nobody waits for what it will not send.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.lock().expect("nobody panics with it");
        (state.sent, state.allowed) = (u64::MAX / 2, u64::MAX);
        drop(state);
        self.changed.notify_all();
    }
}

//! Rounds of writers whose syncs take long: behind a sync, `BEGIN IMMEDIATE` goes first.
//!
//! # Why
//! A sync answers several processes at once, and so they come back at once. `BEGIN IMMEDIATE` must find everything durable: behind the first
//! commit of the others it waits for one sync more. In front of them it waits for none, and all have the next sync together.
//!
//! # Promises
//! 1. The others wait until as many have come as the last sync served, or until somebody gives a turn up; and for a part of a sync's time at most.
//! 2. Nobody waits behind [`ROUNDS`] rounds without a `BEGIN IMMEDIATE`.

use super::{WriterQueue, WriterQueueState};
use crate::sync::waiting::{Threads, Waits};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds for which a `BEGIN IMMEDIATE` makes others wait.
const ROUNDS: u32 = 16;

/// What is known of a round.
pub(super) struct Round<S: Waits = Threads> {
    /// Writers that the last sync served, and those that have come since.
    expected: usize,
    came: usize,
    /// Others than `BEGIN IMMEDIATE` wait until then.
    pub(super) until: Option<Instant>,
    pub(super) waiting: Vec<Arc<S::Condvar>>,
    /// Rounds that are still to wait.
    rounds: u32,
}

impl<S: Waits> Default for Round<S> {
    fn default() -> Round<S> {
        Round { expected: 0, came: 0, until: None, waiting: Vec::new(), rounds: 0 }
    }
}

impl<S: Waits> Round<S> {
    /// Nobody waits any more.
    pub(super) fn open(&mut self) {
        self.until = None;
        for wakes in self.waiting.drain(..) {
            S::notify_one(&wakes);
        }
    }
}

impl<S: Waits> WriterQueueState<S> {
    /// Everything is durable, and as many come back as are expected, within that time.
    pub(super) fn begin_round(&mut self, expected: usize, within: Duration) {
        self.round.open();
        (self.round.expected, self.round.came) = (expected, self.aside.len());
        if self.round.rounds > 0 && expected > self.round.came {
            self.round.rounds -= 1;
            self.round.until = Some(S::now() + within);
        }
    }
}

impl<S: Waits> WriterQueue<S> {
    /// A writer comes. One that does not go first may wait for those that do.
    pub fn come(&self, goes_first: bool) {
        let mut state = self.state();
        state.round.came += 1;
        if state.round.came >= state.round.expected {
            state.round.open();
        }
        if goes_first {
            state.round.rounds = ROUNDS;
            return;
        }
        let Some(until) = state.round.until else { return };
        let wakes = Arc::new(S::Condvar::default());
        state.round.waiting.push(wakes.clone());
        while state.round.until == Some(until) {
            if S::now() >= until {
                state.round.open();
                return;
            }
            S::wait_until(&wakes, &mut state, until);
        }
    }
}

//! Units of work, and the moments between them.
//!
//! A checkpoint takes the pages as they are while no unit is open. It closes the gate, waits for those inside, takes
//! the pages, and opens the gate. It does not write while the gate is closed.

use litefoot_storage::io::{Backoff, Monitor};

#[derive(Default)]
struct GateState {
    inside: usize,
    closed: bool,
}

#[derive(Default)]
pub(super) struct Gate {
    state: Monitor<GateState>,
}

impl Gate {
    /// Goes in; waits while the gate is closed.
    pub fn enter(&self) {
        self.state.wait(|state| {
            if state.closed {
                return None;
            }
            state.inside += 1;
            Some(())
        });
    }

    pub fn leave(&self) {
        self.state.change(|state| state.inside -= 1);
    }

    /// Closes the gate, unless it is closed, and waits until no unit is inside. `false` if that takes too long: a
    /// thread that waits for its own unit never sees it end.
    fn close(&self) -> bool {
        self.state.wait(|state| (!state.closed).then(|| state.closed = true));
        let mut backoff = Backoff::default();
        while self.state.look(|state| state.inside > 0) {
            if backoff.pause().is_err() {
                self.open();
                return false;
            }
        }
        true
    }

    fn open(&self) {
        self.state.change(|state| state.closed = false);
    }

    /// Does something while no unit is open; `None` where one does not end.
    pub fn between<R>(&self, what: impl FnOnce() -> R) -> Option<R> {
        if !self.close() {
            return None;
        }
        // Also when `what` panics.
        let _opened = Open(self);
        Some(what())
    }
}

struct Open<'a>(&'a Gate);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

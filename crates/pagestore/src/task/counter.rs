//! Counters of what is not done yet.

use litefoot_storage::io::Monitor;
use std::sync::Arc;

/// Counts what is pending; waits until nothing is.
#[derive(Clone, Default)]
pub struct Counter {
    pending: Arc<Monitor<u64>>,
}

impl Counter {
    /// Nothing pending.
    pub fn new() -> Counter {
        Counter::default()
    }

    /// One more is pending until the guard is dropped, also by a panic.
    pub fn begin(&self) -> Pending {
        self.pending.look(|pending| *pending += 1);
        Pending(self.clone())
    }

    /// The number of pending tasks.
    pub fn pending(&self) -> u64 {
        self.pending.look(|pending| *pending)
    }

    /// Waits until nothing is pending.
    pub fn wait(&self) {
        self.pending.wait(|pending| (*pending == 0).then_some(()));
    }
}

/// One that is pending.
pub struct Pending(Counter);

impl Drop for Pending {
    fn drop(&mut self) {
        let counter = &self.0.pending;
        // Only the last one is waited for.
        if counter.look(|pending| {
            *pending -= 1;
            *pending == 0
        }) {
            counter.change(|_| ());
        }
    }
}

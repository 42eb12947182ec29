//! Waiting for somebody who holds something, by looking again: bounded, and leaving the thread to other fibers.

use super::{in_fiber, yield_now};
use std::time::{Duration, Instant};

/// Longest wait. Whoever waits longer waits for itself.
const MOST: Duration = Duration::from_secs(10);
/// Times to look again before sleeping.
const LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

#[derive(Default)]
pub(crate) struct Patience {
    looks: u32,
    since: Option<Instant>,
}

impl Patience {
    /// Lets others go on.
    ///
    /// # Errors
    /// How long it has waited, where that is long enough.
    pub fn pause(&mut self) -> Result<(), Duration> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited > MOST {
            return Err(waited);
        }
        self.looks += 1;
        yield_now();
        // In a fiber, those that could let go may be on this very thread: it sleeps less.
        if self.looks > LOOKS && (!in_fiber() || self.looks.is_multiple_of(LOOKS)) {
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

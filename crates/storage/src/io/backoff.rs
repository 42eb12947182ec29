//! Backoff: waiting by looking again, bounded, and leaving the thread to other tasks.

use super::scheduler::{in_task, yield_now};
use std::time::{Duration, Instant};

/// Longest wait. A longer one is a wait for oneself.
const MOST: Duration = Duration::from_secs(10);
/// Times to look again before sleeping.
const LOOKS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// Backoff: the length of a wait so far, and the kind of its next pause.
#[derive(Default)]
pub struct Backoff {
    looks: u32,
    since: Option<Instant>,
}

impl Backoff {
    /// Lets others go on.
    ///
    /// # Errors
    /// The time waited, where that is long enough.
    pub fn pause(&mut self) -> Result<(), Duration> {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited > MOST {
            return Err(waited);
        }
        self.looks += 1;
        yield_now();
        // In a task, the lock may belong to another task of this very thread: it sleeps less.
        if self.looks > LOOKS && (!in_task() || self.looks.is_multiple_of(LOOKS)) {
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

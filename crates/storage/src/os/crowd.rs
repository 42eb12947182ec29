//! Whether other threads have more to do than there are processors.
//!
//! # Why
//! To wake a thread takes as long as most answers of another process do. So a thread that waits for one looks for it, and lets others run in between. But
//! where all processors are busy it is behind all of these then, and each runs for milliseconds. A thread that sleeps goes first once it is woken.
//!
//! # What it promises
//! 1. Where a thread that has let others run was kept waiting, no thread of the process does so for [`LASTS`].
//! 2. It is a guess. A wrong one costs time, and nothing else.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that lets others run is back within this time, unless one of them has had its turn.
const A_TURN: Duration = Duration::from_micros(200);
/// For how long others are taken to be there.
const LASTS: Duration = Duration::from_millis(100);

/// What is known of others.
pub(super) struct Crowd {
    /// Until when they are taken to be there, in microseconds of a clock.
    until: AtomicU64,
}

/// That of this process.
static CROWD: Crowd = Crowd::new();

impl Crowd {
    const fn new() -> Crowd {
        Crowd { until: AtomicU64::new(0) }
    }

    fn is_there(&self, now: Duration) -> bool {
        (now.as_micros() as u64) < self.until.load(Ordering::Relaxed)
    }

    /// A thread has let others run.
    fn note(&self, before: Duration, now: Duration) {
        if now.saturating_sub(before) >= A_TURN {
            self.until.store((now + LASTS).as_micros() as u64, Ordering::Relaxed);
        }
    }
}

/// The time since this was asked first.
fn now() -> Duration {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    BEGINNING.get_or_init(Instant::now).elapsed()
}

/// Lets other threads run, for a moment; `false` where there are too many of them, and the thread should sleep.
pub(super) fn let_others_run() -> bool {
    let before = now();
    if CROWD.is_there(before) {
        return false;
    }
    std::thread::yield_now();
    CROWD.note(before, now());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_there_for_a_while_once_a_thread_was_kept_waiting() {
        let (crowd, ms) = (Crowd::new(), Duration::from_millis);
        let us = Duration::from_micros;
        for (before, now, then, is_there) in [
            (ms(5), ms(5) + us(199), ms(6), false),
            (ms(10), ms(10) + us(200), ms(11), true),
            (ms(20), ms(20) + us(1), ms(100), true),
            (ms(100), ms(100), ms(110), true),
            (ms(110), ms(110), ms(111), false),
            (ms(200), ms(207), ms(306), true),
            (ms(306), ms(306), ms(307), false),
        ] {
            crowd.note(before, now);
            assert_eq!(crowd.is_there(then), is_there, "{before:?} {now:?} {then:?}");
        }
    }
}

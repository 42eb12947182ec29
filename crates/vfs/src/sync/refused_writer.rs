//! A writer that was refused the write lock waits in the writer queue, where SQLite lets it sleep.
//!
//! # Why
//! SQLite asks for the write lock once a statement has its snapshot. To wait there would be in vain: the snapshot is old
//! afterwards. So SQLite gives the snapshot up, and its busy handler sleeps 1, 2, 5, … ms before the next attempt. That is
//! the moment to wait in line: a refused attempt leaves a note for its thread, and the thread's next sleep follows it.
//!
//! # Promises
//! 1. A sleep ends early only where the writer has the ticket of the queue, with which the next attempt succeeds. SQLite's
//!    handler counts attempts, and takes each for as long as it has asked to sleep: so its timeout stays true.
//! 2. A writer that was refused though it had the ticket leaves no note: its next sleep is a plain one.
//! 3. No sleep is longer than it would be.
//! 4. The ticket expires after [`UNUSED_TURN`]. A thread that sleeps for another reason, and does not come back, stops nobody for
//!    longer.
//!
//! # Limits
//! An application that sleeps by `sqlite3_sleep` may end on the note of its last attempt. So a note counts for
//! [`NOTE_LASTS`] only, and for sleeps of at most [`LONGEST_SLEEP`]. A busy handler that sleeps by other means, and a VFS on
//! top with an `xSleep` of its own, wait as with SQLite alone.

use crate::sync::writer_queue::{UNUSED_TURN, WriterId, WriterQueue};
use litefoot_storage::fork;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest sleep of SQLite's busy handler.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// How long after the attempt SQLite's busy handler has begun to sleep.
const NOTE_LASTS: Duration = Duration::from_millis(10);

/// An attempt of this thread to take the write lock that was refused.
struct Refused {
    queue: Arc<WriterQueue>,
    writer: WriterId,
    /// The time of the first of its attempts in a row.
    since: Instant,
    at: Instant,
    process: u32,
}

thread_local! {
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
}

/// Attempts of one connection in a row that were refused: the first and the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempts {
    first: Instant,
    last: Instant,
}

impl Attempts {
    /// Another attempt. It belongs to those before where SQLite can have slept since.
    pub fn another(before: Option<Attempts>, now: Instant) -> Attempts {
        let in_a_row = before.filter(|before| now.saturating_duration_since(before.last) < 2 * LONGEST_SLEEP);
        Attempts { first: in_a_row.map_or(now, |before| before.first), last: now }
    }

    /// The time of the first.
    pub fn first(self) -> Instant {
        self.first
    }
}

/// Leaves a note that an attempt of this thread was refused.
pub(crate) fn note(queue: &Arc<WriterQueue>, writer: WriterId, attempts: Attempts) {
    let refused = Refused {
        queue: queue.clone(),
        writer,
        since: attempts.first,
        at: attempts.last,
        process: fork::generation(),
    };
    // A thread that ends has no use for it.
    let _ = REFUSED.try_with(|note| note.set(Some(refused)));
}

/// True if this thread has a note for its next sleep.
pub(crate) fn has_note() -> bool {
    REFUSED
        .try_with(|note| {
            let refused = note.take();
            let is_there = refused.is_some();
            note.set(refused);
            is_there
        })
        .unwrap_or(false)
}

/// Sleeps for `time` by waiting in the queue that the note names; `false` where there was no note that counts, or no wait,
/// and nothing was done.
pub(crate) fn sleeps_in_queue(time: Duration) -> bool {
    let Ok(Some(refused)) = REFUSED.try_with(Cell::take) else { return false };
    if !counts(time, refused.at.elapsed()) || refused.process != fork::generation() {
        return false;
    }
    let begun = Instant::now();
    let has_turn = refused.queue.await_turn(refused.writer, refused.since, time, UNUSED_TURN);
    has_turn || begun.elapsed() >= time
}

/// True for a sleep that follows a refused attempt.
fn counts(sleep: Duration, age: Duration) -> bool {
    !sleep.is_zero() && sleep <= LONGEST_SLEEP && age <= NOTE_LASTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_note_counts_for_the_sleep_of_a_busy_handler() {
        let ms = Duration::from_millis;
        for (sleep, age, expected, what) in [
            (ms(1), ms(0), true, "SQLite's first"),
            (ms(100), ms(10), true, "its longest"),
            (ms(101), ms(0), false, "a sleep of the application"),
            (ms(1), ms(11), false, "much later"),
            (ms(0), ms(0), false, "none"),
        ] {
            assert_eq!(counts(sleep, age), expected, "{what}");
        }
    }

    #[test]
    fn attempts_in_a_row_keep_their_place() {
        let now = Instant::now();
        let first = Attempts::another(None, now);
        let second = Attempts::another(Some(first), now + LONGEST_SLEEP);
        assert_eq!((second.first, second.last), (now, now + LONGEST_SLEEP));
        let later = now + LONGEST_SLEEP * 3;
        assert_eq!(Attempts::another(Some(second), later).first, later, "another transaction");
    }

    fn note_now(queue: &Arc<WriterQueue>, writer: WriterId) {
        note(queue, writer, Attempts::another(None, Instant::now()));
    }

    #[test]
    fn a_sleep_ends_early_with_the_ticket_only() {
        let queue = Arc::new(<WriterQueue>::default());
        assert!(!sleeps_in_queue(LONGEST_SLEEP), "no note");
        note_now(&queue, 1);
        assert!(sleeps_in_queue(LONGEST_SLEEP) && queue.has_turn(1));
        assert!(!sleeps_in_queue(LONGEST_SLEEP), "a note is for one sleep");
        queue.leave(1);

        queue.enter(1, LONG);
        queue.writes(1);
        let other = queue.clone();
        let time = Duration::from_millis(30);
        std::thread::spawn(move || {
            note_now(&other, 2);
            let begun = Instant::now();
            assert!(sleeps_in_queue(time));
            assert!(begun.elapsed() >= time && !other.has_turn(2), "no ticket");
            note_now(&other, 2);
            assert!(!sleeps_in_queue(LONG), "a sleep of the application is not ours");
        })
        .join()
        .unwrap();
        note_now(&queue, 2);
        assert!(!sleeps_in_queue(time), "a thread does not wait for itself");
    }

    #[test]
    fn a_ticket_that_is_not_used_stops_the_others_for_a_moment() {
        let queue = Arc::new(<WriterQueue>::default());
        note_now(&queue, 1);
        assert!(sleeps_in_queue(LONGEST_SLEEP));
        let other = queue.clone();
        std::thread::spawn(move || {
            assert!(!other.may_write(2), "the ticket is another's");
            note_now(&other, 2);
            assert!(other.await_turn(2, Instant::now(), LONG, LONG), "it has expired");
        })
        .join()
        .unwrap();
    }
}

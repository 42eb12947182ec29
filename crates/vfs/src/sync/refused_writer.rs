//! A writer that was refused the write lock waits in the writer queue, where SQLite lets it sleep.
//!
//! # Why
//! SQLite asks for the write lock once a statement has its snapshot. To wait there would be in vain: the snapshot is old
//! afterwards. So SQLite gives the snapshot up, and its busy handler sleeps 1, 2, 5, … ms before the next attempt. That is
//! the moment to wait in line: a refused attempt leaves a note for its thread, and the thread's next sleep follows it.
//!
//! With a rollback journal a writer is refused once more, when it commits beside readers. Those that wait in line are readers for a
//! moment, too, at each of their attempts: SQLite asks for SHARED before RESERVED. Such a writer waits for the last reader of this
//! process to leave.
//!
//! # Promises
//! 1. A sleep ends early only where the next attempt succeeds: the writer has the ticket of the queue, or has met readers of this
//!    process, which have left. SQLite's handler counts attempts, and takes each for as long as it has asked to sleep: so its
//!    timeout stays true.
//! 2. A writer that was refused though it had the ticket, or though no reader of this process was there, leaves no note: its next
//!    sleep is a plain one. Another process is in its way.
//! 3. No sleep is longer than it would be.
//! 4. The ticket expires after [`UNUSED`]. A thread that sleeps for another reason, and does not come back, stops nobody for
//!    longer.
//!
//! # Limits
//! An application that sleeps by `sqlite3_sleep` may end on the note of its last attempt. So a note counts for
//! [`NOTE_LASTS`] only, and for sleeps of at most [`LONGEST_SLEEP`]. A busy handler that sleeps by other means, and a VFS on
//! top with an `xSleep` of its own, wait as with SQLite alone.

use crate::sync::lock_table::ReaderSlot;
use crate::sync::writer_queue::{WriterId, WriterQueue};
use litefoot_storage::fork;
use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest sleep of SQLite's busy handler.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// How long after the attempt SQLite's busy handler has begun to sleep.
const NOTE_LASTS: Duration = Duration::from_millis(10);
/// How long a ticket lasts that is not used.
const UNUSED: Duration = Duration::from_millis(10);

/// The handles of a database.
pub(crate) trait Handles: Send + Sync {
    /// True if no handle but that one has any lock.
    fn is_alone(&self, reader_slot: &ReaderSlot) -> bool;
}

/// An attempt of this thread to take a lock that was refused.
struct Refused {
    queue: Arc<WriterQueue>,
    awaited: Awaited,
    at: Instant,
    process: u32,
}

/// What a refused attempt waits for.
enum Awaited {
    Turn {
        writer: WriterId,
        /// The time of the first of its attempts in a row.
        since: Instant,
    },
    /// That no other handle is inside. The database is not kept alive: its files are locked.
    Readers { handles: Weak<dyn Handles>, own: Arc<ReaderSlot> },
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
}

/// Leaves a note that an attempt of this thread was refused.
pub(crate) fn note(queue: &Arc<WriterQueue>, writer: WriterId, attempts: Attempts) {
    leave(queue, Awaited::Turn { writer, since: attempts.first }, attempts.last);
}

/// Leaves a note that this thread has the write lock, and was refused for readers.
pub(crate) fn note_readers(queue: &Arc<WriterQueue>, handles: Weak<dyn Handles>, own: Arc<ReaderSlot>) {
    leave(queue, Awaited::Readers { handles, own }, Instant::now());
}

fn leave(queue: &Arc<WriterQueue>, awaited: Awaited, at: Instant) {
    let refused = Refused { queue: queue.clone(), awaited, at, process: fork::generation() };
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
    let has_come = match refused.awaited {
        Awaited::Turn { writer, since } => refused.queue.await_turn(writer, since, time, UNUSED),
        Awaited::Readers { handles, own } => handles
            .upgrade()
            .is_some_and(|handles| refused.queue.await_readers(time, || handles.is_alone(&own))),
    };
    has_come || begun.elapsed() >= time
}

/// True for a sleep that follows a refused attempt.
fn counts(sleep: Duration, age: Duration) -> bool {
    !sleep.is_zero() && sleep <= LONGEST_SLEEP && age <= NOTE_LASTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::lock_table::{Level, LockTable};

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
        let queue = Arc::new(WriterQueue::default());
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

    /// Two handles, one of which writes.
    struct Two(LockTable);

    impl Handles for Two {
        fn is_alone(&self, reader_slot: &ReaderSlot) -> bool {
            self.0.is_alone(reader_slot)
        }
    }

    #[test]
    fn a_writer_sleeps_until_the_last_reader_has_left() {
        let (queue, two) = (Arc::new(WriterQueue::default()), Arc::new(Two(LockTable::default())));
        let [own, reader] = [two.0.new_reader_slot(), two.0.new_reader_slot()];
        let note_readers = || {
            let handles: Weak<dyn Handles> = Arc::downgrade(&(two.clone() as Arc<dyn Handles>));
            super::note_readers(&queue, handles, own.clone());
        };
        for level in [Level::Shared, Level::Reserved] {
            assert!(two.0.lock(&own, level));
        }
        assert!(two.0.lock(&reader, Level::Shared) && !two.0.lock(&own, Level::Exclusive));
        note_readers();
        let (begun, short) = (Instant::now(), Duration::from_millis(20));
        assert!(sleeps_in_queue(short) && begun.elapsed() >= short, "no reader has left");

        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Whether the sleep has begun or not, its end is the departure.
                std::thread::sleep(Duration::from_millis(5));
                assert!(two.0.try_unshare(&reader));
                queue.reader_left();
            });
            for _ in 0..100 {
                note_readers();
                if sleeps_in_queue(LONGEST_SLEEP) && two.0.is_alone(&own) {
                    break;
                }
            }
        });
        assert!(two.0.lock(&own, Level::Exclusive));
        note_readers();
        let begun = Instant::now();
        assert!(sleeps_in_queue(LONGEST_SLEEP), "nobody is there");
        assert!(begun.elapsed() < LONGEST_SLEEP);
        note_readers();
        drop(two);
        assert!(!sleeps_in_queue(LONGEST_SLEEP), "the database was closed");
    }

    #[test]
    fn a_ticket_that_is_not_used_stops_the_others_for_a_moment() {
        let queue = Arc::new(WriterQueue::default());
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

//! The lock of a reader without a message, where there is no write-ahead log: a member takes SHARED by its seat.
//!
//! # Why
//! A transaction that finds what it keeps would otherwise cost two messages, one for its lock and one for the end of that. Both would
//! only say that nothing has changed.
//!
//! # How
//! The owner shows the moment that is the present one, and durable (`group_changes`). A member that has been told that very moment
//! announces SHARED in its seat, and then looks at the gate of the file's lock, and whether the moment is shown still. Who wants the
//! database alone closes the gate, and then looks at the seats (`reader_gate`).
//!
//! ```text
//! 0  nothing
//! 1  SHARED
//! 2  the same, and the owner has to hear of its end: it has the lock on the file for the member (`open/sharing/leaving`)
//! ```
//!
//! # Invariants
//! 1. A seat that is not empty counts as a handle at SHARED. Nothing is committed meanwhile, so what the member was told stays true.
//! 2. The moment is hidden before anybody sees another one. It is shown by who has SHARED, where all of it is durable, and neither a
//!    journal nor a log is there.
//! 3. A member empties a seat at 1, and its owner one at 2: once the member has said so, has its lock in the owner, or is dead.

use crate::sync::group_board::{Board, MappedWords, Words};
use crate::sync::group_changes::Moment;
use crate::sync::reader_gate::Gate;

const NOTHING: u8 = 0;
const READS: u8 = 1;
const IS_TOLD: u8 = 2;

/// States of the gate.
const OPEN: u8 = 0;
const CLOSED: u8 = 1;

/// What has come of a lock by a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeatLock {
    /// The member has SHARED.
    Shared,
    /// It has not, and asks its owner.
    Refused,
    /// As before. The owner has to be told that it has not: it was seen while it tried.
    IsOwed,
}

impl<M: Words> Board<M> {
    /// True where a member that was told that moment may find that it can read by its seat.
    pub fn may_show(&self, moment: Moment) -> bool {
        self.file_gate().glance() == OPEN && self.is_open() && self.shows(moment)
    }

    /// A member that was told a moment takes SHARED by its seat.
    pub fn read(&self, seat: usize, moment: Moment) -> SeatLock {
        let Some(word) = self.file_seat(seat) else { return SeatLock::Refused };
        word.announce(READS);
        // In this order: nobody commits behind a gate that was open, and the database is nobody else's.
        if self.file_gate().closed() == OPEN && self.shows(moment) && self.is_open() {
            return SeatLock::Shared;
        }
        if word.replace(READS, NOTHING) { SeatLock::Refused } else { SeatLock::IsOwed }
    }

    /// A member gives SHARED back; `false` where the owner has to be told.
    pub fn unread(&self, seat: usize) -> bool {
        self.file_seat(seat).is_none_or(|word| word.replace(READS, NOTHING))
    }

    /// True while the member of a seat has SHARED by it.
    pub fn reads(&self, seat: usize) -> bool {
        self.file_seat(seat).is_some_and(|word| word.seen() != NOTHING)
    }

    /// The owner empties a seat.
    pub fn end_read(&self, seat: usize) {
        if let Some(word) = self.file_seat(seat) {
            word.announce(NOTHING);
        }
    }
}

/// The gates of the file's lock: of the process's own handles, and of the members. Under the lock of the lock table.
pub(super) struct FileGates<'a, M: Words = MappedWords> {
    own: &'a Gate<M::Slots>,
    /// The board, and the seats that may be taken.
    board: Option<(&'a Board<M>, usize)>,
}

impl<'a, M: Words> FileGates<'a, M> {
    pub fn new(own: &'a Gate<M::Slots>, board: Option<(&'a Board<M>, usize)>) -> FileGates<'a, M> {
        FileGates { own, board }
    }

    /// Closes or opens both.
    pub fn set(&self, is_closed: bool) {
        let wanted = if is_closed { CLOSED } else { OPEN };
        self.own.set(wanted);
        if let Some((board, _)) = self.board {
            board.file_gate().set(wanted);
        }
    }

    /// True if a member has SHARED by its seat.
    pub fn are_read(&self) -> bool {
        self.board.is_some_and(|(board, seats)| (0..seats).any(|seat| board.reads(seat)))
    }

    /// From now on the owner hears of the end of each member's read that is under way. The gate is closed, or none begins.
    pub fn ask_for_ends(&self) {
        let Some((board, seats)) = self.board else { return };
        for word in (0..seats).filter_map(|seat| board.file_seat(seat)) {
            word.replace(READS, IS_TOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::group_board::of_test::{FewWords, board};
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    const NOW: Moment = Moment { epoch: 3, commits: 7 };

    fn few() -> Board<FewWords> {
        board::<AtomicU8, AtomicU64>()
    }

    #[test]
    fn a_seat_reads_what_it_was_told_where_nothing_is_in_the_way() {
        let past = Moment { commits: 6, ..NOW };
        let other = Moment { epoch: 2, ..NOW };
        let never = Moment::default();
        for (is_open, is_closed, shown, told, expected) in [
            (true, false, Some(NOW), NOW, SeatLock::Shared),
            (false, false, Some(NOW), NOW, SeatLock::Refused),
            (true, true, Some(NOW), NOW, SeatLock::Refused),
            (true, false, None, NOW, SeatLock::Refused),
            (true, false, Some(NOW), past, SeatLock::Refused),
            (true, false, Some(NOW), other, SeatLock::Refused),
            (true, false, None, never, SeatLock::Refused),
        ] {
            let (board, own) = (few(), Gate::default());
            let gates = FileGates::new(&own, Some((&board, 2)));
            board.set_open(is_open);
            gates.set(is_closed);
            shown.map_or_else(|| board.hide(), |shown| board.show(shown));
            let case = format!("{is_open} {is_closed} {shown:?} {told:?}");
            assert_eq!(board.may_show(told), expected == SeatLock::Shared, "{case}");
            assert_eq!(board.read(1, told), expected, "{case}");
            assert_eq!(gates.are_read(), expected == SeatLock::Shared, "{case}");
            assert_eq!(board.unread(1), expected == SeatLock::Shared, "{case}");
            assert!(!gates.are_read() && own.closed() == board.file_gate().closed(), "{case}");
        }
        let board = few();
        board.show(NOW);
        board.hide();
        assert_eq!(board.read(0, NOW), SeatLock::Refused);
        assert_eq!(board.read(usize::MAX, NOW), SeatLock::Refused, "no such seat");
        assert!(board.unread(usize::MAX) && !board.reads(usize::MAX));
    }

    #[test]
    fn an_end_that_was_asked_for_is_told_and_counts_until_then() {
        let (board, own) = (few(), Gate::default());
        let gates = FileGates::new(&own, Some((&board, 2)));
        board.show(NOW);
        gates.ask_for_ends();
        assert!(!gates.are_read(), "nobody reads");
        assert_eq!(board.read(0, NOW), SeatLock::Shared);
        gates.ask_for_ends();
        assert_eq!(board.read(1, NOW), SeatLock::Shared);
        assert!(board.unread(1), "that one has begun later");
        assert!(!board.unread(0) && gates.are_read(), "the owner has not heard of it");
        board.end_read(0);
        assert!(!gates.are_read());
        assert!(!FileGates::<FewWords>::new(&own, None).are_read());
    }

    /// A member that reads and one that has the database alone never miss each other.
    #[test]
    fn threads_read_by_seats_or_have_the_database_alone() {
        let rounds = if cfg!(miri) { 30 } else { 300 };
        let (board, own) = (few(), Gate::default());
        let commits = AtomicU64::new(0);
        let written = [AtomicU64::new(0), AtomicU64::new(0)];
        board.show(Moment { commits: 0, ..NOW });
        std::thread::scope(|scope| {
            let reading = [0, 1].map(|seat| {
                let (board, written, commits) = (&board, &written, &commits);
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < rounds {
                        let told = Moment { commits: commits.load(Ordering::Relaxed), ..NOW };
                        if board.read(seat, told) == SeatLock::Shared {
                            let found = [0, 1].map(|word| written[word].load(Ordering::Relaxed));
                            assert_eq!(found, [told.commits; 2]);
                            assert!(board.unread(seat));
                            seen += 1;
                        }
                        std::thread::yield_now();
                    }
                })
            });
            let gates = FileGates::new(&own, Some((&board, 2)));
            while reading.iter().any(|thread| !thread.is_finished()) {
                gates.set(true);
                if !gates.are_read() {
                    written[0].fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                    written[1].fetch_add(1, Ordering::Relaxed);
                    board.hide();
                    let now = commits.fetch_add(1, Ordering::Relaxed) + 1;
                    board.show(Moment { commits: now, ..NOW });
                }
                gates.set(false);
                std::thread::yield_now();
            }
            reading.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

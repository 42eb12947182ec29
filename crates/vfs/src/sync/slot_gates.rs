//! The gates of the wal-index's slots, and the seats of members that share them.
//!
//! There are two gates: that of the process's own handles, and the copy of it on the board of a group (`group_board`).
//!
//! # Invariants
//! 1. The caller has the lock of the wal-index, under which both gates and the list of seats change.
//! 2. A slot is taken exclusively where both gates were closed before anybody's announcement was looked at.
//! 3. The seat of a member is cleared once the member is known to be dead, and before another member gets it.

use crate::sync::group_board::{Board, MappedWords, Words};
use crate::sync::reader_gate::{Announcement, Gate};

/// The gates, as who has the lock finds them.
pub(super) struct Gates<'a, M: Words = MappedWords> {
    own: &'a Gate<M::Slots>,
    /// The board, and the seats that may be taken.
    board: Option<(&'a Board<M>, usize)>,
}

impl<'a, M: Words> Gates<'a, M> {
    /// The gate of the process's own handles, and the board of its group, where there is one.
    pub fn new(own: &'a Gate<M::Slots>, board: Option<(&'a Board<M>, usize)>) -> Gates<'a, M> {
        Gates { own, board }
    }

    /// Closes these slots, and opens all others.
    pub fn close(&self, slots: u8) {
        self.own.set(slots);
        if let Some((board, _)) = self.board {
            board.gate().set(slots);
        }
    }

    /// Opens these slots.
    pub fn open(&self, slots: u8) {
        self.own.open(slots);
        if let Some((board, _)) = self.board {
            board.gate().open(slots);
        }
    }

    /// The slots that members share by their seats.
    pub fn shared_by_members(&self) -> u8 {
        self.board.map_or(0, |(board, seats)| board.shared_slots(seats))
    }

    /// Takes slots exclusively. Closes them, and has them where none of the process's `readers` and no member shares one, and `lock`
    /// gets them elsewhere, too. Otherwise the gates are as they were. Slots that are not sharable are shared by nobody.
    pub fn take<'r>(
        &self,
        mask: u8,
        is_sharable: bool,
        mut readers: impl Iterator<Item = &'r Announcement<M::Slots>>,
        lock: impl FnOnce() -> bool,
    ) -> bool
    where
        M::Slots: 'r,
    {
        let before = self.own.glance();
        if before & mask != 0 {
            return false;
        }
        self.close(before | mask);
        let is_shared = is_sharable
            && (readers.any(|reader| reader.seen() & mask != 0) || self.shared_by_members() & mask != 0);
        let is_taken = !is_shared && lock();
        if !is_taken {
            self.close(before);
        }
        is_taken
    }

    /// Closes all slots, where nobody has one exclusively, and tells whether none is shared, either.
    pub fn close_all<'r>(&self, mut readers: impl Iterator<Item = &'r Announcement<M::Slots>>) -> Option<bool>
    where
        M::Slots: 'r,
    {
        if self.own.glance() != 0 {
            return None;
        }
        self.close(u8::MAX);
        Some(readers.all(|reader| reader.seen() == 0) && self.shared_by_members() == 0)
    }

    /// Shares slots, by the announcement of one of the process's handles, where nobody has one exclusively, and `lock` gets them
    /// elsewhere, too.
    pub fn share(&self, mask: u8, reader: &Announcement<M::Slots>, lock: impl FnOnce() -> bool) -> bool {
        let is_free = self.own.closed() & mask == 0 && lock();
        if is_free {
            reader.announce(reader.own() | mask);
        }
        is_free
    }
}

/// The seats of a board, as its owner gives them.
#[derive(Default)]
pub(super) struct Seats {
    /// The seats that are taken; those behind them were never.
    taken: Vec<bool>,
}

impl Seats {
    /// Seats that were ever taken.
    pub fn count(&self) -> usize {
        self.taken.len()
    }

    /// A seat for a member's connection, which shares nothing yet; `None` where there is none.
    pub fn take<M: Words>(&mut self, board: &Board<M>) -> Option<usize> {
        let number = match self.taken.iter().position(|taken| !taken) {
            Some(number) => number,
            None => {
                board.seat(self.taken.len())?;
                self.taken.push(false);
                self.taken.len() - 1
            }
        };
        *self.taken.get_mut(number)? = true;
        board.clear(number);
        board.end_read(number);
        Some(number)
    }

    /// The member's connection is gone, with all that it shares.
    pub fn leave<M: Words>(&mut self, board: &Board<M>, number: usize) {
        board.clear(number);
        board.end_read(number);
        if let Some(taken) = self.taken.get_mut(number) {
            *taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::file_seats::SeatLock;
    use crate::sync::group_board::of_test::board;
    use crate::sync::group_changes::Moment;
    use std::iter;
    use std::sync::atomic::{AtomicU8, AtomicU64};

    const SLOT: u8 = 0b1000;
    const NOW: Moment = Moment { epoch: 1, commits: 0 };

    #[test]
    fn slots_are_taken_where_nobody_has_one() {
        let cases = [
            // (closed, shared by a reader, by a member, is sharable, is locked elsewhere, is taken)
            (0, 0, 0, true, false, true),
            (SLOT, 0, 0, true, false, false),
            (0b1, 0b1, 0b1, true, false, true),
            (0, SLOT, 0, true, false, false),
            (0, 0, SLOT, true, false, false),
            (0, SLOT, 0, false, false, true),
            (0, 0, 0, true, true, false),
        ];
        for case in cases {
            let (closed, by_reader, by_member, is_sharable, is_locked, expected) = case;
            let (gate, reader, board) = (<Gate>::default(), Announcement::default(), board::<_, AtomicU64>());
            let gates = Gates::new(&gate, Some((&board, 2)));
            gates.close(closed);
            reader.announce(by_reader);
            board.seat(1).unwrap().announce(by_member);
            let is_taken = gates.take(SLOT, is_sharable, iter::once(&reader), || !is_locked);
            let after = if expected { closed | SLOT } else { closed };
            assert_eq!(is_taken, expected, "{case:?}");
            assert_eq!([gate.closed(), board.gate().closed()], [after; 2], "{case:?}");
            assert_eq!(gates.share(SLOT, &reader, || true), after & SLOT == 0, "{case:?}");
            gates.open(SLOT);
            assert_eq!([gate.closed(), board.gate().closed()], [after & !SLOT; 2], "{case:?}");
        }
    }

    #[test]
    fn all_slots_are_closed_where_nobody_writes() {
        for (closed, shared, expected) in [(0, 0, Some(true)), (0, 1, Some(false)), (1, 0, None)] {
            let (gate, board) = (<Gate>::default(), board::<_, AtomicU64>());
            let gates = Gates::new(&gate, Some((&board, 2)));
            gates.close(closed);
            board.seat(0).unwrap().announce(shared);
            assert_eq!(gates.close_all(iter::empty()), expected);
            let after = if expected.is_some() { u8::MAX } else { closed };
            assert_eq!([gate.closed(), board.gate().closed()], [after; 2]);
        }
    }

    #[test]
    fn a_seat_is_given_again_once_it_is_left_and_shares_nothing_then() {
        let (board, mut seats) = (board::<AtomicU8, AtomicU64>(), Seats::default());
        assert_eq!([seats.take(&board), seats.take(&board)], [Some(0), Some(1)]);
        assert!(board.share(0, SLOT, 0, true) && board.share(1, 1, 0, true));
        board.show(NOW);
        assert_eq!(board.read(0, NOW), SeatLock::Shared);
        seats.leave(&board, 0);
        assert!(!board.reads(0));
        assert_eq!((board.shared_slots(seats.count()), seats.take(&board)), (1, Some(0)));
        assert_eq!(seats.count(), 2);
    }
}

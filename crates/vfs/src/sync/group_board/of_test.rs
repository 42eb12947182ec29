//! A board that lies in the test's own memory, for checkers that know no mappings.

use super::{Board, FIRST_SEAT, OPEN, Words};
use crate::sync::reader_gate::{Announcement, Gate};
use crate::sync::word::Word;
use litefoot_storage::file::FileId;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// A database that is none.
pub(crate) const DATABASE: FileId = FileId { device: 0, inode: 0 };

/// The words of a board with a few seats.
#[derive(Default)]
pub(crate) struct FewWords<S = AtomicU8, N = AtomicU64> {
    numbers: [N; 7],
    gate: Gate<S>,
    file_gate: Gate<S>,
    seats: [Announcement<S>; 2],
    file_seats: [Announcement<S>; 2],
}

impl<S: Word<u8>, N: Word<u64>> Words for FewWords<S, N> {
    type Slots = S;
    type Number = N;

    fn word(&self, place: usize) -> &N {
        assert!(place < FIRST_SEAT);
        &self.numbers[place / OPEN - 1]
    }

    fn gate(&self) -> &Gate<S> {
        &self.gate
    }

    fn seat(&self, number: usize) -> &Announcement<S> {
        &self.seats[number]
    }

    fn file_gate(&self) -> &Gate<S> {
        &self.file_gate
    }

    fn file_seat(&self, number: usize) -> &Announcement<S> {
        &self.file_seats[number]
    }
}

/// The board of an owner that owns its database.
pub(crate) fn board<S: Word<u8> + Default, N: Word<u64> + Default>() -> Board<FewWords<S, N>> {
    let board = Board { words: FewWords::default() };
    board.set_open(true);
    board
}

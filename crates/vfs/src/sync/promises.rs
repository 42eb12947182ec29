//! Promises: how many commits of a log were promised to be durable.
//!
//! # Invariants
//! 1. A commit is promised, here and then on the board of a group, before anybody can see it.
//! 2. Who finds every commit of the log durable settles what was promised before that look, and no more.

use crate::sync::group_board::{Board, Words};
use crate::sync::word::Word;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of promises.
#[derive(Default)]
pub(crate) struct Promises<W = AtomicU64>(W);

impl<W: Word<u64>> Promises<W> {
    /// One commit more was promised to be durable. The log says so already, and no reader sees the commit yet.
    pub fn add<M: Words>(&self, board: Option<&Board<M>>) {
        let before = self.0.fetch_add(1, Ordering::Release);
        if let Some(board) = board {
            board.promise(before + 1);
        }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Settles the promises on the board, where every commit of the log is found to be durable.
    pub fn settle<M: Words>(&self, board: &Board<M>, is_durable: impl FnOnce() -> bool) {
        // First of all: what is promised later is looked at the next time.
        let promises = self.count();
        if is_durable() {
            board.settle(promises);
        }
    }
}

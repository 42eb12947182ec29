//! A member's spills: SQLite writes a page of a transaction before its commit, since its cache is full.
//!
//! # Why
//! A spill takes EXCLUSIVE, as a commit does. Beside a reader SQLite keeps the page, its cache grows, and the next page makes it try again. A commit
//! waits for readers that have just ended. One statement has thousands of spills: those must not wait, and need not ask the owner each time.
//!
//! # Invariants
//! 1. SQLite counts a spill before it takes the lock. A lock without a new spill is a commit's, or another try for the same page, before which SQLite's
//!    busy handler has slept. The owner is asked for it, and waits.
//! 2. The count is one of all files of the connection. A COMMIT is told from their spills by its statement.
//! 3. A refusal counts for the spills of its transaction, for a moment.
//! 4. Where SQLite cannot be asked, a transaction waits until it is refused, once.

use crate::ffi::connection::Connection;
use crate::files::group::link::Link;
use std::time::{Duration, Instant};

/// How long one refusal counts for the spills behind it.
const REFUSAL_COUNTS: Duration = Duration::from_millis(5);

/// What EXCLUSIVE is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// For a commit, as far as known: the owner is asked, and waits for readers.
    ToCommit,
    /// For a spill: the owner is asked, and does not wait.
    ToSpill,
    /// For a spill that is refused, as the last one was.
    InVain,
}

/// The spills of a transaction.
#[derive(Default)]
pub(super) struct Spills {
    /// True from the lock of a writer on.
    writes: bool,
    /// How many SQLite had counted at the last look; `None` where it cannot be asked.
    counted: Option<i64>,
    refused: Option<Instant>,
}

impl Spills {
    /// The transaction is to write from now on.
    pub(super) fn begin(&mut self, counted: Option<i64>) {
        *self = Spills { writes: true, counted, refused: None };
    }

    /// It has no lock of a writer any more.
    pub(super) fn end(&mut self) {
        *self = Spills::default();
    }

    /// EXCLUSIVE is wanted, and SQLite has counted so many. `commits` answers if it is sure to be a commit.
    pub(super) fn want(
        &mut self,
        counted: Option<i64>,
        commits: impl FnOnce() -> bool,
        now: Instant,
    ) -> Wanted {
        if !self.writes {
            return Wanted::ToCommit;
        }
        let before = std::mem::replace(&mut self.counted, counted);
        let is_known = before.is_some() && counted.is_some();
        let may_spill = if is_known { before != counted && !commits() } else { self.refused.is_some() };
        if !may_spill {
            return Wanted::ToCommit;
        }
        let counts = |refused| now.saturating_duration_since(refused) < REFUSAL_COUNTS;
        if is_known && self.refused.is_some_and(counts) { Wanted::InVain } else { Wanted::ToSpill }
    }

    /// The owner has refused EXCLUSIVE.
    pub(super) fn note_refusal(&mut self, now: Instant) {
        self.refused = Some(now);
    }
}

impl Link {
    /// How many spills SQLite has counted, where it can be asked.
    pub(super) fn spills(&self) -> Option<i64> {
        self.known_handle().map(Connection::spills)
    }

    /// True if the statement is known to be a COMMIT: such a one writes nothing itself, in SQLite's judgement, and has no transaction with BEGIN any more.
    pub(super) fn is_commit(&self) -> bool {
        self.known_handle().is_some_and(|handle| handle.is_autocommit() && handle.only_reads())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: fn() -> bool = || false;

    #[test]
    fn a_spill_is_told_from_a_commit_by_sqlites_count() {
        let now = Instant::now();
        let mut spills = Spills::default();
        spills.begin(Some(7));
        assert_eq!(spills.want(Some(7), NO, now), Wanted::ToCommit);
        assert_eq!(spills.want(Some(8), NO, now), Wanted::ToSpill);
        assert_eq!(spills.want(Some(8), NO, now), Wanted::ToCommit, "another try for the same page");
        assert_eq!(spills.want(Some(10), || true, now), Wanted::ToCommit, "of another file");
        assert_eq!(spills.want(Some(10), NO, now), Wanted::ToCommit, "it has been looked at");
    }

    #[test]
    fn a_refusal_counts_for_spills_of_its_transaction_and_for_a_moment() {
        let now = Instant::now();
        let later = now + REFUSAL_COUNTS;
        let mut spills = Spills::default();
        spills.begin(Some(0));
        assert_eq!(spills.want(Some(1), NO, now), Wanted::ToSpill);
        spills.note_refusal(now);
        assert_eq!(spills.want(Some(2), NO, now), Wanted::InVain);
        assert_eq!(spills.want(Some(2), NO, now), Wanted::ToCommit);
        assert_eq!(spills.want(Some(3), NO, later - Duration::from_nanos(1)), Wanted::InVain);
        assert_eq!(spills.want(Some(4), NO, later), Wanted::ToSpill);
        spills.note_refusal(later);
        spills.begin(Some(4));
        assert_eq!(spills.want(Some(5), NO, later), Wanted::ToSpill, "another transaction");
    }

    #[test]
    fn where_sqlite_cannot_be_asked_only_the_first_refusal_of_a_transaction_is_waited_for() {
        let now = Instant::now();
        let mut spills = Spills::default();
        for counted in [None, Some(3)] {
            spills.begin(None);
            assert_eq!(spills.want(None, NO, now), Wanted::ToCommit);
            spills.note_refusal(now);
            assert_eq!(spills.want(counted, NO, now), Wanted::ToSpill, "nothing is refused here");
            spills.end();
            assert_eq!(spills.want(None, NO, now), Wanted::ToCommit);
        }
    }
}

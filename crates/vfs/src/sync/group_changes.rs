//! Which pages the last commits of a rollback-journal database have changed, for members of a group that keep pages.
//!
//! # Why
//! SQLite forgets all pages of a connection as soon as somebody else has committed, and reads them again. In a member each of these reads
//! would be a message. So a member keeps pages, and is told with its lock which of them have changed since it had its last one.
//!
//! # Invariants
//! 1. Nothing changes while somebody has SHARED: what a member hears with its lock stays true until it gives the lock up.
//! 2. Each commit of a transaction that was held back is one entry. Any other change of the file, and of its owner, begins a new epoch:
//!    what was kept in an older one is void.
//! 3. A member that has heard nothing of the oldest entries keeps nothing.
//! 4. The board of a group shows the present or nothing: it is hidden before the present is another one (`file_seats`).

use crate::sync::group_board::Board;
use litefoot_storage::sync::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Most page numbers that are remembered.
const MOST_NUMBERS: usize = 4096;

/// A moment in the history of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The epoch; 0 for one that has never been.
    pub epoch: u64,
    /// How many commits the epoch has seen.
    pub commits: u64,
}

/// The changes of one database.
#[derive(Default)]
pub(crate) struct GroupChanges {
    history: Mutex<History>,
    board: OnceLock<Arc<Board>>,
}

#[derive(Default)]
struct History {
    epochs: u64,
    commits: u64,
    /// The newest commits, each with the pages that it has changed.
    newest: VecDeque<Vec<u32>>,
    numbers: usize,
}

impl History {
    fn now(&self) -> Moment {
        // Epochs count from 1, so that a moment that has never been is in none.
        Moment { epoch: self.epochs + 1, commits: self.commits }
    }
}

impl GroupChanges {
    /// Members see on that board which moment is the present one.
    pub(crate) fn begin_board(&self, board: Arc<Board>) {
        let _ = self.board.set(board);
    }

    /// Members that know the present begin by their seats from now on, where they may. The caller has SHARED.
    pub(crate) fn show(&self, now: Moment, they_may: impl FnOnce() -> bool) {
        let history = self.history.lock();
        // Under the lock: what ends it forgets everything next.
        if let Some(board) = self.board.get().filter(|_| history.now() == now && they_may()) {
            board.show(now);
        }
    }

    /// Members ask before they read.
    fn hide(&self) {
        if let Some(board) = self.board.get() {
            board.hide();
        }
    }

    /// Anything may have changed.
    pub(crate) fn forget(&self) {
        let mut history = self.history.lock();
        self.hide();
        let epochs = history.epochs + 1;
        *history = History { epochs, ..History::default() };
    }

    /// A commit has changed these pages.
    pub(crate) fn note(&self, numbers: impl Iterator<Item = u32>) {
        let mut history = self.history.lock();
        self.hide();
        let pages: Vec<u32> = numbers.take(MOST_NUMBERS + 1).collect();
        history.commits += 1;
        history.numbers += pages.len();
        history.newest.push_back(pages);
        while history.numbers > MOST_NUMBERS {
            let Some(oldest) = history.newest.pop_front() else { break };
            history.numbers -= oldest.len();
        }
    }

    /// The present.
    pub(crate) fn now(&self) -> Moment {
        self.since(Moment::default()).0
    }

    /// The present, and the pages that have changed since a moment; `None` where they are not known.
    pub(crate) fn since(&self, moment: Moment) -> (Moment, Option<BTreeSet<u32>>) {
        let history = self.history.lock();
        let now = history.now();
        let missed = now.commits.checked_sub(moment.commits).and_then(|missed| usize::try_from(missed).ok());
        let missed = missed.filter(|missed| moment.epoch == now.epoch && *missed <= history.newest.len());
        let changed =
            missed.map(|missed| history.newest.iter().rev().take(missed).flatten().copied().collect());
        (now, changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::group_board::of_test::DATABASE;

    fn changed(changes: &GroupChanges, since: Moment) -> Option<Vec<u32>> {
        changes.since(since).1.map(|numbers| numbers.into_iter().collect())
    }

    #[test]
    fn what_has_changed_since_a_moment_is_known_until_it_is_forgotten() {
        let changes = GroupChanges::default();
        assert_eq!(changed(&changes, Moment::default()), None, "a moment that has never been");
        let begin = changes.since(Moment::default()).0;
        assert_eq!(changed(&changes, begin), Some(vec![]));
        changes.note([1, 7].into_iter());
        let first = changes.since(begin).0;
        changes.note([1, 3].into_iter());
        assert_eq!(changed(&changes, begin), Some(vec![1, 3, 7]));
        assert_eq!(changed(&changes, first), Some(vec![1, 3]));
        let second = changes.since(first).0;
        assert_eq!(changed(&changes, second), Some(vec![]));
        assert_eq!(changed(&changes, Moment { commits: second.commits + 1, ..second }), None, "the future");
        changes.forget();
        for moment in [begin, first, second] {
            assert_eq!(changed(&changes, moment), None, "another epoch");
        }
    }

    #[test]
    fn the_board_shows_the_present_until_that_is_another_one() {
        let (changes, board) = (GroupChanges::default(), Arc::new(Board::new(DATABASE).unwrap()));
        changes.begin_board(board.clone());
        board.set_open(true);
        type Change = fn(&GroupChanges);
        let cases: [(Change, &str); 2] =
            [(|changes| changes.note(1..=1), "a commit"), (GroupChanges::forget, "anything")];
        for (change, what) in cases {
            let now = changes.now();
            assert!(!board.may_show(now), "{what}");
            changes.show(Moment { commits: now.commits + 1, ..now }, || true);
            assert!(
                !board.may_show(Moment { commits: now.commits + 1, ..now }),
                "{what}: it is not the present"
            );
            changes.show(now, || false);
            assert!(!board.may_show(now), "{what}");
            changes.show(now, || true);
            assert!(board.may_show(now), "{what}");
            change(&changes);
            assert!(!board.may_show(now), "{what}");
            changes.show(now, || true);
            assert!(!board.may_show(now), "{what}: the past");
        }
    }

    #[test]
    fn the_oldest_commits_are_forgotten() {
        let changes = GroupChanges::default();
        let begin = changes.since(Moment::default()).0;
        changes.note(1..=3);
        let later = changes.since(begin).0;
        changes.note(1..=MOST_NUMBERS as u32);
        assert_eq!(changed(&changes, begin), None);
        assert_eq!(changed(&changes, later).map(|numbers| numbers.len()), Some(MOST_NUMBERS));
        changes.note(1..=MOST_NUMBERS as u32 + 1);
        assert_eq!(changed(&changes, later), None, "one commit that is too large");
        let now = changes.since(later).0;
        assert_eq!(changed(&changes, now), Some(vec![]));
    }
}

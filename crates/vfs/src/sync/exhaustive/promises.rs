//! Promises: a member that finds everything settled sees nothing that is not durable.

use super::words::{CheckedWords, Number};
use crate::sync::group_board::Board;
use crate::sync::group_board::of_test::board;
use crate::sync::promises::Promises;
use crate::sync::word::Word;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::sync::atomic::Ordering;

/// The log of the owner.
#[derive(Default)]
struct Log {
    /// Commits that are in it, and those that a power cut does not take back.
    commits: u64,
    durable: u64,
}

struct Group {
    board: Board<CheckedWords>,
    promises: Promises<Number>,
    log: Mutex<Log>,
    /// The last commit that the index shows. SQLite writes it between two barriers.
    index: Number,
}

impl Group {
    fn new() -> Arc<Group> {
        let (log, index) = (Mutex::default(), Number::default());
        Arc::new(Group { board: board(), promises: Promises::default(), log, index })
    }

    /// The owner commits for somebody, without waiting for the medium.
    fn commit(&self) {
        self.log.lock().unwrap().commits += 1;
        self.promises.add(Some(&self.board));
        self.index.store(self.index.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// The medium has all that is in the log.
    fn sync(&self) {
        let mut log = self.log.lock().unwrap();
        log.durable = log.commits;
    }

    /// A thread of the owner looks whether all is durable.
    fn settle(&self) {
        self.promises.settle(&self.board, || {
            let log = self.log.lock().unwrap();
            log.durable == log.commits
        });
    }

    /// A member begins to read: it sees what the index has shown before and behind the look at the board.
    fn read(&self) -> bool {
        let seen = self.index.load(Ordering::Acquire);
        if !self.board.share(0, 1, 0, false) {
            return false;
        }
        let is_same = self.index.load(Ordering::Acquire) == seen;
        if is_same {
            assert!(self.log.lock().unwrap().durable >= seen, "a power cut takes back what was read");
        }
        self.board.unshare(0, 1);
        is_same
    }
}

#[test]
fn a_member_reads_nothing_that_is_not_durable() {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(|| {
        let group = Group::new();
        let (one, other) = (group.clone(), group.clone());
        let member = thread::spawn(move || one.read());
        let reader = thread::spawn(move || other.settle());
        group.commit();
        group.sync();
        group.settle();
        group.commit();
        member.join().unwrap();
        reader.join().unwrap();
        assert!(!group.read(), "the last commit is not durable");
        group.sync();
        group.settle();
        assert!(group.read(), "nothing is settled any more");
    });
}

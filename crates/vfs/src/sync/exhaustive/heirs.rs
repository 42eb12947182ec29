//! Heirs: an owner dies at any access to what it leaves behind, and its members look for what has become of their transactions.

use super::words::{Number, until_death};
use crate::sync::heirs::of_test::FewWritings;
use crate::sync::heirs::{Estate, Fate, Heritage, Orphan, Since};
use crate::sync::word::Word;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::sync::atomic::Ordering;

/// Accesses to words by which an owner commits for both members.
const ACCESSES: usize = 16;
const FIRST: u64 = 7;
const SECOND: u64 = 8;
const ANOTHER: u64 = 9;

#[derive(Default)]
struct Group {
    left: FewWritings<Number>,
    /// Set once the owner has died: the system sets it.
    has_died: Number,
    /// The tokens of the commits in the log.
    log: Mutex<Vec<u64>>,
}

impl Group {
    /// The owner commits for one connection, and then for another one.
    fn commit(&self, tokens: [u64; 2]) {
        for token in tokens {
            self.left.note_writing(token);
            self.log.lock().unwrap().push(token);
            self.left.note_committed();
        }
    }

    /// A member looks for its transaction, which has the lock of a reader since so many writings, and for the open file. `None` where the owner lives;
    /// else whether it is the heir.
    fn look(&self, token: u64, writings: u64) -> Option<bool> {
        if self.has_died.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let since = Since { marks: 0, writings };
        let fate = self.left.fate_of(Orphan { since, token, ends: true });
        let log = self.log.lock().unwrap().clone();
        let (is_there, behind) = (log.contains(&token), log.len() as u64 > writings);
        match fate {
            Fate::Committed => assert!(is_there, "a commit that is not there is acknowledged"),
            Fate::GoesOn => assert!(
                !behind || log.last() == Some(&token) && log.len() as u64 == writings + 1,
                "a transaction goes on though another one has committed: {log:?}"
            ),
            Fate::Lost => assert!(!is_there, "a commit that is there is told to have failed"),
        }
        Some(self.left.decide(Estate::TakenOver))
    }
}

#[test]
fn what_has_become_of_a_transaction_is_known_wherever_its_owner_dies() {
    // The second member's transaction began behind the first one's commit, or before it: then it is never written.
    let cases = [(SECOND, 1), (ANOTHER, 0)];
    for (accesses, (last, begun)) in (0..=ACCESSES).flat_map(|accesses| cases.map(|case| (accesses, case))) {
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound = Some(3);
        checker.check(move || {
            let group = Arc::new(Group::default());
            let members = [(FIRST, 0), (SECOND, begun)].map(|(token, writings)| {
                let group = group.clone();
                thread::spawn(move || group.look(token, writings))
            });
            until_death(accesses, || group.commit([FIRST, last]));
            group.has_died.store(1, Ordering::SeqCst);
            let seen = members.map(|member| member.join().unwrap());
            let heirs = seen.iter().filter(|seen| **seen == Some(true)).count();
            assert_eq!(heirs, usize::from(seen.iter().any(Option::is_some)), "one heir");
            assert_eq!(group.left.is_decided(), heirs == 1);
        });
    }
}

#[test]
fn an_owner_makes_as_many_accesses_as_it_can_die_after() {
    loom::model(|| {
        let ends = |accesses| until_death(accesses, || Group::default().commit([FIRST, SECOND])).is_some();
        assert!(ends(ACCESSES) && !ends(ACCESSES - 1));
    });
}

/// What a process does that takes a dead owner's file over: it recovers the database in two steps, and says that it has.
const STEPS: usize = 3;

/// The file of a dead owner, and the database.
#[derive(Default)]
struct Left {
    left: FewWritings<Number>,
    /// The byte that one process has at a time. The system frees it with that.
    takes_over: Mutex<()>,
    /// Steps of the recovery that were made: they are made anew after a death.
    recovered: Number,
}

impl Left {
    /// A process that has the file takes it over, unless that is done, and dies before that step. Answers whether it has given the file back.
    fn take_over(&self, dies_before: usize) -> bool {
        let one = self.takes_over.lock().unwrap();
        if !self.left.is_decided() {
            for step in 0..STEPS {
                if step == dies_before {
                    return false;
                }
                match step {
                    2 => assert!(self.left.decide(Estate::TakenOver), "one at a time takes it over"),
                    _ => self.recovered.store(step as u64 + 1, Ordering::SeqCst),
                }
            }
        }
        drop(one);
        assert_eq!(self.recovered.load(Ordering::SeqCst), 2, "strangers find what the owner has left");
        true
    }
}

#[test]
fn a_database_is_recovered_before_its_file_is_given_back_wherever_an_heir_dies() {
    for dies_before in 0..=STEPS {
        loom::model(move || {
            let left = Arc::new(Left::default());
            let heirs = [dies_before, STEPS, STEPS].map(|dies_before| {
                let left = left.clone();
                thread::spawn(move || left.take_over(dies_before))
            });
            let [_, second, third] = heirs.map(|heir| heir.join().unwrap());
            assert!(second && third && left.left.is_decided());
        });
    }
}

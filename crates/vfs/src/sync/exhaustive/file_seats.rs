//! Seats and the gate of the file's lock: members that read without a message, one that commits, strangers that are let in, and members that
//! die.

use super::words::{CheckedWords, Slots, until_death};
use crate::sync::file_seats::{FileGates, SeatLock};
use crate::sync::group_board::Board;
use crate::sync::group_board::of_test::board;
use crate::sync::group_changes::Moment;
use crate::sync::reader_gate::Gate;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Accesses to words by which a member begins to read, and ends it: it has the lock behind the first five.
const ACCESSES: usize = 6;
const SEATS: usize = 2;

/// What the lock of the lock table guards.
#[derive(Default)]
struct Owner {
    commits: u64,
    /// Set while somebody has the database alone.
    is_taken: bool,
    /// Handles of members in the owner that have SHARED.
    shared: u64,
    /// Set while strangers may use the file, and while the process has the lock of a reader there.
    is_multi_process: bool,
    has_file: bool,
}

/// A group, and a page of its database: the checker finds every access to it that is not ordered.
struct Group {
    board: Board<CheckedWords>,
    gate: Gate<Slots>,
    owner: Mutex<Owner>,
    page: UnsafeCell<u64>,
}

// SAFETY: who may look at the page is what the checker is asked.
unsafe impl Sync for Group {}
// SAFETY: as above.
unsafe impl Send for Group {}

fn moment(commits: u64) -> Moment {
    Moment { epoch: 1, commits }
}

impl Group {
    fn new() -> Arc<Group> {
        let group = Group {
            board: board(),
            gate: Gate::default(),
            owner: Mutex::default(),
            page: UnsafeCell::new(0),
        };
        group.board.show(moment(0));
        Arc::new(group)
    }

    fn gates(&self) -> FileGates<'_, CheckedWords> {
        FileGates::new(&self.gate, Some((&self.board, SEATS)))
    }

    fn look(&self) -> u64 {
        // SAFETY: the checker fails the test where a thread writes meanwhile.
        self.page.with(|page| unsafe { *page })
    }

    /// A member that knows what was committed so far reads by its seat; `false` where it was refused.
    fn read(&self, seat: usize, commits: u64) -> bool {
        let (is_inside, owes) = self.read_unheard(seat, commits);
        if owes {
            self.unlock(seat);
        }
        is_inside
    }

    /// The same, and whether the owner has to hear of the end.
    fn read_unheard(&self, seat: usize, commits: u64) -> (bool, bool) {
        let begun = self.board.read(seat, moment(commits));
        if begun == SeatLock::Shared {
            assert_eq!([self.look(), self.look()], [commits; 2], "what it keeps is old");
        }
        let owes = begun == SeatLock::IsOwed || begun == SeatLock::Shared && !self.board.unread(seat);
        (begun == SeatLock::Shared, owes)
    }

    /// The member goes on to write: its handle has SHARED before the seat is empty. Then it ends.
    fn read_and_bring(&self, seat: usize) {
        if self.board.read(seat, moment(0)) != SeatLock::Shared {
            return;
        }
        let mut owner = self.owner.lock().unwrap();
        assert!(!owner.is_taken && owner.commits == 0, "somebody has committed beside a reader");
        owner.shared += 1;
        self.board.end_read(seat);
        drop(owner);
        assert_eq!(self.look(), 0);
        self.owner.lock().unwrap().shared -= 1;
    }

    /// The owner hears that the member reads no more.
    fn unlock(&self, seat: usize) {
        let mut owner = self.owner.lock().unwrap();
        self.board.end_read(seat);
        owner.has_file &= self.gates().are_read();
    }

    /// Commits; `false` where a reader is in the way.
    fn commit(&self) -> bool {
        let mut owner = self.owner.lock().unwrap();
        self.gates().set(true);
        let is_taken = owner.shared == 0 && !self.gates().are_read();
        owner.is_taken = is_taken;
        drop(owner);
        if is_taken {
            // SAFETY: the checker fails the test where a thread looks or writes meanwhile.
            self.page.with_mut(|page| unsafe { *page += 1 });
        }
        let mut owner = self.owner.lock().unwrap();
        if is_taken {
            owner.commits += 1;
            owner.is_taken = false;
            self.board.hide();
            self.board.show(moment(owner.commits));
        }
        self.gates().set(false);
        is_taken
    }

    /// Strangers are let in, beside readers. Where they may write at once, one does.
    fn let_others_in(&self) {
        let mut owner = self.owner.lock().unwrap();
        self.gates().set(true);
        self.board.set_open(false);
        owner.has_file = self.gates().are_read();
        self.gates().ask_for_ends();
        owner.is_multi_process = true;
        self.gates().set(false);
        if !owner.has_file {
            // SAFETY: as above.
            self.page.with_mut(|page| unsafe { *page += 1 });
        }
    }

    /// Everybody else has ended.
    fn is_free(&self) {
        let mut owner = self.owner.lock().unwrap();
        assert!(!self.gates().are_read(), "a seat keeps its lock");
        // The watcher looks once more: one that was about to be refused has told nobody.
        owner.has_file &= self.gates().are_read();
        assert!(!owner.has_file, "the file keeps its lock");
        let (commits, is_multi_process) = (owner.commits, owner.is_multi_process);
        drop(owner);
        if !is_multi_process {
            assert!(self.commit(), "nobody reads");
            assert!(self.read(0, commits + 1), "nobody commits");
        }
    }
}

/// Every interleaving in which threads are stopped so many times where they could go on.
fn check(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(times);
    checker.check(model);
}

#[test]
fn a_member_that_reads_by_its_seat_sees_what_it_was_told() {
    check(3, || {
        let group = Group::new();
        let members = [0, 1].map(|seat| {
            let group = group.clone();
            thread::spawn(move || group.read(seat, seat as u64))
        });
        group.commit();
        members.into_iter().for_each(|member| {
            member.join().unwrap();
        });
        group.is_free();
    });
}

#[test]
fn a_member_that_goes_on_to_write_keeps_its_lock() {
    check(3, || {
        let group = Group::new();
        let there = group.clone();
        let member = thread::spawn(move || there.read_and_bring(0));
        group.commit();
        member.join().unwrap();
        group.is_free();
    });
}

#[test]
fn strangers_wait_for_the_end_of_a_read_and_hear_of_it() {
    check(3, || {
        let group = Group::new();
        let members = [0, 1].map(|seat| {
            let group = group.clone();
            thread::spawn(move || group.read(seat, 0))
        });
        group.let_others_in();
        members.into_iter().for_each(|member| {
            member.join().unwrap();
        });
        group.is_free();
    });
}

#[test]
fn a_member_that_dies_keeps_nobody_out_and_lets_nobody_in() {
    for (accesses, strangers) in (0..=ACCESSES).flat_map(|accesses| [(accesses, false), (accesses, true)]) {
        check(2, move || {
            let group = Group::new();
            let (one, other) = (group.clone(), group.clone());
            let served = thread::spawn(move || {
                let there = one.clone();
                let member = thread::spawn(move || until_death(accesses, || there.read_unheard(0, 0)));
                // The stream of a process ends once none of its threads runs any more.
                member.join().unwrap();
                one.unlock(0);
            });
            let living = thread::spawn(move || other.read(1, 0));
            if strangers {
                group.let_others_in();
            } else {
                group.commit();
            }
            served.join().unwrap();
            living.join().unwrap();
            group.is_free();
        });
    }
}

#[test]
fn a_reading_member_makes_as_many_accesses_as_it_can_die_after() {
    loom::model(|| {
        let group = Group::new();
        let ends = |accesses| until_death(accesses, || group.read_unheard(0, 0)).is_some();
        assert!(!ends(ACCESSES - 1));
        group.unlock(0);
        assert!(ends(ACCESSES));
    });
}

//! Seats and gate: members that read, one that takes the slot exclusively, and members that die.

use super::words::{CheckedWords, Number, Slots, until_death};
use crate::sync::group_board::Board;
use crate::sync::group_board::of_test::board;
use crate::sync::reader_gate::{Announcement, Gate};
use crate::sync::slot_gates::{Gates, Seats};
use crate::sync::wal_index::CHECKPOINT_SLOT;
use crate::sync::word::Word;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::iter;
use std::sync::atomic::Ordering;

const SLOT: u8 = 0b1000;
/// Accesses to words by which a member begins to read, and ends it: it has the slot behind the first five.
const ACCESSES: usize = 7;
const CHECKPOINT: u8 = 1 << CHECKPOINT_SLOT;

/// What the lock of the wal-index guards in the owner.
#[derive(Default)]
struct Owner {
    seats: Seats,
    /// Set while somebody has the slot exclusively.
    is_taken: bool,
}

/// A group, and what the slot guards: the checker finds every access to it that is not ordered.
struct Group {
    board: Board<CheckedWords>,
    gate: Gate<Slots>,
    /// A handle of the owner's: one of its own, or a member's that asks for each slot.
    reader: Announcement<Slots>,
    owner: Mutex<Owner>,
    page: UnsafeCell<u64>,
}

// SAFETY: who may look at the page is what the checker is asked.
unsafe impl Sync for Group {}
// SAFETY: as above.
unsafe impl Send for Group {}

impl Group {
    /// A group with so many members, each with a seat.
    fn new(members: usize) -> Arc<Group> {
        let group = Group {
            board: board(),
            gate: Gate::default(),
            reader: Announcement::default(),
            owner: Mutex::default(),
            page: UnsafeCell::new(0),
        };
        let mut owner = group.owner.lock().unwrap();
        (0..members).for_each(|seat| assert_eq!(owner.seats.take(&group.board), Some(seat)));
        drop(owner);
        Arc::new(group)
    }

    fn look(&self) -> u64 {
        // SAFETY: the checker fails the test where a thread writes meanwhile.
        self.page.with(|page| unsafe { *page })
    }

    /// A member reads by its seat; `false` where it was refused.
    fn read(&self, seat: usize) -> bool {
        let is_inside = self.board.share(seat, SLOT, 0, true);
        if is_inside {
            assert_eq!(self.look(), self.look());
            self.board.unshare(seat, SLOT);
        }
        is_inside
    }

    /// The owner's thread reads, or a member that asks it.
    fn read_by_owner(&self) {
        let owner = self.owner.lock().unwrap();
        let is_inside = self.gates(&owner).share(SLOT, &self.reader, || true);
        assert!(is_inside || owner.is_taken, "it is told to wait for nobody");
        drop(owner);
        if is_inside {
            assert_eq!(self.look(), self.look());
            self.reader.retract(0);
        }
    }

    fn gates(&self, owner: &Owner) -> Gates<'_, CheckedWords> {
        Gates::new(&self.gate, Some((&self.board, owner.seats.count())))
    }

    /// Takes the slot exclusively, and writes; `false` where somebody is in the way.
    fn write(&self) -> bool {
        let mut owner = self.owner.lock().unwrap();
        let is_taken = self.gates(&owner).take(SLOT, true, iter::once(&self.reader), || true);
        owner.is_taken |= is_taken;
        drop(owner);
        if is_taken {
            // SAFETY: the checker fails the test where a thread looks or writes meanwhile.
            self.page.with_mut(|page| unsafe { *page += 1 });
            let mut owner = self.owner.lock().unwrap();
            owner.is_taken = false;
            self.gates(&owner).open(SLOT);
        }
        is_taken
    }

    /// Everybody else has ended: whoever comes gets in.
    fn is_free(&self) {
        assert!(self.write(), "the slot stays shared");
        assert!(self.read(0), "the gate stays closed");
        assert_eq!(self.board.shared_slots(2) | self.reader.seen(), 0);
    }
}

/// Every interleaving in which threads are stopped at most three times where they could go on.
fn check(model: impl Fn() + Send + Sync + 'static) {
    check_stopped(3, model);
}

fn check_stopped(times: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(times);
    checker.check(model);
}

#[test]
fn readers_and_an_exclusive_holder_are_never_inside_together() {
    check(|| {
        let group = Group::new(2);
        let members = [0, 1].map(|seat| {
            let group = group.clone();
            thread::spawn(move || group.read(seat))
        });
        group.write();
        members.into_iter().for_each(|member| {
            member.join().unwrap();
        });
        group.is_free();
    });
}

#[test]
fn a_member_that_is_refused_is_told_to_wait_for_somebody() {
    check(|| {
        let group = Group::new(1);
        let there = group.clone();
        let member = thread::spawn(move || {
            if !there.read(0) {
                there.read_by_owner();
            }
        });
        group.write();
        group.write();
        member.join().unwrap();
        group.is_free();
    });
}

impl Group {
    /// The member of seat 0 dies after so many accesses. The thread that serves it hears of that, and gives back what it had.
    fn serve(group: &Arc<Group>, accesses: usize) {
        let there = group.clone();
        let member = thread::spawn(move || until_death(accesses, || there.read(0)));
        // The stream of a process ends once none of its threads runs any more.
        member.join().unwrap();
        group.owner.lock().unwrap().seats.leave(&group.board, 0);
    }
}

#[test]
fn a_dead_member_keeps_nobody_out_and_lets_nobody_in() {
    for accesses in 0..=ACCESSES {
        // With four threads, three times would take long.
        check_stopped(2, move || {
            let group = Group::new(2);
            let (one, other) = (group.clone(), group.clone());
            let served = thread::spawn(move || Group::serve(&one, accesses));
            let living = thread::spawn(move || other.read(1));
            group.write();
            served.join().unwrap();
            living.join().unwrap();
            group.is_free();
        });
    }
}

#[test]
fn the_seat_of_a_dead_member_is_the_next_ones() {
    for accesses in 0..=ACCESSES {
        check(move || {
            let group = Group::new(1);
            let there = group.clone();
            let served = thread::spawn(move || {
                Group::serve(&there, accesses);
                assert_eq!(there.owner.lock().unwrap().seats.take(&there.board), Some(0));
                there.read(0);
            });
            group.write();
            served.join().unwrap();
            group.is_free();
        });
    }
}

#[test]
fn a_reading_member_makes_as_many_accesses_as_it_can_die_after() {
    loom::model(|| {
        // One that dies, and one that does not.
        let group = Group::new(1);
        let ends = |accesses| until_death(accesses, || group.read(0)).is_some();
        assert!(!ends(ACCESSES - 1));
        group.owner.lock().unwrap().seats.leave(&group.board, 0);
        assert!(ends(ACCESSES));
    });
}

/// A member keeps a page of the database file where two looks found the same number of checkpoints, and none under way.
#[test]
fn a_page_that_is_kept_is_the_files_until_a_checkpoint_is_seen() {
    loom::model(|| {
        let group = Group::new(1);
        let file = Arc::new(Number::default());
        let (there, other) = (group.clone(), file.clone());
        let owner = thread::spawn(move || {
            let owner = there.owner.lock().unwrap();
            let gates = there.gates(&owner);
            assert!(gates.take(CHECKPOINT, false, iter::empty(), || true));
            there.board.note_checkpoint();
            // The bytes of the file pass through the system.
            other.store(1, Ordering::Release);
            gates.open(CHECKPOINT);
        });
        let before = group.board.checkpoints();
        let kept = file.load(Ordering::Acquire);
        if before.is_some() && group.board.checkpoints() == before {
            assert_eq!(Some(kept), before, "it is of another number of checkpoints");
        }
        owner.join().unwrap();
        assert_eq!(group.board.checkpoints(), Some(1));
    });
}

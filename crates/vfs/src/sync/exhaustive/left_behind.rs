//! Snapshots that are left behind: the memory of the wal-index becomes a file beside members that read, and strangers come.

use super::words::{CheckedWords, Slots};
use crate::sync::group_board::Board;
use crate::sync::group_board::of_test::board;
use crate::sync::reader_gate::Gate;
use crate::sync::slot_gates::Gates;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::iter;

const SLOT: u8 = 0b1000;
const MEMBERS: usize = 2;

struct Group {
    board: Board<CheckedWords>,
    gate: Gate<Slots>,
    /// True while the slot is locked on the file, under the lock of the wal-index.
    is_locked: Mutex<bool>,
    /// What the slot protects from strangers.
    page: UnsafeCell<u64>,
}

// SAFETY: who may look at the page is what the checker is asked.
unsafe impl Sync for Group {}
// SAFETY: as above.
unsafe impl Send for Group {}

impl Group {
    fn new() -> Arc<Group> {
        let page = UnsafeCell::new(0);
        Arc::new(Group { board: board(), gate: Gate::default(), is_locked: Mutex::new(false), page })
    }

    /// The owner gives back on the file what no seat shares.
    fn give_back(&self, is_locked: &mut bool) {
        *is_locked &= self.board.shared_slots(MEMBERS) & SLOT != 0;
    }

    /// A member reads by its seat. It tells the owner once it has been left behind, or where it was refused.
    fn read(&self, seat: usize) {
        let is_inside = self.board.share(seat, SLOT, 0, true);
        if is_inside {
            // SAFETY: the checker fails the test where a thread writes meanwhile.
            self.page.with(|page| assert_eq!(unsafe { *page }, 0));
        }
        if !is_inside || !self.board.end(seat, SLOT, 0) {
            self.give_back(&mut self.is_locked.lock().unwrap());
        }
    }

    /// The memory becomes a file.
    fn change(&self) {
        let gates = Gates::new(&self.gate, Some((&self.board, MEMBERS)));
        let mut is_locked = self.is_locked.lock().unwrap();
        gates.close_all(iter::empty()).unwrap();
        *is_locked = self.board.shared_slots(MEMBERS) & SLOT != 0;
        self.board.begin_epoch();
        self.give_back(&mut is_locked);
        gates.close(0);
    }

    /// A stranger writes where nobody reads.
    fn write(&self) -> bool {
        let is_locked = self.is_locked.lock().unwrap();
        if !*is_locked {
            // SAFETY: the checker fails the test where a thread reads meanwhile.
            self.page.with_mut(|page| unsafe { *page = 9 });
        }
        !*is_locked
    }
}

#[test]
fn a_slot_is_locked_on_the_file_while_a_member_reads_and_no_longer() {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(|| {
        let group = Group::new();
        let members = [0, 1].map(|seat| {
            let group = group.clone();
            thread::spawn(move || group.read(seat))
        });
        group.change();
        group.write();
        members.into_iter().for_each(|member| member.join().unwrap());
        assert!(group.write(), "the slot stays locked");
    });
}

//! Epochs: the memory of the wal-index becomes another one, and no member uses a slot with the one before.

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
    /// The number of the memory that the owner has, under the lock of the wal-index.
    memory: Mutex<usize>,
    /// Each memory, which somebody else may change once the owner has another.
    memories: [UnsafeCell<u64>; 2],
}

// SAFETY: who may use a memory is what the checker is asked.
unsafe impl Sync for Group {}
// SAFETY: as above.
unsafe impl Send for Group {}

impl Group {
    fn new() -> Arc<Group> {
        let memories = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Group { board: board(), gate: Gate::default(), memory: Mutex::new(0), memories })
    }

    /// A member that has that memory reads by its seat; `false` where it has to come anew.
    fn read(&self, seat: usize, memory: usize, epoch: u64) -> bool {
        let is_inside = self.board.share(seat, SLOT, epoch, true);
        if is_inside {
            // SAFETY: the checker fails the test where a thread writes meanwhile.
            self.memories[memory].with(|memory| assert_eq!(unsafe { *memory }, 0));
            assert_eq!(self.board.epoch(), epoch, "it has a slot of another memory");
            self.board.unshare(seat, SLOT);
        }
        is_inside
    }

    /// A member comes anew: it gets the memory, and the epoch of that.
    fn join(&self) -> (usize, u64) {
        let memory = self.memory.lock().unwrap();
        (*memory, self.board.epoch())
    }

    /// The memory becomes another one where nobody has a slot.
    fn change(&self) -> bool {
        let gates = Gates::new(&self.gate, Some((&self.board, MEMBERS)));
        let closed = self.memory.lock().unwrap();
        let is_free = gates.close_all(iter::empty()).unwrap();
        drop(closed);
        if is_free {
            let mut memory = self.memory.lock().unwrap();
            self.board.begin_epoch();
            let before = std::mem::replace(&mut *memory, 1);
            drop(memory);
            // SAFETY: the checker fails the test where a thread reads meanwhile.
            self.memories[before].with_mut(|memory| unsafe { *memory = 9 });
        }
        let _lock = self.memory.lock().unwrap();
        gates.close(0);
        is_free
    }
}

#[test]
fn a_slot_is_used_with_the_memory_of_its_epoch_only() {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(|| {
        let group = Group::new();
        let members = [0, 1].map(|seat| {
            let group = group.clone();
            thread::spawn(move || {
                if !group.read(seat, 0, 0) {
                    let (memory, epoch) = group.join();
                    group.read(seat, memory, epoch);
                }
            })
        });
        let changed = group.change();
        members.into_iter().for_each(|member| member.join().unwrap());
        assert_eq!(group.read(0, 0, 0), !changed, "an old memory has no slot");
        let (memory, epoch) = group.join();
        assert!(group.read(1, memory, epoch), "a member that comes anew reads");
        assert_eq!(group.board.shared_slots(MEMBERS), 0, "one that was refused has a slot");
    });
}

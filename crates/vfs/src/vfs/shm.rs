//! The wal-index in process memory.
//!
//! SQLite keeps the index of its write-ahead log in shared memory. Since one process owns the database,
//! plain memory of that process does: no `-shm` file, no map, no lock system calls.
//!
//! Invariants:
//! 1. A region, once mapped, neither moves nor is freed before the database is closed by its last handle.
//! 2. A lock slot is held by any number of sharers or by one exclusive holder, never both.

use crate::abi::codes::SQLITE_SHM_NLOCK;
use litefoot_engine::sync::{Mutex, MutexGuard};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Most regions of a wal-index: 32 KiB each, so 4 GiB of log frames and more.
const REGIONS: usize = 4096;

/// Alignment of a region; SQLite wants 8, a cache line keeps the header from being split.
const REGION_ALIGNMENT: usize = 64;

/// Slots of the wal-index (SQLite's `wal.c`).
pub(super) const WRITE_SLOT: usize = 0;
pub(super) const CHECKPOINT_SLOT: usize = 1;
pub(super) const READ_SLOTS: usize = 3;

/// The slots that one handle holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeldSlots {
    shared: u8,
    exclusive: u8,
}

impl HeldSlots {
    /// Whether its holder reads: it holds one of the slots of readers.
    pub fn reads(self) -> bool {
        self.shared >> READ_SLOTS != 0
    }
}

/// The shared memory of one database.
#[derive(Default)]
pub struct SharedMemory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    /// Number of sharers of a slot, or -1 for an exclusive holder.
    slots: [i32; SQLITE_SHM_NLOCK],
    users: usize,
}

struct Region {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned by the region and only ever handed out as a raw pointer; SQLite
// synchronises what it does there by the lock slots and barriers.
unsafe impl Send for Region {}

impl Region {
    fn new(bytes: usize) -> Option<Region> {
        let layout =
            Layout::from_size_align(bytes, REGION_ALIGNMENT).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: the layout has a size that is not zero.
        let memory = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Region { memory, layout })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), self.layout) }
    }
}

impl SharedMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A handle starts to use the memory; the first does something before anybody else can.
    pub fn join<E>(&self, first: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut state = self.state();
        if state.users == 0 {
            first()?;
        }
        state.users += 1;
        Ok(())
    }

    /// A handle stops using the memory; with the last one it is gone, and the next user starts from zeros.
    pub fn leave(&self, held: &mut HeldSlots) {
        let mut state = self.state();
        state.release(held, u8::MAX);
        state.users = state.users.saturating_sub(1);
        if state.users == 0 {
            state.regions.clear();
        }
    }

    /// The region of that number: `Ok(None)` where it does not exist and `extend` is not set, `Err` when
    /// memory runs out.
    pub fn map(&self, number: usize, bytes: usize, extend: bool) -> Result<Option<NonNull<u8>>, ()> {
        let mut state = self.state();
        if number >= REGIONS {
            return Err(());
        }
        if number >= state.regions.len() && !extend {
            return Ok(None);
        }
        while state.regions.len() <= number {
            state.regions.push(Region::new(bytes).ok_or(())?);
        }
        Ok(Some(state.regions[number].memory))
    }

    /// Takes slots `first .. first + count` without waiting; `false` when another handle is in the way.
    pub fn lock(&self, held: &mut HeldSlots, first: usize, count: usize, exclusive: bool) -> bool {
        let mask = mask(first, count);
        let mut state = self.state();
        if exclusive {
            let free = (first..first + count).all(|slot| state.slots[slot] == 0);
            if free {
                state.slots[first..first + count].fill(-1);
                held.exclusive |= mask;
            }
            return free;
        }
        if held.shared & mask == mask {
            return true;
        }
        let free = (first..first + count).all(|slot| state.slots[slot] >= 0);
        if free {
            for slot in first..first + count {
                state.slots[slot] += 1;
            }
            held.shared |= mask;
        }
        free
    }

    /// Gives slots back.
    pub fn unlock(&self, held: &mut HeldSlots, first: usize, count: usize) {
        self.state().release(held, mask(first, count));
    }

    /// Orders all memory accesses before it against all after it.
    pub fn barrier(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // SQLite's own implementations pass through the mutex as well, so that a barrier also orders
        // against a concurrent `map`.
        drop(self.state());
    }
}

impl State {
    fn release(&mut self, held: &mut HeldSlots, mask: u8) {
        for slot in 0..SQLITE_SHM_NLOCK {
            let bit = 1 << slot;
            if mask & bit & held.exclusive != 0 {
                self.slots[slot] = 0;
            } else if mask & bit & held.shared != 0 {
                self.slots[slot] -= 1;
            }
        }
        held.exclusive &= !mask;
        held.shared &= !mask;
    }
}

fn mask(first: usize, count: usize) -> u8 {
    (((1u16 << count) - 1) << first) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_or_exclusive() {
        let memory = SharedMemory::default();
        let (mut a, mut b) = (HeldSlots::default(), HeldSlots::default());
        assert!(memory.lock(&mut a, 3, 1, false));
        assert!(memory.lock(&mut b, 3, 1, false));
        assert!(!memory.lock(&mut b, 1, 7, true));
        memory.unlock(&mut a, 3, 1);
        memory.unlock(&mut b, 3, 1);
        assert!(memory.lock(&mut b, 1, 7, true));
        assert!(!memory.lock(&mut a, 5, 1, false));
        assert!(memory.lock(&mut a, 0, 1, true));
        memory.unlock(&mut b, 1, 7);
        assert!(memory.lock(&mut a, 5, 1, false));
    }

    #[test]
    fn leaving_gives_back_what_is_held_and_the_last_one_clears() {
        let memory = SharedMemory::default();
        let (mut a, mut b) = (HeldSlots::default(), HeldSlots::default());
        assert_eq!(memory.join(|| Err(1)), Err(1));
        for _ in 0..2 {
            let first = memory.state().users == 0;
            assert_eq!(memory.join(|| if first { Ok(()) } else { Err(2) }), Ok(()));
        }
        assert!(memory.map(0, 32768, false).unwrap().is_none());
        let region = memory.map(1, 32768, true).unwrap().unwrap();
        // SAFETY: region 1 holds 32768 bytes.
        unsafe { region.as_ptr().write(7) };
        assert_eq!(memory.map(1, 32768, false).unwrap(), Some(region));
        assert!(memory.lock(&mut a, 0, 1, true));
        memory.leave(&mut a);
        assert!(memory.lock(&mut b, 0, 1, true));
        memory.leave(&mut b);
        assert!(memory.map(1, 32768, false).unwrap().is_none());
        assert!(memory.map(REGIONS, 32768, true).is_err());
    }
}

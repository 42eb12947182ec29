//! The wal-index in process memory.
//!
//! SQLite keeps the index of its write-ahead log in shared memory. Since one process owns the database,
//! plain memory of that process does: no `-shm` file, no map, no lock system calls.
//!
//! Who takes a slot shared writes nothing but a word of its own, and then looks whether somebody has the slot exclusively;
//! who wants it exclusively says so, and then looks at the words of all. Both in one order that all agree on, so that at
//! least one of them sees the other (as in `lock.rs`).
//!
//! Invariants:
//! 1. A region, once mapped, neither moves nor is freed before the database is closed by its last handle.
//! 2. A lock slot is held by any number of sharers or by one exclusive holder, never both.
//! 3. What is held exclusively changes under the lock only; a slot that was never shared before becomes so under it.

use crate::abi::codes::SQLITE_SHM_NLOCK;
use litefoot_engine::sync::{Mutex, MutexGuard};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Most regions of a wal-index: 32 KiB each, so 4 GiB of log frames and more.
const REGIONS: usize = 4096;

/// Alignment of a region; SQLite wants 8, a cache line keeps the header from being split.
const REGION_ALIGNMENT: usize = 64;

/// Slots of the wal-index (SQLite's `wal.c`).
pub(super) const WRITE_SLOT: usize = 0;
pub(super) const CHECKPOINT_SLOT: usize = 1;
pub(super) const READ_SLOTS: usize = 3;

/// The slots that one handle holds.
#[derive(Debug)]
pub struct HeldSlots {
    shared: Arc<Sharer>,
    exclusive: u8,
}

/// What one handle shares; in a cache line, or two, of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Sharer(AtomicU8);

impl HeldSlots {
    /// Whether its holder reads: it holds one of the slots of readers.
    pub fn reads(&self) -> bool {
        self.shared() >> READ_SLOTS != 0
    }

    /// Nobody else changes it.
    #[inline]
    fn shared(&self) -> u8 {
        self.shared.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn share(&self, slots: u8) {
        self.shared.0.store(slots, Ordering::SeqCst);
    }
}

/// The shared memory of one database.
#[derive(Default)]
pub struct SharedMemory {
    /// Slots that somebody holds exclusively, or is about to.
    exclusive: AtomicU8,
    /// Slots that somebody has ever shared.
    sharable: AtomicU8,
    /// Barriers of those who had a slot exclusively.
    barriers: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    sharers: Vec<Arc<Sharer>>,
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

    /// The slots of a new handle: none.
    pub fn sit(&self) -> HeldSlots {
        let held = HeldSlots { shared: Arc::default(), exclusive: 0 };
        self.state().sharers.push(held.shared.clone());
        held
    }

    /// The handle is closed.
    pub fn give_up(&self, held: &mut HeldSlots) {
        self.unlock(held, 0, SQLITE_SHM_NLOCK);
        self.state().sharers.retain(|other| !Arc::ptr_eq(other, &held.shared));
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
        self.unlock(held, 0, SQLITE_SHM_NLOCK);
        let mut state = self.state();
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
    #[inline]
    pub fn lock(&self, held: &mut HeldSlots, first: usize, count: usize, exclusive: bool) -> bool {
        let mask = mask(first, count);
        if exclusive {
            return self.lock_exclusively(held, mask);
        }
        let before = held.shared();
        if before & mask == mask {
            return true;
        }
        // With what those who had it exclusively before it became sharable have said.
        if self.sharable.load(Ordering::Acquire) & mask == mask {
            held.share(before | mask);
            if self.exclusive.load(Ordering::SeqCst) & mask == 0 {
                return true;
            }
            held.share(before);
        }
        self.share_slowly(held, mask)
    }

    /// Whoever wants a slot exclusively has it by now, or has given it up.
    #[cold]
    fn share_slowly(&self, held: &HeldSlots, mask: u8) -> bool {
        let _state = self.state();
        self.sharable.fetch_or(mask, Ordering::Release);
        let free = self.exclusive.load(Ordering::SeqCst) & mask == 0;
        if free {
            held.share(held.shared() | mask);
        }
        free
    }

    fn lock_exclusively(&self, held: &mut HeldSlots, mask: u8) -> bool {
        let state = self.state();
        let before = self.exclusive.load(Ordering::Relaxed);
        if before & mask != 0 {
            return false;
        }
        self.exclusive.store(before | mask, Ordering::SeqCst);
        let shared = |sharer: &Arc<Sharer>| sharer.0.load(Ordering::SeqCst) & mask != 0;
        // Most writers take a slot that nobody ever shares.
        let is_shared = self.sharable.load(Ordering::Relaxed) & mask != 0 && state.sharers.iter().any(shared);
        if is_shared {
            self.exclusive.store(before, Ordering::SeqCst);
        } else {
            held.exclusive |= mask;
        }
        !is_shared
    }

    /// Gives slots back.
    #[inline]
    pub fn unlock(&self, held: &mut HeldSlots, first: usize, count: usize) {
        let mask = mask(first, count);
        if held.exclusive & mask != 0 {
            self.unlock_exclusively(held, mask);
        }
        // Whoever finds it given up finds everything read. It may be found late, and a slot taken for shared still.
        if held.shared() & mask != 0 {
            held.shared.0.store(held.shared() & !mask, Ordering::Release);
        }
    }

    fn unlock_exclusively(&self, held: &mut HeldSlots, mask: u8) {
        let _state = self.state();
        self.exclusive.fetch_and(!(held.exclusive & mask), Ordering::SeqCst);
        held.exclusive &= !mask;
    }

    /// Orders all memory accesses before it against all after it. Whoever has a slot exclusively says so to all others:
    /// they find what was done before, where a fence alone would be enough only if SQLite's accesses were atomic.
    #[inline]
    pub fn barrier(&self, held: &HeldSlots) {
        fence(Ordering::SeqCst);
        if held.exclusive == 0 {
            self.barriers.load(Ordering::Acquire);
        } else {
            self.barriers.fetch_add(1, Ordering::AcqRel);
        }
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
        let (mut a, mut b) = (memory.sit(), memory.sit());
        assert!(memory.lock(&mut a, 3, 1, false));
        assert!(memory.lock(&mut b, 3, 1, false));
        assert!(a.reads() && !memory.lock(&mut b, 1, 7, true));
        // Not even one's own.
        memory.unlock(&mut a, 3, 1);
        assert!(!memory.lock(&mut b, 3, 1, true));
        memory.unlock(&mut b, 3, 1);
        assert!(!a.reads() && memory.lock(&mut b, 1, 7, true));
        assert!(!memory.lock(&mut a, 5, 1, false) && !memory.lock(&mut a, 3, 1, false));
        assert!(memory.lock(&mut a, 0, 1, true));
        memory.unlock(&mut b, 1, 7);
        assert!(memory.lock(&mut a, 5, 1, false));
        assert!(memory.lock(&mut b, 1, 1, true));
        memory.give_up(&mut b);
        assert!(memory.lock(&mut a, 1, 1, true));
    }

    #[test]
    fn leaving_gives_back_what_is_held_and_the_last_one_clears() {
        let memory = SharedMemory::default();
        let (mut a, mut b) = (memory.sit(), memory.sit());
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

    /// Sharers must never find what an exclusive holder has half done.
    #[test]
    fn threads_share_a_slot_or_have_it_alone() {
        let memory = SharedMemory::default();
        let (one, other) = (AtomicU64::new(0), AtomicU64::new(0));
        let share = || {
            let (mut held, mut seen) = (memory.sit(), 0);
            while seen < 2000 {
                if memory.lock(&mut held, 4, 1, false) {
                    assert_eq!(one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
                    memory.unlock(&mut held, 4, 1);
                    seen += 1;
                }
            }
            memory.give_up(&mut held);
        };
        let change = || {
            let (mut held, mut done) = (memory.sit(), 0);
            while done < 500 {
                if memory.lock(&mut held, 4, 2, true) {
                    one.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                    other.fetch_add(1, Ordering::Relaxed);
                    memory.unlock(&mut held, 4, 2);
                    done += 1;
                }
            }
            memory.give_up(&mut held);
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(share);
            }
            for _ in 0..2 {
                scope.spawn(change);
            }
        });
        assert_eq!((one.load(Ordering::Relaxed), other.load(Ordering::Relaxed)), (1000, 1000));
        assert!(memory.state().sharers.is_empty() && memory.exclusive.load(Ordering::Relaxed) == 0);
    }
}

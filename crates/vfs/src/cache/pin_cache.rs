//! Pages that a connection goes on to hold when SQLite has done with them.
//!
//! # Why
//! Every search begins at the root of a b-tree. Two threads that hold and unpin it take the word of its state from
//! each other, again and again. A connection that keeps it pinned writes nothing.
//!
//! # Access to the slots
//! A connection reads and changes its slots only while it has a lock on the database ([`ReaderSlot`]), or to unpin
//! pages after SQLite's last look. A connection that gets the lock EXCLUSIVE therefore finds every other connection
//! without a lock, and unpins their pages ([`PinCaches::unpin`]). While a transaction of a rollback journal is written,
//! only pages that SQLite looks at are pinned. In WAL mode readers and checkpoints meet. There a cached page is changed
//! in memory like any other pinned page. If it cannot be, the pool is dropped ([`Pages::is_stale`]): the write has
//! failed, or the page lies behind the new end.
//!
//! # Invariants
//! 1. A slot that has a page holds it once, in the pool that is set, however often SQLite looks at it.
//! 2. A slot whose page SQLite looks at is changed by nobody but its own connection.

use crate::cache::pool::Pages;
use crate::stats::Stats;
use crate::sync::lock_table::ReaderSlot;
use litefoot_storage::mapped_pool::PagePlace;
use litefoot_storage::sync::Mutex;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Pages that one connection keeps, at most: as many as `used` has bits.
const SLOTS: usize = 64;

/// The slot of a page. Interior pages often lie at even distances, and would meet in a few of the slots.
#[inline]
fn place(page: u64) -> usize {
    ((page as u32).wrapping_mul(0x9e37_79b1) >> (u32::BITS - SLOTS.ilog2())) as usize
}

/// Requests after which the figures of the database follow. A question from inside the process sees all of them.
const COUNTED_TOGETHER: u64 = 256;

/// A page of the file: where it lies there, which tells it from all others, and which one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub offset: u64,
    pub number: u64,
}

/// The pin cache of one connection, with its count of hits.
pub struct PinCache {
    slots: [PinSlot; SLOTS],
    /// Which of them have a page.
    used: AtomicU64,
    /// The pool that the pages are from.
    pages: Mutex<Option<Arc<Pages>>>,
    /// Requests that found their page in memory, and how many of them are in the figures. Only its connection counts.
    hits: AtomicU64,
    counted: AtomicU64,
}

impl Default for PinCache {
    fn default() -> PinCache {
        PinCache {
            slots: std::array::from_fn(|_| PinSlot::default()),
            used: AtomicU64::new(0),
            pages: Mutex::default(),
            hits: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }
}

/// All fields are changed by one thread at a time, and what one leaves the other finds: the locks on the database see
/// to that.
#[derive(Default)]
struct PinSlot {
    /// Where the page lies in the file, and one more; 0 for none.
    page: AtomicU64,
    /// Where its state lies, and its bytes.
    place: AtomicPtr<()>,
    address: AtomicPtr<u8>,
    /// How often SQLite looks at it.
    users: AtomicU32,
}

impl PinSlot {
    #[inline]
    fn has(&self, offset: u64) -> bool {
        self.page.load(Ordering::Relaxed) == offset + 1
    }

    /// The address of the page that it has, while nobody changes that.
    ///
    /// # Safety
    /// It has a page, and its connection uses the pool that this is from.
    #[inline]
    unsafe fn address(&self) -> Option<NonNull<u8>> {
        // SAFETY: where there is a page there are both addresses (`PinCache::keep`); the pool is there.
        unsafe {
            let place = PagePlace::from_raw(NonNull::new_unchecked(self.place.load(Ordering::Relaxed)));
            let address = NonNull::new_unchecked(self.address.load(Ordering::Relaxed));
            place.is_steady().then_some(address)
        }
    }

    /// True if the slot may take this page for another. A connection that writes keeps none: it may cut the page off.
    #[inline]
    fn is_free_for(&self, offset: u64, only_reads: bool) -> bool {
        only_reads && self.users() == 0 && !self.has(offset)
    }

    #[inline]
    fn users(&self) -> u32 {
        self.users.load(Ordering::Relaxed)
    }

    /// Lets go of its page for another, or for none; answers whether it had one.
    fn replace(&self, pages: &Pages, page: u64, at: (*mut u8, *mut ()), users: u32) -> bool {
        let before = self.page.load(Ordering::Relaxed);
        self.page.store(page, Ordering::Relaxed);
        self.address.store(at.0, Ordering::Relaxed);
        self.place.store(at.1, Ordering::Relaxed);
        self.users.store(users, Ordering::Relaxed);
        if before > 0 {
            // SAFETY: invariant 1; nobody looks at it by this slot any more.
            unsafe { pages.unpin((before - 1) >> pages.shift()) };
        }
        before > 0
    }
}

impl PinCache {
    #[inline]
    fn slot(&self, page: Page) -> &PinSlot {
        &self.slots[place(page.number)]
    }

    /// The address of a page that is kept; it stays while the lock on the database does.
    ///
    /// # Safety
    /// The connection has a lock on the database, and uses the pool that is set.
    #[inline]
    pub unsafe fn look(&self, page: Page) -> Option<NonNull<u8>> {
        let slot = self.slot(page);
        // SAFETY: it has the page, and by contract.
        if slot.has(page.offset) { unsafe { slot.address() } } else { None }
    }

    /// The same for SQLite, until [`PinCache::give_back`].
    ///
    /// # Safety
    /// As for [`PinCache::look`].
    #[inline]
    pub unsafe fn pin_cached(&self, page: Page) -> Option<NonNull<u8>> {
        // SAFETY: by contract.
        let address = unsafe { self.look(page) }?;
        let users = &self.slot(page).users;
        users.store(users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.hit();
        Some(address)
    }

    /// SQLite has done with a page; `false` where it is not kept, or was not lent: then whoever holds it unpins it.
    #[inline]
    pub fn give_back(&self, page: Page) -> bool {
        let slot = self.slot(page);
        if !slot.has(page.offset) {
            return false;
        }
        let users = slot.users();
        if users == 0 {
            return false;
        }
        slot.users.store(users - 1, Ordering::Relaxed);
        true
    }

    /// True if a page may be kept.
    #[inline]
    pub fn may_cache_pin(&self, reader_slot: &ReaderSlot, pages: &Pages, page: Page) -> bool {
        self.slot(page).is_free_for(page.offset, reader_slot.only_reads()) && pages.may_cache_pin()
    }

    /// Keeps a page that may be, and that the connection holds; SQLite looks at it `users` times.
    pub fn keep(&self, pages: &Pages, page: Page, at: (NonNull<u8>, PagePlace), users: u32) {
        let at = (at.0.as_ptr(), at.1.into_raw().as_ptr());
        if !self.slot(page).replace(pages, page.offset + 1, at, users) {
            let used = self.used.load(Ordering::Relaxed);
            self.used.store(used | 1 << place(page.number), Ordering::Relaxed);
            pages.count_cached_pins(1);
        }
    }

    /// The connection uses this pool from now on, and keeps nothing so far. Where SQLite has pages, it is the same pool.
    pub fn renew(&self, pages: Option<Arc<Pages>>) {
        let mut mine = self.pages.lock();
        self.clear(mine.as_deref());
        *mine = pages;
    }

    /// Lets go of what SQLite does not look at.
    fn clear(&self, pages: Option<&Pages>) {
        let Some(pages) = pages else { return };
        let used = self.used.load(Ordering::Relaxed);
        let (mut left, mut used_still) = (used, used);
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.slots[place].users() == 0 {
                self.slots[place].replace(pages, 0, (ptr::null_mut(), ptr::null_mut()), 0);
                used_still &= !(1 << place);
            }
        }
        if used != used_still {
            self.used.store(used_still, Ordering::Relaxed);
            pages.count_cached_pins(-i64::from((used ^ used_still).count_ones()));
        }
    }

    /// A request has found its page in memory.
    #[inline]
    pub fn hit(&self) {
        self.hits.store(self.hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// True if so many requests were counted that the figures should follow.
    #[inline]
    pub fn wants_count(&self) -> bool {
        self.hits.load(Ordering::Relaxed) - self.counted.load(Ordering::Relaxed) >= COUNTED_TOGETHER
    }
}

/// The pin caches of all connections to one database.
#[derive(Default)]
pub struct PinCaches(Mutex<Vec<Arc<PinCache>>>);

impl PinCaches {
    /// That of a new connection.
    pub fn join(&self) -> Arc<PinCache> {
        let pin_cache = Arc::<PinCache>::default();
        self.0.lock().push(pin_cache.clone());
        pin_cache
    }

    /// The connection is closed.
    pub fn leave(&self, pin_cache: &Arc<PinCache>, stats: &Stats) {
        let mut all = self.0.lock();
        count(pin_cache, stats);
        pin_cache.renew(None);
        all.retain(|other| !Arc::ptr_eq(other, pin_cache));
    }

    /// Lets go of everything that SQLite does not look at. The caller has the lock EXCLUSIVE.
    pub fn unpin(&self) {
        for pin_cache in &*self.0.lock() {
            pin_cache.clear(pin_cache.pages.lock().as_deref());
        }
    }

    /// Brings the figures up to date.
    pub fn count(&self, stats: &Stats) {
        self.0.lock().iter().for_each(|pin_cache| count(pin_cache, stats));
    }
}

/// Under the lock of all.
fn count(pin_cache: &PinCache, stats: &Stats) {
    let hits = pin_cache.hits.load(Ordering::Relaxed);
    Stats::add(&stats.pool_hits, hits - pin_cache.counted.swap(hits, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_a_page_only_of_a_reader_and_only_while_sqlite_looks_at_none() {
        for (page, users, offset, only_reads, free) in [
            (0, 0, 4096, true, true),
            (0, 0, 4096, false, false),
            // The slot has another page, and SQLite has done with that.
            (8193, 0, 4096, true, true),
            (8193, 1, 4096, true, false),
            // The slot has the page already.
            (4097, 0, 4096, true, false),
            (4097, 2, 4096, true, false),
        ] {
            let slot = PinSlot::default();
            slot.page.store(page, Ordering::Relaxed);
            slot.users.store(users, Ordering::Relaxed);
            assert_eq!(slot.is_free_for(offset, only_reads), free, "{page} {users} {only_reads}");
        }
    }

    #[test]
    fn pages_at_even_distances_meet_in_few_slots() {
        for distance in [1, 2, 64, 128, 1000, 4096] {
            let mut slots: Vec<usize> = (0..SLOTS as u64).map(|page| place(page * distance)).collect();
            slots.sort_unstable();
            slots.dedup();
            assert!(slots.len() >= SLOTS / 3, "{} slots at a distance of {distance}", slots.len());
        }
    }

    #[test]
    fn hits_are_counted_together() {
        let pin_cache = PinCache::default();
        for count in 1..=COUNTED_TOGETHER {
            assert!(!pin_cache.wants_count(), "after {}", count - 1);
            pin_cache.hit();
        }
        assert!(pin_cache.wants_count());
    }
}

//! One budget of memory for all pools and reservations of a process.
//!
//! # Why
//! A process may have many databases open, and a device has memory for few pages. The share of one database depends on
//! the needs of the others, and is not known when the database is opened.
//!
//! # What it promises
//! 1. Pools take memory in portions, as they need it, and together never more than the limit leaves.
//! 2. Memory of other users ([`Budget::take`]: dirty pages of a transaction, a log in memory) comes first. Pools give
//!    up as much as is missing.
//! 3. A pool's share is the limit over the number of pools. Below its share, a pool takes memory from the largest pool;
//!    above it, the pool replaces its own pages.
//! 4. A pool gives up only memory that is free at once: pinned and dirty pages stay.
//!
//! # Invariants
//! 1. `used` is the sum of every pool's `bytes` and of all reservations.
//! 2. No other lock is taken under that of the members. A pool that gives up memory only tries the locks of its
//!    partitions: the pool that asks has some of its own.

use crate::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// A pool, as the budget sees it.
pub(crate) trait Member: Send + Sync {
    /// Bytes of the budget that it has.
    fn bytes(&self) -> usize;
    /// Gives up to `bytes` back, without waiting; answers how many.
    fn give_up(&self, bytes: usize) -> usize;
}

/// Memory of a process.
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// The part of `used` that belongs to reservations.
    taken: AtomicUsize,
    members: Mutex<Vec<Weak<dyn Member>>>,
    /// The number of members.
    count: AtomicUsize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Budget {
        Budget {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            members: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Most bytes.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of all reservations.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Changes the limit; pools give up what is too much.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.make_room();
    }

    /// Takes memory away from pools.
    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.make_room();
    }

    /// Gives back what was taken.
    pub fn put_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more memory was given back than taken");
    }

    fn make_room(&self) {
        if self.used() <= self.limit() {
            return;
        }
        let mut pools = self.pools();
        pools.sort_unstable_by_key(|pool| std::cmp::Reverse(pool.bytes()));
        for pool in pools {
            let missing = self.used().saturating_sub(self.limit());
            if missing == 0 {
                return;
            }
            pool.give_up(missing);
        }
    }

    /// The living pools. The lock is free again when this returns: a pool that ends takes it.
    fn pools(&self) -> Vec<Arc<dyn Member>> {
        self.members.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn join(&self, member: Weak<dyn Member>) {
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        members.push(member);
        self.count.store(members.len(), Ordering::Relaxed);
    }

    /// A pool of `own` bytes has ended.
    pub(crate) fn leave(&self, own: usize) {
        self.put_back(own);
        let mut members = self.members.lock();
        members.retain(|member| member.strong_count() > 0);
        self.count.store(members.len(), Ordering::Relaxed);
    }

    /// Takes memory for a pool that has `own` bytes; `false` where the pool gets no more.
    pub(crate) fn take_for_pool(&self, bytes: usize, own: usize) -> bool {
        self.take_within_limit(bytes) || self.take_from_largest(bytes, own)
    }

    fn take_within_limit(&self, bytes: usize) -> bool {
        let limit = self.limit();
        let within = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn take_from_largest(&self, bytes: usize, own: usize) -> bool {
        let share = self.limit() / self.count.load(Ordering::Relaxed).max(1);
        if own + bytes > share {
            return false;
        }
        let pools = self.pools();
        let largest = pools.iter().max_by_key(|pool| pool.bytes());
        let Some(largest) = largest.filter(|pool| pool.bytes() > share) else { return false };
        largest.give_up(bytes);
        self.take_within_limit(bytes)
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Budget({} of {} bytes)", self.used(), self.limit())
    }
}

/// Memory that was taken from a budget; given back when this is dropped.
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// Nothing yet.
    pub fn nothing(budget: Arc<Budget>) -> Reservation {
        Reservation { budget, bytes: 0 }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Most bytes for this reservation while all reservations together stay within `share` of the limit. Memory of
    /// pools counts as free.
    pub fn most(&self, share: f64) -> usize {
        let others = self.budget.taken().saturating_sub(self.bytes);
        ((self.budget.limit() as f64 * share) as usize).saturating_sub(others)
    }

    /// So many bytes are in use now.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => {
                self.budget.taken.fetch_add(more, Ordering::Relaxed);
                self.budget.take(more);
            }
            None => self.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    fn give_back(&self, bytes: usize) {
        self.budget.taken.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.put_back(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

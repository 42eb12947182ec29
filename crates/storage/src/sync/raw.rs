//! The words behind the locks.
//!
//! # Invariants
//! 1. A mutex is 0 while it is free, 1 while it is locked, 2 while it is locked and a thread may sleep on it.
//! 2. A thread that sleeps on a lock of readers and writers is counted before its last look at the lock. A thread that
//!    gives the lock up looks at that count afterwards, and changes the word that the others sleep on.
//! 3. While a writer waits, no new reader gets in.

use super::futex;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

/// Looks at a locked lock before the thread sleeps.
const SPINS: usize = 100;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A mutex.
pub struct RawMutex(AtomicU32);

impl RawMutex {
    #[cold]
    fn lock_slowly(&self) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) != HELD {
                break;
            }
            spin_loop();
        }
        if self.try_hold() {
            return;
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            futex::wait(&self.0, AWAITED, None);
        }
    }

    #[inline]
    fn try_hold(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: the thread that has changed the word from FREE has the lock, and only that thread makes it FREE again.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawMutex = RawMutex(AtomicU32::new(FREE));
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_hold() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_hold()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            futex::wake(&self.0, 1);
        }
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }
}

/// A writer has the lock.
const WRITER: u32 = 1 << 31;
/// A writer waits for it.
const QUEUED: u32 = 1 << 30;

/// A lock of readers and writers.
pub struct RawRwLock {
    /// The number of readers, and the two flags.
    state: AtomicU32,
    /// Changed to wake the sleepers.
    wake_ups: AtomicU32,
    sleepers: AtomicU32,
}

impl RawRwLock {
    #[inline]
    fn try_read(&self) -> bool {
        let mut state = self.state.load(Ordering::SeqCst);
        while state & (WRITER | QUEUED) == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// A writer that finds the lock free takes it, before all that wait.
    #[inline]
    fn try_write(&self) -> bool {
        let mut state = self.state.load(Ordering::SeqCst);
        while state & !QUEUED == 0 {
            match self.state.compare_exchange_weak(state, WRITER, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Says that a writer waits, where it has to.
    fn try_write_or_queue(&self) -> bool {
        self.try_write() || {
            self.state.fetch_or(QUEUED, Ordering::SeqCst);
            self.try_write()
        }
    }

    #[cold]
    fn wait(&self, get: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if self.state.load(Ordering::Relaxed) & (WRITER | QUEUED) == 0 && get() {
                return;
            }
            spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let wake_ups = self.wake_ups.load(Ordering::SeqCst);
            if get() {
                break;
            }
            futex::wait(&self.wake_ups, wake_ups, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    #[inline]
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_ups.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.wake_ups, i32::MAX);
        }
    }
}

// SAFETY: readers are counted while there is no writer, and a writer is noted while there is no reader. Each takes its
// own note back.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawRwLock =
        RawRwLock { state: AtomicU32::new(0), wake_ups: AtomicU32::new(0), sleepers: AtomicU32::new(0) };
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        if !self.try_read() {
            self.wait(|| self.try_read());
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_read()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) & !QUEUED == 1 {
            self.wake();
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        if !self.try_write() {
            self.wait(|| self.try_write_or_queue());
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_write()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.state.fetch_and(!WRITER, Ordering::SeqCst);
        self.wake();
    }

    fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) & !QUEUED != 0
    }
}

//! The locks of the whole project.
//!
//! # Why
//! One place to say which mutex is meant, so that a checker can stand in for it. These compile with the
//! code that uses them: the thread sanitizer then sees every acquire and release. Those of the standard
//! library come compiled, and the sanitizer takes what they guard for a race.
//!
//! # What it promises
//! 1. A lock is a few words, and nothing of it lies elsewhere. A forked process has no table of sleeping threads of its
//!    parent to run into. A lock that is new in the child is free.
//! 2. Locking, waiting and waking allocate nothing.
//! 3. A panic under a lock leaves it unlocked: every value guarded here is consistent between any two statements of its
//!    methods, or latched as failed.
//!
//! | file | holds |
//! |---|---|
//! | `raw` | the mutex and the lock of readers and writers |
//! | `condvar` | waiting for a change under a mutex |
//! | `futex` | sleeping on a word of memory |
//! | `global` | a mutex of the whole process that a forked child finds free |

mod condvar;
mod futex;
mod global;
mod raw;

pub use condvar::{Condvar, TimedOut};
pub use global::{AcrossFork, Global, GlobalGuard};
use std::sync::atomic::{AtomicU64, Ordering};

/// A lock that one thread has at a time.
pub type Mutex<T> = lock_api::Mutex<raw::RawMutex, T>;
/// Its guard.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, raw::RawMutex, T>;
/// A lock that any number of threads have to read, or one to write.
pub type RwLock<T> = lock_api::RwLock<raw::RawRwLock, T>;
/// The guard of a reader.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, raw::RawRwLock, T>;
/// The guard of a writer.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, raw::RawRwLock, T>;

/// Notify: a counter that threads sleep on for long, while there is nothing to do.
#[derive(Default)]
pub struct Notify {
    count: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Notify {
    /// The number of notifications.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Wakes all sleepers.
    pub fn notify(&self) {
        let guard = self.lock.lock();
        self.count.fetch_add(1, Ordering::AcqRel);
        drop(guard);
        self.changed.notify_all();
    }

    /// Sleeps until it was notified more often than `count`.
    pub fn wait(&self, count: u64) {
        let mut guard = self.lock.lock();
        self.changed.wait_while(&mut guard, |()| self.count() == count);
    }
}

#[cfg(test)]
mod tests;

//! The locks of the whole project.
//!
//! # Why
//! One place to say which mutex is meant, so that a checker can stand in for it. These compile with the
//! code that uses them: the thread sanitizer then sees every acquire and release. Those of the standard
//! library come compiled, and the sanitizer takes what they guard for a race.
//!
//! A panic while a lock is held leaves it unlocked: every state guarded here is consistent between any
//! two statements of its methods, or latched as failed.

use std::sync::atomic::{AtomicU64, Ordering};

/// What threads sleep on that may sleep for long, while nothing is to be done.
///
/// The locks below keep all who wait for one in a table of the process. A process that forks takes that table with it,
/// but not the threads in it, and a new thread of the child may then run into what is left of them. So nobody waits
/// there who is not waited for; here a thread sleeps on its own.
#[derive(Default)]
pub struct Bell {
    rung: AtomicU64,
    lock: std::sync::Mutex<()>,
    changed: std::sync::Condvar,
}

impl Bell {
    /// How often it has rung.
    pub fn count(&self) -> u64 {
        self.rung.load(Ordering::Acquire)
    }

    /// Wakes all.
    pub fn ring(&self) {
        let guard = self.lock.lock();
        self.rung.fetch_add(1, Ordering::AcqRel);
        drop(guard);
        self.changed.notify_all();
    }

    /// Sleeps until it has rung more often than `count`.
    pub fn wait(&self, count: u64) {
        // Nothing that can panic runs under the lock.
        let mut guard = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while self.count() == count {
            guard = self.changed.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

pub use parking_lot::{
    Condvar, MappedMutexGuard, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

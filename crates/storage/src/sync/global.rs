//! A mutex of the whole process that a forked child finds free.
//!
//! Of all threads only the one that forks is there in the child. A lock of another thread at that moment would never be
//! given back there, and its value may be half changed. So the word of this lock says in which process it was taken
//! last. The first thread that takes it in a child takes it over, whatever its state was. Its value goes on where no
//! thread had the lock ([`AcrossFork::inherit`]); else the value is leaked, and begins anew.
//!
//! # Invariants
//! 1. The word is the number of the process, counted in forks, times four, and the state: free, locked, locked and
//!    awaited.
//! 2. The thread that changes the word to its own process, and to locked, has the value.

use super::futex;
use crate::fork;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
const STATES: u32 = 4;

/// The fate of a value of the whole process in a forked child.
pub trait AcrossFork: Default {
    /// The child's value, made of the parent's, which no thread was changing. A value that is dropped here must touch
    /// neither locks nor threads of the parent's.
    #[must_use]
    fn inherit(parents: Self) -> Self;
}

/// A value of the whole process, behind a lock.
#[derive(Default)]
pub struct Global<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock only, by one thread at a time.
unsafe impl<T: Send> Sync for Global<T> {}

/// The guard of the lock.
pub struct GlobalGuard<'a, T>(&'a Global<T>);

impl<T> Global<T> {
    /// A value that was not changed yet.
    pub const fn new(value: T) -> Global<T> {
        Global { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }
}

impl<T: AcrossFork> Global<T> {
    /// Waits for the lock, and takes it.
    #[inline]
    pub fn lock(&self) -> GlobalGuard<'_, T> {
        let process = fork::generation().wrapping_mul(STATES);
        let taken =
            self.word.compare_exchange(process | FREE, process | HELD, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.lock_slowly(process);
        }
        GlobalGuard(self)
    }

    #[cold]
    fn lock_slowly(&self, process: u32) {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let state = word % STATES;
            let wanted = if word - state == process && state != FREE { AWAITED } else { HELD };
            let changed =
                self.word.compare_exchange(word, process | wanted, Ordering::Acquire, Ordering::Relaxed);
            match (changed.is_ok(), word - state == process) {
                (false, _) => {}
                // A thread that was woken for this may sleep again: the next one is woken as well.
                (true, true) if state == FREE => {
                    return self.word.store(process | AWAITED, Ordering::Relaxed);
                }
                (true, true) => futex::wait(&self.word, process | AWAITED, None),
                (true, false) => {
                    // SAFETY: invariant 2. The old value is moved out, and a new one moved in, before anybody looks.
                    unsafe {
                        let parents = self.value.get().read();
                        let value = if state == FREE {
                            T::inherit(parents)
                        } else {
                            std::mem::forget(parents);
                            T::default()
                        };
                        self.value.get().write(value);
                    }
                    return;
                }
            }
        }
    }
}

impl<T> Deref for GlobalGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the owner of the guard has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for GlobalGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for GlobalGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Of this process, also where it was forked while the guard was there.
        let process = fork::generation().wrapping_mul(STATES);
        if self.0.word.swap(process | FREE, Ordering::Release) % STATES == AWAITED {
            futex::wake(&self.0.word, 1);
        }
    }
}

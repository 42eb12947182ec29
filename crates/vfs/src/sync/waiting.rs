//! What waiting in line needs of the system: a lock, wake-ups, the time, and the thread that asks.
//!
//! # Why
//! A queue is written for any system: a model checker puts its own in the place of this one (`exhaustive`).

use litefoot_storage::sync::{Condvar, Mutex, MutexGuard};
use litefoot_storage::thread;
use std::ops::DerefMut;
use std::time::Instant;

/// A system in which threads wait.
pub trait Waits: 'static {
    /// A lock that one thread has at a time.
    type Mutex<T>;
    /// Its guard.
    type Guard<'a, T: 'a>: DerefMut<Target = T>;
    /// Wakes who waits under such a lock.
    type Condvar: Default;
    /// What tells threads apart.
    type Thread: Copy + PartialEq;

    /// A value behind a lock.
    fn mutex<T>(value: T) -> Self::Mutex<T>;
    /// Takes the lock.
    fn lock<T>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;
    /// Gives the lock up until it is woken, until a moment, or for no reason.
    fn wait_until<T>(wakes: &Self::Condvar, guard: &mut Self::Guard<'_, T>, end: Instant);
    /// Wakes one that waits.
    fn notify_one(wakes: &Self::Condvar);
    /// The time.
    fn now() -> Instant;
    /// The thread that asks.
    fn thread() -> Self::Thread;
    /// Lets other threads run.
    fn yield_now();
}

/// The threads of the process.
pub struct Threads;

impl Waits for Threads {
    type Mutex<T> = Mutex<T>;
    type Guard<'a, T: 'a> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Thread = thread::Id;

    #[inline]
    fn mutex<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    #[inline]
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }
    #[inline]
    fn wait_until<T>(wakes: &Condvar, guard: &mut MutexGuard<'_, T>, end: Instant) {
        wakes.wait_until(guard, end);
    }
    #[inline]
    fn notify_one(wakes: &Condvar) {
        wakes.notify_one();
    }
    #[inline]
    fn now() -> Instant {
        Instant::now()
    }
    #[inline]
    fn thread() -> thread::Id {
        thread::id()
    }
    #[inline]
    fn yield_now() {
        std::thread::yield_now();
    }
}

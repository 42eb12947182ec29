//! Waiting for a change under a mutex.
//!
//! # Invariant
//! A waiting thread is counted, and has read the number of wake-ups, before it gives up the mutex. A thread that
//! changes the state under that mutex, and wakes afterwards, therefore finds the waiting one.

use super::{MutexGuard, futex};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A condition that threads with a mutex wait on.
#[derive(Default)]
pub struct Condvar {
    wakes: AtomicU32,
    waiters: AtomicU32,
}

/// The end of a wait: its time was over, or it was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut(bool);

impl TimedOut {
    /// True if its time was over.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition without waiting threads.
    pub const fn new() -> Condvar {
        Condvar { wakes: AtomicU32::new(0), waiters: AtomicU32::new(0) }
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.notify(i32::MAX);
    }

    #[inline]
    fn notify(&self, most: i32) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wakes.fetch_add(1, Ordering::SeqCst);
            futex::wake(&self.wakes, most);
        }
    }

    /// Gives up the mutex, sleeps until it is woken, or without a reason, and has the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, None);
    }

    /// The same until a moment.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> TimedOut {
        let left = end.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            self.sleep(guard, Some(left));
        }
        TimedOut(Instant::now() >= end)
    }

    /// The same for some time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> TimedOut {
        match Instant::now().checked_add(time) {
            Some(end) => self.wait_until(guard, end),
            None => {
                self.sleep(guard, None);
                TimedOut(false)
            }
        }
    }

    /// Waits while `condition` holds.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    fn sleep<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, at_most: Option<Duration>) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let wakes = self.wakes.load(Ordering::SeqCst);
        MutexGuard::unlocked(guard, || futex::wait(&self.wakes, wakes, at_most));
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

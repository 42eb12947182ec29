//! Monitor: a value under a lock, and waiting for its changes, the same for threads and for tasks of a scheduler.
//!
//! # Invariants
//! 1. A waiter enters the list under the lock under which it found its condition false, so that every later
//!    change finds it there.
//! 2. Wake-ups may be spurious; every wait looks again.

use super::scheduler;
use crate::sync::Mutex;
use std::task::Waker;
use std::thread::{self, Thread};

/// A thread or a task that waits.
enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    fn current() -> Waiter {
        match scheduler::waker() {
            Some(waker) => Waiter::Task(waker),
            None => Waiter::Thread(thread::current()),
        }
    }

    fn is(&self, other: &Waiter) -> bool {
        match (self, other) {
            (Waiter::Thread(a), Waiter::Thread(b)) => a.id() == b.id(),
            (Waiter::Task(a), Waiter::Task(b)) => a.will_wake(b),
            _ => false,
        }
    }

    fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        }
    }
}

/// A value that can be waited on.
#[derive(Default)]
pub struct Monitor<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Default)]
struct Inner<T> {
    value: T,
    waiters: Vec<Waiter>,
}

impl<T> Monitor<T> {
    /// A monitor of a value.
    pub fn new(value: T) -> Monitor<T> {
        Monitor { inner: Mutex::new(Inner { value, waiters: Vec::new() }) }
    }

    /// Changes the value and wakes all waiters.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = change(&mut inner.value);
        let waiters = std::mem::take(&mut inner.waiters);
        drop(inner);
        for waiter in waiters {
            waiter.wake();
        }
        result
    }

    /// Looks at the value, or changes it in a way that no thread waits for.
    pub fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.inner.lock().value)
    }

    /// Waits until `ready` finds what it looks for.
    pub fn wait<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            {
                let mut inner = self.inner.lock();
                if let Some(found) = ready(&mut inner.value) {
                    return found;
                }
                let me = Waiter::current();
                if !inner.waiters.iter().any(|waiter| waiter.is(&me)) {
                    inner.waiters.push(me);
                }
            }
            scheduler::park();
        }
    }
}

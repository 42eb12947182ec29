//! The scheduler hook: how a task that is no thread waits.
//!
//! # Why
//! A wait parks the thread it happens on. A scheduler that runs many tasks on one thread wants the thread back instead.
//! The scheduler lies above this crate. It gives each of its threads a table of functions, and the waits of this crate
//! use the table of their thread.
//!
//! # Invariant
//! A thread has the table from [`enter`] to its end; a thread of the application never has one.

use std::cell::Cell;
use std::task::Waker;
use std::thread;

/// The functions of a scheduler for the waits on its threads. Each function answers for the task that runs on the
/// calling thread, or says that there is none.
pub struct Scheduler {
    /// True while a task runs, whose waits leave the thread to others.
    pub in_task: fn() -> bool,
    /// The function that wakes the running task.
    pub waker: fn() -> Option<Waker>,
    /// Parks the task until its waker is called; `false` where none runs.
    pub park: fn() -> bool,
    /// Lets the other tasks of the thread run; `false` where none runs.
    pub yield_now: fn() -> bool,
}

thread_local! {
    static SCHEDULER: Cell<Option<&'static Scheduler>> = const { Cell::new(None) };
}

/// Gives the calling thread a scheduler.
pub fn enter(scheduler: &'static Scheduler) {
    SCHEDULER.set(Some(scheduler));
}

/// True if the caller is a task, whose waits leave its thread to others.
pub fn in_task() -> bool {
    SCHEDULER.get().is_some_and(|scheduler| (scheduler.in_task)())
}

/// The function that wakes the calling task; `None` on a plain thread.
pub(super) fn waker() -> Option<Waker> {
    SCHEDULER.get().and_then(|scheduler| (scheduler.waker)())
}

/// Parks the calling task or thread until it is woken, or for no reason.
pub(super) fn park() {
    if !SCHEDULER.get().is_some_and(|scheduler| (scheduler.park)()) {
        thread::park();
    }
}

/// Lets the other tasks of this thread run; on a plain thread, lets other threads run.
pub fn yield_now() {
    if !SCHEDULER.get().is_some_and(|scheduler| (scheduler.yield_now)()) {
        thread::yield_now();
    }
}

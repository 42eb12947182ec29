//! Fibers on worker threads.
//!
//! # Why
//! An operator that waits for the medium must not hold a thread while it waits: a small device has two or
//! four of them. A task here runs on a fiber, a stack of its own; where it waits, it gives its thread to
//! the next one. Each thread has the two pools of the thesis (SMILE, section 5.2): tasks to start, and
//! fibers that run.
//!
//! # What it promises
//! 1. A fiber never leaves the thread it was started on, so what lies on its stack need not be `Send`.
//!    Only tasks that have not started are stolen, and never those that name their thread ([`TaskPlace::On`]).
//! 2. A task that panics ends alone: its [`Handle`] answers [`TaskError::Panicked`], its worker goes on.
//! 3. A wait ([`Counter::wait`], [`Handle::join`], I/O) parks the fiber, or the thread where the caller is
//!    no fiber. No wake-up is lost; all waits look at their condition again.
//! 4. [`Workers::stop`], and dropping [`Workers`], finish everything submitted before and what that submits.
//! 5. Limits: [`Config::queue_tasks`] tasks wait per thread. Where they are used up, a thread that submits waits for
//!    room. A fiber that submits runs the task itself (a task for a named thread is refused). More than
//!    [`Config::fibers`] fibers per thread exist only while all of them wait: a waiting parent must not keep its
//!    children from starting.
//!
//! Tasks submitted from outside start in their order. Those that a fiber submits start newest first on its own thread:
//! a recursion takes memory by its depth and not by its breadth. Thieves take from the other end.
//!
//! # What it does not do
//! Preempt. A fiber that computes for long yields ([`yield_now`]) if others are to run. A lock guard must
//! not be held across a yield or a wait: another fiber of the thread would wait for it for ever.

mod counter;
mod fiber;
mod handle;
mod queues;
mod shared;
mod worker;
mod workers;

pub use counter::{Counter, Pending};
pub use fiber::{in_fiber, worker_index, yield_now};
pub use handle::Handle;
pub use shared::{Config, Statistics, TaskPlace};
pub use workers::Workers;

#[cfg(test)]
mod tests;

/// The reasons for which a task has no result, or was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task panicked.
    #[error("a task panicked: {0}")]
    Panicked(String),
    /// The workers have been stopped.
    #[error("the workers have been stopped; start others")]
    Stopped,
    /// A fiber submitted a task for a named thread whose queue is full.
    #[error("the queue of worker {worker} is full ({tasks} tasks); wait for some of them first")]
    QueueFull {
        /// The worker that was named.
        worker: usize,
        /// The tasks that wait there.
        tasks: usize,
    },
    /// There is no worker of that number.
    #[error("there is no worker {worker}; the last one is {last}")]
    NoSuchWorker {
        /// The worker that was named.
        worker: usize,
        /// The last one there is.
        last: usize,
    },
    /// No memory for a fiber's stack, or no thread to be had.
    #[error("no stack or thread for a fiber: {0}; ask for fewer or smaller ones")]
    NoResources(String),
}

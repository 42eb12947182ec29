//! The pool of tasks to start of one worker, and its alarm clock.
//!
//! # Invariants
//! 1. A worker that goes to sleep first says so, then looks at all queues once more. A submitter puts the task into a
//!    queue first, then looks for sleepers. Both sequentially consistent: one of them sees the other.
//! 2. Woken fibers are taken up only by the worker's own thread, after the fiber that runs has suspended
//!    itself. A wake-up that comes between the decision to park and the parking is therefore not lost.

use super::TaskError;
use litefoot_storage::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// A task that a worker takes: to be run (`Ok`), or told that it cannot be (`Err`). Catches its own panics.
pub(super) type Task = Box<dyn FnOnce(Result<(), TaskError>) + Send>;

/// The submitter of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// A thread that is no worker: its tasks start in their order.
    Outside,
    /// A fiber: its tasks start newest first.
    Fiber,
}

#[derive(Default)]
struct Queues {
    /// The back starts next; thieves take the front.
    to_start: VecDeque<Task>,
    /// For this thread only, in their order.
    pinned: VecDeque<Task>,
    woken: Vec<u64>,
    poked: bool,
}

impl Queues {
    fn waiting(&self) -> usize {
        self.to_start.len() + self.pinned.len()
    }
}

/// The part of a worker that other threads reach.
pub(super) struct Worker {
    pub index: usize,
    limit: usize,
    queues: Mutex<Queues>,
    alarm: Condvar,
    room: Condvar,
    asleep: AtomicBool,
}

impl Worker {
    pub fn new(index: usize, limit: usize) -> Worker {
        Worker {
            index,
            limit,
            queues: Mutex::default(),
            alarm: Condvar::new(),
            room: Condvar::new(),
            asleep: AtomicBool::new(false),
        }
    }

    /// Adds a task, or gives it back when the queue is full.
    pub fn submit(&self, task: Task, pinned: bool, from: From) -> Result<(), Task> {
        let mut queues = self.queues.lock();
        if queues.waiting() >= self.limit {
            return Err(task);
        }
        match (pinned, from) {
            (true, _) => queues.pinned.push_back(task),
            (false, From::Fiber) => queues.to_start.push_back(task),
            (false, From::Outside) => queues.to_start.push_front(task),
        }
        drop(queues);
        self.alarm.notify_one();
        Ok(())
    }

    /// Blocks the calling thread until a task has left the full queue.
    pub fn wait_for_room(&self) {
        let mut queues = self.queues.lock();
        while queues.waiting() >= self.limit {
            self.room.wait(&mut queues);
        }
    }

    /// The next task of this worker.
    pub fn take(&self) -> Option<Task> {
        let mut queues = self.queues.lock();
        let task = queues.pinned.pop_front().or_else(|| queues.to_start.pop_back());
        self.taken(task)
    }

    /// A task for another worker.
    pub fn steal(&self) -> Option<Task> {
        let task = self.queues.lock().to_start.pop_front();
        self.taken(task)
    }

    fn taken(&self, task: Option<Task>) -> Option<Task> {
        if task.is_some() {
            self.room.notify_all();
        }
        task
    }

    /// Moves the numbers of the fibers that were woken into `into`.
    pub fn take_woken(&self, into: &mut Vec<u64>) {
        into.append(&mut self.queues.lock().woken);
    }

    pub fn wake_fiber(&self, token: u64) {
        self.queues.lock().woken.push(token);
        self.alarm.notify_one();
    }

    /// Says that this worker is about to sleep. It then looks for work once more.
    pub fn drowse(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes that back.
    pub fn rouse(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Sleeps until there is something to do, or it is poked.
    pub fn sleep(&self) {
        let mut queues = self.queues.lock();
        while !queues.poked && queues.waiting() == 0 && queues.woken.is_empty() {
            self.alarm.wait(&mut queues);
        }
        queues.poked = false;
        drop(queues);
        self.rouse();
    }

    /// Wakes this worker, if it sleeps, to look around. Returns whether it slept.
    pub fn poke_if_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        let slept = self.asleep.swap(false, Ordering::Relaxed);
        if slept {
            self.poke();
        }
        slept
    }

    /// Makes this worker look around before it sleeps again.
    pub fn poke(&self) {
        self.queues.lock().poked = true;
        self.alarm.notify_one();
    }
}

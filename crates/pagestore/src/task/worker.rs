//! A worker thread: it resumes a fiber, starts a task, steals one, or sleeps.

use super::TaskError;
use super::fiber::{Fiber, Suspension, enter_worker};
use super::queues::{Task, Worker};
use super::shared::Shared;
use corosensei::stack::DefaultStack;
use litefoot_storage::numa;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stacks kept for the next fibers.
const SPARE_STACKS: usize = 64;

/// The running pool of one thread.
struct Running {
    shared: Arc<Shared>,
    worker: Arc<Worker>,
    /// Fibers whose turn comes.
    ready: VecDeque<Fiber>,
    /// Fibers that wait to be woken.
    parked: HashMap<u64, Fiber>,
    stacks: Vec<DefaultStack>,
    next_token: u64,
    woken: Vec<u64>,
}

/// Runs until the workers stop and everything is done.
pub(super) fn run(shared: Arc<Shared>, index: usize) {
    enter_worker(index);
    if let Some(node) = shared.config.topology.node_of(index)
        && numa::bind_thread(node).is_err()
    {
        shared.unbound.fetch_add(1, Ordering::Relaxed);
    }
    let worker = shared.workers[index].clone();
    let mut running = Running {
        shared,
        worker,
        ready: VecDeque::new(),
        parked: HashMap::new(),
        stacks: Vec::new(),
        next_token: 0,
        woken: Vec::new(),
    };
    while running.turn() {}
}

impl Running {
    /// One round; `false` when there will never be anything to do again.
    fn turn(&mut self) -> bool {
        self.take_up_woken();
        // A fiber that yields waits for a start before its next turn: tasks that run long do not hold up
        // those that have not begun.
        let ready = self.ready.pop_front();
        let started = self.may_start(ready.is_some()) && self.start_next();
        let resumed = ready.map(|fiber| self.resume(fiber)).is_some();
        if resumed || started {
            return true;
        }
        self.worker.drowse();
        // A task may have arrived before the sleeper was noted.
        if self.start_next() {
            self.worker.rouse();
            return true;
        }
        if self.shared.is_over() {
            return false;
        }
        self.worker.sleep();
        true
    }

    fn take_up_woken(&mut self) {
        self.worker.take_woken(&mut self.woken);
        let woken = self.woken.drain(..);
        self.ready.extend(woken.filter_map(|token| self.parked.remove(&token)));
    }

    /// Below the limit always; above it only when all fibers wait.
    fn may_start(&self, one_is_ready: bool) -> bool {
        let fibers = self.ready.len() + self.parked.len() + usize::from(one_is_ready);
        fibers < self.shared.config.fibers || !one_is_ready
    }

    fn start_next(&mut self) -> bool {
        let own = self.worker.take();
        let Some(task) = own.or_else(|| self.shared.steal_for(self.worker.index)) else { return false };
        self.start(task);
        true
    }

    fn start(&mut self, task: Task) {
        let stack = match self.stacks.pop() {
            Some(stack) => stack,
            None => match DefaultStack::new(self.shared.config.stack_bytes) {
                Ok(stack) => stack,
                Err(error) => return task(Err(TaskError::NoResources(error.to_string()))),
            },
        };
        self.next_token += 1;
        self.shared.fibers.fetch_add(1, Ordering::Relaxed);
        self.resume(Fiber::new(self.worker.clone(), self.next_token, stack, task));
    }

    fn resume(&mut self, fiber: Fiber) {
        match fiber.resume() {
            Ok((fiber, Suspension::Yielded)) => self.ready.push_back(fiber),
            Ok((fiber, Suspension::Parked)) => drop(self.parked.insert(fiber.token(), fiber)),
            Err(stack) if self.stacks.len() < SPARE_STACKS => self.stacks.push(stack),
            Err(_) => {}
        }
    }
}

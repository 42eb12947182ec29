//! The part of a pool of workers that all share: the queues, and the choice of the worker for a task.

use super::TaskError;
use super::fiber;
use super::queues::{From, Task, Worker};
use litefoot_storage::numa::Topology;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// The number of workers, and their sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Worker threads; one for each processor by default.
    pub threads: usize,
    /// Tasks that may wait for their start, per thread.
    pub queue_tasks: usize,
    /// Fibers per thread beyond which none is started while another one can run.
    pub fibers: usize,
    /// Bytes of a fiber's stack: address space, of which only what is touched takes memory.
    pub stack_bytes: usize,
    /// The nodes that the threads are bound to, in turn: those of the machine, or [`Topology::single`].
    pub topology: Topology,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            threads: thread::available_parallelism().map_or(1, usize::from),
            queue_tasks: 4096,
            fibers: 1024,
            stack_bytes: 256 * 1024,
            topology: Topology::of_machine(),
        }
    }
}

impl Config {
    /// The defaults with that many threads.
    pub fn with_threads(threads: usize) -> Config {
        Config { threads, ..Config::default() }
    }
}

/// The worker that a task runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPlace {
    /// On any worker: the submitting one, or the least busy finds it.
    Any,
    /// On that worker and no other.
    On(usize),
}

/// Figures of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Fibers started.
    pub fibers: u64,
    /// Tasks that another worker took over before they had started.
    pub stolen: u64,
    /// Tasks that the submitting fiber ran itself because the queue was full.
    pub inlined: u64,
    /// Threads that the system did not bind to their node.
    pub unbound: u64,
}

/// The part of a pool of workers that all share.
pub(super) struct Shared {
    pub config: Config,
    pub workers: Box<[Arc<Worker>]>,
    pub fibers: AtomicU64,
    pub stolen: AtomicU64,
    pub inlined: AtomicU64,
    pub unbound: AtomicU64,
    pub stopping: AtomicBool,
    /// Tasks submitted and not ended.
    pub unfinished: AtomicUsize,
    pub next: AtomicUsize,
}

impl Shared {
    /// True once no task will be submitted any more.
    pub fn is_over(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) && self.unfinished.load(Ordering::SeqCst) == 0
    }

    /// A task from another worker's queue.
    pub fn steal_for(&self, thief: usize) -> Option<Task> {
        let count = self.workers.len();
        let task = (1..count).find_map(|step| self.workers[(thief + step) % count].steal());
        if task.is_some() {
            self.stolen.fetch_add(1, Ordering::Relaxed);
        }
        task
    }

    pub fn ended(&self) {
        if self.unfinished.fetch_sub(1, Ordering::SeqCst) == 1 && self.stopping.load(Ordering::SeqCst) {
            self.poke_all();
        }
    }

    pub fn poke_all(&self) {
        for worker in &self.workers {
            worker.poke();
        }
    }

    pub fn submit(&self, place: TaskPlace, mut task: Task) -> Result<(), TaskError> {
        let in_fiber = fiber::in_fiber();
        let worker = self.worker_for(place)?;
        let from = if in_fiber { From::Fiber } else { From::Outside };
        loop {
            match worker.submit(task, place != TaskPlace::Any, from) {
                Ok(()) => break,
                Err(refused) => task = refused,
            }
            match place {
                // Blocks this thread, which is no worker.
                _ if !in_fiber => worker.wait_for_room(),
                TaskPlace::Any => {
                    self.inlined.fetch_add(1, Ordering::Relaxed);
                    task(Ok(()));
                    return Ok(());
                }
                TaskPlace::On(index) => {
                    return Err(TaskError::QueueFull { worker: index, tasks: self.config.queue_tasks });
                }
            }
        }
        if place == TaskPlace::Any && !worker.poke_if_asleep() {
            // Its owner is busy; a free worker may steal it.
            let _ = self.workers.iter().any(|worker| worker.poke_if_asleep());
        }
        Ok(())
    }

    fn worker_for(&self, place: TaskPlace) -> Result<&Worker, TaskError> {
        let count = self.workers.len();
        let index = match (place, fiber::worker_index()) {
            (TaskPlace::On(worker), _) if worker >= count => {
                return Err(TaskError::NoSuchWorker { worker, last: count - 1 });
            }
            (TaskPlace::On(index), _) => index,
            (TaskPlace::Any, Some(own)) if own < count => own,
            (TaskPlace::Any, _) => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        Ok(&self.workers[index])
    }
}

//! Starting and stopping workers, and giving them work.

use super::fiber;
use super::queues::{From, Task, Worker};
use super::{Counter, Handle, TaskError, worker};
use litefoot_storage::sync::Mutex;
use litefoot_storage::thread::{Handle as Thread, spawn};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// How many workers, and how large.
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
}

impl Default for Config {
    fn default() -> Config {
        Config {
            threads: thread::available_parallelism().map_or(1, usize::from),
            queue_tasks: 4096,
            fibers: 1024,
            stack_bytes: 256 * 1024,
        }
    }
}

impl Config {
    /// The defaults with that many threads.
    pub fn with_threads(threads: usize) -> Config {
        Config { threads, ..Config::default() }
    }
}

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On any worker: the submitting one, or the least busy finds it.
    Any,
    /// On that worker and no other.
    On(usize),
}

/// What the workers have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Fibers started.
    pub fibers: u64,
    /// Tasks that another worker took over before they had started.
    pub stolen: u64,
    /// Tasks that the submitting fiber ran itself because the queue was full.
    pub inlined: u64,
}

/// What all workers share.
pub(super) struct Shared {
    pub config: Config,
    pub workers: Box<[Arc<Worker>]>,
    pub fibers: AtomicU64,
    stolen: AtomicU64,
    inlined: AtomicU64,
    stopping: AtomicBool,
    /// Tasks submitted and not ended.
    unfinished: AtomicUsize,
    next: AtomicUsize,
}

impl Shared {
    /// Whether nothing will ever be submitted again.
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

    fn ended(&self) {
        if self.unfinished.fetch_sub(1, Ordering::SeqCst) == 1 && self.stopping.load(Ordering::SeqCst) {
            self.poke_all();
        }
    }

    fn poke_all(&self) {
        for worker in &self.workers {
            worker.poke();
        }
    }

    fn submit(&self, place: Place, mut task: Task) -> Result<(), TaskError> {
        let in_fiber = fiber::in_fiber();
        let worker = self.worker_for(place)?;
        let from = if in_fiber { From::Fiber } else { From::Outside };
        loop {
            match worker.submit(task, place != Place::Any, from) {
                Ok(()) => break,
                Err(refused) => task = refused,
            }
            match place {
                // Blocks this thread, which is none of ours.
                _ if !in_fiber => worker.wait_for_room(),
                Place::Any => {
                    self.inlined.fetch_add(1, Ordering::Relaxed);
                    task(Ok(()));
                    return Ok(());
                }
                Place::On(index) => {
                    return Err(TaskError::QueueFull { worker: index, tasks: self.config.queue_tasks });
                }
            }
        }
        if place == Place::Any && !worker.poke_if_asleep() {
            // Its owner is busy; somebody who is not may steal it.
            let _ = self.workers.iter().any(|worker| worker.poke_if_asleep());
        }
        Ok(())
    }

    fn worker_for(&self, place: Place) -> Result<&Worker, TaskError> {
        let count = self.workers.len();
        let index = match (place, fiber::worker_index()) {
            (Place::On(worker), _) if worker >= count => {
                return Err(TaskError::NoSuchWorker { worker, last: count - 1 });
            }
            (Place::On(index), _) => index,
            (Place::Any, Some(own)) if own < count => own,
            (Place::Any, _) => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        Ok(&self.workers[index])
    }
}

/// Counts a task as ended when it is dropped: run, refused or panicked.
struct Unfinished(Arc<Shared>);

impl Unfinished {
    fn begin(shared: &Arc<Shared>) -> Unfinished {
        shared.unfinished.fetch_add(1, Ordering::SeqCst);
        Unfinished(shared.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Worker threads, each with its queue of tasks to start and its running fibers.
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

impl Workers {
    /// Starts the worker threads.
    ///
    /// # Errors
    /// [`TaskError::NoResources`] where the system gives no thread.
    pub fn start(config: Config) -> Result<Workers, TaskError> {
        let count = config.threads.max(1);
        let queue_tasks = config.queue_tasks.max(1);
        let shared = Arc::new(Shared {
            config: Config { threads: count, queue_tasks, ..config },
            workers: (0..count).map(|index| Arc::new(Worker::new(index, queue_tasks))).collect(),
            fibers: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            inlined: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            unfinished: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        });
        let mut workers = Workers { shared: shared.clone(), threads: Vec::new() };
        for index in 0..count {
            let shared = shared.clone();
            let thread = spawn(format!("litefoot-{index}"), move || worker::run(shared, index))
                .map_err(|error| TaskError::NoResources(error.to_string()))?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// How many worker threads there are.
    pub fn threads(&self) -> usize {
        self.shared.workers.len()
    }

    /// What they have done so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            fibers: self.shared.fibers.load(Ordering::Relaxed),
            stolen: self.shared.stolen.load(Ordering::Relaxed),
            inlined: self.shared.inlined.load(Ordering::Relaxed),
        }
    }

    /// Submits a task and returns at once, but for a full queue.
    ///
    /// # Errors
    /// [`TaskError::Stopped`], [`TaskError::NoSuchWorker`], [`TaskError::QueueFull`].
    pub fn execute<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Handle<T>, TaskError> {
        let (handle, slot) = Handle::new();
        self.submit(place, work, move |result| slot.change(|place| *place = Some(result)))?;
        Ok(handle)
    }

    /// Submits a task and waits for its result.
    ///
    /// # Errors
    /// As [`Workers::execute`] and [`Handle::join`].
    pub fn execute_sync<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TaskError> {
        self.execute(place, work)?.join()
    }

    /// Runs `work(0)` to `work(parts - 1)` on all workers and waits for the results, in order. The parts may
    /// borrow from the caller. The next part goes to whoever is free.
    ///
    /// # Errors
    /// The first panic among the parts; [`TaskError::Stopped`]. All parts that began have ended then.
    pub fn each<T: Send>(&self, parts: usize, work: impl Fn(usize) -> T + Sync) -> Result<Vec<T>, TaskError> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<T>>> = (0..parts).map(|_| Mutex::new(None)).collect();
        let run = || {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                let Some(result) = results.get(part) else { break };
                let value = work(part);
                *result.lock() = Some(value);
            }
        };
        self.all(self.threads().min(parts), &run)?;
        // All parts have run: `all` fails where one has not.
        Ok(results.into_iter().filter_map(Mutex::into_inner).collect())
    }

    /// Runs `run` in `count` tasks and waits for all of them.
    fn all(&self, count: usize, run: &(dyn Fn() + Sync)) -> Result<(), TaskError> {
        struct WaitOnDrop(Counter);
        impl Drop for WaitOnDrop {
            fn drop(&mut self) {
                self.0.wait();
            }
        }
        // SAFETY: the tasks are the only users of the extended reference. Each holds a `Pending` until it has
        // ended, and `ended` waits for all of them before this function returns, by a panic as well.
        let run: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(run) };
        let first_error = Arc::new(Mutex::new(None));
        let ended = WaitOnDrop(Counter::new());
        for _ in 0..count {
            let pending = ended.0.begin();
            let errors = first_error.clone();
            self.submit(Place::Any, run, move |result| {
                if let Err(error) = result {
                    errors.lock().get_or_insert(error);
                }
                drop(pending);
            })?;
        }
        drop(ended);
        first_error.lock().take().map_or(Ok(()), Err)
    }

    fn submit<T>(
        &self,
        place: Place,
        work: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(Result<T, TaskError>) + Send + 'static,
    ) -> Result<(), TaskError> {
        // What runs may still submit: it is waited for.
        if self.shared.stopping.load(Ordering::SeqCst) && !fiber::in_fiber() {
            return Err(TaskError::Stopped);
        }
        let unfinished = Unfinished::begin(&self.shared);
        let task = move |start: Result<(), TaskError>| {
            let run = || catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(&*panic));
            done(start.and_then(|()| run()));
            drop(unfinished);
        };
        self.shared.submit(place, Box::new(task))
    }

    /// Finishes what was submitted and ends the threads.
    ///
    /// A task that drops the last owner of its own workers does not wait for itself: the threads end when
    /// everything is done.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.poke_all();
        if self.threads.iter().any(Thread::is_current) {
            return;
        }
        self.threads.drain(..).for_each(Thread::join);
    }
}

/// What a panic said.
fn panicked(panic: &(dyn Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    TaskError::Panicked(
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned()),
    )
}

//! Starting and stopping workers, and giving them work.

use super::fiber;
use super::queues::Worker;
use super::shared::{Config, Shared, Statistics, TaskPlace};
use super::{Counter, Handle, TaskError, worker};
use litefoot_storage::sync::Mutex;
use litefoot_storage::thread::{Handle as Thread, spawn};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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
            unbound: AtomicU64::new(0),
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

    /// The number of worker threads.
    pub fn threads(&self) -> usize {
        self.shared.workers.len()
    }

    /// The figures so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            fibers: self.shared.fibers.load(Ordering::Relaxed),
            stolen: self.shared.stolen.load(Ordering::Relaxed),
            inlined: self.shared.inlined.load(Ordering::Relaxed),
            unbound: self.shared.unbound.load(Ordering::Relaxed),
        }
    }

    /// Submits a task and returns at once, but for a full queue.
    ///
    /// # Errors
    /// [`TaskError::Stopped`], [`TaskError::NoSuchWorker`], [`TaskError::QueueFull`].
    pub fn execute<T: Send + 'static>(
        &self,
        place: TaskPlace,
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
        place: TaskPlace,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TaskError> {
        self.execute(place, work)?.join()
    }

    /// Runs `work(0)` to `work(parts - 1)` on all workers and waits for the results, in order. The parts may borrow
    /// from the caller. The next part goes to the next free worker.
    ///
    /// # Errors
    /// The first panic among the parts; [`TaskError::Stopped`]. All parts that began have ended then.
    pub fn each<T: Send>(&self, parts: usize, work: impl Fn(usize) -> T + Sync) -> Result<Vec<T>, TaskError> {
        self.each_near(parts, 1, |_| 0, work)
    }

    /// The same where each part has a memory node: a worker takes parts of its own node first, and then those of others.
    ///
    /// # Errors
    /// As [`Workers::each`].
    pub fn each_near<T: Send>(
        &self,
        parts: usize,
        nodes: usize,
        node_of: impl Fn(usize) -> usize,
        work: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>, TaskError> {
        let nodes = nodes.max(1);
        let mut of_node = vec![Vec::new(); nodes];
        (0..parts).for_each(|part| of_node[node_of(part) % nodes].push(part));
        let next: Vec<AtomicUsize> = (0..nodes).map(|_| AtomicUsize::new(0)).collect();
        let results: Vec<Mutex<Option<T>>> = (0..parts).map(|_| Mutex::new(None)).collect();
        let run = || {
            // Workers are bound to the nodes in turn, as partitions are.
            let own = fiber::worker_index().unwrap_or(0);
            for node in (0..nodes).map(|step| (own + step) % nodes) {
                while let Some(part) = of_node[node].get(next[node].fetch_add(1, Ordering::Relaxed)) {
                    let value = work(*part);
                    *results[*part].lock() = Some(value);
                }
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
            self.submit(TaskPlace::Any, run, move |result| {
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
        place: TaskPlace,
        work: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(Result<T, TaskError>) + Send + 'static,
    ) -> Result<(), TaskError> {
        // A running task may still submit others: it is waited for.
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

/// The message of a panic.
fn panicked(panic: &(dyn Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    TaskError::Panicked(
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned()),
    )
}

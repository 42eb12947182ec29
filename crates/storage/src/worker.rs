//! Worker: work on a background thread, and the threads that wait for its end.
//!
//! # Why
//! A thread that waits for another one must learn of its end, however that comes. After a panic the state under change is
//! unknown, and nothing may be written on top of it.
//!
//! # Promises
//! 1. One run at a time: [`Worker::claim`] gives the right to the next run, and none while a run holds it.
//! 2. A run ends once, after `work` and everything that `work` owned are gone. All waiting threads wake.
//! 3. A panic in a run latches the database first. Every thread that waits gets a [`WorkerPanic`], then and later.
//! 4. Where the system has no thread to give, the claim comes back, and the caller does the work itself.
//! 5. In a forked child the worker is idle: its threads stayed with the parent.
//!
//! # Cost
//! A worker is one mutex and one condition variable; a run takes the mutex twice.

use crate::file::SyncLatch;
use crate::fork;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::spawn;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A panic that has ended a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("internal error (please report it): {name}: {text}")]
pub struct WorkerPanic {
    /// The name of the thread.
    pub name: &'static str,
    /// The message of the panic.
    pub text: String,
}

/// Work that runs on a background thread, and gives a `T`.
pub struct Worker<T = ()> {
    state: Mutex<WorkerState<T>>,
    changed: Condvar,
}

/// The runs of a worker.
struct WorkerState<T> {
    /// The process of the runs, as a number of forks.
    generation: u32,
    /// True while a run keeps the next one from starting.
    claimed: bool,
    /// Runs that have not ended.
    runs: usize,
    /// Threads that want the runs to end early.
    finishing: usize,
    /// True from a signal until a run takes it.
    signalled: bool,
    result: Option<T>,
    panicked: Option<WorkerPanic>,
}

impl<T> WorkerState<T> {
    fn new(generation: u32) -> WorkerState<T> {
        WorkerState {
            generation,
            claimed: false,
            runs: 0,
            finishing: 0,
            signalled: false,
            result: None,
            panicked: None,
        }
    }

    fn is_running(&self) -> bool {
        self.runs > 0
    }

    /// `value`, or the panic of a run.
    fn unless_panicked<V>(&self, value: V) -> Result<V, WorkerPanic> {
        self.panicked.clone().map_or(Ok(value), Err)
    }
}

impl<T> Default for Worker<T> {
    fn default() -> Worker<T> {
        Worker { state: Mutex::new(WorkerState::new(fork::generation())), changed: Condvar::new() }
    }
}

impl<T> Worker<T> {
    /// The right to the next run; `None` while another run has it.
    pub fn claim(self: &Arc<Self>) -> Option<Run<T>> {
        let mut state = self.lock();
        if state.claimed {
            return None;
        }
        state.claimed = true;
        state.runs += 1;
        Some(Run { worker: self.clone(), generation: state.generation, part: RunPart::Claims, outcome: None })
    }

    /// True until the last run has ended.
    pub fn is_running(&self) -> bool {
        self.lock().is_running()
    }

    /// Waits for the end of all runs. Answers whether there was one.
    ///
    /// # Errors
    /// The panic of a run, this one or an earlier one.
    pub fn wait(&self) -> Result<bool, WorkerPanic> {
        let mut state = self.lock();
        let waited = state.is_running();
        self.changed.wait_while(&mut state, |state| state.is_running());
        state.unless_panicked(waited)
    }

    /// Waits for the end of all runs, and takes the last result; `None` where it was taken before.
    ///
    /// # Errors
    /// As for [`Worker::wait`].
    pub fn take(&self) -> Result<Option<T>, WorkerPanic> {
        let mut state = self.lock();
        self.changed.wait_while(&mut state, |state| state.is_running());
        let result = state.result.take();
        state.unless_panicked(result)
    }

    /// Ends all pauses and signal loops at once, and waits for the end of all runs. Answers whether there was one.
    ///
    /// # Errors
    /// As for [`Worker::wait`].
    pub fn finish(&self) -> Result<bool, WorkerPanic> {
        let mut state = self.lock();
        let waited = state.is_running();
        state.finishing += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.is_running());
        state.finishing -= 1;
        state.unless_panicked(waited)
    }

    /// Wakes a run out of [`Run::next_signal`]. Signals do not add up.
    pub fn signal(&self) {
        let mut state = self.lock();
        if !state.signalled {
            state.signalled = true;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WorkerState<T>> {
        let mut state = self.state.lock();
        let generation = fork::generation();
        if state.generation != generation {
            // The result belongs to the parent, and is left as it is.
            std::mem::forget(std::mem::replace(&mut *state, WorkerState::new(generation)));
        }
        state
    }
}

/// A run of a worker. Dropping it ends the run.
pub struct Run<T> {
    worker: Arc<Worker<T>>,
    generation: u32,
    part: RunPart,
    /// Stored when the run ends.
    outcome: Option<Result<T, WorkerPanic>>,
}

/// The part that a [`Run`] has in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunPart {
    /// The run, and the claim.
    Claims,
    /// The run; another one may start.
    Overlaps,
    /// Nothing: a thread has taken the run over.
    None,
}

impl<T: Send + 'static> Run<T> {
    /// Starts `work` on a thread of that name; a panic closes `latch`.
    ///
    /// # Errors
    /// The claim, where the system has no thread to give. `work` is dropped then.
    pub fn start(
        mut self,
        name: &'static str,
        latch: &Arc<SyncLatch>,
        work: impl FnOnce(&mut Run<T>) -> T + Send + 'static,
    ) -> Result<(), Run<T>> {
        let (worker, generation, latch) = (self.worker.clone(), self.generation, latch.clone());
        let on_thread = move || {
            let mut run = Run { worker, generation, part: RunPart::Claims, outcome: None };
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut run))).map_err(|panic| {
                let panic = WorkerPanic { name, text: panic_text(&*panic) };
                latch.close(&panic.to_string());
                panic
            });
            drop(latch);
            run.outcome = Some(result);
        };
        if spawn(name, on_thread).is_err() {
            return Err(self);
        }
        self.part = RunPart::None;
        Ok(())
    }
}

impl<T> Run<T> {
    /// Runs `work` on the calling thread. A panic goes on to the caller, and to the threads that wait.
    pub fn run_here(mut self, name: &'static str, work: impl FnOnce() -> T) {
        // Replaced below, unless `work` panics.
        self.outcome = Some(Err(WorkerPanic { name, text: "interrupted by a panic".to_owned() }));
        let result = work();
        self.outcome = Some(Ok(result));
    }

    /// Waits for the time to pass, or for [`Worker::finish`]; `false` once that is called. Then the next run may start, while
    /// this one goes on.
    pub fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now().checked_add(time);
        let mut state = self.worker.lock();
        while state.finishing == 0 {
            match until {
                Some(until) if self.worker.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                // No clock counts so far.
                None => self.worker.changed.wait(&mut state),
            }
        }
        if self.part == RunPart::Claims {
            self.part = RunPart::Overlaps;
            state.claimed = false;
        }
        state.finishing == 0
    }

    /// Waits for a signal, and takes it; `false` once [`Worker::finish`] is called.
    pub fn next_signal(&mut self) -> bool {
        self.next_signal_within(None)
    }

    /// The same, and no longer than `time`, if any.
    pub fn next_signal_within(&mut self, time: Option<Duration>) -> bool {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut state = self.worker.lock();
        while !state.signalled && state.finishing == 0 {
            match until {
                Some(until) if self.worker.changed.wait_until(&mut state, until).timed_out() => break,
                Some(_) => {}
                None => self.worker.changed.wait(&mut state),
            }
        }
        state.signalled = false;
        state.finishing == 0
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        let mut state = self.worker.lock();
        if self.part == RunPart::None || self.generation != state.generation {
            return;
        }
        match self.outcome.take() {
            Some(Ok(result)) => state.result = Some(result),
            Some(Err(panic)) => {
                state.panicked.get_or_insert(panic);
            }
            None => {}
        }
        state.runs -= 1;
        if self.part == RunPart::Claims {
            state.claimed = false;
        }
        drop(state);
        self.worker.changed.notify_all();
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(60);

    fn latch() -> Arc<SyncLatch> {
        Arc::new(SyncLatch::new())
    }

    fn start<T: Send + 'static>(
        worker: &Arc<Worker<T>>,
        latch: &Arc<SyncLatch>,
        work: impl FnOnce(&mut Run<T>) -> T + Send + 'static,
    ) {
        assert!(worker.claim().unwrap().start("test", latch, work).is_ok());
    }

    #[test]
    fn the_next_run_starts_when_the_last_one_has_ended() {
        let worker = Arc::new(Worker::default());
        assert_eq!((worker.wait(), worker.take()), (Ok(false), Ok(None)));
        for number in 0..3 {
            let (sender, receiver) = channel();
            start(&worker, &latch(), move |_| {
                receiver.recv().unwrap();
                number
            });
            assert!(worker.is_running() && worker.claim().is_none());
            sender.send(()).unwrap();
            assert!(worker.wait().is_ok());
            assert!(!worker.is_running());
            assert_eq!((worker.take(), worker.take()), (Ok(Some(number)), Ok(None)));
        }
    }

    #[test]
    fn threads_wake_after_everything_that_the_work_owned_is_gone() {
        for panics in [false, true] {
            let (worker, latch, owned) = (Arc::new(Worker::default()), latch(), Arc::new(()));
            let inside = owned.clone();
            start(&worker, &latch, move |_| {
                let _owned = inside;
                assert!(!panics, "on purpose");
            });
            assert_eq!(worker.wait().is_err(), panics);
            assert_eq!((Arc::strong_count(&owned), latch.reason().is_some()), (1, panics));
        }
    }

    #[test]
    fn a_panic_latches_the_database_and_everybody_who_waits_gets_an_error() {
        let (worker, latch) = (Arc::new(Worker::<i32>::default()), latch());
        let (sender, receiver) = channel::<()>();
        start(&worker, &latch, move |_| {
            receiver.recv().unwrap();
            panic!("on {}", "purpose")
        });
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let worker = worker.clone();
                std::thread::spawn(move || worker.wait())
            })
            .collect();
        sender.send(()).unwrap();
        let panicked = WorkerPanic { name: "test", text: "on purpose".to_owned() };
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(panicked.clone()));
        }
        assert_eq!((worker.take(), worker.finish()), (Err(panicked.clone()), Err(panicked)));
        let error = latch.check(Path::new("a.db")).unwrap_err().to_string();
        assert!(error.contains("on purpose"), "{error}");
    }

    #[test]
    fn a_claim_that_is_given_up_is_free_again() {
        let worker = Arc::new(Worker::<()>::default());
        let claim = worker.claim();
        assert!(claim.is_some() && worker.claim().is_none());
        drop(claim);
        assert_eq!(worker.wait(), Ok(false));
        assert!(worker.claim().is_some());
    }

    #[test]
    fn work_on_the_calling_thread_ends_however_it_ends() {
        let worker = Arc::new(Worker::default());
        let run = worker.claim().unwrap();
        run.run_here("test", || 7);
        assert_eq!(worker.take(), Ok(Some(7)));
        let run = worker.claim().unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| run.run_here("test", || panic!("on purpose"))));
        assert!(caught.is_err() && !worker.is_running() && worker.wait().is_err());
    }

    #[test]
    fn after_a_pause_the_next_run_may_start() {
        let worker = Arc::new(Worker::default());
        let (paused, pauses) = channel();
        let (go_on, goes_on) = channel::<()>();
        start(&worker, &latch(), move |run| {
            assert!(run.pause(Duration::from_millis(1)));
            paused.send(()).unwrap();
            goes_on.recv().unwrap();
        });
        pauses.recv().unwrap();
        start(&worker, &latch(), |run| assert!(!run.pause(Duration::MAX)));
        assert!(worker.claim().is_none(), "the second run pauses");
        go_on.send(()).unwrap();
        assert_eq!(worker.finish(), Ok(true));
        assert!(!worker.is_running() && worker.claim().is_some());
    }

    #[test]
    fn signals_wake_a_run_until_it_is_finished() {
        let worker = Arc::new(Worker::default());
        let (taken, takes) = channel();
        start(&worker, &latch(), move |run| {
            while run.next_signal() {
                taken.send(()).unwrap();
            }
        });
        for _ in 0..3 {
            worker.signal();
            takes.recv().unwrap();
        }
        assert_eq!(worker.finish(), Ok(true));
        assert!(takes.recv().is_err());
    }

    /// Runs `child` in a forked child, which must not hang; its answer.
    fn in_child(child: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child uses nothing but what is under test, and ends at once; should it hang, it is killed.
        unsafe {
            let process = libc::fork();
            if process == 0 {
                libc::alarm(10);
                libc::_exit(i32::from(!child()));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
            status == 0
        }
    }

    fn notice_forks() {
        extern "C" fn nothing() {}
        fork::watch(fork::Hooks { before: nothing, in_parent: nothing, in_child: nothing });
    }

    #[test]
    fn a_forked_child_waits_for_no_thread_of_its_parent() {
        notice_forks();
        let worker = Arc::new(Worker::default());
        start(&worker, &latch(), |run| assert!(!run.pause(LONG)));
        let is_idle =
            || worker.wait() == Ok(false) && worker.claim().is_some() && worker.finish() == Ok(false);
        assert!(in_child(is_idle));
        assert_eq!((worker.is_running(), worker.finish()), (true, Ok(true)));
    }

    #[test]
    fn without_a_thread_the_claim_comes_back() {
        notice_forks();
        assert!(in_child(|| {
            let worker = Arc::new(Worker::default());
            let run = worker.claim().unwrap();
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
            let most = libc::rlimit { rlim_cur: (pages << 12) + (16 << 20), rlim_max: libc::RLIM_INFINITY };
            // SAFETY: a plain system call.
            unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) };
            // The stacks of threads that have ended are used again.
            while spawn("sleeps", || std::thread::sleep(LONG)).is_ok() {}
            match run.start("test", &latch(), |_| 1) {
                Ok(()) => false,
                Err(run) => {
                    run.run_here("test", || 2);
                    worker.take() == Ok(Some(2))
                }
            }
        }));
    }
}

//! A fiber: a task on a stack of its own.
//!
//! # Invariants
//! 1. A [`Fiber`] is created, resumed and dropped by one worker thread.
//! 2. While it runs, the thread's `CURRENT` points to its context, in a box of the fiber. The fiber's first
//!    instructions set the yielder of the context.
//! 3. A fiber is not suspended while it unwinds: the runtime counts panics per thread, and the next fiber
//!    would be taken for a panicking one. A wait in a destructor blocks the thread then.

use super::queues::{Task, Worker};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use litefoot_storage::io::scheduler::{self, Scheduler};
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// The reason for which a fiber gave its thread away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspension {
    /// It goes on when it is its turn.
    Yielded,
    /// It goes on when it is woken.
    Parked,
}

/// Names a fiber to those that wake it.
struct FiberName {
    worker: Arc<Worker>,
    token: u64,
}

impl Wake for FiberName {
    fn wake(self: Arc<Self>) {
        self.worker.wake_fiber(self.token);
    }
}

/// The functions of the running fiber for the waits of the storage crate.
static FIBERS: Scheduler = Scheduler {
    in_task: in_fiber,
    waker: || context().map(|context| context.waker.clone()),
    park: || suspend(Suspension::Parked),
    yield_now: || suspend(Suspension::Yielded),
};

struct Context {
    token: u64,
    /// Wakes the fiber; its clones are equal, and those of other fibers are not.
    waker: Waker,
    yielder: Cell<*const Yielder<(), Suspension>>,
}

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Marks the calling thread as a worker.
pub(super) fn enter_worker(index: usize) {
    INDEX.set(Some(index));
    scheduler::enter(&FIBERS);
}

/// The number of the worker thread that the caller runs on; `None` on any other thread.
pub fn worker_index() -> Option<usize> {
    INDEX.get()
}

fn context() -> Option<&'static Context> {
    if std::thread::panicking() {
        return None;
    }
    // SAFETY: not null only while the fiber that owns the context runs on this thread (invariant 2). The callers below
    // drop the reference before it ends.
    unsafe { CURRENT.get().as_ref() }
}

/// True if the caller is a fiber, whose waits leave its thread to others.
pub fn in_fiber() -> bool {
    context().is_some()
}

fn suspend(why: Suspension) -> bool {
    let Some(context) = context() else { return false };
    // SAFETY: the yielder lives on the stack of the fiber that is running (invariant 2).
    unsafe { (*context.yielder.get()).suspend(why) };
    true
}

/// Lets the other fibers of this thread run; on a plain thread, lets other threads run.
pub fn yield_now() {
    if !suspend(Suspension::Yielded) {
        std::thread::yield_now();
    }
}

/// A task that has started.
pub(super) struct Fiber {
    coroutine: Coroutine<(), Suspension, (), DefaultStack>,
    context: Box<Context>,
}

impl Fiber {
    /// Puts a task on a stack. It runs with the first [`Fiber::resume`].
    pub fn new(worker: Arc<Worker>, token: u64, stack: DefaultStack, task: Task) -> Fiber {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Suspension>, ()| {
            if let Some(context) = context() {
                context.yielder.set(yielder);
            }
            // Catches its own panics.
            task(Ok(()));
        });
        let waker = Waker::from(Arc::new(FiberName { worker, token }));
        Fiber { coroutine, context: Box::new(Context { token, waker, yielder: Cell::new(ptr::null()) }) }
    }

    /// The number that wakes it.
    pub fn token(&self) -> u64 {
        self.context.token
    }

    /// Runs until it suspends itself, or gives back its stack when it has ended.
    pub fn resume(mut self) -> Result<(Fiber, Suspension), DefaultStack> {
        CURRENT.set(&raw const *self.context);
        let result = self.coroutine.resume(());
        CURRENT.set(ptr::null());
        match result {
            CoroutineResult::Yield(why) => Ok((self, why)),
            CoroutineResult::Return(()) => Err(self.coroutine.into_stack()),
        }
    }
}

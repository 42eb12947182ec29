//! The writer queue: nobody writes beside another, and nobody waits for a turn that nobody tells of.
//!
//! The time of these models passes where a thread sleeps for a bounded time, and where it looks again. A sleep until [`LONG`] ends
//! where it is told only: a writer that nobody tells makes the checker fail.

use crate::sync::waiting::Waits;
use crate::sync::writer_queue::{WriterId, WriterQueue};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::{self, ThreadId};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(1);
/// What passes while a thread looks again.
const LOOK: Duration = Duration::from_micros(60);

thread_local! {
    /// The time since the model has begun, whose threads all run on one of the system's.
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn begin() -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now)
}

/// Threads of the checker's.
struct CheckedThreads;

/// A guard that a sleep takes away for a while.
struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.guard.as_ref().unwrap()
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().unwrap()
    }
}

/// A condition of the checker's.
#[derive(Default)]
struct Wakes(Condvar);

impl Waits for CheckedThreads {
    type Mutex<T> = Mutex<T>;
    type Guard<'a, T: 'a> = Guard<'a, T>;
    type Condvar = Wakes;
    type Thread = ThreadId;

    fn mutex<T>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
        Guard { mutex, guard: Some(mutex.lock().unwrap()) }
    }
    fn wait_until<T>(wakes: &Wakes, guard: &mut Guard<'_, T>, end: Instant) {
        let taken = guard.guard.take().unwrap();
        if end.saturating_duration_since(begin()) >= LONG {
            guard.guard = Some(wakes.0.wait(taken).unwrap());
        } else {
            // Others do whatever they do meanwhile.
            drop(taken);
            guard.guard = Some(guard.mutex.lock().unwrap());
            TIME.set(TIME.get().max(end.saturating_duration_since(begin())));
        }
    }
    fn notify_one(wakes: &Wakes) {
        wakes.0.notify_one();
    }
    fn now() -> Instant {
        begin() + TIME.get()
    }
    fn thread() -> ThreadId {
        thread::current().id()
    }
    fn yield_now() {
        TIME.set(TIME.get() + LOOK);
    }
}

/// A queue, and what the one writes that has the turn.
#[derive(Default)]
struct Group {
    queue: WriterQueue<CheckedThreads>,
    log: UnsafeCell<u64>,
}

// SAFETY: who may write is what the checker is asked.
unsafe impl Sync for Group {}
// SAFETY: as above.
unsafe impl Send for Group {}

impl Group {
    /// A queue whose turn is writer 1's.
    fn new() -> Arc<Group> {
        TIME.set(Duration::ZERO);
        let group = Group::default();
        group.queue.enter(1, LONG);
        Arc::new(group)
    }

    /// Waits for the turn; it expires where it is not used within `most`.
    fn wait(&self, writer: WriterId, limit: Duration, most: Duration) -> bool {
        self.queue.await_turn(writer, CheckedThreads::now(), limit, most)
    }

    /// Writes in its turn, and ends that.
    fn write(&self, writer: WriterId) {
        assert!(self.queue.writes(writer), "it was not its turn");
        // SAFETY: the checker fails the test where another thread writes meanwhile.
        self.log.with_mut(|log| unsafe { *log += 1 });
        self.queue.leave(writer);
    }

    /// Time passes, before others come and behind them.
    fn pass(&self, time: Duration) {
        self.queue.has_turn(1);
        TIME.set(TIME.get() + time);
    }

    fn written(&self) -> u64 {
        // SAFETY: all other threads have ended.
        self.log.with(|log| unsafe { *log })
    }
}

/// Checks a model for waiters that may be overtaken, and for waiters that are handed the turn.
fn check(model: impl Fn(Duration) + Copy + Send + Sync + 'static) {
    for waited in [Duration::ZERO, SHORT] {
        let mut checker = loom::model::Builder::new();
        checker.preemption_bound = Some(3);
        checker.check(move || model(waited));
    }
}

#[test]
fn writers_that_wait_write_one_after_another() {
    check(|waited| {
        let group = Group::new();
        let waiters = [2, 3].map(|writer| {
            let group = group.clone();
            thread::spawn(move || {
                assert!(group.wait(writer, LONG, LONG));
                group.write(writer);
            })
        });
        group.pass(waited);
        group.write(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(group.written(), 3);
    });
}

/// The thread that serves a member finds the stream closed once it has waited, and ends what the member has.
#[test]
fn a_waiter_that_gives_up_or_dies_keeps_nobody_waiting() {
    check(|waited| {
        let group = Group::new();
        let (one, other) = (group.clone(), group.clone());
        let dead = thread::spawn(move || {
            one.wait(2, SHORT, LONG);
            one.queue.leave(2);
        });
        let living = thread::spawn(move || {
            assert!(other.wait(3, LONG, LONG));
            other.write(3);
        });
        group.pass(waited);
        group.write(1);
        dead.join().unwrap();
        living.join().unwrap();
        assert_eq!(group.written(), 2);
    });
}

#[test]
fn a_turn_that_nobody_uses_expires() {
    check(|waited| {
        let group = Group::new();
        let (one, other) = (group.clone(), group.clone());
        let gone = thread::spawn(move || one.wait(2, LONG, SHORT));
        let living = thread::spawn(move || {
            assert!(other.wait(3, LONG, LONG));
            other.write(3);
        });
        group.pass(waited);
        group.write(1);
        assert!(gone.join().unwrap());
        living.join().unwrap();
        assert_eq!(group.written(), 2);
    });
}

/// A transaction that has read already is not told to wait for a turn that is only reserved.
#[test]
fn a_writer_whose_turn_was_overtaken_gets_another_one() {
    for comes_back in [true, false] {
        check(move |waited| {
            let group = Group::new();
            let there = group.clone();
            let waiter = thread::spawn(move || {
                assert!(there.wait(2, LONG, LONG));
                there.queue.leave(2);
            });
            group.pass(waited);
            if comes_back {
                group.write(1);
            }
            if group.queue.overtake_unused(3) && comes_back {
                group.queue.writes(3);
                group.queue.leave(3);
            }
            waiter.join().unwrap();
        });
    }
}

/// The first that waits is told that the turn has got an end. It gives up before that, and the next one has to know.
#[test]
fn a_waiter_that_gives_up_passes_on_what_it_was_told() {
    check(|_| {
        let group = Group::new();
        let (one, other) = (group.clone(), group.clone());
        let gives_up = thread::spawn(move || {
            one.wait(2, 2 * LOOK, LONG);
            one.queue.leave(2);
        });
        let waits = thread::spawn(move || assert!(other.wait(3, LONG, LONG)));
        assert!(group.queue.overtake_unused(4));
        gives_up.join().unwrap();
        waits.join().unwrap();
    });
}

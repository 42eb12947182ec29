//! The queue of those who want to write a database in WAL mode.
//!
//! SQLite lets a writer that finds the lock taken sleep and try again, and who comes first by chance goes
//! first. Inside one process writers can wait in order instead, and the next one starts the moment the lock
//! is free.
//!
//! Waking a thread takes longer than a small transaction. So one that comes while the first in the queue is being
//! woken goes first, but never past one that has waited for [`FAIRNESS`]: that one is handed its turn.
//!
//! Invariants:
//! 1. At most one writer is served; it is the only one that gets the write lock meanwhile.
//! 2. A turn ends when its writer says so. Where it may not be heard of again before it has the lock, the turn is over
//!    at a time ([`Writers::enter_for`]).
//! 3. Waiting is bounded, and a thread never waits for itself. Whoever gives up goes on without a turn and
//!    meets SQLite's busy handling.

use litefoot_storage::sync::{Condvar, Mutex};
use litefoot_storage::thread;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a writer may be overtaken.
const FAIRNESS: Duration = Duration::from_micros(500);

/// A connection that writes.
pub type WriterId = u64;

/// The queue of one database.
#[derive(Default)]
pub struct Writers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: Option<Served>,
    waiting: VecDeque<Waiting>,
}

struct Served {
    writer: WriterId,
    thread: thread::Id,
    /// Whether it holds SQLite's write lock.
    writing: bool,
    /// When its turn is over if it does not by then, and nobody will say so.
    until: Option<Instant>,
}

struct Waiting {
    writer: WriterId,
    thread: thread::Id,
    since: Instant,
    turn: Arc<Condvar>,
}

impl State {
    /// Ends a turn that was over at a time.
    fn end_turn(&mut self) {
        let is_over =
            |served: &Served| !served.writing && served.until.is_some_and(|until| until <= Instant::now());
        if self.served.as_ref().is_some_and(is_over) {
            self.served = None;
        }
    }

    /// Whether a writer may be served at once, past those who wait.
    fn is_free(&self) -> bool {
        self.served.is_none() && self.waiting.front().is_none_or(|first| first.since.elapsed() < FAIRNESS)
    }
}

impl Writers {
    /// Waits for the writer's turn, `limit` at most.
    pub fn enter(&self, writer: WriterId, limit: Duration) {
        let thread = thread::id();
        let mut state = self.state.lock();
        state.end_turn();
        if state.is_free() {
            state.served = Some(Served { writer, thread, writing: false, until: None });
            return;
        }
        if let Some(served) = &state.served
            && (served.writer == writer || served.thread == thread || limit.is_zero())
        {
            return;
        }
        let (turn, since) = (Arc::new(Condvar::new()), Instant::now());
        state.waiting.push_back(Waiting { writer, thread, since, turn: turn.clone() });
        loop {
            let until = state.served.as_ref().and_then(|served| served.until).unwrap_or(since + limit);
            turn.wait_until(&mut state, until.min(since + limit));
            state.end_turn();
            let timed_out = since.elapsed() >= limit;
            if state.served.as_ref().is_some_and(|served| served.writer == writer) {
                return;
            }
            let first = state.waiting.front().is_some_and(|first| first.writer == writer);
            if timed_out || first && state.served.is_none() {
                state.waiting.retain(|waiting| waiting.writer != writer);
                if state.served.is_none() {
                    state.served = Some(Served { writer, thread, writing: false, until: None });
                }
                return;
            }
        }
    }

    /// The same, but a turn that is not used within `most` is over: nobody says when.
    pub fn enter_for(&self, writer: WriterId, limit: Duration, most: Duration) {
        self.enter(writer, limit);
        let mut state = self.state.lock();
        if let Some(served) = state.served.as_mut().filter(|served| served.writer == writer) {
            served.until = Some(Instant::now() + most);
            // Who waits already does not know of it.
            if let Some(first) = state.waiting.front() {
                first.turn.notify_one();
            }
        }
    }

    /// Whether the writer may take the write lock now.
    pub fn may_write(&self, writer: WriterId) -> bool {
        let mut state = self.state.lock();
        state.end_turn();
        match &state.served {
            // A turn that its thread uses through another handle: a database that is attached to itself.
            Some(served) => served.writer == writer || !served.writing && served.thread == thread::id(),
            None => true,
        }
    }

    /// The writer has the write lock.
    pub fn writes(&self, writer: WriterId) {
        let mut state = self.state.lock();
        let thread = thread::id();
        state.served = Some(Served { writer, thread, writing: true, until: None });
    }

    /// The writer's turn is over.
    pub fn leave(&self, writer: WriterId) {
        let mut state = self.state.lock();
        if state.served.as_ref().is_none_or(|served| served.writer != writer) {
            return;
        }
        state.served = None;
        let Some(first) = state.waiting.front() else { return };
        first.turn.notify_one();
        if first.since.elapsed() >= FAIRNESS {
            state.served = state.waiting.pop_front().map(|next| Served {
                writer: next.writer,
                thread: next.thread,
                writing: false,
                until: None,
            });
        }
    }

    /// The writer's turn is over if it has not taken the write lock.
    pub fn leave_unless_writing(&self, writer: WriterId) {
        let idle = self
            .state
            .lock()
            .served
            .as_ref()
            .is_some_and(|served| served.writer == writer && !served.writing);
        if idle {
            self.leave(writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    fn wait_until_queued(writers: &Writers, count: usize) {
        while writers.state.lock().waiting.len() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn writers_are_served_in_the_order_in_which_they_came() {
        let writers = Arc::new(Writers::default());
        writers.enter(0, LONG);
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (1..4)
            .map(|writer| {
                let (queue, sender) = (writers.clone(), sender.clone());
                let thread = std::thread::spawn(move || {
                    queue.enter(writer, LONG);
                    queue.writes(writer);
                    assert!(queue.may_write(writer) && !queue.may_write(writer + 1));
                    sender.send(writer).unwrap();
                    queue.leave(writer);
                });
                wait_until_queued(&writers, writer as usize);
                thread
            })
            .collect();
        writers.leave(0);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(writers.may_write(9));
    }

    fn may_write_elsewhere(writers: &Arc<Writers>, writer: WriterId) -> bool {
        let writers = writers.clone();
        std::thread::spawn(move || writers.may_write(writer)).join().unwrap()
    }

    #[test]
    fn a_turn_that_nobody_ends_is_over_in_time() {
        let writers = Arc::new(Writers::default());
        writers.enter_for(0, LONG, Duration::from_millis(20));
        assert!(writers.may_write(0) && !may_write_elsewhere(&writers, 1));
        let other = writers.clone();
        std::thread::spawn(move || {
            other.enter(1, LONG);
            assert!(other.may_write(1));
        })
        .join()
        .unwrap();
        assert!(!writers.may_write(0));
        writers.leave(1);
        // Who has the lock by then keeps its turn.
        writers.enter_for(0, LONG, Duration::ZERO);
        writers.writes(0);
        assert!(!writers.may_write(1));
        writers.leave(0);
        writers.enter_for(0, LONG, Duration::ZERO);
        assert!(writers.may_write(1));
    }

    #[test]
    fn who_waited_before_a_turn_got_an_end_hears_of_it() {
        let writers = Arc::new(Writers::default());
        writers.enter(0, LONG);
        let other = writers.clone();
        let waiting = std::thread::spawn(move || {
            other.enter(1, Duration::from_secs(10));
            assert!(other.may_write(1));
        });
        wait_until_queued(&writers, 1);
        let begun = Instant::now();
        writers.enter_for(0, LONG, Duration::from_millis(20));
        waiting.join().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn nobody_waits_for_itself_or_without_end() {
        let writers = Arc::new(Writers::default());
        writers.enter(0, LONG);
        writers.enter(1, LONG);
        // The thread that has the turn may use it by another handle, as a database that is attached to itself does.
        assert!(writers.may_write(1) && !may_write_elsewhere(&writers, 1));
        let other = writers.clone();
        std::thread::spawn(move || other.enter(2, Duration::from_millis(1))).join().unwrap();
        assert!(writers.state.lock().waiting.is_empty());
        writers.leave_unless_writing(0);
        assert!(writers.may_write(1));
    }
}

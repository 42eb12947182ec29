//! The queue of those who want to write a database in WAL mode.
//!
//! SQLite lets a writer that finds the lock taken sleep and try again, and who comes first by chance goes
//! first. Inside one process writers can wait in order instead, and the next one starts the moment the lock
//! is free.
//!
//! Invariants:
//! 1. At most one writer is served; it is the only one that gets the write lock meanwhile.
//! 2. Waiting is bounded, and a thread never waits for itself. Whoever gives up goes on without a turn and
//!    meets SQLite's busy handling.

use litefoot_engine::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

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
    thread: ThreadId,
    /// Whether it holds SQLite's write lock.
    writing: bool,
}

struct Waiting {
    writer: WriterId,
    thread: ThreadId,
    turn: Arc<Condvar>,
}

impl Writers {
    /// Waits for the writer's turn, `limit` at most.
    pub fn enter(&self, writer: WriterId, limit: Duration) {
        let thread = std::thread::current().id();
        let mut state = self.state.lock();
        match &state.served {
            None => {
                state.served = Some(Served { writer, thread, writing: false });
                return;
            }
            Some(served) if served.writer == writer || served.thread == thread || limit.is_zero() => return,
            Some(_) => {}
        }
        let turn = Arc::new(Condvar::new());
        state.waiting.push_back(Waiting { writer, thread, turn: turn.clone() });
        let end = Instant::now() + limit;
        while state.served.as_ref().is_none_or(|served| served.writer != writer) {
            if turn.wait_until(&mut state, end).timed_out() {
                state.waiting.retain(|waiting| waiting.writer != writer);
                return;
            }
        }
    }

    /// Whether the writer may take the write lock now.
    pub fn may_write(&self, writer: WriterId) -> bool {
        let mut state = self.state.lock();
        match &mut state.served {
            Some(served) => served.writer == writer,
            None => true,
        }
    }

    /// The writer has the write lock.
    pub fn writes(&self, writer: WriterId) {
        let mut state = self.state.lock();
        let thread = std::thread::current().id();
        state.served = Some(Served { writer, thread, writing: true });
    }

    /// The writer's turn is over.
    pub fn leave(&self, writer: WriterId) {
        let mut state = self.state.lock();
        if state.served.as_ref().is_none_or(|served| served.writer != writer) {
            return;
        }
        state.served = state.waiting.pop_front().map(|next| {
            next.turn.notify_one();
            Served { writer: next.writer, thread: next.thread, writing: false }
        });
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

    #[test]
    fn nobody_waits_for_itself_or_without_end() {
        let writers = Arc::new(Writers::default());
        writers.enter(0, LONG);
        writers.enter(1, LONG);
        assert!(!writers.may_write(1));
        let other = writers.clone();
        std::thread::spawn(move || other.enter(2, Duration::from_millis(1))).join().unwrap();
        assert!(writers.state.lock().waiting.is_empty());
        writers.leave_unless_writing(0);
        assert!(writers.may_write(1));
    }
}

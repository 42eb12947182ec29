//! Making commits durable soon, by a thread that waits for the window of `synchronous=NORMAL` to pass.

use litefoot_storage::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The threads of one log: while the last one syncs, the next one may wait already.
#[derive(Default)]
pub(crate) struct Flush {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether one waits, and will make durable what is committed until then.
    waits: bool,
    threads: usize,
    /// How many want them to be gone.
    hurried: usize,
}

impl Flush {
    /// Whether a thread must be started.
    pub fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let starts = !state.waits;
        state.waits = true;
        state.threads += usize::from(starts);
        starts
    }

    /// Waits for the window to pass. Whoever commits from now on needs another thread.
    pub fn wait(&self, window: Duration) {
        let until = Instant::now() + window;
        let mut state = self.state.lock();
        while state.hurried == 0 && !self.changed.wait_until(&mut state, until).timed_out() {}
        state.waits = false;
    }

    /// There was no thread to be had.
    pub fn not_begun(&self) {
        self.state.lock().waits = false;
        self.end();
    }

    /// A thread ends, and has nothing of the log any more.
    pub fn end(&self) {
        self.state.lock().threads -= 1;
        self.changed.notify_all();
    }

    /// Lets the threads do at once what they are there for, and waits until they are gone.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        state.hurried += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.threads > 0);
        state.hurried -= 1;
    }
}

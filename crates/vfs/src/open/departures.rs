//! Members of a group that have died: what they had is free before anybody is refused because of it.
//!
//! # Why
//! With SQLite the locks of a process are gone before its parent hears of its end. A member's locks are the owner's, whose thread for it gives them back
//! once it has made the calls that still wait in the stream. Somebody without a busy timeout would meet `database is locked` meanwhile.
//!
//! Outside of WAL mode whoever was refused waits for that, and asks once more.
//!
//! # Invariants
//! 1. Only who was refused asks, and only who is alive waits. What it has itself no such thread needs.
//! 2. The wait has an end: the thread may be in a call that lasts.

use crate::open::OpenDatabase;
use litefoot_storage::os::LocalSocket;
use litefoot_storage::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long somebody waits for the threads of members that have died.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The streams of members, until all that they had was given back.
#[derive(Default)]
pub(crate) struct Departures {
    streams: Mutex<Vec<Arc<LocalSocket>>>,
    departed: Condvar,
    /// How many have gone, for one that was refused just before.
    gone: AtomicU64,
}

/// A member is there, until this is dropped.
pub(crate) struct Present(Arc<Departures>, Arc<LocalSocket>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.streams.lock().retain(|stream| !Arc::ptr_eq(stream, &self.1));
        self.0.gone.fetch_add(1, Ordering::SeqCst);
        self.0.departed.notify_all();
    }
}

impl Departures {
    /// A member has come, with that stream.
    pub(crate) fn note(self: &Arc<Self>, stream: Arc<LocalSocket>) -> Present {
        self.streams.lock().push(stream.clone());
        Present(self.clone(), stream)
    }

    /// How many members have gone so far. Their locks were free before.
    pub(crate) fn gone(&self) -> u64 {
        self.gone.load(Ordering::SeqCst)
    }

    /// Waits until members that have died have nothing any more; `false` where there are none, or the one that asks has died as well.
    fn wait(&self, own: Option<&Arc<LocalSocket>>) -> bool {
        if own.is_some_and(|own| own.has_ended()) {
            return false;
        }
        let mut streams = self.streams.lock();
        let is_own = |stream: &Arc<LocalSocket>| own.is_some_and(|own| Arc::ptr_eq(own, stream));
        let has_died = |stream: &&Arc<LocalSocket>| !is_own(stream) && stream.has_ended();
        let dead: Vec<_> = streams.iter().filter(has_died).cloned().collect();
        let until = Instant::now() + LONGEST_WAIT;
        while streams.iter().any(|stream| dead.iter().any(|dead| Arc::ptr_eq(dead, stream))) {
            if self.departed.wait_until(&mut streams, until).timed_out() {
                return false;
            }
        }
        !dead.is_empty()
    }
}

impl OpenDatabase {
    /// The members that are there.
    pub(crate) fn departures(&self) -> &Arc<Departures> {
        &self.departures
    }

    /// The processes that have borrowed the file.
    pub(crate) fn borrowers(&self) -> &Arc<Departures> {
        &self.borrowers
    }

    /// The last connection is closed: waits until threads for borrowers that have gone have nothing of the database any more.
    pub(super) fn await_borrowers(&self) {
        self.borrowers.wait(None);
    }

    /// A connection was refused, and `gone` had gone before it asked: waits until members that have died have nothing any more. `false` where there are
    /// none, and the refusal stands. A member's connection says which stream is its `own`.
    pub(crate) fn await_departures(&self, gone: u64, own: Option<&Arc<LocalSocket>>) -> bool {
        self.departures.gone() != gone || self.serves_group() && self.departures.wait(own)
    }
}

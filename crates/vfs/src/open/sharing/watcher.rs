//! Watcher: the thread that changes databases from one state of sharing to the other.
//!
//! It lives while a database of this process is multi-process, or another process waits for one. A process that is alone with
//! its databases has no such thread.
//!
//! # Promises
//! 1. [`look`] never waits, and is noticed by a thread that is at work already.
//! 2. A forked child has no thread, and starts its own with its first database that needs one.

use crate::open::OpenDatabase;
use litefoot_storage::sync::{AcrossFork, Condvar, Global, Mutex};
use litefoot_storage::thread::spawn;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The databases that are watched.
#[derive(Default)]
struct Watched {
    databases: Vec<Weak<OpenDatabase>>,
    /// The thread's bell, while there is a thread.
    bell: Option<Arc<Bell>>,
}

impl AcrossFork for Watched {
    fn inherit(parents: Watched) -> Watched {
        std::mem::forget(parents);
        Watched::default()
    }
}

static WATCHED: Global<Watched> = Global::new(Watched { databases: Vec::new(), bell: None });

/// Wakes the thread.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }

    /// Sleeps until it is rung, or for a time.
    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut rung = self.rung.lock();
        while !*rung && !self.changed.wait_until(&mut rung, end).timed_out() {}
        *rung = false;
    }
}

/// Watches a database from now on; `false` where the system has no thread to give.
pub(super) fn watch(database: &Arc<OpenDatabase>) -> bool {
    let mut watched = WATCHED.lock();
    let is_there = |other: &Weak<OpenDatabase>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(database));
    if !watched.databases.iter().any(is_there) {
        watched.databases.push(Arc::downgrade(database));
    }
    if let Some(bell) = &watched.bell {
        bell.ring();
        return true;
    }
    let bell = Arc::<Bell>::default();
    let its = bell.clone();
    let started = spawn("litefoot-sharing", move || run(&its)).is_ok();
    if started {
        watched.bell = Some(bell);
    }
    started
}

/// A transaction has ended that was in the way.
pub(super) fn look() {
    if let Some(bell) = &WATCHED.lock().bell {
        bell.ring();
    }
}

fn run(bell: &Bell) {
    loop {
        let databases: Vec<Arc<OpenDatabase>> =
            WATCHED.lock().databases.iter().filter_map(Weak::upgrade).collect();
        let mut next: Option<Duration> = None;
        let mut ended = Vec::new();
        for database in &databases {
            match super::step(database) {
                Some(wait) => next = Some(next.map_or(wait, |other| other.min(wait))),
                None => ended.push(database.clone()),
            }
        }
        let mut watched = WATCHED.lock();
        // Of those that have ended, one may be wanted again meanwhile.
        ended.retain(|database: &Arc<OpenDatabase>| !super::is_to_be_watched(database));
        watched.databases.retain(|one| {
            one.strong_count() > 0
                && !ended.iter().any(|ended| std::ptr::eq(one.as_ptr(), Arc::as_ptr(ended)))
        });
        if watched.databases.is_empty() {
            watched.bell = None;
            return;
        }
        drop(watched);
        // This thread may be the last user of a database.
        drop((databases, ended));
        bell.sleep(next.unwrap_or(super::LOOK_BACK));
    }
}

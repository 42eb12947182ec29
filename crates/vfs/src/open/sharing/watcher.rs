//! Watcher: the thread that changes databases from one state of sharing to the other.
//!
//! It lives while a database of this process is multi-process, or another process waits for one. A process that is alone with
//! its databases has no such thread.
//!
//! # Closings
//! Others may leave at any moment, and close the file then. The system tells of that where it can (inotify), so the thread sleeps
//! while they stay. It looks if they have left for [`RECENT`] after a closing. Elsewhere it looks all the time.
//!
//! # Lingering
//! A server may open a connection for each request. With a file that is opened and closed each time, several of them would change
//! the state to and fro. So a multi-process database lingers: it stays open for [`LINGER`] after its last connection. An opening
//! meanwhile finds it as it was. It has no lock then, and no memory of the file.
//!
//! # Promises
//! 1. [`look`] never waits, and is noticed by a thread that is at work already.
//! 2. A forked child has no thread, and starts its own with its first database that needs one.
//! 3. At most [`MOST_LINGERING`] databases linger.

use super::RECENT;
use crate::open::OpenDatabase;
use litefoot_storage::os::Closings;
use litefoot_storage::sync::{AcrossFork, Condvar, Global, Mutex};
use litefoot_storage::thread::spawn;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time for which a multi-process database stays open after its last connection.
const LINGER: Duration = Duration::from_secs(1);
/// The most databases that do so.
const MOST_LINGERING: usize = 16;

/// A database that is watched.
struct WatchedDatabase {
    database: Weak<OpenDatabase>,
    /// True if the system tells of closings of its file.
    is_heard: bool,
}

/// A database without connections.
struct Lingering {
    database: Arc<OpenDatabase>,
    until: Instant,
}

/// The databases that are watched.
#[derive(Default)]
struct Watched {
    databases: Vec<WatchedDatabase>,
    lingering: Vec<Lingering>,
    /// When the thread wakes up at the latest, while it sleeps.
    wakes: Option<Instant>,
    /// The thread's bell, while there is a thread.
    bell: Option<Arc<Bell>>,
}

impl AcrossFork for Watched {
    fn inherit(parents: Watched) -> Watched {
        std::mem::forget(parents);
        Watched::default()
    }
}

static WATCHED: Global<Watched> =
    Global::new(Watched { databases: Vec::new(), lingering: Vec::new(), wakes: None, bell: None });

/// Wakes the thread.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    /// Tells of closings, and takes the place of the other two, where the system lets it.
    closings: Option<Closings>,
}

impl Bell {
    fn ring(&self) {
        if let Some(closings) = &self.closings {
            return closings.ring();
        }
        *self.rung.lock() = true;
        self.changed.notify_all();
    }

    /// True if the system tells of closings of its file from now on.
    fn hears(&self, database: &OpenDatabase) -> bool {
        self.closings.as_ref().is_some_and(|closings| closings.watch(database.db.file()))
    }

    /// True if a file was closed since the last time.
    fn heard_closing(&self) -> bool {
        self.closings.as_ref().is_some_and(Closings::take)
    }

    /// Sleeps until it is rung, or for a time, or until a file is closed where it `listens` to that.
    fn sleep(&self, time: Duration, listens: bool) {
        if let Some(closings) = &self.closings {
            return closings.wait(time, listens);
        }
        let end = Instant::now() + time;
        let mut rung = self.rung.lock();
        while !*rung && !self.changed.wait_until(&mut rung, end).timed_out() {}
        *rung = false;
    }
}

/// Watches a database from now on; `false` where the system has no thread to give.
pub(super) fn watch(database: &Arc<OpenDatabase>) -> bool {
    let mut watched = WATCHED.lock();
    let bell = watched.bell.clone();
    let is_new = bell.is_none();
    let bell = bell.unwrap_or_else(|| Arc::new(Bell { closings: Closings::new().ok(), ..Bell::default() }));
    let is_there = |other: &WatchedDatabase| std::ptr::eq(other.database.as_ptr(), Arc::as_ptr(database));
    if is_new || !watched.databases.iter().any(is_there) {
        let is_heard = bell.hears(database);
        watched.databases.retain(|other| !is_there(other));
        watched.databases.push(WatchedDatabase { database: Arc::downgrade(database), is_heard });
    }
    if !is_new {
        bell.ring();
        return true;
    }
    let its = bell.clone();
    let started = spawn("litefoot-sharing", move || run(&its)).is_ok();
    if started {
        watched.bell = Some(bell);
    }
    started
}

/// Keeps a database open for a moment that has no connection any more; `false` where no thread would end that.
pub(super) fn linger(database: &Arc<OpenDatabase>) -> bool {
    let until = Instant::now() + LINGER;
    let mut watched = WATCHED.lock();
    let Some(bell) = watched.bell.clone() else { return false };
    let is_same = |other: &Lingering| Arc::ptr_eq(&other.database, database);
    if let Some(lingering) = watched.lingering.iter_mut().find(|other| is_same(other)) {
        lingering.until = until;
    } else {
        watched.lingering.push(Lingering { database: database.clone(), until });
    }
    let too_many = (watched.lingering.len() > MOST_LINGERING).then(|| watched.lingering.remove(0));
    if watched.wakes.is_some_and(|wakes| wakes > until) {
        bell.ring();
    }
    drop(watched);
    if let Some(former) = too_many {
        super::clear_up(&former.database);
    }
    true
}

/// A database does not linger any more.
pub(super) fn end_lingering(database: &Arc<OpenDatabase>) {
    let mut watched = WATCHED.lock();
    let at = watched.lingering.iter().position(|other| Arc::ptr_eq(&other.database, database));
    let former = at.map(|at| watched.lingering.swap_remove(at));
    drop(watched);
    drop(former);
}

/// Ends the lingering of the databases that have done so for long enough. Answers when the next one follows.
fn end_lingering_of_old() -> Option<Duration> {
    let now = Instant::now();
    let mut watched = WATCHED.lock();
    let ended: Vec<Lingering> = watched.lingering.extract_if(.., |one| one.until <= now).collect();
    let next = watched.lingering.iter().map(|one| one.until.saturating_duration_since(now)).min();
    drop(watched);
    ended.iter().filter(|one| !one.database.handles().any()).for_each(|one| super::clear_up(&one.database));
    next
}

/// A transaction has ended that was in the way.
pub(super) fn look() {
    if let Some(bell) = &WATCHED.lock().bell {
        bell.ring();
    }
}

fn run(bell: &Bell) {
    let mut last_closing = Instant::now();
    loop {
        // First of all: a closing that comes later ends the sleep.
        if bell.heard_closing() {
            last_closing = Instant::now();
        }
        let since_closing = last_closing.elapsed();
        let databases: Vec<(Arc<OpenDatabase>, bool)> = {
            let watched = WATCHED.lock();
            let there = |one: &WatchedDatabase| Some((one.database.upgrade()?, one.is_heard));
            watched.databases.iter().filter_map(there).collect()
        };
        let mut next = end_lingering_of_old();
        let mut ended = Vec::new();
        for (database, is_heard) in &databases {
            match super::step(database, is_heard.then_some(since_closing)) {
                Some(wait) => next = Some(next.map_or(wait, |other| other.min(wait))),
                None => ended.push(database.clone()),
            }
        }
        let mut watched = WATCHED.lock();
        // Of those that have ended, one may be wanted again meanwhile.
        ended.retain(|database: &Arc<OpenDatabase>| !super::is_to_be_watched(database));
        watched.databases.retain(|one| {
            one.database.strong_count() > 0
                && !ended.iter().any(|ended| std::ptr::eq(one.database.as_ptr(), Arc::as_ptr(ended)))
        });
        if watched.databases.is_empty() {
            watched.bell = None;
            return;
        }
        let pause = next.unwrap_or(super::LOOK_BACK);
        watched.wakes = Some(Instant::now() + pause);
        drop(watched);
        // Beside closings of which each was in vain it looks as often as without any.
        let listens = since_closing >= RECENT
            || databases.iter().any(|(database, _)| super::guests::awaits_closing(database));
        // This thread may be the last user of a database.
        drop((databases, ended));
        bell.sleep(pause, listens);
        WATCHED.lock().wakes = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use litefoot_sim::SimMedium;
    use std::path::Path;

    fn database(number: usize) -> Arc<OpenDatabase> {
        let path = format!("/{number}.db");
        let medium = Arc::new(SimMedium::new());
        Arc::new(OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new(&path))))
    }

    #[test]
    fn a_database_lingers_while_a_thread_ends_that_and_few_do() {
        let databases: Vec<_> = (0..MOST_LINGERING + 3).map(database).collect();
        assert!(!linger(&databases[0]), "nobody would end it");
        // Without a thread of ours: time stands still.
        WATCHED.lock().bell = Some(Arc::default());
        let lingering = |number: usize| Arc::strong_count(&databases[number]) > 1;
        for database in &databases {
            assert!(linger(database) && linger(database));
        }
        let count = (0..databases.len()).filter(|number| lingering(*number)).count();
        assert!(count == MOST_LINGERING && !lingering(0) && lingering(databases.len() - 1));
        assert!(end_lingering_of_old().is_some_and(|next| next <= LINGER));
        end_lingering(&databases[5]);
        assert!(!lingering(5) && lingering(6));
        WATCHED.lock().lingering.iter_mut().for_each(|one| one.until = Instant::now());
        assert_eq!(end_lingering_of_old(), None);
        assert!((0..databases.len()).all(|number| !lingering(number)));
        WATCHED.lock().bell = None;
    }
}

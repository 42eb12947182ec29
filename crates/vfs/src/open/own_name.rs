//! Own name: an owner whose file has lost its name gives up the names of its logs, before others read them.
//!
//! # Why
//! In every journal mode an owner has a log beside its file, under the name that SQLite gives a write-ahead log. Somebody may rename
//! another database over that file, or make a new one in its place. Stock SQLite would take the log for the new database's, show the
//! old pages, and copy them into the new file. So the owner has its directory watched ([`NameWatch`]), as long as it is the owner.
//!
//! # What is done
//! | the name leads | rollback journal | WAL |
//! |---|---|---|
//! | to another file | the log gets a name of its own, its pages go to the file, and it is removed | both logs get names of their own |
//! | nowhere | its pages go to the file, and it is removed | nothing: nobody can take the logs for another database's |
//! | to the file again | a log that was kept gets its name again | the same, for both logs |
//!
//! In WAL mode readers may have older snapshots, so the pages stay in the log. Where the file comes back to its name with the logs
//! beside it, a crash finds all of them.
//!
//! # Promises
//! 1. No commit is lost: what leaves a log is durable in the file, and a log that is renamed keeps what it has.
//! 2. Nothing that has the name now is written, replaced or removed.
//! 3. A transaction under way goes on, and its end does what had to wait.
//! 4. The last close waits for what was begun here, and nothing is begun behind it.
//!
//! # Invariants
//! 1. Whoever has the database because of a change of its name has the run of `worker` as well. Else the last of all would be this thread, which
//!    gives the lock on the file back when the application has closed it.
//!
//! # Limits
//! Between the rename and the end of all this some milliseconds go by. Who opens the new file then finds the log. A process that is
//! killed then leaves it there, as one that has no watch. Where the system tells of no renames, the next commit is the first to see them.

use crate::open::OpenDatabase;
use litefoot_storage::os::NameWatch;
use litefoot_storage::sync::Mutex;
use litefoot_storage::worker::{Run, Worker};
use std::sync::{Arc, Weak};

/// The watch of the name of one database.
#[derive(Default)]
pub(super) struct OwnName {
    watch: Mutex<Option<NameWatch>>,
    worker: Arc<Worker>,
    /// The right to the next run, while there is no handle.
    closed: Mutex<Option<Run<()>>>,
}

impl OwnName {
    /// Ends the watch: others use the files by SQLite's own protocol, or own them.
    pub fn forget(&self) {
        let watch = self.watch.lock().take();
        drop(watch);
    }

    /// The last handle has gone: waits for what was begun, and lets nothing begin until there is one again, as `has_handle` says.
    pub fn close(&self, has_handle: impl FnOnce() -> bool) {
        let mut closed = self.closed.lock();
        while closed.is_none() {
            // A panic has latched the database.
            let _ = self.worker.wait();
            *closed = self.worker.claim();
        }
        // One that has come meanwhile may have looked before.
        if has_handle() {
            *closed = None;
        }
    }

    /// There is a handle.
    pub fn reopen(&self) {
        *self.closed.lock() = None;
    }
}

/// This process is the owner: it watches the name from now on, where the medium is the system's.
pub(super) fn watch(database: &OpenDatabase) {
    let Some(there) = database.weak_self.get().filter(|_| database.db.file().raw_descriptor().is_some())
    else {
        return;
    };
    let mut watch = database.ownership.own_name.watch.lock();
    if watch.is_none() {
        let (there, worker) = (there.clone(), database.ownership.own_name.worker.clone());
        let on_change = Arc::new(move || changed(&there, &worker));
        *watch = NameWatch::begin(database.db.path(), database.db.file().id(), on_change);
    }
}

/// The name leads elsewhere, or to the file again: a thread does what is to be done. `false` while one is at work, or no handle is there.
fn changed(there: &Weak<OpenDatabase>, worker: &Arc<Worker>) -> bool {
    let Some(claim) = worker.claim() else { return false };
    let Some(database) = there.upgrade() else { return true };
    let latch = database.db.latch().clone();
    if let Err(claim) = claim.start("litefoot-name", &latch, move |_| database.heed_name()) {
        // The system has no thread: this one has to do.
        let database = there.upgrade();
        claim.run_here("litefoot-name", move || database.iter().for_each(|database| database.heed_name()));
    }
    true
}

impl OpenDatabase {
    /// Does what is to be done about the name, wherever it leads. A failure leaves a log where it is: the next change of the name, the
    /// next commit and the last close try again.
    fn heed_name(&self) {
        if !self.db.is_of_this_process() {
            return;
        }
        if self.db.has_its_name() {
            let _ = self.rollback_log.step_back();
            if let Some(wal) = self.wal() {
                let _ = wal.step_back();
            }
            return;
        }
        match self.db.medium().identity(self.db.path()) {
            Ok(Some(_)) => self.give_up_names(),
            Ok(None) => drop(self.rollback_log.leave_place(&self.db)),
            Err(_) => {}
        }
    }

    /// Gives the names of the logs up, as far as possible, where another database has the name of this one.
    pub(crate) fn give_up_names(&self) {
        if !self.db.is_of_this_process() || self.db.has_its_name() {
            return;
        }
        // A log that cannot be left is in use, and the other one finds it so. First the names: a checkpoint takes its time.
        let _ = self.rollback_log.step_aside();
        if let Some(wal) = self.wal() {
            let _ = wal.step_aside();
        }
        let _ = self.rollback_log.leave_place(&self.db);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use litefoot_sim::SimMedium;
    use std::path::Path;

    #[test]
    fn without_a_handle_no_change_has_the_database() {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/a.db"));
        let database = Arc::new(OpenDatabase::new(setup));
        let (there, name) = (Arc::downgrade(&database), &database.ownership.own_name);
        // (the handle that has come while the last one went, a change is taken up)
        for (comes, is_taken_up) in [(false, false), (true, true), (false, false)] {
            name.close(|| comes);
            name.close(|| comes);
            assert_eq!(changed(&there, &name.worker), is_taken_up, "{comes}");
            if is_taken_up {
                // Whoever has the database has the run.
                assert!(name.worker.wait().is_ok());
            }
            assert_eq!(Arc::strong_count(&database), 1);
        }
        database.begin_handle(false);
        assert!(changed(&there, &name.worker));
    }
}

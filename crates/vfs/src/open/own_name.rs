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
//! 4. The last close waits for what was begun here.
//!
//! # Limits
//! Between the rename and the end of all this some milliseconds go by. Who opens the new file then finds the log. A process that is
//! killed then leaves it there, as one that has no watch. Where the system tells of no renames, the next commit is the first to see them.

use crate::open::OpenDatabase;
use litefoot_storage::os::NameWatch;
use litefoot_storage::sync::Mutex;
use litefoot_storage::worker::Worker;
use std::sync::{Arc, Weak};

/// The watch of the name of one database.
#[derive(Default)]
pub(super) struct OwnName {
    watch: Mutex<Option<NameWatch>>,
    worker: Arc<Worker>,
}

impl OwnName {
    /// Ends the watch: others use the files by SQLite's own protocol, or own them.
    pub fn forget(&self) {
        let watch = self.watch.lock().take();
        drop(watch);
    }

    /// Waits for what was begun.
    pub fn await_end(&self) {
        // A panic has latched the database.
        let _ = self.worker.wait();
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
        let there = there.clone();
        let on_change = Arc::new(move || changed(&there));
        *watch = NameWatch::begin(database.db.path(), database.db.file().id(), on_change);
    }
}

/// The name leads elsewhere, or to the file again: a thread does what is to be done. `false` while one is at work.
fn changed(database: &Weak<OpenDatabase>) -> bool {
    let Some(database) = database.upgrade() else { return true };
    let Some(claim) = database.ownership.own_name.worker.claim() else { return false };
    let there = database.clone();
    let started = claim.start("litefoot-name", database.db.latch(), move |_| there.heed_name());
    if let Err(claim) = started {
        // The system has no thread: this one has to do.
        claim.run_here("litefoot-name", || database.heed_name());
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

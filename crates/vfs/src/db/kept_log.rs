//! Kept logs: void redo logs and rollback journals that closes of this process have left for the next openings.
//!
//! # Why
//! A program that opens its database for each commit would create and remove a log each time, which costs more than the
//! commit. So a close leaves the log at its name, void, where this process closes the database again and again. SQLite
//! leaves such logs itself (`SQLITE_FCNTL_PERSIST_WAL`): it finds nothing in them, and its last close removes them.
//!
//! In rollback-journal modes a journal stays instead ([`kept_journal`](crate::commit::kept_journal)), which SQLite knows from its mode
//! PERSIST. The mark in it tells any process that the file is void, durably
//! ([`rollback_journal`](litefoot_storage::rollback_journal)). So what is remembered here of a journal is only that it is to be removed.
//!
//! # Promises
//! 1. No descriptor, lock or thread is kept. A mark in the file tells the next opening that nobody has written to it.
//! 2. Files are kept only in a process whose exit is told ([`KeptLogs::remove_all`]). They are removed then, unless somebody
//!    has the database open. A process that is killed leaves a log, and the next ordinary close removes that.
//! 3. A log has the rights of its database. Where the database was given others meanwhile, the log is made anew.
//! 4. At most [`MOST_DATABASES`] databases are remembered. A forked child remembers none.

use crate::db::{Companion, Db};
use crate::error::Result;
use crate::sync::owner_lock;
use litefoot_storage::file::{FileId, FileKind, Medium, OpenMode};
use litefoot_storage::rollback_journal::RollbackJournal;
use litefoot_storage::sync::{AcrossFork, Global};
use litefoot_storage::wal_file::{KeptLog, RedoLog};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Most time between two closes of a database after which the next opening is expected soon.
const SOON: Duration = Duration::from_secs(10);
/// Most databases that are remembered.
pub const MOST_DATABASES: usize = 64;

/// The kept logs and journals of one VFS.
pub struct KeptLogs {
    medium: Arc<dyn Medium>,
    closed: Global<Closed>,
}

/// Databases that this process has closed, by the identity of their files.
#[derive(Default)]
struct Closed(HashMap<FileId, ClosedDatabase>);

impl AcrossFork for Closed {
    fn inherit(_parents: Closed) -> Closed {
        Closed::default()
    }
}

/// A database that was closed after a commit.
struct ClosedDatabase {
    path: PathBuf,
    at: Instant,
    log: Option<KeptLog>,
    /// True if a journal was kept.
    journal: bool,
    /// True if it had few commits, in a rollback-journal mode.
    short: bool,
}

/// All of the process.
#[derive(Default)]
struct All(Vec<Weak<KeptLogs>>);

impl AcrossFork for All {
    fn inherit(parents: All) -> All {
        // The child has the same registrations, and they remember nothing.
        parents
    }
}

static ALL: Global<All> = Global::new(All(Vec::new()));

/// True where a log is to be kept, so long after the last close of the database.
fn keeps(since_last_close: Option<Duration>) -> bool {
    since_last_close.is_some_and(|since| since <= SOON)
}

impl KeptLogs {
    /// None yet, on a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Arc<KeptLogs> {
        let kept = Arc::new(KeptLogs { medium, closed: Global::default() });
        ALL.lock().0.push(Arc::downgrade(&kept));
        kept
    }

    /// Takes the log that was kept for a database. One that was kept at another path, where the database lay, is removed.
    fn take(&self, data: FileId, path: &Path) -> Option<KeptLog> {
        let mut closed = self.closed.lock();
        let database = closed.0.get_mut(&data)?;
        let log = database.log.take()?;
        if database.path == path {
            return Some(log);
        }
        let former = std::mem::replace(&mut database.path, path.to_owned());
        drop(closed);
        // It stays where that fails: it is void.
        let _ = self.remove(data, &former, Some(&log), false, true);
        None
    }

    /// True where a database that is not in WAL mode was closed a moment ago, after few commits. A journal that was kept at another
    /// path, where the database lay, is removed.
    fn expects_short_opening(&self, data: FileId, path: &Path) -> bool {
        let mut closed = self.closed.lock();
        let Some(database) = closed.0.get_mut(&data) else { return false };
        let expected = database.short && keeps(Some(database.at.elapsed()));
        if database.path != path && std::mem::take(&mut database.journal) {
            let former = database.path.clone();
            drop(closed);
            // It stays where that fails: it is void.
            let _ = self.remove(data, &former, None, true, true);
        }
        expected
    }

    /// Ends the use of the log of a database that is closed, or that leaves WAL mode: keeps it, or removes it.
    fn leave(&self, db: &Db, redo: &mut RedoLog) -> Result<()> {
        let (data, now) = (db.file().id(), Instant::now());
        let was_used = redo.is_used();
        let last = self.closed.lock().0.get(&data).map(|database| now.duration_since(database.at));
        let log = if !was_used || keeps(last) {
            redo.keep()?
        } else {
            redo.delete()?;
            None
        };
        if log.is_some() {
            // To SQLite there is none: the database may be leaving WAL mode.
            db.companions().set_alone(Companion::Wal, true);
        }
        if was_used || log.is_some() {
            let path = db.path().to_owned();
            self.note(data, ClosedDatabase { path, at: now, log, journal: false, short: false });
        }
        Ok(())
    }

    fn note(&self, data: FileId, mut database: ClosedDatabase) {
        let mut closed = self.closed.lock();
        if let Some(former) = closed.0.get_mut(&data).filter(|former| former.path == database.path) {
            database.log = database.log.or(former.log.take());
            database.journal |= former.journal;
        }
        if closed.0.len() >= MOST_DATABASES {
            closed.0.retain(|_, other| other.is_kept() || keeps(Some(database.at.duration_since(other.at))));
        }
        if closed.0.len() < MOST_DATABASES || closed.0.contains_key(&data) {
            closed.0.insert(data, database);
        }
    }

    /// Removes all that is kept, but of databases that this process owns. For the end of the process: nothing is
    /// waited for.
    pub fn remove_all(owned: &[FileId]) {
        let all: Vec<Arc<KeptLogs>> = ALL.lock().0.iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|kept| kept.remove_these(owned));
        std::mem::forget(all);
    }

    /// Removes all that this VFS has kept.
    pub(crate) fn remove_these(&self, owned: &[FileId]) {
        let closed = std::mem::take(&mut self.closed.lock().0);
        for (data, database) in closed {
            if database.is_kept() {
                // What cannot be removed stays: it is void.
                let is_open = owned.contains(&data);
                let _ = self.remove(data, &database.path, database.log.as_ref(), database.journal, is_open);
            }
        }
    }

    /// Removes a log, and a journal, unless somebody has the database open, or has written to them. Where it is open in this
    /// process, its file is not opened once more: to its lease that would be somebody else.
    fn remove(
        &self,
        data: FileId,
        path: &Path,
        log: Option<&KeptLog>,
        journal: bool,
        is_open: bool,
    ) -> Result<()> {
        let remove = || {
            log.map_or(Ok(()), |log| remove_untouched(&*self.medium, &Companion::Wal.of(path), log))?;
            let path = Companion::Journal.of(path);
            match journal.then(|| RollbackJournal::find(&*self.medium, &path, Arc::default())).transpose()? {
                Some(Some(journal)) => journal.delete(&*self.medium),
                _ => Ok(()),
            }
        };
        match self.medium.identity(path)? {
            None => Ok(remove()?),
            Some(id) if id != data || is_open => Ok(()),
            Some(_) => {
                let file = self.medium.open(path, FileKind::Database, OpenMode::ReadWrite)?;
                // Connections in WAL mode, also those of stock SQLite, hold a lock as long as they are open.
                if file.id() != data || !owner_lock::try_acquire(&*file, true)? {
                    return Ok(());
                }
                let removed = remove();
                owner_lock::release(&*file)?;
                Ok(removed?)
            }
        }
    }
}

impl ClosedDatabase {
    fn is_kept(&self) -> bool {
        self.log.is_some() || self.journal
    }
}

/// Removes a kept log, unless somebody has written to it.
fn remove_untouched(medium: &dyn Medium, path: &Path, log: &KeptLog) -> litefoot_storage::file::Result<()> {
    if medium.identity(path)? != Some(log.file) {
        return Ok(());
    }
    let file = medium.open(path, FileKind::RedoLog, OpenMode::ReadOnly)?;
    if log.is_untouched(&*file)? { medium.delete(path) } else { Ok(()) }
}

impl Db {
    /// Opens the redo log, which may be one that was kept.
    pub(crate) fn open_redo_log(&self, path: &Path) -> litefoot_storage::file::Result<RedoLog> {
        let (medium, latch, data) = (self.medium().clone(), self.latch().clone(), self.data_file());
        match self.kept_logs.as_ref().and_then(|kept| kept.take(self.file().id(), self.path())) {
            Some(kept) if self.has_own_rights(path)? => RedoLog::open_kept(medium, path, latch, data, kept),
            Some(kept) => {
                remove_untouched(&*medium, path, &kept)?;
                RedoLog::open_of(medium, path, latch, data)
            }
            None => RedoLog::open_of(medium, path, latch, data),
        }
    }

    /// True if a file has the rights of the database, which may have been given others since.
    pub(crate) fn has_own_rights(&self, path: &Path) -> litefoot_storage::file::Result<bool> {
        let [file, database] = [path, self.path()].map(|path| self.medium().info(path));
        Ok(matches!((file?, database?), (Some(file), Some(database)) if file.has_rights_of(&database)))
    }

    /// True if closes of this database may leave void files.
    pub(crate) fn keeps_files(&self) -> bool {
        self.kept_logs.is_some()
    }

    /// True where an opening that is not in WAL mode is expected to be short.
    pub(crate) fn expects_short_opening(&self) -> bool {
        let kept = self.kept_logs.as_ref();
        kept.is_some_and(|kept| kept.expects_short_opening(self.file().id(), self.path()))
    }

    /// An opening in a rollback-journal mode ends that has committed.
    pub(crate) fn note_short_opening(&self, short: bool, journal: bool) {
        if let Some(kept) = &self.kept_logs {
            let (path, at) = (self.path().to_owned(), Instant::now());
            kept.note(self.file().id(), ClosedDatabase { path, at, log: None, journal, short });
        }
    }

    /// Removes the redo log, whose pages are all in the synced data file, or keeps it for the next opening.
    pub(crate) fn leave_redo_log(&self, redo: &mut RedoLog) -> Result<()> {
        match &self.kept_logs {
            Some(kept) => kept.leave(self, redo),
            None => Ok(redo.delete()?),
        }
    }
}

#[cfg(test)]
mod tests;

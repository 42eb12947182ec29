//! A handle on any file that SQLite uses beside the main database: journals, logs, temporary files.

use crate::db::{Companion, Db};
use crate::error::Result;
use crate::files::handle::{Control, Handle, Handled, exchange_mmap_size, read_exactly};
use crate::files::journal::makes_hot;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, parent_directory};
use std::ffi::c_int;
use std::sync::Arc;

/// Opens the log or the journal of a database that other processes may have open, and creates it where there is none. What
/// a process knew of it does not count any more.
pub(super) fn open_beside_others(db: &Db, companion: Companion) -> Result<Arc<dyn File>> {
    let path = db.companion_path(companion);
    db.latch().check(&path)?;
    db.companions().set_alone(companion, false);
    let kind = if companion == Companion::Wal { FileKind::RedoLog } else { FileKind::Journal };
    Ok(db.medium().open(&path, kind, OpenMode::Create)?)
}

/// A file that is passed through to the device as SQLite uses it.
pub struct PassThroughFile {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    /// The database whose soundness depends on this file.
    database: Option<Arc<OpenDatabase>>,
    /// True if the first sync must make the file's name durable.
    name_unsynced: bool,
    /// What it is, if other processes may use it, too.
    shared_as: Option<Companion>,
    /// True if the file was changed since its last sync.
    unsynced: bool,
    /// True if it is synced before it is closed, also where SQLite does not ask for that.
    settles: bool,
    delete_on_close: bool,
    /// How much of it is to be mapped, by what the application says; nothing is.
    mmap_size: i64,
}

impl PassThroughFile {
    /// A temporary file that nobody needs after a crash.
    pub fn temporary(medium: Arc<dyn Medium>, file: Arc<dyn File>, delete_on_close: bool) -> PassThroughFile {
        PassThroughFile {
            medium,
            file,
            database: None,
            name_unsynced: false,
            shared_as: None,
            unsynced: false,
            settles: false,
            delete_on_close,
            mmap_size: 0,
        }
    }

    /// A journal or log that a database depends on. A journal that `settles` may be of a database with a redo log. When
    /// it is finished it must be dead for good, before the redo log is used again.
    pub fn companion(
        medium: Arc<dyn Medium>,
        file: Arc<dyn File>,
        database: Option<Arc<OpenDatabase>>,
        name_unsynced: bool,
        settles: bool,
    ) -> PassThroughFile {
        PassThroughFile {
            medium,
            file,
            database,
            name_unsynced,
            shared_as: None,
            unsynced: false,
            settles,
            delete_on_close: false,
            mmap_size: 0,
        }
    }

    /// The log or the journal of a database that other processes may have open. The file is created where there is none.
    pub fn beside_others(database: &Arc<OpenDatabase>, companion: Companion) -> Result<PassThroughFile> {
        let (file, medium) = (open_beside_others(database.db(), companion)?, database.db().medium().clone());
        let name_unsynced = !database.db().durable_names().has(companion, &*file);
        let opened = PassThroughFile::companion(medium, file, Some(database.clone()), name_unsynced, false);
        Ok(PassThroughFile { shared_as: Some(companion), ..opened })
    }

    fn check(&self) -> Result<()> {
        match &self.database {
            Some(database) => Ok(database.db().latch().check(self.file.path())?),
            None => Ok(()),
        }
    }

    /// A journal is about to be hot, and must not be that beside a marked file. A connection in exclusive mode that has rolled a hot
    /// journal back keeps that file open, and begins its transactions there.
    fn leave_tier(&self) -> Result<()> {
        let Some(database) = self.database.as_ref().filter(|database| database.db().tier().is_some()) else {
            return Ok(());
        };
        if *self.file.path() != database.db().companion_path(Companion::Journal) {
            return Ok(());
        }
        database.rollback_log().clear_for_journal(database.db())
    }

    fn watch<T>(&self, result: litefoot_storage::file::Result<T>) -> Result<T> {
        match &self.database {
            Some(database) => Ok(database.db().latch().watch(result)?),
            None => Ok(result?),
        }
    }
}

impl Handle for PassThroughFile {
    fn control(&mut self, control: Control<'_>) -> Result<Handled> {
        match control {
            // A database in a temporary file has no locks.
            Control::LockState(state) => *state = Level::None as c_int,
            Control::MmapSize(size) => exchange_mmap_size(&mut self.mmap_size, size),
            _ => return Ok(Handled::No),
        }
        Ok(Handled::Yes)
    }

    fn latch_after_panic(&self, text: &str) {
        if let Some(database) = &self.database {
            database.db().latch_after_panic(text);
        }
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        self.database.as_ref()
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        read_exactly(&*self.file, buf, offset)
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        if makes_hot(buf, offset) {
            self.leave_tier()?;
        }
        self.unsynced = true;
        Ok(self.file.write_at(buf, offset)?)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.unsynced = true;
        Ok(self.file.set_len(len)?)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.watch(self.file.sync())?;
        self.unsynced = false;
        if self.name_unsynced {
            self.watch(self.medium.sync_directory(parent_directory(self.file.path())))?;
            self.name_unsynced = false;
            if let (Some(companion), Some(database)) = (self.shared_as, &self.database) {
                database.db().durable_names().note(companion, &self.file);
            }
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        Ok(self.file.len()?)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        if self.unsynced && self.settles {
            self.sync()?;
        }
        if self.delete_on_close {
            self.medium.delete(self.file.path())?;
        }
        Ok(())
    }
}

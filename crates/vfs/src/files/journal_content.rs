//! The content of the rollback journal that SQLite sees: memory, until a transaction needs a real file.
//!
//! # Invariants
//! 1. While other processes may have the database open, the journal is a real file from its first byte.
//! 2. A journal goes with the state of the database between transactions, while it is void. A handle that is kept
//!    open across transactions shows nothing of the form that it had before.
//! 3. Where others come in the middle of a transaction that has not written to the database file, its journal becomes a file before it is
//!    used again, and before that file is written. SQLite syncs it as one that was a file from the beginning.

use crate::db::{Companion, Db};
use crate::error::{Error, Result};
use crate::files::passthrough::open_beside_others;
use crate::memory::memory_file::MemoryFile;
use litefoot_storage::file::{File, FileKind, OpenMode, SECTOR_BYTES, parent_directory};
use std::sync::Arc;

/// Bytes copied at a time when the journal becomes a real file.
const COPY_BYTES: usize = 64 << 10;
/// Where a journal's header says the sizes of a sector and of a page (file format, section 3). SQLite writes them first, and fills the
/// rest of a void header with zeros.
const SIZES_AT: usize = 20;

/// The content of a journal.
pub struct Journal {
    pub(super) memory: MemoryFile,
    pub(super) real: Option<Arc<dyn File>>,
    /// True if the real file was changed since its last sync.
    pub(super) unsynced: bool,
    /// True if it has a header, so that a transaction is in it. A connection that keeps the file open can go on
    /// without a journal.
    pub(super) has_header: bool,
    /// How many transactions were in it.
    pub(super) transactions: u64,
    /// True if it is a real file that other processes may roll back.
    beside_others: bool,
    /// True if the first sync of the real file must make its name durable.
    name_unsynced: bool,
}

impl Journal {
    /// An empty journal in memory.
    pub fn new(memory: MemoryFile) -> Journal {
        Journal {
            memory,
            real: None,
            unsynced: false,
            has_header: false,
            transactions: 0,
            beside_others: false,
            name_unsynced: false,
        }
    }

    /// Before a transaction begins: goes with the state of the database.
    ///
    /// # Errors
    /// The state cannot change within a transaction. Should it have, nothing is written that nobody would roll back.
    pub(super) fn follow(&mut self, db: &Db) -> Result<()> {
        let beside_others = db.shared().is_multi_process();
        if self.beside_others == beside_others {
            return Ok(());
        }
        if beside_others && self.is_begun()? {
            return self.carry(db);
        }
        if self.has_header {
            let path = db.companion_path(Companion::Journal);
            return Err(Error::Io(format!("{}: a transaction has begun elsewhere", path.display())));
        }
        self.real = if beside_others { Some(open_beside_others(db, Companion::Journal)?) } else { None };
        self.memory.set_len(0)?;
        let is_known = |real: &Arc<dyn File>| db.durable_names().has(Companion::Journal, &**real);
        self.name_unsynced = !self.real.as_ref().is_none_or(is_known);
        (self.beside_others, self.unsynced) = (beside_others, false);
        db.durable_names().note_unsynced_journal(None);
        Ok(())
    }

    /// Within a transaction: where others have come since it began, its journal becomes a file.
    pub(super) fn follow_begun(&mut self, db: &Db) -> Result<()> {
        let have_come = !self.beside_others && db.shared().is_multi_process();
        if have_come && self.is_begun()? { self.carry(db) } else { Ok(()) }
    }

    /// True if a transaction is in the memory.
    fn is_begun(&self) -> Result<bool> {
        let mut sizes = [0; 8];
        Ok(self.real.is_none() && self.memory.read(&mut sizes, SIZES_AT)? == sizes.len() && sizes != [0; 8])
    }

    /// The memory becomes a file, which SQLite syncs before it writes to the database file.
    fn carry(&mut self, db: &Db) -> Result<()> {
        let real = open_beside_others(db, Companion::Journal)?;
        real.set_len(0)?;
        self.copy_to(&*real, 0)?;
        self.memory.set_len(0)?;
        self.real = Some(real);
        (self.beside_others, self.name_unsynced, self.unsynced) = (true, true, true);
        Ok(())
    }

    /// Copies the memory to a file, from an offset on.
    fn copy_to(&self, file: &dyn File, from: usize) -> Result<()> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = from;
        while at < self.memory.len() {
            let read = self.memory.read(&mut buffer, at)?;
            file.write_at(&buffer[..read], at as u64)?;
            at += read;
        }
        Ok(())
    }

    /// The handle is closed. A journal that others may roll back is as durable as SQLite has asked for.
    pub(super) fn close(&mut self, db: &Db) -> Result<()> {
        if !self.beside_others {
            return self.settle(db);
        }
        let unsynced = self.real.as_ref().filter(|_| self.name_unsynced).map(|real| real.id());
        db.durable_names().note_unsynced_journal(unsynced);
        Ok(())
    }

    /// True if it has become a real file, and a transaction is in it.
    pub fn is_in_use(&self) -> bool {
        self.real.is_some() && self.has_header
    }

    /// The number of the transaction that is in it, where one is.
    pub fn transaction(&self) -> Option<u64> {
        self.has_header.then_some(self.transactions)
    }

    /// Makes the end of a real journal durable, where SQLite has not asked for it. The redo log is used again next, and
    /// must not be rolled back over.
    pub(super) fn settle(&mut self, db: &Db) -> Result<()> {
        match &self.real {
            Some(real) if self.unsynced => {
                db.latch().check(real.path())?;
                db.latch().watch(real.sync())?;
                self.unsynced = false;
                if self.name_unsynced {
                    db.latch().watch(db.medium().sync_directory(parent_directory(real.path())))?;
                    self.name_unsynced = false;
                    if self.beside_others && db.may_hold_back() {
                        db.durable_names().note(Companion::Journal, real);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes the journal a real, durable file. The sector with its header comes last, after a sync: a
    /// journal with a header and without its records would roll back to garbage.
    pub fn make_real(&mut self, db: &Db) -> Result<()> {
        if self.real.is_some() {
            return Ok(());
        }
        let path = db.companion_path(Companion::Journal);
        let latch = db.latch();
        latch.check(&path)?;
        db.companions().set_alone(Companion::Journal, false);
        let file = db.medium().open(&path, FileKind::Journal, OpenMode::Create)?;
        file.set_len(0)?;
        self.copy_to(&*file, SECTOR_BYTES)?;
        latch.watch(file.sync())?;
        let mut first = [0; SECTOR_BYTES];
        let read = self.memory.read(&mut first, 0)?;
        file.write_at(&first[..read], 0)?;
        latch.watch(file.sync())?;
        latch.watch(db.medium().sync_directory(parent_directory(&path)))?;
        self.memory.set_len(0)?;
        self.real = Some(file);
        self.has_header = true;
        self.unsynced = false;
        Ok(())
    }
}

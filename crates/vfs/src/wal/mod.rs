//! The write-ahead log of a database: in memory as SQLite sees it, on the medium as a redo log.
//!
//! # Why
//! SQLite appends whole pages to its `-wal` file, checksums them for itself, and reads them back from
//! there. Here that file is memory. What has to survive goes to the medium in the form that costs least:
//! the newest version of each page of a transaction, once, in one write into space that was written
//! before.
//!
//! | file | holds |
//! |---|---|
//! | `frames` | SQLite's log in it, and where transactions end |
//! | `file` | the handle that SQLite has on it |
//! | `mod` | what goes to the medium, and when |
//!
//! # What it promises
//! 1. A commit that SQLite syncs (`synchronous=FULL`) is durable before SQLite publishes it; an error there
//!    fails the commit, and it was never there.
//! 2. A commit that SQLite does not sync survives the process: it is with the operating system when the
//!    commit returns.
//! 3. The database file is written in place only with pages that are in the redo log, which is synced
//!    first whenever SQLite asks for a sync.
//!
//! # Invariants
//! 1. `logged <= committed`; the newest versions of the pages in frames `0..logged` are in the redo log,
//!    or in the database file and synced.
//! 2. The redo log is voided only when SQLite begins its log anew, which it does when every frame is in the
//!    database file, and after that file is synced.
//! 3. The lock of `commit` is taken before that of `frames`.

mod file;
mod frames;

pub(crate) use file::WalFile;

use crate::error::{Error, Result};
use crate::memory::{MakeSpill, MemoryFile};
use crate::vfs::database::Database;
use crate::vfs::registry::Companion;
pub use frames::Transaction;
use frames::{Frames, Written};
use litefoot_engine::log::RedoLog;
use litefoot_engine::log::redo::{self, Durability};
use litefoot_engine::sync::{Mutex, RwLock};
use std::path::{Path, PathBuf};

/// The log of one database.
pub struct Wal {
    path: PathBuf,
    frames: RwLock<Frames>,
    commit: Mutex<Commit>,
}

/// What is on the medium.
struct Commit {
    redo: RedoLog,
    /// Frames whose pages have reached the redo log.
    logged: usize,
}

impl Wal {
    /// The log of a database, with what is on the medium.
    pub fn open(database: &Database, make_spill: MakeSpill) -> Result<Wal> {
        let path = database.companion_path(Companion::Wal);
        let redo = RedoLog::open(database.medium().clone(), &path, database.latch().clone())?;
        let memory = MemoryFile::new(database.options().wal_memory, make_spill);
        let frames = Frames::load(memory, &redo.read_all()?)?;
        let commit = Commit { redo, logged: frames.committed() };
        Ok(Wal { path, frames: RwLock::new(frames), commit: Mutex::new(commit) })
    }

    /// Where it lies on the medium.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes, as SQLite sees it.
    pub fn bytes(&self) -> u64 {
        self.frames.read().len() as u64
    }

    /// Reads what SQLite asks for; returns the bytes read.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.frames.read().read(buf, offset as usize)?)
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.frames.read().memory_bytes()
    }

    /// Takes what SQLite writes; answers the transaction that it completes.
    pub fn write(&self, database: &Database, buf: &[u8], offset: u64) -> Result<Option<Transaction>> {
        if offset == 0 {
            self.void(database)?;
        }
        let written = self.frames.write().write(buf, offset as usize)?;
        match written {
            Written::Commit(transaction) => Ok(Some(transaction)),
            Written::TakenBack => Err(self.taken_back(database)),
            Written::Part | Written::Restart => Ok(None),
        }
    }

    /// Brings everything committed to the medium, and waits for it if it must be durable.
    pub fn log(&self, durability: Durability) -> Result<()> {
        let mut commit = self.commit.lock();
        let frames = self.frames.read();
        let newest = frames.newest(commit.logged);
        let (page_numbers, places): (Vec<u32>, Vec<usize>) = newest.into_iter().unzip();
        let transaction = redo::Transaction {
            slots: &[],
            page_numbers: &page_numbers,
            page_bytes: frames.page_bytes() as u32,
            database_pages: frames.database_pages(),
        };
        let mut copy = |index: usize, page: &mut [u8]| frames.copy_page(places[index], page);
        commit.redo.append(&transaction, &mut copy, durability)?;
        commit.logged = frames.committed();
        Ok(())
    }

    /// Makes a commit durable; if that fails, it has not happened.
    pub fn log_commit(&self, transaction: Transaction) -> Result<()> {
        self.log(Durability::Durable).inspect_err(|_| {
            let commit = self.commit.lock();
            if commit.logged <= transaction.first {
                self.frames.write().revoke(transaction);
            }
        })
    }

    /// Cuts the log, as SQLite asks.
    pub fn set_len(&self, database: &Database, len: u64) -> Result<()> {
        if len == 0 {
            self.void(database)?;
        }
        Ok(self.frames.write().set_len(len as usize)?)
    }

    /// Removes the log: everything is in the database file.
    pub fn delete(&self, database: &Database) -> Result<()> {
        database.sync_if_written()?;
        let mut commit = self.commit.lock();
        commit.redo.delete()?;
        commit.logged = 0;
        Ok(self.frames.write().set_len(0)?)
    }

    /// SQLite begins its log anew: what the redo log holds is in the database file.
    fn void(&self, database: &Database) -> Result<()> {
        database.sync_if_written()?;
        let mut commit = self.commit.lock();
        commit.redo.reset();
        commit.logged = 0;
        Ok(())
    }

    /// A transaction that could not be published, for want of memory, is in the redo log already. Nothing may
    /// be built on top of it until the database is opened again, and then it is there.
    fn taken_back(&self, database: &Database) -> Error {
        let reason = format!(
            "{}: SQLite took back a transaction that is in the log already; close every connection and open \
             the database again",
            database.path().display()
        );
        database.latch().close(&reason);
        Error::Io(reason)
    }
}

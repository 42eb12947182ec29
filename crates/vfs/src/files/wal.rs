//! The handle that SQLite has on its write-ahead log.

use crate::commit::wal::Wal;
use crate::error::{Error, Result};
use crate::files::handle::Handle;
use crate::files::session::Session;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One connection's handle on the log of its database.
pub struct WalFile {
    session: Arc<Session>,
    wal: Arc<Wal>,
    /// When that was asked for.
    generation: u64,
}

impl WalFile {
    /// A connection's handle on the log of its database.
    pub fn new(session: Arc<Session>, wal: Arc<Wal>) -> WalFile {
        let generation = session.database.wal_generation();
        WalFile { session, wal, generation }
    }

    /// The log was opened again where the database was another process's meanwhile.
    #[inline]
    fn follow(&mut self) -> Result<()> {
        let database = &self.session.database;
        let generation = database.wal_generation();
        if self.generation != generation {
            let gone = || Error::Io(format!("{}: its log was closed", database.db().path().display()));
            self.wal = database.wal().ok_or_else(gone)?;
            self.generation = generation;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        self.follow()?;
        self.session.database.db().check_process()?;
        Ok(self.session.database.db().latch().check(self.wal.path())?)
    }
}

impl Handle for WalFile {
    fn latch_after_panic(&self, text: &str) {
        self.session.database.db().latch_after_panic(text);
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.follow()?;
        let count = self.wal.read(self.session.database.db(), buf, offset)?;
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let written = self.wal.write(&self.session.database, &self.session.cache_size, buf, offset);
        let Some(transaction) = written.inspect_err(|_| self.session.disturb())? else { return Ok(()) };
        if self.session.logs_at_once() {
            // Nothing but this write can still fail where SQLite takes the transaction back.
            self.wal.log_completed(self.session.database.db(), transaction)?;
            self.session.logged.store(true, Ordering::Relaxed);
        } else {
            *self.session.completed.lock() = Some(transaction);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.wal.set_len(self.session.database.db(), len)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        let Some(transaction) = self.session.completed.lock().take() else {
            if self.session.logged.swap(false, Ordering::Relaxed) {
                self.session.unsynced_commits.store(false, Ordering::Relaxed);
            }
            return self.wal.log(self.session.database.db(), Durability::Durable);
        };
        self.session.unsynced_commits.store(false, Ordering::Relaxed);
        match self.wal.queue(self.session.database.db(), self.session.capture(), transaction, true) {
            Some(number) => self.session.wait_for(number, true),
            None => self.wal.log_commit(self.session.database.db(), transaction)?,
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        self.follow()?;
        Ok(self.wal.bytes())
    }

    fn in_this_process(&self) -> Option<Box<dyn Handle>> {
        let session = self.session.successor.get()?;
        Some(Box::new(WalFile::new(session.clone(), session.database.wal()?)))
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.session.database)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The database leaves WAL mode. What the connection writes next, under the lock that it has already, is
        // a transaction.
        if self.session.reader_slot.level() == Level::Exclusive {
            self.session.begin_writing();
        }
        Ok(())
    }
}

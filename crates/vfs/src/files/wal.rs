//! The handle that SQLite has on its write-ahead log.

use crate::commit::wal::Wal;
use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::handle::Handle;
use crate::open::OpenDatabase;
use crate::sync::lock_table::Level;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One connection's handle on the log of its database.
pub struct WalFile {
    connection: Arc<ConnectionState>,
    wal: Arc<Wal>,
    /// When that was asked for.
    generation: u64,
}

impl WalFile {
    /// A connection's handle on the log of its database.
    pub fn new(connection: Arc<ConnectionState>, wal: Arc<Wal>) -> WalFile {
        let generation = connection.database.wal_generation();
        WalFile { connection, wal, generation }
    }

    /// The log was opened again where the database was another process's meanwhile.
    #[inline]
    fn follow(&mut self) -> Result<()> {
        let database = &self.connection.database;
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
        self.connection.database.db().check_process()?;
        Ok(self.connection.database.db().latch().check(self.wal.path())?)
    }
}

impl Handle for WalFile {
    fn latch_after_panic(&self, text: &str) {
        self.connection.database.db().latch_after_panic(text);
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.follow()?;
        let count = self.wal.read(self.connection.database.db(), buf, offset)?;
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let written = self.wal.write(&self.connection.database, &self.connection.cache_size, buf, offset);
        let Some(transaction) = written.inspect_err(|_| self.connection.disturb())? else { return Ok(()) };
        if self.connection.logs_at_once() {
            // Nothing but this write can still fail where SQLite takes the transaction back.
            self.wal.log_completed(self.connection.database.db(), transaction)?;
            self.connection.logged.store(true, Ordering::Relaxed);
        } else {
            *self.connection.completed.lock() = Some(transaction);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.wal.set_len(self.connection.database.db(), len)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        let Some(transaction) = self.connection.completed.lock().take() else {
            if self.connection.logged.swap(false, Ordering::Relaxed) {
                self.connection.unsynced_commits.store(false, Ordering::Relaxed);
            }
            return self.wal.log(self.connection.database.db(), Durability::Durable);
        };
        self.connection.unsynced_commits.store(false, Ordering::Relaxed);
        match self.wal.queue(self.connection.database.db(), self.connection.capture(), transaction, true) {
            Some(number) => self.connection.wait_for(number, true),
            None => self.wal.log_commit(self.connection.database.db(), transaction)?,
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        self.follow()?;
        Ok(self.wal.bytes())
    }

    fn in_this_process(&self) -> Option<Box<dyn Handle>> {
        let connection = self.connection.successor.get()?;
        Some(Box::new(WalFile::new(connection.clone(), connection.database.wal()?)))
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.connection.database)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The database leaves WAL mode. The pages that the connection writes next, under the lock that it has already, is
        // a transaction.
        if self.connection.reader_slot.level() == Level::Exclusive {
            self.connection.begin_writing();
        }
        Ok(())
    }
}

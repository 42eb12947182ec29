//! The handle that SQLite has on its write-ahead log.

use super::Wal;
use crate::error::{Error, Result};
use crate::vfs::database::Database;
use crate::vfs::handle::Handle;
use crate::vfs::lock::Level;
use crate::vfs::session::Session;
use litefoot_engine::log::redo::Durability;
use std::sync::Arc;

/// One connection's handle on the log of its database.
pub struct WalFile {
    session: Arc<Session>,
    wal: Arc<Wal>,
}

impl WalFile {
    /// A connection's handle on the log of its database.
    pub fn new(session: Arc<Session>, wal: Arc<Wal>) -> WalFile {
        WalFile { session, wal }
    }

    fn check(&self) -> Result<()> {
        self.session.database.check_process()?;
        Ok(self.session.database.latch().check(self.wal.path())?)
    }
}

impl Handle for WalFile {
    fn latch_after_panic(&self, text: &str) {
        self.session.database.latch_after_panic(text);
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let count = self.wal.read(&self.session.database, buf, offset)?;
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let written = self.wal.write(&self.session.database, buf, offset);
        if let Some(transaction) = written.inspect_err(|_| self.session.disturb())? {
            *self.session.completed.lock() = Some(transaction);
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        self.wal.set_len(&self.session.database, len)
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        let Some(transaction) = self.session.completed.lock().take() else {
            return self.wal.log(&self.session.database, Durability::Durable);
        };
        match self.wal.queue(&self.session, transaction, true) {
            Some(number) => self.session.wait_for(number, true),
            None => self.wal.log_commit(&self.session.database, transaction)?,
        }
        Ok(())
    }

    fn size(&mut self) -> Result<u64> {
        Ok(self.wal.bytes())
    }

    fn database(&self) -> Option<&Arc<Database>> {
        Some(&self.session.database)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The database leaves WAL mode. What the connection writes next, under the lock that it has already, is
        // a transaction.
        if self.session.seat.level() == Level::Exclusive {
            self.session.begin_writing();
        }
        Ok(())
    }
}

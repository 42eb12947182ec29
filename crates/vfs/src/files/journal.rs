//! The rollback journal that SQLite sees: memory, until a transaction needs a real one.

use crate::db::Companion;
use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::handle::{Handle, read_exactly};
use crate::files::journal_content::Journal;
use crate::memory::memory_file::{MemoryFile, position};
use crate::open::OpenDatabase;
use litefoot_storage::rollback_journal::MAGIC;
use litefoot_storage::sync::Mutex;
use std::sync::Arc;

/// A connection's handle on its journal.
pub struct JournalFile {
    connection: Arc<ConnectionState>,
    journal: Arc<Mutex<Journal>>,
}

impl JournalFile {
    /// A handle on a new journal of the connection.
    pub fn new(connection: Arc<ConnectionState>, memory: MemoryFile) -> JournalFile {
        let journal = Arc::new(Mutex::new(Journal::new(memory)));
        *connection.journal.lock() = Some(journal.clone());
        JournalFile { connection, journal }
    }

    fn check(&self) -> Result<()> {
        let database = &self.connection.database;
        database.db().check_process()?;
        if database.db().latch().reason().is_none() {
            return Ok(());
        }
        Ok(database.db().latch().check(&database.db().companion_path(Companion::Journal))?)
    }
}

impl Handle for JournalFile {
    fn latch_after_panic(&self, text: &str) {
        self.connection.database.db().latch_after_panic(text);
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.connection.database)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let journal = self.journal.lock();
        if let Some(real) = &journal.real {
            return read_exactly(&**real, buf, offset);
        }
        let count = journal.memory.read(buf, position(offset, buf.len())?)?;
        if count < buf.len() {
            buf[count..].fill(0);
            return Err(Error::ShortRead);
        }
        // SQLite looks whether the super-journal is there, and if not, takes the transaction for committed. But another
        // database of the transaction, which is rolled back first, has deleted it: that finds no journal here which
        // names it. A journal in memory is only ever read to roll back.
        if *buf == MAGIC && offset + MAGIC.len() as u64 == journal.memory.len() as u64 {
            buf.fill(0);
        }
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check()?;
        let mut journal = self.journal.lock();
        journal.unsynced = true;
        if let (0, Some(first)) = (offset, buf.first()) {
            let has_header = *first != 0;
            journal.transactions += u64::from(has_header && !journal.has_header);
            journal.has_header = has_header;
        }
        match &journal.real {
            Some(real) => Ok(real.write_at(buf, offset)?),
            None => Ok(journal.memory.write(buf, position(offset, buf.len())?)?),
        }
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check()?;
        let mut journal = self.journal.lock();
        journal.unsynced = true;
        journal.has_header &= len > 0;
        match &journal.real {
            Some(real) => Ok(real.set_len(len)?),
            None => Ok(journal.memory.set_len(position(len, 0)?)?),
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.journal.lock().settle(self.connection.database.db())
    }

    fn size(&mut self) -> Result<u64> {
        let journal = self.journal.lock();
        match &journal.real {
            Some(real) => Ok(real.len()?),
            None => Ok(journal.memory.len() as u64),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.connection.journal.lock().take();
        self.journal.lock().settle(self.connection.database.db())
    }
}

/// Takes a transaction back to SQLite's own protocol: the journal becomes real. The dirty pages are to be written in
/// place next.
pub(crate) fn make_real(connection: &ConnectionState, journal: &Mutex<Journal>) -> Result<()> {
    let database = &connection.database;
    database.rollback_log().clear_for_journal(database.db())?;
    journal.lock().make_real(database.db())
}

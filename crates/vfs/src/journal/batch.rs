//! One connection's transaction on the database file: held back, or by SQLite's own protocol.

use super::file::{make_real, write_in_place};
use super::held::{Held, before};
use super::log;
use crate::error::{Error, Result};
use crate::memory::{MakeMemory, MemoryFile};
use crate::vfs::session::Session;
use litefoot_engine::log::redo::Durability;
use litefoot_engine::pool::Advisor;
use std::sync::atomic::Ordering;

/// Memory that is kept from one transaction to the next.
const KEPT_BYTES: usize = 64 << 10;

/// What becomes of the connection's writes.
#[derive(Default)]
pub enum Batch {
    /// No transaction of pages: writes go through (checkpoints, the rollback of a hot journal).
    #[default]
    None,
    /// Held back until the commit.
    Held(Held),
    /// By SQLite's own protocol until the lock is dropped.
    Classic,
}

/// The batch of one connection.
pub struct Batcher {
    batch: Batch,
    spare: Option<MemoryFile>,
    /// Bytes of it that the database's figures contain.
    noted: usize,
    /// Makes the memory of the first transaction.
    make_memory: MakeMemory,
}

impl Batcher {
    /// No transaction yet.
    pub fn new(make_memory: MakeMemory) -> Batcher {
        Batcher { batch: Batch::None, spare: None, noted: 0, make_memory }
    }

    /// Takes a write of SQLite's.
    pub fn write(&mut self, session: &Session, buf: &[u8], offset: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, buf.len())?;
        match &mut self.batch {
            Batch::Held(held) => return held.write(database, buf, offset),
            Batch::None => database.atomic().clear(database)?,
            Batch::Classic => {}
        }
        database.write(buf, offset)
    }

    /// Reads the database as the transaction sees it.
    pub fn read(
        &self,
        session: &Session,
        buf: &mut [u8],
        offset: u64,
        advisor: &mut dyn Advisor,
    ) -> Result<()> {
        let Batch::Held(held) = &self.batch else { return session.database.read(buf, offset, advisor) };
        let inside = held.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let (there, behind) = buf.split_at_mut(inside);
        held.read(there, offset, &|buf, offset| before(&session.database, buf, offset))?;
        if behind.is_empty() {
            return Ok(());
        }
        behind.fill(0);
        Err(Error::ShortRead)
    }

    /// Whether the connection sees something else than what was committed last.
    pub fn holds(&self) -> bool {
        matches!(self.batch, Batch::Held(_))
    }

    /// Cuts or extends the database.
    pub fn set_len(&mut self, session: &Session, len: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, 0)?;
        match &mut self.batch {
            Batch::Held(held) => return held.set_len(database, len),
            Batch::None => database.atomic().clear(database)?,
            Batch::Classic => {}
        }
        database.set_len(len)
    }

    /// Length of the database as the transaction sees it; `None` where that is the file's.
    pub fn len(&self) -> Option<u64> {
        match &self.batch {
            Batch::Held(held) => Some(held.len()),
            _ => None,
        }
    }

    /// SQLite asks for a sync of the database file.
    pub fn sync(&mut self, session: &Session) -> Result<()> {
        if let Batch::Held(held) = &mut self.batch {
            held.sync_wanted = true;
            return Ok(());
        }
        session.database.sync()
    }

    /// SQLite announces that the transaction spans several databases. Without a journal SQLite cannot make
    /// them one, and each is best off with the log.
    pub fn go_classic(&mut self, session: &Session) -> Result<()> {
        if !session.is_writing() || matches!(self.batch, Batch::Classic) {
            return Ok(());
        }
        let Some(journal) = session.journal.lock().clone() else { return Ok(()) };
        make_real(session, &journal)?;
        // Also where a write fails: what SQLite then rolls back is what was written.
        let written = match &self.batch {
            Batch::Held(held) => write_in_place(session, held),
            _ => Ok(()),
        };
        self.finish(session, Batch::Classic);
        written
    }

    /// The transaction commits.
    pub fn commit(&mut self, session: &Session) -> Result<()> {
        let Batch::Held(held) = &mut self.batch else {
            self.finish(session, Batch::None);
            return Ok(());
        };
        if !held.is_empty() {
            let durability = if held.sync_wanted { Durability::Durable } else { Durability::Buffered };
            let page_bytes = held.new_page_bytes()?;
            session.database.atomic().commit(&session.database, held, durability)?;
            session.database.pages_committed(held.page_numbers(), page_bytes);
        }
        self.finish(session, Batch::None);
        log::reset_in_background(&session.database);
        Ok(())
    }

    /// The lock is dropped: what was not committed never was.
    pub fn end(&mut self, session: &Session) {
        self.finish(session, Batch::None);
        session.writing.store(false, Ordering::Relaxed);
    }

    /// The connection is closed.
    pub fn close(&mut self, session: &Session) {
        self.end(session);
        session.database.note_held_bytes(std::mem::take(&mut self.noted), 0);
        self.spare = None;
    }

    /// Begins to hold back, if a transaction of pages has begun.
    fn begin(&mut self, session: &Session, page_bytes: usize) -> Result<()> {
        // A transaction that was rolled back by a connection in exclusive mode, which drops no lock, has ended with
        // its journal.
        if matches!(self.batch, Batch::Classic) && !session.has_real_journal() {
            self.finish(session, Batch::None);
        }
        // In WAL mode it is a checkpoint that writes; a connection in exclusive mode keeps the lock that
        // otherwise tells a transaction.
        let in_wal_mode = session.database.wal().is_some();
        if !matches!(self.batch, Batch::None) || !session.is_writing() || in_wal_mode {
            return Ok(());
        }
        if session.has_real_journal() {
            session.database.atomic().clear(&session.database)?;
            self.batch = Batch::Classic;
            return Ok(());
        }
        let base_len = session.database.file_len()?;
        let page_bytes = match session.database.page_bytes(base_len)? {
            0 => page_bytes,
            known => known,
        };
        if page_bytes == 0 {
            return Ok(());
        }
        let memory = self.spare.take().unwrap_or_else(|| (self.make_memory)());
        let budget = session.database.options().wal_memory;
        self.batch = Batch::Held(Held::new(memory, budget, page_bytes, base_len));
        Ok(())
    }

    fn finish(&mut self, session: &Session, next: Batch) {
        if let Batch::Held(held) = std::mem::replace(&mut self.batch, next) {
            session.database.atomic().forget_ahead(&session.database, &held);
            let mut memory = held.into_memory();
            if memory.memory_bytes() <= KEPT_BYTES || memory.set_len(0).is_ok() {
                session.database.note_held_bytes(self.noted, memory.memory_bytes());
                self.noted = memory.memory_bytes();
                self.spare = Some(memory);
            }
        }
    }
}

//! One connection's transaction on the database file: held back, or by SQLite's own protocol.

use super::file::go_classic;
use super::held::Held;
use super::log;
use crate::error::Result;
use crate::memory::{MakeMemory, MemoryFile};
use crate::vfs::session::Session;
use litefoot_engine::log::redo::Durability;
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
    /// Makes the memory of the first transaction.
    make_memory: MakeMemory,
}

impl Batcher {
    /// No transaction yet.
    pub fn new(make_memory: MakeMemory) -> Batcher {
        Batcher { batch: Batch::None, spare: None, make_memory }
    }

    /// Takes a write of SQLite's.
    pub fn write(&mut self, session: &Session, buf: &[u8], offset: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, buf.len())?;
        match &mut self.batch {
            Batch::Held(held) if held.fits(buf, offset) => return held.write(buf, offset),
            Batch::Held(held) => {
                go_classic(session, Some(held))?;
                self.finish(Batch::Classic);
            }
            Batch::None => database.atomic().clear(database)?,
            Batch::Classic => {}
        }
        database.write(buf, offset)
    }

    /// Reads what is held; `false` where the file has it.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<bool> {
        match &self.batch {
            Batch::Held(held) => held.read(buf, offset),
            _ => Ok(false),
        }
    }

    /// Cuts or extends the database.
    pub fn set_len(&mut self, session: &Session, len: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, 0)?;
        match &mut self.batch {
            Batch::Held(held) => {
                if held.set_len(len) {
                    return Ok(());
                }
                go_classic(session, Some(held))?;
                self.finish(Batch::Classic);
            }
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

    /// SQLite announces that the transaction spans several databases.
    pub fn go_classic(&mut self, session: &Session) -> Result<()> {
        if !session.is_writing() || matches!(self.batch, Batch::Classic) {
            return Ok(());
        }
        let held = if let Batch::Held(held) = &self.batch { Some(held) } else { None };
        go_classic(session, held)?;
        self.finish(Batch::Classic);
        Ok(())
    }

    /// The transaction commits.
    pub fn commit(&mut self, session: &Session) -> Result<()> {
        let Batch::Held(held) = &self.batch else {
            self.finish(Batch::None);
            return Ok(());
        };
        if !held.is_empty() {
            let durability = if held.sync_wanted { Durability::Durable } else { Durability::Buffered };
            session.database.atomic().commit(&session.database, held, durability)?;
        }
        self.finish(Batch::None);
        log::reset_in_background(&session.database);
        Ok(())
    }

    /// The lock is dropped: what was not committed never was.
    pub fn end(&mut self, session: &Session) {
        self.finish(Batch::None);
        session.writing.store(false, Ordering::Relaxed);
    }

    /// Begins to hold back, if a transaction of pages has begun.
    fn begin(&mut self, session: &Session, page_bytes: usize) -> Result<()> {
        if !matches!(self.batch, Batch::None) || !session.is_writing() {
            return Ok(());
        }
        let file_len = session.database.file_len()?;
        let page_bytes = match session.database.page_bytes(file_len)? {
            0 => page_bytes,
            known => known,
        };
        if page_bytes == 0 {
            return Ok(());
        }
        let memory = self.spare.take().unwrap_or_else(|| (self.make_memory)());
        self.batch = Batch::Held(Held::new(memory, page_bytes, file_len));
        Ok(())
    }

    fn finish(&mut self, next: Batch) {
        if let Batch::Held(held) = std::mem::replace(&mut self.batch, next) {
            let mut memory = held.into_memory();
            if memory.memory_bytes() <= KEPT_BYTES || memory.set_len(0).is_ok() {
                self.spare = Some(memory);
            }
        }
    }
}

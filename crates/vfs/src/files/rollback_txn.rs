//! One connection's transaction on the database file: held back, or by SQLite's own protocol.

use crate::error::{Error, Result};
use crate::files::journal::make_real;
use crate::files::session::Session;
use crate::open::OpenDatabase;
use crate::txn::dirty_pages::{DirtyPages, before, write_in_place};
use litefoot_storage::buffer_pool::Advisor;
use litefoot_storage::log_file::Durability;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What becomes of the connection's writes.
#[derive(Default)]
pub enum Batch {
    /// No transaction of pages: writes go through (checkpoints, the rollback of a hot journal).
    #[default]
    None,
    /// An empty database was given a length, and nothing was written yet: it is not known what a page is.
    Sized(u64),
    /// Held back until the commit.
    DirtyPages(Box<DirtyPages>),
    /// A write has failed, and SQLite must roll back: what was held is gone, and there is nothing to be undone. The
    /// transaction is this one of its journal's.
    Failed(u64),
    /// By SQLite's own protocol until the lock is dropped.
    NativeJournal,
}

/// The batch of one connection.
#[derive(Default)]
pub struct Batcher {
    batch: Batch,
}

impl Batcher {
    /// Takes a write of SQLite's.
    pub fn write(&mut self, session: &Session, buf: &[u8], offset: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, buf.len())?;
        match &mut self.batch {
            Batch::DirtyPages(held) => {
                let written = held.write(database, buf, offset);
                return self.or_fail(session, written);
            }
            Batch::Failed(_) => return Ok(()),
            Batch::None | Batch::Sized(_) => database.rollback_log().clear(database.db())?,
            Batch::NativeJournal => {}
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
        let database = &session.database;
        let len = self.len().or_else(|| database.db().file_end().committed_len()).unwrap_or(u64::MAX);
        let inside = len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (there, behind) = buf.split_at_mut(inside);
        if !there.is_empty() || behind.is_empty() {
            match &self.batch {
                Batch::DirtyPages(held) => {
                    held.read(there, offset, &|buf, offset| before(&**database, buf, offset))?;
                }
                Batch::Sized(_) => there.fill(0),
                _ => database.read(there, offset, advisor)?,
            }
        }
        if behind.is_empty() {
            return Ok(());
        }
        behind.fill(0);
        Err(Error::ShortRead)
    }

    /// Whether the connection sees something else than what was committed last.
    pub fn holds(&self) -> bool {
        matches!(self.batch, Batch::DirtyPages(_) | Batch::Sized(_))
    }

    /// Cuts or extends the database.
    pub fn set_len(&mut self, session: &Session, len: u64) -> Result<()> {
        let database = &session.database;
        self.begin(session, 0)?;
        match &mut self.batch {
            Batch::DirtyPages(held) => {
                let cut = held.set_len(database, len);
                return self.or_fail(session, cut);
            }
            Batch::Sized(sized) => {
                *sized = len;
                return Ok(());
            }
            Batch::Failed(_) => return Ok(()),
            Batch::None => database.rollback_log().clear(database.db())?,
            Batch::NativeJournal => {}
        }
        database.set_len(len)
    }

    /// Length of the database as the transaction sees it; `None` where that is the file's.
    pub fn len(&self) -> Option<u64> {
        match &self.batch {
            Batch::DirtyPages(held) => Some(held.len()),
            Batch::Sized(len) => Some(*len),
            _ => None,
        }
    }

    /// SQLite asks for a sync of the database file.
    pub fn sync(&mut self, session: &Session) -> Result<()> {
        match &mut self.batch {
            Batch::DirtyPages(held) => held.sync_wanted = true,
            Batch::Failed(_) | Batch::Sized(_) => {}
            Batch::None | Batch::NativeJournal => return session.database.db().sync(),
        }
        Ok(())
    }

    /// What SQLite is told of a failed write makes it roll back. What it writes for that is what the database holds
    /// without the transaction: so that a rollback needs no room, the transaction is dropped at once. With a journal
    /// that we do not see it is not known when the rollback ends, and what it writes is a transaction like any other.
    fn or_fail(&mut self, session: &Session, result: Result<()>) -> Result<()> {
        result.inspect_err(|_| {
            let next = session.journal_transaction().map_or(Batch::None, Batch::Failed);
            self.finish(session, next);
        })
    }

    /// SQLite announces that the transaction spans several databases. Without a journal SQLite cannot make
    /// them one, and each is best off with the log.
    pub fn use_native_journal(&mut self, session: &Session) -> Result<()> {
        if !session.is_writing() || matches!(self.batch, Batch::NativeJournal | Batch::Failed(_)) {
            return Ok(());
        }
        let Some(journal) = session.journal.lock().clone() else { return Ok(()) };
        if let Batch::DirtyPages(held) = &mut self.batch {
            let settled = held.settle(session.database.db());
            self.or_fail(session, settled)?;
        }
        // The log is void by then, and with it what was spilled to it.
        let real = make_real(session, &journal);
        self.or_fail(session, real)?;
        // Also where a write fails: what SQLite then rolls back is what was written.
        let written = match &self.batch {
            Batch::DirtyPages(held) => write_in_place(&*session.database, held),
            Batch::Sized(len) => session.database.set_len(*len),
            _ => Ok(()),
        };
        self.finish(session, Batch::NativeJournal);
        written
    }

    /// The transaction commits.
    pub fn commit(&mut self, session: &Session) -> Result<()> {
        match &mut self.batch {
            Batch::DirtyPages(held) => {
                let committed = commit(&session.database, held);
                self.or_fail(session, committed)?;
                self.finish(session, Batch::None);
                session.database.rollback_log().reset_in_background(&session.database);
                Ok(())
            }
            Batch::Failed(_) => {
                self.finish(session, Batch::None);
                let path = session.database.db().path().display();
                Err(Error::Io(format!("{path}: a write of this transaction has failed before its commit")))
            }
            Batch::Sized(len) => {
                let len = *len;
                self.finish(session, Batch::None);
                session.database.set_len(len)
            }
            Batch::None | Batch::NativeJournal => {
                self.finish(session, Batch::None);
                Ok(())
            }
        }
    }

    /// The lock is dropped: what was not committed never was.
    #[inline]
    pub fn end(&mut self, session: &Session) {
        // Mostly it was a reader's.
        if !matches!(self.batch, Batch::None) {
            self.finish(session, Batch::None);
        }
        session.writing.store(false, Ordering::Relaxed);
    }

    /// The connection is closed.
    pub fn close(&mut self, session: &Session) {
        self.end(session);
    }

    /// Begins to hold back, if a transaction of pages has begun.
    fn begin(&mut self, session: &Session, written: usize) -> Result<()> {
        // A transaction that was rolled back by a connection in exclusive mode, which drops no lock, has ended with
        // its journal.
        let is_over = match self.batch {
            Batch::NativeJournal => !session.has_real_journal() && session.may_hold(),
            Batch::Failed(transaction) => session.journal_transaction() != Some(transaction),
            Batch::None | Batch::DirtyPages(_) | Batch::Sized(_) => false,
        };
        if is_over {
            self.finish(session, Batch::None);
        }
        // In WAL mode it is a checkpoint that writes; a connection in exclusive mode keeps the lock that
        // otherwise tells a transaction.
        let in_wal_mode = session.database.wal().is_some();
        if !matches!(self.batch, Batch::None | Batch::Sized(_)) || !session.is_writing() || in_wal_mode {
            return Ok(());
        }
        if session.has_real_journal() || !session.may_hold() {
            if !session.may_hold() {
                session.database.go_native()?;
            }
            session.database.rollback_log().clear_for_journal(session.database.db())?;
            if let Batch::Sized(len) = std::mem::replace(&mut self.batch, Batch::NativeJournal) {
                session.database.set_len(len)?;
            }
            return Ok(());
        }
        if session.database.rollback_log().is_barred(session.database.db())? {
            let journal = session.journal.lock().clone();
            if let Some(journal) = journal {
                make_real(session, &journal)?;
                if let Batch::Sized(len) = std::mem::replace(&mut self.batch, Batch::NativeJournal) {
                    session.database.set_len(len)?;
                }
                return Ok(());
            }
        }
        let base_len = session.database.db().file_len()?;
        if base_len == 0 && written == 0 {
            if matches!(self.batch, Batch::None) {
                self.batch = Batch::Sized(0);
            }
            return Ok(());
        }
        // The log knows of a VACUUM that has not reached the file.
        let page_bytes = match session.database.rollback_log().page_bytes() {
            0 => session.database.db().page_bytes(base_len)?,
            logged => logged,
        };
        let page_bytes = if page_bytes == 0 { likely_page_bytes(written, base_len) } else { page_bytes };
        let mut held = Box::new(DirtyPages::new(session.database.db(), page_bytes, base_len));
        held.set_cache_size(&session.cache_size);
        if let Batch::Sized(len) = self.batch {
            held.set_len(&session.database, len)?;
        }
        self.batch = Batch::DirtyPages(held);
        Ok(())
    }

    fn finish(&mut self, session: &Session, next: Batch) {
        if let Batch::DirtyPages(mut held) = std::mem::replace(&mut self.batch, next) {
            if !session.database.db().is_of_this_process() {
                // What was written early is the parent's, and so is the thread that may be writing.
                std::mem::forget(held);
                return;
            }
            // Nobody may write any more where others will.
            let _ = held.settle(session.database.db());
            session.database.rollback_log().forget_ahead(session.database.db(), &held);
            held.end(session.database.db());
        }
    }
}

/// Bytes of a page where page 1 does not say: SQLite writes whole pages. Any size does that a log may have, since pages
/// are only parts of the file.
fn likely_page_bytes(written: usize, len: u64) -> usize {
    let is_size = written.is_power_of_two() && (512..=65536).contains(&written);
    if is_size && len.is_multiple_of(written as u64) { written } else { 512 }
}

fn commit(database: &Arc<OpenDatabase>, held: &mut DirtyPages) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let durability = if held.sync_wanted { Durability::Durable } else { Durability::Buffered };
    let page_bytes = held.new_page_bytes()?;
    database.rollback_log().commit(database, held, durability)?;
    database.cache().publish(database.db(), database.rollback_log(), held.changed_numbers(), page_bytes);
    Ok(())
}

//! One connection's transaction on the database file: held back, or by SQLite's own protocol.

use crate::cache::read_committed;
use crate::error::{Error, Result};
use crate::files::connection_state::ConnectionState;
use crate::files::journal::make_real;
use crate::open::OpenDatabase;
use crate::open::idle;
use crate::sync::kept_transactions::Transaction;
use crate::txn::dirty_pages::{DirtyPages, before, write_in_place};
use litefoot_storage::buffer_pool::Advisor;
use litefoot_storage::log_file::Durability;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state of a connection's transaction: where its writes go.
#[derive(Default)]
pub enum RollbackTxnState {
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

/// The state of one connection.
#[derive(Default)]
pub struct RollbackTxn {
    state: RollbackTxnState,
}

impl RollbackTxn {
    /// Takes a write of SQLite's.
    pub fn write(&mut self, connection: &ConnectionState, buf: &[u8], offset: u64) -> Result<()> {
        let database = &connection.database;
        self.begin(connection, buf.len())?;
        match &mut self.state {
            RollbackTxnState::DirtyPages(held) => {
                let written = held.write(database, buf, offset);
                return self.or_fail(connection, written);
            }
            RollbackTxnState::Failed(_) => return Ok(()),
            RollbackTxnState::None | RollbackTxnState::Sized(_) => {
                database.rollback_log().clear(database.db())?
            }
            RollbackTxnState::NativeJournal => {}
        }
        database.write(buf, offset)
    }

    /// Reads the database as the transaction sees it.
    pub fn read(
        &self,
        connection: &ConnectionState,
        buf: &mut [u8],
        offset: u64,
        advisor: &mut dyn Advisor,
    ) -> Result<()> {
        let database = &connection.database;
        let len = self.len().or_else(|| database.db().file_end().committed_len()).unwrap_or(u64::MAX);
        let inside = len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (there, behind) = buf.split_at_mut(inside);
        if !there.is_empty() || behind.is_empty() {
            match &self.state {
                RollbackTxnState::DirtyPages(held) => {
                    held.read(there, offset, &|buf, offset| before(&**database, buf, offset))?;
                }
                RollbackTxnState::Sized(_) => there.fill(0),
                _ => database.read(there, offset, advisor)?,
            }
        }
        if behind.is_empty() {
            return Ok(());
        }
        behind.fill(0);
        Err(Error::ShortRead)
    }

    /// True if the connection sees something else than what was committed last.
    pub fn holds(&self) -> bool {
        matches!(self.state, RollbackTxnState::DirtyPages(_) | RollbackTxnState::Sized(_))
    }

    /// True if there is none: writes go through.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self.state, RollbackTxnState::None)
    }

    /// Cuts or extends the database.
    pub fn set_len(&mut self, connection: &ConnectionState, len: u64) -> Result<()> {
        let database = &connection.database;
        self.begin(connection, 0)?;
        match &mut self.state {
            RollbackTxnState::DirtyPages(held) => {
                let cut = held.set_len(database, len);
                return self.or_fail(connection, cut);
            }
            RollbackTxnState::Sized(sized) => {
                *sized = len;
                return Ok(());
            }
            RollbackTxnState::Failed(_) => return Ok(()),
            RollbackTxnState::None => database.rollback_log().clear(database.db())?,
            RollbackTxnState::NativeJournal => {}
        }
        database.set_len(len)
    }

    /// Length of the database as the transaction sees it; `None` where that is the file's.
    pub fn len(&self) -> Option<u64> {
        match &self.state {
            RollbackTxnState::DirtyPages(held) => Some(held.len()),
            RollbackTxnState::Sized(len) => Some(*len),
            _ => None,
        }
    }

    /// SQLite asks for a sync of the database file.
    pub fn sync(&mut self, connection: &ConnectionState) -> Result<()> {
        match &mut self.state {
            RollbackTxnState::DirtyPages(held) => held.sync_wanted = true,
            RollbackTxnState::Failed(_) | RollbackTxnState::Sized(_) => {}
            RollbackTxnState::None | RollbackTxnState::NativeJournal => {
                return connection.database.db().sync();
            }
        }
        Ok(())
    }

    /// True if the transaction is held, and began with a journal.
    pub fn had_journal(&self) -> bool {
        matches!(&self.state, RollbackTxnState::DirtyPages(held) if held.has_journal)
    }

    /// The commit gives its lock up before it is durable, and is waited for behind that.
    pub fn share_sync(&mut self) {
        if let RollbackTxnState::DirtyPages(held) = &mut self.state {
            held.shares_sync = true;
        }
    }

    /// Drops the transaction at once where a write has failed, so that its rollback needs no room. SQLite then rolls
    /// back, and writes the pages of the database without the transaction. If litefoot does not see the journal, the
    /// end of that rollback is unknown. The rollback's writes are then a transaction like any other.
    fn or_fail(&mut self, connection: &ConnectionState, result: Result<()>) -> Result<()> {
        result.inspect_err(|_| {
            let next =
                connection.journal_transaction().map_or(RollbackTxnState::None, RollbackTxnState::Failed);
            self.finish(connection, next);
        })
    }

    /// SQLite announces that the transaction spans several databases. Without a journal SQLite cannot make
    /// them one, and each is best off with the log.
    pub fn use_native_journal(&mut self, connection: &ConnectionState) -> Result<()> {
        if !connection.is_writing()
            || matches!(self.state, RollbackTxnState::NativeJournal | RollbackTxnState::Failed(_))
        {
            return Ok(());
        }
        let Some(journal) = connection.journal.lock().clone() else { return Ok(()) };
        if let RollbackTxnState::DirtyPages(held) = &mut self.state {
            let settled = held.settle(connection.database.db());
            self.or_fail(connection, settled)?;
        }
        // The log is void by then, and with it what was spilled to it.
        let real = make_real(connection, &journal);
        self.or_fail(connection, real)?;
        // Also where a write fails: what SQLite then rolls back is what was written.
        let written = match &self.state {
            RollbackTxnState::DirtyPages(held) => write_in_place(&*connection.database, held),
            RollbackTxnState::Sized(len) => connection.database.set_len(*len),
            _ => Ok(()),
        };
        self.finish(connection, RollbackTxnState::NativeJournal);
        written
    }

    /// The transaction commits.
    pub fn commit(&mut self, connection: &ConnectionState) -> Result<()> {
        match &mut self.state {
            RollbackTxnState::DirtyPages(held) => {
                let committed = commit(&connection.database, held);
                self.or_fail(connection, committed)?;
                self.finish(connection, RollbackTxnState::None);
                let database = &connection.database;
                database.rollback_log().reset_in_background(database);
                if database.db().options().logs_rollback_deltas() {
                    idle::note_commit(database);
                }
                Ok(())
            }
            RollbackTxnState::Failed(_) => {
                self.finish(connection, RollbackTxnState::None);
                let path = connection.database.db().path().display();
                Err(Error::Io(format!("{path}: a write of this transaction has failed before its commit")))
            }
            RollbackTxnState::Sized(len) => {
                let len = *len;
                self.finish(connection, RollbackTxnState::None);
                connection.database.set_len(len)
            }
            RollbackTxnState::None | RollbackTxnState::NativeJournal => {
                self.finish(connection, RollbackTxnState::None);
                Ok(())
            }
        }
    }

    /// The lock is dropped: what was not committed never was.
    #[inline]
    pub fn end(&mut self, connection: &ConnectionState) {
        // Mostly it was a reader's.
        if !self.is_none() {
            self.finish(connection, RollbackTxnState::None);
        }
        connection.writing.store(false, Ordering::Relaxed);
    }

    /// The connection is closed.
    pub fn close(&mut self, connection: &ConnectionState) {
        self.end(connection);
    }

    /// Begins to hold back, if a transaction of pages has begun.
    fn begin(&mut self, connection: &ConnectionState, written: usize) -> Result<()> {
        // A transaction that was rolled back by a connection in exclusive mode, which drops no lock, has ended with
        // its journal.
        let is_over = match self.state {
            RollbackTxnState::NativeJournal => !connection.has_real_journal() && connection.may_hold(),
            RollbackTxnState::Failed(transaction) => connection.journal_transaction() != Some(transaction),
            RollbackTxnState::None | RollbackTxnState::DirtyPages(_) | RollbackTxnState::Sized(_) => false,
        };
        if is_over {
            self.finish(connection, RollbackTxnState::None);
        }
        // In WAL mode it is a checkpoint that writes; a connection in exclusive mode keeps the lock that
        // otherwise tells a transaction.
        let in_wal_mode = connection.database.wal().is_some();
        if !matches!(self.state, RollbackTxnState::None | RollbackTxnState::Sized(_))
            || !connection.is_writing()
            || in_wal_mode
        {
            return Ok(());
        }
        if connection.has_real_journal() || !connection.may_hold() {
            if !connection.may_hold() {
                connection.database.go_native()?;
            }
            connection.database.rollback_log().clear_for_journal(connection.database.db())?;
            if let RollbackTxnState::Sized(len) =
                std::mem::replace(&mut self.state, RollbackTxnState::NativeJournal)
            {
                connection.database.set_len(len)?;
            }
            return Ok(());
        }
        if connection.database.rollback_log().is_name_taken(connection.database.db())? {
            let journal = connection.journal.lock().clone();
            if let Some(journal) = journal {
                make_real(connection, &journal)?;
                if let RollbackTxnState::Sized(len) =
                    std::mem::replace(&mut self.state, RollbackTxnState::NativeJournal)
                {
                    connection.database.set_len(len)?;
                }
                return Ok(());
            }
        }
        let base_len = connection.database.db().file_len()?;
        if base_len == 0 && written == 0 {
            if matches!(self.state, RollbackTxnState::None) {
                self.state = RollbackTxnState::Sized(0);
            }
            return Ok(());
        }
        // The log knows of a VACUUM that has not reached the file.
        let page_bytes = match connection.database.rollback_log().page_bytes() {
            0 => connection.database.db().page_bytes(base_len)?,
            logged => logged,
        };
        let page_bytes = if page_bytes == 0 { likely_page_bytes(written, base_len) } else { page_bytes };
        let mut held = Box::new(DirtyPages::new(connection.database.db(), page_bytes, base_len));
        held.set_cache_size(&connection.cache_size);
        held.has_journal = connection.journal.lock().is_some();
        if let RollbackTxnState::Sized(len) = self.state {
            held.set_len(&connection.database, len)?;
        }
        self.state = RollbackTxnState::DirtyPages(held);
        Ok(())
    }

    fn finish(&mut self, connection: &ConnectionState, next: RollbackTxnState) {
        if let RollbackTxnState::DirtyPages(mut held) = std::mem::replace(&mut self.state, next) {
            if !connection.database.db().is_of_this_process() {
                // The early writes belong to the parent process, and so does the thread that may be writing.
                std::mem::forget(held);
                return;
            }
            // Nobody may write any more where others will.
            let _ = held.settle(connection.database.db());
            connection.database.rollback_log().discard_early_writes(connection.database.db(), &held);
            held.end(connection.database.db());
        }
    }
}

/// Bytes of a page where page 1 does not say: SQLite writes whole pages. Any size does that a log may have, since pages
/// are only parts of the file.
fn likely_page_bytes(written: usize, len: u64) -> usize {
    let is_size = written.is_power_of_two() && (512..=65536).contains(&written);
    if is_size && len.is_multiple_of(written as u64) { written } else { 512 }
}

/// Others look which pages have changed.
fn note_for_watchers(database: &OpenDatabase, held: &DirtyPages, page_bytes: usize) {
    let changed = database.db().shared().changed();
    if !changed.are_watched() {
        return;
    }
    if page_bytes == held.page_bytes() {
        changed.note(held.page_numbers().iter().copied(), held.len() / page_bytes as u64);
    } else {
        changed.note_all();
    }
}

/// The same, for those that look at each transaction.
fn record_for_watchers(database: &OpenDatabase, held: &DirtyPages, page_bytes: usize) {
    let changed = database.db().shared().changed();
    if !changed.are_watched() || page_bytes != held.page_bytes() {
        return;
    }
    changed.record(&(0..0), || {
        let pages_of = |len: u64| u32::try_from(len / page_bytes as u64).ok();
        let (before, pages) = (pages_of(held.base_len())?, pages_of(held.len())?);
        // SQLite does not write a page that is new, and free again: where it is not in the file, it is zeros.
        let new = before.saturating_add(1)..=pages;
        let numbers: BTreeSet<u32> = held.page_numbers().into_iter().chain(new).collect();
        Transaction::read(numbers.into_iter().collect(), page_bytes, pages, |number, page| {
            let offset = u64::from(number - 1) * page_bytes as u64;
            let read = read_committed(database.db(), &**database.rollback_log(), page, offset);
            matches!(read, Ok(()) | Err(Error::ShortRead))
        })
    });
}

/// Members keep pages. Where it is not known which have changed, they keep none.
fn note_for_members(database: &OpenDatabase, held: &DirtyPages, is_known: bool) {
    let changes = database.db().shared().changes();
    if is_known { changes.note(held.page_numbers().into_iter()) } else { changes.forget() }
}

fn commit(database: &Arc<OpenDatabase>, held: &mut DirtyPages) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let durability = if held.sync_wanted { Durability::Durable } else { Durability::Buffered };
    let page_bytes = held.new_page_bytes()?;
    note_for_watchers(database, held, page_bytes);
    let committed = database.rollback_log().commit(database, held, durability);
    if committed.is_ok() {
        record_for_watchers(database, held, page_bytes);
    }
    // Also where that has failed: readers go on with what is in the file then.
    database.cache().publish(database.db(), database.rollback_log(), held.changed_numbers(), page_bytes);
    if database.serves_group() {
        note_for_members(database, held, committed.is_ok() && page_bytes == held.page_bytes());
    }
    committed
}

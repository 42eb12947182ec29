//! Durable names: the log and the journal beside a multi-process database, once a sync of the directory has made their names
//! durable.
//!
//! # Why
//! SQLite opens its journal for each transaction, and its log for each connection. Each time, the first sync is followed by one
//! of the directory: the file may be new. A file that is known needs none.
//!
//! # Promises
//! 1. A journal that ends at its deletion stays in its place, void and durably so, if its name is known. SQLite takes a journal
//!    whose header is zeros for none, as it does in the mode PERSIST. So the end of a transaction is durable with one write,
//!    and the next transaction needs no sync of the name. A change of length would cost the file system's own journal a commit.
//! 2. A journal that is large, or names a super-journal at its end, is emptied: SQLite could find that name behind a later one.
//! 3. [`DurableNames::forget`] leaves no file open, and [`remove_void_journal`] no void journal beside an unused database. One that was
//!    found when a process opens the database stays, unless it is empty: to look at a database changes nothing.
//!
//! # Invariants
//! 1. The file is kept open while its name is known. No other file gets its identity, so a file of that identity at that path is
//!    the one whose name was made durable.
//! 2. The caller of [`end_journal`] holds the lock under which SQLite deletes a journal: no other process has a transaction in it.
//! 3. Before the first commit behind [`remove_void_journal`] the directory is synced, and [`settle_void_journal`] syncs what stays. The
//!    process that voided the journal may have died before its sync: a power cut could bring the transaction back, beside later commits.

use super::companions::is_void;
use super::{Companion, Db};
use crate::error::Result;
use litefoot_storage::file::{File, FileId, FileKind, OpenMode};
use litefoot_storage::rollback_journal::{HEADER_BYTES, MAGIC, MOST_BYTES};
use litefoot_storage::sync::Mutex;
use std::io::IoSlice;
use std::sync::Arc;

/// What is known of the names beside one database.
#[derive(Default)]
pub(crate) struct DurableNames {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    log: Option<Arc<dyn File>>,
    journal: Option<Arc<dyn File>>,
    /// The journal that was closed last, if it was never synced: nothing of it can come back that counts.
    unsynced_journal: Option<FileId>,
}

impl Known {
    fn of(&mut self, companion: Companion) -> &mut Option<Arc<dyn File>> {
        if companion == Companion::Wal { &mut self.log } else { &mut self.journal }
    }
}

impl DurableNames {
    /// True if the name of the log or journal `file` is durable.
    pub fn has(&self, companion: Companion, file: &dyn File) -> bool {
        self.known.lock().of(companion).as_ref().is_some_and(|known| known.id() == file.id())
    }

    /// The directory was synced after the log or journal `file` was opened at its path.
    pub fn note(&self, companion: Companion, file: &Arc<dyn File>) {
        let former = self.known.lock().of(companion).replace(file.clone());
        drop(former);
    }

    /// A journal is opened, or was closed; `unsynced` is the one that was closed and never synced.
    pub fn note_unsynced_journal(&self, unsynced: Option<FileId>) {
        self.known.lock().unsynced_journal = unsynced;
    }

    /// True if there may be a void journal in its place.
    pub fn has_journal(&self) -> bool {
        self.known.lock().journal.is_some()
    }

    /// True if the journal whose name is known has that identity, and is void.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn is_void_journal(&self, there: FileId) -> Result<bool> {
        let journal = self.known.lock().journal.clone();
        journal.filter(|journal| journal.id() == there).map_or(Ok(false), |journal| is_void(&*journal))
    }

    /// Nothing is known any more, and no file is kept open.
    pub fn forget(&self) {
        let former = std::mem::take(&mut *self.known.lock());
        drop(former);
    }
}

/// How a journal is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalEnd {
    /// It has ended: it is void, durably.
    Ended,
    /// It is to be deleted, and the directory synced.
    Delete,
    /// It is to be deleted. SQLite has asked for no sync of it.
    DeleteUnsynced,
}

/// Ends the journal of a multi-process database, where its name is known.
pub(crate) fn end_journal(db: &Db) -> Result<JournalEnd> {
    let path = db.companion_path(Companion::Journal);
    let names = db.durable_names();
    let (journal, unsynced) = {
        let mut known = names.known.lock();
        (known.journal.clone(), known.unsynced_journal.take())
    };
    if journal.is_none() && unsynced.is_none() {
        return Ok(JournalEnd::Delete);
    }
    let there = db.medium().identity(&path)?;
    let Some(journal) = journal.filter(|journal| there == Some(journal.id())) else {
        let is_unsynced = there.is_some() && there == unsynced;
        return Ok(if is_unsynced { JournalEnd::DeleteUnsynced } else { JournalEnd::Delete });
    };
    db.latch().check(&path)?;
    if stays_whole(&*journal)? {
        db.latch().watch(journal.write_durable_at(&[IoSlice::new(&[0; HEADER_BYTES])], 0))?;
    } else {
        journal.set_len(0)?;
        db.latch().watch(journal.sync())?;
    }
    Ok(JournalEnd::Ended)
}

/// True if nothing but the header of a journal has to go.
fn stays_whole(journal: &dyn File) -> Result<bool> {
    let len = journal.len()?;
    if len < HEADER_BYTES as u64 || len > MOST_BYTES as u64 {
        return Ok(false);
    }
    let mut last = MAGIC.map(|_| 0);
    journal.read_at(&mut last, len - MAGIC.len() as u64)?;
    Ok(last != MAGIC)
}

/// Removes a void journal. No other process has the database open, or can open it now.
pub(crate) fn remove_void_journal(db: &Db) -> Result<()> {
    match void_journal(db)? {
        Some(journal) => Ok(db.medium().delete(journal.path())?),
        None => Ok(()),
    }
}

/// Makes the end of a void journal durable that was found when the database is taken over, and removes an empty one. To look at a
/// database changes nothing else.
pub(crate) fn settle_void_journal(db: &Db) -> Result<()> {
    let Some(journal) = void_journal(db)? else { return Ok(()) };
    if journal.is_empty()? {
        return Ok(db.medium().delete(journal.path())?);
    }
    Ok(db.latch().watch(journal.sync())?)
}

/// A void journal beside a database. What others have put in its place, a link or a pipe, is none. Nor is what lies beside another
/// database that has got the name.
fn void_journal(db: &Db) -> Result<Option<Arc<dyn File>>> {
    let (medium, path) = (db.medium(), db.companion_path(Companion::Journal));
    let there = medium.info(&path)?.filter(|there| there.is_file && there.readable);
    if there.is_none()
        || !db.has_its_name()
        || medium.unlinked_identity(&path)? != there.map(|there| there.id)
    {
        return Ok(None);
    }
    let journal = medium.open(&path, FileKind::Journal, OpenMode::ReadOnly)?;
    Ok(is_void(&*journal)?.then_some(journal))
}

#[cfg(test)]
mod tests;

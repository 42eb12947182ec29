//! Kept journal: the commits of a short opening, by a rollback journal that stays beside the database.
//!
//! # Why
//! A redo log that an opening creates and removes costs more than the one commit in it. Between openings no redo log can stay
//! beside a database that is not in WAL mode: SQLite would take it for a sign of that mode. A rollback journal can, void, as
//! SQLite's own mode PERSIST leaves it. So a short opening commits as SQLite does:
//! ```text
//! app.db-journal:  the pages as they were     synced
//! app.db-journal:  its header                 synced
//! app.db:          the new pages              synced
//! app.db-journal:  a void header              synced   <- committed
//! app.db-journal:  a mark                     not synced
//! ```
//! That is as many syncs as SQLite makes of its own journal. A crash before the commit leaves a hot journal, which any SQLite
//! rolls back. To SQLite in this process the journal is memory as ever, and the file is not there.
//!
//! # Promises
//! 1. A transaction goes that way only where nothing waits in a log, and its own pages are all in memory. It cuts off none.
//! 2. An opening that commits more than [`MOST_COMMITS`] times goes on with the redo log, and removes the file.
//! 3. A file that SQLite may have begun to use itself is not used again in this opening.
//!
//! # After a failure
//! Before the header is durable the database is as it was. A failure behind that latches, and the next open rolls back. Pages that were
//! overwritten are put back, so that readers go on with what was committed.

use super::redo_log_state::RedoLogState;
use super::rollback_checkpoint::write_in_place;
use crate::db::{Companion, Db};
use crate::error::Result;
use crate::stats::Stats;
use crate::txn::dirty_pages::DirtyPages;
use litefoot_storage::log_file::Durability;
use litefoot_storage::rollback_journal::{Before, RollbackJournal, may_stay};

/// Commits of an opening that are made by the journal: two of them cost as much as a redo log that is created and removed.
pub(crate) const MOST_COMMITS: u32 = 2;

/// The journal of one opening, and how many commits that had.
#[derive(Default)]
pub(crate) struct KeptJournal {
    journal: Option<RollbackJournal>,
    /// Commits of this opening, of any form.
    commits: u32,
    /// True where the opening is expected to be short; not known before its first commit.
    expected: Option<bool>,
    /// True if the rights of the file were compared with those of the database.
    checked: bool,
    /// True if the file is not to be used in this opening.
    given_up: bool,
}

/// True while an opening goes on as a short one: by what was expected of it, and by the number of its next commit, from 1.
fn is_short(expected: bool, commit: u32) -> bool {
    expected && commit <= MOST_COMMITS
}

/// The facts of a transaction in a short opening that decide on the form of its commit.
#[derive(Clone, Copy, Debug)]
struct CommitFacts {
    /// True if there is a redo log, or its name is not free, or a tier.
    logged: bool,
    /// True if SQLite has a journal for the transaction, and syncs it.
    journaled: bool,
    /// True if all of the transaction is in memory, and leaves or extends whole pages of the same size.
    plain: bool,
    /// True if the journal is small enough to stay.
    fits: bool,
}

/// True for a commit that is made by the journal.
fn goes_by_journal(facts: CommitFacts) -> bool {
    !facts.logged && facts.journaled && facts.plain && facts.fits
}

impl RedoLogState {
    /// Commits a transaction by the journal that stays; `false` where it is to go another way. Every commit asks.
    pub fn commit_by_journal(&mut self, db: &Db, dirty: &DirtyPages, durability: Durability) -> Result<bool> {
        if !db.keeps_files() {
            return Ok(false);
        }
        let kept = &mut self.kept_journal;
        kept.commits = kept.commits.saturating_add(1);
        // A file that is found says of other processes what this one remembers of itself.
        let found = kept.journal.is_some();
        let expected = *kept.expected.get_or_insert_with(|| db.expects_short_opening() || found);
        if !is_short(expected, kept.commits) {
            kept.remove(db);
            return Ok(false);
        }
        let logged = self.redo.is_some() || self.deltas.waits() || db.tier().is_some();
        let mut facts = CommitFacts {
            logged: logged || db.options().logs_rollback_deltas() || db.options().tier.is_some(),
            journaled: dirty.has_journal && durability == Durability::Durable,
            plain: is_plain(db, dirty)?,
            fits: may_stay(changed(dirty).count(), dirty.page_bytes()),
        };
        if goes_by_journal(facts) {
            facts.logged = db.medium().identity(&db.companion_path(Companion::Wal))?.is_some();
        }
        if !goes_by_journal(facts) {
            self.kept_journal.remove(db);
            return Ok(false);
        }
        if !db.has_its_name_now() {
            return Ok(false);
        }
        let before = pages_before(db, dirty)?;
        match self.kept_journal.open(db)? {
            Some(journal) => commit(db, journal, dirty, &before)?,
            None => return Ok(false),
        }
        db.file_end().set_committed_len(dirty.len());
        Stats::add(&db.counters().commits_pages, 1);
        Ok(true)
    }
}

impl KeptJournal {
    /// Looks for a file that is void, when this process becomes the owner; true where there is one, so that SQLite need not know.
    pub fn find(&mut self, db: &Db) -> bool {
        let path = db.companion_path(Companion::Journal);
        let found =
            db.keeps_files().then(|| RollbackJournal::find(&**db.medium(), &path, db.latch().clone()));
        // SQLite meets what is wrong with the file, and can say it.
        self.journal = found.and_then(|found| found.ok().flatten());
        self.journal.is_some()
    }

    /// The file, which is created where there is none; `None` where somebody else has its name, or it cannot be created.
    fn open(&mut self, db: &Db) -> Result<Option<&mut RollbackJournal>> {
        if self.given_up {
            return Ok(None);
        }
        let path = db.companion_path(Companion::Journal);
        if let Some(journal) = &self.journal
            && !journal.has_its_name(&**db.medium())?
        {
            self.journal = None;
        }
        if self.journal.is_some()
            && !std::mem::replace(&mut self.checked, true)
            && !db.has_own_rights(&path)?
        {
            self.remove(db);
        }
        if self.journal.is_none() {
            // The redo log cannot be created either then, and that failure is told.
            let created = RollbackJournal::create(&**db.medium(), &path, db.latch().clone());
            self.given_up = created.is_err();
            self.journal = created.ok();
            self.checked = true;
            if self.journal.is_some() {
                // There is none to SQLite.
                db.companions().set_alone(Companion::Journal, true);
            }
        }
        Ok(self.journal.as_mut())
    }

    /// Removes the file. It stays where that fails: it is void.
    pub fn remove(&mut self, db: &Db) {
        if let Some(journal) = self.journal.take() {
            let _ = journal.delete(&**db.medium());
        }
    }

    /// SQLite itself may use the file from now on.
    pub fn give_up(&mut self) {
        self.journal = None;
        self.given_up = true;
    }

    /// The opening ends, and leaves the file as it is.
    pub fn leave(&mut self, db: &Db) {
        let KeptJournal { journal, commits, .. } = std::mem::take(self);
        if commits > 0 {
            db.note_short_opening(commits <= MOST_COMMITS, journal.is_some());
        }
    }
}

/// The numbers of the pages that the database had before, and that the transaction changes.
fn changed(dirty: &DirtyPages) -> impl Iterator<Item = u32> {
    let before = dirty.base_len() / dirty.page_bytes() as u64;
    dirty.in_memory().take_while(move |number| u64::from(*number) <= before)
}

/// True if all of a transaction is in memory, and it leaves or extends whole pages of the same size.
fn is_plain(db: &Db, dirty: &DirtyPages) -> Result<bool> {
    let (before, after, page_bytes) = (dirty.base_len(), dirty.len(), dirty.page_bytes() as u64);
    Ok(before > 0
        && before <= after
        && before.is_multiple_of(page_bytes)
        && after.is_multiple_of(page_bytes)
        && !dirty.has_slots()
        && !dirty.has_pages_in_file()
        && !db.file_end().is_written_behind()
        && dirty.new_page_bytes()? == dirty.page_bytes())
}

/// The pages that a transaction changes, as they are in the file.
fn pages_before(db: &Db, dirty: &DirtyPages) -> Result<Vec<(u32, Vec<u8>)>> {
    changed(dirty)
        .map(|number| {
            let mut page = vec![0; dirty.page_bytes()];
            db.data().read_at(&mut page, u64::from(number - 1) * dirty.page_bytes() as u64)?;
            Ok((number, page))
        })
        .collect()
}

fn commit(
    db: &Db,
    journal: &mut RollbackJournal,
    dirty: &DirtyPages,
    before: &[(u32, Vec<u8>)],
) -> Result<()> {
    if dirty.len() > dirty.base_len() {
        db.reserve(dirty.len())?;
    }
    let page_bytes = dirty.page_bytes();
    let database_pages = (dirty.base_len() / page_bytes as u64) as u32;
    journal.begin(&**db.medium(), &Before { page_bytes, database_pages, pages: before })?;
    let numbers: Vec<u32> = dirty.in_memory().collect();
    let mut copy = |number: u32, page: &mut [u8]| {
        dirty.copy(number, page);
        Ok(())
    };
    let written = write_in_place(db, &numbers, page_bytes, &mut copy).and_then(|()| {
        if db.data().len()? != dirty.len() {
            db.set_len_unseen(dirty.len())?;
        }
        db.sync()
    });
    if let Err(error) = written {
        // The journal is hot, and nothing may be built upon what is in the file.
        db.latch().close(&error.to_string());
        db.put_back(before, page_bytes, dirty.base_len());
        return Err(error);
    }
    Ok(journal.end()?)
}

#[cfg(test)]
mod tests;

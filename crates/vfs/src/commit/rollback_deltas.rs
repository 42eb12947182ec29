//! Deltas of rollback-journal transactions: commits as records of page deltas, with `commit_log=deltas`.
//!
//! # Why
//! A commit of one row changes some bytes of two pages, and the redo log takes both pages. Their deltas take a block. The
//! newest version of each page stays in memory until it is materialized in the redo log. From there today's checkpoint
//! copies it to the data file.
//!
//! # Bytes
//! ```text
//! app.db:          every page of the database                                                 synced by the checkpoint
//! app.db-wal:      void: frames that were copied do not come back                             synced
//! app.db:          a stamp that no other write leaves                                         synced
//! app.db-commits:  header with that stamp; a record of deltas                                 synced, each commit
//! app.db-wal:      the newest version of each page that a record changes, one transaction     synced
//! app.db-commits:  a header that retires the records                                          synced
//! app.db:          the checkpoint of the redo log; then the next generation may begin         synced
//! ```
//!
//! # When deltas are materialized
//! The log, or the memory for the pages, is three quarters full; a transaction goes to the redo log as pages; the database is
//! at rest, closed or given to another process; the process exits; SQLite's own protocol begins.
//!
//! # Promises
//! 1. A commit returns after its record is durable. Commits that SQLite does not sync are pages, and stay unsynced.
//! 2. A full disk fails a commit, and not the materialization: the redo log has space for each page first.
//!
//! # Invariants
//! 1. While deltas wait, the redo log has no frame, and nothing is written to the data file.
//! 2. The redo log is written again only once the records are retired, durably. So it holds exactly the pages after the last
//!    record, or the data file is as it was when the generation began.
//! 3. A materialized page 1 has its own counters, unlike other images in the log ([`page_one`](super::page_one)): it must
//!    be the page after the last record. The next transaction of pages logs page 1 once more, with counters ahead.

use super::delta_encoding::{DeltaEncoding, MOST_PAGES};
use super::delta_generation::{DELTA, Prepared, prepare};
use super::delta_start::DeltaStart;
use super::redo_log_state::RedoLogState;
use super::rollback_checkpoint::write_in_place;
use crate::db::Db;
use crate::error::Result;
use crate::memory::reservation::MemoryReservation;
use crate::stats::Stats;
use crate::txn::dirty_pages::DirtyPages;
use crate::txn::spiller::PageBytes;
use litefoot_storage::commit_log::format::{BLOCK_BYTES, RECORD_BYTES};
use litefoot_storage::commit_log::{CommitLog, Record};
use litefoot_storage::file;
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::Transaction;
use std::collections::BTreeMap;

/// Frames for which space is claimed ahead.
const FRAMES_CLAIMED: usize = 256;

/// The commit log of a database in a rollback-journal mode, and the pages whose newest version waits in it.
pub(crate) struct RollbackDeltas {
    log: Option<CommitLog>,
    /// The newest version of each page that a record changes.
    pages: BTreeMap<u32, PageBytes>,
    page_bytes: usize,
    /// Pages of the database after the last record.
    database_pages: u32,
    memory: Option<MemoryReservation>,
    encoding: DeltaEncoding,
    start: DeltaStart,
    /// Frames for which the redo log has space.
    claimed: usize,
}

impl Default for RollbackDeltas {
    fn default() -> RollbackDeltas {
        RollbackDeltas {
            log: None,
            pages: BTreeMap::new(),
            page_bytes: 0,
            database_pages: 0,
            memory: None,
            encoding: DeltaEncoding::default(),
            // Who has chosen deltas has them from the first commit on.
            start: DeltaStart::new(true),
            claimed: 0,
        }
    }
}

/// A transaction that may be logged as deltas.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// True where the options say so, SQLite has a journal, and strangers cannot have the database before the deltas are recovered.
    chosen: bool,
    /// True where SQLite waits for the commit to be durable.
    durable: bool,
    /// True where pages were written before the commit.
    has_early_pages: bool,
    /// True where pages keep their size, and the database was not empty.
    keeps_pages: bool,
    /// Pages in memory.
    pages: usize,
}

impl Candidate {
    fn can_be_deltas(self) -> bool {
        self.chosen
            && self.durable
            && !self.has_early_pages
            && self.keeps_pages
            && (1..=MOST_PAGES).contains(&self.pages)
    }
}

impl RollbackDeltas {
    /// True while commits wait as deltas.
    pub fn waits(&self) -> bool {
        !self.pages.is_empty()
    }

    /// The newest version of a page that waits.
    pub fn page(&self, number: u32) -> Option<&[u8]> {
        self.pages.get(&number).map(|page| &**page)
    }

    /// The pages that wait.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        self.pages.keys().copied()
    }

    /// Bytes of a page that waits.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Pages of the database after the last record.
    pub fn database_pages(&self) -> u32 {
        self.database_pages
    }

    /// Bytes of memory in use, about.
    pub fn memory_bytes(&self) -> usize {
        self.pages.len() * self.page_bytes + self.log.as_ref().map_or(0, CommitLog::memory_bytes)
    }

    /// Bytes of the commit log that are in use.
    pub fn bytes(&self) -> u64 {
        self.log.as_ref().filter(|_| self.waits()).map_or(0, CommitLog::bytes)
    }

    /// True where the commit log, or the memory for the pages, is three quarters full.
    pub fn is_full(&self, db: &Db) -> bool {
        let is_full = |used: u64, limit: u64| 4 * used >= 3 * limit;
        let memory = self.pages.len() as u64 * self.page_bytes as u64;
        self.waits()
            && (is_full(self.bytes(), db.options().commit_log_size as u64)
                || is_full(memory, self.memory_limit(db) as u64))
    }

    fn memory_limit(&self, db: &Db) -> usize {
        let most = self.memory.as_ref().map_or(usize::MAX, MemoryReservation::most);
        db.memory().wal_bytes().min(most)
    }

    /// The checkpoint has ended: the data file has every page.
    pub fn note_checkpoint(&mut self) {
        self.start.note_checkpoint();
    }

    /// True when the data file is to be completed, so that deltas can begin; `redo_bytes` are in the redo log.
    pub fn wants_complete_file(&self, redo_bytes: u64) -> bool {
        self.start.wants_complete_file(redo_bytes)
    }

    /// The redo log is another file now, which has no space yet.
    pub fn forget_claim(&mut self) {
        self.claimed = 0;
    }

    /// Removes the commit log, in which nothing waits.
    pub fn delete_log(&mut self) -> Result<()> {
        match self.log.take() {
            Some(mut log) => Ok(log.delete()?),
            None => Ok(()),
        }
    }

    /// Opens the commit log where a crash would find it; `false` where it has lost its name while records wait in it, where
    /// another owner has it, or where it is not understood.
    fn open_log(&mut self, db: &Db) -> Result<bool> {
        if let Some(log) = &self.log {
            if log.is_at_its_name()? {
                return Ok(true);
            }
            if self.waits() {
                return Ok(false);
            }
            self.delete_log()?;
        }
        let log = CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone())?;
        if log.is_understood() && log.is_empty() {
            self.log = Some(log);
        }
        Ok(self.log.is_some())
    }

    /// Retires the records, durably: their pages are elsewhere. A generation that has begun in memory only ends, too: its stamp
    /// may soon be an older one.
    fn end(&mut self) -> file::Result<()> {
        let Some(log) = self.log.as_mut().filter(|log| log.base().is_some()) else { return Ok(()) };
        log.retire();
        if self.pages.is_empty() {
            return Ok(());
        }
        log.sync()?;
        self.pages.clear();
        self.claimed = 0;
        if let Some(memory) = &mut self.memory {
            memory.set(0);
        }
        Ok(())
    }

    /// Takes the pages of a transaction whose record is durable.
    fn take(&mut self, db: &Db, dirty: &DirtyPages) {
        self.page_bytes = dirty.page_bytes();
        self.database_pages = dirty.len().div_ceil(dirty.page_bytes() as u64) as u32;
        self.pages.extend(dirty.newest().map(|(number, page)| (number, page.clone())));
        // Pages that were cut off count for nothing, and what comes in their place is new.
        drop(self.pages.split_off(&(self.database_pages + 1)));
        let bytes = self.pages.len() * self.page_bytes;
        self.memory.get_or_insert_with(|| MemoryReservation::new(db.memory().share())).set(bytes);
    }
}

impl RedoLogState {
    /// Logs a transaction as deltas, durably; `false` where pages must be logged.
    pub fn append_deltas(&mut self, db: &Db, dirty: &DirtyPages, durability: Durability) -> Result<bool> {
        let candidate = Candidate {
            chosen: dirty.has_journal && db.options().logs_rollback_deltas() && !db.shared().lacks_heir(),
            durable: durability == Durability::Durable,
            has_early_pages: dirty.has_slots() || dirty.has_pages_in_file(),
            keeps_pages: dirty.base_len() > 0 && dirty.new_page_bytes()? == dirty.page_bytes(),
            pages: dirty.in_memory().count(),
        };
        if !candidate.can_be_deltas() {
            return Ok(false);
        }
        let Some(redo) = &mut self.redo else { return Ok(false) };
        let deltas = &mut self.deltas;
        if !redo.is_empty() || redo.has_slots() || db.file_end().is_written_behind() {
            deltas.start.note_pages((candidate.pages * dirty.page_bytes()) as u64, durability);
            return Ok(false);
        }
        if deltas.waits() && deltas.page_bytes != dirty.page_bytes() {
            return Ok(false);
        }
        let Some(payload) = deltas.encoding.encode_dirty(dirty, &deltas.pages, &**db.data()) else {
            return Ok(false);
        };
        // A full disk fails here, before anything of the transaction is written. So does a log that cannot be used.
        if !matches!(self.prepare_deltas(db, dirty, payload.len()), Ok(true)) {
            return Ok(false);
        }
        let Some(log) = &mut self.deltas.log else { return Ok(false) };
        let one_block = payload.len() as u64 <= BLOCK_BYTES - RECORD_BYTES;
        log.append(&[Record { kind: DELTA, payload }], Durability::Durable)?;
        self.deltas.take(db, dirty);
        Stats::add(&db.counters().commits_deltas, 1);
        Stats::add(&db.counters().commits_one_block, u64::from(one_block));
        Ok(true)
    }

    /// Makes both logs ready for a transaction whose payload takes so many bytes; `false` where it must be logged as pages.
    fn prepare_deltas(&mut self, db: &Db, dirty: &DirtyPages, payload: usize) -> Result<bool> {
        let (Some(redo), deltas) = (&mut self.redo, &mut self.deltas) else { return Ok(false) };
        if !deltas.open_log(db)? {
            return Ok(false);
        }
        let new = dirty.in_memory().filter(|number| !deltas.pages.contains_key(number)).count();
        let frames = deltas.pages.len() + new;
        let limit = deltas.memory_limit(db);
        let Some(log) = &mut deltas.log else { return Ok(false) };
        // A record that does not fit into a block begins the next one.
        let room = log.bytes() + CommitLog::bytes_of([payload]) + BLOCK_BYTES;
        if room > db.options().commit_log_size as u64 || frames * dirty.page_bytes() > limit {
            return Ok(false);
        }
        match prepare(redo, log, db, room)? {
            Prepared::NotNow => return Ok(false),
            Prepared::Begun => deltas.start.note_checkpoint(),
            Prepared::Open => {}
        }
        if frames > deltas.claimed {
            let page_bytes = dirty.page_bytes() as u32;
            let claimed = frames + FRAMES_CLAIMED;
            deltas.claimed = match redo.claim(page_bytes, claimed as u32) {
                Ok(()) => claimed,
                Err(_) => redo.claim(page_bytes, frames as u32).map(|()| frames)?,
            };
        }
        Ok(true)
    }

    /// Materializes the deltas in the redo log, and retires them.
    pub fn fold(&mut self, db: &Db) -> Result<()> {
        if self.redo.is_none() {
            return self.write_deltas_home(db);
        }
        let deltas = &mut self.deltas;
        if let Some(redo) = self.redo.as_mut().filter(|_| deltas.waits()) {
            let (numbers, pages): (Vec<u32>, Vec<&PageBytes>) = deltas.pages.iter().unzip();
            let transaction = Transaction {
                slots: &[],
                early: &[],
                page_numbers: &numbers,
                page_bytes: deltas.page_bytes as u32,
                database_pages: deltas.database_pages,
            };
            let mut copy = |index: usize, out: &mut [u8]| {
                out.copy_from_slice(pages[index]);
                Ok(())
            };
            redo.append(&transaction, &mut copy, Durability::Durable)?;
        }
        Ok(deltas.end()?)
    }

    /// Writes the pages that wait as deltas to the data file, where no log has a name that a crash would find.
    pub fn write_deltas_home(&mut self, db: &Db) -> Result<()> {
        let deltas = &mut self.deltas;
        if deltas.waits() {
            let numbers: Vec<u32> = deltas.pages.keys().copied().collect();
            let mut copy = |number: u32, out: &mut [u8]| {
                if let Some(page) = deltas.pages.get(&number) {
                    out.copy_from_slice(page);
                }
                Ok(())
            };
            write_in_place(db, &numbers, deltas.page_bytes, &mut copy)?;
            let size = u64::from(deltas.database_pages) * deltas.page_bytes as u64;
            if db.data().len()? != size {
                db.set_len_unseen(size)?;
            }
            db.sync()?;
        }
        Ok(deltas.end()?)
    }
}

#[cfg(test)]
mod power_cuts;
#[cfg(test)]
mod tests;

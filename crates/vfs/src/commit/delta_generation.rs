//! Delta generation: commits of a database in WAL mode as records of page deltas, from a complete data file to the
//! materialization of their pages. [`prepare`] begins those of rollback-journal transactions, too.
//!
//! # Bytes
//! ```text
//! app.db:          every page of the database; a stamp that no other write leaves             synced
//! app.db-commits:  header with that stamp; a record of deltas for each commit                 synced, each group of commits
//! app.db-wal:      most pages that a record changes, in frames ahead that do not count        synced, while commits go on
//! app.db-commits:  records that are not durable yet                                           synced
//! app.db-wal:      the pages that have changed since, and the end of the transaction          synced
//! app.db-commits:  a header that retires the records                                          synced
//! app.db:          SQLite's checkpoint; then the next generation may begin
//! ```
//! A commit that comes before the checkpoint has ended goes to the redo log as pages. So stock SQLite, which knows the redo
//! log alone, sees the last materialization, or everything.
//!
//! [`pages_ahead`](super::pages_ahead) has the frames ahead. Where there are none, the end of the transaction has all pages.
//!
//! # Invariants
//! 1. A generation begins only while no frame waits in the redo log, and nothing is written behind the end of the data
//!    file. Nothing is written to the data file before the generation is retired, durably.
//! 2. Before the redo log gets a frame that counts, all records are durable. Afterwards it is written only once they are
//!    retired. So the redo log holds exactly the pages after the last record. Or it holds nothing that counts, and the data file is as it
//!    was when the generation began.
//! 3. Frames ahead are of records that wait, and behind no frame that counts. Whatever recovery appends takes their place.

use super::commit_queue::{Pending, PendingForm};
use super::log_writer::LogWriter;
use super::pages_ahead::PagesAhead;
use crate::db::Db;
use crate::error::Result;
use crate::txn::wal_frames::WalFrames;
use litefoot_storage::commit_log::{Base, CommitLog, DeltaBase, Record, StagedRecords};
use litefoot_storage::file::{self, File};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::{RedoLog, Transaction};
use std::collections::BTreeMap;

/// The kind of a record of page deltas.
pub(crate) const DELTA: u32 = 4;

impl LogWriter {
    /// Makes the commit log ready for records of deltas up to `room` bytes; `false` where no generation can begin.
    pub fn prepare_deltas(&mut self, db: &Db, room: u64) -> Result<bool> {
        let prepared = prepare(&mut self.redo, &mut self.commit_log, db, room)?;
        if prepared == Prepared::Begun {
            self.delta_end = self.logged;
        }
        Ok(prepared != Prepared::NotNow)
    }

    /// Drops the transactions of a batch that were materialized meanwhile: they are in the redo log.
    pub fn retain_unwritten(&self, batch: &mut Vec<Pending>) {
        batch.retain(|pending| pending.generation == self.generation && pending.end > self.logged);
    }

    /// Gives the deltas of a batch, which is taken, their place in the commit log, and answers the last frame's end; `None` where they must be written in another
    /// way, and the batch stays.
    pub fn stage_deltas(
        &mut self,
        batch: &mut Vec<Pending>,
        own_blocks: bool,
    ) -> Option<(StagedRecords, usize)> {
        let end = batch.last()?.end;
        let is_delta = |pending: &Pending| matches!(pending.form, PendingForm::Delta(_));
        let is_open = matches!(self.commit_log.base(), Some(Base::Deltas(_)));
        if !is_open || !self.redo.is_synced() || !self.commit_log.can_stage() || !batch.iter().all(is_delta) {
            return None;
        }
        let records: Vec<Record> = batch.drain(..).filter_map(record_of).collect();
        let staged = self.commit_log.stage(&records, own_blocks)?;
        self.delta_end = end;
        Some((staged, end))
    }

    /// Writes the deltas of a batch to the commit log. Where their generation is over, the pages go to the redo log.
    pub fn write_deltas(
        &mut self,
        frames: &WalFrames,
        data: &dyn File,
        batch: Vec<Pending>,
        durability: Durability,
    ) -> file::Result<()> {
        let Some(end) = batch.last().map(|pending| pending.end) else { return Ok(()) };
        if !matches!(self.commit_log.base(), Some(Base::Deltas(_))) {
            return self.append_until(frames, data, end, durability);
        }
        let records: Vec<Record> = batch.into_iter().filter_map(record_of).collect();
        self.commit_log.append(&records, durability)?;
        self.delta_end = end;
        Ok(())
    }

    /// True while records of deltas wait.
    pub fn has_deltas(&self) -> bool {
        self.commit_log.waiting_deltas().is_some()
    }

    /// Materializes the records of deltas, and retires them.
    pub fn fold(&mut self, frames: &WalFrames, data: &dyn File) -> file::Result<()> {
        let ahead = self.ahead.lock().take();
        self.fold_behind(ahead, frames, data)
    }

    /// The same, with pages that are ahead.
    pub fn fold_behind(
        &mut self,
        ahead: Option<PagesAhead>,
        frames: &WalFrames,
        data: &dyn File,
    ) -> file::Result<()> {
        if !self.has_deltas() {
            if matches!(self.commit_log.base(), Some(Base::Deltas(_))) {
                // Begun, and nowhere but in memory: its stamp may soon be an older one.
                self.commit_log.retire();
            }
            return Ok(());
        }
        // Recovery compares the pages in the redo log with those after the last record that it finds.
        self.commit_log.sync()?;
        if ahead.is_none_or(|ahead| !self.append_owed(&ahead, frames, data).is_ok_and(|appended| appended)) {
            self.append_until(frames, data, self.delta_end, Durability::Durable)?;
        }
        self.commit_log.retire();
        self.commit_log.sync()
    }

    /// Appends the pages that the deltas have changed since others were written ahead, durably; `false` where the redo log
    /// does not take these.
    fn append_owed(&mut self, ahead: &PagesAhead, frames: &WalFrames, data: &dyn File) -> file::Result<bool> {
        let end = self.delta_end;
        if !self.redo.takes(&ahead.frames)? {
            return Ok(false);
        }
        let mut owed = ahead.owed(frames, end);
        if owed.is_empty() {
            // One frame says that all count.
            owed.extend(ahead.any().and_then(|number| Some((number, frames.newest_before(number, end)?))));
        }
        let newest = NewestPages::new(owed, frames, data, end);
        self.redo.append_behind(
            &ahead.frames,
            &newest.transaction(),
            &mut newest.copy(),
            Durability::Durable,
        )?;
        self.logged = self.logged.max(end);
        Ok(true)
    }

    /// Appends the newest version of each page up to a frame to the redo log.
    fn append_until(
        &mut self,
        frames: &WalFrames,
        data: &dyn File,
        end: usize,
        durability: Durability,
    ) -> file::Result<()> {
        let newest = NewestPages::new(frames.newest_until(self.logged, end), frames, data, end);
        self.redo.append(&newest.transaction(), &mut newest.copy(), durability)?;
        self.logged = self.logged.max(end);
        Ok(())
    }
}

/// Pages for the redo log, in the frames of SQLite's log.
struct NewestPages<'a> {
    page_numbers: Vec<u32>,
    sources: Vec<usize>,
    frames: &'a WalFrames,
    data: &'a dyn File,
    database_pages: u32,
}

impl<'a> NewestPages<'a> {
    /// Pages by their numbers and frames, for the database as it is after the frame before `end`.
    fn new(
        pages: BTreeMap<u32, usize>,
        frames: &'a WalFrames,
        data: &'a dyn File,
        end: usize,
    ) -> NewestPages<'a> {
        let (page_numbers, sources) = pages.into_iter().unzip();
        NewestPages { page_numbers, sources, frames, data, database_pages: frames.database_pages_at(end) }
    }

    fn transaction(&self) -> Transaction<'_> {
        Transaction {
            slots: &[],
            early: &[],
            page_numbers: &self.page_numbers,
            page_bytes: self.frames.page_bytes() as u32,
            database_pages: self.database_pages,
        }
    }

    fn copy(&self) -> impl FnMut(usize, &mut [u8]) -> file::Result<()> {
        |index, page| self.frames.copy_page(self.sources[index], page, self.data)
    }
}

/// What a commit log is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// For records of a generation that has begun now.
    Begun,
    /// For records of the generation that is open.
    Open,
    /// For none: no generation of deltas can begin.
    NotNow,
}

/// Makes a commit log ready for records of deltas up to `room` bytes, and begins their generation where none is open.
pub(crate) fn prepare(
    redo: &mut RedoLog,
    commit_log: &mut CommitLog,
    db: &Db,
    room: u64,
) -> Result<Prepared> {
    match commit_log.base() {
        Some(Base::Statements(_)) => return Ok(Prepared::NotNow),
        Some(Base::Deltas(_)) => {
            commit_log.reserve(room)?;
            return Ok(Prepared::Open);
        }
        None if !redo.is_empty() || redo.has_slots() || db.file_end().is_written_behind() => {
            return Ok(Prepared::NotNow);
        }
        None => {}
    }
    commit_log.reserve(room)?;
    // Frames that were copied must not come back.
    redo.restart()?;
    redo.sync()?;
    let data = db.data_file();
    let Some(origin) = commit_log.origin(&data)? else { return Ok(Prepared::NotNow) };
    let stamp = db.latch().watch(db.data().set_stamp())?;
    commit_log.begin(Base::Deltas(DeltaBase { stamp, origin }));
    Ok(Prepared::Begun)
}

/// The record of a transaction that waits as deltas.
fn record_of(pending: Pending) -> Option<Record> {
    match pending.form {
        PendingForm::Delta(payload) => Some(Record { kind: DELTA, payload }),
        PendingForm::Statements(_) => None,
    }
}

#[cfg(test)]
mod tests;

//! Delta generation: commits of a database in WAL mode as records of page deltas, from a complete data file to the
//! materialization of their pages. [`prepare`] begins those of rollback-journal transactions, too.
//!
//! # Bytes
//! ```text
//! app.db:          every page of the database; a stamp that no other write leaves             synced
//! app.db-commits:  header with that stamp; a record of deltas for each commit                 synced, each group of commits
//! app.db-wal:      the newest version of each page that a record changes, one transaction     synced
//! app.db-commits:  a header that retires the records                                          synced
//! app.db:          SQLite's checkpoint; then the next generation may begin
//! ```
//! A commit that comes before the checkpoint has ended goes to the redo log as pages. So stock SQLite, which knows the redo
//! log alone, sees the last materialization, or everything.
//!
//! # Invariants
//! 1. A generation begins only while no frame waits in the redo log, and nothing is written behind the end of the data
//!    file. Nothing is written to the data file before the generation is retired, durably.
//! 2. Before the redo log gets the pages, all records are durable, and afterwards it is written only once they are
//!    retired. So the redo log holds exactly the pages after the last record, or the data file is as it was when the
//!    generation began.

use super::commit_queue::{Pending, PendingForm};
use super::log_writer::LogWriter;
use crate::db::Db;
use crate::error::Result;
use crate::txn::wal_frames::WalFrames;
use litefoot_storage::commit_log::{Base, CommitLog, DeltaBase, Record, StagedRecords};
use litefoot_storage::file::{self, File};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::{RedoLog, Transaction};

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
        if !self.has_deltas() {
            if matches!(self.commit_log.base(), Some(Base::Deltas(_))) {
                // Begun, and nowhere but in memory: its stamp may soon be an older one.
                self.commit_log.retire();
            }
            return Ok(());
        }
        // Recovery compares the pages in the redo log with those after the last record that it finds.
        self.commit_log.sync()?;
        self.append_until(frames, data, self.delta_end, Durability::Durable)?;
        self.commit_log.retire();
        self.commit_log.sync()
    }

    /// Appends the newest version of each page up to a frame to the redo log.
    fn append_until(
        &mut self,
        frames: &WalFrames,
        data: &dyn File,
        end: usize,
        durability: Durability,
    ) -> file::Result<()> {
        let newest = frames.newest_until(self.logged, end);
        let (page_numbers, sources): (Vec<u32>, Vec<usize>) = newest.into_iter().unzip();
        let transaction = Transaction {
            slots: &[],
            early: &[],
            page_numbers: &page_numbers,
            page_bytes: frames.page_bytes() as u32,
            database_pages: frames.database_pages_at(end),
        };
        let mut copy = |index: usize, page: &mut [u8]| frames.copy_page(sources[index], page, data);
        self.redo.append(&transaction, &mut copy, durability)?;
        self.logged = self.logged.max(end);
        Ok(())
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

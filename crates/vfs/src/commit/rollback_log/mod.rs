//! Rollback-mode redo log: the commits of a database whose journal mode is not WAL.
//!
//! # Why
//! With a rollback journal SQLite needs four to six syncs for one row. Here a commit appends its pages to a redo log, with
//! one write and one sync. Readers take those pages from the log.
//!
//! # Commits that nobody syncs
//! At `synchronous=OFF` the system has the commits, and the device does not. A log that has grown large is replaced by one
//! with the newest version of each page ([`compact`](litefoot_storage::wal_file::RedoLog::compact)), before anything is synced.
//!
//! # Deltas
//! With `commit_log=deltas` small commits go to the commit log instead ([`rollback_deltas`](crate::commit::rollback_deltas)),
//! until they are materialized here.
//!
//! # How the log ends
//! When the log has grown to the option `max_wal_size`, a background thread copies its pages to the database file, and
//! syncs the file. Commits go on meanwhile ([`reset_in_background`](RollbackRedoLog::reset_in_background)). Then, while
//! commits wait, a checkpoint copies the few pages that were committed meanwhile, and resets the log.
//!
//! # Invariants
//! 1. A commit counts on the log only if the log belongs to the database
//!    ([`log_identity`](crate::commit::log_identity)). A crash must also find the log by its name
//!    ([`log_place`](crate::commit::log_place)).
//! 2. While the log holds frames, no page is written in place that has no frame in the log. The exception is a
//!    transaction of one page on a device that never tears it ([`rollback_append`](crate::commit::rollback_append)).
//! 3. Slots of a transaction under way keep the log from being reset.
//! 4. The first frames of a generation are written beside a database file that is synced: its header names the first sector.

mod place;

use crate::cache::PageSource;
use crate::commit::log_place::{FoundLog, find};
use crate::commit::redo_log_state::RedoLogState;
use crate::commit::rollback_append::commit_without_log;
use crate::commit::rollback_checkpoint::write_newest;
use crate::commit::shared_syncs::SharedSyncs;
use crate::db::{Db, tier};
use crate::error::{Error, Result};
use crate::stats::Stats;
use crate::txn::dirty_pages::DirtyPages;
use crate::txn::{SpillTarget, TxnTarget};
use litefoot_storage::file::{self, File};
use litefoot_storage::log_file::{Durability, Flush};
use litefoot_storage::sync::RwLock;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::ReservedSlots;
use litefoot_storage::worker::Worker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages copied before commits get their turn.
const PAGES_PER_TURN: usize = 64;

/// The log, and the worker that resets it.
#[derive(Default)]
pub struct RollbackRedoLog {
    state: RwLock<RedoLogState>,
    /// True while there is a log on the medium.
    live: Arc<AtomicBool>,
    /// True while another owner has the name of the log.
    name_taken: AtomicBool,
    reset: Arc<Worker>,
    syncs: SharedSyncs,
}

impl RollbackRedoLog {
    /// Looks for the log that a crash left; `None` where nothing of it is the database's.
    ///
    /// # Errors
    /// `Busy` while another process has a log open that belongs to the database.
    pub(crate) fn find(&self, db: &Db) -> Result<Option<RedoLog>> {
        match find(db)? {
            FoundLog::Ours(redo) => Ok(Some(*redo)),
            FoundLog::Nothing => Ok(None),
            FoundLog::NameTaken => {
                // SQLite must not see that log either.
                self.live.store(true, Ordering::Release);
                self.state.write().note_name_taken(db);
                self.name_taken.store(true, Ordering::Release);
                Ok(None)
            }
        }
    }

    /// True while there is a log on the medium, which SQLite must not take for a write-ahead log.
    pub fn is_live(&self) -> bool {
        self.live.load(Ordering::Acquire)
    }

    /// The flag of [`RollbackRedoLog::is_live`], for callers that keep it.
    pub fn live_flag(&self) -> Arc<AtomicBool> {
        self.live.clone()
    }

    /// Bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        let state = self.state.read();
        let page_one = state.page_one.as_ref().map_or(0, Vec::len);
        page_one + state.deltas.memory_bytes() + state.redo.as_ref().map_or(0, RedoLog::memory_bytes)
    }

    /// Bytes of a page in a log; 0 while both logs are empty.
    pub fn page_bytes(&self) -> usize {
        if self.is_live() { self.state.read().page_bytes() } else { 0 }
    }

    /// Reads the last committed version of the database at any offset: pages of the logs from there, all others from `file`.
    /// Answers how many bytes there are.
    pub fn read(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        if !self.is_live() {
            return file.read_at(buf, offset);
        }
        let state = self.state.read();
        let page_bytes = state.page_bytes();
        if page_bytes == 0 {
            drop(state);
            return file.read_at(buf, offset);
        }
        let inside = (offset % page_bytes as u64) as usize;
        if inside + buf.len() > page_bytes {
            return state.read_pages(file, buf, offset);
        }
        if state.read_part(buf, (offset / page_bytes as u64) as u32 + 1, inside)? {
            return Ok(buf.len());
        }
        drop(state);
        file.read_at(buf, offset)
    }

    /// Commits the dirty pages of a transaction.
    pub fn commit<T: TxnTarget>(
        &self,
        target: &Arc<T>,
        dirty: &mut DirtyPages,
        durability: Durability,
    ) -> Result<()> {
        let db = target.db();
        dirty.write_new(target)?;
        let mut state = self.state.write();
        if state.commit_by_journal(db, dirty, durability)? {
            return Ok(());
        }
        if self.open(&mut state, db, Some(dirty))?.is_none() {
            drop(state);
            return commit_without_log(&**target, dirty, durability);
        }
        // The file may have what nobody has synced, as at synchronous=OFF by a real journal. A generation names its first sector, and
        // has the other pages there.
        let begins = state.redo.as_ref().is_some_and(RedoLog::is_empty);
        if begins && !dirty.has_pages_in_file() {
            db.sync_if_written()?;
        }
        if durability == Durability::Durable && !dirty.has_pages_in_file() {
            db.settle()?;
        }
        mark_unwritten(db, dirty)?;
        if state.append_deltas(db, dirty, durability)? {
            db.file_end().set_committed_len(dirty.len());
            state.note_fill(db);
            return Ok(());
        }
        // Their generation needs the data file as it is.
        state.fold(db)?;
        // So that a later checkpoint cannot fail for want of space.
        if dirty.len() > dirty.base_len() && dirty.base_len() > 0 {
            db.reserve(dirty.len())?;
        }
        // Early writes must be durable before the commit says that they count. This holds without durability, too: the next sync
        // of the log makes the commit count.
        if dirty.has_pages_in_file() {
            db.sync()?;
        }
        let page_bytes = dirty.new_page_bytes()?;
        if page_bytes != dirty.page_bytes() {
            // The log restarts with pages of another size, over the slots.
            state.leave_slots(db, Some(dirty))?;
            state.append_whole(db, dirty, page_bytes)?;
        } else if durability == Durability::Durable && dirty.may_share_sync() && !begins {
            state.append_to_be_flushed(db, dirty)?;
            self.syncs.note_appended();
        } else {
            state.append(db, dirty, durability)?;
        }
        db.file_end().set_committed_len(dirty.len());
        tier::note_commit(db, dirty.numbers_to_log(), page_bytes);
        Stats::add(&db.counters().commits_pages, 1);
        state.note_fill(db);
        if dirty.base_len() == 0 {
            return state.complete_new(db);
        }
        // The next commit finds an empty log, and so may begin one beside the tier's device.
        if page_bytes != dirty.page_bytes() || tier::awaits_length(db, dirty.base_len()) {
            // The commit is durable in the log. The next writer meets a failure again.
            let _ = state.checkpoint(db);
        }
        Ok(())
    }

    /// The commits that share syncs.
    pub(crate) fn syncs(&self) -> &SharedSyncs {
        &self.syncs
    }

    /// A sync of what was appended, which needs no lock, and the number of the last transaction that it covers; `None` where all of it is
    /// durable, or in the database file.
    pub(super) fn flush(&self) -> Result<(Option<Flush>, u64)> {
        let mut state = self.state.write();
        let up_to = self.syncs.appended();
        let flush = state.redo.as_mut().map_or(Ok(None), RedoLog::flush)?;
        Ok((flush, up_to))
    }

    /// True for a page with a frame in the log.
    pub fn contains(&self, number: u32) -> bool {
        self.is_live() && self.state.read().contains(number)
    }

    /// Reserves `count` slots of the log, from slot `first`, for a transaction that does not fit into memory.
    pub fn reserve_slots(
        &self,
        db: &Db,
        page_bytes: usize,
        first: usize,
        count: usize,
    ) -> Result<ReservedSlots> {
        let mut state = self.state.write();
        if first > 0
            && let Some(redo) = &mut state.redo
        {
            return Ok(redo.reserve_slots(page_bytes as u32, first as u32, count as u32)?);
        }
        if first == 0 {
            state.fold(db)?;
        }
        match self.open(&mut state, db, None)? {
            Some(redo) => Ok(redo.reserve_slots(page_bytes as u32, first as u32, count as u32)?),
            None => Err(Error::Io(format!(
                "{}: the transaction does not fit into memory, and there is no place for a log; raise write_buffer_size, or \
                 give the database file its name back",
                db.path().display()
            ))),
        }
    }

    /// Ends a transaction: discards its slots, and cuts off early writes that it did not commit.
    pub fn discard_early_writes(&self, db: &Db, dirty: &DirtyPages) {
        // A rollback has cut the dirty pages, but not the database file.
        if !dirty.has_slots() && !dirty.has_pages_in_file() && !db.file_end().is_written_behind() {
            return;
        }
        let mut state = self.state.write();
        let mut least = 0;
        if let Some(redo) = &mut state.redo {
            redo.discard_slots();
            // A power cut can take an unsynced commit back, which then needs the pages from before it.
            least = if redo.is_synced() { 0 } else { dirty.base_len() };
        }
        state.leave_aside(db);
        db.file_end().cut_behind(least);
    }

    /// Prepares for writes behind the end of the database. Where the file still has pages there, the commit that has cut them
    /// off becomes durable. Deltas are materialized: their generation needs the file as it is.
    pub fn before_behind_end(&self, db: &Db, end: u64) -> Result<()> {
        if self.is_live() {
            self.state.write().fold(db)?;
        }
        if db.data().len()? <= end {
            return Ok(());
        }
        match &mut self.state.write().redo {
            Some(redo) => Ok(redo.sync()?),
            None => Ok(()),
        }
    }

    /// Runs `write` on the database file behind its end, while no checkpoint can cut the file.
    pub fn undisturbed<T>(&self, write: impl FnOnce() -> T) -> T {
        let _state = self.state.read();
        write()
    }

    /// Opens the log where a crash would find it; `None` where there is no place for one.
    fn open<'a>(
        &self,
        state: &'a mut RedoLogState,
        db: &Db,
        dirty: Option<&mut DirtyPages>,
    ) -> Result<Option<&'a mut RedoLog>> {
        if tier::is_awaited(db) {
            move_to_tier(state, db)?;
        }
        self.live.store(true, Ordering::Release);
        let placed = state.keep_place(db, dirty)?;
        self.name_taken.store(!placed, Ordering::Release);
        Ok(state.redo.as_mut().filter(|_| placed))
    }

    /// True while a transaction must do without the log, since another owner has its name. Tries again to take the name.
    pub fn is_name_taken(&self, db: &Db) -> Result<bool> {
        if !self.name_taken.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut state = self.state.write();
        let free = state.redo.is_some() || state.claim_name(db)?;
        self.name_taken.store(!free, Ordering::Release);
        Ok(!free)
    }

    /// Resets the log. Most of the work is done while commits go on.
    fn reset(&self, db: &Db) {
        {
            let mut state = self.state.write();
            // The next commit meets a failure again.
            if state.fold(db).is_err() {
                return;
            }
            match state.compact(db) {
                // Commits go on behind the newest pages, and the database file is left for later.
                Ok(true) if !state.is_large(db.options().max_wal_size / 2) => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        // A failed sync is latched. The next reset meets any other failure again.
        if !matches!(self.copy_ahead(db), Ok(true)) || db.sync().is_err() {
            return;
        }
        let mut state = self.state.write();
        // A transaction under way needs its slots; a later commit asks for the reset again.
        if !state.has_slots() {
            let _ = state.checkpoint(db);
        }
    }

    /// Resets logs that have grown large, on a background thread, which keeps `target` open.
    pub(crate) fn reset_in_background<T: SpillTarget>(self: &Arc<RollbackRedoLog>, target: &Arc<T>) {
        let db = target.db();
        let state = self.state.read();
        let redo_bytes = state.redo.as_ref().map_or(0, RedoLog::bytes);
        let wanted = state.is_large(db.options().max_wal_size)
            || state.deltas.is_full(db)
            || (!state.deltas.waits() && state.deltas.wants_complete_file(redo_bytes));
        drop(state);
        if wanted {
            self.complete_in_background(target);
        }
    }

    /// The answer of `look` at the state.
    #[cfg(test)]
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&mut RedoLogState) -> T) -> T {
        look(&mut self.state.write())
    }

    /// Members read the database file themselves from now on, but for the pages that are not in it. The caller has the lock of a reader.
    pub(crate) fn open_to_members(&self, db: &Db) {
        let state = self.state.write();
        db.shared().open_unwritten(state.page_numbers());
    }

    /// True while commits wait as deltas.
    pub(crate) fn has_deltas(&self) -> bool {
        self.is_live() && self.state.read().deltas.waits()
    }

    /// Materializes the deltas without waiting for anybody, when the process exits.
    pub(crate) fn fold_at_exit(&self, db: &Db) {
        self.try_at_exit(db, |state| state.fold(db));
    }

    fn try_at_exit(&self, db: &Db, what: impl FnOnce(&mut RedoLogState) -> Result<()>) {
        let state = self.is_live().then(|| self.state.try_write()).flatten();
        if let (Some(mut state), None) = (state, db.latch().reason()) {
            // A failure leaves it to the next open.
            let _ = what(&mut state);
        }
    }

    /// Materializes the deltas, and checkpoints and resets the log, on a background thread, which keeps `target` open.
    pub(crate) fn complete_in_background<T: SpillTarget>(self: &Arc<RollbackRedoLog>, target: &Arc<T>) {
        let db = target.db();
        let Some(claim) = self.reset.claim() else { return };
        // The last handle to be closed gives the database back, before a thread that waits goes on.
        let (log, there) = (self.clone(), target.clone());
        if let Err(claim) = claim.start("litefoot-log", db.latch(), move |_| log.reset(there.db())) {
            // The system has no thread: the commit waits.
            claim.run_here("litefoot-log", || self.reset(db));
        }
    }

    /// Copies the newest pages to the database file, a few at a time, while commits go on. Stops, and answers `false`, when a
    /// commit has reset the log meanwhile, as a VACUUM to another page size does.
    fn copy_ahead(&self, db: &Db) -> Result<bool> {
        let (generation, frames, numbers) = {
            let mut state = self.state.write();
            let Some(redo) = state.redo.as_mut().filter(|redo| !redo.is_empty()) else { return Ok(false) };
            // Copied pages must be durable in the log: after a power cut the log alone counts.
            redo.sync()?;
            // Page 1 is left to the checkpoint: it shows commits that are not synced yet.
            let numbers = redo.page_numbers().filter(|number| *number != 1);
            (redo.salts(), redo.frames(), numbers.collect::<Vec<u32>>())
        };
        for part in numbers.chunks(PAGES_PER_TURN) {
            let state = self.state.read();
            match &state.redo {
                Some(redo) if redo.salts() == generation => {
                    write_newest(db, redo, None, part)?;
                }
                _ => return Ok(false),
            }
        }
        match &mut self.state.write().redo {
            Some(redo) if redo.salts() == generation => redo.mark_copied(frames),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Waits for the end of a reset in the background. A panic there has latched the database, and fails the next write.
    pub(crate) fn wait_until_idle(&self) {
        let _ = self.reset.wait();
    }

    /// Prepares for writes in place that are not logged: checkpoints and restarts the log, durably.
    pub fn clear(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        let mut state = self.state.write();
        state.checkpoint(db)?;
        match &mut state.redo {
            Some(redo) => Ok(redo.restart()?),
            None => Ok(()),
        }
    }

    /// Looks for the journal that an earlier opening has kept: void, and nothing to SQLite.
    pub(crate) fn find_kept_journal(&self, db: &Db) -> bool {
        self.state.write().kept_journal.find(db)
    }

    /// The opening ends: a journal that is kept stays.
    pub(crate) fn leave_kept_journal(&self, db: &Db) {
        self.state.write().kept_journal.leave(db);
    }

    /// Removes a journal that is kept: the database gets a write-ahead log.
    pub(crate) fn remove_kept_journal(&self, db: &Db) {
        self.state.write().kept_journal.remove(db);
    }

    /// The same when the process exits, without waiting for anybody.
    pub(crate) fn remove_kept_journal_at_exit(&self, db: &Db) {
        if let (Some(mut state), None) = (self.state.try_write(), db.latch().reason()) {
            state.kept_journal.remove(db);
        }
    }

    /// Prepares for a real journal: as [`RollbackRedoLog::clear`], and the tier's chunks come back to the database file.
    pub fn clear_for_journal(&self, db: &Db) -> Result<()> {
        self.state.write().kept_journal.give_up();
        if db.tier().is_none() {
            return self.clear(db);
        }
        self.retire(db)?;
        tier::come_home(db)
    }

    /// Leaves the database file complete: checkpoints and removes the log.
    pub fn retire(&self, db: &Db) -> Result<()> {
        if !self.is_live() {
            return Ok(());
        }
        self.wait_until_idle();
        self.retire_state(&mut self.state.write(), db)
    }

    /// The same without waiting for anybody, when the process exits.
    pub(crate) fn retire_at_exit(&self, db: &Db) {
        self.try_at_exit(db, |state| self.retire_state(state, db));
    }

    fn retire_state(&self, state: &mut RedoLogState, db: &Db) -> Result<()> {
        state.checkpoint(db)?;
        state.deltas.delete_log()?;
        if let Some(redo) = &mut state.redo {
            redo.delete()?;
        }
        state.redo = None;
        state.note_fill(db);
        // SQLite must not see a log of another owner.
        self.live.store(self.name_taken.load(Ordering::Acquire), Ordering::Release);
        Ok(())
    }
}

/// Members ask for the pages of a commit from now on.
fn mark_unwritten(db: &Db, dirty: &DirtyPages) -> Result<()> {
    let Some(unwritten) = db.shared().unwritten() else { return Ok(()) };
    if dirty.new_page_bytes()? == dirty.page_bytes() {
        unwritten.note(dirty.page_numbers().into_iter());
    } else {
        unwritten.note_all();
    }
    Ok(())
}

/// Begins to log next to the tier's device, where the present log is empty.
fn move_to_tier(state: &mut RedoLogState, db: &Db) -> Result<()> {
    if let Some(redo) = &mut state.redo {
        if !redo.is_empty() || redo.has_slots() {
            return Ok(());
        }
        redo.delete()?;
    }
    state.redo = None;
    tier::mark(db).map(drop)
}

impl PageSource for RollbackRedoLog {
    fn is_live(&self) -> bool {
        RollbackRedoLog::is_live(self)
    }

    fn contains(&self, number: u32) -> bool {
        RollbackRedoLog::contains(self, number)
    }

    fn read(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize> {
        RollbackRedoLog::read(self, file, buf, offset)
    }
}

#[cfg(test)]
mod tests;

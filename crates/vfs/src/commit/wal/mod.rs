//! Write-ahead log of a database: memory for SQLite, and on the medium a redo log and a commit log.
//!
//! # Why
//! SQLite appends whole pages to its `-wal` file, checksums them, and reads them back from there. Here that file is
//! memory. A commit goes to the medium in the form that costs least: its statements, or the newest version of each
//! page. That takes one write, into space that was written before.
//!
//! # Promises
//! 1. A commit that SQLite syncs (`synchronous=FULL`) is durable when it returns to the application, and before another
//!    connection sees its changes.
//! 2. A commit that SQLite does not sync survives the process: the operating system has it when the commit returns.
//!    Without `statements`, its pages are with the operating system before another connection sees them; a connection's
//!    first such commit is the exception. At `synchronous=NORMAL` the flusher makes such a commit durable soon after.
//! 3. The database file is written in place only with pages that are durable in the redo log. Early writes go behind
//!    its end, and count with their commit in the redo log.
//! 4. A commit that fails for want of space has not happened, and the database can go on.
//!
//! # Invariants
//! 1. `logged <= committed`. The newest versions of the pages in frames `0..logged` are in the redo log, or in the
//!    database file and synced. In the second case the redo log has no version of them. Frames behind `logged` belong
//!    to transactions in the commit log or in the queue.
//! 2. The redo log is reset only when SQLite restarts its log. SQLite does so when every frame is in the database file, and
//!    that file is synced first.

use crate::commit::checkpoint_trigger::CheckpointTrigger;
use crate::commit::delta_encoding::{DeltaEncoding, MOST_PAGES};
use crate::commit::delta_start::DeltaStart;
use crate::commit::flusher::{FlushRequest, Flusher};
use crate::commit::group_commit::{CommitPages, GroupCommit};
use crate::commit::wal_spilling::WalSpilling;
use crate::db::Companion;
use crate::db::{Db, tier};
use crate::error::{Error, Result};
use crate::memory::memory_file::position;
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::MakeSpill;
use crate::memory::sqlite_cache::SqliteCacheReservation;
use crate::memory::sqlite_cache::SqliteCacheSize;
use crate::notice;
use crate::options::CommitLogForm;
use crate::stats::Stats;
use crate::txn::SpillTarget;
use crate::txn::spill_policy::{SpillPolicy, SpillStep};
use crate::txn::wal_bytes::WalBytes;
use crate::txn::wal_frames::Transaction;
use crate::txn::wal_frames::{WalFrames, WalWritten};
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::format::{BLOCK_BYTES, RECORD_BYTES};
use litefoot_storage::file::File;
use litefoot_storage::log_file::{Durability, is_in_use};
use litefoot_storage::sync::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

pub(crate) mod adopted;
mod as_file;
mod log_memory;
mod shared;
mod statements;
mod watchers;

/// Most frames of a transaction that is logged as deltas: SQLite may have written a page more than once.
const MOST_FRAMES: usize = 2 * MOST_PAGES;

/// The log of one database.
pub struct Wal {
    path: PathBuf,
    frames: RwLock<WalFrames>,
    /// Frames committed since superseded ones were looked for.
    committed_since: AtomicUsize,
    commits: GroupCommit,
    /// The schema cookie of the newest page 1 that was committed.
    schema: AtomicU32,
    /// True while commits are replayed from the medium, and must not be written there again.
    replaying: AtomicBool,
    /// The transaction that was replayed last, until it is compared with the logged one.
    replayed: Mutex<Option<Transaction>>,
    /// True once a last close has left everything in the redo log ([`Wal::leave_as_pages`]).
    has_left_pages: AtomicBool,
    flusher: Flusher,
    checkpoint_trigger: CheckpointTrigger,
    spilling: WalSpilling,
    deltas: Mutex<DeltaEncoding>,
    /// The data file, as it is read and written.
    data: Arc<dyn File>,
}

impl Wal {
    /// Opens the log of a database, with the pages of the redo log.
    pub fn open(db: &Db, make_spill: MakeSpill) -> Result<Wal> {
        let path = db.companion_path(Companion::Wal);
        let latch = db.latch();
        let redo = db.open_redo_log(&path).map_err(|error| {
            if !is_in_use(&error) {
                return Error::from(error);
            }
            let (name, log) = (db.path().display(), path.display());
            let what = format!(
                "{name}: its write-ahead log {log} is in use by a program that has an older file of this name open; \
                 close it there"
            );
            notice::tell_once(db.path(), "log in use", &what);
            Error::Refused(what)
        })?;
        let commit_log = CommitLog::open(db.medium().clone(), &db.commit_log_path(), latch.clone())?;
        let options = db.options();
        let bytes =
            WalBytes::new(MemoryReservation::new(db.memory().share()), db.memory().wal_bytes(), make_spill);
        let cache = SqliteCacheReservation::new(db.memory().share());
        let policy = SpillPolicy::new(options.page_cleaner, options.max_dirty_ratio);
        let frames = WalFrames::load(bytes, cache, policy, &redo.read_all()?, &**db.data())?;
        db.file_end().note_needed(frames.database_bytes());
        let (logged, budget) = (frames.committed(), options.commit_log_size);
        let start = DeltaStart::new(options.commit_log == CommitLogForm::Deltas);
        let commits = GroupCommit::new(
            redo,
            commit_log,
            logged,
            budget,
            (db.writer(), start),
            (latch.clone(), db.writer_queue().clone()),
        );
        Ok(Wal {
            path,
            frames: RwLock::new(frames),
            committed_since: AtomicUsize::new(0),
            commits,
            schema: AtomicU32::new(0),
            replaying: AtomicBool::new(false),
            replayed: Mutex::default(),
            has_left_pages: AtomicBool::new(false),
            flusher: Flusher::default(),
            checkpoint_trigger: CheckpointTrigger::default(),
            spilling: WalSpilling::default(),
            deltas: Mutex::default(),
            data: db.data().clone(),
        })
    }

    /// The redo log on the medium.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes, as SQLite sees it.
    pub fn bytes(&self) -> u64 {
        self.frames.read().len() as u64
    }

    /// Reads for SQLite; answers the bytes read.
    pub fn read(&self, db: &Db, buf: &mut [u8], offset: u64) -> Result<usize> {
        if offset == 0 && self.frames.read().has_freed() {
            // SQLite reads the header of its log only to recover it.
            self.rebuild_checksums(db)?;
        }
        Ok(self.frames.read().read(buf, position(offset, buf.len())?, &**db.data())?)
    }

    /// The schema cookie of the newest committed page 1.
    pub(crate) fn schema(&self) -> u32 {
        self.schema.load(Ordering::Acquire)
    }

    /// Rebuilds the checksums of a log that nobody uses, so that SQLite can read it from its beginning.
    pub fn rebuild_checksums(&self, db: &Db) -> Result<()> {
        self.frames.write().rebuild_checksums(&**db.data()).map(drop)
    }

    /// Takes a write of SQLite; answers the transaction that the write completes.
    pub(crate) fn write<T: SpillTarget>(
        &self,
        target: &Arc<T>,
        cache_size: &SqliteCacheSize,
        buf: &[u8],
        offset: u64,
    ) -> Result<Option<Transaction>> {
        let db = target.db();
        if offset == 0 {
            self.restart(db)?;
        }
        let offset = position(offset, buf.len())?;
        let mut frames = self.frames.write();
        match frames.awaits(buf, offset) {
            Some(true) => {
                if self.spilling.has_begun() {
                    drop(frames);
                    self.spilling.complete(&self.frames, target)?;
                    frames = self.frames.write();
                }
                frames.spill.check_complete()?;
            }
            Some(false) if frames.next_step() != SpillStep::GoOn => {
                drop(frames);
                // Replayed pages are on the medium already, and stay in memory until the replay ends.
                if !self.replaying.load(Ordering::Acquire) {
                    if !self.spilling.has_begun() {
                        self.commits.before_early_write(self.pages())?;
                    }
                    self.spilling.make_room(&self.frames, &self.commits, target)?;
                }
                frames = self.frames.write();
            }
            _ => {}
        }
        frames.set_cache_size(cache_size);
        let written = frames.write(buf, offset, &**db.data())?;
        if let WalWritten::Commit(transaction) = written {
            self.schema.store(frames.schema(), Ordering::Release);
            db.file_end().note_needed(frames.database_bytes());
            let numbers = frames.numbers(transaction.first..transaction.end);
            watchers::note(db, &frames, transaction);
            tier::note_commit(db, numbers, frames.page_bytes());
        }
        drop(frames);
        match written {
            WalWritten::Commit(transaction) => {
                self.committed_since.fetch_add(transaction.end - transaction.first, Ordering::Relaxed);
                if self.replaying.load(Ordering::Acquire) {
                    *self.replayed.lock() = Some(transaction);
                    return Ok(Some(transaction));
                }
                self.claim(db, transaction)?;
                Ok(Some(transaction))
            }
            WalWritten::TakenBack => Err(self.taken_back(db)),
            WalWritten::Part | WalWritten::Restart => Ok(None),
        }
    }

    /// Ends a transaction, before another one begins: discards its slots, and cuts off early writes that it did not commit.
    pub fn end_transaction(&self, db: &Db) {
        self.spilling.end(&self.frames, &self.commits, db);
    }

    /// Writes pages of the deltas that wait ahead of their materialization, while commits go on.
    pub fn write_ahead(&self) {
        self.commits.write_ahead(self.pages());
    }

    /// Materializes everything committed.
    pub fn log(&self, db: &Db, durability: Durability) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        self.commits.materialize(&self.frames, db, durability, false, (None, None))
    }

    /// Queues a transaction as deltas, under the write lock, and answers its LSN. `None` for a transaction that must be logged
    /// as pages. `wants_durability` raises the committed LSN.
    fn queue_deltas(&self, db: &Db, transaction: Transaction, wants_durability: bool) -> Option<u64> {
        let may_be_deltas = db.options().logs_deltas() && !db.shared().lacks_heir();
        if !may_be_deltas || transaction.end - transaction.first > MOST_FRAMES {
            return None;
        }
        let durability = if wants_durability { Durability::Durable } else { Durability::Buffered };
        let (payload, bytes) = {
            let frames = self.frames.read();
            let bytes = ((transaction.end - transaction.first) * frames.page_bytes()) as u64;
            if frames.has_spilled_pages(transaction)
                || !self.commits.takes_deltas(transaction, bytes, durability)
            {
                return None;
            }
            (self.deltas.lock().encode(&frames, &*self.data, transaction), bytes)
        };
        let Some(payload) = payload else {
            self.commits.note_refused(bytes);
            return None;
        };
        let one_block = payload.len() as u64 <= BLOCK_BYTES - RECORD_BYTES;
        let lsn = self.commits.enqueue_deltas(db, (payload, bytes), transaction, wants_durability)?;
        if wants_durability {
            // After the committed LSN, and before SQLite publishes the commit.
            db.shared().note_durability_wanted();
        }
        Stats::add(&db.counters().commits_deltas, 1);
        Stats::add(&db.counters().commits_one_block, u64::from(one_block));
        Some(lsn)
    }

    /// The pages of its commits.
    fn pages(&self) -> CommitPages<'_> {
        CommitPages { frames: &self.frames, data: &*self.data }
    }

    /// Logs a commit as pages, durably. After a failure the commit has not happened.
    pub fn log_commit(&self, db: &Db, transaction: Transaction) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        Stats::add(&db.counters().commits_pages, 1);
        let commit = Some(transaction);
        let materialized =
            self.commits.materialize(&self.frames, db, Durability::Durable, true, (commit, commit));
        materialized.inspect_err(|_| self.note_revoked(db))
    }

    /// Logs a commit that SQLite does not sync, as deltas or pages, before SQLite publishes it. A failure latches the
    /// database, and no connection sees the commit.
    pub(crate) fn log_completed(&self, db: &Db, transaction: Transaction) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(lsn) = self.queue_deltas(db, transaction, false) {
            return self.commits.write_out(self.pages(), lsn);
        }
        Stats::add(&db.counters().commits_pages, 1);
        let commit = (None, Some(transaction));
        let materialized = self.commits.materialize(&self.frames, db, Durability::Buffered, true, commit);
        materialized.inspect_err(|error| {
            db.latch().close(&error.to_string());
            self.note_revoked(db);
        })
    }

    /// Flushes soon, after SQLite has published a commit that is in the redo log.
    pub(crate) fn flush_logged(self: &Arc<Self>, db: &Db, wants_durability: bool) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) || !wants_durability {
            return Ok(());
        }
        self.flush_soon(db)
    }

    /// Notes the size that the database has without a commit that was revoked.
    fn note_revoked(&self, db: &Db) {
        db.shared().changed().take_back();
        db.file_end().note_needed(self.frames.read().database_bytes());
    }

    /// Claims space for a commit. A full disk fails here, while SQLite can still roll back.
    fn claim(&self, db: &Db, transaction: Transaction) -> Result<()> {
        let (page_bytes, needed) = {
            let frames = self.frames.read();
            (frames.page_bytes(), frames.frames_needed(transaction))
        };
        let claimed = self.commits.claim(&self.frames, page_bytes, transaction, needed);
        claimed.inspect_err(|_| self.note_revoked(db))
    }

    /// Waits until a queued transaction is durable.
    pub fn wait_durable(&self, lsn: u64) -> Result<()> {
        self.commits.wait_durable(self.pages(), lsn)
    }

    /// The same for a thread that keeps writers back meanwhile.
    pub fn wait_durable_at_once(&self, lsn: u64) -> Result<()> {
        self.commits.wait_durable_at_once(self.pages(), lsn)
    }

    /// Hands a queued transaction to the operating system, and flushes soon.
    pub fn write_out(self: &Arc<Self>, db: &Db, lsn: u64) -> Result<()> {
        self.commits.write_out(self.pages(), lsn)?;
        self.flush_soon(db)
    }

    /// True for a transaction with early writes, which must be logged before another writer begins.
    pub(crate) fn must_log_now(&self, transaction: Transaction) -> bool {
        self.frames.read().has_spilled_pages(transaction)
    }

    /// Logs a commit that SQLite has published, and not synced, as pages; `wants_durability` flushes soon. Two kinds of
    /// commits go this way: a connection's first unsynced commit, and, with `commit_log=statements`, one that falls back to
    /// pages. [`Wal::log_completed`] writes the others.
    pub(crate) fn log_unsynced(self: &Arc<Self>, db: &Db, wants_durability: bool) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        Stats::add(&db.counters().commits_pages, 1);
        let materialized =
            self.commits.materialize(&self.frames, db, Durability::Buffered, true, (None, None));
        materialized.inspect_err(|error| db.latch().close(&error.to_string()))?;
        self.flush_logged(db, wants_durability)
    }

    /// Makes a commit that was written, and all others until then, durable within `flush_interval_ms`.
    fn flush_soon(self: &Arc<Self>, db: &Db) -> Result<()> {
        let request = self.flusher.request(db.latch(), db.options().flush_interval, || {
            let wal = Arc::downgrade(self);
            // A failure has latched the database, which fails the next commit.
            move || wal.upgrade().map(|wal| wal.commits.flush()).is_some()
        });
        match request {
            FlushRequest::Begun | FlushRequest::Served => Ok(()),
            FlushRequest::NoThread => self.commits.flush(),
        }
    }

    /// Flushes now, when the last connection closes.
    pub fn finish(&self) {
        self.flusher.finish();
    }

    /// Closes the redo log, which has everything, durably. Another process may open it from now on.
    pub(crate) fn close(&self) {
        self.commits.close();
    }

    /// The LSN that a new reader must wait for.
    pub fn not_durable(&self) -> Option<u64> {
        self.commits.not_durable()
    }

    /// Its commits.
    #[cfg(test)]
    pub(crate) fn commits(&self) -> &GroupCommit {
        &self.commits
    }

    /// True where a sync takes long, so that it pays to let others wait for it together.
    pub fn is_long(&self) -> bool {
        self.commits.is_long()
    }

    /// Frames of the transactions that were completed.
    pub fn committed_frames(&self) -> u32 {
        self.frames.read().committed() as u32
    }

    /// Makes everything committed durable in the redo log, before the database file is written in place. So a power cut
    /// at `synchronous=OFF` costs transactions, and never the database.
    pub fn before_in_place(&self, db: &Db) -> Result<()> {
        let unlogged = self.commits.logged() < self.frames.read().committed();
        if unlogged || !self.commits.is_synced() { self.log(db, Durability::Durable) } else { Ok(()) }
    }

    /// Cuts the log, as SQLite asks.
    pub fn set_len(&self, db: &Db, len: u64) -> Result<()> {
        if len == 0 {
            self.restart(db)?;
        }
        self.frames.write().set_len(position(len, 0)?);
        Ok(())
    }

    /// True while commits wait as deltas.
    pub fn has_deltas(&self) -> bool {
        self.commits.has_deltas()
    }

    /// Materializes the deltas when the process exits, without waiting for anybody; `false` where another thread is at work on the logs.
    pub fn fold_at_exit(&self) -> bool {
        self.commits.try_fold(self.pages())
    }

    /// Leaves all commits in the redo log, which any program reads, when the last connection has closed and SQLite has made no checkpoint. It makes
    /// none where two connections close at once, and each meets the lock of the other. Another connection may be opened meanwhile, and commit.
    pub(crate) fn leave_as_pages(&self, db: &Db) -> Result<()> {
        let replays = self.replaying.load(Ordering::Acquire);
        if replays || self.commits.logged() >= self.frames.read().committed() {
            return Ok(());
        }
        // What waits in the commit log is durable before that is retired, in any case.
        self.log(db, Durability::Buffered)?;
        self.has_left_pages.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes the commit log where a last close has left nothing in it. Nobody can commit any more. A failure leaves a file that is void.
    pub(crate) fn remove_left_commit_log(&self) {
        if self.has_left_pages.load(Ordering::Acquire) {
            let _ = self.commits.delete_empty_commit_log();
        }
    }

    /// Removes the log, whose pages are all in the database file, or keeps it, void, for the next opening.
    pub fn delete(&self, db: &Db) -> Result<()> {
        self.end_transaction(db);
        db.sync_if_written()?;
        db.file_end().forget_kept();
        self.commits.delete(&self.frames, db)?;
        self.frames.write().set_len(0);
        Ok(())
    }

    /// Gives the logs their names again where they have stepped aside. True if the next opening finds the redo log at its name then.
    pub(crate) fn regain_name(&self) -> bool {
        // What waits for its replay stays where it is.
        self.replaying.load(Ordering::Acquire)
            || self.commits.step_back().is_ok() && self.commits.is_at_its_name().unwrap_or(false)
    }

    /// Gives the logs on the medium names of their own, when another database has taken the name of this one.
    pub fn step_aside(&self) -> Result<()> {
        self.commits.step_aside()
    }

    /// Gives them their names again, when this database has its own again.
    pub fn step_back(&self) -> Result<()> {
        self.commits.step_back()
    }

    /// Writes everything to the database file, and removes the log, when the last connection has closed and SQLite has
    /// made no checkpoint.
    pub fn checkpoint_and_delete(&self, db: &Db) -> Result<()> {
        self.end_transaction(db);
        self.before_in_place(db)?;
        db.file_end().forget_kept();
        self.commits.checkpoint_and_delete(&self.frames, db)
    }

    /// Restarts the logs, as SQLite restarts its own: the database file has all pages of the redo log.
    fn restart(&self, db: &Db) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            // The redo log is empty, and replayed commits must stay until the end of the replay.
            return Ok(());
        }
        self.end_transaction(db);
        self.before_in_place(db)?;
        db.sync_if_written()?;
        db.file_end().forget_kept();
        self.commits.restart(&self.frames, db)
    }

    /// Latches the database when SQLite takes back a transaction that is in a log already. SQLite does so for want of
    /// memory. The database shows the transaction when it is opened again, and takes no other one until then.
    fn taken_back(&self, db: &Db) -> Error {
        let reason = format!(
            "{}: SQLite took back a transaction that is in the log already; close every connection and open \
             the database again",
            db.path().display()
        );
        db.latch().close(&reason);
        Error::Io(reason)
    }
}

#[cfg(test)]
mod tests;

//! The write-ahead log of a database: in memory as SQLite sees it, on the medium as a redo log.
//!
//! # Why
//! SQLite appends whole pages to its `-wal` file, checksums them for itself, and reads them back from
//! there. Here that file is memory. What has to survive goes to the medium in the form that costs least:
//! the newest version of each page of a transaction, once, in one write into space that was written
//! before.
//!
//! | file | holds |
//! |---|---|
//! | `txn/wal_bytes.rs` | the bytes of SQLite's log |
//! | `txn/wal_frames.rs` | the frames in them, and the ends of transactions |
//! | `txn/wal_spill.rs` | a transaction that does not fit into memory |
//! | `txn/new_pages.rs` | its new pages, straight into the database file |
//! | `commit/group_commit.rs` | the queue of commits: as statements, or as pages |
//! | `commit/log_writer.rs` | both logs on the medium: records, and materializing into pages |
//! | `files/wal.rs` | SQLite's handle of the log |
//!
//! # What it promises
//! 1. A commit that SQLite syncs (`synchronous=FULL`) is durable when it returns to the application, and before
//!    anybody else sees what it changed.
//! 2. A commit that SQLite does not sync survives the process: it is with the operating system when the
//!    commit returns, and, as pages, before anybody sees it. At `synchronous=NORMAL` it is durable soon after.
//! 3. The database file is written in place only with pages that are in the redo log for good; behind its end
//!    also with pages that a commit in the redo log will make count.
//! 4. A commit that fails for want of space has not happened, and the database can go on.
//!
//! # Invariants
//! 1. `logged <= committed`; the newest versions of the pages in frames `0..logged` are in the redo log,
//!    or in the database file and synced, and then no version of them is in the redo log. Frames behind them belong to
//!    transactions in the commit log or in the queue.
//! 2. The redo log is voided only when SQLite restarts its log, which it does when every frame is in the
//!    database file, and after that file is synced.

use crate::capture::{Capture, Host};
use crate::commit::log_place::is_in_use;
use crate::db::Companion;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::memory::memory_file::position;
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::MakeSpill;
use crate::memory::sqlite_cache::SqliteCacheReservation;
use crate::memory::sqlite_cache::SqliteCacheSize;
use crate::notice;
use crate::stats::FallbackCause;
use crate::stats::Stats;
use crate::txn::SpillTarget;
use crate::txn::spill_policy::{SpillPolicy, SpillStep};
use crate::txn::spiller::RunningSpill;
use crate::txn::wal_frames::Transaction;

use crate::commit::group_commit::GroupCommit;
use crate::txn::wal_bytes::WalBytes;
use crate::txn::wal_frames::{WalFrames, WalWritten};
use crate::txn::wal_spill_state::FramePage;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::RwLock;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::worker::{Run, Worker};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Percent of a budget at which the log is written to the database file.
const FILL_PERCENT: u64 = 75;
/// Bytes of the log in memory below which it is left alone.
const LEAST_LIMIT: usize = 64 << 10;

/// The log of one database.
pub struct Wal {
    path: PathBuf,
    frames: RwLock<WalFrames>,
    commits: GroupCommit,
    /// The schema cookie of the newest page 1 that was committed.
    schema: AtomicU32,
    /// Whether commits must not reach the medium: they are being replayed from it.
    replaying: AtomicBool,
    /// Who makes durable soon what was committed at `synchronous=NORMAL`.
    flush: Arc<Worker>,
    /// Bytes at which the log is tried to be emptied again, after readers were in the way.
    limit: AtomicUsize,
    /// Whether a spill was begun in the transaction that is under way.
    spills: AtomicBool,
}

impl Wal {
    /// The log of a database, with what is on the medium.
    pub fn open(db: &Db, make_spill: MakeSpill) -> Result<Wal> {
        let path = db.companion_path(Companion::Wal);
        let latch = db.latch();
        let (medium, data) = (db.medium().clone(), db.data_file());
        let redo = RedoLog::open_of(medium, &path, latch.clone(), data).map_err(|error| {
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
        let statements = CommitLog::open(db.medium().clone(), &db.commit_log_path(), latch.clone())?;
        let options = db.options();
        let bytes =
            WalBytes::new(MemoryReservation::new(db.memory().share()), db.memory().wal_bytes(), make_spill);
        let cache = SqliteCacheReservation::new(db.memory().share());
        let policy = SpillPolicy::new(options.page_cleaner, options.max_dirty_ratio);
        let frames = WalFrames::load(bytes, cache, policy, &redo.read_all()?, &**db.data())?;
        db.file_end().note_needed(frames.database_bytes());
        let (logged, budget) = (frames.committed(), options.commit_log_size);
        let commits = GroupCommit::new(redo, statements, logged, budget, db.writer(), latch.clone());
        Ok(Wal {
            path,
            frames: RwLock::new(frames),
            commits,
            schema: AtomicU32::new(0),
            replaying: AtomicBool::new(false),
            flush: Arc::default(),
            limit: AtomicUsize::new(0),
            spills: AtomicBool::new(false),
        })
    }

    /// Where it lies on the medium.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes, as SQLite sees it.
    pub fn bytes(&self) -> u64 {
        self.frames.read().len() as u64
    }

    /// Reads what SQLite asks for; returns the bytes read.
    pub fn read(&self, db: &Db, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.frames.read().read(buf, position(offset, buf.len())?, &**db.data())?)
    }

    /// Bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        let frames = self.frames.read().memory_bytes();
        frames + self.commits.memory_bytes()
    }

    /// Shows how full it is, in memory and as a commit log.
    pub(crate) fn note_fill(&self, stats: &Stats) {
        Stats::set(&stats.commit_log_bytes, self.commits.commit_log_bytes());
        Stats::set(&stats.wal_bytes, self.bytes());
    }

    /// What changes whenever the schema does.
    pub(crate) fn schema(&self) -> u32 {
        self.schema.load(Ordering::Acquire)
    }

    /// Makes the log one that SQLite can read from its beginning; nobody uses it.
    pub fn rebuild_checksums(&self, db: &Db) -> Result<()> {
        self.frames.write().rebuild_checksums(&**db.data())
    }

    /// Takes what SQLite writes; answers the transaction that it completes.
    pub(crate) fn write<T: SpillTarget>(
        &self,
        target: &Arc<T>,
        cache_size: &SqliteCacheSize,
        buf: &[u8],
        offset: u64,
    ) -> Result<Option<Transaction>> {
        let db = target.db();
        if offset == 0 {
            self.reset(db)?;
        }
        let offset = position(offset, buf.len())?;
        let mut frames = self.frames.write();
        match frames.awaits(buf, offset) {
            Some(true) => {
                if self.spills.load(Ordering::Acquire) {
                    drop(frames);
                    self.settle(db)?;
                    self.write_rest(target)?;
                    frames = self.frames.write();
                }
                frames.check_complete()?;
            }
            Some(false) if frames.next_step() != SpillStep::GoOn => {
                drop(frames);
                self.make_room(target)?;
                frames = self.frames.write();
            }
            _ => {}
        }
        frames.set_cache_size(cache_size);
        let written = frames.write(buf, offset, &**db.data())?;
        if let WalWritten::Commit(_) = written {
            self.schema.store(frames.schema(), Ordering::Release);
            db.file_end().note_needed(frames.database_bytes());
        }
        drop(frames);
        match written {
            WalWritten::Commit(transaction) => {
                self.claim(db, transaction)?;
                Ok(Some(transaction))
            }
            WalWritten::TakenBack => Err(self.taken_back(db)),
            WalWritten::Part | WalWritten::Restart => Ok(None),
        }
    }

    /// A large transaction needs memory for one page more.
    fn make_room<T: SpillTarget>(&self, target: &Arc<T>) -> Result<()> {
        let db = target.db();
        // What is replayed is on the medium already, and must stay in memory until its end.
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        loop {
            let step = self.frames.read().next_step();
            let SpillStep::Spill { in_background, for_good } = step else {
                if step == SpillStep::GoOn {
                    return Ok(());
                }
                self.settle(db)?;
                continue;
            };
            if !self.frames.read().knows_new() {
                let file_bytes = db.file_len()?;
                self.frames.write().find_new(file_bytes);
            }
            let Some(pages) = self.frames.write().colder_half() else { return Ok(()) };
            self.spills.store(true, Ordering::Release);
            let (unplaced, first) = self.frames.read().unplaced(&pages);
            if !unplaced.is_empty() {
                let slots = self.commits.reserve_slots(&self.frames, db, first, unplaced.len())?;
                self.frames.write().give_slots(&unplaced, slots);
            }
            self.begin_spill(target, pages, in_background, for_good);
        }
    }

    fn begin_spill<T: SpillTarget>(
        &self,
        target: &Arc<T>,
        pages: Vec<FramePage>,
        in_background: bool,
        for_good: bool,
    ) {
        let (job, until) = {
            let mut frames = self.frames.write();
            (frames.job(&pages, for_good), frames.writes)
        };
        // Others read the log meanwhile.
        let running = RunningSpill::begin(job, target, in_background);
        self.frames.write().begin_spill(running, pages, until);
    }

    /// A transaction is about to end. Where pages of it are in the database file, the others that can go there do so now: a
    /// full disk is met while SQLite can still take it back.
    fn write_rest<T: SpillTarget>(&self, target: &Arc<T>) -> Result<()> {
        let rest = self.frames.read().last_new_pages();
        if rest.is_empty() {
            return Ok(());
        }
        self.begin_spill(target, rest, false, false);
        self.settle(target.db())
    }

    /// Waits for the spill that is under way, if one is.
    fn settle(&self, db: &Db) -> Result<()> {
        let Some(batch) = self.frames.write().take_spill() else { return Ok(()) };
        let result = batch.wait(db);
        self.frames.write().end_spill(batch, result)
    }

    /// The transaction that was under way is over, and nobody else has begun one: what it wrote ahead and did not commit is
    /// gone.
    pub fn end_transaction(&self, db: &Db) {
        if !self.spills.load(Ordering::Acquire) && !db.file_end().is_written_behind() {
            return;
        }
        // Whether it has failed is of no interest any more.
        let _ = self.settle(db);
        if self.frames.read().has_idle_slots() {
            self.commits.discard_slots();
        }
        self.frames.write().end_large();
        self.spills.store(false, Ordering::Release);
        db.file_end().cut_behind(0);
    }

    /// Brings everything committed into the redo log.
    pub fn log(&self, db: &Db, durability: Durability) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        self.commits.materialize(&self.frames, db, durability, false, (None, None))
    }

    /// A transaction commits, and the write lock is held. Answers its number if it was queued as statements, to
    /// be waited for; else it must be written as pages. `promise` says that it will be durable.
    pub(crate) fn queue<H: Host>(
        &self,
        db: &Db,
        capture: Option<&Arc<Capture<H>>>,
        transaction: Transaction,
        promise: bool,
    ) -> Option<u64> {
        if self.replaying.load(Ordering::Acquire) || !db.options().logs_statements() {
            return None;
        }
        let queued = match capture {
            // Some of its pages are not to be had from memory.
            _ if self.frames.read().has_spilled_pages(transaction) => Err(FallbackCause::Large),
            Some(capture) => capture.take(self.commits.next_lsn()),
            None => Err(FallbackCause::Untracked),
        };
        let page_bytes = self.frames.read().page_bytes();
        let queued =
            queued.and_then(|captured| self.commits.enqueue(captured, transaction, page_bytes, promise));
        match queued {
            Ok(number) => {
                if promise {
                    // Behind what `not_durable` looks at, and before SQLite publishes the commit.
                    db.shared().note_durability_wanted();
                }
                Stats::add(&db.counters().commits_statements, 1);
                Some(number)
            }
            Err(cause) => {
                if !matches!(cause, FallbackCause::Mixed | FallbackCause::LogFull) {
                    self.commits.note_pages();
                }
                db.counters().add_fallback(cause);
                None
            }
        }
    }

    /// Writes a commit as pages, durably; if that fails, it has not happened.
    pub fn log_commit(&self, db: &Db, transaction: Transaction) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        Stats::add(&db.counters().commits_pages, 1);
        let commit = Some(transaction);
        let materialized =
            self.commits.materialize(&self.frames, db, Durability::Durable, true, (commit, commit));
        materialized.inspect_err(|_| self.note_taken_back(db))
    }

    /// Writes a commit that SQLite does not sync as pages, before it is published; if that fails, nobody sees it, and nothing
    /// is built on top of it until the database is opened again.
    pub(crate) fn log_completed(&self, db: &Db, transaction: Transaction) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        Stats::add(&db.counters().commits_pages, 1);
        let commit = (None, Some(transaction));
        let materialized = self.commits.materialize(&self.frames, db, Durability::Buffered, true, commit);
        materialized.inspect_err(|error| {
            db.latch().close(&error.to_string());
            self.note_taken_back(db);
        })
    }

    /// A commit that was written as soon as it was complete is published: makes it durable soon.
    pub(crate) fn flush_logged(self: &Arc<Self>, db: &Db, committed_lsn: bool) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) || !committed_lsn {
            return Ok(());
        }
        self.flush_soon(db, self.commits.next_lsn() - 1)
    }

    /// A commit was taken back: what was committed before it counts.
    fn note_taken_back(&self, db: &Db) {
        db.file_end().note_needed(self.frames.read().database_bytes());
    }

    /// A full disk is met here, where SQLite can still take the commit back, and not when it has published it.
    fn claim(&self, db: &Db, transaction: Transaction) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        let (page_bytes, needed) = {
            let frames = self.frames.read();
            (frames.page_bytes(), frames.frames_needed(transaction))
        };
        let claimed = self.commits.claim(&self.frames, page_bytes, transaction, needed);
        claimed.inspect_err(|_| self.note_taken_back(db))
    }

    /// Waits until a queued transaction is durable.
    pub fn wait_durable(&self, number: u64) -> Result<()> {
        self.commits.wait_durable(number)
    }

    /// Sees to it that a queued transaction survives the process, and is durable soon after.
    pub fn write_out(self: &Arc<Self>, db: &Db, number: u64) -> Result<()> {
        self.commits.write_out(number)?;
        self.flush_soon(db, number)
    }

    /// Whether pages of a transaction that was completed were written early, and count only once it is logged: before
    /// anybody else writes.
    pub(crate) fn must_log_now(&self, transaction: Transaction) -> bool {
        self.frames.read().has_spilled_pages(transaction)
    }

    /// Writes a commit that SQLite has published, and not synced, as pages, so that it survives the process; where it is to be
    /// durable soon, that is seen to. Only the first commit of a connection goes this way that has not said by a PRAGMA that
    /// SQLite is to sync none; the others were written by [`Wal::log_completed`].
    pub(crate) fn log_unsynced(self: &Arc<Self>, db: &Db, committed_lsn: bool) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            return Ok(());
        }
        Stats::add(&db.counters().commits_pages, 1);
        let materialized =
            self.commits.materialize(&self.frames, db, Durability::Buffered, true, (None, None));
        materialized.inspect_err(|error| db.latch().close(&error.to_string()))?;
        self.flush_logged(db, committed_lsn)
    }

    /// Makes a commit durable within the window of `synchronous=NORMAL`, and all others until then with it.
    fn flush_soon(self: &Arc<Self>, db: &Db, number: u64) -> Result<()> {
        let Some(claim) = self.flush.claim() else { return Ok(()) };
        let (wal, window) = (self.clone(), db.options().flush_interval);
        let work = move |run: &mut Run<()>| {
            // GroupCommit from the end of the pause on need another run.
            run.pause(window);
            // A failure has latched the database, and is met there.
            let _ = wal.wait_for_all();
        };
        if claim.start("litefoot-flush", db.latch(), work).is_err() {
            return self.commits.wait_durable(number);
        }
        Ok(())
    }

    /// The last connection goes: makes durable now what was to be so soon. Nobody uses the log afterwards.
    pub fn finish(&self) {
        let _ = self.flush.finish();
    }

    /// Another process may have the log on the medium from now on; everything is in there, for good.
    pub(crate) fn close(&self) {
        self.commits.close();
    }

    /// The commit that a reader who starts now must wait for.
    pub fn not_durable(&self) -> Option<u64> {
        self.commits.not_durable()
    }

    /// Whether it should be materialized or written to the database file.
    pub fn wants_checkpoint(&self, db: &Db) -> bool {
        self.commits.fill_percent() > FILL_PERCENT || self.is_large(db)
    }

    /// Whether it should be written to the database file.
    pub fn is_large(&self, db: &Db) -> bool {
        let limit = (db.memory().wal_bytes() / 100 * FILL_PERCENT as usize).max(LEAST_LIMIT);
        self.frames.read().len() > limit.max(self.limit.load(Ordering::Relaxed))
    }

    /// It was written to the database file, as far as readers let it.
    pub fn checkpoint_done(&self, db: &Db) {
        let len = self.frames.read().len();
        let next = if len < LEAST_LIMIT { 0 } else { len + db.memory().wal_bytes() / 4 };
        self.limit.store(next, Ordering::Relaxed);
        self.note_fill(db.counters());
    }

    /// Waits until everything queued so far is durable.
    pub fn wait_for_all(&self) -> Result<()> {
        self.commits.wait_durable(self.commits.next_lsn() - 1)
    }

    /// The database file is about to be written in place: what is committed must be in the redo log first, for
    /// good. So even `synchronous=OFF` costs transactions at a power cut, and never the database.
    pub fn before_in_place(&self, db: &Db) -> Result<()> {
        let unlogged = self.commits.logged() < self.frames.read().committed();
        if unlogged || !self.commits.is_synced() { self.log(db, Durability::Durable) } else { Ok(()) }
    }

    /// Begins to replay, or ends it: then everything replayed is written to the redo log at once.
    pub(crate) fn set_replaying(&self, db: &Db, replaying: bool) -> Result<()> {
        self.replaying.store(replaying, Ordering::Release);
        if replaying {
            return Ok(());
        }
        self.commits.make_spare_room()?;
        self.log(db, Durability::Durable)
    }

    /// Cuts the log, as SQLite asks.
    pub fn set_len(&self, db: &Db, len: u64) -> Result<()> {
        if len == 0 {
            self.reset(db)?;
        }
        self.frames.write().set_len(position(len, 0)?);
        Ok(())
    }

    /// Removes the log: everything is in the database file. The reference connection is closed: it would keep the wal-index
    /// alive, which the next log must not find.
    pub fn delete(&self, db: &Db) -> Result<()> {
        self.end_transaction(db);
        db.sync_if_written()?;
        db.file_end().forget_kept();
        self.commits.delete(&self.frames)?;
        self.frames.write().set_len(0);
        Ok(())
    }

    /// Another database has taken the name of this one: the logs on the medium get names of their own.
    pub fn step_aside(&self) -> Result<()> {
        self.commits.step_aside()
    }

    /// The last connection is closed, and SQLite has made no checkpoint: writes everything into the database file, and
    /// removes the log.
    pub fn bring_home(&self, db: &Db) -> Result<()> {
        self.end_transaction(db);
        self.before_in_place(db)?;
        db.file_end().forget_kept();
        self.commits.checkpoint_and_delete(&self.frames, db)
    }

    /// SQLite restarts its log: what the redo log holds is in the database file.
    fn reset(&self, db: &Db) -> Result<()> {
        if self.replaying.load(Ordering::Acquire) {
            // The redo log was void already, and what waits for the end of the replay must stay.
            return Ok(());
        }
        self.end_transaction(db);
        self.before_in_place(db)?;
        db.sync_if_written()?;
        db.file_end().forget_kept();
        self.commits.restart(&self.frames, db)
    }

    /// A transaction that could not be published, for want of memory, is in a log already. Nothing may
    /// be built on top of it until the database is opened again, and then it is there.
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

//! Commits: how they reach the medium, several at a time.
//!
//! # A commit's way
//! A writer that holds SQLite's write lock puts its transaction into the queue, as statements, and goes on: the
//! lock is dropped, and the next writer begins. Only then does it wait until its transaction is durable. The
//! first who waits writes everything that is in the queue, with one sync; those who come meanwhile find it
//! done, or do the same for the next lot. Where several have committed during the last sync, the one who is to
//! write waits a moment for all of them to come again ([`CommitDelay`]). A transaction that cannot be logged as statements is written as
//! pages while the lock is held, with all pages that statements before it have changed: it is *materialized* (see `media`).
//!
//! # Invariants
//! 1. Transactions are numbered in the order of their commits. `committed_lsn` and `durable` only grow.
//! 2. The lock of `media` is taken before that of `queue`, and both before that of the frames.
//! 3. A failure to write what SQLite has published latches the database. So does a panic of whoever writes, before
//!    anybody else gets at what it leaves.
//! 4. A transaction is queued as statements only behind one that is in a log or in the queue. At `synchronous=NORMAL` and
//!    `OFF` pages are written when the lock has been dropped: until then a log of statements from behind them would be replayed
//!    upon a database without them.

use crate::capture::encoding::{Captured, MOST_TIME};
use crate::commit::log_writer::{Media, Pending};
use crate::commit::rollback_log::copy_in_place;
use crate::db::{Db, tier};
use crate::error::Result;
use crate::stats::FallbackCause;
use crate::txn::wal_bytes::Spilled;
use crate::txn::wal_frames::{Frames, Transaction};
use crate::txn::wal_spill_state::Leaving;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::Writer;
use litefoot_storage::file::SyncLatch;
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::{Mutex, MutexGuard, RwLock};
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::Slots;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Bytes of the commit log kept for what announces a materialization, and for what records are rounded up by.
const SPARE_BYTES: u64 = 128;
/// Why nothing is written any more after a panic.
const PANICKED: &str = "an internal error has interrupted a commit (please report it)";
/// Most transactions that are written as pages although they could be replayed, after others that could not.
const MOST_MIXED: u32 = 256;
/// Transactions logged as statements after which the mixture is forgotten.
const STATEMENTS_TO_FORGIVE: u32 = 64;

/// Longest time for which a commit waits for others to come along, and of the time a sync takes.
const MAX_COMMIT_DELAY: Duration = Duration::from_micros(100);
const COMMIT_DELAY_SHARE: u32 = 2;
/// Commits that do not wait after one has waited in vain.
const MOST_ALONE: u32 = 16;

/// Commits of one database.
pub(crate) struct Commits {
    media: Mutex<Media>,
    queue: Mutex<Queue>,
    /// The newest transaction that somebody was promised, and the newest that is durable.
    committed_lsn: AtomicU64,
    durable: AtomicU64,
    statement_bytes: u64,
    latch: Arc<SyncLatch>,
    /// Where the statements are written.
    path: PathBuf,
}

#[derive(Default)]
struct Queue {
    /// Number of the last transaction that was queued or written.
    published: u64,
    pending: Vec<Pending>,
    /// Whether somebody is writing.
    has_leader: bool,
    /// Threads that wait for that one to end. They are woken all at once, and not one through the other.
    waiting: Vec<Thread>,
    /// As in `Media`.
    logged: usize,
    /// Frames whose pages are in the redo log, or whose statements are in their log or in the queue.
    taken: usize,
    generation: u64,
    /// Whether nothing in the redo log waits for a sync.
    synced: bool,
    /// Whether the commit log is ready for records, and up to where.
    ready: bool,
    room: u64,
    /// Where the records in it and in the queue end, at most.
    used: u64,
    /// How long their transactions took.
    took: Duration,
    /// Frames of SQLite's log for which there is space in the redo log, should they be materialized.
    claimed: usize,
    log_form_backoff: LogFormBackoff,
    commit_delay: CommitDelay,
}

/// How many commits are worth waiting for before a sync, which then serves them all.
#[derive(Default)]
struct CommitDelay {
    /// Transactions that were written by the last sync or came during it.
    followers: usize,
    /// How long that took.
    sync: Duration,
    /// Commits that are not to wait.
    alone: u32,
}

impl CommitDelay {
    /// How long the next sync may be put off for more than `pending` transactions.
    fn longest_wait(&mut self, pending: usize) -> Option<Duration> {
        if pending >= self.followers {
            return None;
        }
        if self.alone > 0 {
            self.alone -= 1;
            return None;
        }
        Some((self.sync / COMMIT_DELAY_SHARE).min(MAX_COMMIT_DELAY))
    }

    /// Nobody came.
    fn miss(&mut self) {
        self.alone = MOST_ALONE;
    }
}

/// Whether statements pay: each switch between statements and pages costs two syncs.
#[derive(Default)]
struct LogFormBackoff {
    /// Transactions to be written as pages after the next that must be.
    backoff: u32,
    /// Those still to come.
    left: u32,
    /// Transactions logged as statements since.
    statements_in_a_row: u32,
}

impl LogFormBackoff {
    /// A transaction had to be written as pages while statements were in the log.
    fn meet_pages(&mut self) {
        self.left = self.backoff;
        self.backoff = (self.backoff * 2).clamp(1, MOST_MIXED);
        self.statements_in_a_row = 0;
    }

    /// Whether one that could be replayed is better written as pages.
    fn prefers_pages(&mut self) -> bool {
        let pages = self.left > 0;
        self.left -= u32::from(pages);
        self.statements_in_a_row += u32::from(!pages);
        if self.statements_in_a_row > STATEMENTS_TO_FORGIVE {
            self.backoff = 0;
        }
        pages
    }
}

impl Commits {
    pub fn new(
        redo: RedoLog,
        statements: CommitLog,
        logged: usize,
        statement_bytes: usize,
        writer: Writer,
        latch: Arc<SyncLatch>,
    ) -> Commits {
        let path = statements.path().to_owned();
        let media = Media::new(redo, statements, logged, writer);
        Commits {
            media: Mutex::new(media),
            queue: Mutex::new(Queue { logged, taken: logged, ..Queue::default() }),
            committed_lsn: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            statement_bytes: statement_bytes as u64,
            latch,
            path,
        }
    }

    /// Closes the log on the medium.
    pub fn close(&self) {
        self.media.lock().redo.close();
    }

    /// The number that the next transaction will have.
    pub fn next(&self) -> u64 {
        self.queue.lock().published + 1
    }

    /// The newest transaction that was promised to be durable and is not yet.
    pub fn not_durable(&self) -> Option<u64> {
        let committed_lsn = self.committed_lsn.load(Ordering::Acquire);
        (committed_lsn > self.durable.load(Ordering::Acquire)).then_some(committed_lsn)
    }

    /// How full the commit log is, in percent.
    pub fn fill(&self) -> u64 {
        self.queue.lock().used * 100 / self.statement_bytes.max(1)
    }

    /// Bytes of the commit log that are in use, or will be.
    pub fn commit_log_bytes(&self) -> u64 {
        self.queue.lock().used
    }

    /// Bytes of memory it takes, about.
    pub fn memory_bytes(&self) -> usize {
        let media = self.media();
        let texts: usize = media.texts.keys().map(|text| text.sql.len() + 64).sum();
        texts + media.redo.memory_bytes() + media.statements.memory_bytes()
    }

    /// Queues a transaction whose frames are `frames` and whose pages take `page_bytes` each. The caller holds
    /// the write lock.
    pub fn enqueue(
        &self,
        captured: Captured,
        transaction: Transaction,
        page_bytes: usize,
        promise: bool,
    ) -> std::result::Result<u64, FallbackCause> {
        let bytes = captured.bytes();
        if bytes > (transaction.end - transaction.first) * page_bytes {
            return Err(FallbackCause::Size);
        }
        let mut queue = self.queue.lock();
        if transaction.first > queue.taken {
            return Err(FallbackCause::Mixed);
        }
        if queue.took + captured.took > MOST_TIME {
            return Err(FallbackCause::Size);
        }
        if queue.log_form_backoff.prefers_pages() {
            return Err(FallbackCause::Mixed);
        }
        let needed = bytes as u64 + SPARE_BYTES;
        if !queue.ready || queue.used + needed > queue.room || transaction.end > queue.claimed {
            drop(queue);
            self.prepare(page_bytes, needed, transaction.end)?;
            queue = self.queue.lock();
        }
        queue.published += 1;
        let number = queue.published;
        queue.taken = queue.taken.max(transaction.end);
        // Where a materialization has taken the frames already, they are in the redo log.
        if transaction.end > queue.logged {
            queue.used += bytes as u64;
            queue.took += captured.took;
            let generation = queue.generation;
            queue.pending.push(Pending { number, generation, end: transaction.end, captured });
        }
        if promise {
            self.committed_lsn.fetch_max(number, Ordering::AcqRel);
        }
        Ok(number)
    }

    /// Makes the commit log ready for `needed` more bytes, and sees to it that a full disk is met by a commit and
    /// not by the materialization that comes after it: there is space for all frames up to `end`.
    fn prepare(&self, page_bytes: usize, needed: u64, end: usize) -> std::result::Result<(), FallbackCause> {
        let mut media = self.media();
        let used = self.queue.lock().used.max(media.statements.bytes());
        if used + needed > self.statement_bytes {
            return Err(FallbackCause::LogFull);
        }
        let room = (used + needed).max(media.statements.room());
        let needed_frames = end.saturating_sub(media.logged);
        let claimed = media
            .ready(page_bytes, room)
            .and_then(|()| media.claim(page_bytes, end, needed_frames))
            .map_err(|_| FallbackCause::Unavailable)?;
        let mut queue = self.queue.lock();
        queue.claimed = claimed;
        queue.ready = true;
        queue.room = media.statements.room().min(self.statement_bytes);
        queue.used = queue.used.max(media.statements.bytes());
        Ok(())
    }

    /// Waits until a transaction is durable; the first who waits sees to it.
    pub fn wait_durable(&self, number: u64) -> Result<()> {
        self.settle(number, Durability::Durable)
    }

    /// Sees to it that transactions survive the process.
    pub fn write_out(&self, number: u64) -> Result<()> {
        self.settle(number, Durability::Buffered)
    }

    fn settle(&self, number: u64, durability: Durability) -> Result<()> {
        loop {
            if self.durable.load(Ordering::Acquire) >= number {
                return Ok(());
            }
            let mut queue = self.queue.lock();
            if queue.has_leader {
                queue.waiting.push(std::thread::current());
                drop(queue);
                std::thread::park();
                continue;
            }
            if durability == Durability::Buffered
                && queue.pending.first().is_none_or(|first| first.number > number)
            {
                // Whoever took it along may have failed.
                return Ok(self.latch.check(&self.path)?);
            }
            queue.has_leader = true;
            let leads = Leader(self);
            if durability == Durability::Durable {
                queue = self.await_followers(queue);
            }
            let (batch, up_to) = (std::mem::take(&mut queue.pending), queue.published);
            drop(queue);
            let (written, begun) = (batch.len(), Instant::now());
            let result = self.write(batch, durability);
            if result.is_ok() && durability == Durability::Durable {
                self.durable.fetch_max(up_to, Ordering::AcqRel);
            }
            let mut queue = self.queue.lock();
            if durability == Durability::Durable {
                queue.commit_delay.followers = written + queue.pending.len();
                queue.commit_delay.sync = begun.elapsed();
            }
            drop(queue);
            drop(leads);
            result?;
        }
    }

    /// The logs. They are latched should whoever has them panic.
    fn media(&self) -> Locked<'_> {
        Locked { latch: &self.latch, media: self.media.lock() }
    }

    /// Lets those come who committed during the last sync, too.
    fn await_followers<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let pending = queue.pending.len();
        let Some(longest_wait) = queue.commit_delay.longest_wait(pending) else { return queue };
        let begun = Instant::now();
        while queue.pending.len() < queue.commit_delay.followers {
            if begun.elapsed() >= longest_wait {
                if queue.pending.len() == pending {
                    queue.commit_delay.miss();
                }
                break;
            }
            drop(queue);
            std::thread::yield_now();
            queue = self.queue.lock();
        }
        queue
    }

    /// Writes transactions of the queue.
    fn write(&self, mut batch: Vec<Pending>, durability: Durability) -> Result<()> {
        let mut media = self.media();
        let media = &mut *media;
        // Whoever failed before took transactions along that others wait for.
        self.latch.check(&self.path)?;
        // What a materialization has taken meanwhile is in the redo log.
        batch.retain(|pending| pending.generation == media.generation && pending.end > media.logged);
        let result = media.append(&batch).and_then(|records| match durability {
            _ if !records.is_empty() => media.statements.append(&records, durability),
            Durability::Durable => media.statements.sync(),
            Durability::Buffered => Ok(()),
        });
        let result = match durability {
            Durability::Durable => result.and_then(|()| media.redo.sync()),
            Durability::Buffered => result,
        };
        Ok(result.inspect_err(|error| self.latch.close(&error.to_string()))?)
    }

    /// Writes all that is committed as pages. `commit` is the last transaction, where its new pages may go ahead now.
    /// Numbers a transaction if one is `counted`. One that is `unpublished` is taken back if that fails, before anybody else
    /// can write it.
    pub fn materialize(
        &self,
        frames: &RwLock<Frames>,
        db: &Db,
        durability: Durability,
        counted: bool,
        (commit, unpublished): (Option<Transaction>, Option<Transaction>),
    ) -> Result<()> {
        let mut media = self.media();
        let published = self.queue.lock().published;
        let materialized = media.materialize(&frames.read(), db, durability, commit);
        let (end, late, has_slots) = materialized.inspect_err(|_| {
            if let Some(transaction) = unpublished {
                self.take_back(&media, frames, transaction);
            }
        })?;
        if !late.is_empty() || has_slots {
            let mut frames = frames.write();
            frames.slots_logged();
            let there = |leaving: Leaving| (leaving.frame, Spilled::Database(leaving.page_number));
            frames.mark_spilled(late.into_iter().map(there));
        }
        let mut queue = self.queue.lock();
        queue.pending.retain(|pending| pending.end > end);
        queue.logged = end;
        queue.taken = queue.taken.max(end);
        queue.synced = media.redo.is_synced();
        queue.published += u64::from(counted);
        if durability == Durability::Durable {
            self.durable.fetch_max(published + u64::from(counted), Ordering::AcqRel);
        }
        queue.begin_log(&media);
        queue.wake();
        Ok(())
    }

    /// Takes a commit back that could not be written, unless somebody else has written it already.
    fn take_back(&self, media: &Media, frames: &RwLock<Frames>, transaction: Transaction) {
        if media.logged <= transaction.first {
            // Its frames will be others, of which more may go to the redo log.
            self.queue.lock().claimed = 0;
            frames.write().revoke(transaction);
        }
    }

    /// Sees to it that there is space in the redo log for all frames of SQLite's log up to the end of a transaction that takes
    /// `needed` frames there; else the transaction is taken back.
    pub fn claim(
        &self,
        frames: &RwLock<Frames>,
        page_bytes: usize,
        transaction: Transaction,
        needed: usize,
    ) -> Result<()> {
        let Transaction { first, end } = transaction;
        if end <= self.queue.lock().claimed && needed <= end - first {
            return Ok(());
        }
        let mut media = self.media();
        let before = first.saturating_sub(media.logged);
        let needed = if media.logged < end { before + needed } else { 0 };
        let claimed = media.claim(page_bytes, end, needed);
        let claimed = claimed.inspect_err(|_| self.take_back(&media, frames, transaction))?;
        self.queue.lock().claimed = claimed;
        Ok(())
    }

    /// Room in the redo log for `count` pages of the transaction that is under way, from the slot `first`.
    pub fn reserve_slots(
        &self,
        frames: &RwLock<Frames>,
        db: &Db,
        first: usize,
        count: usize,
    ) -> Result<Slots> {
        if first == 0 {
            self.materialize(frames, db, Durability::Buffered, false, (None, None))?;
        }
        let page_bytes = frames.read().page_bytes() as u32;
        Ok(self.media().redo.reserve_slots(page_bytes, first as u32, count as u32)?)
    }

    /// Gives them back.
    pub fn discard_slots(&self) {
        self.media().redo.discard_slots();
    }

    /// A transaction had to be written as pages.
    pub fn meet_pages(&self) {
        let mut queue = self.queue.lock();
        if queue.ready {
            queue.log_form_backoff.meet_pages();
        }
    }

    /// SQLite restarts its log; everything is in the database file, and that is synced.
    pub fn reset(&self, frames: &RwLock<Frames>, db: &Db) -> Result<()> {
        self.leave(frames, |media| {
            if tier::is_awaited(db) {
                return media.move_to_tier(db);
            }
            media.statements.retire();
            media.statements.sync()?;
            media.redo.reset();
            Ok(())
        })
    }

    /// Gives both logs names of their own.
    pub fn step_aside(&self) -> Result<()> {
        let mut media = self.media.lock();
        media.redo.step_aside()?;
        Ok(media.statements.step_aside()?)
    }

    /// Everything committed is in the redo log: copies it to the database file, and removes both logs.
    pub fn bring_home(&self, frames: &RwLock<Frames>, db: &Db) -> Result<()> {
        self.leave(frames, |media| {
            if !media.redo.is_empty() {
                let numbers: Vec<u32> = media.redo.page_numbers().collect();
                copy_in_place(db, &media.redo, None, &numbers)?;
            }
            db.sync()?;
            media.statements.delete()?;
            Ok(media.redo.delete()?)
        })
    }

    /// Everything is in the database file, and that is synced: removes both logs.
    pub fn delete(&self, frames: &RwLock<Frames>) -> Result<()> {
        self.leave(frames, |media| {
            media.statements.delete()?;
            Ok(media.redo.delete()?)
        })
    }

    fn leave(&self, frames: &RwLock<Frames>, end: impl FnOnce(&mut Media) -> Result<()>) -> Result<()> {
        let mut media = self.media();
        end(&mut media)?;
        // Before anybody can materialize them once more.
        frames.write().reset();
        media.logged = 0;
        media.generation += 1;
        media.texts.clear();
        let mut queue = self.queue.lock();
        queue.pending.clear();
        (queue.logged, queue.taken, queue.claimed) = (0, 0, 0);
        queue.generation = media.generation;
        queue.synced = media.redo.is_synced();
        self.durable.fetch_max(queue.published, Ordering::AcqRel);
        queue.begin_log(&media);
        queue.wake();
        Ok(())
    }

    /// Makes room in a commit log that was replayed, for what announces the materialization.
    pub fn make_spare_room(&self) -> Result<()> {
        let statements = &mut self.media().statements;
        let end = statements.bytes() + SPARE_BYTES;
        Ok(statements.reserve(end)?)
    }

    /// Whether nothing in the redo log waits for a sync.
    pub fn is_synced(&self) -> bool {
        self.queue.lock().synced
    }

    /// Frames whose pages are in the redo log.
    pub fn logged(&self) -> usize {
        self.queue.lock().logged
    }
}

/// Somebody writes what is in the queue. However that ends, those who wait go on.
struct Leader<'a>(&'a Commits);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.latch.close(PANICKED);
        }
        let mut queue = self.0.queue.lock();
        queue.has_leader = false;
        queue.wake();
    }
}

/// The logs, with the lock on them.
struct Locked<'a> {
    latch: &'a SyncLatch,
    media: MutexGuard<'a, Media>,
}

impl Deref for Locked<'_> {
    type Target = Media;

    fn deref(&self) -> &Media {
        &self.media
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Media {
        &mut self.media
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Before the lock goes: what was being written is unknown.
        if std::thread::panicking() {
            self.latch.close(PANICKED);
        }
    }
}

impl Queue {
    fn wake(&mut self) {
        self.waiting.drain(..).for_each(|thread| thread.unpark());
    }

    /// The commit log is empty but for what waits in the queue.
    fn begin_log(&mut self, media: &Media) {
        let pending: u64 = self.pending.iter().map(|pending| pending.captured.bytes() as u64).sum();
        self.used = media.statements.bytes() + pending;
        self.took = self.pending.iter().map(|pending| pending.captured.took).sum();
        self.ready = false;
    }
}

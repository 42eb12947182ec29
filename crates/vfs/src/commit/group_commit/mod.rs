//! Group commit: one write and one sync for all transactions that wait (MySQL, PostgreSQL).
//!
//! # A commit's way
//! 1. A writer that holds SQLite's write lock queues its transaction as statements, and gets an LSN. SQLite drops the lock,
//!    and the next writer begins.
//! 2. The writer waits until the durable LSN reaches its own ([`GroupCommit::wait_durable`]). The first waiting thread is the
//!    leader: it writes all queued transactions, with one sync. The others are followers: they park until the leader is done.
//! 3. Before the sync the leader may wait shortly for more followers ([`commit_delay`](crate::commit::commit_delay)), unless a
//!    thread that waits keeps them from coming.
//!
//! A transaction that cannot be logged as statements is materialized ([`log_writer`](crate::commit::log_writer)). Its
//! writer keeps the lock, and logs it as pages, together with all pages that earlier statements have changed.
//!
//! # Invariants
//! 1. LSNs follow the order of commits. `committed_lsn` and `durable_lsn` only grow.
//! 2. Lock order: the log writer, then the queue, then the frames, then the pages ahead.
//! 3. A failure to write a transaction that SQLite has published latches the database. A panic of the writing thread does
//!    so before another thread gets the log writer or the queue.
//! 4. A transaction is queued as statements only behind one that is in a log or in the queue. At `synchronous=NORMAL` and
//!    `OFF` pages are written after the lock has been dropped. Statements that follow such pages would be replayed on a database
//!    without them.

use crate::capture::encoding::Captured;
use crate::commit::commit_delay::SHORT_COMMIT_DELAY;
use crate::commit::commit_queue::{Admission, CommitQueue, Pending, PendingForm, is_smaller_than_pages};
use crate::commit::delta_start::DeltaStart;
use crate::commit::log_writer::LogWriter;
use crate::commit::pages_ahead::AheadPlace;
use crate::commit::shared_syncs::{Counted, aside};
use crate::commit::syncs_in_flight::SyncsInFlight;
use crate::error::Result;
use crate::stats::FallbackCause;
use crate::sync::writer_queue::{UNUSED_TURN, WriterQueue};
use crate::txn::wal_frames::{Transaction, WalFrames};
use litefoot_storage::commit_log::{CommitLog, Writer};
use litefoot_storage::file::{self, File, SyncLatch};
use litefoot_storage::log_file::Durability;
use litefoot_storage::sync::{Mutex, MutexGuard, RwLock};
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::Whereabouts;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time between two looks for followers, in a delay that is not short.
const FOLLOWER_GLANCE: Duration = Duration::from_micros(20);
/// Why a panic has latched the database.
const PANICKED: &str = "an internal error has interrupted a commit (please report it)";

/// The pages of the commits: SQLite's log in memory, and the data file for those that were written early.
#[derive(Clone, Copy)]
pub(crate) struct CommitPages<'a> {
    pub frames: &'a RwLock<WalFrames>,
    pub data: &'a dyn File,
}

/// The group commit of one database in WAL mode.
pub(crate) struct GroupCommit {
    writer: Mutex<LogWriter>,
    queue: Mutex<CommitQueue>,
    /// The log writer's pages ahead, for a thread that writes them without its lock.
    ahead: Arc<AheadPlace>,
    /// The newest transaction whose durability was asked for.
    committed_lsn: AtomicU64,
    /// The newest transaction that survives a power cut.
    durable_lsn: AtomicU64,
    /// Threads that wait and keep writers back meanwhile: no follower can come.
    hurried: AtomicUsize,
    is_long: AtomicBool,
    commit_log_size: u64,
    latch: Arc<SyncLatch>,
    writer_queue: Arc<WriterQueue>,
    /// The commit log, for errors.
    path: PathBuf,
}

impl GroupCommit {
    /// A group commit behind what was found in the logs; `logged` frames are in the redo log.
    pub fn new(
        redo: RedoLog,
        commit_log: CommitLog,
        logged: usize,
        commit_log_size: usize,
        (writer, delta_start): (Writer, DeltaStart),
        (latch, writer_queue): (Arc<SyncLatch>, Arc<WriterQueue>),
    ) -> GroupCommit {
        let path = commit_log.path().to_owned();
        let writer = LogWriter::new(redo, commit_log, logged, writer);
        let queue = CommitQueue::behind(logged, delta_start, writer.positions().redo_bytes);
        GroupCommit {
            ahead: writer.ahead.clone(),
            writer: Mutex::new(writer),
            queue: Mutex::new(queue),
            committed_lsn: AtomicU64::new(0),
            durable_lsn: AtomicU64::new(0),
            hurried: AtomicUsize::new(0),
            is_long: AtomicBool::new(false),
            commit_log_size: commit_log_size as u64,
            latch,
            writer_queue,
            path,
        }
    }

    /// Closes both logs on the medium; all records are materialized.
    pub fn close(&self) {
        let mut writer = self.writer();
        writer.redo.close();
        writer.commit_log.close();
    }

    /// True if the redo log lies at its name, or nowhere.
    pub fn is_at_its_name(&self) -> Result<bool> {
        Ok(self.writer().redo.whereabouts()? == Whereabouts::AtItsName)
    }

    /// The LSN of the next transaction.
    pub fn next_lsn(&self) -> u64 {
        self.queue.lock().last_lsn + 1
    }

    /// The committed LSN, while the durable LSN is below it.
    pub fn not_durable(&self) -> Option<u64> {
        let committed_lsn = self.committed_lsn.load(Ordering::Acquire);
        (committed_lsn > self.durable_lsn.load(Ordering::Acquire)).then_some(committed_lsn)
    }

    /// Percent of the commit log in use.
    pub fn fill_percent(&self) -> u64 {
        self.queue.lock().used * 100 / self.commit_log_size.max(1)
    }

    /// Bytes of the commit log that are in use, or will be.
    pub fn commit_log_bytes(&self) -> u64 {
        self.queue.lock().used
    }

    /// Bytes of the redo log that count.
    pub fn redo_bytes(&self) -> usize {
        self.queue.lock().redo_bytes as usize
    }

    /// Bytes of memory in use, about.
    pub fn memory_bytes(&self) -> usize {
        let writer = self.writer();
        let texts: usize = writer.texts.keys().map(|text| text.sql.len() + 64).sum();
        texts + writer.redo.memory_bytes() + writer.commit_log.memory_bytes()
    }

    /// Queues a transaction whose pages take `page_bytes` each, and answers its LSN. `wants_durability` raises the committed
    /// LSN. The caller holds the write lock.
    ///
    /// # Errors
    /// Why the transaction must be written as pages.
    pub fn enqueue(
        &self,
        captured: Captured,
        transaction: Transaction,
        page_bytes: usize,
        wants_durability: bool,
    ) -> std::result::Result<u64, FallbackCause> {
        let bytes = captured.bytes();
        if !is_smaller_than_pages(bytes, transaction, page_bytes) {
            return Err(FallbackCause::Size);
        }
        let mut queue = self.queue.lock();
        if let Admission::Prepare(needed) = queue.admit(transaction, bytes as u64, captured.took)? {
            drop(queue);
            self.prepare(page_bytes, needed, transaction.end)?;
            queue = self.queue.lock();
        }
        let lsn = queue.push(transaction, PendingForm::Statements(captured));
        if wants_durability {
            self.committed_lsn.fetch_max(lsn, Ordering::AcqRel);
        }
        Ok(lsn)
    }

    /// Makes the commit log ready for `needed` more bytes, and claims space in the redo log for all frames up to `end`. So a
    /// full disk fails a commit, and not the materialization that follows it.
    fn prepare(&self, page_bytes: usize, needed: u64, end: usize) -> std::result::Result<(), FallbackCause> {
        let mut writer = self.writer();
        let room = self.room_for(&writer, needed).ok_or(FallbackCause::LogFull)?;
        let needed_frames = end.saturating_sub(writer.logged);
        let claimed = writer
            .prepare(page_bytes, room)
            .and_then(|()| writer.claim(page_bytes, end, needed_frames))
            .map_err(|_| FallbackCause::Unavailable)?;
        let mut queue = self.queue.lock();
        queue.claimed = claimed;
        self.note_ready(&mut queue, &writer);
        Ok(())
    }

    /// Bytes that the commit log must have room for, so that `needed` more fit; `None` where it has its limit.
    fn room_for(&self, writer: &LogWriter, needed: u64) -> Option<u64> {
        let used = self.queue.lock().used.max(writer.commit_log.bytes());
        (used + needed <= self.commit_log_size).then(|| (used + needed).max(writer.commit_log.room()))
    }

    /// The commit log takes records now.
    fn note_ready(&self, queue: &mut CommitQueue, writer: &LogWriter) {
        queue.ready = true;
        queue.room = writer.commit_log.room().min(self.commit_log_size);
        queue.used = queue.used.max(writer.commit_log.bytes());
    }

    /// Waits until a transaction is durable. The first thread that waits leads.
    pub fn wait_durable(&self, pages: CommitPages<'_>, lsn: u64) -> Result<()> {
        self.lead_or_follow(pages, lsn, Durability::Durable)
    }

    /// The same for a thread that keeps writers back meanwhile: a leader does not wait for followers then.
    pub fn wait_durable_at_once(&self, pages: CommitPages<'_>, lsn: u64) -> Result<()> {
        let _counted = Counted::in_(&self.hurried);
        self.wait_durable(pages, lsn)
    }

    /// Waits until the operating system has a transaction, which then survives the process.
    pub fn write_out(&self, pages: CommitPages<'_>, lsn: u64) -> Result<()> {
        self.lead_or_follow(pages, lsn, Durability::Buffered)
    }

    fn lead_or_follow(&self, pages: CommitPages<'_>, lsn: u64, durability: Durability) -> Result<()> {
        loop {
            if self.durable_lsn.load(Ordering::Acquire) >= lsn {
                return Ok(());
            }
            let mut queue = self.queue.lock();
            if queue.has_leader || (durability == Durability::Durable && queue.must_follow(lsn)) {
                queue.follow(lsn);
                drop(queue);
                std::thread::park();
                continue;
            }
            if durability == Durability::Buffered && !queue.waits(lsn) {
                // The leader that took the transaction may have failed.
                return Ok(self.latch.check(&self.path)?);
            }
            queue.has_leader = true;
            let leads = Leader(self);
            if durability == Durability::Durable {
                queue = self.await_followers(queue);
            }
            let (mut batch, up_to) = (std::mem::take(&mut queue.pending), queue.last_lsn);
            drop(queue);
            let written = batch.len();
            if durability == Durability::Durable
                && let Some(flight) = self.take_off(&mut batch, up_to)?
            {
                // The next group begins meanwhile.
                drop(leads);
                flight.land(written)?;
                continue;
            }
            let begun = Instant::now();
            let result = self.write(pages, batch, durability);
            if durability == Durability::Durable {
                let mut queue = self.queue.lock();
                self.note_sync(&mut queue, written, begun.elapsed());
                if result.is_ok() {
                    self.note_durable(up_to, &queue);
                }
            }
            drop(leads);
            result?;
        }
    }

    /// Transactions up to `lsn` are durable. Where all are, a writer that has stood aside for that is next.
    fn note_durable(&self, lsn: u64, queue: &CommitQueue) {
        self.durable_lsn.fetch_max(lsn, Ordering::AcqRel);
        if self.is_long() && self.not_durable().is_none() {
            self.writer_queue.call_back(UNUSED_TURN, queue.commit_delay.expected());
        }
    }

    /// The log writer, locked, while no sync is in flight. A panic of the thread that has it latches the database.
    fn writer(&self) -> WriterGuard<'_> {
        let writer = self.busy_writer();
        self.await_syncs(SyncsInFlight::is_flying);
        writer
    }

    /// Waits while `flies`, with the log writer locked, so that no other sync takes off.
    fn await_syncs(&self, flies: fn(&SyncsInFlight) -> bool) {
        loop {
            let mut queue = self.queue.lock();
            if !flies(&queue.syncs) {
                return;
            }
            queue.follow(u64::MAX);
            drop(queue);
            std::thread::park();
        }
    }

    /// The same, while records that were staged may still be on their way to the medium.
    fn busy_writer(&self) -> WriterGuard<'_> {
        WriterGuard { latch: &self.latch, writer: self.writer.lock() }
    }

    /// Syncs seem to take long.
    #[cfg(test)]
    pub fn seem_long(&self) {
        let mut queue = self.queue.lock();
        queue.commit_delay.seem_long();
        self.is_long.store(queue.commit_delay.is_long(), Ordering::Relaxed);
    }

    /// A transaction seems to be committed, and waits for its sync; answers its LSN.
    #[cfg(test)]
    pub fn seem_committed(&self) -> u64 {
        let mut queue = self.queue.lock();
        queue.last_lsn += 1;
        self.committed_lsn.fetch_max(queue.last_lsn, Ordering::AcqRel);
        queue.last_lsn
    }

    /// True while somebody syncs.
    #[cfg(test)]
    pub fn has_leader(&self) -> bool {
        self.queue.lock().has_leader
    }

    /// The answer of `look` at the log writer.
    #[cfg(test)]
    pub fn with_writer<T>(&self, look: impl FnOnce(&mut LogWriter) -> T) -> T {
        look(&mut self.writer())
    }

    /// Commit delay: waits shortly for as many followers as the last sync had (PostgreSQL: `commit_delay`).
    fn await_followers<'a>(&'a self, mut queue: MutexGuard<'a, CommitQueue>) -> MutexGuard<'a, CommitQueue> {
        let is_hurried = || self.hurried.load(Ordering::Relaxed) > 0;
        if queue.syncs.is_flying() || is_hurried() {
            return queue;
        }
        let begun = Instant::now();
        let waiting = self.waiting(&queue);
        let Some(mut delay) = queue.commit_delay.before_sync(waiting, begun) else { return queue };
        while !is_hurried() {
            let waiting = self.waiting(&queue);
            if !queue.commit_delay.goes_on(&mut delay, waiting, Instant::now()) {
                break;
            }
            drop(queue);
            if begun.elapsed() < SHORT_COMMIT_DELAY {
                std::thread::yield_now();
            } else {
                std::thread::sleep(FOLLOWER_GLANCE);
            }
            queue = self.queue.lock();
        }
        queue
    }

    /// Transactions that wait for a sync, and writers that stand aside for it.
    fn waiting(&self, queue: &CommitQueue) -> usize {
        queue.pending.len() + aside(&self.writer_queue, self.is_long())
    }

    /// True where a sync takes long, so that it pays to let others wait for it together.
    pub fn is_long(&self) -> bool {
        self.is_long.load(Ordering::Relaxed)
    }

    /// A sync has ended that took `time`, and wrote `written` transactions.
    fn note_sync(&self, queue: &mut CommitQueue, written: usize, time: Duration) {
        let queued = self.waiting(queue);
        queue.commit_delay.note_sync(written, queued, time);
        self.is_long.store(queue.commit_delay.is_long(), Ordering::Relaxed);
    }

    /// Writes transactions of the queue.
    fn write(&self, pages: CommitPages<'_>, mut batch: Vec<Pending>, durability: Durability) -> Result<()> {
        let (last_lsn, has_deltas) = match batch.last() {
            Some(last) => (last.lsn, matches!(last.form, PendingForm::Delta(_))),
            None => (0, false),
        };
        let mut writer =
            self.writer_for(durability, |writer| has_deltas || writer.commit_log.base().is_some());
        let writer = &mut *writer;
        // An earlier leader that failed took transactions along that other threads wait for.
        self.latch.check(&self.path)?;
        writer.retain_unwritten(&mut batch);
        let result = match batch.first().map(|pending| &pending.form) {
            Some(PendingForm::Delta(_)) => {
                let (before, last) = (writer.logged, batch.last().map_or(0, |pending| pending.end));
                let written = writer.write_deltas(&pages.frames.read(), pages.data, batch, durability);
                let mut queue = self.queue.lock();
                if writer.logged > before {
                    let end = writer.logged;
                    queue.note_materialized(end, false, writer.positions());
                } else {
                    queue.note_written(last, writer.commit_log.bytes());
                }
                written
            }
            _ => {
                let last = batch.last().map_or(0, |pending| pending.end);
                let written = self.write_statements(writer, &batch, durability);
                self.queue.lock().note_written(last, writer.commit_log.bytes());
                written
            }
        };
        let result = match durability {
            Durability::Durable => result.and_then(|()| writer.redo.sync()),
            Durability::Buffered => result,
        };
        if result.is_ok() {
            self.queue.lock().note_written_lsn(last_lsn);
        }
        Ok(result.inspect_err(|error| self.latch.close(&error.to_string()))?)
    }

    /// Writes transactions as statements; none syncs the commit log.
    fn write_statements(
        &self,
        writer: &mut LogWriter,
        batch: &[Pending],
        durability: Durability,
    ) -> file::Result<()> {
        let records = writer.encode(batch)?;
        match durability {
            _ if !records.is_empty() => writer.commit_log.append(&records, durability),
            Durability::Durable => writer.commit_log.sync(),
            Durability::Buffered => Ok(()),
        }
    }

    /// A transaction had to be written as pages.
    pub fn note_pages(&self) {
        let mut queue = self.queue.lock();
        if queue.ready {
            queue.log_form_backoff.note_pages();
        }
    }

    /// True while nothing in the redo log waits for a sync.
    pub fn is_synced(&self) -> bool {
        self.queue.lock().synced
    }

    /// Frames whose pages are in the redo log.
    pub fn logged(&self) -> usize {
        self.queue.lock().logged
    }
}

/// The right to write. Its end wakes the followers, also after a panic, which latches the database first.
struct Leader<'a>(&'a GroupCommit);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.latch.close(PANICKED);
        }
        let mut queue = self.0.queue.lock();
        queue.has_leader = false;
        queue.wake_durable(self.0.durable_lsn.load(Ordering::Acquire));
    }
}

/// The lock on the log writer.
struct WriterGuard<'a> {
    latch: &'a SyncLatch,
    writer: MutexGuard<'a, LogWriter>,
}

impl Deref for WriterGuard<'_> {
    type Target = LogWriter;

    fn deref(&self) -> &LogWriter {
        &self.writer
    }
}

impl DerefMut for WriterGuard<'_> {
    fn deref_mut(&mut self) -> &mut LogWriter {
        &mut self.writer
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        // Before the lock is free: nobody knows what has been written.
        if std::thread::panicking() {
            self.latch.close(PANICKED);
        }
    }
}

mod ahead;
mod deltas;
mod flight;
mod flush;
mod generation;
#[cfg(test)]
mod tests;

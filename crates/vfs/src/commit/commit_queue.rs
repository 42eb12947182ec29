//! Commit queue: the transactions that wait for the leader of a group commit, and what the commit log has room for.
//!
//! # Why
//! A committing thread decides under one short lock, while another thread syncs the logs. Its transaction is queued as
//! statements, or must be written as pages. So the queue keeps copies of the log writer's positions.
//!
//! # Invariants
//! 1. `last_lsn` only grows. The LSNs of `pending` are ascending, and none is above `last_lsn`.
//! 2. `logged <= taken`: each frame up to `taken` is in the redo log, or its statements are in the commit log or in `pending`.
//! 3. A transaction is queued only where its first frame is at most `taken`: a replay needs all frames before it.

use super::commit_delay::CommitDelay;
use super::delta_start::DeltaStart;
use super::log_form_backoff::LogFormBackoff;
use super::syncs_in_flight::SyncsInFlight;
use crate::capture::encoding::{Captured, MOST_TIME};
use crate::stats::FallbackCause;
use crate::txn::wal_frames::Transaction;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::format::BLOCK_BYTES;
use litefoot_storage::log_file::Durability;
use std::thread::Thread;
use std::time::Duration;

/// Bytes of the commit log kept for the record that announces a materialization, and for the padding of records.
pub(crate) const SPARE_BYTES: u64 = 128;

/// A transaction that waits to be written.
pub(crate) struct Pending {
    pub lsn: u64,
    pub generation: u64,
    /// Behind its last frame.
    pub end: usize,
    pub form: PendingForm,
}

/// The form in which a transaction waits.
pub(crate) enum PendingForm {
    Statements(Captured),
    /// The payload of its record.
    Delta(Vec<u8>),
}

impl PendingForm {
    /// Bytes in the commit log, about.
    fn bytes(&self) -> u64 {
        match self {
            PendingForm::Statements(captured) => captured.bytes() as u64,
            PendingForm::Delta(payload) => CommitLog::bytes_of([payload.len()]),
        }
    }

    /// Time that its replay takes, about.
    fn time(&self) -> Duration {
        match self {
            PendingForm::Statements(captured) => captured.took,
            PendingForm::Delta(_) => Duration::ZERO,
        }
    }
}

/// The log writer's positions, as the queue copies them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPositions {
    /// True while nothing in the redo log waits for a sync.
    pub redo_synced: bool,
    /// Bytes of the redo log; 0 while no frame waits in it.
    pub redo_bytes: u64,
    /// The end of the records in the commit log.
    pub commit_log_bytes: u64,
}

/// The way of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Into the queue.
    Queue,
    /// Into the queue, after the commit log has room for that many bytes more, and the redo log for its frames.
    Prepare(u64),
}

/// The transactions that wait, and the positions of the logs.
#[derive(Default)]
pub(crate) struct CommitQueue {
    /// LSN of the last transaction that was queued or written.
    pub last_lsn: u64,
    /// LSN of a transaction that the operating system has, as it has all before it.
    written_lsn: u64,
    pub pending: Vec<Pending>,
    /// True while a thread writes.
    pub has_leader: bool,
    /// Followers, and the LSN that each waits for.
    followers: Vec<(u64, Thread)>,
    /// The syncs in flight.
    pub syncs: SyncsInFlight,
    /// Frames whose pages are in the redo log.
    pub logged: usize,
    /// Frames whose pages are in the redo log, or whose statements are in the commit log or in the queue.
    pub taken: usize,
    /// Frames that are in a log in any form, and wait in the queue no more.
    pub written: usize,
    /// Restarts of SQLite's log.
    pub generation: u64,
    /// True while nothing in the redo log waits for a sync.
    pub synced: bool,
    /// True while the commit log takes records, up to `room`.
    pub ready: bool,
    pub room: u64,
    /// Highest end of the records in the commit log and in the queue.
    pub used: u64,
    /// Time that the transactions in the commit log and in the queue took.
    time: Duration,
    /// Frames of SQLite's log for which there is space in the redo log, should they be materialized.
    pub claimed: usize,
    pub log_form_backoff: LogFormBackoff,
    pub delta_start: DeltaStart,
    /// Bytes of the redo log.
    pub redo_bytes: u64,
    pub commit_delay: CommitDelay,
}

/// True when statements of `bytes` take less of a log than the pages of the transaction.
pub(crate) fn is_smaller_than_pages(bytes: usize, transaction: Transaction, page_bytes: usize) -> bool {
    bytes <= (transaction.end - transaction.first) * page_bytes
}

impl CommitQueue {
    /// A queue in front of logs whose redo log has `logged` frames.
    pub fn behind(logged: usize, delta_start: DeltaStart, redo_bytes: u64) -> CommitQueue {
        CommitQueue {
            logged,
            taken: logged,
            written: logged,
            delta_start,
            redo_bytes,
            ..CommitQueue::default()
        }
    }

    /// True where a transaction can be logged as deltas: all before it are in a log or in the queue, and a generation of deltas
    /// is open or may begin. Another one goes to the redo log as pages of so many bytes, and is counted.
    pub fn takes_deltas(
        &mut self,
        transaction: Transaction,
        page_bytes: u64,
        durability: Durability,
    ) -> bool {
        let can_begin = self.redo_bytes == 0 && self.delta_start.may_begin();
        let takes = transaction.first <= self.taken && (self.ready || can_begin);
        if !takes {
            self.delta_start.note_pages(page_bytes, durability);
        }
        takes
    }

    /// Decides if there is room for the `bytes` of a transaction's deltas. Each group of commits may begin a block. `None` for
    /// the first of a generation whose deltas do not pay.
    pub fn admit_deltas(&mut self, bytes: u64, page_bytes: u64) -> Option<Admission> {
        if !self.ready && !self.delta_start.may_be_first(bytes, page_bytes) {
            return None;
        }
        let needed = bytes + SPARE_BYTES + BLOCK_BYTES;
        let is_prepared = self.ready && self.used + needed <= self.room;
        Some(if is_prepared { Admission::Queue } else { Admission::Prepare(needed) })
    }

    /// Decides where a transaction goes whose statements take `bytes`, and which took `time`.
    pub fn admit(
        &mut self,
        transaction: Transaction,
        bytes: u64,
        time: Duration,
    ) -> Result<Admission, FallbackCause> {
        if transaction.first > self.taken {
            return Err(FallbackCause::Mixed);
        }
        if self.time + time > MOST_TIME {
            return Err(FallbackCause::Size);
        }
        if self.log_form_backoff.prefers_pages() {
            return Err(FallbackCause::Mixed);
        }
        let needed = bytes + SPARE_BYTES;
        let is_prepared = self.ready && self.used + needed <= self.room && transaction.end <= self.claimed;
        Ok(if is_prepared { Admission::Queue } else { Admission::Prepare(needed) })
    }

    /// Queues a transaction that was admitted; answers its LSN.
    pub fn push(&mut self, transaction: Transaction, form: PendingForm) -> u64 {
        self.last_lsn += 1;
        self.taken = self.taken.max(transaction.end);
        // Frames that a materialization has taken are in the redo log.
        if transaction.end > self.logged {
            self.used += form.bytes();
            self.time += form.time();
            let (lsn, generation) = (self.last_lsn, self.generation);
            self.pending.push(Pending { lsn, generation, end: transaction.end, form });
        }
        self.last_lsn
    }

    /// True while a transaction waits that was committed up to `lsn`.
    pub fn waits(&self, lsn: u64) -> bool {
        self.pending.first().is_some_and(|first| first.lsn <= lsn)
    }

    /// Everything up to the frame `end` is in the redo log, and nothing but the queue waits for the commit log, which ends at
    /// `commit_log_bytes`. A transaction that was written alone gets its LSN now.
    pub fn note_materialized(&mut self, end: usize, counted: bool, logs: LogPositions) {
        self.pending.retain(|pending| pending.end > end);
        self.logged = end;
        self.taken = self.taken.max(end);
        self.written = self.written.max(end);
        self.last_lsn += u64::from(counted);
        self.restart_commit_log(logs);
    }

    /// Records up to a frame were written, and the commit log ends where it says now.
    pub fn note_written(&mut self, end: usize, commit_log_bytes: u64) {
        self.written = self.written.max(end);
        let pending: u64 = self.pending.iter().map(|pending| pending.form.bytes()).sum();
        self.used = self.used.max(commit_log_bytes + pending);
    }

    /// The operating system has all transactions up to `lsn`.
    pub fn note_written_lsn(&mut self, lsn: u64) {
        self.written_lsn = self.written_lsn.max(lsn);
    }

    /// A transaction that the operating system has, as it has all before it.
    pub fn written_lsn(&self) -> u64 {
        self.written_lsn
    }

    /// SQLite has restarted its log: no transaction waits any more.
    pub fn restart(&mut self, generation: u64, logs: LogPositions) {
        self.pending.clear();
        (self.logged, self.taken, self.written, self.claimed) = (0, 0, 0, 0);
        self.generation = generation;
        self.restart_commit_log(logs);
    }

    /// The commit log is empty but for what waits in the queue.
    fn restart_commit_log(&mut self, logs: LogPositions) {
        self.synced = logs.redo_synced;
        self.redo_bytes = logs.redo_bytes;
        let pending: u64 = self.pending.iter().map(|pending| pending.form.bytes()).sum();
        self.used = logs.commit_log_bytes + pending;
        self.time = self.pending.iter().map(|pending| pending.form.time()).sum();
        self.ready = false;
    }

    /// True for a thread that must not lead: its transaction is on its way, or as many syncs are in flight as pay.
    pub fn must_follow(&self, lsn: u64) -> bool {
        self.syncs.covers(lsn) || self.syncs.is_full()
    }

    /// The thread that calls this parks next, until its `lsn` is durable or nobody leads; [`CommitQueue::wake`] unparks it.
    pub fn follow(&mut self, lsn: u64) {
        self.followers.push((lsn, std::thread::current()));
    }

    /// Wakes all followers.
    pub fn wake(&mut self) {
        self.followers.drain(..).for_each(|(_, thread)| thread.unpark());
    }

    /// Wakes the followers whose transactions are durable, those that wait for the end of all syncs, and one that can lead.
    pub fn wake_durable(&mut self, durable_lsn: u64) {
        let grounded = !self.syncs.is_flying();
        let mut can_lead = !self.has_leader && !self.syncs.is_full();
        let syncs = &self.syncs;
        self.followers.retain(|(lsn, thread)| {
            let is_done = *lsn <= durable_lsn || (*lsn == u64::MAX && grounded);
            let leads = !is_done && can_lead && *lsn != u64::MAX && !syncs.covers(*lsn);
            can_lead &= !leads;
            if is_done || leads {
                thread.unpark();
            }
            !is_done && !leads
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(first: usize, end: usize) -> Transaction {
        Transaction { first, end }
    }

    fn captured(values: usize, time: Duration) -> Captured {
        Captured { values: vec![0; values], took: time, ..Captured::default() }
    }

    fn logs(redo_synced: bool, commit_log_bytes: u64) -> LogPositions {
        LogPositions { redo_synced, redo_bytes: 0, commit_log_bytes }
    }

    /// A queue whose logs are ready for 1,000 bytes and 10 frames.
    fn prepared() -> CommitQueue {
        CommitQueue {
            ready: true,
            room: 1_000,
            claimed: 10,
            ..CommitQueue::behind(2, DeltaStart::new(false), 0)
        }
    }

    #[test]
    fn a_transaction_is_queued_where_a_replay_reaches_it_and_the_logs_have_room() {
        use Admission::{Prepare, Queue};
        use FallbackCause::{Mixed, Size};
        let short = Duration::from_millis(1);
        let cases = [
            (frames(2, 4), 100, short, Ok(Queue), "behind the redo log"),
            (frames(1, 2), 100, short, Ok(Queue), "materialized meanwhile"),
            (frames(3, 4), 100, short, Err(Mixed), "behind pages that are in no log yet"),
            (frames(2, 4), 100, MOST_TIME, Ok(Queue), "as long as a replay may take"),
            (frames(2, 4), 100, MOST_TIME + short, Err(Size), "longer than a replay may take"),
            (frames(2, 10), 1_000 - SPARE_BYTES, short, Ok(Queue), "all there is"),
            (frames(2, 4), 1_001 - SPARE_BYTES, short, Ok(Prepare(1_001)), "a byte too many"),
            (frames(2, 11), 100, short, Ok(Prepare(100 + SPARE_BYTES)), "a frame too many"),
        ];
        for (transaction, bytes, time, expected, what) in cases {
            assert_eq!(prepared().admit(transaction, bytes, time), expected, "{what}");
        }
        let mut unready = CommitQueue { ready: false, ..prepared() };
        assert_eq!(unready.admit(frames(2, 4), 0, short), Ok(Prepare(SPARE_BYTES)));
    }

    #[test]
    fn the_log_form_backoff_is_asked_last() {
        let mut queue = prepared();
        (0..2).for_each(|_| queue.log_form_backoff.note_pages());
        // A transaction that cannot be queued anyway does not count for the backoff.
        assert_eq!(queue.admit(frames(3, 4), 1, Duration::ZERO), Err(FallbackCause::Mixed));
        assert_eq!(queue.admit(frames(2, 4), 1, Duration::ZERO), Err(FallbackCause::Mixed));
        assert_eq!(queue.admit(frames(2, 4), 1, Duration::ZERO), Ok(Admission::Queue));
    }

    #[test]
    fn statements_are_worth_it_up_to_the_size_of_the_pages() {
        for (bytes, expected) in [(0, true), (1_024, true), (1_025, false)] {
            assert_eq!(is_smaller_than_pages(bytes, frames(5, 7), 512), expected, "{bytes}");
        }
    }

    #[test]
    fn a_materialization_takes_what_it_has_written_out_of_the_queue() {
        let mut queue = prepared();
        let one = captured(10, Duration::from_millis(3));
        let bytes = one.bytes() as u64;
        assert_eq!(queue.push(frames(2, 4), PendingForm::Statements(one)), 1);
        assert_eq!(
            queue.push(frames(4, 6), PendingForm::Statements(captured(10, Duration::from_millis(5)))),
            2
        );
        assert_eq!((queue.taken, queue.used, queue.time), (6, 2 * bytes, Duration::from_millis(8)));
        assert!(queue.waits(1) && queue.waits(2) && !queue.waits(0));

        queue.note_materialized(4, false, logs(true, 48));
        assert_eq!((queue.logged, queue.taken, queue.last_lsn), (4, 6, 2));
        assert_eq!((queue.used, queue.time), (48 + bytes, Duration::from_millis(5)));
        assert!(!queue.ready && queue.synced && !queue.waits(1) && queue.waits(2));
        // Its pages are in the redo log already: it has an LSN, and does not wait.
        assert_eq!(queue.push(frames(3, 4), PendingForm::Statements(captured(1, Duration::ZERO))), 3);
        assert_eq!(queue.pending.len(), 1);

        queue.note_materialized(8, true, logs(false, 0));
        assert_eq!((queue.logged, queue.taken, queue.last_lsn, queue.pending.len()), (8, 8, 4, 0));
        queue.restart(7, logs(true, 0));
        assert_eq!((queue.logged, queue.taken, queue.claimed, queue.last_lsn), (0, 0, 0, 4));
        assert_eq!(queue.push(frames(0, 1), PendingForm::Statements(captured(0, Duration::ZERO))), 5);
        assert_eq!(queue.pending[0].generation, 7);
    }

    #[test]
    fn all_followers_are_woken() {
        let queue = std::sync::Mutex::new(CommitQueue::default());
        std::thread::scope(|scope| {
            let followers = [(); 3].map(|()| {
                scope.spawn(|| {
                    queue.lock().unwrap().follow(1);
                    std::thread::park();
                })
            });
            while queue.lock().unwrap().followers.len() < 3 {
                std::thread::yield_now();
            }
            queue.lock().unwrap().wake();
            followers.into_iter().for_each(|follower| follower.join().unwrap());
        });
        assert!(queue.lock().unwrap().followers.is_empty());
    }

    #[test]
    fn deltas_begin_once_no_frame_waits_and_go_on_behind_one_another() {
        let eager = || CommitQueue::behind(2, DeltaStart::new(true), 0);
        let with = |change: fn(&mut CommitQueue)| {
            let mut queue = eager();
            change(&mut queue);
            queue
        };
        for (mut queue, transaction, expected, what) in [
            (eager(), frames(2, 4), true, "the first"),
            (eager(), frames(3, 4), false, "behind one that is in no log"),
            (with(|queue| queue.redo_bytes = 1), frames(2, 4), false, "frames wait"),
            (
                with(|queue| (queue.redo_bytes, queue.ready) = (1, true)),
                frames(2, 4),
                true,
                "a generation is open",
            ),
            (CommitQueue::behind(2, DeltaStart::new(false), 0), frames(2, 4), false, "the first of few"),
        ] {
            assert_eq!(queue.takes_deltas(transaction, 1, Durability::Durable), expected, "{what}");
        }
    }
}

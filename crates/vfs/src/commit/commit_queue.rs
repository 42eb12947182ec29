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
use super::log_form_backoff::LogFormBackoff;
use crate::capture::encoding::{Captured, MOST_TIME};
use crate::stats::FallbackCause;
use crate::txn::wal_frames::Transaction;
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
    pub captured: Captured,
}

/// The way of a captured transaction.
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
    pub pending: Vec<Pending>,
    /// True while a thread writes.
    pub has_leader: bool,
    /// Followers. They are woken all at once, and not one through the other.
    followers: Vec<Thread>,
    /// Frames whose pages are in the redo log.
    pub logged: usize,
    /// Frames whose pages are in the redo log, or whose statements are in the commit log or in the queue.
    pub taken: usize,
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
    pub commit_delay: CommitDelay,
}

/// True when statements of `bytes` take less of a log than the pages of the transaction.
pub(crate) fn is_smaller_than_pages(bytes: usize, transaction: Transaction, page_bytes: usize) -> bool {
    bytes <= (transaction.end - transaction.first) * page_bytes
}

impl CommitQueue {
    /// A queue in front of logs whose redo log has `logged` frames.
    pub fn behind(logged: usize) -> CommitQueue {
        CommitQueue { logged, taken: logged, ..CommitQueue::default() }
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
    pub fn push(&mut self, transaction: Transaction, captured: Captured) -> u64 {
        self.last_lsn += 1;
        self.taken = self.taken.max(transaction.end);
        // Frames that a materialization has taken are in the redo log.
        if transaction.end > self.logged {
            self.used += captured.bytes() as u64;
            self.time += captured.took;
            let (lsn, generation) = (self.last_lsn, self.generation);
            self.pending.push(Pending { lsn, generation, end: transaction.end, captured });
        }
        self.last_lsn
    }

    /// True while a transaction waits that was committed up to `lsn`.
    pub fn waits(&self, lsn: u64) -> bool {
        self.pending.first().is_some_and(|first| first.lsn <= lsn)
    }

    /// Everything up to the frame `end` is in the redo log, and nothing but the queue waits for the commit log, which ends at
    /// `commit_log_bytes`. A transaction that was written alone gets its LSN now.
    pub fn note_materialized(&mut self, end: usize, counted: bool, synced: bool, commit_log_bytes: u64) {
        self.pending.retain(|pending| pending.end > end);
        self.logged = end;
        self.taken = self.taken.max(end);
        self.synced = synced;
        self.last_lsn += u64::from(counted);
        self.restart_commit_log(commit_log_bytes);
    }

    /// SQLite has restarted its log: no transaction waits any more.
    pub fn restart(&mut self, generation: u64, synced: bool, commit_log_bytes: u64) {
        self.pending.clear();
        (self.logged, self.taken, self.claimed) = (0, 0, 0);
        self.generation = generation;
        self.synced = synced;
        self.restart_commit_log(commit_log_bytes);
    }

    /// The commit log is empty but for what waits in the queue.
    fn restart_commit_log(&mut self, commit_log_bytes: u64) {
        let pending: u64 = self.pending.iter().map(|pending| pending.captured.bytes() as u64).sum();
        self.used = commit_log_bytes + pending;
        self.time = self.pending.iter().map(|pending| pending.captured.took).sum();
        self.ready = false;
    }

    /// The thread that calls this parks next; [`CommitQueue::wake`] unparks it.
    pub fn follow(&mut self) {
        self.followers.push(std::thread::current());
    }

    /// Wakes all followers.
    pub fn wake(&mut self) {
        self.followers.drain(..).for_each(|thread| thread.unpark());
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

    /// A queue whose logs are ready for 1,000 bytes and 10 frames.
    fn prepared() -> CommitQueue {
        CommitQueue { ready: true, room: 1_000, claimed: 10, ..CommitQueue::behind(2) }
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
        assert_eq!(queue.push(frames(2, 4), one), 1);
        assert_eq!(queue.push(frames(4, 6), captured(10, Duration::from_millis(5))), 2);
        assert_eq!((queue.taken, queue.used, queue.time), (6, 2 * bytes, Duration::from_millis(8)));
        assert!(queue.waits(1) && queue.waits(2) && !queue.waits(0));

        queue.note_materialized(4, false, true, 48);
        assert_eq!((queue.logged, queue.taken, queue.last_lsn), (4, 6, 2));
        assert_eq!((queue.used, queue.time), (48 + bytes, Duration::from_millis(5)));
        assert!(!queue.ready && queue.synced && !queue.waits(1) && queue.waits(2));
        // Its pages are in the redo log already: it has an LSN, and does not wait.
        assert_eq!(queue.push(frames(3, 4), captured(1, Duration::ZERO)), 3);
        assert_eq!(queue.pending.len(), 1);

        queue.note_materialized(8, true, false, 0);
        assert_eq!((queue.logged, queue.taken, queue.last_lsn, queue.pending.len()), (8, 8, 4, 0));
        queue.restart(7, true, 0);
        assert_eq!((queue.logged, queue.taken, queue.claimed, queue.last_lsn), (0, 0, 0, 4));
        assert_eq!(queue.push(frames(0, 1), captured(0, Duration::ZERO)), 5);
        assert_eq!(queue.pending[0].generation, 7);
    }

    #[test]
    fn all_followers_are_woken() {
        let queue = std::sync::Mutex::new(CommitQueue::default());
        std::thread::scope(|scope| {
            let followers = [(); 3].map(|()| {
                scope.spawn(|| {
                    queue.lock().unwrap().follow();
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
}

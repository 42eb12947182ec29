//! Group commit, without SQLite.

use super::*;
use crate::capture::encoding::{TEXT, TRANSACTION};
use crate::commit::of_test::{Logs, PAGE, captured, first_byte};
use std::sync::atomic::AtomicUsize;

const SQL: &str = "INSERT INTO a VALUES(1)";

fn logs() -> Logs {
    Logs::of_test(&[7; 4 * PAGE], 64 << 10)
}

fn enqueue(logs: &Logs, transaction: Transaction) -> std::result::Result<u64, FallbackCause> {
    logs.group.enqueue(captured(SQL), transaction, PAGE, true)
}

#[test]
fn the_durable_lsn_follows_the_committed_lsn() {
    let logs = logs();
    for lsn in 1..=3 {
        assert_eq!(logs.group.next_lsn(), lsn);
        let transaction = logs.write(&[(2, lsn as u8), (3, 0)], 4);
        assert_eq!(enqueue(&logs, transaction), Ok(lsn));
        assert_eq!(logs.group.not_durable(), Some(lsn));
    }
    logs.group.wait_durable(logs.pages(), 3).unwrap();
    assert_eq!(logs.group.not_durable(), None);
    let (redo, records) = logs.reopened();
    // The text is there once, and nothing was written as pages.
    let kinds: Vec<u32> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [TEXT, TRANSACTION, TRANSACTION, TRANSACTION]);
    assert!(redo.is_empty());
}

#[test]
fn a_transaction_that_was_written_out_is_not_durable() {
    let logs = logs();
    let transaction = logs.write(&[(2, 1)], 4);
    assert_eq!(enqueue(&logs, transaction), Ok(1));
    logs.group.write_out(logs.pages(), 1).unwrap();
    assert!(!logs.group.queue.lock().waits(1));
    assert_eq!(logs.group.not_durable(), Some(1));
    logs.group.wait_durable(logs.pages(), 1).unwrap();
    assert_eq!(logs.group.not_durable(), None);
    assert_eq!(logs.reopened().1.len(), 2);
}

#[test]
fn one_that_stands_aside_is_called_back_behind_a_long_sync_and_a_leader_counts_it() {
    for long in [true, false] {
        let logs = logs();
        if long {
            logs.group.seem_long();
        }
        let queue = logs.db.writer_queue().clone();
        let _aside = queue.stand_aside(9, Instant::now());
        let transaction = logs.write(&[(2, 1), (3, 0)], 4);
        let lsn = enqueue(&logs, transaction).unwrap();
        assert_eq!(logs.group.waiting(&logs.group.queue.lock()), if long { 2 } else { 1 });
        logs.group.note_durable(0, &logs.group.queue.lock());
        assert!(!queue.has_turn(9), "not everything is durable");
        logs.group.wait_durable(logs.pages(), lsn).unwrap();
        assert_eq!(queue.has_turn(9), long);
    }
}

#[test]
fn all_followers_are_served() {
    let logs = logs();
    let durable = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let lsn = {
                        // SQLite's write lock.
                        let _lock = WRITE_LOCK.lock();
                        enqueue(&logs, logs.write(&[(2, 1)], 4)).unwrap()
                    };
                    logs.group.wait_durable(logs.pages(), lsn).unwrap();
                    assert!(logs.group.durable_lsn.load(Ordering::Acquire) >= lsn);
                    durable.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((durable.into_inner(), logs.group.next_lsn()), (100, 101));
    assert_eq!(logs.reopened().1.len(), 101);
}

static WRITE_LOCK: std::sync::LazyLock<Mutex<()>> = std::sync::LazyLock::new(Mutex::default);

#[test]
fn a_panic_of_the_leader_fails_all_followers() {
    let logs = logs();
    enqueue(&logs, logs.write(&[(2, 1)], 4)).unwrap();
    logs.group.queue.lock().has_leader = true;
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| logs.group.wait_durable(logs.pages(), 1));
        let leader = scope.spawn(|| {
            let _leads = Leader(&logs.group);
            panic!("on purpose");
        });
        assert!(leader.join().is_err());
        assert!(follower.join().unwrap().is_err());
    });
    assert_eq!(logs.db.latch().reason(), Some(PANICKED));
}

#[test]
fn a_panic_of_the_log_writer_latches_before_the_lock_is_free() {
    let logs = logs();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let _writer = logs.group.writer();
            panic!("on purpose");
        });
        assert!(writer.join().is_err());
    });
    assert_eq!(logs.db.latch().reason(), Some(PANICKED));
}

#[test]
fn what_cannot_be_logged_as_statements_is_refused_with_its_cause() {
    let small = Logs::of_test(&[7; 4 * PAGE], 4_096);
    let large = captured(&"x".repeat(PAGE));
    let first = small.write(&[(2, 1)], 4);
    assert_eq!(small.group.enqueue(large, first, PAGE, true), Err(FallbackCause::Size));
    // That one went by, so statements behind it could not be replayed.
    let second = small.write(&[(3, 1)], 4);
    assert_eq!(enqueue(&small, second), Err(FallbackCause::Mixed));
    small.group.materialize(&small.frames, &small.db, Durability::Durable, true, (None, None)).unwrap();
    let mut queued = 0;
    let refused = loop {
        match enqueue(&small, small.write(&[(3, 1)], 4)) {
            Ok(_) => queued += 1,
            Err(cause) => break cause,
        }
    };
    assert_eq!(refused, FallbackCause::LogFull);
    assert!((10..40).contains(&queued), "{queued}");
    assert!(small.group.fill_percent() > 90, "{}", small.group.fill_percent());
}

#[test]
fn a_materialization_takes_the_queue_along() {
    let logs = logs();
    enqueue(&logs, logs.write(&[(2, 1), (3, 1)], 4)).unwrap();
    logs.group.wait_durable(logs.pages(), 1).unwrap();
    enqueue(&logs, logs.write(&[(3, 2)], 4)).unwrap();
    logs.write(&[(4, 3)], 4);
    logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, true, (None, None)).unwrap();
    assert_eq!(logs.group.logged(), 4);
    assert_eq!((logs.group.next_lsn(), logs.group.not_durable()), (4, None));
    assert!(logs.group.is_synced());
    let (redo, records) = logs.reopened();
    // The newest version of each page, once.
    assert_eq!([1, 2, 3, 4].map(|number| first_byte(&redo, number)), [None, Some(1), Some(2), Some(3)]);
    assert_eq!(redo.frames(), 3);
    // None waits to be replayed.
    assert!(records.is_empty());
}

#[test]
fn a_commit_that_cannot_be_written_is_revoked() {
    let logs = logs();
    let before = logs.write(&[(2, 1)], 4);
    logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, true, (None, None)).unwrap();
    let transaction = logs.write(&[(3, 1)], 4);
    logs.db.latch().close("on purpose");
    let commit = (None, Some(transaction));
    assert!(logs.group.materialize(&logs.frames, &logs.db, Durability::Durable, true, commit).is_err());
    assert_eq!(logs.frames.read().committed(), before.end);
    assert_eq!(logs.group.next_lsn(), 2);
}

#[test]
fn the_end_of_a_generation_makes_all_that_was_queued_durable() {
    let logs = logs();
    enqueue(&logs, logs.write(&[(2, 1)], 4)).unwrap();
    logs.group.materialize(&logs.frames, &logs.db, Durability::Buffered, false, (None, None)).unwrap();
    assert_eq!(logs.group.not_durable(), Some(1));
    logs.group.checkpoint_and_delete(&logs.frames, &logs.db).unwrap();
    assert_eq!((logs.group.not_durable(), logs.group.logged()), (None, 0));
    let mut page = [0; PAGE];
    logs.db.data().read_at(&mut page, PAGE as u64).unwrap();
    assert_eq!(page, [1; PAGE]);
    let (redo, records) = logs.reopened();
    assert!(redo.is_empty() && records.is_empty());
}

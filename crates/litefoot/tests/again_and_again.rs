//! A process that lives long opens and closes databases again and again: it keeps nothing of them.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::ffi;
use litefoot_testkit::memory::{CountingAllocator, live_bytes};
use std::ops::Range;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Openings after which each table has the size that it keeps.
const FIRST: usize = 600;
const MORE: usize = 400;
/// Less than one allocation for each opening, and more than a path that is longer than one before.
const MOST_BYTES: i64 = 8 * MORE as i64;
/// How long a thread may take to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a process has of the system's.
fn entries(directory: &str) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// Bytes of litefoot's and of SQLite's; descriptors; threads.
fn held() -> (i64, usize, usize) {
    // SAFETY: asks only.
    let sqlite_bytes = unsafe { ffi::sqlite3_memory_used() };
    (live_bytes() + sqlite_bytes, entries("/proc/self/fd"), entries("/proc/self/task"))
}

#[test]
fn a_process_that_opens_and_closes_databases_again_and_again_keeps_nothing_of_them() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for (mode, options) in [("delete", ""), ("persist", ""), ("wal", ""), ("wal", "?commit_log=statements")] {
        for is_same in [true, false] {
            let open = |numbers: Range<usize>| {
                for number in numbers {
                    let name = format!("{mode}-{}.db", if is_same { 0 } else { number });
                    let name = format!("file:{}{options}", directory.path().join(name).display());
                    let db = litefoot::Connection::open(name).unwrap();
                    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF")).unwrap();
                    db.execute_batch("CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES(1)").unwrap();
                }
            };
            open(0..FIRST);
            let before = held();
            open(FIRST..FIRST + MORE);
            let mut after = held();
            // A thread that has nothing more to do ends soon, and not at once.
            let begun = Instant::now();
            while after.2 > before.2 && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(10));
                after = held();
            }
            let is_as_before = after.0 - before.0 < MOST_BYTES && after.1 <= before.1 && after.2 <= before.2;
            assert!(is_as_before, "{mode}{options}, one file: {is_same}: {before:?}, then {after:?}");
        }
    }
}

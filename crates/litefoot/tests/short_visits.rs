//! Visitors without a busy timeout come to an application that locks the file nearly all the time: by its transactions, or by the last
//! close of each of its connections.

#![allow(clippy::unwrap_used)]

mod support;

use litefoot::Vfs;
use litefoot_storage::file::FileKind;
use litefoot_storage::os::OsMedium;
use litefoot_testkit::sqlite::{number, stock};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{HookedMedium, of_this_machine};

const VISITS: u32 = 12;
/// A commit may last longer than a visitor waits for it, where the machine is busy.
const MOST_REFUSED: u32 = VISITS / 4;

/// A sync of the database file takes so long.
const SYNC: Duration = Duration::from_millis(15);

/// The files of this machine, on a slow device.
fn slow() -> Arc<HookedMedium<OsMedium>> {
    of_this_machine(|kind, durable| {
        if durable && kind == FileKind::Database {
            std::thread::sleep(SYNC);
        }
    })
}

/// Visits one after the other, each of which has the file open for a moment before it reads; how many were refused. The database stays
/// multi-process between them.
fn visits(path: &Path) -> u32 {
    let mut refused = 0;
    for _ in 0..VISITS {
        let visitor = stock(path);
        visitor.busy_timeout(Duration::ZERO).unwrap();
        // It has the file open, and is a guest.
        std::thread::sleep(Duration::from_millis(10));
        let count = visitor.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        refused += u32::from(count.is_err());
        drop(visitor);
        std::thread::sleep(Duration::from_millis(60));
    }
    refused
}

#[test]
fn a_visitor_that_comes_alone_meets_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let vfs = Vfs::builder("short-visits").register().unwrap();
    let db = vfs.open(&path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let ends = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        let ends = &ends;
        scope.spawn(move || {
            let mut commits = 0;
            while !ends.load(Ordering::Relaxed) {
                // The lock keeps readers out from here to the commit.
                db.execute_batch("BEGIN EXCLUSIVE; INSERT INTO t VALUES(1)").unwrap();
                std::thread::sleep(Duration::from_millis(15));
                db.execute_batch("COMMIT").unwrap();
                commits += 1;
            }
            assert_eq!(number(&db, "SELECT count(*) FROM t"), commits);
        });
        let refused = visits(&path);
        ends.store(true, Ordering::Relaxed);
        refused
    });
    assert!(refused <= MOST_REFUSED, "{refused} of {VISITS} visitors were refused");
}

/// The visitor waits in its `open` while the transaction goes on, and not for ever. Then it may read: the commit waits for it.
#[test]
fn a_visitor_that_was_let_in_beside_a_transaction_does_not_meet_its_commit() {
    const ROUNDS: u32 = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let vfs = Vfs::builder("beside-a-transaction").medium(slow()).register().unwrap();
    let mut db = vfs.open(&path).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    let mut refused = 0;
    for round in 0..ROUNDS {
        db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)").unwrap();
        let visitor = stock(&path);
        visitor.busy_timeout(Duration::ZERO).unwrap();
        let commit = std::thread::spawn(move || {
            db.execute_batch("COMMIT").unwrap();
            db
        });
        std::thread::sleep(SYNC / 3);
        let count = visitor.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0));
        drop(visitor);
        db = commit.join().unwrap();
        assert!(!count.as_ref().is_ok_and(|count| *count != round && *count != round + 1), "{count:?}");
        refused += u32::from(count.is_err());
    }
    assert_eq!(number(&db, "SELECT count(*) FROM t"), i64::from(ROUNDS));
    assert!(refused <= ROUNDS / 4, "{refused} of {ROUNDS} visitors were refused");
}

/// A commit waits for a reader of its own process, as long as that reads. It keeps no visitor out meanwhile, in either state.
#[test]
fn a_visitor_reads_beside_a_commit_that_waits_for_a_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let vfs = Vfs::builder("waits-for-a-reader").register().unwrap();
    let [reader, writer] = [(); 2].map(|()| vfs.open(&path).unwrap());
    writer.busy_timeout(Duration::from_secs(60)).unwrap();
    reader.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES(1); BEGIN").unwrap();
    assert_eq!(number(&reader, "SELECT count(*) FROM t"), 1);
    let commit = std::thread::spawn(move || writer.execute_batch("INSERT INTO t VALUES(2)").unwrap());
    // It waits for the reader now.
    std::thread::sleep(Duration::from_millis(100));
    for visit in ["owned", "multi-process"] {
        let visitor = stock(&path);
        visitor.busy_timeout(Duration::ZERO).unwrap();
        // The commit has tried again meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        let count = visitor.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0));
        assert_eq!(count, Ok(1), "{visit}");
    }
    assert!(!commit.is_finished());
    reader.execute_batch("COMMIT").unwrap();
    commit.join().unwrap();
    assert_eq!(number(&stock(&path), "SELECT count(*) FROM t"), 2);
}

/// As an application that opens a connection for each request. The last close has the file to itself while it empties the log.
#[test]
fn a_visitor_meets_no_last_close_of_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let vfs = Vfs::builder("last-closes").medium(slow()).register().unwrap();
    vfs.open(&path).unwrap().execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(x)").unwrap();
    let ends = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        let (ends, path, vfs) = (&ends, &path, &vfs);
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let db = vfs.open(path).unwrap();
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
            }
        });
        let refused = visits(path);
        ends.store(true, Ordering::Relaxed);
        refused
    });
    assert!(refused <= MOST_REFUSED, "{refused} of {VISITS} visitors were refused");
}

/// A program makes its tables by several transactions, and another one of its processes opens the database meanwhile.
#[test]
fn a_visitor_finds_all_tables_of_a_database_that_was_being_made() {
    const TABLES: i64 = 6;
    const ROUNDS: usize = 12;
    let vfs = Vfs::builder("being-made").register().unwrap();
    let half_made = |_: &usize| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let db = vfs.open(&path).unwrap();
        db.execute_batch("CREATE TABLE t0(x)").unwrap();
        let visitor = std::thread::spawn(move || number(&stock(&path), "SELECT count(*) FROM sqlite_schema"));
        for table in 1..TABLES {
            std::thread::sleep(Duration::from_millis(1));
            db.execute_batch(&format!("CREATE TABLE t{table}(x)")).unwrap();
        }
        visitor.join().unwrap() < TABLES
    };
    let found = (0..ROUNDS).filter(half_made).count();
    assert!(found <= ROUNDS / 3, "{found} of {ROUNDS} visitors found some of the tables");
}

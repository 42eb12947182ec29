//! Stock SQLite tries to write a database all the while that litefoot has it, and shares it with nobody.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use rusqlite::{ErrorCode, OpenFlags};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn stock(path: &Path) -> rusqlite::Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let db = rusqlite::Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap();
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    db
}

/// Runs transactions while stock SQLite tries; then everything must be there, for stock SQLite.
fn kept_out(journal_mode: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    stock_creates(&path, journal_mode);
    let db = Connection::open(format!("file:{}?sharing=exclusive", path.display())).unwrap();
    db.execute("INSERT INTO t VALUES(0)", []).unwrap();
    let (done, attempts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let error = stock(&path).execute("INSERT INTO t VALUES(-1)", []).unwrap_err();
                assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
                let error = stock(&path).query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
                assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
                attempts.fetch_add(1, Ordering::Relaxed);
            }
        });
        for i in 1..=500 {
            db.execute("INSERT INTO t VALUES(?1)", [i]).unwrap();
            if i % 100 == 0 {
                db.execute_batch("BEGIN; DELETE FROM t; ROLLBACK; PRAGMA wal_checkpoint").unwrap();
            }
        }
        while attempts.load(Ordering::Relaxed) < 20 {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(db);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "the database is alone");
    let (count, sum): (i64, i64) = stock(&path)
        .query_row("SELECT count(*), sum(id) FROM t", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!((count, sum), (501, 500 * 501 / 2));
}

fn stock_creates(path: &Path, journal_mode: &str) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = rusqlite::Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t(id INTEGER)")).unwrap();
}

#[test]
fn stock_is_kept_out_with_a_journal() {
    kept_out("delete");
}

#[test]
fn stock_is_kept_out_with_a_write_ahead_log() {
    kept_out("wal");
}

#[test]
fn a_log_of_another_database_is_set_aside_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("app.db"), directory.path().join("other.db"));
    stock_creates(&path, "delete");
    let foreign = stock_log_with_pages_of_512(&other);
    let log = directory.path().join("app.db-wal");
    std::fs::write(&log, &foreign).unwrap();
    let before = std::fs::read(&path).unwrap();
    let db = Connection::open(&path).unwrap();
    let count: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
    drop(db);
    let aside = directory.path().join("app.db-wal.set-aside-1");
    assert!(std::fs::read(&path).unwrap() == before && std::fs::read(&aside).unwrap() == foreign);
    assert!(!log.exists());
}

/// The bytes of a write-ahead log that stock SQLite has left.
fn stock_log_with_pages_of_512(path: &Path) -> Vec<u8> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let db = rusqlite::Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap();
    db.execute_batch(
        "PRAGMA page_size=512; CREATE TABLE t(id INTEGER); INSERT INTO t VALUES(zeroblob(5000));
         PRAGMA journal_mode=wal; INSERT INTO t VALUES(1)",
    )
    .unwrap();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let bytes = std::fs::read(log).unwrap();
    // Its page 1 says WAL mode: such a log SQLite itself would take. Without page 1 it is nobody's.
    assert!(bytes.len() > 32);
    bytes
}

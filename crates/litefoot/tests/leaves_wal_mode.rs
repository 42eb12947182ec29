//! A connection takes the database out of WAL mode, and has pages that are older than the newest commits.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot::rusqlite::Connection;
use litefoot_sim::SimMedium;
use std::sync::Arc;

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The rows and views that connections find behind a connection that has left WAL mode and has written: it first, then a new
/// one. The log is emptied before that connection reads, and before it leaves, where that is asked for.
fn found(mode: &str, empties_log: [bool; 2]) -> [[i64; 2]; 2] {
    let name = format!("leaves-{mode}-{empties_log:?}");
    let vfs = Vfs::builder(name).medium(Arc::new(SimMedium::new())).register().unwrap();
    let leaves = vfs.open("/app.db").unwrap();
    leaves.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)").unwrap();
    let other = vfs.open("/app.db").unwrap();
    other.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    let empty_log = || other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    if empties_log[0] {
        empty_log();
    }
    // A view changes page 1, and neither the number of pages nor that of free ones.
    other.execute_batch("CREATE VIEW one AS SELECT 1").unwrap();
    assert_eq!(number(&leaves, "SELECT count(*) FROM t"), 2);
    other.execute_batch("CREATE VIEW two AS SELECT 2; INSERT INTO t VALUES(3)").unwrap();
    if empties_log[1] {
        empty_log();
    }
    drop(other);
    let entered: String =
        leaves.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(entered, mode);
    leaves.execute_batch("INSERT INTO t VALUES(4); CREATE VIEW three AS SELECT 3").unwrap();
    let counts = |db: &Connection| {
        ["SELECT count(*) FROM t", "SELECT count(*) FROM sqlite_schema WHERE type = 'view'"]
            .map(|sql| number(db, sql))
    };
    let new = vfs.open("/app.db").unwrap();
    let integrity: String = new.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    [counts(&leaves), counts(&new)]
}

#[test]
fn nothing_that_was_committed_is_written_over_with_old_pages() {
    for mode in ["delete", "truncate", "persist"] {
        for empties_log in [[false, false], [true, false], [false, true], [true, true]] {
            assert_eq!(found(mode, empties_log), [[4, 3]; 2], "{mode}, the log emptied: {empties_log:?}");
        }
    }
}

#[test]
fn wal_mode_is_entered_and_left_again_and_again() {
    let vfs = Vfs::builder("leaves-again").medium(Arc::new(SimMedium::new())).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("CREATE TABLE t(x)").unwrap();
    for round in 0..6 {
        let mode = if round % 2 == 0 { "WAL" } else { "DELETE" };
        db.execute_batch(&format!("PRAGMA journal_mode={mode}; INSERT INTO t VALUES({round})")).unwrap();
        // The look behind the leave was SQLite's own: later ones say what the file says.
        let version = number(&db, "PRAGMA data_version");
        assert_eq!(number(&db, "SELECT count(*) FROM t"), round + 1);
        assert_eq!(number(&db, "PRAGMA data_version"), version);
    }
}

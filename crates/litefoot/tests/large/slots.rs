//! Large transactions with a log whose old pages went to the redo log ahead of the commit: what becomes of those that the
//! transaction has given up.

use crate::support::{open_small, put, rows_of, vfs};
use litefoot::Vfs;
use litefoot::rusqlite::{Connection, ErrorCode, Result};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};

/// A database with two tables, all in its file.
fn prepared(litefoot: &Vfs, rows: i64) -> Connection {
    let db = litefoot.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA auto_vacuum=full; PRAGMA journal_mode=wal;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY, v)",
    )
    .unwrap();
    put(&db, "t", 0..rows, 1).unwrap();
    put(&db, "u", 0..rows, 1).unwrap();
    drop(db);
    let db = open_small(litefoot, "/app.db");
    db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    db
}

/// Pages that were rolled back are in the redo log, and must not hide those that a later transaction writes into the
/// file there.
#[test]
fn a_page_that_was_given_up_and_cut_off_is_not_new() {
    for cuts_at_once in [true, false] {
        let medium = SimMedium::new();
        let litefoot = vfs(&medium, "write_buffer_size=64K&page_cleaner=foreground");
        let db = prepared(&litefoot, 100);
        db.execute_batch("PRAGMA wal_autocheckpoint=0; BEGIN").unwrap();
        put(&db, "t", 0..60, 2).unwrap();
        db.execute_batch("SAVEPOINT s").unwrap();
        put(&db, "u", 0..100, 9).unwrap();
        db.execute_batch("ROLLBACK TO s").unwrap();
        let cut = if cuts_at_once { "DROP TABLE u; COMMIT" } else { "COMMIT; DROP TABLE u" };
        db.execute_batch(cut).unwrap();
        // As long as it reads, the log is not begun anew.
        let reader = litefoot.open("/app.db").unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        assert_eq!(rows_of(&reader, 2), 60);
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        db.execute_batch("BEGIN").unwrap();
        put(&db, "t", 100..300, 2).unwrap();
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(rows_of(&db, 2), 260);
        for seed in 0..3 {
            let cut = vfs(&medium.cut(&mut Random::new(seed)), "");
            assert_eq!(rows_of(&cut.open("/app.db").unwrap(), 2), 260, "{cuts_at_once}");
        }
    }
}

/// A full disk is met before a commit is published, however many pages were written away and came back.
#[test]
fn a_full_disk_is_met_in_time_whatever_came_back() {
    for synchronous in ["normal", "off", "full"] {
        for small in [false, true] {
            let medium = SimMedium::new();
            let litefoot = vfs(&medium, "write_buffer_size=512K&page_cleaner=foreground");
            let db = prepared(&litefoot, 200);
            db.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous={synchronous}"))
                .unwrap();
            let act = |db: &Connection| {
                db.execute_batch("BEGIN")?;
                put(db, "t", 0..200, 9)?;
                put(db, "t", 0..90, 2)?;
                db.execute_batch("COMMIT")?;
                if small {
                    (0..300).try_for_each(|id| put(db, "t", id % 90..id % 90 + 1, 2))?;
                }
                Ok(())
            };
            let used: usize = medium.files().iter().map(|(_, _, bytes)| bytes.len()).sum();
            let mut met = 0;
            for more in (0..8_000_000).step_by(20_000) {
                medium.set_faults(Faults::full_at((used + more) as u64));
                let result: Result<()> = act(&db);
                let Err(error) = result else { break };
                met += 1;
                let code = error.sqlite_error_code();
                assert_eq!(code, Some(ErrorCode::DiskFull), "{synchronous} {small} {more}: {error}");
                let _ = db.execute_batch("ROLLBACK");
            }
            assert!(met > 10, "{met}");
            medium.set_faults(Faults::default());
            assert_eq!(rows_of(&db, 2), 90);
        }
    }
}

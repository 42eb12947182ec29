//! A medium that fails.

use crate::model::{Rows, check_all, check_snapshot, fill, put, put_total};
use crate::support::{databases_agree, parse};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot::{Vfs, clear_last_error, last_error};
use litefoot_sim::Faults;
use litefoot_sim::SimMedium;
use litefoot_storage::file::{FileKind, Operation};
use std::sync::Arc;

const ROWS: i64 = 400;

fn vfs(name: &str, medium: &SimMedium, options: &str) -> Vfs {
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(parse(options)).register().unwrap()
}

/// A medium with a database on it that nobody has open.
fn medium(mode: &str) -> (SimMedium, Rows) {
    let medium = SimMedium::new();
    let vfs = vfs("faults-fill", &medium, "");
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}")).unwrap();
    let rows = fill(&db, ROWS);
    (medium, rows)
}

fn code(result: litefoot::rusqlite::Result<()>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.sqlite_error_code())
}

fn failing_reads() -> Faults {
    Faults::failing(Operation::Read, FileKind::Database, 0)
}

/// The `n`-th operation fails, and no other.
fn once(operation: Operation, kind: FileKind, n: u64) -> Faults {
    let mut faults = Faults::failing(operation, kind, n);
    faults.fail_again = false;
    faults
}

#[test]
fn a_read_error_goes_to_the_one_who_asked() {
    for (mode, options) in [("delete", ""), ("wal", ""), ("delete", "buffer_pool_size=0")] {
        let (medium, rows) = medium(mode);
        let vfs = vfs("faults-read", &medium, options);
        let db = vfs.open("/app.db").unwrap();
        let other = vfs.open("/app.db").unwrap();
        let sum =
            |db: &Connection| db.query_row("SELECT versions FROM total", [], |row| row.get::<_, i64>(0));
        assert_eq!((sum(&db), sum(&other)), (Ok(ROWS), Ok(ROWS)));
        medium.set_faults(failing_reads());
        assert_eq!(code(check_snapshot(&db)), Some(ErrorCode::SystemIoFailure), "{mode}");
        if options.is_empty() {
            // Pages in memory are there for all connections, also for new ones.
            assert_eq!(
                (sum(&db), sum(&other), sum(&vfs.open("/app.db").unwrap())),
                (Ok(ROWS), Ok(ROWS), Ok(ROWS))
            );
        }
        medium.set_faults(Faults::default());
        databases_agree(&vfs);
        check_all(&db, &rows);
        check_all(&other, &rows);
    }
}

/// Within a transaction SQLite must hear of an input/output error: only that makes it give up what it has of a
/// transaction that cannot be rolled back. Later ones do not begin.
#[test]
fn a_failed_sync_is_an_input_output_error_and_then_nothing_is_written() {
    for mode in ["delete", "wal"] {
        let (medium, rows) = medium(mode);
        let vfs = vfs("faults-sync", &medium, "");
        let db = vfs.open("/app.db").unwrap();
        let other = vfs.open("/app.db").unwrap();
        check_all(&other, &rows);
        medium.set_faults(once(Operation::Sync, FileKind::RedoLog, 0));
        assert_eq!(code(put(&db, 1, 2)), Some(ErrorCode::SystemIoFailure), "{mode}");
        for db in [&db, &other, &db, &vfs.open("/app.db").unwrap()] {
            clear_last_error();
            assert_eq!(code(put(db, 1, 2)), Some(ErrorCode::ReadOnly), "{mode}");
            let text = last_error().unwrap();
            assert!(text.contains("/app.db") && text.contains("sync"), "{text}");
            check_all(db, &rows);
        }
        db.execute_batch("BEGIN").unwrap();
        assert_eq!(code(put(&db, 1, 2)), Some(ErrorCode::ReadOnly), "{mode}");
        db.execute_batch("COMMIT").unwrap();
        check_all(&db, &rows);
        databases_agree(&vfs);
        drop((db, other));
        let db = vfs.open("/app.db").unwrap();
        check_all(&db, &rows);
        assert_eq!(code(put(&db, 1, 1)), None, "{mode}");
    }
}

/// The sync of a checkpoint fails while another connection writes.
#[test]
fn a_transaction_that_has_begun_before_a_failed_sync_hears_of_an_input_output_error() {
    let (medium, rows) = medium("wal");
    let vfs = vfs("faults-begun", &medium, "");
    let db = vfs.open("/app.db").unwrap();
    let other = vfs.open("/app.db").unwrap();
    put(&db, 1, 1).unwrap();
    db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10; BEGIN IMMEDIATE").unwrap();
    put(&db, 1, 2).unwrap();
    medium.set_faults(once(Operation::Sync, FileKind::Database, 0));
    let checkpoint = other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    assert_eq!(code(checkpoint), Some(ErrorCode::SystemIoFailure));
    put(&db, 2, 2).unwrap();
    assert_eq!(code(db.execute_batch("COMMIT")), Some(ErrorCode::SystemIoFailure));
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").unwrap();
    }
    for db in [&db, &other] {
        assert_eq!(code(put(db, 1, 2)), Some(ErrorCode::ReadOnly));
        check_all(db, &rows);
    }
    databases_agree(&vfs);
}

/// Each read fails once, at some time. SQLite hears of that only where the pool had no memory for the page.
#[test]
fn a_read_that_fails_once_is_done_again() {
    let (medium, rows) = medium("delete");
    let vfs = vfs("faults-once", &medium, "buffer_pool_size=1M");
    let mut heard = 0;
    for n in (0..60).step_by(3) {
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("SELECT count(*) FROM total").unwrap();
        medium.set_faults(once(Operation::Read, FileKind::Database, n));
        if let Some(code) = code(check_snapshot(&db)) {
            assert_eq!(code, ErrorCode::SystemIoFailure);
            heard += 1;
        }
        medium.set_faults(Faults::default());
        check_all(&db, &rows);
        databases_agree(&vfs);
    }
    assert!(heard <= 1, "{heard} of 20 reads that failed once were not done again");
}

#[test]
fn a_read_ahead_that_fails_is_nobodys_error() {
    let (medium, rows) = medium("delete");
    let vfs = vfs("faults-ahead", &medium, "");
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("SELECT count(*) FROM total").unwrap();
    let database = vfs.databases().pop().unwrap();
    let pages = database.known_pages().unwrap();
    for fails in [true, false] {
        if fails {
            medium.set_faults(failing_reads());
        }
        pages.pool().read_ahead(&(1..pages.pool().pages()).collect::<Vec<_>>());
        // Every page is there, or can be read, once those who read ahead have ended.
        while pages.pool().is_reading() {
            std::thread::yield_now();
        }
        medium.set_faults(Faults::default());
        databases_agree(&vfs);
        check_all(&db, &rows);
    }
}

/// The commit is in the log, in pages of another size than those of the file, or it is not.
#[test]
fn a_vacuum_to_other_pages_whose_copy_fails_is_read_from_the_log() {
    let mut uncopied = 0;
    for (before, after) in [(4096, 1024), (1024, 4096), (512, 65536), (65536, 512)] {
        for n in 0..8 {
            let medium = SimMedium::new();
            let vfs = vfs("faults-vacuum", &medium, "");
            let db = vfs.open("/app.db").unwrap();
            db.execute_batch(&format!("PRAGMA page_size={before}")).unwrap();
            let mut rows = fill(&db, 100);
            medium.set_faults(Faults::failing(Operation::Write, FileKind::Database, n));
            let vacuumed = db.execute_batch(&format!("PRAGMA page_size={after}; VACUUM")).is_ok();
            uncopied += u32::from(vacuumed);
            check_all(&db, &rows);
            let other = vfs.open("/app.db").unwrap();
            check_all(&other, &rows);
            databases_agree(&vfs);
            medium.set_faults(Faults::default());
            for id in 1..50 {
                put(&other, id, 2).unwrap();
                rows.insert(id, 2);
            }
            put_total(&other, &rows).unwrap();
            check_all(&other, &rows);
            check_all(&db, &rows);
            databases_agree(&vfs);
            drop((db, other));
            check_all(&vfs.open("/app.db").unwrap(), &rows);
        }
    }
    assert!(uncopied > 3, "{uncopied}");
}

/// A transaction over two databases writes in place, by SQLite's own journal. Any of its writes may fail.
#[test]
fn a_transaction_over_two_databases_that_fails_has_not_happened() {
    for operation in [Operation::Write, Operation::Sync, Operation::SetLength] {
        for kind in [FileKind::Database, FileKind::Journal, FileKind::SuperJournal, FileKind::RedoLog] {
            for n in 0..12 {
                let medium = SimMedium::new();
                let vfs = vfs("faults-both", &medium, "");
                let db = vfs.open("/app.db").unwrap();
                db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10").unwrap();
                let mut rows = fill(&db, 100);
                db.execute_batch("ATTACH '/other.db' AS other; CREATE TABLE other.u(id INTEGER PRIMARY KEY)")
                    .unwrap();
                let begun = rows.clone();
                db.execute_batch("BEGIN; INSERT INTO other.u VALUES(1)").unwrap();
                for id in (1..100).step_by(2) {
                    put(&db, id, 2).unwrap();
                    rows.insert(id, 2);
                }
                put_total(&db, &rows).unwrap();
                medium.set_faults(once(operation, kind, n));
                let committed = db.execute_batch("COMMIT");
                medium.set_faults(Faults::default());
                let what = format!("{operation:?} {n} of {kind:?}: {committed:?}");
                if committed.is_err() && !db.is_autocommit() {
                    db.execute_batch("ROLLBACK").unwrap();
                }
                let here =
                    |db: &Connection| db.query_row("SELECT count(*) FROM u", [], |row| row.get::<_, i64>(0));
                if operation != Operation::Sync {
                    assert_eq!(
                        here(&db).map_err(|error| panic!("{what}: {error}")),
                        Ok(i64::from(committed.is_ok())),
                        "{what}"
                    );
                    check_all(&db, if committed.is_ok() { &rows } else { &begun });
                    databases_agree(&vfs);
                }
                drop(db);
                // After a failed sync the journals decide, and for both alike.
                let db = vfs.open("/app.db").unwrap();
                db.execute_batch("ATTACH '/other.db' AS other").unwrap();
                let committed = here(&db).unwrap() == 1;
                check_all(&db, if committed { &rows } else { &begun });
                databases_agree(&vfs);
            }
        }
    }
}

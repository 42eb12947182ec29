//! Full disks: a transaction fails, and nothing else does.

use crate::support::{insert, open};
use crate::transaction::{AFTER, BEFORE, CLEANERS, MODES, ROWS, Setup, prepared, state, transact};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_sim::{Faults, Random};

#[test]
fn a_full_disk_fails_the_transaction_and_nothing_else() {
    for mode in MODES.into_iter().chain(["memory"]) {
        for page_cleaner in CLEANERS {
            meet_a_full_disk(mode, page_cleaner, "normal");
        }
        // A connection that keeps its lock cannot tell the end of a rollback by it.
        meet_a_full_disk(mode, "foreground", "exclusive");
    }
}

fn meet_a_full_disk(mode: &str, page_cleaner: &str, locking: &str) {
    let Setup { medium, vfs, db } = prepared(mode, page_cleaner);
    let what = format!("{mode} {page_cleaner} {locking}");
    db.execute_batch(&format!("PRAGMA locking_mode={locking}; PRAGMA journal_mode={mode}")).unwrap();
    let used = medium.used_bytes();
    let (mut failed, mut done) = (0, false);
    for more in (0..4_000_000).step_by(60_000) {
        medium.set_faults(Faults::full_at(used + more));
        match transact(&db) {
            Ok(()) => {
                done = true;
                break;
            }
            Err(error) => {
                let code = error.sqlite_error_code();
                assert_eq!(code, Some(ErrorCode::DiskFull), "{what} {more}: {error}");
                let _ = db.execute_batch("ROLLBACK");
                failed += 1;
            }
        }
        assert_eq!(state(&db), Ok(BEFORE), "{what} {more}");
    }
    assert!(done && failed > 1, "{what}: {failed}");
    assert_eq!(state(&db), Ok(AFTER));
    medium.set_faults(Faults::default());
    insert(&db, 0..5, 1).unwrap();
    drop(db);
    let db = vfs.open("/app.db").unwrap();
    assert_eq!(state(&db), Ok((5, ROWS - 5)), "{what}");
}

/// A commit over two databases goes back to SQLite's own protocol, and the disk is full then. The connection keeps its lock,
/// and goes on.
#[test]
fn a_full_disk_in_a_commit_over_two_databases_spoils_no_later_one() {
    for (mode, locking) in
        [("delete", "exclusive"), ("delete", "normal"), ("persist", "exclusive"), ("truncate", "exclusive")]
    {
        meet_a_full_disk_in_both(mode, locking);
    }
}

fn meet_a_full_disk_in_both(mode: &str, locking: &str) {
    let (mut failed, mut done) = (0, false);
    for more in (0..6_000_000).step_by(20_000) {
        let Setup { medium, vfs, db } = prepared(mode, "foreground");
        db.execute_batch("ATTACH '/other.db' AS other; CREATE TABLE other.u(id INTEGER PRIMARY KEY, v)")
            .unwrap();
        db.execute_batch(&format!("PRAGMA main.journal_mode={mode}; PRAGMA main.locking_mode={locking}; INSERT INTO t VALUES(1000, 1); DELETE FROM t WHERE id = 1000"))
            .unwrap();
        let used = medium.used_bytes();
        medium.set_faults(Faults::full_at(used + more));
        let both = |db: &Connection| {
            db.execute_batch("BEGIN; INSERT INTO other.u VALUES(NULL, 1)")?;
            insert(db, 20..40, 2)?;
            insert(db, 40..ROWS, 2)?;
            insert(db, 0..20, 2)?;
            db.execute_batch("COMMIT")
        };
        let result = both(&db);
        medium.set_faults(Faults::default());
        if result.is_ok() {
            assert_eq!(state(&db), Ok(AFTER), "{mode} {locking} {more}");
            done = true;
        } else {
            let _ = db.execute_batch("ROLLBACK");
            failed += 1;
            assert_eq!(state(&db), Ok(BEFORE), "{mode} {locking} {more}");
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 10..40, 2).unwrap();
            insert(&db, 0..10, 2).unwrap();
            insert(&db, 40..ROWS, 2).unwrap();
            db.execute_batch("COMMIT").unwrap();
            assert_eq!(state(&db), Ok(AFTER), "{mode} {locking} {more}");
        }
        let (_vfs, after) = open(&medium.cut(&mut Random::new(1)), "");
        assert_eq!(state(&after), Ok(AFTER), "{mode} {locking} {more} after a cut");
        drop((db, vfs));
        if done {
            break;
        }
    }
    assert!(done && failed > 3, "{mode} {locking} {failed}");
}

//! The writes of large transactions, their number, and what is left behind.

use crate::support::{insert, open_on, open_small};
use crate::transaction::{AFTER, BEFORE, CLEANERS, MODES, ROWS, Setup, prepared, state, transact};
use litefoot_sim::{CountingMedium, SimMedium};
use litefoot_storage::file::FileKind;
use std::sync::Arc;

#[test]
fn a_rollback_leaves_nothing_behind() {
    for mode in MODES {
        for page_cleaner in CLEANERS {
            let Setup { medium, vfs, db } = prepared(mode, page_cleaner);
            let database = |medium: &SimMedium| {
                let files = medium.files();
                files.into_iter().find(|(_, kind, _)| *kind == FileKind::Database).unwrap().2
            };
            let before = database(&medium);
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 0..300, 2).unwrap();
            db.execute_batch("ROLLBACK").unwrap();
            assert!(database(&medium) == before, "{mode} {page_cleaner}: the file has changed");
            assert_eq!(state(&db), Ok(BEFORE));
            transact(&db).unwrap();
            assert_eq!(state(&db), Ok(AFTER));
            drop((db, vfs));
        }
    }
}

#[test]
fn spills_are_counted() {
    for mode in ["delete", "wal"] {
        let Setup { medium: _medium, vfs: _vfs, db } = prepared(mode, "foreground");
        let figure = |name: &str| -> i64 {
            let sql = "SELECT value FROM litefoot_stats WHERE name = ?1";
            db.query_row(sql, [name], |row| row.get(0)).unwrap()
        };
        db.execute_batch("BEGIN").unwrap();
        insert(&db, 40..ROWS, 2).unwrap();
        assert!(figure("spills") > 2, "{mode}");
        assert!(figure("spilled_bytes") > 40 * 4096, "{mode}");
        db.execute_batch("COMMIT").unwrap();
        assert!(figure("spill_waits") > 2, "{mode}");
        assert_eq!(figure("txn_dirty_bytes"), 0);
    }
}

/// However little memory there is, a page goes to the log and from there home, and a new one home at once. With a rollback
/// journal SQLite keeps what was there before as well.
#[test]
fn a_page_is_written_twice_at_most_and_a_new_one_once() {
    const MANY: i64 = 600;
    for mode in MODES {
        let medium = CountingMedium::new(Arc::new(SimMedium::new()));
        let (vfs, db) = open_on(Arc::new(medium.clone()), "write_buffer_size=64K");
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        drop(db);
        for (version, most) in [(1, 1.15), (2, 2.2)] {
            let before = medium.snapshot();
            let db = open_small(&vfs, "/app.db");
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 0..MANY, version).unwrap();
            db.execute_batch("COMMIT").unwrap();
            drop(db);
            let written = medium.snapshot() - before;
            let times = written.total().bytes_written as f64 / (MANY * 4096) as f64;
            let journal = written.of(FileKind::Temporary).bytes_written as f64 / (MANY * 4096) as f64;
            assert!(
                times - journal < most,
                "{mode}: {times} for version {version}, {journal} for the journal"
            );
            assert!(mode != "wal" || journal < 0.02, "{mode}: {journal}");
        }
        let db = vfs.open("/app.db").unwrap();
        assert_eq!(state(&db), Ok((0, MANY)));
    }
}

//! The logs after a crash, or after another program.

use super::support::*;
use litefoot::Vfs;
use litefoot::rusqlite::ErrorCode;
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{FileKind, Operation};
use litefoot_testkit::sqlite::metric_or_zero;
use std::sync::Arc;

#[test]
fn a_log_beside_a_database_that_somebody_else_changed_is_kept_and_the_database_can_be_read() {
    let (medium, vfs, db) = prepared("commits-foreign");
    db.execute_batch("INSERT INTO t(v) VALUES(1); INSERT INTO t(v) VALUES(2)").unwrap();
    let image = medium.cut(&mut Random::new(1));
    drop((db, vfs));
    let stock = Vfs::builder("commits-foreign-stock")
        .medium(Arc::new(image.clone()))
        .pass_through(true)
        .register()
        .unwrap();
    let db = stock.open("/app.db").unwrap();
    assert!(rows(&db).len() < 2, "stock SQLite reads the state before");
    db.execute_batch("INSERT INTO t(v) VALUES('other')").unwrap();
    drop((db, stock));
    let vfs = self::vfs("commits-foreign-2", &image);
    let before = image.files();
    let db = vfs.open("/app.db").unwrap();
    assert_eq!(rows(&db).last().unwrap(), "1|'other'|NULL");
    let error = db.execute("INSERT INTO t(v) VALUES(3)", []).unwrap_err();
    let reason = litefoot::last_error().unwrap();
    assert!(reason.contains("/app.db-commits holds 2 committed transactions"), "{error}: {reason}");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(db);
    assert!(image.files() == before, "something was written");
}

/// A connection that needs no durability checkpoints what others were promised: a power cut at any point of that
/// must not cost them anything.
#[test]
fn a_checkpoint_without_syncs_keeps_what_others_have_committed() {
    for mode in ["PASSIVE", "TRUNCATE"] {
        let (medium, vfs, db) = prepared(&format!("commits-off-{mode}"));
        for number in 0..40 {
            db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (number, [0; 300])).unwrap();
        }
        let careless = vfs.open("/app.db").unwrap();
        careless.execute_batch("PRAGMA synchronous=OFF").unwrap();
        let promised = medium.operations();
        let expected = rows(&db);
        for number in 0..3 {
            careless.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
            careless.execute("UPDATE t SET v = v + 1000 WHERE id = ?1 AND 0", [number]).unwrap();
            careless.execute("DELETE FROM t WHERE id > 100000", []).unwrap();
            careless
                .execute_batch("CREATE TABLE IF NOT EXISTS u(a); INSERT INTO u VALUES(zeroblob(3000))")
                .unwrap();
        }
        drop(db);
        drop(careless);
        let end = medium.operations();
        for (cut, image) in medium.cuts(promised..=end, 6, &mut Random::new(9)) {
            let vfs = self::vfs(&format!("commits-off-cut-{mode}"), &image);
            let db = vfs.open("/app.db").unwrap();
            assert_eq!(rows(&db), expected, "{mode}, cut at {cut} of {end}");
            let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(integrity, "ok", "{mode}, cut at {cut}");
        }
    }
}

/// A process that dies between a materialization and its sync leaves it with the operating system only. The next
/// process that opens the database must not give the statements up before it is durable.
#[test]
fn a_fold_that_was_not_synced_is_synced_before_the_statements_go() {
    // More pages than one write takes, and nothing materializes them before.
    let medium = SimMedium::new();
    let mut options = logging();
    options.set("write_buffer_size", "256M").unwrap();
    let vfs = Vfs::builder("commits-unsynced")
        .medium(Arc::new(medium.clone()))
        .options(options)
        .register()
        .unwrap();
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
    db.execute_batch("CREATE INDEX i ON t(v)").unwrap();
    // Few transactions, so that their time is far below that which one log may take.
    for number in 0..20 {
        db.execute_batch("BEGIN").unwrap();
        for part in 0..20 {
            db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (20 * number + part, [0; 3500])).unwrap();
        }
        db.execute_batch("COMMIT").unwrap();
    }
    let expected = rows(&db);
    assert_eq!(metric_or_zero(&db, "commits_statements"), 20);
    medium.set_faults(Faults::failing(Operation::Sync, FileKind::RedoLog, 0));
    let failed = db.query_row("PRAGMA wal_checkpoint", [], |row| row.get::<_, i64>(0));
    assert!(failed.is_err() || failed.is_ok_and(|busy| busy != 0), "the planted fault was not met");
    drop((db, vfs));
    medium.set_faults(Faults::default());
    let dead = medium.operations();
    let vfs = self::vfs("commits-unsynced-2", &medium);
    assert_eq!(rows(&vfs.open("/app.db").unwrap()), expected);
    let end = medium.operations();
    for (cut, image) in medium.cuts(dead..end.min(dead + 20), 6, &mut Random::new(4)) {
        let vfs = self::vfs("commits-unsynced-cut", &image);
        assert_eq!(rows(&vfs.open("/app.db").unwrap()), expected, "cut at {cut} of {end}");
    }
}

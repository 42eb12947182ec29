//! A log that stock SQLite has left, and that is larger than litefoot keeps in memory: its pages go to the database.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::rusqlite::config::DbConfig;
use litefoot::{Options, Vfs};
use litefoot_sim::{Faults, Random, SimMedium, SyncSite};
use litefoot_storage::file::FileKind;
use litefoot_testkit::sqlite::{metric_or_zero, vfs_name};
use std::path::Path;
use std::sync::Arc;

/// Transactions, each of which changes all rows, and rows that fill a page each.
const TRANSACTIONS: i64 = 60;
const ROWS: i64 = 12;

fn open(medium: &SimMedium, pass_through: bool) -> (Vfs, Connection) {
    let mut options = Options::default();
    options.set_list("write_buffer_size=64K").unwrap();
    let builder = Vfs::builder(vfs_name("large-log")).medium(Arc::new(medium.clone())).options(options);
    let vfs = builder.pass_through(pass_through).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    (vfs, db)
}

/// A database with a log of some megabytes, whose last frames nobody has synced.
fn left_by_stock(transactions: i64) -> SimMedium {
    let medium = SimMedium::new();
    let (_vfs, db) = open(&medium, true);
    db.execute_batch(&format!(
        "PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=NORMAL;
         CREATE TABLE t(id INTEGER PRIMARY KEY, v, filler);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         INSERT INTO t SELECT i, 0, zeroblob(3500) FROM n; PRAGMA wal_checkpoint"
    ))
    .unwrap();
    for n in 1..=transactions {
        db.execute("UPDATE t SET v = ?1", [n]).unwrap();
    }
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    drop(db);
    medium
}

fn log_bytes(medium: &SimMedium) -> usize {
    let log = Path::new("/app.db-wal");
    medium.files().into_iter().find(|(path, ..)| path == log).map_or(0, |(.., bytes)| bytes.len())
}

/// The value that all rows have, where the database is sound.
fn value(db: &Connection) -> Option<i64> {
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).ok()?;
    let found: (i64, i64, i64) = db
        .query_row("SELECT count(*), min(v), max(v) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .ok()?;
    (integrity == "ok" && found.0 == ROWS && found.1 == found.2).then_some(found.1)
}

#[test]
fn its_pages_go_to_the_database_and_not_into_memory() {
    for (transactions, goes_home) in [(1, false), (TRANSACTIONS, true)] {
        let medium = left_by_stock(transactions);
        let before = log_bytes(&medium);
        assert!(before > if goes_home { 1 << 20 } else { 40_000 }, "{before}");
        let (_vfs, db) = open(&medium, false);
        assert_eq!(value(&db), Some(transactions));
        assert_eq!(log_bytes(&medium) == before, !goes_home, "{transactions}");
        assert_eq!(metric_or_zero(&db, "spilled_bytes"), 0);
        db.execute("UPDATE t SET v = v + 1", []).unwrap();
        let (_stock, other) = open(&medium.copy(), true);
        assert_eq!(value(&other), Some(transactions + 1));
    }
}

/// Opens the database, and cuts the power at each operation; answers whether each cut leaves one of its states.
fn survives(faults: Faults) -> bool {
    let medium = left_by_stock(TRANSACTIONS);
    let before = medium.operations();
    medium.set_faults(faults);
    let (_vfs, db) = open(&medium, false);
    assert_eq!(value(&db), Some(TRANSACTIONS));
    let mut random = Random::new(3);
    let mut images = medium.cuts(before..=medium.operations(), 6, &mut random);
    images.all(|(point, image)| {
        [true, false].into_iter().all(|pass_through| {
            let (_vfs, db) = open(&image.copy(), pass_through);
            let found = value(&db);
            // Once it was read, it stays.
            let is_done = point == medium.operations();
            found.is_some_and(|found| if is_done { found == TRANSACTIONS } else { found <= TRANSACTIONS })
        })
    })
}

#[test]
fn a_power_cut_meanwhile_leaves_a_state_that_was_committed() {
    assert!(survives(Faults::default()));
    for kind in [FileKind::RedoLog, FileKind::Database] {
        let without = Faults::ignoring(SyncSite::File(kind), None);
        assert!(!survives(without), "the sync of {kind:?} is needed");
    }
}

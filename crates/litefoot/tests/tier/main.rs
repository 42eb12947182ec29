//! Databases whose hot chunks live on a second device: where everything lies, and what is refused.

#![allow(clippy::unwrap_used)]

mod behind_stock;
mod concurrent;
mod deltas;
mod full;
mod hot;
mod large;
mod pool;
mod tiny;
mod visitors;

use litefoot::rusqlite::{self, Connection, OpenFlags};
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{FileKind, Medium, Operation};
use litefoot_testkit::sqlite::{metric, vfs_name};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PLAIN: &str = "/db/app.db";
const DEVICE: &str = "/fast/app.tier";
const TIERED: &str = "file:/db/app.db?tier=/fast/app.tier&tier_size=128k&tier_policy=lru";
const MODES: [&str; 2] = ["delete", "wal"];

type Files = Vec<(PathBuf, FileKind, Vec<u8>)>;

fn vfs(medium: &SimMedium) -> Vfs {
    Vfs::builder(vfs_name("tier"))
        .medium(Arc::new(medium.clone()))
        .options(Options { commit_log: litefoot::CommitLogForm::Statements, ..Options::default() })
        .register()
        .unwrap()
}

/// A database under a name, with a table and so many rows; it stays open.
fn filled(medium: &SimMedium, name: &str, mode: &str, rows: i64) -> (Vfs, Connection) {
    let vfs = vfs(medium);
    let db = vfs.open(name).unwrap();
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, rows);
    (vfs, db)
}

fn insert(db: &Connection, rows: i64) {
    for _ in 0..rows {
        db.execute("INSERT INTO t(v) VALUES(?1)", [[0; 300]]).unwrap();
    }
}

fn count(db: &Connection) -> i64 {
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn there(medium: &SimMedium, path: &str) -> bool {
    medium.info(Path::new(path)).unwrap().is_some()
}

fn bytes(files: &Files, path: &str) -> Vec<u8> {
    files.iter().find(|(name, _, _)| name == Path::new(path)).unwrap().2.clone()
}

fn is_marked(medium: &SimMedium) -> bool {
    bytes(&medium.files(), PLAIN).starts_with(b"litefoot tiered\0")
}

/// The files that a process would leave that was killed now.
fn killed(medium: &SimMedium) -> SimMedium {
    medium.copy()
}

fn without(files: Files, path: &str) -> Files {
    files.into_iter().filter(|(name, _, _)| name != Path::new(path)).collect()
}

/// The rows that plain SQLite finds in the files of the database's directory.
fn stock(medium: &SimMedium) -> rusqlite::Result<i64> {
    let directory = tempfile::tempdir().unwrap();
    for (path, _, bytes) in medium.files() {
        if path.starts_with("/db") {
            std::fs::write(directory.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
    }
    let db = stock_at(directory.path().join("app.db"))?;
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

/// Plain SQLite on real files.
fn stock_at(path: impl AsRef<Path>) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix")
}

/// Opening is refused with these words, by the open itself, and nothing is written.
fn refused(files: Files, name: &str, parts: &[&str]) {
    let medium = SimMedium::with_files(files);
    let before = medium.files();
    let error = vfs(&medium).open(name).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(before == medium.files(), "something was written: {error}");
}

#[test]
fn chunks_and_logs_live_on_the_device_until_the_last_connection_closes() {
    for mode in MODES {
        let medium = SimMedium::new();
        let (vfs, db) = filled(&medium, TIERED, mode, 50);
        assert!(is_marked(&medium), "{mode}");
        assert!(metric(&db, "tier.away") > 0);
        assert!(there(&medium, "/fast/app.tier-redo"));
        assert_eq!(there(&medium, "/fast/app.tier-commits"), mode == "wal");
        for beside in ["/db/app.db-wal", "/db/app.db-commits", "/db/app.db-journal"] {
            assert!(!there(&medium, beside), "{mode}: {beside}");
        }
        let error = stock(&medium).unwrap_err().to_string();
        assert!(error.contains("file is not a database"), "{error}");
        // A second connection needs no option.
        assert_eq!(count(&vfs.open(PLAIN).unwrap()), 50);
        assert_eq!(count(&db), 50);
        drop(db);
        assert!(!is_marked(&medium));
        for log in ["/fast/app.tier-redo", "/fast/app.tier-commits"] {
            assert!(!there(&medium, log), "{mode}: {log}");
        }
        assert_eq!(stock(&medium).unwrap(), 50);
        // The option is left away, and comes back.
        let db = vfs.open(PLAIN).unwrap();
        insert(&db, 5);
        drop(db);
        let db = vfs.open(TIERED).unwrap();
        insert(&db, 5);
        assert!(is_marked(&medium));
        assert_eq!(count(&db), 60);
    }
}

#[test]
fn what_is_away_is_found_again_and_not_without_the_device() {
    for mode in MODES {
        let medium = SimMedium::new();
        let (_vfs, db) = filled(&medium, TIERED, mode, 50);
        let image = killed(&medium);
        drop(db);
        refused(image.files(), PLAIN, &["parts of it live on the tier device /fast/app.tier", "tier drain"]);
        let missing = without(image.files(), "/fast/app.tier");
        refused(missing, TIERED, &["there is nothing at /fast/app.tier"]);
        let again = vfs(&image);
        assert_eq!(count(&again.open(TIERED).unwrap()), 50);
        assert!(!is_marked(&image) && stock(&image).unwrap() == 50);
    }
}

#[test]
fn devices_of_another_time_or_database_are_refused_when_the_database_is_opened() {
    let medium = SimMedium::new();
    let (_vfs, db) = filled(&medium, TIERED, "delete", 50);
    let early = killed(&medium).files();
    let image = killed(&medium);
    drop(db);
    // It has come home, and left once more, since.
    drop(filled(&image, TIERED, "delete", 1));
    let plain: Files = image.files();
    assert!(!bytes(&plain, PLAIN).starts_with(b"litefoot"));
    let mixed: Files = early
        .iter()
        .map(|(path, kind, content)| {
            let old = path == Path::new("/fast/app.tier");
            (path.clone(), *kind, if old { bytes(&plain, "/fast/app.tier") } else { content.clone() })
        })
        .collect();
    refused(mixed, TIERED, &["do not belong to the same moment"]);
    let mut others = early.clone();
    others.push(("/db/other.db".into(), FileKind::Database, Vec::new()));
    refused(others, "file:/db/other.db?tier=/fast/app.tier", &["belongs to /db/app.db"]);
    let shared = "file:/db/app.db?tier=/fast/app.tier&sharing=passthrough";
    refused(early, shared, &["leave sharing=passthrough out"]);
}

#[test]
fn logs_of_another_time_are_refused() {
    for (mode, log) in
        [("delete", "/db/app.db-wal"), ("wal", "/db/app.db-wal"), ("wal", "/db/app.db-commits")]
    {
        let medium = SimMedium::new();
        let (_vfs, db) = filled(&medium, TIERED, mode, 50);
        let mut files = killed(&medium).files();
        drop(db);
        files.push((log.into(), FileKind::RedoLog, vec![7; 5000]));
        refused(files, TIERED, &[log, "of another time"]);
    }
    let medium = SimMedium::new();
    drop(filled(&medium, PLAIN, "delete", 5));
    let mut files = medium.files();
    files.push(("/fast/app.tier-redo".into(), FileKind::RedoLog, vec![7; 5000]));
    refused(files, TIERED, &["/fast/app.tier-redo", "of another time"]);
}

/// The option is added while logs wait beside the database: they are recovered from, and then lie on the device.
#[test]
fn logs_that_wait_beside_the_database_are_taken_over() {
    for mode in MODES {
        let medium = SimMedium::new();
        let (_vfs, db) = filled(&medium, PLAIN, mode, 50);
        let image = killed(&medium);
        drop(db);
        assert!(there(&image, "/db/app.db-wal"));
        assert_eq!(there(&image, "/db/app.db-commits"), mode == "wal");
        let vfs = vfs(&image);
        let db = vfs.open(TIERED).unwrap();
        assert_eq!(count(&db), 50);
        insert(&db, 3);
        if mode == "wal" {
            // Until SQLite begins its log anew the log stays where it is.
            assert!(!is_marked(&image) && there(&image, "/db/app.db-wal"));
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            insert(&db, 3);
        } else {
            insert(&db, 3);
        }
        assert!(
            is_marked(&image) && !there(&image, "/db/app.db-wal") && !there(&image, "/db/app.db-commits")
        );
        let again = killed(&image);
        assert_eq!(count(&db), 56);
        let vfs = self::vfs(&again);
        assert_eq!(count(&vfs.open(TIERED).unwrap()), 56);
    }
}

/// A log that a program without litefoot has left.
#[test]
fn stock_logs_are_taken_over() {
    let medium = SimMedium::new();
    let name = "tier-stock";
    let passing = Vfs::builder(name).medium(Arc::new(medium.clone())).pass_through(true).register().unwrap();
    let db = passing.open(PLAIN).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 20);
    let image = killed(&medium);
    drop(db);
    let vfs = vfs(&image);
    let db = vfs.open(TIERED).unwrap();
    assert_eq!(count(&db), 20);
    insert(&db, 20);
    drop(db);
    assert!(!is_marked(&image) && stock(&image).unwrap() == 40);
}

#[test]
fn a_transaction_over_two_databases_brings_both_home_first() {
    let medium = SimMedium::new();
    let (_vfs, db) = filled(&medium, TIERED, "delete", 50);
    db.execute("ATTACH 'file:/db/two.db?tier=/fast/two.tier' AS two", []).unwrap();
    db.execute_batch("CREATE TABLE two.u(a); INSERT INTO two.u VALUES(zeroblob(5000))").unwrap();
    assert!(is_marked(&medium));
    db.execute_batch("BEGIN; INSERT INTO t(v) VALUES(1); INSERT INTO two.u VALUES(1); COMMIT").unwrap();
    assert!(!is_marked(&medium) && metric(&db, "tier.drains") == 1);
    insert(&db, 9);
    assert!(is_marked(&medium));
    assert_eq!(count(&db), 60);
}

#[test]
fn small_pages_and_small_files() {
    for mode in MODES {
        for page_bytes in [512, 1024, 65536] {
            let medium = SimMedium::new();
            let vfs = vfs(&medium);
            let db = vfs.open(TIERED).unwrap();
            db.execute_batch(&format!("PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum=FULL")).unwrap();
            db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
            for _ in 0..3 {
                db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
                insert(&db, 60);
                db.execute_batch("DROP TABLE t; VACUUM").unwrap();
                if mode == "wal" {
                    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
                }
            }
            db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
            let image = killed(&medium);
            drop(db);
            let pages = bytes(&medium.files(), PLAIN);
            let said = u32::from_be_bytes(pages[28..32].try_into().unwrap()) as usize;
            assert_eq!(pages.len(), said * page_bytes, "{mode}, {page_bytes}");
            assert_eq!(stock(&medium).unwrap(), 0);
            let vfs = self::vfs(&image);
            assert_eq!(count(&vfs.open(TIERED).unwrap()), 0);
            assert_eq!(stock(&image).unwrap(), 0);
        }
    }
}

#[test]
fn a_device_that_fails_makes_the_database_read_only_and_is_named() {
    for mode in MODES {
        let medium = SimMedium::new();
        // Rows that nobody writes again, and some that live on the device.
        let (_vfs, db) = filled(&medium, PLAIN, mode, 400);
        db.execute_batch("ALTER TABLE t RENAME TO old").unwrap();
        drop(db);
        let uncached = format!("{TIERED}&buffer_pool_size=0");
        let (vfs, db) = filled(&medium, &uncached, mode, 60);
        for length in [299, 300] {
            db.execute("UPDATE t SET v=zeroblob(?1)", [length]).unwrap();
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
        assert!(mode != "wal" || metric(&db, "tier.away") > 5, "{}", metric(&db, "tier.away"));
        let image = killed(&medium);
        drop((db, vfs));
        let vfs = self::vfs(&image);
        let db = vfs.open(&uncached).unwrap();
        db.execute_batch("PRAGMA cache_size=10; PRAGMA mmap_size=0").unwrap();
        // The pages that the redo log still has are in memory.
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(count(&db), 60);
        let length = |table: &str, id: i64| {
            let sql = format!("SELECT length(v) FROM {table} WHERE id=?1");
            db.query_row(&sql, [id], |row| row.get::<_, i64>(0))
        };
        (1..=400).for_each(|id| assert_eq!(length("old", id).unwrap(), 300));
        image.set_faults(Faults::failing(Operation::Read, FileKind::Tier, 0));
        (1..=400).for_each(|id| assert_eq!(length("old", id).unwrap(), 300));
        let failures: Vec<rusqlite::Error> = (1..=60).filter_map(|id| length("t", id).err()).collect();
        assert!(!failures.is_empty(), "{mode}");
        for error in failures {
            assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::SystemIoFailure), "{error}");
        }
        let last = litefoot::last_error().unwrap();
        assert!(last.contains("/fast/app.tier"), "{last}");
        let error = db.execute("INSERT INTO old(v) VALUES(1)", []).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly), "{mode}: {error}");
        (1..=400).for_each(|id| assert_eq!(length("old", id).unwrap(), 300));
        drop((db, vfs));
        assert!(is_marked(&image));
        image.set_faults(Faults::default());
        let vfs = self::vfs(&image);
        assert_eq!(count(&vfs.open(TIERED).unwrap()), 60);
    }
}

#[test]
fn a_power_cut_at_any_moment_of_a_first_run_is_recovered_from() {
    for mode in MODES {
        let medium = SimMedium::new();
        let (_vfs, db) = filled(&medium, TIERED, mode, 30);
        drop(db);
        for (point, image) in medium.cuts((0..medium.operations()).step_by(3), 1, &mut Random::new(5)) {
            let vfs = vfs(&image);
            let db = vfs.open(TIERED).unwrap();
            let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(check, "ok", "{mode}, {point}");
        }
    }
}

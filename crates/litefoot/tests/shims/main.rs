//! VFSes above litefoot: nothing that was committed is lost, whatever they do with names, file controls and pages.

#![allow(clippy::unwrap_used)]

mod interposed;
mod shim;

use interposed::in_next_commit;
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot_testkit::files::copy_as_a_crash_leaves;
use shim::{Kind, over, reserve};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
const STOCK: &str = "unix";

/// The VFS below the shims. It is never unregistered.
fn litefoot() -> &'static str {
    static BELOW: OnceLock<litefoot::Vfs> = OnceLock::new();
    BELOW.get_or_init(|| litefoot::Vfs::builder("below").register().unwrap()).name()
}

fn open(path: &Path, parameters: &str, vfs: &str) -> Connection {
    // The test copies the files as a crash leaves them: another who opens the database has them brought home first.
    let uri = format!("file:{}?sharing=exclusive&{parameters}", path.display());
    let db = Connection::open_with_flags_and_vfs(uri, OpenFlags::default(), vfs).unwrap();
    reserve(&db, if vfs.starts_with("Sealing") { 8 } else { 0 });
    db
}

/// The remains of a crash of the process.
fn crash(path: &Path, to: &str) -> PathBuf {
    let copy = path.parent().unwrap().with_file_name(to);
    std::fs::create_dir(&copy).unwrap();
    copy_as_a_crash_leaves(path, &copy.join("app.db"));
    copy.join("app.db")
}

/// The rows, once the database is found sound.
fn rows(path: &Path, vfs: &str) -> i64 {
    let db = open(path, "", vfs);
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok", "{vfs}");
    db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn check(path: &Path, kind: Kind, expected: i64, what: &str) {
    // Those who can read it without the shim.
    let bare = !matches!(kind, Kind::Sealing | Kind::Hiding);
    let below = [STOCK, litefoot()].map(|base| over(base, kind));
    let bare = [STOCK.to_owned(), litefoot().to_owned()].into_iter().filter(|_| bare);
    for (number, vfs) in below.into_iter().chain(bare).enumerate() {
        let copy = crash(path, &format!("{what}{number}"));
        // While deltas wait, stock SQLite reads the last checkpoint.
        let waits = copy.with_file_name("app.db-commits").exists() && vfs.contains(STOCK);
        let rows = rows(&copy, &vfs);
        assert!(
            rows == expected || (waits && rows < expected),
            "{kind:?}, {what}, read by {vfs}: {rows} of {expected}"
        );
    }
}

/// Commits, and crashes between transactions, in the midst of one, and after the database was used again.
fn commits_survive(kind: Kind, mode: &str, parameters: &str, setting: &str) {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let path = home.join("app.db");
    let journal = home.join("app.db-journal");
    let vfs = over(litefoot(), kind);
    let db = open(&path, parameters, &vfs);
    db.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; {setting}; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
    ))
    .unwrap();
    let add = |db: &Connection| db.execute_batch("INSERT INTO t(v) VALUES(randomblob(2000))").unwrap();
    for _ in 0..5 {
        add(&db);
    }
    check(&path, kind, 5, "between");
    // Pages leave the cache, with the old ones in the journal.
    db.execute_batch("PRAGMA cache_size=2; BEGIN; UPDATE t SET v=randomblob(2000)").unwrap();
    db.execute_batch("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<40) INSERT INTO t(v) SELECT randomblob(2000) FROM n")
        .unwrap();
    if mode != "wal" {
        // Where it is known whose journal it is, there is no need for one.
        let passes = matches!(kind, Kind::Through | Kind::Sealing | Kind::Hiding);
        assert_eq!(std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0), !passes, "{kind:?}, {mode}");
    }
    check(&path, kind, 5, "amid");
    db.execute_batch("ROLLBACK").unwrap();
    check(&path, kind, 5, "rolled back");
    add(&db);
    // Another connection of the same process.
    let other = open(&path, "", &vfs);
    add(&other);
    add(&db);
    let count: i64 = other.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 8, "{kind:?}, {mode}");
    check(&path, kind, 8, "later");
    drop((db, other));
    check(&path, kind, 8, "closed");
    assert!(!std::fs::metadata(home.join("app.db-wal")).is_ok_and(|file| file.len() > 0));
}

#[test]
fn commits_below_a_shim_survive_a_crash_in_every_journal_mode() {
    for kind in Kind::ALL {
        for mode in MODES {
            commits_survive(kind, mode, "", "");
        }
    }
}

#[test]
fn commits_below_a_shim_survive_a_crash_where_statements_would_be_logged() {
    for kind in Kind::ALL {
        for mode in ["delete", "wal"] {
            commits_survive(kind, mode, "commit_log=statements", "");
        }
    }
}

/// A commit that SQLite does not sync is with the operating system, too, even if the VFS above tells of no commit.
#[test]
fn commits_below_a_shim_that_are_not_synced_survive_the_process() {
    for kind in Kind::ALL {
        for setting in ["PRAGMA synchronous=NORMAL", "PRAGMA synchronous=OFF"] {
            commits_survive(kind, "wal", "", setting);
        }
    }
}

/// At these settings pages are written when the lock has been dropped; another connection commits before that.
#[test]
fn a_killed_process_keeps_statements_with_the_pages_that_they_build_upon() {
    for (first, second) in [("NORMAL", "NORMAL"), ("OFF", "NORMAL"), ("OFF", "FULL")] {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let path = home.join("app.db");
        let open = |synchronous: &str| {
            let db = open(&path, "commit_log=statements", litefoot());
            db.execute_batch(&format!("PRAGMA journal_mode=wal; PRAGMA synchronous={synchronous}")).unwrap();
            db
        };
        let (db, other) = (open(first), open(second));
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        let add = "INSERT INTO t(v) VALUES('a statement')";
        other.execute_batch(add).unwrap();
        let at_work = path.clone();
        in_next_commit(&db, move || {
            other.execute_batch(add).unwrap();
            crash(&at_work, "meanwhile");
        });
        db.execute_batch("INSERT INTO t(v) VALUES(randomblob(9))").unwrap();
        crash(&path, "later");
        for copy in ["meanwhile", "later"] {
            let left = directory.path().join(copy).join("app.db");
            assert_eq!(rows(&left, litefoot()), 3, "{copy}: {first}, {second}");
        }
    }
}

#[test]
fn a_transaction_over_two_databases_below_a_shim_is_one() {
    for kind in Kind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let path = home.join("app.db");
        let db = open(&path, "", &over(litefoot(), kind));
        db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1)").unwrap();
        if kind != Kind::Sealing {
            db.execute_batch(&format!(
                "ATTACH 'file:{}?sharing=exclusive' AS other; CREATE TABLE other.u(v)",
                home.join("b.db").display()
            ))
            .unwrap();
            db.execute_batch("BEGIN; INSERT INTO t VALUES(2); INSERT INTO u VALUES(1); COMMIT").unwrap();
            check(&path, kind, 2, "both");
            let count: i64 = db.query_row("SELECT count(*) FROM u", [], |row| row.get(0)).unwrap();
            assert_eq!(count, 1, "{kind:?}");
        }
    }
}

#[test]
fn a_connection_without_locks_writes_as_stock_does() {
    for parameters in ["nolock=1", "nolock=1&psow=0"] {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let path = home.join("app.db");
        let db = open(&path, parameters, litefoot());
        db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)").unwrap();
        db.execute_batch("BEGIN; INSERT INTO t VALUES(3); ROLLBACK; INSERT INTO t VALUES(4)").unwrap();
        check(&path, Kind::Through, 3, "unlocked");
        drop(db);
        assert_eq!(rows(&path, STOCK), 3);
    }
}

#[test]
fn a_connection_without_locks_sees_what_a_crash_has_left_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let path = home.join("app.db");
    let db = open(&path, "", litefoot());
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    for value in 0..3 {
        db.execute("INSERT INTO t VALUES(?1)", [value]).unwrap();
    }
    for (number, parameters) in
        ["nolock=1", "nolock=1&mode=ro", "immutable=1", "mode=ro", ""].into_iter().enumerate()
    {
        let copy = crash(&path, &number.to_string());
        let db = open(&copy, parameters, litefoot());
        let count: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 3, "{parameters}");
        let written = db.execute_batch("INSERT INTO t VALUES(9)");
        assert_eq!(written.is_ok(), matches!(parameters, "nolock=1" | ""), "{parameters}: {written:?}");
    }
}

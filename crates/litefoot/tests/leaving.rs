//! The remains of a closed database: the file alone, for good.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{self, config::DbConfig};
use litefoot::{Connection, Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use litefoot_testkit::process::{output_of, own_process};
use litefoot_testkit::sqlite::{metric_or_zero, number, stock, vfs_name};
use std::sync::Arc;

const DATABASE: &str = "LITEFOOT_TEST_DATABASE";
/// More commits than those that go as pages at the beginning.
const ROWS: i64 = 100;
/// How commits are logged.
const FORMS: [&str; 3] = ["deltas", "statements", "pages"];

/// Litefoot closes the database; then SQLite changes it without a journal file, so that nothing else syncs the
/// directory. A log that came back after a power cut would be taken for newer than that.
#[test]
fn a_log_that_was_removed_does_not_come_back() {
    for mode in ["delete", "wal"] {
        let medium = SimMedium::new();
        let name = format!("leaving-{mode}");
        let vfs = |pass_through: bool, medium: &SimMedium| {
            let builder = Vfs::builder(name.as_str()).medium(Arc::new(medium.clone()));
            builder.pass_through(pass_through).register().unwrap()
        };
        let litefoot = vfs(false, &medium);
        let db = litefoot.open("/app.db").unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(v); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);
             UPDATE t SET v = v + 10; PRAGMA journal_mode=delete;"
        ))
        .unwrap();
        drop((db, litefoot));
        assert_eq!(medium.files().len(), 1, "only the database is left");
        let stock = vfs(true, &medium);
        let db = stock.open("/app.db").unwrap();
        db.execute_batch("PRAGMA journal_mode=memory; UPDATE t SET v = v + 100").unwrap();
        drop((db, stock));
        let mut random = Random::new(7);
        for _ in 0..60 {
            let image = medium.cut(&mut random);
            let litefoot = vfs(false, &image);
            let db = litefoot.open("/app.db").unwrap();
            let sum: i64 = db.query_row("SELECT sum(v) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(sum, 1 + 2 + 2 * 110, "{mode}");
        }
    }
}

/// A transaction that changes nothing but the counters of page 1 is not in the log. The log counts all the same, when the
/// power goes while the database is closed.
#[test]
fn a_log_that_lacks_empty_transactions_still_counts() {
    let medium = SimMedium::new();
    let litefoot = Vfs::builder("leaving-empty").medium(Arc::new(medium.clone())).register().unwrap();
    let db = litefoot.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=delete; CREATE TABLE t(id INTEGER PRIMARY KEY, v, filler);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<60)
         INSERT INTO t SELECT i, 0, zeroblob(900) FROM n;
         UPDATE t SET v=1 WHERE id % 7 = 0;",
    )
    .unwrap();
    for _ in 0..6 {
        db.execute_batch("PRAGMA user_version=0").unwrap();
    }
    let before = medium.operations();
    drop((db, litefoot));
    for (point, image) in medium.cuts(before..=medium.operations(), 8, &mut Random::new(11)) {
        let litefoot = Vfs::builder("leaving-empty").medium(Arc::new(image)).register().unwrap();
        let db = litefoot.open("/app.db").unwrap();
        let sum: i64 = db.query_row("SELECT sum(v) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 8, "cut at operation {point}");
    }
}

/// The first transaction of a new database is there for stock SQLite as well, which takes an empty file with a log
/// beside it for a new database, and removes the log.
#[test]
fn the_first_transaction_is_there_for_everybody() {
    let medium = SimMedium::new();
    let litefoot = Vfs::builder("leaving-first").medium(Arc::new(medium.clone())).register().unwrap();
    let db = litefoot.open("/app.db").unwrap();
    db.execute_batch("BEGIN; CREATE TABLE t(v); INSERT INTO t VALUES(7); COMMIT").unwrap();
    let mut random = Random::new(3);
    for _ in 0..40 {
        let image = medium.cut(&mut random);
        let stock = Vfs::builder("leaving-first-stock").medium(Arc::new(image)).pass_through(true).register();
        let stock = stock.unwrap();
        let found: i64 =
            stock.open("/app.db").unwrap().query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(found, 7);
    }
}

/// One connection commits without syncs; when the log is written to the database file, what another one was
/// promised must outlive a power cut at any point.
#[test]
fn careless_commits_cost_nobody_else_anything() {
    let medium = SimMedium::new();
    let litefoot = Vfs::builder("leaving-off").medium(Arc::new(medium.clone())).register().unwrap();
    let db = litefoot.open("/app.db").unwrap();
    db.execute_batch(
        "CREATE TABLE t(v, w); CREATE TABLE u(a); CREATE INDEX i ON u(a);
         WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 100) INSERT INTO u SELECT randomblob(200) FROM n",
    )
    .unwrap();
    // The rows that are changed below are in the database file now, and in no log.
    drop(db);
    let db = litefoot.open("/app.db").unwrap();
    for number in 0..30 {
        db.execute("INSERT INTO t VALUES(?1, zeroblob(300))", [number]).unwrap();
    }
    let promised = medium.operations();
    let careless = litefoot.open("/app.db").unwrap();
    careless.execute_batch("PRAGMA synchronous=OFF").unwrap();
    careless.execute_batch("UPDATE u SET a = randomblob(200) WHERE rowid % 3 = 0").unwrap();
    drop(db);
    drop(careless);
    let end = medium.operations();
    for (cut, image) in medium.cuts(promised..=end, 10, &mut Random::new(5)) {
        let litefoot = Vfs::builder("leaving-off-cut").medium(Arc::new(image)).register().unwrap();
        let db = litefoot.open("/app.db").unwrap();
        let found = db.query_row("SELECT sum(v) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(found, Ok(435), "cut at {cut} of {end}");
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok", "cut at {cut} of {end}");
    }
}

/// The program of the test below.
#[test]
#[ignore = "run by the other test, in a process of its own"]
fn exits_without_closing() {
    let db = Connection::open(std::env::var(DATABASE).unwrap()).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    for row in 0..ROWS {
        db.execute("INSERT INTO t VALUES(?1)", [row]).unwrap();
    }
    std::process::exit(0);
}

/// A program that ends without closing its database leaves nothing that only litefoot could read.
#[test]
fn a_program_that_exits_leaves_its_commits_to_stock_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let mut program = own_process("exits_without_closing");
    program.env(DATABASE, &path);
    let output = output_of(program);
    assert!(output.status.success(), "{output:?}");
    let found: i64 = stock(&path).query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(found, ROWS);
}

/// A connection that commits more often than as pages, and is closed without SQLite's checkpoint. Two connections that are closed at
/// once make none either: each meets the other's lock.
fn close_without_a_checkpoint(vfs: &Vfs, path: &str, form: &str) {
    drop(to_be_closed_without_a_checkpoint(vfs, path, form));
}

fn to_be_closed_without_a_checkpoint(vfs: &Vfs, path: &str, form: &str) -> rusqlite::Connection {
    let db = vfs.open(path).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
    for row in 0..ROWS {
        db.execute("INSERT INTO t VALUES(?1)", [row]).unwrap();
    }
    assert!(metric_or_zero(&db, &format!("commits_{form}")) > ROWS / 2, "{form}");
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    db
}

fn with_form(form: &str, medium: Arc<dyn Medium>) -> Vfs {
    let mut options = Options::default();
    options.set("commit_log", form).unwrap();
    Vfs::builder(vfs_name("leaving-form")).medium(medium).options(options).register().unwrap()
}

#[test]
fn a_close_without_a_checkpoint_leaves_its_commits_to_stock_sqlite() {
    for form in FORMS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs = with_form(form, Arc::new(OsMedium));
        close_without_a_checkpoint(&vfs, path.to_str().unwrap(), form);
        let mut names: Vec<String> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["app.db", "app.db-wal"], "{form}");
        let count = |db: &rusqlite::Connection| {
            db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        // Litefoot finds them as well, behind SQLite and before it.
        let again = vfs.open(&path).unwrap();
        assert_eq!(count(&again), ROWS, "{form}");
        again.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        again.execute("INSERT INTO t VALUES(0)", []).unwrap();
        drop(again);
        assert_eq!(count(&stock(&path)), ROWS + 1, "{form}");
        assert_eq!(count(&vfs.open(&path).unwrap()), ROWS + 1, "{form}");
    }
}

/// Nobody finds a log without a name, so that everything goes to the database.
#[test]
fn a_close_without_a_checkpoint_needs_no_log_that_somebody_has_removed() {
    for form in FORMS {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs = with_form(form, Arc::new(OsMedium));
        let db = to_be_closed_without_a_checkpoint(&vfs, path.to_str().unwrap(), form);
        std::fs::remove_file(directory.path().join("app.db-wal")).unwrap();
        drop(db);
        let db = stock(&path);
        let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((integrity.as_str(), number(&db, "SELECT count(*) FROM t")), ("ok", ROWS), "{form}");
    }
}

#[test]
fn a_power_cut_in_a_close_without_a_checkpoint_costs_nothing() {
    for form in FORMS {
        let medium = SimMedium::new();
        let vfs = with_form(form, Arc::new(medium.clone()));
        let db = vfs.open("/app.db").unwrap();
        close_without_a_checkpoint(&vfs, "/app.db", form);
        // The first connection is the last to be closed.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        let before = medium.operations();
        drop(db);
        assert!(form == "pages" || medium.operations() > before, "{form}");
        for (point, image) in medium.cuts(before..=medium.operations(), 8, &mut Random::new(13)) {
            let vfs = with_form(form, Arc::new(image));
            let found = vfs
                .open("/app.db")
                .unwrap()
                .query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
            assert_eq!(found, Ok(ROWS), "{form}, cut at operation {point}");
        }
    }
}

//! Commits as statements: what is captured, what is not, and what a crash leaves.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, ErrorCode, ffi, params};
use litefoot::{Options, Vfs};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{FileKind, Medium, Operation};
use litefoot_testkit::sqlite::metric_or_zero;
use std::path::Path;
use std::sync::Arc;

/// Commits are logged as statements.
fn logging() -> Options {
    Options { statements: true, ..Options::default() }
}

fn vfs(name: &str, medium: &SimMedium) -> Vfs {
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(logging()).register().unwrap()
}

fn prepared(name: &str) -> (SimMedium, Vfs, Connection) {
    let medium = SimMedium::new();
    let vfs = vfs(name, &medium);
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); CREATE INDEX i ON t(v);",
    )
    .unwrap();
    (medium, vfs, db)
}

/// The rows of `t`, as text.
fn rows(db: &Connection) -> Vec<String> {
    let mut statement =
        db.prepare("SELECT id || '|' || quote(v) || '|' || quote(w) FROM t ORDER BY id").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// What a database holds after a power cut now, reopened with litefoot.
fn after_cut(name: &str, medium: &SimMedium) -> Vec<String> {
    let image = medium.cut(&mut Random::new(1));
    let vfs = vfs(name, &image);
    let db = vfs.open("/app.db").unwrap();
    let found = rows(&db);
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    // Once more: what was replayed is there without replaying.
    drop(db);
    assert!(image.info(Path::new("/app.db-commits")).unwrap().is_none());
    assert_eq!(rows(&vfs.open("/app.db").unwrap()), found);
    found
}

#[test]
fn values_are_logged_and_replayed_bit_for_bit() {
    let (medium, _vfs, db) = prepared("commits-values");
    for index in 0..20i64 {
        let real = f64::from_bits(0x3ff0_0000_0000_0001 + index as u64 * 77_777);
        db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", params![real, vec![index as u8; 40]]).unwrap();
        db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", params![i64::MIN + index, format!("a\0b{index}")])
            .unwrap();
    }
    db.execute_batch(
        "BEGIN; UPDATE t SET w = NULL WHERE id % 3 = 0; SAVEPOINT a; DELETE FROM t WHERE id > 30",
    )
    .unwrap();
    db.execute_batch("ROLLBACK TO a; RELEASE a; DELETE FROM t WHERE id > 38; COMMIT").unwrap();
    assert_eq!(
        (metric_or_zero(&db, "commits_statements"), metric_or_zero(&db, "fallback.untracked")),
        (41, 0)
    );
    let sql = "SELECT value FROM litefoot_stats WHERE name = 'commits_statements'";
    assert_eq!(db.query_row(sql, [], |row| row.get::<_, i64>(0)), Ok(41));
    assert_eq!(after_cut("commits-values-2", &medium), rows(&db));
}

#[test]
fn what_cannot_be_replayed_is_written_as_pages_and_counted() {
    let cases = [
        ("random", "INSERT INTO t(v) VALUES(random())", "fallback.function"),
        ("clock", "INSERT INTO t(v) VALUES(datetime('now'))", "fallback.clock"),
        ("schema", "CREATE TABLE u(a)", "fallback.schema"),
        ("order", "INSERT INTO t(v) SELECT v FROM t", "fallback.row_order"),
        ("large", "INSERT INTO t(id, v) VALUES(9223372036854775807, 1), (NULL, 2)", "fallback.row_order"),
        (
            "moved",
            "BEGIN; INSERT INTO t(v) VALUES(9223372036854775807); UPDATE t SET id = v WHERE id = 3;
             INSERT INTO t(v) VALUES(1); COMMIT",
            "fallback.row_order",
        ),
        (
            "stored",
            "CREATE TABLE u(n); INSERT INTO u VALUES(9223372036854775807);
             BEGIN; UPDATE t SET id = (SELECT n FROM u) WHERE id = 2; INSERT INTO t(v) VALUES(1);
             DELETE FROM t WHERE v = 2; COMMIT",
            "fallback.row_order",
        ),
        (
            "copied",
            "CREATE TABLE u(id INTEGER PRIMARY KEY, v, w); INSERT INTO u(id) VALUES(9223372036854775807);
             BEGIN; INSERT INTO t(id) SELECT id FROM u; INSERT INTO t(v) VALUES(1);
             DELETE FROM t WHERE v IS NULL; COMMIT",
            "fallback.row_order",
        ),
        (
            "fired",
            "CREATE TABLE u(n); INSERT INTO u VALUES(1);
             CREATE TRIGGER f AFTER UPDATE ON u BEGIN INSERT INTO t(id) VALUES(9223372036854775807); END;
             BEGIN; UPDATE u SET n = 2; INSERT INTO t(v) VALUES(1); DELETE FROM t WHERE v IS NULL; COMMIT",
            "fallback.row_order",
        ),
        (
            "temporary",
            "CREATE TEMP TABLE x(a); INSERT INTO t(v) SELECT count(*) FROM x",
            "fallback.other_database",
        ),
        ("fts", "CREATE VIRTUAL TABLE f USING fts5(a); INSERT INTO f VALUES('b')", "fallback.virtual_table"),
        (
            "pragma",
            "BEGIN; PRAGMA defer_foreign_keys=1; INSERT INTO t(v) VALUES(1); COMMIT",
            "fallback.pragma",
        ),
    ];
    for (name, sql, cause) in cases {
        let (medium, _vfs, db) = prepared(&format!("commits-{name}"));
        db.execute_batch("INSERT INTO t(v) VALUES(1); INSERT INTO t(v) VALUES(2)").unwrap();
        let before = metric_or_zero(&db, cause);
        db.execute_batch(sql).unwrap();

        assert!(metric_or_zero(&db, cause) > before, "{sql}");
        db.execute_batch("INSERT INTO t(v) VALUES(3)").unwrap();
        assert_eq!(after_cut(&format!("commits-{name}-2"), &medium), rows(&db), "{sql}");
    }
}

/// A number that the statement gives is known; what else it reads does not become one.
#[test]
fn a_row_that_is_given_its_number_is_logged_as_a_statement() {
    let (_medium, _vfs, db) = prepared("commits-numbered");
    let sql = "INSERT OR REPLACE INTO t(id, v, w) VALUES(?1, ?2, ?3)";
    let add = "INSERT INTO t(id, v) VALUES(?1, ?2) ON CONFLICT(id) DO UPDATE SET v = v + excluded.v";
    db.execute_batch("INSERT INTO t(v) VALUES(1)").unwrap();
    let before = metric_or_zero(&db, "commits_statements");
    for number in 0..5 {
        db.execute(sql, params![number % 2, number, "text"]).unwrap();
        db.execute(add, [number % 2, number]).unwrap();
    }
    assert_eq!(metric_or_zero(&db, "commits_statements"), before + 10);
}

/// Writes into the column `w` of row 1, past SQL.
fn write_blob(db: &Connection, bytes: &[u8]) {
    let mut blob = std::ptr::null_mut();
    // SAFETY: the connection is alive; the handle is closed before it is.
    unsafe {
        let opened = ffi::sqlite3_blob_open(
            db.handle(),
            c"main".as_ptr(),
            c"t".as_ptr(),
            c"w".as_ptr(),
            1,
            1,
            &raw mut blob,
        );
        assert_eq!(opened, ffi::SQLITE_OK);
        let written = ffi::sqlite3_blob_write(blob, bytes.as_ptr().cast(), bytes.len() as i32, 0);
        assert_eq!(written, ffi::SQLITE_OK);
        assert_eq!(ffi::sqlite3_blob_close(blob), ffi::SQLITE_OK);
    }
}

#[test]
fn a_blob_handle_and_an_open_cursor_are_noticed() {
    let (medium, _vfs, db) = prepared("commits-blob");
    db.execute_batch("INSERT INTO t(v, w) VALUES(1, zeroblob(100)); INSERT INTO t(v) VALUES(2)").unwrap();
    db.execute_batch("BEGIN; INSERT INTO t(v) VALUES(3)").unwrap();
    write_blob(&db, b"hello");
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(metric_or_zero(&db, "fallback.untracked"), 1);
    {
        let mut cursor = db.prepare("SELECT id FROM t").unwrap();
        let mut cursor = cursor.query([]).unwrap();
        cursor.next().unwrap();
        db.execute("INSERT INTO t(v) VALUES(4)", []).unwrap();
    }
    assert_eq!(metric_or_zero(&db, "fallback.interleaved"), 1);
    assert_eq!(after_cut("commits-blob-2", &medium), rows(&db));
}

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

#[test]
fn an_application_that_takes_the_trace_hook_closes_its_connection() {
    let (medium, vfs, db) = prepared("commits-hook");
    db.execute_batch("BEGIN").unwrap();
    db.execute("INSERT INTO t(v) VALUES(?1)", [1]).unwrap();
    // SAFETY: the connection is alive; no callback is set.
    unsafe { ffi::sqlite3_trace_v2(db.handle(), 0, None, std::ptr::null_mut()) };
    db.execute_batch("COMMIT").unwrap();
    db.execute("INSERT INTO t(v) VALUES(?1)", [2]).unwrap();
    assert_eq!(metric_or_zero(&db, "fallback.untracked"), 2);
    assert_eq!(after_cut("commits-hook-2", &medium), rows(&db));
    db.close().unwrap();
    assert!(vfs.open_databases().is_empty());
    assert_eq!(medium.files().len(), 1, "only the database is left");
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
        let mut replay = medium.replay();
        let mut random = Random::new(9);
        for cut in promised..=replay.len() {
            replay.advance(cut);
            for _ in 0..6 {
                let image = replay.cut(&mut random);
                let vfs = self::vfs(&format!("commits-off-cut-{mode}"), &image);
                let db = vfs.open("/app.db").unwrap();
                assert_eq!(rows(&db), expected, "{mode}, cut at {cut} of {}", replay.len());
                let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
                assert_eq!(integrity, "ok", "{mode}, cut at {cut}");
            }
        }
    }
}

/// A process that dies between writing a fold and its sync leaves it with the operating system only. Whoever
/// opens the database next must not give the statements up before it is durable.
#[test]
fn a_fold_that_was_not_synced_is_synced_before_the_statements_go() {
    // More pages than one write takes, and nothing folds them before.
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
    let mut replay = medium.replay();
    let mut random = Random::new(4);
    for cut in dead..replay.len().min(dead + 20) {
        replay.advance(cut);
        for _ in 0..6 {
            let image = replay.cut(&mut random);
            let vfs = self::vfs("commits-unsynced-cut", &image);
            assert_eq!(rows(&vfs.open("/app.db").unwrap()), expected, "cut at {cut} of {}", replay.len());
        }
    }
}

/// The commit log may lie on another device, and is found there after a crash.
#[test]
fn the_log_may_lie_elsewhere() {
    let medium = SimMedium::new();
    let mut options = logging();
    options.set("commit_log_path", "/fast/app.log").unwrap();
    let open = |name: &str, medium: &SimMedium| {
        let vfs =
            Vfs::builder(name).medium(Arc::new(medium.clone())).options(options.clone()).register().unwrap();
        let db = vfs.open("/app.db").unwrap();
        (vfs, db)
    };
    let (_vfs, db) = open("commits-elsewhere", &medium);
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
    db.execute_batch("INSERT INTO t(v) VALUES(1); INSERT INTO t(v) VALUES(2)").unwrap();
    let there = |medium: &SimMedium, path: &str| medium.info(Path::new(path)).unwrap().is_some();
    assert!(there(&medium, "/fast/app.log") && !there(&medium, "/app.db-commits"));
    let image = medium.cut(&mut Random::new(1));
    let (_vfs, recovered) = open("commits-elsewhere-2", &image);
    assert_eq!(rows(&recovered), rows(&db));
    drop(recovered);
    assert!(!there(&image, "/fast/app.log"));
}

/// Two databases under one name of a log: the second does without it, and nothing is lost.
#[test]
fn a_log_elsewhere_belongs_to_one_database() {
    let medium = SimMedium::new();
    let mut options = logging();
    options.set("commit_log_path", "/fast/app.log").unwrap();
    let vfs = |name: &str, medium: &SimMedium| {
        Vfs::builder(name).medium(Arc::new(medium.clone())).options(options.clone()).register().unwrap()
    };
    let running = vfs("commits-shared", &medium);
    let dbs = ["/one.db", "/two.db"].map(|path| running.open(path).unwrap());
    for db in &dbs {
        db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)").unwrap();
    }
    for number in 0..20 {
        for db in &dbs {
            db.execute("INSERT INTO t(v) VALUES(?1)", [number]).unwrap();
        }
    }
    assert_eq!(metric_or_zero(&dbs[0], "commits_statements"), 20);
    assert_eq!(
        (metric_or_zero(&dbs[1], "commits_statements"), metric_or_zero(&dbs[1], "fallback.unavailable")),
        (0, 20)
    );
    let refused = running.open("/three.db").unwrap();
    let error = refused.execute_batch("CREATE TABLE t(v)").unwrap_err().to_string();
    assert!(!error.is_empty());
    let image = medium.cut(&mut Random::new(1));
    let recovering = vfs("commits-shared-2", &image);
    let recovered = recovering.open("/one.db").unwrap();
    assert_eq!(rows(&recovered), rows(&dbs[0]));
    drop(recovered);
    assert_eq!(rows(&recovering.open("/two.db").unwrap()), rows(&dbs[1]));
}

/// `LIKE` is a function, which an application may have put another in the place of. Statistics are loaded when a
/// connection likes.
#[test]
fn what_shapes_the_plan_goes_as_pages() {
    let (medium, vfs, db) = prepared("commits-plan");
    db.execute_batch("CREATE TABLE names(name TEXT); CREATE INDEX n ON names(name COLLATE NOCASE);").unwrap();
    for number in 0..50 {
        db.execute("INSERT INTO names VALUES (?1)", [format!("name {number}")]).unwrap();
    }
    let before = metric_or_zero(&db, "fallback.function");
    assert_eq!(db.execute("DELETE FROM names WHERE name LIKE ?1", ["name 1%"]).unwrap(), 11);
    assert_eq!(db.execute("UPDATE names SET name = 'x' WHERE name GLOB ?1", ["name 2*"]).unwrap(), 11);
    assert_eq!(metric_or_zero(&db, "fallback.function"), before + 2);
    // Values shape plans, too, once there are samples of the data.
    for number in 0..500 {
        db.execute("INSERT INTO t(v, w) VALUES (?1, 1)", [number % 7]).unwrap();
    }
    let other = vfs.open("/app.db").unwrap();
    for round in 0..3 {
        assert!(
            db.execute("UPDATE t SET w = ?1 WHERE v > ?2 AND v < ?3", (round, round, round + 2)).unwrap() > 0
        );
        other.execute_batch("ANALYZE").unwrap();
    }
    let found = rows(&db);
    drop(other);
    assert_eq!(after_cut("commits-plan-cut", &medium), found);
}

/// A statement that is open while another connection turns to WAL mode was not captured. Its end hides nothing.
#[test]
fn the_end_of_a_statement_from_before_the_log_hides_nothing() {
    let (medium, vfs, db) = prepared("commits-before");
    db.execute_batch("INSERT INTO t VALUES(1, 1, zeroblob(4)); PRAGMA journal_mode=delete").unwrap();
    drop(db);
    let db = vfs.open("/app.db").unwrap();
    let mut first = db.prepare("SELECT 1 UNION ALL SELECT 2").unwrap();
    let mut open = first.query([]).unwrap();
    assert!(open.next().unwrap().is_some());
    let other = vfs.open("/app.db").unwrap();
    other.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    assert_eq!(rows(&other).len(), 1);
    db.execute_batch("BEGIN; INSERT INTO t VALUES(2, 2, 2)").unwrap();
    write_blob(&db, b"blob");
    drop(open);
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(after_cut("commits-before-2", &medium), rows(&db));
    assert_eq!(metric_or_zero(&db, "fallback.untracked"), 1);
}

/// Other connections change the journal mode; whoever has rested notices, and every commit survives a power cut.
#[test]
fn a_log_that_comes_and_goes_is_noticed() {
    let medium = SimMedium::new();
    let vfs = vfs("commits-modes", &medium);
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); CREATE INDEX i ON t(v);").unwrap();
    let mode = |db: &Connection, sql| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let commits =
        |db: &Connection| (metric_or_zero(db, "commits_statements"), metric_or_zero(db, "commits_pages"));
    let insert = |round: i64| db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (round, "w")).unwrap();
    let read =
        || db.query_row("SELECT count(*) FROM t WHERE id > 0", [], |row| row.get::<_, i64>(0)).unwrap();
    for round in 0..3 {
        // As often that SQLite is asked for less.
        for _ in 0..40 {
            read();
            insert(round);
        }
        let before = commits(&db);
        insert(round);
        assert_eq!(commits(&db).0, before.0, "no log, nothing to be captured");
        assert_eq!(after_cut(&format!("commits-modes-delete-{round}"), &medium), rows(&db));

        let other = vfs.open("/app.db").unwrap();
        assert_eq!(mode(&other, "PRAGMA journal_mode=wal"), "wal");
        // The first hears of the log, and may be written as pages; from then on statements are.
        insert(round);
        let before = commits(&db);
        for _ in 0..5 {
            insert(round);
            read();
        }
        assert_eq!(commits(&db), (before.0 + 5, before.1));
        assert_eq!(after_cut(&format!("commits-modes-wal-{round}"), &medium), rows(&db));

        // SQLite leaves the mode only when nobody else is there.
        drop(other);
        assert_eq!(mode(&db, "PRAGMA journal_mode=delete"), "delete");
        insert(round);
        assert_eq!(after_cut(&format!("commits-modes-left-{round}"), &medium), rows(&db));
    }
    assert_eq!(read(), 3 * 48);
}

/// A transaction with more statements than a log should have is written as pages, and not looked at any further; what
/// happens in it, and what it leaves open, is no secret to the next.
#[test]
fn a_transaction_that_is_too_long_hides_nothing_from_the_next() {
    let (medium, vfs, db) = prepared("commits-long");
    let commits = || (metric_or_zero(&db, "commits_statements"), metric_or_zero(&db, "commits_pages"));
    let insert =
        |bytes: usize| db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (1, vec![7; bytes])).unwrap();
    let long = |bytes: usize| {
        db.execute_batch("BEGIN").unwrap();
        for _ in 0..bytes / 1000 {
            insert(1000);
        }
    };
    insert(10);
    for round in 0..4 {
        let before = commits();
        long(600_000);
        // Savepoints, rows that are answered, a blob handle, a trigger that comes and goes.
        db.execute_batch("SAVEPOINT s; UPDATE t SET v = 2 WHERE id < 50; ROLLBACK TO s; RELEASE s").unwrap();
        let id: i64 = db.query_row("INSERT INTO t(v) VALUES(9) RETURNING id", [], |row| row.get(0)).unwrap();
        db.execute("DELETE FROM t WHERE id = ?1", [id]).unwrap();
        db.execute_batch(
            "CREATE TRIGGER r AFTER UPDATE ON t BEGIN SELECT 1; END; UPDATE t SET v = 3 WHERE id = 1;
             DROP TRIGGER r",
        )
        .unwrap();
        insert(10);
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(commits(), (before.0, before.1 + 1), "{round}");
        assert_eq!(after_cut(&format!("commits-long-{round}"), &medium), rows(&db));
        // Statements do not pay right after it, and then they do.
        for _ in 0..300 {
            insert(10);
        }
        let before = commits();
        insert(10);
        assert_eq!(commits(), (before.0 + 1, before.1), "{round}");
        assert_eq!(after_cut(&format!("commits-long-next-{round}"), &medium), rows(&db));
    }
    // Less is enough now to be too long; one that is not says so of all.
    let before = commits();
    long(100_000);
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(commits(), (before.0 + 1, before.1));
    // A cursor that was opened in it is still there when it is over.
    long(600_000);
    {
        let mut cursor = db.prepare("SELECT id FROM t").unwrap();
        let mut cursor = cursor.query([]).unwrap();
        cursor.next().unwrap();
        insert(1000);
        db.execute_batch("COMMIT").unwrap();
        let before = commits();
        for _ in 0..2 {
            insert(10);
        }
        assert_eq!(commits(), (before.0, before.1 + 2));
        cursor.next().unwrap();
    }
    // One that SQLite ends by itself.
    long(600_000);
    let failed = db.execute("INSERT OR ROLLBACK INTO t(id) VALUES(1)", []);
    assert!(failed.is_err() && db.is_autocommit());
    for _ in 0..300 {
        insert(10);
    }
    let before = commits();
    insert(10);
    assert_eq!(commits(), (before.0 + 1, before.1));
    assert_eq!(after_cut("commits-long-last", &medium), rows(&db));
    // Nothing of ours keeps a connection from being closed.
    for end in ["INSERT OR ROLLBACK INTO t(id) VALUES(1)", "ROLLBACK", "COMMIT"] {
        let other = vfs.open("/app.db").unwrap();
        other.execute_batch("BEGIN").unwrap();
        for n in 0..600 {
            other.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (n, vec![7; 1000])).unwrap();
        }
        let _ = other.execute_batch(end);
        assert!(other.is_autocommit() && other.close().is_ok(), "{end}");
    }
}

/// A connection that has only read for long is asked to tell less. What it writes after all is neither lost nor replayed
/// wrongly, and soon captured again.
#[test]
fn who_writes_after_reading_for_long_hides_nothing() {
    const LONG: i64 = 1100;
    let (medium, vfs, db) = prepared("commits-reads");
    // Figures are asked for elsewhere: that is no query.
    let other = vfs.open("/app.db").unwrap();
    let commits = || (metric_or_zero(&other, "commits_statements"), metric_or_zero(&other, "commits_pages"));
    let read = |times: i64| {
        let mut query = db.prepare_cached("SELECT count(*) FROM t WHERE id > ?1").unwrap();
        for round in 0..times {
            query.query_row([round], |row| row.get::<_, i64>(0)).unwrap();
        }
    };
    let insert = || db.execute("INSERT INTO t(v, w) VALUES(?1, ?2)", (1, [0; 8])).unwrap();
    let check = |step: &str| {
        assert_eq!(after_cut(&format!("commits-reads-{step}"), &medium), rows(&db), "{step}");
    };
    insert();
    // So often that from then on it takes four times as many.
    read(LONG);
    let before = commits();
    insert();
    assert_eq!(commits(), (before.0, before.1 + 1), "its end is not told");
    check("first");
    for _ in 0..20 {
        insert();
    }
    let before = commits();
    insert();
    assert_eq!(commits(), (before.0 + 1, before.1));
    read(LONG);
    insert();
    assert_eq!(commits(), (before.0 + 2, before.1), "too few to rest again");

    // A transaction that begins with a promise to read is captured from its first statement on.
    read(4 * LONG);
    db.execute_batch("BEGIN").unwrap();
    read(3);
    insert();
    insert();
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(commits(), (before.0 + 3, before.1));
    check("begin");
    // Not where pages are changed in it by something else.
    read(4 * LONG);
    db.execute_batch("BEGIN").unwrap();
    write_blob(&db, b"blob");
    insert();
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(commits(), (before.0 + 3, before.1 + 1));
    check("blob");
    for _ in 0..20 {
        insert();
    }

    // One that has read for long first is lost, with what is changed past it.
    let before = commits();
    db.execute_batch("BEGIN").unwrap();
    read(17 * LONG);
    write_blob(&db, b"more");
    insert();
    db.execute_batch("SAVEPOINT s; DELETE FROM t WHERE id = 3; ROLLBACK TO s; RELEASE s").unwrap();
    insert();
    db.execute_batch("COMMIT").unwrap();
    assert_eq!(commits(), (before.0, before.1 + 1));
    check("transaction");
}

/// A function that changes the database.
unsafe extern "C" fn change(
    context: *mut ffi::sqlite3_context,
    _count: std::ffi::c_int,
    _values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite calls this from a statement of the connection.
    unsafe {
        let db = ffi::sqlite3_context_db_handle(context);
        let sql = c"INSERT INTO t(v) VALUES(77)".as_ptr();
        let code = ffi::sqlite3_exec(db, sql, None, std::ptr::null_mut(), std::ptr::null_mut());
        ffi::sqlite3_result_int(context, code);
    }
}

/// What was left open, and what ran inside of something else, while ends were not told.
#[test]
fn what_was_open_while_a_connection_rested_is_noticed() {
    let (medium, vfs, db) = prepared("commits-open");
    db.execute_batch(
        "CREATE TABLE u(id INTEGER PRIMARY KEY, a); INSERT INTO u VALUES(1, 0);
         INSERT INTO t(v) VALUES(1), (2), (3);
         CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE u SET a = a + 1 WHERE id = 1; END",
    )
    .unwrap();
    let other = vfs.open("/app.db").unwrap();
    let commits = || (metric_or_zero(&other, "commits_statements"), metric_or_zero(&other, "commits_pages"));
    let insert = || db.execute("INSERT INTO t(v) VALUES(?1)", [1]).unwrap();
    let check = |step: &str| {
        assert_eq!(after_cut(&format!("commits-open-{step}"), &medium), rows(&db), "{step}");
    };
    for _ in 0..2 {
        insert();
    }
    let mut query = db.prepare("SELECT count(*) FROM t").unwrap();
    let mut read = |times: i64| {
        for _ in 0..times {
            query.query_row([], |row| row.get::<_, i64>(0)).unwrap();
        }
    };
    read(1100);
    let mut cursor = db.prepare("SELECT id FROM t").unwrap();
    let mut open = cursor.query([]).unwrap();
    assert!(open.next().unwrap().is_some());
    let before = commits();
    // The first ends the rest, and has a trigger; the others find the cursor.
    for _ in 0..3 {
        insert();
    }
    assert_eq!(commits(), (before.0, before.1 + 3));
    check("cursor");
    drop(open);
    for _ in 0..40 {
        insert();
    }
    let before = commits();
    insert();
    assert_eq!(commits(), (before.0 + 1, before.1));

    // Rows of a change that are still to be fetched are a statement that is open.
    read(5000);
    {
        let mut change = db.prepare("UPDATE t SET v = 7 WHERE id < 3 RETURNING id").unwrap();
        let mut change = change.query([]).unwrap();
        assert!(change.next().unwrap().is_some());
        insert();
        assert!(change.next().unwrap().is_some());
    }
    check("rows");
    for _ in 0..300 {
        insert();
    }

    // A function of the application's that writes.
    // SAFETY: the connection is alive, and the function is gone before it is.
    let created = unsafe {
        ffi::sqlite3_create_function_v2(
            db.handle(),
            c"change".as_ptr(),
            0,
            ffi::SQLITE_UTF8,
            std::ptr::null_mut(),
            Some(change),
            None,
            None,
            None,
        )
    };
    assert_eq!(created, ffi::SQLITE_OK);
    read(20_000);
    assert_eq!(db.query_row("SELECT change()", [], |row| row.get::<_, i32>(0)), Ok(0));
    insert();
    check("inner");
    for _ in 0..300 {
        insert();
    }
    let before = commits();
    insert();
    assert_eq!(commits(), (before.0 + 1, before.1));
    check("last");
}

/// A setting that the statements before did not have, changed where it is not the first word that says so.
#[test]
fn settings_are_noticed_however_they_are_changed() {
    let cases = [
        ("comment", "-- With the triggers of triggers\nPRAGMA recursive_triggers=ON", true),
        ("explain", "EXPLAIN PRAGMA recursive_triggers=ON", false),
    ];
    for (name, sql, rests) in cases {
        let (medium, _vfs, db) = prepared(&format!("commits-settings-{name}"));
        db.execute_batch(
            "CREATE TRIGGER r AFTER INSERT ON t WHEN new.id < 5 BEGIN INSERT INTO t(id) VALUES(new.id + 1); END;",
        )
        .unwrap();
        let insert = || db.execute("INSERT INTO t(id) VALUES(1)", []).unwrap();
        for _ in 0..3 {
            insert();
            db.execute("DELETE FROM t", []).unwrap();
        }
        if rests {
            let mut query = db.prepare("SELECT count(*) FROM t").unwrap();
            for _ in 0..1100 {
                query.query_row([], |row| row.get::<_, i64>(0)).unwrap();
            }
        }
        db.execute_batch(sql).unwrap();
        db.execute_batch("BEGIN").unwrap();
        insert();
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(rows(&db).len(), 5, "{name}");
        assert_eq!(after_cut(&format!("commits-settings-{name}-2"), &medium), rows(&db), "{name}");
    }
}

/// SQLite tells of such a statement that it starts and ends, and then, when it starts anew, nothing.
#[test]
fn a_statement_that_is_prepared_anew_and_left_open_is_part_of_the_transaction() {
    for (name, begin) in [("deferred", "BEGIN"), ("immediate", "BEGIN IMMEDIATE")] {
        let (medium, vfs, db) = prepared(&format!("commits-anew-{name}"));
        db.execute("INSERT INTO t(id, v) VALUES(1, 0), (2, 0), (3, 0)", []).unwrap();
        let mut update = db.prepare("UPDATE t SET v = v + 1 RETURNING id").unwrap();
        vfs.open("/app.db").unwrap().execute_batch("CREATE TABLE u(a)").unwrap();
        let mut open = update.query([]).unwrap();
        assert!(open.next().unwrap().is_some());
        db.execute_batch(begin).unwrap();
        drop(open);
        db.execute("INSERT INTO t(id, v) VALUES(100, 1)", []).unwrap();
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(after_cut(&format!("commits-anew-{name}-2"), &medium), rows(&db), "{name}");
    }
}

/// `sqlite3_deserialize` closes the main file of a connection that lives on, and so does its trace hook.
#[test]
fn a_connection_whose_main_database_is_replaced_lives_on() {
    let (medium, vfs, db) = prepared("commits-replaced");
    db.execute("INSERT INTO t(id, v) VALUES(1, 0)", []).unwrap();
    {
        let _busy = db.prepare("SELECT 1").unwrap();
        // SAFETY: the connection is open, and stays so: one of its statements is left.
        assert_eq!(unsafe { ffi::sqlite3_close(db.handle()) }, ffi::SQLITE_BUSY);
    }
    let mut len = 0;
    // SAFETY: the connection is open; SQLite answers memory that is ours, and gets back what it is to free.
    unsafe {
        let main = c"main".as_ptr();
        let bytes = ffi::sqlite3_serialize(db.handle(), main, &raw mut len, 0);
        assert!(!bytes.is_null());
        // As in a file that has no log.
        std::slice::from_raw_parts_mut(bytes, len as usize)[18..20].fill(1);
        let flags = (ffi::SQLITE_DESERIALIZE_FREEONCLOSE | ffi::SQLITE_DESERIALIZE_RESIZEABLE) as _;
        assert_eq!(ffi::sqlite3_deserialize(db.handle(), main, bytes, len, len, flags), ffi::SQLITE_OK);
    }
    for id in 2..2000 {
        db.execute("INSERT INTO t(id, v) VALUES(?1, 0)", [id]).unwrap();
    }
    assert_eq!(rows(&db).len(), 1999);
    assert!(vfs.databases().is_empty(), "nobody has it open");
    db.close().unwrap();
    assert_eq!(after_cut("commits-replaced-2", &medium).len(), 1);
}

/// Such a statement needs no lock on SQLite alone, and what is done to log it must not take one: the change of the journal
/// mode needs all others to have none.
#[test]
fn a_connection_that_has_read_nothing_stays_without_a_lock() {
    for sql in ["COMMIT", "SAVEPOINT s", "BEGIN"] {
        let (_medium, vfs, db) = prepared(&format!("unread-{sql}"));
        let other = Connection::open_with_flags_and_vfs(
            "/app.db",
            litefoot::rusqlite::OpenFlags::default(),
            vfs.name(),
        )
        .unwrap();
        let _ = other.execute_batch(sql);
        let mode: String = db.query_row("PRAGMA journal_mode=delete", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "delete", "{sql}");
    }
}

#[test]
fn a_savepoint_that_comes_before_all_else_is_logged_with_what_follows() {
    let (medium, vfs, db) = prepared("savepoint-first");
    let other =
        Connection::open_with_flags_and_vfs("/app.db", litefoot::rusqlite::OpenFlags::default(), vfs.name())
            .unwrap();
    other.execute_batch("SAVEPOINT s; INSERT INTO t VALUES(7, 1, 2); RELEASE s").unwrap();
    assert_eq!(after_cut("savepoint-first-cut", &medium), ["7|1|2"]);
    drop((vfs, db));
}

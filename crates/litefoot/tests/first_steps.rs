//! A real application's path through the Rust front: both journal families, owners, refusals.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use rusqlite::OpenFlags;
use std::path::Path;

const MODES: [&str; 5] = ["delete", "truncate", "persist", "memory", "wal"];

fn fill(db: &rusqlite::Connection, mode: &str) {
    let set: String = db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(set, mode);
    db.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT);
         CREATE INDEX i ON t(v);
         WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM n WHERE x<1000)
         INSERT INTO t SELECT x, printf('row %d', x) FROM n;
         BEGIN; DELETE FROM t WHERE id%2; ROLLBACK;
         BEGIN; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; UPDATE t SET v='x' WHERE id=7; COMMIT;",
    )
    .unwrap();
}

fn verify(db: &rusqlite::Connection) {
    let (count, sevens): (i64, i64) =
        db.query_row("SELECT count(*), sum(v='x') FROM t", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!((count, sevens), (1000, 1));
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

fn stock(path: &Path) -> rusqlite::Result<rusqlite::Connection> {
    let db = rusqlite::Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_WRITE, "unix")?;
    db.busy_timeout(std::time::Duration::ZERO)?;
    Ok(db)
}

#[test]
fn every_journal_mode_works_and_stock_sqlite_reads_the_file_afterwards() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let db = Connection::open(&path).unwrap();
        fill(&db, mode);
        verify(&db);
        let second = Connection::open(&path).unwrap();
        verify(&second);
        drop((db, second));
        verify(&stock(&path).unwrap());
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name != "app.db-shm" && name != "app.db-wal"), "{mode}: {left:?}");
    }
}

/// A connection to a database that is shared with nobody.
fn exclusive(path: &Path) -> Connection {
    Connection::open(format!("file:{}?sharing=exclusive", path.display())).unwrap()
}

#[test]
fn stock_sqlite_reads_and_writes_the_database_while_it_is_open() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let db = Connection::open(&path).unwrap();
        fill(&db, mode);
        let outsider = stock(&path).unwrap();
        verify(&outsider);
        outsider.execute("DELETE FROM t WHERE id=1000", []).unwrap();
        db.execute("INSERT INTO t VALUES(2000,'z')", []).unwrap();
        verify(&db);
        verify(&outsider);
    }
}

#[test]
fn stock_sqlite_finds_a_database_locked_that_is_shared_with_nobody() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let db = exclusive(&path);
        fill(&db, mode);
        let outsider = stock(&path).unwrap();
        for sql in ["SELECT count(*) FROM t", "INSERT INTO t VALUES(5000,'y')"] {
            let error = outsider.execute_batch(sql).unwrap_err();
            assert_eq!(error.to_string(), "database is locked", "{mode}: {sql}");
        }
        drop(db);
        verify(&outsider);
    }
}

#[test]
fn an_owner_elsewhere_is_met_with_locked_and_named_in_the_last_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    fill(&Connection::open(&path).unwrap(), "delete");
    let outsider = stock(&path).unwrap();
    outsider.execute_batch("BEGIN IMMEDIATE").unwrap();
    let db = exclusive(&path);
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    let error = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(error.to_string(), "database is locked");
    let detail = litefoot::last_error().unwrap();
    assert!(detail.contains("app.db") && detail.contains("sharing=auto"), "{detail}");
    outsider.execute_batch("ROLLBACK").unwrap();
    drop(outsider);
    verify(&db);
}

#[test]
fn refused_opens_say_which_file_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().display();
    let cases = [
        (format!("file:{base}/a.db?litefoot_shard=1"), vec!["a.db", "unknown option \"shard\"", "sharing"]),
        (
            format!("file:{base}/a.db?sharing=maybe"),
            vec!["a.db", "sharing takes auto, group, separate, exclusive or passthrough"],
        ),
        (format!("{base}/missing/a.db"), vec!["missing/a.db", "the directory must exist"]),
        (format!("{base}"), vec!["directory: name a file in it"]),
    ];
    for (path, parts) in cases {
        let message = Connection::open(&path).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{path}: {message}");
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn shared_databases_are_left_to_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = Connection::open(format!("file:{}?sharing=passthrough", path.display())).unwrap();
    fill(&db, "wal");
    verify(&stock(&path).unwrap());
}

#[test]
fn options_and_figures_are_pragmas() {
    let directory = tempfile::tempdir().unwrap();
    let db = Connection::open(directory.path().join("app.db")).unwrap();
    fill(&db, "delete");
    let shared: String = db.query_row("PRAGMA litefoot_sharing", [], |row| row.get(0)).unwrap();
    assert_eq!(shared, "auto");
    let stats: String = db.query_row("PRAGMA litefoot_stats", [], |row| row.get(0)).unwrap();
    assert!(stats.lines().all(|line| line.contains('|')), "{stats}");
    let error = db.query_row("PRAGMA litefoot_nonsense", [], |row| row.get::<_, String>(0)).unwrap_err();
    assert!(error.to_string().contains("unknown PRAGMA litefoot_nonsense"), "{error}");
}

#[test]
fn threads_read_write_and_checkpoint_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = Connection::open(&path).unwrap();
            writer.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
            for i in 0..500 {
                // Both rows or none: readers check the sum.
                writer
                    .execute_batch(&format!(
                        "BEGIN; INSERT INTO t VALUES({},{i}); INSERT INTO t VALUES({},-{i}); COMMIT",
                        2 * i,
                        2 * i + 1
                    ))
                    .unwrap();
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = Connection::open(&path).unwrap();
                reader.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
                for _ in 0..300 {
                    let (sum, odd): (i64, i64) = reader
                        .query_row("SELECT total(v), count(*)%2 FROM t", [], |row| {
                            Ok((row.get::<_, f64>(0)? as i64, row.get(1)?))
                        })
                        .unwrap();
                    assert_eq!((sum, odd), (0, 0));
                }
            });
        }
        scope.spawn(|| {
            let checkpointer = Connection::open(&path).unwrap();
            for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].iter().cycle().take(80) {
                let _ = checkpointer
                    .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get::<_, i64>(0));
            }
        });
    });
    let count: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1000);
}

//! Pages of the log that newer ones have superseded leave memory, and whoever may still read one finds it.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::Connection;
use litefoot::rusqlite::config::DbConfig;
use litefoot::{Options, Vfs};
use litefoot_sim::{Random, SimMedium};
use litefoot_testkit::sqlite::{metric_or_zero, vfs_name};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Rows of the table that the model knows.
type Rows = BTreeMap<i64, i64>;

fn vfs(medium: &SimMedium, options: &str) -> Vfs {
    let mut list = Options::default();
    list.set_list(options).unwrap();
    Vfs::builder(vfs_name("superseded")).medium(Arc::new(medium.clone())).options(list).register().unwrap()
}

/// A connection with a small cache, so that it reads the log, and writes to it before a commit.
fn connect(vfs: &Vfs) -> Connection {
    let db = vfs.open("/app.db").unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    db.execute_batch("PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=5; PRAGMA cache_spill=5").unwrap();
    db
}

fn rows(db: &Connection) -> Rows {
    let mut statement = db.prepare_cached("SELECT id, version, pad FROM t ORDER BY id").unwrap();
    let row =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?))).unwrap();
    row.map(|row| {
        let (id, version, pad): (i64, i64, Vec<u8>) = row.unwrap();
        assert!(pad.iter().all(|byte| *byte == version as u8), "row {id} is torn");
        (id, version)
    })
    .collect()
}

fn put(db: &Connection, rows: &mut Rows, id: i64, version: i64, bytes: usize) {
    let pad = vec![version as u8; bytes];
    db.prepare_cached("INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)")
        .unwrap()
        .execute((id, version, pad))
        .unwrap();
    rows.insert(id, version);
}

fn create(db: &Connection, page_size: u32) {
    db.execute_batch(&format!(
        "PRAGMA page_size={page_size}; PRAGMA journal_mode=WAL;
         CREATE TABLE t(id INTEGER PRIMARY KEY, version INTEGER, pad BLOB); CREATE INDEX i ON t(version)"
    ))
    .unwrap();
}

#[test]
fn commits_to_the_same_pages_take_no_memory_in_any_locking_mode() {
    for setup in ["", "PRAGMA locking_mode=EXCLUSIVE", "PRAGMA synchronous=NORMAL"] {
        let medium = SimMedium::new();
        let vfs = vfs(&medium, "");
        let db = connect(&vfs);
        create(&db, 4096);
        db.execute_batch(setup).unwrap();
        let mut expected = Rows::new();
        for version in 0..1500 {
            put(&db, &mut expected, version % 50, version, 60);
        }
        // At least two frames a commit.
        assert!(
            metric_or_zero(&db, "wal_memory_bytes") < 1 << 20,
            "{setup}: {}",
            metric_or_zero(&db, "wal_memory_bytes")
        );
        assert_eq!(rows(&db), expected, "{setup}");
    }
}

/// A connection that is exclusive before it reads has an index of its own, which SQLite makes from all frames.
#[test]
fn a_log_with_freed_pages_is_recovered() {
    for locking_mode in ["EXCLUSIVE", "NORMAL"] {
        let medium = SimMedium::new();
        // The checkpoint by which deltas begin comes when its thread is run, and would empty the log at any time.
        let vfs = vfs(&medium, "commit_log=pages");
        let db = connect(&vfs);
        create(&db, 1024);
        let mut expected = Rows::new();
        for version in 0..300 {
            put(&db, &mut expected, version % 20, version, 60);
        }
        // A connection that has not read keeps the database open, and the log stays.
        let other = vfs.open("/app.db").unwrap();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        drop(db);
        let bytes = metric_or_zero(&other, "wal_memory_bytes");
        assert!(bytes > 300 * 24, "{bytes} bytes");
        other.execute_batch(&format!("PRAGMA locking_mode={locking_mode}")).unwrap();
        assert_eq!(rows(&other), expected, "{locking_mode}");
        put(&other, &mut expected, 7, 1000, 60);
        drop(other);
        assert_eq!(rows(&connect(&vfs)), expected, "{locking_mode}");
    }
}

/// A random history: one connection writes, others read what there was when they began.
fn history(seed: u64, options: &str) {
    let medium = SimMedium::new();
    let vfs = vfs(&medium, options);
    let mut random = Random::new(seed);
    let writer = connect(&vfs);
    create(&writer, 512);
    let connections: Vec<Connection> = (0..6).map(|_| connect(&vfs)).collect();
    // What each reader saw when it began.
    let mut readers: Vec<Option<Rows>> = vec![None; connections.len()];
    let mut model = Rows::new();
    for version in 0..250 {
        match random.below(20) {
            0..9 => {
                writer.execute_batch("BEGIN").unwrap();
                for _ in 0..=random.below(4) {
                    put(&writer, &mut model, random.below(60) as i64, version, 100);
                }
                writer.execute_batch("COMMIT").unwrap();
            }
            9 => {
                // A large transaction leaves memory before its end, and a part of it is taken back.
                writer.execute_batch("BEGIN").unwrap();
                (0..100).for_each(|_| put(&writer, &mut model, random.below(200) as i64, version, 400));
                let mut dropped = model.clone();
                writer.execute_batch("SAVEPOINT s").unwrap();
                (0..100)
                    .for_each(|_| put(&writer, &mut dropped, random.below(200) as i64, version + 1000, 400));
                writer.execute_batch("ROLLBACK TO s").unwrap();
                (0..20).for_each(|_| put(&writer, &mut model, random.below(200) as i64, version, 300));
                writer.execute_batch("COMMIT").unwrap();
            }
            10 => {
                writer.execute_batch("BEGIN").unwrap();
                let mut dropped = model.clone();
                (0..50).for_each(|_| put(&writer, &mut dropped, random.below(200) as i64, version, 300));
                writer.execute_batch("ROLLBACK").unwrap();
            }
            11 if random.below(4) == 0 => writer.execute_batch("VACUUM").unwrap(),
            11 => {
                let mode = ["PASSIVE", "RESTART", "TRUNCATE"][random.below(3) as usize];
                let done: litefoot::rusqlite::Result<i64> =
                    writer.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(0));
                assert!(done.is_ok(), "{done:?}");
            }
            12..17 => {
                let number = random.below(6) as usize;
                if readers[number].is_none() {
                    connections[number].execute_batch("BEGIN; SELECT max(version) FROM t").unwrap();
                    readers[number] = Some(model.clone());
                }
            }
            _ => {
                let number = random.below(6) as usize;
                if let Some(seen) = &readers[number] {
                    assert_eq!(&rows(&connections[number]), seen, "seed {seed}, version {version}");
                    if random.below(3) > 0 {
                        connections[number].execute_batch("COMMIT").unwrap();
                        readers[number] = None;
                    }
                }
            }
        }
    }
    assert_eq!(rows(&writer), model, "seed {seed}");
    for (connection, seen) in connections.iter().zip(&readers) {
        assert!(seen.as_ref().is_none_or(|seen| rows(connection) == *seen), "seed {seed}");
    }
    drop((connections, writer));
    let db = connect(&vfs);
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!((rows(&db), check.as_str()), (model, "ok"), "seed {seed}");
}

#[test]
fn readers_see_what_there_was_when_they_began() {
    for seed in 0..4 {
        for options in ["", "write_buffer_size=256K", "write_buffer_size=16K"] {
            history(seed, options);
        }
    }
}

/// A checkpoint, or a reader, that begins while pages are freed finds its pages.
#[test]
fn threads_read_and_checkpoint_while_pages_are_freed() {
    let medium = SimMedium::new();
    let vfs = vfs(&medium, "");
    let db = connect(&vfs);
    create(&db, 512);
    let mut expected = Rows::new();
    (0..100).for_each(|id| put(&db, &mut expected, id, 0, 100));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = connect(&vfs);
            scope.spawn(move || {
                db.busy_timeout(Duration::from_secs(60)).unwrap();
                for _ in 0..30 {
                    if thread == 0 {
                        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                    }
                    db.execute_batch("BEGIN").unwrap();
                    let first = rows(&db);
                    // Every transaction gives all rows of a kind the same version.
                    for kind in 0..5 {
                        let versions =
                            first.iter().filter(|(id, _)| **id % 5 == kind).map(|(_, version)| *version);
                        assert_eq!(versions.clone().min(), versions.max());
                    }
                    assert_eq!(rows(&db), first);
                    db.execute_batch("COMMIT").unwrap();
                }
            });
        }
        db.busy_timeout(Duration::from_secs(60)).unwrap();
        for version in 1..300 {
            db.execute_batch("BEGIN").unwrap();
            for id in (0..100).filter(|id| id % 5 == version % 5) {
                put(&db, &mut expected, id, version, 100);
            }
            db.execute_batch("COMMIT").unwrap();
        }
    });
    assert_eq!(rows(&db), expected);
}

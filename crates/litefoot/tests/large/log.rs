//! Large transactions with a log: what SQLite does with its frames besides writing them once.

use crate::support::{SMALL_CACHE, in_transaction, insert, integrity, open_small, rows, vfs};
use litefoot::Vfs;
use litefoot::rusqlite::{Connection, ErrorCode, Result};
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random};
use litefoot_storage::file::{FileKind, Operation};

/// A database in WAL mode with a table, all in its file.
fn prepared(vfs: &Vfs, name: &str, page_bytes: u32) -> Connection {
    let db = vfs.open(name).unwrap();
    db.execute_batch(&format!(
        "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
    ))
    .unwrap();
    drop(db);
    let db = open_small(vfs, name);
    db.execute_batch("SELECT * FROM t").unwrap();
    db
}

/// Without `psow` SQLite writes the last frame of a commit once more, to fill the sector.
#[test]
fn frames_that_fill_the_sector_are_part_of_the_commit() {
    for page_bytes in [512, 4096, 65536] {
        let medium = SimMedium::new();
        let litefoot = vfs(&medium, "write_buffer_size=1M&page_cleaner=foreground");
        let db = prepared(&litefoot, "file:/app.db?psow=0", page_bytes);
        let mut expected = 0;
        for round in 0..4 {
            let sql = format!(
                "WITH n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 3000)
                 INSERT INTO t SELECT {round} * 3000 + v, zeroblob(900 + v % 150) FROM n"
            );
            db.execute_batch(&sql).unwrap();
            expected += 3000;
            assert_eq!(rows(&db), expected, "{page_bytes}");
            for seed in 0..3 {
                let cut = vfs(&medium.cut(&mut Random::new(seed)), "");
                assert_eq!(rows(&cut.open("/app.db").unwrap()), expected, "{page_bytes}: cut {seed}");
            }
        }
    }
}

/// The same for small commits, wherever the end of a sector is in a frame.
#[test]
fn a_sector_may_end_in_the_header_of_a_frame() {
    for page_bytes in [512, 1024, 4096] {
        let medium = SimMedium::new();
        let litefoot = vfs(&medium, "write_buffer_size=16M");
        let db = prepared(&litefoot, "file:/app.db?psow=0", page_bytes);
        db.execute_batch("PRAGMA wal_autocheckpoint=0").unwrap();
        for id in 1..=400 {
            db.execute("INSERT INTO t VALUES(?1, zeroblob(200))", [id]).unwrap();
            if id % 20 == 0 {
                let cut = vfs(&medium.cut(&mut Random::new(1)), "");
                assert_eq!(rows(&cut.open("/app.db").unwrap()), id, "{page_bytes}");
            }
        }
    }
}

/// A commit that nobody asked to be durable meets a full disk before it is published, wherever its pages go.
#[test]
fn a_full_disk_never_closes_the_database() {
    type Act = fn(&Connection) -> Result<()>;
    let few_new: Act = |db| {
        insert(db, 0..230, 2)?;
        insert(db, 230..250, 2)
    };
    let many_new: Act = |db| insert(db, 230..800, 2);
    let new_and_old: Act = |db| {
        insert(db, 230..500, 2)?;
        insert(db, 0..230, 2)?;
        insert(db, 500..600, 2)
    };
    let grows_and_shrinks: Act = |db| {
        insert(db, 230..800, 2)?;
        db.execute_batch("DELETE FROM t WHERE id > 250")
    };
    for (number, act) in [few_new, many_new, new_and_old, grows_and_shrinks].into_iter().enumerate() {
        for synchronous in ["normal", "off", "full"] {
            let medium = SimMedium::new();
            let litefoot = vfs(&medium, "write_buffer_size=1M&page_cleaner=foreground");
            let db = litefoot.open("/app.db").unwrap();
            db.execute_batch(
                "PRAGMA auto_vacuum=full; PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
            )
            .unwrap();
            insert(&db, 0..230, 1).unwrap();
            drop(db);
            let db = litefoot.open("/app.db").unwrap();
            db.execute_batch(&format!("{SMALL_CACHE}; PRAGMA synchronous={synchronous}; SELECT * FROM t"))
                .unwrap();
            let used: usize = medium.files().iter().map(|(_, _, bytes)| bytes.len()).sum();
            let mut done = false;
            for more in (0..8_000_000).step_by(10_000) {
                medium.set_faults(Faults::full_at((used + more) as u64));
                match in_transaction(&db, act) {
                    Ok(()) => {
                        done = true;
                        break;
                    }
                    Err(error) => {
                        let code = error.sqlite_error_code();
                        assert_eq!(code, Some(ErrorCode::DiskFull), "{number} {synchronous} {more}: {error}");
                        let _ = db.execute_batch("ROLLBACK");
                    }
                }
                if more % 200_000 == 0 {
                    assert_eq!(rows(&db), 230, "{number} {synchronous} {more}");
                }
            }
            assert!(done);
            medium.set_faults(Faults::default());
            let found = rows(&db);
            drop(db);
            assert_eq!(rows(&litefoot.open("/app.db").unwrap()), found);
        }
    }
}

/// A connection in exclusive mode reads the log from its beginning, and pages that a large transaction has written into the
/// database file are not as they were when SQLite made their checksums.
#[test]
fn a_log_that_is_read_anew_is_read_to_its_end() {
    let medium = SimMedium::new();
    let litefoot = vfs(&medium, "write_buffer_size=16M&max_dirty_ratio=0.1&page_cleaner=foreground");
    drop(prepared(&litefoot, "/app.db", 4096));
    let first = litefoot.open("/app.db").unwrap();
    let second = litefoot.open("/app.db").unwrap();
    first.execute_batch(&format!("PRAGMA wal_autocheckpoint=0; {SMALL_CACHE}; SELECT * FROM t")).unwrap();
    in_transaction(&first, |db| insert(db, 0..800, 1)).unwrap();
    in_transaction(&first, |db| insert(db, 300..310, 2)).unwrap();
    // As long as it reads, the log is not begun anew.
    let reader = litefoot.open("/app.db").unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    first.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    in_transaction(&first, |db| insert(db, 800..810, 2)).unwrap();
    // Their end is not the log's.
    for db in [reader, first] {
        db.set_db_config(litefoot::rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        let _ = db.execute_batch("COMMIT");
    }
    second.execute_batch("PRAGMA locking_mode=EXCLUSIVE").unwrap();
    assert_eq!(rows(&second), 810);
    in_transaction(&second, |db| insert(db, 0..10, 3)).unwrap();
    drop(second);
    assert_eq!(rows(&litefoot.open("/app.db").unwrap()), 810);
}

/// One operation fails, once. The transaction is there or it is not, for the connection, for what comes after it, and after a
/// cut.
#[test]
fn a_failure_leaves_all_of_it_or_nothing() {
    let mut met = 0;
    for synchronous in ["full", "normal", "off"] {
        for locking in ["normal", "exclusive"] {
            for (operation, kind) in [
                (Operation::Write, FileKind::Database),
                (Operation::Sync, FileKind::Database),
                (Operation::Write, FileKind::RedoLog),
                (Operation::Sync, FileKind::RedoLog),
                (Operation::Allocate, FileKind::RedoLog),
                (Operation::Write, FileKind::CommitLog),
                (Operation::Sync, FileKind::CommitLog),
                (Operation::Write, FileKind::Temporary),
                (Operation::Read, FileKind::Temporary),
                (Operation::Read, FileKind::Database),
            ] {
                for n in [0, 3] {
                    met += u32::from(fail_once(synchronous, locking, operation, kind, n));
                }
            }
        }
    }
    assert!(met > 15, "{met}");
}

fn fail_once(synchronous: &str, locking: &str, operation: Operation, kind: FileKind, n: u64) -> bool {
    let what = format!("{synchronous} {locking} {operation:?} {kind:?} {n}");
    let medium = SimMedium::new();
    let litefoot = vfs(&medium, "write_buffer_size=256K&page_cleaner=foreground");
    drop(prepared(&litefoot, "/app.db", 4096));
    let db = litefoot.open("/app.db").unwrap();
    insert(&db, 0..100, 1).unwrap();
    db.execute_batch(&format!(
        "{SMALL_CACHE}; PRAGMA synchronous={synchronous};
         PRAGMA locking_mode={locking}; INSERT INTO t VALUES(5000, zeroblob(200)); DELETE FROM t WHERE id = 5000"
    ))
    .unwrap();
    let mut once = Faults::failing(operation, kind, n);
    once.fail_again = false;
    medium.set_faults(once);
    let result = in_transaction(&db, |db| {
        insert(db, 60..400, 2)?;
        db.execute_batch("SAVEPOINT s")?;
        insert(db, 300..500, 3)?;
        db.execute_batch("ROLLBACK TO s")?;
        insert(db, 0..20, 2)
    });
    let failed = result.is_err();
    let _ = db.execute_batch("ROLLBACK");
    medium.set_faults(Faults::default());
    let (before, after) = (100, 400);
    let sound = |db: &Connection| {
        assert_eq!(integrity(db)?, "ok", "{what}");
        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
    };
    let wants_durability = synchronous == "full";
    let here = sound(&db);
    if let Ok(found) = here {
        assert_eq!(found, if failed { before } else { after }, "{what}: {result:?}");
    }
    // The next transactions, small and large.
    let next =
        insert(&db, 1000..1001, 4).is_ok() && in_transaction(&db, |db| insert(db, 2000..2300, 4)).is_ok();
    let _ = db.execute_batch("ROLLBACK");
    let last = if failed { before } else { after } + 301;
    if next {
        assert_eq!(sound(&db), Ok(last), "{what}");
    }
    for seed in 0..3 {
        let cut = vfs(&medium.cut(&mut Random::new(seed)), "");
        let found = sound(&cut.open("/app.db").unwrap()).unwrap_or_else(|error| panic!("{what}: {error}"));
        if wants_durability && next {
            assert_eq!(found, last, "{what}: cut");
        } else {
            let all = [before, after].into_iter().flat_map(|base| [base, base + 1, base + 301]);
            let at_least = if wants_durability && !failed { after } else { before };
            assert!(found >= at_least && all.clone().any(|count| count == found), "{what}: cut {found}");
        }
    }
    drop(db);
    let db = litefoot.open("/app.db").unwrap();
    let found = sound(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
    if next {
        assert_eq!(found, last, "{what}");
    }
    failed
}

/// A connection that keeps its lock rolls a large transaction back, and leaves the mode then.
#[test]
fn a_rollback_that_no_lock_tells_of_is_over_with_the_next_transaction() {
    for page_cleaner in ["foreground", "background"] {
        for mode in ["delete", "truncate", "wal"] {
            let medium = SimMedium::new();
            let litefoot = vfs(&medium, &format!("write_buffer_size=256K&page_cleaner={page_cleaner}"));
            drop(prepared(&litefoot, "/app.db", 4096));
            let db = litefoot.open("/app.db").unwrap();
            db.execute_batch(&format!("PRAGMA locking_mode=EXCLUSIVE; {SMALL_CACHE}")).unwrap();
            insert(&db, 0..100, 1).unwrap();
            let from = medium.operations();
            for ids in [50..500, 90..300] {
                db.execute_batch("BEGIN").unwrap();
                insert(&db, ids, 2).unwrap();
                db.execute_batch("ROLLBACK").unwrap();
                insert(&db, 100..101, 3).unwrap();
                db.execute_batch("DELETE FROM t WHERE id = 100").unwrap();
            }
            let to = medium.operations();
            db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
            let changed = medium.operations();
            in_transaction(&db, |db| insert(db, 100..400, 4)).unwrap();
            let end = medium.operations();
            let mut random = Random::new(3);
            for point in (from..end).step_by(((end - from) / 60).max(1)).chain([to, changed, end]) {
                let mut replay = medium.replay();
                replay.advance(point);
                let cut = vfs(&replay.cut(&mut random), "");
                let found = rows(&cut.open("/app.db").unwrap());
                let allowed: &[i64] = match point {
                    point if point < changed => &[100, 101],
                    point if point < end => &[100, 400],
                    _ => &[400],
                };
                assert!(
                    allowed.contains(&found),
                    "{page_cleaner} {mode} at {point} of {from} {to} {changed} {end}: {found}"
                );
            }
            assert_eq!(rows(&db), 400);
            db.execute_batch("DELETE FROM t WHERE id > 20; VACUUM").unwrap();
            drop(db);
            let file = medium.files().into_iter().find(|(_, kind, _)| *kind == FileKind::Database).unwrap().2;
            assert!(file.len() < 64 * 4096, "{page_cleaner} {mode}: {} bytes are left", file.len());
            assert_eq!(rows(&litefoot.open("/app.db").unwrap()), 21);
        }
    }
}

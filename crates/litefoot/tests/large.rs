//! Transactions that are larger than the memory for them: power cuts, full disks and rollbacks while pages are written away.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot::{Options, Vfs};
use litefoot_engine::device::sim::{Faults, Random, SyncSite};
use litefoot_engine::device::{CountingMedium, FileKind, Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
const CLEANERS: [&str; 3] = ["auto", "caller", "background"];
/// Rows of a large transaction, a page each.
const ROWS: i64 = 150;

struct Setup {
    medium: SimMedium,
    vfs: Vfs,
    db: Connection,
}

fn open(medium: &SimMedium, options: &str) -> (Vfs, Connection) {
    open_on(Arc::new(medium.clone()), options)
}

fn open_on(medium: Arc<dyn Medium>, options: &str) -> (Vfs, Connection) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut list = Options::default();
    list.set_list(options).unwrap();
    let name = format!("large-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let vfs = Vfs::builder(name).medium(medium).options(list).register().unwrap();
    let db = vfs.open("/app.db").unwrap();
    (vfs, db)
}

/// A database with some rows, all in its file, whose next transaction does not fit into memory.
fn prepared(mode: &str, cleaner: &str) -> Setup {
    prepared_with(mode, &format!("wal_memory=64K&cleaner={cleaner}"))
}

fn prepared_with(mode: &str, options: &str) -> Setup {
    let medium = SimMedium::new();
    let (vfs, db) = open(&medium, options);
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
    insert(&db, 0..40, 1).unwrap();
    drop(db);
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10").unwrap();
    Setup { medium, vfs, db }
}

fn insert(db: &Connection, ids: std::ops::Range<i64>, version: u8) -> litefoot::rusqlite::Result<()> {
    let mut statement = db.prepare_cached("INSERT OR REPLACE INTO t VALUES(?1, ?2)")?;
    ids.into_iter().try_for_each(|id| statement.execute((id, vec![version; 3500])).map(drop))
}

/// The transaction: rows that are new, rows that were there, and some of them twice, with something undone in between.
fn transact(db: &Connection) -> litefoot::rusqlite::Result<()> {
    db.execute_batch("BEGIN")?;
    insert(db, 40..ROWS, 2)?;
    insert(db, 0..40, 2)?;
    db.execute_batch("SAVEPOINT s")?;
    insert(db, 20..ROWS + 60, 9)?;
    db.execute_batch("ROLLBACK TO s")?;
    insert(db, 10..30, 2)?;
    db.execute_batch("COMMIT")
}

/// How many rows there are of each version; sound otherwise.
fn state(db: &Connection) -> Result<(i64, i64), String> {
    let sql =
        "SELECT total(hex(substr(v, 3500)) = '01'), total(hex(substr(v, 3500)) = '02'), count(*) FROM t";
    let row = db.query_row(sql, [], |row| {
        Ok((row.get::<_, f64>(0)? as i64, row.get::<_, f64>(1)? as i64, row.get::<_, i64>(2)?))
    });
    let (old, new, all) = row.map_err(|error| error.to_string())?;
    let integrity: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(|error| error.to_string())?;
    if integrity == "ok" && all == old + new {
        Ok((old, new))
    } else {
        Err(format!("{old} {new} {all} {integrity}"))
    }
}

const BEFORE: (i64, i64) = (40, 0);
const AFTER: (i64, i64) = (0, ROWS);

#[test]
fn a_cut_at_any_time_leaves_all_of_it_or_nothing() {
    for (number, mode) in MODES.into_iter().enumerate() {
        for cleaner in CLEANERS {
            let Setup { medium, vfs, db } = prepared(mode, cleaner);
            let from = medium.operations();
            transact(&db).unwrap();
            let to = medium.operations();
            let mut random = Random::new(number as u64);
            let step = ((to - from) / 60).max(1);
            for point in (from..=to).step_by(step).chain([to]) {
                let mut replay = medium.replay();
                replay.advance(point);
                let (_vfs, db) = open(&replay.cut(&mut random), "");
                let found = state(&db).unwrap();
                assert!(found == BEFORE || found == AFTER, "{mode} {cleaner} at {point}: {found:?}");
                assert!(point < to || found == AFTER, "{mode} {cleaner}: the commit was lost");
            }
            drop((db, vfs));
        }
    }
}

/// With a log, a commit that nobody asked to be durable survives the process, and a cut leaves all of it or nothing; so does
/// what comes after it and is rolled back.
#[test]
fn a_commit_that_is_not_synced_is_whole() {
    for synchronous in ["normal", "off"] {
        for locking in ["normal", "exclusive"] {
            for cleaner in CLEANERS {
                let what = format!("{synchronous} {locking} {cleaner}");
                let Setup { medium, vfs, db } = prepared("wal", cleaner);
                db.execute_batch(&format!("PRAGMA synchronous={synchronous}; PRAGMA locking_mode={locking}"))
                    .unwrap();
                let from = medium.operations();
                transact(&db).unwrap();
                let (_survivor, alive) = open(&SimMedium::with_files(medium.files()), "");
                assert_eq!(state(&alive), Ok(AFTER), "{what}: the process was killed");
                db.execute_batch("BEGIN").unwrap();
                insert(&db, 100..ROWS + 200, 9).unwrap();
                db.execute_batch("ROLLBACK").unwrap();
                assert_eq!(state(&db), Ok(AFTER), "{what}");
                let to = medium.operations();
                let mut random = Random::new(7);
                let mut replay = medium.replay();
                for point in (from..=to).step_by(((to - from) / 60).max(1)) {
                    replay.advance(point);
                    let (_vfs, db) = open(&replay.cut(&mut random), "");
                    let found = state(&db).unwrap();
                    assert!(found == BEFORE || found == AFTER, "{what} at {point}: {found:?}");
                }
                drop(db);
                let (_vfs, db) = open(&medium.cut(&mut random), "");
                assert_eq!(state(&db), Ok(AFTER), "{what}: all was closed");
                drop(vfs);
            }
        }
    }
}

/// The file is synced before the commit that makes its new pages count, and the log after: each of these syncs is left
/// out once.
#[test]
fn the_syncs_of_a_large_commit_are_needed() {
    for (mode, synchronous, kind) in [
        ("delete", "full", FileKind::Database),
        ("delete", "full", FileKind::RedoLog),
        ("wal", "full", FileKind::Database),
        ("wal", "full", FileKind::RedoLog),
        // It may be lost, and not half of it.
        ("wal", "off", FileKind::Database),
    ] {
        let is_promised = synchronous == "full";
        let spoiled = |faulty: bool| {
            (0..if is_promised { 60 } else { 200 }).any(|seed| {
                // No checkpoint of the log, whose syncs would make up for it.
                let options = "wal_memory=2M&clean_threshold=0.1&cleaner=caller";
                let Setup { medium, vfs, db } = prepared_with(mode, options);
                // The log is there for good.
                insert(&db, 0..1, 1).unwrap();
                db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
                if faulty {
                    // The first of the database is that of its new pages.
                    let which = (kind == FileKind::Database).then_some(0);
                    medium.set_faults(Faults::ignoring(SyncSite::File(kind), which));
                }
                if is_promised {
                    transact(&db).unwrap();
                } else {
                    // Few pages that were there, so that what remains of an unsynced log may be all of it.
                    db.execute_batch("BEGIN").unwrap();
                    insert(&db, 40..ROWS, 2).unwrap();
                    db.execute_batch("COMMIT").unwrap();
                }
                let image = medium.cut(&mut Random::new(seed));
                drop((db, vfs));
                let (_vfs, db) = open(&image, "");
                let found = state(&db);
                if is_promised {
                    found != Ok(AFTER)
                } else {
                    found != Ok(BEFORE) && found != Ok((40, ROWS - 40))
                }
            })
        };
        assert!(!spoiled(false), "{mode} {synchronous}: something is lost though all was synced");
        assert!(spoiled(true), "{mode} {synchronous}: nobody misses the sync of {kind:?}");
    }
}

#[test]
fn a_full_disk_fails_the_transaction_and_nothing_else() {
    for mode in MODES.into_iter().chain(["memory"]) {
        for cleaner in CLEANERS {
            meet_a_full_disk(mode, cleaner, "normal");
        }
        // A connection that keeps its lock cannot tell the end of a rollback by it.
        meet_a_full_disk(mode, "caller", "exclusive");
    }
}

fn meet_a_full_disk(mode: &str, cleaner: &str, locking: &str) {
    let Setup { medium, vfs, db } = prepared(mode, cleaner);
    let what = format!("{mode} {cleaner} {locking}");
    db.execute_batch(&format!("PRAGMA locking_mode={locking}; PRAGMA journal_mode={mode}")).unwrap();
    let used = medium.used_bytes();
    let (mut failed, mut done) = (0, false);
    for more in (0..4_000_000).step_by(60_000) {
        medium.set_faults(Faults::full_at(used + more));
        match transact(&db) {
            Ok(()) => {
                done = true;
                break;
            }
            Err(error) => {
                let code = error.sqlite_error_code();
                assert_eq!(code, Some(ErrorCode::DiskFull), "{what} {more}: {error}");
                let _ = db.execute_batch("ROLLBACK");
                failed += 1;
            }
        }
        assert_eq!(state(&db), Ok(BEFORE), "{what} {more}");
    }
    assert!(done && failed > 1, "{what}: {failed}");
    assert_eq!(state(&db), Ok(AFTER));
    medium.set_faults(Faults::default());
    insert(&db, 0..5, 1).unwrap();
    drop(db);
    let db = vfs.open("/app.db").unwrap();
    assert_eq!(state(&db), Ok((5, ROWS - 5)), "{what}");
}

#[test]
fn a_rollback_leaves_nothing_behind() {
    for mode in MODES {
        for cleaner in CLEANERS {
            let Setup { medium, vfs, db } = prepared(mode, cleaner);
            let database = |medium: &SimMedium| {
                let files = medium.files();
                files.into_iter().find(|(_, kind, _)| *kind == FileKind::Database).unwrap().2
            };
            let before = database(&medium);
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 0..300, 2).unwrap();
            db.execute_batch("ROLLBACK").unwrap();
            assert!(database(&medium) == before, "{mode} {cleaner}: the file has changed");
            assert_eq!(state(&db), Ok(BEFORE));
            transact(&db).unwrap();
            assert_eq!(state(&db), Ok(AFTER));
            drop((db, vfs));
        }
    }
}

#[test]
fn cleanings_are_counted() {
    for mode in ["delete", "wal"] {
        let Setup { medium: _medium, vfs: _vfs, db } = prepared(mode, "caller");
        let figure = |name: &str| -> i64 {
            let sql = "SELECT value FROM litefoot_stats WHERE name = ?1";
            db.query_row(sql, [name], |row| row.get(0)).unwrap()
        };
        db.execute_batch("BEGIN").unwrap();
        insert(&db, 40..ROWS, 2).unwrap();
        assert!(figure("cleanings") > 2, "{mode}");
        assert!(figure("cleaned_bytes") > 40 * 4096, "{mode}");
        db.execute_batch("COMMIT").unwrap();
        assert!(figure("cleaning_waits") > 2, "{mode}");
        assert_eq!(figure("held_memory_bytes"), 0);
    }
}

/// However little memory there is, a page goes to the log and from there home, and a new one home at once. With a rollback
/// journal SQLite keeps what was there before as well.
#[test]
fn a_page_is_written_twice_at_most_and_a_new_one_once() {
    const MANY: i64 = 600;
    for mode in MODES {
        let medium = CountingMedium::new(Arc::new(SimMedium::new()));
        let (vfs, db) = open_on(Arc::new(medium.clone()), "wal_memory=64K");
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        drop(db);
        for (version, most) in [(1, 1.15), (2, 2.2)] {
            let before = medium.snapshot();
            let db = vfs.open("/app.db").unwrap();
            db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10; BEGIN").unwrap();
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

/// At `synchronous=OFF` a transaction that shrinks the database may be lost. What the next one writes behind the new end, and
/// what is cut off, must not be missed then.
#[test]
fn what_a_lost_transaction_had_cut_off_is_there_again() {
    type Act = fn(&Connection);
    let shrink_and_grow: Act = |db| {
        db.execute("DELETE FROM t WHERE id >= 10", []).unwrap();
        db.execute_batch("BEGIN").unwrap();
        insert(db, 100..100 + ROWS, 2).unwrap();
        db.execute_batch("COMMIT").unwrap();
    };
    let shrink_and_roll_back: Act = |db| {
        db.execute("DELETE FROM t WHERE id >= 10", []).unwrap();
        db.execute_batch("BEGIN").unwrap();
        insert(db, 100..100 + ROWS, 2).unwrap();
        db.execute_batch("ROLLBACK").unwrap();
    };
    let grow_and_shrink: Act = |db| {
        db.execute_batch("BEGIN").unwrap();
        insert(db, 100..100 + ROWS, 2).unwrap();
        db.execute("DELETE FROM t WHERE id >= 10", []).unwrap();
        db.execute_batch("COMMIT").unwrap();
    };
    for (number, act) in [shrink_and_grow, shrink_and_roll_back, grow_and_shrink].into_iter().enumerate() {
        let medium = SimMedium::new();
        let (vfs, db) = open(&medium, "wal_memory=64K&cleaner=caller");
        db.execute_batch("PRAGMA auto_vacuum=full; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        insert(&db, 0..80, 1).unwrap();
        drop(db);
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10; PRAGMA synchronous=OFF").unwrap();
        let from = medium.operations();
        act(&db);
        let to = medium.operations();
        let mut random = Random::new(number as u64);
        for point in (from..=to).chain(std::iter::repeat_n(to, 200)) {
            let mut replay = medium.replay();
            replay.advance(point);
            let (_vfs, db) = open(&replay.cut(&mut random), "");
            let found = state(&db);
            let expected = [(80, 0), (10, 0), (10, ROWS)];
            assert!(
                found.as_ref().is_ok_and(|found| expected.contains(found)),
                "{number} at {point}: {found:?}"
            );
        }
        drop((db, vfs));
    }
}

/// A commit over two databases goes back to SQLite's own protocol, and the disk is full then. The connection keeps its lock,
/// and goes on.
#[test]
fn a_full_disk_in_a_commit_over_two_databases_spoils_no_later_one() {
    for (mode, locking) in
        [("delete", "exclusive"), ("delete", "normal"), ("persist", "exclusive"), ("truncate", "exclusive")]
    {
        meet_a_full_disk_in_both(mode, locking);
    }
}

fn meet_a_full_disk_in_both(mode: &str, locking: &str) {
    let (mut failed, mut done) = (0, false);
    for more in (0..6_000_000).step_by(20_000) {
        let Setup { medium, vfs, db } = prepared(mode, "caller");
        db.execute_batch("ATTACH '/other.db' AS other; CREATE TABLE other.u(id INTEGER PRIMARY KEY, v)")
            .unwrap();
        db.execute_batch(&format!("PRAGMA main.journal_mode={mode}; PRAGMA main.locking_mode={locking}; INSERT INTO t VALUES(1000, 1); DELETE FROM t WHERE id = 1000"))
            .unwrap();
        let used = medium.used_bytes();
        medium.set_faults(Faults::full_at(used + more));
        let both = |db: &Connection| {
            db.execute_batch("BEGIN; INSERT INTO other.u VALUES(NULL, 1)")?;
            insert(db, 20..40, 2)?;
            insert(db, 40..ROWS, 2)?;
            insert(db, 0..20, 2)?;
            db.execute_batch("COMMIT")
        };
        let result = both(&db);
        medium.set_faults(Faults::default());
        if result.is_ok() {
            assert_eq!(state(&db), Ok(AFTER), "{mode} {locking} {more}");
            done = true;
        } else {
            let _ = db.execute_batch("ROLLBACK");
            failed += 1;
            assert_eq!(state(&db), Ok(BEFORE), "{mode} {locking} {more}");
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 10..40, 2).unwrap();
            insert(&db, 0..10, 2).unwrap();
            insert(&db, 40..ROWS, 2).unwrap();
            db.execute_batch("COMMIT").unwrap();
            assert_eq!(state(&db), Ok(AFTER), "{mode} {locking} {more}");
        }
        let (_vfs, after) = open(&medium.cut(&mut Random::new(1)), "");
        assert_eq!(state(&after), Ok(AFTER), "{mode} {locking} {more} after a cut");
        drop((db, vfs));
        if done {
            break;
        }
    }
    assert!(done && failed > 3, "{mode} {locking} {failed}");
}

/// Large transactions that grow and shrink the database, with checkpoints and readers in between: whatever the cut, one of
/// the states is there, and all of it.
#[test]
fn a_database_that_shrinks_and_grows_is_one_of_its_states_after_a_cut() {
    for (number, vacuum) in ["none", "full"].into_iter().enumerate() {
        let medium = SimMedium::new();
        let (vfs, db) = open(&medium, "wal_memory=64K&cleaner=background");
        db.execute_batch(&format!("PRAGMA auto_vacuum={vacuum}; PRAGMA journal_mode=wal")).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        insert(&db, 0..40, 1).unwrap();
        drop(db);
        let db = vfs.open("/app.db").unwrap();
        db.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=10").unwrap();
        let other = vfs.open("/app.db").unwrap();
        let from = medium.operations();
        let mut states = vec![state(&other).unwrap()];
        let mut points = vec![from];
        let mut step = |db: &Connection| {
            states.push(state(db).unwrap());
            points.push(medium.operations());
        };
        for round in 0..3 {
            let reads = round == 1;
            if reads {
                other.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
            }
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 100..300 + 50 * round, 2).unwrap();
            db.execute_batch("COMMIT").unwrap();
            step(&db);
            other.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).ok();
            db.execute("DELETE FROM t WHERE id >= 20", []).unwrap();
            step(&db);
            if vacuum == "none" {
                db.execute_batch("VACUUM").unwrap();
            }
            db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
            db.execute_batch("BEGIN").unwrap();
            insert(&db, 1000..1150 + 20 * round, 2).unwrap();
            db.execute_batch("SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT").unwrap();
            step(&db);
            if reads {
                other.execute_batch("COMMIT").unwrap();
            }
            other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).ok();
            db.execute("DELETE FROM t WHERE id >= 15", []).unwrap();
            step(&db);
        }
        let to = medium.operations();
        let mut random = Random::new(number as u64);
        let mut replay = medium.replay();
        for point in (from..=to).step_by(std::cmp::max(1, (to - from) / 250)) {
            replay.advance(point);
            let (_vfs, db) = open(&replay.cut(&mut random), "");
            let found = state(&db);
            let least = points.partition_point(|known| *known <= point) - 1;
            let sound = found.as_ref().is_ok_and(|found| states[least..].contains(found));
            assert!(sound, "{vacuum} at {point}: {found:?}, {least}");
        }
        drop((db, other, vfs));
    }
}

#[test]
fn a_large_commit_over_two_databases_is_whole_after_a_cut() {
    for mode in ["delete", "persist"] {
        let Setup { medium, vfs, db } = prepared(mode, "background");
        db.execute_batch("ATTACH '/other.db' AS other; CREATE TABLE other.u(id INTEGER PRIMARY KEY, v)")
            .unwrap();
        let from = medium.operations();
        db.execute_batch("BEGIN; INSERT INTO other.u VALUES(1, 1)").unwrap();
        insert(&db, 20..ROWS, 2).unwrap();
        insert(&db, 0..20, 2).unwrap();
        db.execute_batch("COMMIT").unwrap();
        let to = medium.operations();
        let mut random = Random::new(1);
        for point in (from..=to).step_by(std::cmp::max(1, (to - from) / 100)).chain([to]) {
            let mut replay = medium.replay();
            replay.advance(point);
            let (_vfs, db) = open(&replay.cut(&mut random), "");
            let found = state(&db).unwrap();
            db.execute_batch("ATTACH '/other.db' AS other").unwrap();
            let others: i64 = db.query_row("SELECT count(*) FROM other.u", [], |row| row.get(0)).unwrap();
            let expected = if others == 1 { AFTER } else { BEFORE };
            assert_eq!(found, expected, "{mode} at {point}");
            assert!(point < to || found == AFTER, "{mode}: the commit was lost");
        }
        drop((db, vfs));
    }
}

//! Power cuts while pages are written away, and after: all of a transaction is there, or nothing.

use crate::support::{insert, open, open_small};
use crate::transaction::{
    AFTER, BEFORE, CLEANERS, MODES, ROWS, Setup, prepared, prepared_with, state, transact,
};
use litefoot::rusqlite::Connection;
use litefoot_sim::SimMedium;
use litefoot_sim::{Faults, Random, SyncSite};
use litefoot_storage::file::FileKind;

#[test]
fn a_cut_at_any_time_leaves_all_of_it_or_nothing() {
    for (number, mode) in MODES.into_iter().enumerate() {
        for page_cleaner in CLEANERS {
            let Setup { medium, vfs, db } = prepared(mode, page_cleaner);
            let from = medium.operations();
            transact(&db).unwrap();
            let to = medium.operations();
            let points = (from..=to).step_by(((to - from) / 60).max(1)).chain([to]);
            for (point, image) in medium.cuts(points, 1, &mut Random::new(number as u64)) {
                let (_vfs, db) = open(&image, "");
                let found = state(&db).unwrap();
                assert!(found == BEFORE || found == AFTER, "{mode} {page_cleaner} at {point}: {found:?}");
                assert!(point < to || found == AFTER, "{mode} {page_cleaner}: the commit was lost");
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
            for page_cleaner in CLEANERS {
                let what = format!("{synchronous} {locking} {page_cleaner}");
                let Setup { medium, vfs, db } = prepared("wal", page_cleaner);
                db.execute_batch(&format!("PRAGMA synchronous={synchronous}; PRAGMA locking_mode={locking}"))
                    .unwrap();
                let from = medium.operations();
                transact(&db).unwrap();
                let (_survivor, alive) = open(&medium.copy(), "");
                assert_eq!(state(&alive), Ok(AFTER), "{what}: the process was killed");
                db.execute_batch("BEGIN").unwrap();
                insert(&db, 100..ROWS + 200, 9).unwrap();
                db.execute_batch("ROLLBACK").unwrap();
                assert_eq!(state(&db), Ok(AFTER), "{what}");
                let to = medium.operations();
                let mut random = Random::new(7);
                let points = (from..=to).step_by(((to - from) / 60).max(1));
                for (point, image) in medium.cuts(points, 1, &mut random) {
                    let (_vfs, db) = open(&image, "");
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
        let wants_durability = synchronous == "full";
        let spoiled = |faulty: bool| {
            (0..if wants_durability { 60 } else { 200 }).any(|seed| {
                // No checkpoint of the log, whose syncs would make up for it.
                let options = "write_buffer_size=2M&max_dirty_ratio=0.1&page_cleaner=foreground";
                let Setup { medium, vfs, db } = prepared_with(mode, options);
                // The log is there for good, and has a commit that was promised.
                let promised = if wants_durability { 1 } else { 2 };
                insert(&db, 0..1, promised).unwrap();
                db.execute_batch(&format!("PRAGMA synchronous={synchronous}")).unwrap();
                if faulty {
                    // The first of the database is that of its new pages.
                    let which = (kind == FileKind::Database).then_some(0);
                    medium.set_faults(Faults::ignoring(SyncSite::File(kind), which));
                }
                if wants_durability {
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
                if wants_durability {
                    found != Ok(AFTER)
                } else {
                    found != Ok((39, 1)) && found != Ok((39, ROWS - 39))
                }
            })
        };
        assert!(!spoiled(false), "{mode} {synchronous}: something is lost though all was synced");
        assert!(spoiled(true), "{mode} {synchronous}: nobody misses the sync of {kind:?}");
    }
}

/// At `synchronous=OFF` a transaction that shrinks the database may be lost. Neither the pages that the next one writes
/// behind the new end nor those cut off must be missing then.
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
        let (vfs, db) = open(&medium, "write_buffer_size=64K&page_cleaner=foreground");
        db.execute_batch("PRAGMA auto_vacuum=full; CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        insert(&db, 0..80, 1).unwrap();
        drop(db);
        let db = open_small(&vfs, "/app.db");
        db.execute_batch("PRAGMA synchronous=OFF").unwrap();
        let from = medium.operations();
        act(&db);
        let to = medium.operations();
        let points = (from..=to).chain(std::iter::repeat_n(to, 200));
        for (point, image) in medium.cuts(points, 1, &mut Random::new(number as u64)) {
            let (_vfs, db) = open(&image, "");
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

/// Large transactions that grow and shrink the database, with checkpoints and readers in between: whatever the cut, one of
/// the states is there, and all of it.
#[test]
fn a_database_that_shrinks_and_grows_is_one_of_its_states_after_a_cut() {
    for (number, vacuum) in ["none", "full"].into_iter().enumerate() {
        let medium = SimMedium::new();
        let (vfs, db) = open(&medium, "write_buffer_size=64K&page_cleaner=background");
        db.execute_batch(&format!("PRAGMA auto_vacuum={vacuum}; PRAGMA journal_mode=wal")).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        insert(&db, 0..40, 1).unwrap();
        drop(db);
        let db = open_small(&vfs, "/app.db");
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
        let cuts = (from..=to).step_by(std::cmp::max(1, (to - from) / 250));
        for (point, image) in medium.cuts(cuts, 1, &mut Random::new(number as u64)) {
            let (_vfs, db) = open(&image, "");
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
        let points = (from..=to).step_by(std::cmp::max(1, (to - from) / 100)).chain([to]);
        for (point, image) in medium.cuts(points, 1, &mut Random::new(1)) {
            let (_vfs, db) = open(&image, "");
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

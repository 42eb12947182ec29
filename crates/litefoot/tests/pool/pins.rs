//! Pages that SQLite looks at: more of them than there is memory, and none that it may write.

use crate::model::{FORWARD, Rows, body, check_all, fill, put, put_total};
use crate::stress::{Run, run};
use crate::support::{databases_agree, vfs};
use crate::writer::open;
use litefoot_testkit::sqlite::{maps_files, metric};

/// Statements that have begun look at one page for each level of their b-trees.
#[test]
fn more_statements_than_frames_all_get_their_rows() {
    for page_bytes in [4096, 65536] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs = vfs(&format!("pins-{page_bytes}"), "buffer_pool_size=1M");
        let db = open(&vfs, &path);
        db.execute_batch(&format!("PRAGMA page_size={page_bytes}")).unwrap();
        let rows = fill(&db, 12_000);
        let other = open(&vfs, &path);
        let mut statements: Vec<_> = (0..600).map(|_| db.prepare(FORWARD).unwrap()).collect();
        let from = |index: usize| index as i64 * 20 + 1;
        let mut cursors: Vec<_> = statements
            .iter_mut()
            .enumerate()
            .map(|(index, statement)| statement.query([from(index)]).unwrap())
            .collect();
        for step in 0..3 {
            for (index, rows) in cursors.iter_mut().enumerate() {
                let row = rows.next().unwrap().unwrap();
                let (id, version): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
                assert_eq!(id, from(index) + step);
                assert!(row.get_ref(3).unwrap().as_blob().unwrap() == body(id, version));
            }
        }
        let pool = vfs.databases()[0].known_pages().unwrap();
        assert!(!maps_files(&db) || pool.pool().pins() >= 16, "{}", pool.pool().pins());
        check_all(&other, &rows);
        drop(cursors);
        drop(statements);
        let held = pool.pool().pins() - pool.cached_pins();
        assert_eq!((held, metric(&db, "pool.pinned")), (0, 0), "all are unpinned");
        databases_agree(&vfs);
        check_all(&db, &rows);
    }
}

/// SQLite asks for a page and is told that there is none; it reads instead, or asks again.
#[test]
fn pages_that_are_refused_at_random_are_read() {
    for (mode, page_bytes) in [("wal", 1024), ("delete", 4096)] {
        let name = format!("refused-{mode}");
        run(&name, &Run { mode, page_bytes, changes: 25, refuses_one_in: 3, seed: 7, options: "" });
    }
}

/// The addresses that SQLite gets are those of a mapping that can only be read: a write would end the process.
#[test]
fn sqlite_never_writes_a_page_that_it_was_lent() {
    litefoot_storage::mapped_pool::show_read_only(true);
    for (mode, page_bytes) in [("wal", 4096), ("delete", 512), ("persist", 65536)] {
        let name = format!("lent-{mode}");
        run(&name, &Run { mode, page_bytes, changes: 25, refuses_one_in: 0, seed: 8, options: "" });
    }
    litefoot_storage::mapped_pool::show_read_only(false);
}

/// Connections keep the root and what is near it. A writer of a rollback-journal transaction finds no pinned pages. A
/// log is checkpointed beneath pinned pages, also if the file then gets shorter, and grows again.
#[test]
fn what_is_kept_is_what_the_database_has() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app.db");
        let vfs = vfs(&format!("kept-{mode}"), "buffer_pool_size=8M");
        let db = open(&vfs, &path);
        db.query_row("PRAGMA auto_vacuum=full", [], |_| Ok(())).ok();
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        let all = fill(&db, 6000);
        let readers: Vec<_> = (0..4).map(|_| open(&vfs, &path)).collect();
        let read = |rows: &Rows| {
            for reader in &readers {
                for id in (1..=6000).step_by(40) {
                    let sql = "SELECT version FROM t WHERE id = ?1";
                    let found = reader.query_row(sql, [id], |row| row.get(0)).ok();
                    assert_eq!(found, rows.get(&id).copied(), "{mode}, row {id}");
                }
            }
        };
        let kept = || vfs.databases()[0].known_pages().map_or(0, |pages| pages.cached_pins());
        let mut rows = all.clone();
        for round in 2..6 {
            read(&rows);
            assert!(!maps_files(&db) || kept() > 0);
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            if round % 2 == 0 {
                db.execute("DELETE FROM t WHERE id > 300", []).unwrap();
                rows.retain(|id, _| *id <= 300);
            } else {
                rows = all.keys().map(|id| (*id, round)).collect();
                rows.iter().for_each(|(id, version)| put(&db, *id, *version).unwrap());
            }
            put_total(&db, &rows).unwrap();
            db.execute_batch("COMMIT").unwrap();
            assert!(mode == "wal" || kept() == 0, "{mode}: {} pages are kept by others", kept());
            read(&rows);
            if mode == "wal" {
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            }
            databases_agree(&vfs);
            read(&rows);
            readers.iter().for_each(|reader| check_all(reader, &rows));
        }
        drop(readers);
        let pool = vfs.databases()[0].known_pages().unwrap();
        drop(db);
        assert_eq!((pool.pool().pins(), pool.cached_pins()), (0, 0), "nothing is kept by nobody");
    }
}

//! Connections that come and go: one closes last and brings everything home while another opens.

use crate::{MODES, PLAIN, TIERED, count, is_marked, stock, vfs};
use litefoot::rusqlite::{Connection, ErrorCode};
use litefoot_sim::SimMedium;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const THREADS: i64 = 4;
const TURNS: i64 = 40;

fn insert(db: &Connection, value: i64) -> bool {
    match db.execute("INSERT INTO t(v) VALUES(zeroblob(?1))", [300 + value]) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{error}");
            false
        }
    }
}

#[test]
fn many_that_open_and_close_find_everything_wherever_it_is() {
    for mode in MODES {
        let medium = SimMedium::new();
        let vfs = vfs(&medium);
        let db = vfs.open(TIERED).unwrap();
        db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").unwrap();
        drop(db);
        let rows = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (vfs, rows) = (&vfs, &rows);
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let db = vfs.open(TIERED).unwrap();
                        db.busy_timeout(Duration::from_secs(60)).unwrap();
                        let before = rows.load(Ordering::SeqCst);
                        for value in 0..1 + (thread + turn) % 3 {
                            rows.fetch_add(i64::from(insert(&db, value)), Ordering::SeqCst);
                        }
                        let found: i64 =
                            db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
                        assert!(found >= before, "{mode}: {found} of {before} rows");
                        drop(db);
                    }
                });
            }
        });
        let rows = rows.into_inner();
        assert!(rows >= THREADS * TURNS, "{mode}: {rows} rows");
        assert!(!is_marked(&medium), "{mode}");
        assert_eq!(stock(&medium).unwrap(), rows, "{mode}");
        assert_eq!(count(&vfs.open(PLAIN).unwrap()), rows, "{mode}");
    }
}

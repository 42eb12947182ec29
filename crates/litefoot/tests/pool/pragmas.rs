//! The settings of an application count.

use crate::model::{check_all, fill};
use crate::support::vfs;
use litefoot::rusqlite::Connection;
use litefoot_testkit::sqlite::{maps_files, metric, number};

#[test]
fn an_applications_own_settings_win() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let vfs = vfs("pragmas", "buffer_pool_size=8M");
    fill(&vfs.open(&path).unwrap(), 500);
    for is_used in [false, true] {
        let open = || {
            let db = vfs.open(&path).unwrap();
            if is_used {
                number(&db, "SELECT count(*) FROM t");
            }
            db
        };
        let holds_while_reading = |db: &Connection| {
            let mut statement = db.prepare("SELECT id FROM t").unwrap();
            let mut rows = statement.query([]).unwrap();
            rows.next().unwrap().unwrap();
            let pages = vfs.databases()[0].known_pages().unwrap();
            pages.pool().pins() - pages.cached_pins()
        };
        let untouched = open();
        assert_eq!(holds_while_reading(&untouched) > 0, maps_files(&untouched));
        let db = open();
        db.execute_batch("PRAGMA mmap_size=0").unwrap();
        assert_eq!(holds_while_reading(&db), 0, "nothing is mapped");
        assert!(metric(&db, "pool.hits") > 0, "and the pool is used nevertheless");
        db.execute_batch("PRAGMA mmap_size=1000000").unwrap();
        assert_eq!(holds_while_reading(&db) > 0, maps_files(&db));

        let db = open();
        db.execute_batch("PRAGMA cache_size=77; PRAGMA cache_spill=55").unwrap();
        number(&db, "SELECT sum(length(body)) FROM t");
        db.execute_batch("BEGIN; UPDATE t SET k = k; ROLLBACK").unwrap();
        // SQLite spills at the larger of the two.
        assert_eq!((number(&db, "PRAGMA cache_size"), number(&db, "PRAGMA cache_spill")), (77, 77));
        db.execute_batch("PRAGMA cache_spill=off").unwrap();
        assert_eq!(number(&db, "PRAGMA cache_spill"), 0);
        number(&db, "SELECT sum(length(body)) FROM t");
        assert_eq!((number(&db, "PRAGMA cache_size"), number(&db, "PRAGMA cache_spill")), (77, 0));
    }
}

#[test]
fn without_a_pool_sqlite_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let vfs = vfs("pragmas-none", "buffer_pool_size=0");
    let db = vfs.open(&path).unwrap();
    let plain = Connection::open_in_memory().unwrap();
    assert_eq!(number(&db, "PRAGMA cache_size"), number(&plain, "PRAGMA cache_size"));
    let rows = fill(&db, 500);
    check_all(&db, &rows);
    assert!(vfs.databases()[0].known_pages().is_none());
    for name in ["pool.bytes", "pool.hits", "pool.misses", "pool.limit_bytes"] {
        assert_eq!(metric(&db, name), 0, "{name}");
    }
}

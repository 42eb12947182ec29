//! The statements of a transaction that are captured, and those that go as pages.

use super::support::*;
use litefoot::rusqlite::{Connection, params};
use litefoot_testkit::sqlite::metric_or_zero;

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

//! A connection that SQLite tells less of hides nothing.

use super::support::*;
use litefoot::rusqlite::{Connection, ffi};
use litefoot_sim::SimMedium;
use litefoot_testkit::sqlite::metric_or_zero;

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

/// A connection that has only read for long is asked to tell less. Its later writes are neither lost nor replayed
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

/// Statements that were left open, or ran inside of something else, while ends were not told.
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

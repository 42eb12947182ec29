//! Transactions that are hard to repeat from their statements, or that no statement makes.

use super::model::{Change, DATABASE, Rows};
use litefoot_sim::Random;
use rusqlite::{Connection, OpenFlags, ffi, params};
use std::ffi::c_int;
use std::path::Path;

/// One transaction of such a kind; `rows` is what the database holds once it returns.
pub(super) fn transaction(
    db: &Connection,
    vfs: &str,
    random: &mut Random,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    match random.below(12) {
        0 => put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2 + abs(random()) % 1, ?3)", random, rows),
        1 => put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2 + 0 * unixepoch(), ?3)", random, rows),
        2 => {
            db.execute_batch(
                "CREATE TEMP TABLE IF NOT EXISTS scratch(a); BEGIN; INSERT INTO scratch VALUES(1)",
            )?;
            put(db, "INSERT OR REPLACE INTO t SELECT ?1, ?2, ?3 FROM scratch LIMIT 1", random, rows)?;
            db.execute_batch("COMMIT")
        }
        3 => blob(db, random, rows),
        4 => db.execute_batch("CREATE TABLE IF NOT EXISTS u(a); INSERT INTO u VALUES(1); DROP TABLE u"),
        5 => full_text(db, random, rows),
        6 => with_open_cursor(db, random, rows),
        7 => {
            // An application takes the trace hook, for good.
            // SAFETY: the connection is alive; no callback is set.
            unsafe { ffi::sqlite3_trace_v2(db.handle(), 0, None, std::ptr::null_mut()) };
            put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows)
        }
        8 => same_number_again(db, random, rows),
        9 => {
            db.execute_batch("BEGIN; PRAGMA cache_spill=off")?;
            put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows)?;
            db.execute_batch("COMMIT")
        }
        _ => second_connection(db, vfs, random, rows),
    }
}

/// One row by a statement with three parameters.
fn put(db: &Connection, sql: &str, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let (id, k, v) = (random.below(120) as i64, random.below(1000) as i64, vec![random.below(256) as u8; 30]);
    db.execute(sql, params![id, k, v])?;
    rows.insert(id, (k, v));
    Ok(())
}

/// Writes into a row past SQL, between two statements.
fn blob(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let id = random.below(120) as i64;
    let bytes = vec![random.below(256) as u8; 40];
    db.execute_batch("BEGIN")?;
    db.execute("INSERT OR REPLACE INTO t VALUES(?1, 1, zeroblob(40))", [id])?;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the connection is alive, and the handle is closed before it.
    unsafe {
        check(ffi::sqlite3_blob_open(
            db.handle(),
            c"main".as_ptr(),
            c"t".as_ptr(),
            c"v".as_ptr(),
            id,
            1,
            &raw mut handle,
        ))?;
        check(ffi::sqlite3_blob_write(handle, bytes.as_ptr().cast(), bytes.len() as c_int, 0))?;
        check(ffi::sqlite3_blob_close(handle))?;
    }
    db.execute_batch("COMMIT")?;
    rows.insert(id, (1, bytes));
    Ok(())
}

fn check(code: c_int) -> rusqlite::Result<()> {
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }
}

/// A virtual table that writes tables of its own.
fn full_text(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    db.execute_batch(
        "CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(a); BEGIN; INSERT INTO f VALUES('some words')",
    )?;
    put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows)?;
    db.execute_batch("COMMIT")
}

/// A change while a SELECT has not been read to its end.
fn with_open_cursor(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    let mut select = db.prepare("SELECT id FROM t")?;
    let mut cursor = select.query([])?;
    cursor.next()?;
    put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows)
}

/// Inserts that leave it to SQLite to number rows, some of which fail, in a trigger as well.
fn same_number_again(db: &Connection, random: &mut Random, rows: &mut Rows) -> rusqlite::Result<()> {
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS audit(n INTEGER PRIMARY KEY, what);
         CREATE TRIGGER IF NOT EXISTS t_audit AFTER DELETE ON t WHEN old.id < 50
         BEGIN INSERT INTO audit(what) VALUES(old.id); END;",
    )?;
    let id = random.below(120) as i64;
    db.execute_batch("BEGIN; SAVEPOINT a")?;
    put(db, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows)?;
    db.execute("DELETE FROM t WHERE id = ?1", [id])?;
    rows.remove(&id);
    let failed = db.execute("INSERT INTO audit(n, what) VALUES(1, 1), (1, 2)", []);
    debug_assert!(failed.is_err());
    db.execute_batch("RELEASE a; COMMIT")
}

/// A change through another connection, which comes and goes.
fn second_connection(
    db: &Connection,
    vfs: &str,
    random: &mut Random,
    rows: &mut Rows,
) -> rusqlite::Result<()> {
    let mode: String = db.query_row("PRAGMA locking_mode", [], |row| row.get(0))?;
    if mode == "exclusive" {
        return Ok(());
    }
    let other = Connection::open_with_flags_and_vfs(Path::new(DATABASE), OpenFlags::default(), vfs)?;
    if random.one_in(3) {
        return put(&other, "INSERT OR REPLACE INTO t VALUES(?1, ?2, ?3)", random, rows);
    }
    other.execute_batch("BEGIN IMMEDIATE")?;
    for _ in 0..random.below(3) + 1 {
        let change = Change::random(random);
        change.execute(&other)?;
        change.apply(rows);
    }
    other.execute_batch("COMMIT")
}

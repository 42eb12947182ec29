//! SQLite runs out of memory, once, at any allocation of a transaction over two databases.
//!
//! `LITEFOOT_ALLOCATIONS=1 cargo test -p litefoot --test memory_faults` tries every one; a normal run every eleventh.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::{Connection, ffi};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

thread_local! {
    /// Allocations until one fails; negative for none.
    static UNTIL: Cell<i64> = const { Cell::new(-1) };
}

type Allocate = unsafe extern "C" fn(c_int) -> *mut c_void;
type Reallocate = unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void;

/// SQLite's own.
static REAL: OnceLock<(Allocate, Reallocate)> = OnceLock::new();

/// True if this allocation fails.
fn fails() -> bool {
    UNTIL.with(|until| {
        let left = until.get();
        until.set((left - 1).max(-1));
        left == 0
    })
}

unsafe extern "C" fn allocate(bytes: c_int) -> *mut c_void {
    // SAFETY: passed on as SQLite called it.
    if fails() { std::ptr::null_mut() } else { unsafe { (REAL.get().unwrap().0)(bytes) } }
}

unsafe extern "C" fn reallocate(old: *mut c_void, bytes: c_int) -> *mut c_void {
    // SAFETY: passed on as SQLite called it.
    if fails() { std::ptr::null_mut() } else { unsafe { (REAL.get().unwrap().1)(old, bytes) } }
}

/// Puts the failing allocator in front of SQLite's own, before SQLite is used.
fn install() {
    // SAFETY: before SQLite is used: the structure is complete and lives as long as the process.
    unsafe {
        let mut methods = std::mem::zeroed::<ffi::sqlite3_mem_methods>();
        assert_eq!(ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods), ffi::SQLITE_OK);
        REAL.set((methods.xMalloc.unwrap(), methods.xRealloc.unwrap())).unwrap();
        methods.xMalloc = Some(allocate);
        methods.xRealloc = Some(reallocate);
        assert_eq!(ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw mut methods), ffi::SQLITE_OK);
        // Small allocations would be served from memory that a connection has put aside.
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOOKASIDE, 0, 0);
    }
}

fn open(directory: &Path, mode: &str, vfs: &str) -> Connection {
    let db = Connection::open_with_flags_and_vfs(directory.join("a.db"), Default::default(), vfs).unwrap();
    db.execute_batch(&format!(
        "ATTACH '{}' AS other; PRAGMA main.journal_mode={mode}; PRAGMA other.journal_mode={mode};
         PRAGMA other.journal_size_limit=0",
        directory.join("b.db").display()
    ))
    .unwrap();
    db
}

const TABLES: &str = "CREATE TABLE main.t(a UNIQUE, b UNIQUE);
    INSERT INTO t VALUES(randomblob(200), randomblob(300)), (randomblob(200), randomblob(300))";

/// The other database is new, or is not.
const OTHER: &str = "CREATE TABLE other.u(a UNIQUE, b UNIQUE); INSERT INTO u SELECT * FROM t";

const TRANSACTION: &str = "BEGIN; INSERT INTO t SELECT randomblob(200), randomblob(300) FROM t;
    CREATE TABLE IF NOT EXISTS other.u(a UNIQUE, b UNIQUE);
    INSERT INTO u SELECT randomblob(200), randomblob(300) FROM t; UPDATE t SET b=randomblob(301); COMMIT";

/// The rows of both, once they are found sound.
fn rows(db: &Connection) -> Result<(i64, i64), String> {
    for name in ["main", "other"] {
        let check = format!("PRAGMA {name}.integrity_check");
        let found: String =
            db.query_row(&check, [], |row| row.get(0)).map_err(|error| format!("{name}: {error}"))?;
        if found != "ok" {
            return Err(format!("{name}: {found}"));
        }
    }
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        match db.query_row(&sql, [], |row| row.get(0)) {
            Err(error) if error.to_string().contains("no such table") => Ok(0),
            result => result.map_err(|error| error.to_string()),
        }
    };
    Ok((count("t")?, count("u")?))
}

/// Lets the n-th allocation fail; answers whether there was one.
fn run(mode: &str, is_new: bool, number: i64, vfs: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let what = format!("{mode}, new {is_new}, allocation {number}");
    let db = open(directory.path(), mode, vfs);
    db.execute_batch(TABLES).unwrap();
    if !is_new {
        db.execute_batch(OTHER).unwrap();
    }
    let there = if is_new { 0 } else { 2 };
    let other = open(directory.path(), mode, vfs);
    assert_eq!(rows(&other), Ok((2, there)), "{what}");
    UNTIL.set(number);
    let result = db.execute_batch(TRANSACTION);
    let has_failed = UNTIL.replace(-1) < 0;
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK").unwrap();
    }
    let expected = if result.is_ok() { (4, there + 4) } else { (2, there) };
    assert_eq!(rows(&other), Ok(expected), "the other connection, {what}: {result:?}");
    assert_eq!(rows(&db), Ok(expected), "{what}: {result:?}");
    db.execute_batch(TRANSACTION).unwrap();
    let expected = (expected.0 * 2, expected.1 + expected.0 * 2);
    assert_eq!(rows(&other), Ok(expected), "{what}");
    drop((db, other));
    assert_eq!(rows(&open(directory.path(), mode, "unix")), Ok(expected), "{what}");
    has_failed
}

#[test]
fn memory_that_runs_out_in_a_commit_over_two_databases_leaves_both_sound() {
    install();
    let vfs = litefoot::Vfs::builder("faulty memory").register().unwrap();
    let vfs = std::env::var("LITEFOOT_TEST_VFS").unwrap_or_else(|_| vfs.name().to_owned());
    let step = std::env::var("LITEFOOT_ALLOCATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(11);
    for (mode, is_new) in [("delete", false), ("persist", false), ("persist", true), ("truncate", true)] {
        let mut number = i64::try_from(mode.len()).unwrap() % step;
        while run(mode, is_new, number, &vfs) {
            number += step;
        }
        assert!(number > 50, "{number}");
    }
}

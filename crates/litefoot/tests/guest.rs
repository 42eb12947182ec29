//! An application is told, and left with, exactly the same as by SQLite alone.

#![allow(clippy::unwrap_used)]

use litefoot::rusqlite::ffi;
use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot_testkit::sqlite::{maps_files, number, stock};
use std::ffi::{CString, c_int, c_void};

fn open(name: &str) -> litefoot::Connection {
    litefoot::Connection::open(name).unwrap()
}

#[test]
fn settings_answer_what_the_application_has_set() {
    let directory = tempfile::tempdir().unwrap();
    let [ours, plain] = ["ours.db", "plain.db"].map(|name| directory.path().join(name));
    for options in ["", "?statements=1"] {
        for mode in ["delete", "wal"] {
            let db = open(&format!("file:{}{options}", ours.display()));
            let stock = stock(&plain);
            let same = |when: &str| {
                for name in ["cache_size", "cache_spill", "mmap_size"] {
                    let sql = format!("PRAGMA {name}");
                    assert_eq!(number(&db, &sql), number(&stock, &sql), "{options} {mode} {name} {when}");
                }
            };
            same("at first");
            for sql in [
                &*format!("PRAGMA journal_mode={mode}"),
                "CREATE TABLE IF NOT EXISTS t(x)",
                "INSERT INTO t VALUES(1)",
                "SELECT count(*) FROM t",
                "PRAGMA cache_size=77",
                "PRAGMA cache_spill=99",
                "PRAGMA mmap_size=1000000",
                "SELECT count(*) FROM t",
                "PRAGMA mmap_size=-1",
                "PRAGMA mmap_size=3000000000",
                "PRAGMA cache_spill=off",
                "PRAGMA mmap_size=0",
                "DELETE FROM t",
                "ATTACH ':memory:' AS other",
            ] {
                for db in [&db, &stock] {
                    db.execute_batch(sql).unwrap();
                }
                if maps_files(&stock) || !sql.contains("mmap_size") {
                    same(sql);
                }
            }
        }
    }
}

#[test]
fn a_database_in_a_temporary_file_answers_as_well() {
    let [ours, stock] = [Some(c"litefoot"), None].map(|vfs| {
        let vfs = vfs.unwrap_or(c"unix");
        drop(open(":memory:"));
        let db = Connection::open_with_flags_and_vfs("", OpenFlags::default(), vfs).unwrap();
        db.execute_batch("CREATE TABLE t(x)").unwrap();
        let set = db.query_row("PRAGMA mmap_size=512000", [], |row| row.get::<_, i64>(0)).ok();
        (set, db.query_row("PRAGMA mmap_size", [], |row| row.get::<_, i64>(0)).ok())
    });
    assert_eq!(ours, stock);
}

#[test]
fn a_connection_to_a_shared_cache_opens_while_another_changes_the_schema() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("file:{}?cache=shared", directory.path().join("app.db").display());
    let first = open(&name);
    first.execute_batch("CREATE TABLE t(x); PRAGMA mmap_size=5000000; PRAGMA cache_size=50").unwrap();
    first.execute_batch("BEGIN; CREATE TABLE u(y)").unwrap();
    for _ in 0..3 {
        drop(open(&name));
    }
    let second = open(&name);
    if maps_files(&first) {
        assert_eq!(number(&first, "PRAGMA mmap_size"), 5_000_000);
    }
    first.execute_batch("INSERT INTO u VALUES(1); COMMIT").unwrap();
    assert_eq!(number(&second, "SELECT count(*) FROM u"), 1);
    assert_eq!(number(&first, "PRAGMA cache_size"), 50);
    drop(first);
    second.execute_batch("INSERT INTO u VALUES(2)").unwrap();
    assert_eq!(number(&second, "PRAGMA cache_size"), 50);
    assert_eq!(number(&second, "SELECT count(*) FROM u"), 2);
}

#[test]
fn a_failed_open_has_the_code_the_message_and_the_systems_number_that_sqlite_gives() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("directory")).unwrap();
    std::fs::write(directory.path().join("file"), "").unwrap();
    drop(open(":memory:"));
    let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
    for (name, flags) in [
        ("missing/app.db", flags),
        ("missing.db", ffi::SQLITE_OPEN_READWRITE),
        ("missing.db", ffi::SQLITE_OPEN_READONLY),
        ("directory", flags),
        ("file/app.db", flags),
    ] {
        let path = CString::new(directory.path().join(name).to_str().unwrap()).unwrap();
        let [stock, ours] = [c"unix", c"litefoot"].map(|vfs| {
            let mut db = std::ptr::null_mut();
            // SAFETY: the names are strings, and the connection is closed once.
            unsafe {
                let code = ffi::sqlite3_open_v2(path.as_ptr(), &raw mut db, flags, vfs.as_ptr());
                let text = std::ffi::CStr::from_ptr(ffi::sqlite3_errmsg(db)).to_owned();
                let system = ffi::sqlite3_system_errno(db);
                let extended = ffi::sqlite3_extended_errcode(db);
                ffi::sqlite3_close(db);
                (code, extended, text, system)
            }
        });
        assert_ne!(stock.0, ffi::SQLITE_OK);
        assert_eq!(ours, stock, "{name}");
    }
}

#[test]
fn file_controls_do_what_they_say() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.db");
    let db = open(path.to_str().unwrap());
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(x)").unwrap();
    let control = |operation: c_int, argument: *mut c_void| {
        // SAFETY: the argument is what the operation takes.
        unsafe { ffi::sqlite3_file_control(db.handle(), c"main".as_ptr(), operation, argument) }
    };
    let mut reads = 7;
    assert_eq!(control(ffi::SQLITE_FCNTL_EXTERNAL_READER, (&raw mut reads).cast()), ffi::SQLITE_OK);
    assert_eq!(reads, 0, "a database has one owner");
    let mut hint = 1_i64 << 20;
    assert_eq!(control(ffi::SQLITE_FCNTL_SIZE_HINT, (&raw mut hint).cast()), ffi::SQLITE_OK);
    let mut chunk: c_int = 1 << 20;
    assert_eq!(control(ffi::SQLITE_FCNTL_CHUNK_SIZE, (&raw mut chunk).cast()), ffi::SQLITE_OK);
    for (said, answered) in [(-1, 0), (1, 1), (-1, 1)] {
        let mut persist: c_int = said;
        assert_eq!(control(ffi::SQLITE_FCNTL_PERSIST_WAL, (&raw mut persist).cast()), ffi::SQLITE_OK);
        assert_eq!(persist, answered);
    }
    db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    drop(db);
    let log = directory.path().join("app.db-wal");
    assert!(log.exists(), "the log stays, as it was asked to");
    assert_eq!(number(&stock(&path), "SELECT count(*) FROM t"), 1);
    let again = open(path.to_str().unwrap());
    assert_eq!(number(&again, "SELECT count(*) FROM t"), 1);
    drop(again);
    assert!(!log.exists());
}

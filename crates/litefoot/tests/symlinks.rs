//! Databases that are opened by symbolic links: what lies beside them lies beside the file itself.

#![allow(clippy::unwrap_used)]

use litefoot::Connection;
use litefoot_testkit::files::copy_as_a_crash_leaves;
use rusqlite::OpenFlags;
use std::collections::BTreeSet;
use std::path::Path;

fn names(directory: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(directory).unwrap().map(name).collect()
}

#[test]
fn a_database_created_through_a_dangling_link_has_its_logs_beside_the_file() {
    for mode in ["delete", "wal"] {
        let directory = tempfile::tempdir().unwrap();
        let (real, links) = (directory.path().join("real"), directory.path().join("links"));
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(&links).unwrap();
        std::os::unix::fs::symlink("../real/x.db", links.join("y.db")).unwrap();
        // It is copied as a crash leaves it: others who open it would have it brought home first.
        let uri = format!("file:{}?sharing=exclusive", links.join("y.db").display());
        let db = Connection::open(uri).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)"
        ))
        .unwrap();
        assert_eq!(names(&links), BTreeSet::from(["y.db".to_owned()]), "{mode}");
        assert!(names(&real).contains("x.db-wal"), "{mode}: {:?}", names(&real));
        // The other name finds the remains of a crash now.
        let copy = directory.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        copy_as_a_crash_leaves(&real.join("x.db"), &copy.join("x.db"));
        drop(db);
        let after = Connection::open(copy.join("x.db")).unwrap();
        let sum: i64 = after.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 3, "{mode}");
    }
}

#[test]
fn an_application_that_wants_no_links_gets_none() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("x.db"), directory.path().join("y.db"));
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let real = std::fs::canonicalize(&path).unwrap();
    let vfs = litefoot::Vfs::builder("symlinks").register().unwrap();
    let open = |path: &Path| {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        rusqlite::Connection::open_with_flags_and_vfs(path, flags, "symlinks")
            .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)))
    };
    assert_eq!(open(&real).unwrap(), 0);
    let error = open(&link).unwrap_err();
    let code = error.sqlite_error().map(|error| error.extended_code);
    assert_eq!(code, Some(rusqlite::ffi::SQLITE_CANTOPEN_SYMLINK), "{error}");
    drop(vfs);
}

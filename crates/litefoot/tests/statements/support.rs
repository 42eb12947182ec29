//! A database on a simulated medium that logs statements.

use litefoot::rusqlite::{Connection, ffi};
use litefoot::{Options, Vfs};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use std::path::Path;
use std::sync::Arc;

/// Commits are logged as statements.
pub fn logging() -> Options {
    Options { commit_log: litefoot::CommitLogForm::Statements, ..Options::default() }
}

pub fn vfs(name: &str, medium: &SimMedium) -> Vfs {
    Vfs::builder(name).medium(Arc::new(medium.clone())).options(logging()).register().unwrap()
}

pub fn prepared(name: &str) -> (SimMedium, Vfs, Connection) {
    let medium = SimMedium::new();
    let vfs = vfs(name, &medium);
    let db = vfs.open("/app.db").unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); CREATE INDEX i ON t(v);",
    )
    .unwrap();
    (medium, vfs, db)
}

/// The rows of `t`, as text.
pub fn rows(db: &Connection) -> Vec<String> {
    let mut statement =
        db.prepare("SELECT id || '|' || quote(v) || '|' || quote(w) FROM t ORDER BY id").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The content of a database after a power cut now, reopened with litefoot.
pub fn after_cut(name: &str, medium: &SimMedium) -> Vec<String> {
    let image = medium.cut(&mut Random::new(1));
    let vfs = vfs(name, &image);
    let db = vfs.open("/app.db").unwrap();
    let found = rows(&db);
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    // Once more: what was replayed is there without replaying.
    drop(db);
    assert!(image.info(Path::new("/app.db-commits")).unwrap().is_none());
    assert_eq!(rows(&vfs.open("/app.db").unwrap()), found);
    found
}

/// Writes into the column `w` of row 1, past SQL.
pub fn write_blob(db: &Connection, bytes: &[u8]) {
    let mut blob = std::ptr::null_mut();
    // SAFETY: the connection is alive; the handle is closed before it is.
    unsafe {
        let opened = ffi::sqlite3_blob_open(
            db.handle(),
            c"main".as_ptr(),
            c"t".as_ptr(),
            c"w".as_ptr(),
            1,
            1,
            &raw mut blob,
        );
        assert_eq!(opened, ffi::SQLITE_OK);
        let written = ffi::sqlite3_blob_write(blob, bytes.as_ptr().cast(), bytes.len() as i32, 0);
        assert_eq!(written, ffi::SQLITE_OK);
        assert_eq!(ffi::sqlite3_blob_close(blob), ffi::SQLITE_OK);
    }
}

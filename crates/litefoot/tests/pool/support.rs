//! What the tests of the pool share.

use litefoot::rusqlite::{Connection, OpenFlags};
use litefoot::{Options, Vfs};
use std::path::Path;

pub fn parse(options: &str) -> Options {
    let mut parsed = Options::default();
    parsed.set_list(options).unwrap();
    parsed
}

/// A VFS over the system's files.
pub fn vfs(name: &str, options: &str) -> Vfs {
    Vfs::builder(name).options(parse(options)).register().unwrap()
}

/// SQLite's own VFS on a file.
pub fn stock(path: &Path) -> Connection {
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(path, flags, "unix").unwrap()
}

/// What is in memory is what is on the medium, and nobody looks at anything.
pub fn databases_agree(vfs: &Vfs) {
    for database in vfs.databases() {
        assert_eq!(database.wrong_pages(), [""; 0], "{}", database.db().path().display());
    }
}

/// A figure of the connection's database.
pub fn figure(db: &Connection, name: &str) -> i64 {
    db.query_row("SELECT value FROM litefoot_stats WHERE name = ?1", [name], |row| row.get(0)).unwrap()
}

/// Whether this build of SQLite asks for pages by address; one that does not reads them.
pub fn maps(db: &Connection) -> bool {
    let sql = "SELECT NOT sqlite_compileoption_used('MAX_MMAP_SIZE=0')";
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

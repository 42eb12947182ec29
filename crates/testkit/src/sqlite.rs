//! Questions to a connection, connections of stock SQLite, names of VFSes, and the source of SQLite.

use crate::process::{output_of, stdout_of};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A name for a VFS that no other test of this process has. Two tests with one name would open each other's files: SQLite
/// finds the VFS that was registered last.
pub fn vfs_name(test: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{test}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A connection of SQLite's own VFS.
pub fn stock(path: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap()
}

/// The one number that a statement answers.
pub fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A metric of the connection's database, which must be shown.
pub fn metric(db: &Connection, name: &str) -> i64 {
    db.query_row("SELECT value FROM litefoot_stats WHERE name = ?1", [name], |row| row.get(0)).unwrap()
}

/// A metric of the connection's database; 0 where `PRAGMA litefoot_stats` does not show it.
pub fn metric_or_zero(db: &Connection, name: &str) -> i64 {
    let text: String = db.query_row("PRAGMA litefoot_stats", [], |row| row.get(0)).unwrap();
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix('|')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// True if this build of SQLite asks for pages by address; one that does not reads them.
pub fn maps_files(db: &Connection) -> bool {
    number(db, "SELECT NOT sqlite_compileoption_used('MAX_MMAP_SIZE=0')") == 1
}

/// The folder with the source of the SQLite that the Rust front bundles: `sqlite3.c` and its headers.
pub fn source() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let metadata: serde_json::Value =
        serde_json::from_str(&stdout_of(output_of(cargo), "cargo metadata")).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "libsqlite3-sys").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("sqlite3")
}

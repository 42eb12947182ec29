//! SQLite beneath an experiment.

use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens a database with SQLite as it is, on its own VFS.
///
/// # Errors
/// SQLite's.
pub fn open_stock(path: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix")
}

/// A name that no other VFS in this process has: SQLite finds a VFS by nothing else.
pub fn vfs_name() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("litefoot-lab-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

//! The way by which a database is read for a copy.
//!
//! Stock SQLite reads every database that its own files explain, and a copy by its rules is in nobody's way: this process never
//! owns the database then. Litefoot is needed for what only litefoot understands: a commit log that a crash has
//! left, a redo log of a rollback mode, and chunks on a tier device.
//!
//! # Invariant
//! While a connection of SQLite's own VFS is open, this process closes no other descriptor of the database file: that would
//! take the connection's locks away (POSIX).

use crate::commands::release::bring_home;
use crate::inspect::{self, Files, Presence};
use crate::open::{Access, Database, PERMISSIONS, path_of};
use litefoot_storage::file::{Medium, beside};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A way to read a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By stock SQLite, unable to change anything: a program has it open through litefoot.
    Visitor,
    /// By stock SQLite, which rolls a hot journal back.
    Stock,
    /// By stock SQLite, after litefoot has recovered what waits.
    RecoverFirst,
    /// By litefoot, which knows where the chunks are.
    Litefoot,
}

/// Decides: is it open through litefoot, do parts of it live on a tier device, does anything wait that only litefoot recovers?
fn way(is_live: bool, is_tiered: bool, waits: bool) -> Way {
    match (is_live, is_tiered, waits) {
        (true, _, _) => Way::Visitor,
        (false, true, _) => Way::Litefoot,
        (false, false, true) => Way::RecoverFirst,
        (false, false, false) => Way::Stock,
    }
}

/// A database that is being copied.
pub struct Source {
    /// The connection.
    pub database: Database,
    /// The path of the file.
    pub path: PathBuf,
    way: Way,
    /// The file itself, for its bytes. It was opened before the connection, and comes after it here, to be closed later.
    pub file: File,
}

impl Source {
    /// Opens the database.
    pub fn open(name: &str) -> Result<Source, Failure> {
        let path = path_of(name);
        let is_live = Presence::find(inspect::regular_file(&path)?.id).is_live();
        let mut way = Way::Visitor;
        if !is_live {
            let files = inspect::look(&path)?;
            way = self::way(false, files.away.is_some(), waits(&files));
            if way == Way::RecoverFirst {
                recover(name, &path)?;
            }
        }
        let file = File::open(&path).map_err(|error| Failure::file(&path, error).advice(PERMISSIONS))?;
        let database = match way {
            Way::Visitor => Database::visit(name, OpenFlags::SQLITE_OPEN_READ_ONLY),
            Way::Stock | Way::RecoverFirst => Database::visit(name, OpenFlags::SQLITE_OPEN_READ_WRITE),
            Way::Litefoot => Database::open_unread(name, Access::Write),
        }?;
        Ok(Source { database, path, way, file })
    }

    /// True where this process owns the database while it copies.
    pub fn is_through_litefoot(&self) -> bool {
        self.way == Way::Litefoot
    }

    /// True if a connection that reads now sees everything that was committed.
    pub fn is_complete(&self, is_wal: bool) -> Result<bool, Failure> {
        Ok(self.is_through_litefoot() || is_complete(&self.path, is_wal)?)
    }

    /// The file and the connection, to be closed in the other order.
    pub fn into_parts(self) -> (File, Connection) {
        (self.file, self.database.connection)
    }
}

/// True if a connection of stock SQLite that reads now sees everything that was committed. The owner may have been killed between the
/// look and the lock; then its commit log waits, or its redo log beside a database that is not in WAL mode.
pub fn is_complete(path: &Path, is_wal: bool) -> Result<bool, Failure> {
    let log = OsMedium.info(&beside(path, "-commits"));
    let is_there = log.map_err(|error| Failure::new(error.to_string()))?.is_some();
    Ok(!is_there && (is_wal || inspect::redo_log(path)?.is_none_or(|log| log.committed_frames == 0)))
}

/// True if something beside the database is not in it, and stock SQLite does not understand it.
fn waits(files: &Files) -> bool {
    let is_wal = files.header.as_ref().is_some_and(|header| header.journal_mode() == "wal");
    let is_redo_log = files.wal.as_ref().is_some_and(|wal| wal.committed_frames > 0) && !is_wal;
    files.commit_log_bytes.is_some() || is_redo_log
}

/// Opens the database through litefoot, which recovers, and brings everything home.
fn recover(name: &str, path: &Path) -> Result<(), Failure> {
    let database = Database::open(name, Access::Write)?;
    bring_home(&database, "keep")?;
    drop(database);
    if waits(&inspect::look(path)?) {
        return Err(Failure::file(path, "a log that a crash has left beside it cannot be recovered")
            .advice("`litefoot recover` says why, and what can be done. No copy was made."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litefoot_reads_only_what_stock_cannot() {
        for (is_live, is_tiered, waits, expected) in [
            (false, false, false, Way::Stock),
            (false, false, true, Way::RecoverFirst),
            (false, true, false, Way::Litefoot),
            (false, true, true, Way::Litefoot),
            // The logs of a program that runs are in use, and are brought home for a visitor.
            (true, false, true, Way::Visitor),
            (true, true, true, Way::Visitor),
        ] {
            assert_eq!(way(is_live, is_tiered, waits), expected, "{is_live} {is_tiered} {waits}");
        }
    }
}

//! The sides, and how a database of each is opened.

use crate::harness::open_stock;
use crate::{Error, Result};
use rusqlite::Connection;
use std::path::Path;

pub const DELETE_FULL: &str = "delete_full";
pub const WAL_FULL: &str = "wal_full";
pub const LITEFOOT: &str = "litefoot";
pub const FLOOR: &str = "floor";

/// One way of making a transaction durable.
#[derive(Debug)]
pub struct Side {
    /// Its name in figures.
    pub name: &'static str,
    pub kind: Kind,
}

/// The storage beneath a side.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// SQLite as it is.
    Stock(Settings),
    /// SQLite on litefoot.
    Litefoot(Settings),
    /// The same, with commits logged as statements.
    Statements(Settings),
    /// No SQLite: a write in place and a data sync.
    Floor,
}

/// Settings that an application asks SQLite for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    journal_mode: &'static str,
    synchronous: &'static str,
}

pub const fn settings(journal_mode: &'static str, synchronous: &'static str) -> Settings {
    Settings { journal_mode, synchronous }
}

/// All sides, in the order of the report.
pub const SIDES: [Side; 8] = [
    Side { name: DELETE_FULL, kind: Kind::Stock(settings("delete", "full")) },
    Side { name: "persist_full", kind: Kind::Stock(settings("persist", "full")) },
    Side { name: WAL_FULL, kind: Kind::Stock(settings("wal", "full")) },
    Side { name: "wal_normal", kind: Kind::Stock(settings("wal", "normal")) },
    Side { name: LITEFOOT, kind: Kind::Litefoot(settings("wal", "full")) },
    Side { name: "litefoot_statements", kind: Kind::Statements(settings("wal", "full")) },
    Side { name: "litefoot_delete", kind: Kind::Litefoot(settings("delete", "full")) },
    Side { name: FLOOR, kind: Kind::Floor },
];

impl Side {
    pub fn is_floor(&self) -> bool {
        matches!(self.kind, Kind::Floor)
    }

    /// SQLite's error with the side's name before it.
    pub fn explain(&self, source: rusqlite::Error) -> Error {
        Error::Sqlite { what: format!("side {}", self.name), source }
    }

    /// True if litefoot's own protocol is beneath SQLite.
    pub fn is_litefoot(&self) -> bool {
        matches!(self.kind, Kind::Litefoot(_) | Kind::Statements(_))
    }

    /// The database as it is opened.
    fn database(&self, path: &Path) -> String {
        match self.kind {
            Kind::Statements(_) => format!("file:{}?commit_log=statements", path.display()),
            _ => path.display().to_string(),
        }
    }

    /// Opens a database as the timed run has it: stock SQLite on its own VFS.
    pub fn open_timed(&self, path: &Path) -> Result<Connection> {
        let connection = if self.is_litefoot() {
            litefoot::Connection::open(self.database(path))?.into_inner()
        } else {
            open_stock(path).map_err(|error| self.explain(error))?
        };
        self.apply(connection)
    }

    /// Opens a database through a VFS.
    pub fn open_through(&self, vfs: &litefoot::Vfs, path: &Path) -> Result<Connection> {
        self.apply(vfs.open(self.database(path))?)
    }

    /// Sets the journal mode and the durability, and makes sure of both.
    fn apply(&self, connection: Connection) -> Result<Connection> {
        let (Kind::Stock(settings) | Kind::Litefoot(settings) | Kind::Statements(settings)) = self.kind
        else {
            return Ok(connection);
        };
        let apply = || -> rusqlite::Result<(String, i64)> {
            let sql = format!("PRAGMA journal_mode = {}", settings.journal_mode);
            let mode = connection.query_row(&sql, [], |row| row.get(0))?;
            connection.pragma_update(None, "synchronous", settings.synchronous)?;
            Ok((mode, connection.pragma_query_value(None, "synchronous", |row| row.get(0))?))
        };
        let (mode, synchronous) = apply().map_err(|error| self.explain(error))?;
        let wanted = if settings.synchronous == "full" { 2 } else { 1 };
        if mode == settings.journal_mode && synchronous == wanted {
            Ok(connection)
        } else {
            Err(Error::Wrong(format!("side {}: got journal {mode}, synchronous {synchronous}", self.name)))
        }
    }
}

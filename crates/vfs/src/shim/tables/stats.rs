//! `litefoot_stats` and `pragma_litefoot_stats`: the figures of the connection's main database, as rows.
//!
//! A VFS can answer a PRAGMA with one text only, of which SQLite makes one column of one row (`SQLITE_FCNTL_PRAGMA`).
//! SQLite offers no other way to add a PRAGMA. SQLite's own PRAGMAs can also be read as tables, whose names have
//! `pragma_` in front. A module of such a name comes before them. So `SELECT * FROM pragma_litefoot_stats` gives what
//! rows of `PRAGMA litefoot_stats` would look like in SQLite.

use crate::ffi::statement::Owned;
use crate::shim::table_function::{Connection, Rows, TableFunction};
use std::ffi::CStr;

/// The function.
#[derive(Default)]
pub(crate) struct Stats {
    connection: Option<Connection>,
}

impl TableFunction for Stats {
    const NAME: &'static CStr = c"litefoot_stats";
    const COLUMNS: &'static [&'static str] = &["name TEXT", "value INTEGER"];

    fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    fn call(&mut self, _arguments: &[Option<Owned>]) -> Result<Rows, String> {
        let connection = self.connection.as_ref().and_then(Connection::state);
        let mut rows =
            connection.map(|connection| connection.database.stats()).unwrap_or_default().into_iter();
        let row = |(name, value): (String, i64)| vec![Owned::Text(name.into_bytes()), Owned::Integer(value)];
        Ok(Box::new(move || Ok(rows.next().map(row))))
    }
}

/// [`Stats`] under the name that SQLite gives to a PRAGMA read as a table.
#[derive(Default)]
pub(crate) struct PragmaStats(Stats);

impl TableFunction for PragmaStats {
    const NAME: &'static CStr = c"pragma_litefoot_stats";
    const COLUMNS: &'static [&'static str] = Stats::COLUMNS;

    fn connect(&mut self, connection: Connection) {
        self.0.connect(connection);
    }

    fn call(&mut self, arguments: &[Option<Owned>]) -> Result<Rows, String> {
        self.0.call(arguments)
    }
}

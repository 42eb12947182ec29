//! `litefoot_stats`: the figures of the connection's main database, as rows.

use crate::abi::table::{Cell, Connection, Rows, TableFunction};
use std::ffi::CStr;

/// The function, without parameters.
#[derive(Default)]
pub(super) struct Stats {
    connection: Option<Connection>,
}

impl TableFunction for Stats {
    const NAME: &'static CStr = c"litefoot_stats";
    const COLUMNS: &'static [&'static str] = &["name TEXT", "value INTEGER"];
    const PARAMETERS: &'static [&'static str] = &[];

    fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    fn call(&mut self, _arguments: &[Cell]) -> Result<Rows, String> {
        let session = self.connection.as_ref().and_then(Connection::session);
        let mut rows = session.map(|session| session.database.stats()).unwrap_or_default().into_iter();
        Ok(Box::new(move || Ok(rows.next().map(|(name, value)| [Cell::Text(name), Cell::Integer(value)]))))
    }
}

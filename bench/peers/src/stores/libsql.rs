//! libSQL, a local file: `journal_mode = wal`, `synchronous = full`.

use crate::round::{Found, GET, Outcome, Row, SCAN, Store};
use crate::values::{INSERT, SCHEMA};
use futures_executor::block_on;
use libsql::{Builder, Connection, Database, Statement, params};
use std::path::Path;

struct Libsql {
    insert: Statement,
    get: Statement,
    connection: Connection,
    _database: Database,
}

pub fn open(directory: &Path) -> Outcome<Box<dyn Store>> {
    let database = block_on(Builder::new_local(directory.join("data.db")).build())?;
    let connection = database.connect()?;
    for (pragma, wanted) in [("journal_mode = wal", "wal"), ("synchronous = full", ""), ("synchronous", "2")]
    {
        let mut rows = block_on(connection.query(&format!("PRAGMA {pragma}"), ()))?;
        let row = block_on(rows.next())?;
        let got = row.map(|row| row.get_value(0)).transpose()?;
        let got = match got {
            Some(libsql::Value::Text(text)) => text,
            Some(libsql::Value::Integer(number)) => number.to_string(),
            _ => String::new(),
        };
        if got != wanted {
            return Err(format!("PRAGMA {pragma} gave {got:?}").into());
        }
    }
    block_on(connection.execute_batch(SCHEMA))?;
    let (insert, get) = (block_on(connection.prepare(INSERT))?, block_on(connection.prepare(GET))?);
    Ok(Box::new(Libsql { insert, get, connection, _database: database }))
}

/// Shows the rows of a statement.
fn show_all(
    statement: &Statement,
    parameters: impl libsql::params::IntoParams,
    show: &mut dyn FnMut(Found<'_>),
) -> Outcome<()> {
    let mut rows = block_on(statement.query(parameters))?;
    while let Some(row) = block_on(rows.next())? {
        let text = row.get_str(1)?;
        show(Found { id: row.get(0)?, text: text.as_bytes(), number: row.get(2)?, value: row.get(3)? });
    }
    drop(rows);
    statement.reset();
    Ok(())
}

impl Store for Libsql {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        let several = rows.len() > 1;
        if several {
            block_on(self.connection.execute("BEGIN", ()))?;
        }
        for row in rows {
            block_on(self.insert.execute(params![row.text.as_str(), row.number, row.value]))?;
            self.insert.reset();
        }
        if several {
            block_on(self.connection.execute("COMMIT", ()))?;
        }
        Ok(())
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        show_all(&self.get, params![id], show)
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        show_all(&block_on(self.connection.prepare(SCAN))?, (), show)
    }
}

//! SQLite and litefoot as stores of the rounds.

use super::round::{Failure, Found, GET, Outcome, Row, SCAN, Store};
use super::values::{INSERT, SCHEMA};
use rusqlite::{Connection, Params};

/// A connection whose settings are made.
pub struct Sqlite(Connection);

impl Sqlite {
    pub fn new(connection: Connection) -> Outcome<Sqlite> {
        connection.execute_batch(SCHEMA)?;
        Ok(Sqlite(connection))
    }

    fn show(&self, sql: &str, parameters: impl Params, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            let text = row.get_ref(1)?.as_bytes()?;
            show(Found { id: row.get(0)?, text, number: row.get(2)?, value: row.get(3)? });
        }
        Ok(())
    }
}

impl Store for Sqlite {
    fn commit(&mut self, rows: &[Row]) -> Outcome<()> {
        let several = rows.len() > 1;
        if several {
            self.0.execute_batch("BEGIN")?;
        }
        let mut insert = self.0.prepare_cached(INSERT)?;
        for row in rows {
            insert.execute((&row.text, row.number, row.value))?;
        }
        drop(insert);
        if several {
            self.0.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        self.show(GET, [id], show)
    }

    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()> {
        self.show(SCAN, [], show)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.0.close().map_err(|(_, error)| Failure::from(error))
    }
}

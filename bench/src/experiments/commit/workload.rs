//! The transactions, the same for every side.

use super::side::Side;
use super::values::{INSERT, ROWS, SCHEMA, Values};
use crate::{Error, Result};
use rusqlite::Connection;

const UPDATE: &str = "UPDATE item SET body = ?1, value = ?2 WHERE id = ?3";

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A new row.
    Insert,
    /// A changed row.
    Update,
}

impl Workload {
    pub const ALL: [Workload; 2] = [Workload::Insert, Workload::Update];

    /// How many workloads a side goes through: the floor has one.
    pub fn count(side: &Side) -> u64 {
        if side.is_floor() { 1 } else { Workload::ALL.len() as u64 }
    }

    pub fn name(self) -> &'static str {
        match self {
            Workload::Insert => "insert",
            Workload::Update => "update",
        }
    }

    /// Makes the database that the transactions find, and checkpoints its logs.
    pub fn prepare(self, side: &Side, connection: &Connection, seed: u64) -> Result<()> {
        let mut values = Values::new(seed);
        let mut prepare = || -> rusqlite::Result<()> {
            connection.execute_batch(SCHEMA)?;
            if self == Workload::Update {
                connection.execute_batch("BEGIN")?;
                let mut insert = connection.prepare(INSERT)?;
                for _ in 0..ROWS {
                    insert.execute((values.text(), values.number(), values.value()))?;
                }
                connection.execute_batch("COMMIT")?;
            }
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        prepare().map_err(|error| side.explain(error))
    }

    /// Runs transactions one behind the other, each through `each`, which takes its time.
    pub fn transact(
        self,
        side: &Side,
        connection: &Connection,
        seed: u64,
        count: u64,
        mut each: impl FnMut(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut values = Values::new(seed);
        let sql = if self == Workload::Insert { INSERT } else { UPDATE };
        let mut statement = connection.prepare(sql).map_err(|error| side.explain(error))?;
        for _ in 0..count {
            let (text, number, value) = (values.text(), values.number(), values.value());
            let row = if self == Workload::Insert { None } else { Some(values.row()) };
            each(&mut || {
                let changed = match row {
                    None => statement.execute((&text, number, value)),
                    Some(id) => statement.execute((&text, value, id)),
                };
                match changed.map_err(|error| side.explain(error))? {
                    1 => Ok(()),
                    rows => {
                        Err(Error::Wrong(format!("side {}: a transaction changed {rows} rows", side.name)))
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Checks that a database holds the rows of `transact` with the same seed and count, to the bit. Read with
    /// stock SQLite, after the side has closed it.
    pub fn verify(self, side: &Side, connection: &Connection, seed: u64, count: u64) -> Result<()> {
        let expected = self.expected(seed, count);
        let found = || -> rusqlite::Result<bool> {
            let mut rows = connection.prepare("SELECT body, value FROM item ORDER BY id")?;
            let found = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?)))?;
            let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
            let check: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            Ok(found == expected && check == "ok")
        };
        if found().map_err(|error| side.explain(error))? {
            Ok(())
        } else {
            Err(Error::Wrong(format!("side {}: the database does not hold what was stored", side.name)))
        }
    }

    /// Text and value of every row, by the plain model.
    fn expected(self, seed: u64, count: u64) -> Vec<(String, f64)> {
        let mut rows = Vec::new();
        let mut values = Values::new(seed);
        let made = if self == Workload::Update { ROWS as u64 } else { count };
        for _ in 0..made {
            let (text, _, value) = (values.text(), values.number(), values.value());
            rows.push((text, value));
        }
        if self == Workload::Update {
            let mut values = Values::new(seed);
            for _ in 0..count {
                let (text, _, value) = (values.text(), values.number(), values.value());
                rows[values.row() as usize - 1] = (text, value);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::commit::side::SIDES;

    #[test]
    fn a_lost_or_changed_row_is_seen() {
        let side = &SIDES[0];
        for (workload, harm, good) in [
            (Workload::Insert, "", true),
            (Workload::Update, "", true),
            (Workload::Insert, "DELETE FROM item WHERE id = 3", false),
            (Workload::Update, "UPDATE item SET value = value + 1e-9 WHERE id = 1", false),
            (Workload::Update, "INSERT INTO item(body, number, value) VALUES ('', 0, 0)", false),
        ] {
            let connection = Connection::open_in_memory().unwrap();
            workload.prepare(side, &connection, 5).unwrap();
            workload.transact(side, &connection, 5, 50, |transaction| transaction()).unwrap();
            connection.execute_batch(harm).unwrap();
            let verdict = workload.verify(side, &connection, 5, 50);
            assert_eq!(verdict.is_ok(), good, "{workload:?} {harm:?}");
        }
    }
}

//! The sides under a load: SQLite and litefoot, the stores beside them, and the floor.

use super::super::commit::floor::Floor;
use super::super::commit::remove_database;
use super::super::commit::side::Side;
use super::super::peers::program::Program;
use super::load::{self, Load, Plan, Writer};
use super::round::{Failure, Outcome, Row};
use super::values::{INSERT, SCHEMA};
use super::{BUSY_TIMEOUT, Result};
use crate::Error;
use litefoot_storage::os::OsMedium;
use rusqlite::Connection;
use std::path::Path;

/// The name of the floor in figures.
pub const FLOOR: &str = "floor";

/// A side under a load.
pub enum Loaded<'a> {
    /// SQLite or litefoot, in this process.
    Sqlite(&'a Side),
    /// A store of the other program.
    Peer(&'a Program, &'static str),
    /// A bare write and sync, by one thread.
    Floor,
}

impl Loaded<'_> {
    pub fn name(&self) -> &'static str {
        match self {
            Loaded::Sqlite(side) => side.name,
            Loaded::Peer(_, name) => name,
            Loaded::Floor => FLOOR,
        }
    }

    /// True if it is one of the stores beside litefoot.
    pub fn is_peer(&self) -> bool {
        matches!(self, Loaded::Peer(..))
    }

    /// Runs a load in a directory that is empty before and afterwards, and checks that every commit is there.
    pub fn run(&self, plan: &Plan, directory: &Path) -> Result<Load> {
        match self {
            Loaded::Peer(program, name) => program.load(name, directory, plan),
            Loaded::Sqlite(side) => {
                let path = directory.join("load.db");
                let load = sqlite(side, plan, &path).map_err(|error| explain(side.name, error))?;
                remove_database(&path)?;
                Ok(load)
            }
            Loaded::Floor => {
                let path = directory.join("floor");
                let floor = BareWrites { floor: Floor::open(&OsMedium::new(), &path)?, written: 0 };
                let plan = Plan { threads: 1, ..*plan };
                let load = load::run(&plan, vec![Box::new(floor)]).map_err(|error| explain(FLOOR, error))?;
                remove_database(&path)?;
                Ok(load)
            }
        }
    }
}

fn explain(name: &str, failure: Failure) -> Error {
    match failure.downcast::<Error>() {
        Ok(error) => *error,
        Err(failure) => Error::Wrong(format!("side {name}: {failure}")),
    }
}

/// A connection for each thread, to one database.
fn sqlite(side: &Side, plan: &Plan, path: &Path) -> Outcome<Load> {
    let keeper = side.open_timed(path)?;
    keeper.execute_batch(SCHEMA)?;
    let open = |_| -> Outcome<Box<dyn Writer>> {
        let connection = side.open_timed(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        Ok(Box::new(Rows(connection)))
    };
    let writers = (0..plan.threads).map(open).collect::<Outcome<Vec<_>>>()?;
    let load = load::run(plan, writers)?;
    keeper.close().map_err(|(_, error)| error)?;
    let stock = Connection::open(path)?;
    let rows: i64 = stock.query_row("SELECT count(*) FROM item", [], |row| row.get(0))?;
    let commits = load.latencies_ns.len();
    if rows as usize == commits {
        return Ok(load);
    }
    Err(format!("{commits} commits were acknowledged, the database holds {rows} rows").into())
}

struct Rows(Connection);

impl Writer for Rows {
    fn commit(&mut self, row: &Row) -> Outcome<()> {
        self.0.prepare_cached(INSERT)?.execute((&row.text, row.number, row.value))?;
        Ok(())
    }
}

struct BareWrites {
    floor: Floor,
    written: u64,
}

impl Writer for BareWrites {
    fn commit(&mut self, _: &Row) -> Outcome<()> {
        self.floor.write(self.written)?;
        self.written += 1;
        Ok(())
    }
}

//! One call of the function, from the text to the rows.

use super::plan::{check, columns, constants, plan};
use super::probe::probe;
use super::query::{Query, parse};
use super::tree::PageReader;
use super::workers;
use crate::ffi::codes::{SQLITE_DONE, SQLITE_OK, SQLITE_ROW};
use crate::ffi::connection::{Connection, TransactionState};
use crate::ffi::statement::Owned;
use crate::ffi::statement::Statement;
use std::sync::Arc;

/// A statement that both ways can run.
pub(crate) struct Prepared {
    db: Connection,
    statement: Statement,
    /// Keeps the read transaction open.
    _transaction: Statement,
    /// The rows and the number of threads, or the reason that SQLite has to run the statement.
    found: Result<(std::vec::IntoIter<Vec<Owned>>, usize), String>,
}

/// Runs a statement. `reader` is asked for the pages of the connection's snapshot, once there is one; it answers the reason
/// where it has none.
///
/// # Errors
/// A construct that is not understood, and SQLite's own errors.
pub(crate) fn prepare(
    db: Connection,
    text: &str,
    parameters: &[Owned],
    reader: impl FnOnce() -> Result<Arc<dyn PageReader>, String>,
) -> Result<Prepared, String> {
    let query = parse(text)?;
    check(&query)?;
    let mut statement = db.prepare(text).map_err(|_| db.message())?;
    bind(db, &mut statement, parameters)?;
    // It checks that SQLite knows the schema as it is now, and stands on a row until it is dropped.
    let mut transaction = db.prepare("SELECT 1 FROM main.sqlite_schema").map_err(|_| db.message())?;
    if !matches!(transaction.step(), SQLITE_ROW | SQLITE_DONE) {
        return Err(db.message());
    }
    let found = scan(db, &query, parameters, reader).map(|(rows, threads)| (rows.into_iter(), threads));
    Ok(Prepared { db, statement, _transaction: transaction, found })
}

fn scan(
    db: Connection,
    query: &Query<'_>,
    parameters: &[Owned],
    reader: impl FnOnce() -> Result<Arc<dyn PageReader>, String>,
) -> Result<(workers::Answer, usize), String> {
    match db.transaction() {
        TransactionState::Reading => {}
        TransactionState::Writing => return Err("the transaction writes".to_owned()),
        TransactionState::None => return Err("the database is empty".to_owned()),
    }
    let (root, slots) = probe(db, &query.table, &columns(query))?;
    let constants = values(db, &constants(query.condition.as_ref()), parameters)?;
    let plan = plan(query, root, slots, constants)?;
    Ok(workers::run(plan, reader()?)?)
}

/// The values of constants, which SQLite knows best.
fn values(db: Connection, constants: &[String], parameters: &[Owned]) -> Result<Vec<Owned>, String> {
    if constants.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = db.prepare(&format!("SELECT {}", constants.join(", "))).map_err(|_| db.message())?;
    bind(db, &mut statement, parameters)?;
    if statement.step() != SQLITE_ROW {
        return Err(db.message());
    }
    Ok((0..statement.columns()).map(|column| Owned::from(statement.value(column))).collect())
}

/// Binds the parameters that a statement has; the others count for nothing, and missing ones are NULL, as with SQLite.
fn bind(db: Connection, statement: &mut Statement, parameters: &[Owned]) -> Result<(), String> {
    for (number, value) in (1..).zip(parameters).take(statement.parameters()) {
        if statement.bind_copied(number, value.as_value()) != SQLITE_OK {
            return Err(db.message());
        }
    }
    Ok(())
}

impl Prepared {
    /// The way that was taken, in words.
    pub(crate) fn way(&self) -> String {
        match &self.found {
            Ok((_, threads)) => format!("parallel: {threads} threads"),
            Err(reason) => format!("by SQLite: {reason}"),
        }
    }

    /// The number of columns.
    pub(crate) fn columns(&self) -> usize {
        usize::try_from(self.statement.columns()).unwrap_or(0)
    }

    /// The next row.
    ///
    /// # Errors
    /// SQLite's own.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Owned>>, String> {
        if let Ok((rows, _)) = &mut self.found {
            return Ok(rows.next());
        }
        match self.statement.step() {
            SQLITE_ROW => {
                let columns = 0..self.statement.columns();
                Ok(Some(columns.map(|column| Owned::from(self.statement.value(column))).collect()))
            }
            SQLITE_DONE => Ok(None),
            _ => Err(self.db.message()),
        }
    }
}

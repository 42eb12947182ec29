//! `litefoot_scan`: one SELECT over one table, by all cores (`crates/vfs/src/scan/mod.rs`).
//!
//! Its result columns are `c1` to `c16`; those that the statement does not have are NULL. The arguments are the statement and
//! the values of its parameters. The hidden column `plan` says by whom the statement was run, and why.

use crate::ffi::statement::Owned;
use crate::scan::prepare;
use crate::shim::table_function::{Connection, Rows, TableFunction};
use std::ffi::CStr;
use std::sync::Arc;

/// The function.
#[derive(Default)]
pub(crate) struct Scan {
    connection: Option<Connection>,
}

/// Result columns, and parameters of the statement.
const COLUMNS: [&str; 16] =
    ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16"];

const NOT_SERVED: &str = "litefoot_scan: litefoot is not installed in this SQLite";

impl TableFunction for Scan {
    const NAME: &'static CStr = c"litefoot_scan";
    const COLUMNS: &'static [&'static str] = &COLUMNS;
    const PARAMETERS: &'static [&'static str] =
        &["statement", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "plan"];

    fn connect(&mut self, connection: Connection) {
        self.connection = Some(connection);
    }

    fn call(&mut self, arguments: &[Option<Owned>]) -> Result<Rows, String> {
        let connection = self.connection.as_ref().ok_or(NOT_SERVED)?;
        let text = match arguments.first() {
            Some(Some(Owned::Text(text))) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        let text = text.ok_or("litefoot_scan: the first argument is a SELECT statement, as text")?;
        let parameters =
            arguments[1..PARAMETERS_END].iter().map(|value| value.clone().unwrap_or(Owned::Null));
        let parameters: Vec<Owned> = parameters.collect();
        let reader = || Ok(Arc::new(connection.snapshot()?) as Arc<dyn crate::scan::PageReader>);
        let named = |message: String| format!("litefoot_scan: {message}");
        let db = connection.handle().ok_or(NOT_SERVED)?;
        let mut prepared = prepare(db, text, &parameters, reader).map_err(named)?;
        if prepared.columns() > COLUMNS.len() {
            return Err(named(format!("more than {} columns are not supported", COLUMNS.len())));
        }
        let plan = Owned::Text(prepared.way().into_bytes());
        Ok(Box::new(move || {
            let Some(mut row) = prepared.next().map_err(named)? else { return Ok(None) };
            row.resize(COLUMNS.len() + Self::PARAMETERS.len() - 1, Owned::Null);
            row.push(plan.clone());
            Ok(Some(row))
        }))
    }
}

/// Where the parameters of the statement end among the arguments.
const PARAMETERS_END: usize = Scan::PARAMETERS.len() - 1;

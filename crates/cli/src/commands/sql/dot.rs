//! The few dot commands that users of SQLite's shell expect.

use super::Session;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use std::ops::ControlFlow;

const HELP: &str = "\
.help             this text
.tables           tables and views
.schema [NAME]    the SQL that made the tables, or one of them
.quit             leave (so does Ctrl-D)
Everything else is SQL and ends with a semicolon; it may span lines. Ctrl-C drops a half-typed statement and
interrupts a running one.
";

const TABLES: &str = "SELECT name FROM sqlite_schema \
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";

const SCHEMA: &str = "SELECT sql FROM sqlite_schema \
    WHERE sql IS NOT NULL AND (?1 = '' OR tbl_name = ?1 COLLATE NOCASE) ORDER BY rowid";

/// Runs a dot command; `Break` asks to leave.
pub fn run(session: &mut Session, line: &str) -> Result<ControlFlow<()>, Failure> {
    let mut words = line.split_ascii_whitespace();
    let command = words.next().unwrap_or_default();
    let argument = words.next().unwrap_or_default();
    let mut output = Output::lock();
    match command {
        ".quit" | ".exit" => return Ok(ControlFlow::Break(())),
        ".help" => output.text(HELP)?,
        ".tables" => print_column(session, &mut output, TABLES, &[], "")?,
        ".schema" => print_column(session, &mut output, SCHEMA, &[argument], ";")?,
        _ => return Err(Failure::new(format!("{command}: no such command")).advice("Try .help")),
    }
    output.flush()?;
    Ok(ControlFlow::Continue(()))
}

fn print_column(
    session: &Session,
    output: &mut Output,
    sql: &str,
    parameters: &[&str],
    ending: &str,
) -> Result<(), Failure> {
    let explain = |error| session.database.explain(&error);
    let mut statement = session.database.connection.prepare(sql).map_err(explain)?;
    let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        let text: String = row.get(0).map_err(explain)?;
        output.line(text + ending)?;
    }
    Ok(())
}

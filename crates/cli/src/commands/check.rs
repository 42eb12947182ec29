//! `litefoot check`: is everything in order?
//!
//! The first check reads the bytes of the files, by litefoot's own invariants, without SQLite. The database is opened
//! only when they hold. Opening recovers, and recovery from another database's journal would do the damage that this
//! command is to prevent.

use crate::inspect;
use crate::open::{Access, Database, path_of};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::printable;
use std::process::ExitCode;

/// Check a database: its files, SQLite's integrity check, and its foreign keys.
///
/// Exit code 0: everything is in order; 1: something was found, or the check could not be made. A log that
/// waits for recovery is recovered first, as by any program that opens the database.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot check app.db
  litefoot check app.db && cp app.db backup/")]
pub struct Args {
    /// The database
    database: String,

    /// How many findings to print
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Leave);
    let path = path_of(&args.database);
    let files = inspect::look(&path)?;
    files.refuse_owned("Close the other program first, then check again: its files may be half written.")?;
    let mut found = inspect::problems(&files);
    if found.is_empty() {
        let database = Database::open(&args.database, Access::Write)?;
        let _watch = interrupt::watch(&database.connection);
        found = integrity_findings(&database.connection, args.most)
            .and_then(|mut found| {
                found.extend(foreign_key_findings(&database.connection, args.most)?);
                Ok(found)
            })
            .map_err(|error| database.explain(&error))?;
        // Closing checkpoints; what the files look like afterwards must hold as well.
        drop(database);
        found.extend(inspect::problems(&inspect::look(&path)?));
    }
    let mut output = Output::lock();
    for finding in &found {
        output.line(format!("{}: {}", path.display(), printable(finding)))?;
    }
    if found.is_empty() {
        output.line(format!("{}: in order", path.display()))?;
        for note in inspect::notes(&inspect::look(&path)?) {
            output.line(format!("  {}", printable(&note)))?;
        }
    }
    output.flush()?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The findings of SQLite's own check of its structures, at most `most`.
pub fn integrity_findings(connection: &rusqlite::Connection, most: u32) -> rusqlite::Result<Vec<String>> {
    let mut found: Vec<String> = connection
        .prepare(&format!("PRAGMA integrity_check({most})"))?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<_, _>>()?;
    if found == ["ok"] {
        found.clear();
    }
    Ok(found)
}

/// Rows that refer to others that are not there, `most` of them.
pub fn foreign_key_findings(connection: &rusqlite::Connection, most: u32) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, rowid): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        let parent: String = row.get(2)?;
        let row = rowid.map_or_else(|| "a row".to_owned(), |rowid| format!("row {rowid}"));
        found.push(format!("foreign key: {row} of {table} refers to a row of {parent} that is not there"));
        if found.len() >= most as usize {
            break;
        }
    }
    Ok(found)
}

//! `litefoot check`: is everything in order?
//!
//! The first check reads the bytes of the files, by litefoot's own invariants, without SQLite. The database is opened
//! only when they hold. Opening recovers, and recovery from another database's journal would do the damage that this
//! command is to prevent.
//!
//! Beside a program that has the database open, the command is a visitor: nothing is recovered, and the bytes of files that
//! change meanwhile are not judged.

use crate::inspect::{self, Owner, Presence};
use crate::open::{Access, Database, path_of};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Elapsed;
use litefoot_terminal::text::printable;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Check a database: its files, SQLite's integrity check, and its foreign keys.
///
/// Exit code 0: everything is in order; 1: something was found, or the check could not be made. A log that
/// waits for recovery is recovered first, as by any program that opens the database. While a program has the database
/// open, only SQLite's checks are made; with rollback journals, the program's commits wait for them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot check app.db
  litefoot check app.db && cp app.db backup/
  litefoot backup --check app.db copy.db          beside a program, without making it wait")]
pub struct Args {
    /// The database
    database: String,

    /// How many findings to print
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Leave);
    let path = path_of(&args.database);
    let in_use = Presence::find(inspect::regular_file(&path)?.id).is_live()
        || inspect::look(&path)?.owner != Owner::Nobody;
    let found = if in_use {
        sqlite_findings(Database::visit_now(&args.database)?, args.most)?
    } else {
        alone(&args, &path)?
    };
    let notes = if in_use || !found.is_empty() { Vec::new() } else { inspect::notes(&inspect::look(&path)?) };
    let mut output = Output::lock();
    if args.json {
        let object = json!({
            "database": path.to_string_lossy(),
            "in_order": found.is_empty(),
            "in_use": in_use,
            "findings": found,
            "notes": notes,
        });
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for finding in &found {
        output.line(format!("{}: {}", path.display(), printable(finding)))?;
    }
    if found.is_empty() {
        output.line(format!("{}: in order", path.display()))?;
        for note in notes {
            output.line(format!("  {}", printable(&note)))?;
        }
    }
    output.flush()?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The findings in a database that nobody uses.
fn alone(args: &Args, path: &Path) -> Result<Vec<String>, Failure> {
    let found = inspect::problems(&inspect::look(path)?);
    if !found.is_empty() {
        return Ok(found);
    }
    let mut found = sqlite_findings(Database::open(&args.database, Access::Write)?, args.most)?;
    // Closing checkpoints; what the files look like afterwards must hold as well.
    found.extend(inspect::problems(&inspect::look(path)?));
    Ok(found)
}

/// The findings of SQLite's own checks. The database is closed afterwards.
fn sqlite_findings(database: Database, most: u32) -> Result<Vec<String>, Failure> {
    let _watch = interrupt::watch(&database.connection);
    let _elapsed = Elapsed::new("checking");
    let mut found =
        integrity_findings(&database.connection, most).map_err(|error| database.explain(&error))?;
    found.extend(foreign_key_findings(&database.connection, most).map_err(|error| database.explain(&error))?);
    Ok(found)
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

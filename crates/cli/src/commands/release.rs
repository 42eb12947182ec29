//! `litefoot release`: everything home in one plain file.

use crate::failure::Failure;
use crate::inspect::{self, Owner};
use crate::interrupt::{self, Idle};
use crate::open::{Access, Database, path_of};
use crate::output::{Output, grouped};
use std::process::ExitCode;

/// Bring everything home into the database file: recover what waits, write it in place, remove the logs.
///
/// Afterwards the file is complete by itself: it can be copied, and any SQLite opens it. While a program has
/// the database open, part of it lies in the log beside it; closing the last connection does the same as this
/// command.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot release app.db && cp app.db backup/
  litefoot release app.db --journal-mode delete   and leave WAL mode")]
pub struct Args {
    /// The database
    database: String,

    /// Also change the journal mode, which the file remembers
    #[arg(long, value_name = "MODE", value_parser = ["delete", "wal"])]
    journal_mode: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Leave);
    let path = path_of(&args.database);
    if let Owner::Exclusive(_) = inspect::look(&path)?.owner {
        return Err(Failure::file(&path, "another process has this database open")
            .advice("Close the other program: that releases the database as well."));
    }
    let database = Database::open(&args.database, Access::Write)?;
    let home = || -> rusqlite::Result<()> {
        if let Some(mode) = &args.journal_mode {
            database.connection.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))?;
        }
        database.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    home().map_err(|error| database.explain(&error))?;
    drop(database);
    let files = inspect::look(&path)?;
    let mut output = Output::new();
    let journal_in_use =
        files.journal.as_ref().is_some_and(|journal| journal.content != inspect::Content::Finished);
    if files.wal.is_some() || journal_in_use || files.statement_log_bytes.is_some() {
        return Err(Failure::file(&path, "a log or journal is still beside it")
            .advice("Look at it with litefoot stat, and check with litefoot check."));
    }
    output.line(format!("{}: complete, {} bytes", path.display(), grouped(files.bytes)))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

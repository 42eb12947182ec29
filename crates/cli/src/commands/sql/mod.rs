//! `litefoot sql`: SQL from the command line, from standard input, or at a prompt.
//!
//! | file | decides |
//! |---|---|
//! | `mod` | where the SQL comes from; running it statement by statement |
//! | `source` | where one statement ends and the next begins |
//! | `render` | how a result reads: aligned, JSON, CSV |
//! | `dot` | the few dot commands |
//! | `prompt` | the interactive prompt and its history |
//!
//! A script stops at its first error, and what its open transaction did is rolled back.

mod dot;
mod prompt;
mod render;
mod source;

use crate::open::{Access, Database};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::output::Output;
use render::Format;
use rusqlite::fallible_iterator::FallibleIterator;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Run SQL: a statement, a script from standard input, or an interactive prompt.
///
/// The database is opened through litefoot and created when it is missing. DATABASE is a path or a URI
/// (`file:app.db?key=value`). Without a statement, and with a terminal as input, a prompt with history
/// opens; a statement there may span lines and ends with a semicolon.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot sql app.db \"SELECT * FROM reading LIMIT 10\"
  litefoot sql app.db < schema.sql
  litefoot sql --json app.db \"SELECT * FROM reading\" | jq .
  litefoot sql app.db                             the prompt; .help there lists what else it knows

Blobs are shown in hexadecimal. JSON has one array of objects per statement that gives rows;
CSV tells NULL (nothing) from an empty text (\"\").")]
pub struct Args {
    /// The database: a path, or a URI beginning with file:
    database: String,

    /// SQL to run; standard input or a prompt when it is missing
    statement: Option<String>,

    /// Print results as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print results as CSV, with a heading
    #[arg(long)]
    csv: bool,

    /// Only read; the file must exist. Beside a program that has it open, nothing is recovered or changed
    #[arg(long)]
    readonly: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(interrupt::Idle::Leave);
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    let database = if args.readonly {
        Database::open_beside(&args.database)?
    } else {
        Database::open(&args.database, Access::Create)?
    };
    let mut session = Session { database, format };
    let graphs = litefoot::graph::register(&session.database.connection);
    graphs.map_err(|error| session.database.explain(&error))?;
    match args.statement {
        Some(sql) => session.execute(&sql)?,
        None if std::io::stdin().is_terminal() => prompt::run(&mut session)?,
        None => source::run_script(&mut session, &mut std::io::stdin().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An open database and how its results are printed.
struct Session {
    database: Database,
    format: Format,
}

impl Session {
    /// Runs all statements of `sql`, printing each result as it comes.
    fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        let connection = &self.database.connection;
        litefoot::clear_last_error();
        let _watch = interrupt::watch(connection);
        let explain = |error| self.database.explain(&error);
        let mut output = Output::lock();
        let mut batch = rusqlite::Batch::new(connection, sql);
        while let Some(mut statement) = batch.next().map_err(explain)? {
            interrupt::check()?;
            render::result(&mut statement, self.format, &mut output, &explain)?;
            // The next statement may take long: what is known is shown now.
            output.flush()?;
        }
        Ok(())
    }
}

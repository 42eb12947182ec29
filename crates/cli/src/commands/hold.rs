//! `litefoot hold`: a process that keeps the group of a database alive.
//!
//! The first process of a group commits for all others, and the next one recovers what it leaves. Where processes come and go, as those of a
//! script that runs for each request, one that stays spares them that: it is the owner, or becomes it soon.

use crate::open::Database;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use std::process::ExitCode;
use std::time::Duration;

/// The pause between two looks for a signal.
const GLANCE: Duration = Duration::from_millis(20);
/// So many looks are made before the database is read: where its owner has ended, this process is the next one.
const LOOKS: u32 = 10;
/// Readings in a row that may fail.
const MOST_FAILURES: u32 = 25;

/// Keep the group of a database alive: be a process of it that does nothing else.
///
/// Processes that open a database share an owner, which is the first of them; in WAL mode where commits wait for flushes of a millisecond or more, or with sharing=group. With this command the owner stays
/// while others come and go: each finds it, and none has to recover or to checkpoint. Ctrl-C or SIGTERM ends it in good order: transactions of
/// other processes are waited for, and the next one of them becomes the owner.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot hold app.db &                 before the processes that share it
  litefoot stat app.db                   who leads, and how many processes it serves

Exit codes: 0 ended by a signal; 1 the database cannot be used.")]
pub struct Args {
    /// The database
    database: String,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let database = Database::open_in_group(&args.database)?;
    let mut output = Output::lock();
    output.line(format!("{}: the group stays until this process ends", args.database))?;
    output.flush()?;
    let mut failures = 0;
    loop {
        for _ in 0..LOOKS {
            if interrupt::check().is_err() {
                drop(database);
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(GLANCE);
        }
        let read = database.connection.pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0));
        match read {
            Ok(_) => failures = 0,
            // A lock, or the end of the owner in the middle of it.
            Err(_) if failures < MOST_FAILURES => failures += 1,
            Err(error) => return Err(database.explain(&error)),
        }
    }
}

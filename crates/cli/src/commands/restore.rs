//! `litefoot restore`: from a backup to a database.

use super::ship::explain;
use litefoot_ship::restore::{Replace, Target, Until, restore};
use litefoot_ship::{Error, destination};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use litefoot_terminal::text::grouped;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// Restore a database from a backup that `litefoot ship` or Litestream has made.
///
/// The database appears whole or not at all, and only where its checksum is the one that was backed up.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot restore file:///backup/app -o app.db
  litefoot restore file:///backup/app -o then.db --at 2026-03-01T12:00:00Z
  litefoot restore file:///backup/app -o then.db --at @1772366400        seconds since 1970

Exit codes: 0 the database is there; 1 it is not, and nothing of it is left; 130 interrupted, as 1.")]
pub struct Args {
    /// The place of the backup
    url: String,

    /// A file with the credentials of the place, a KEY=value a line
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// The file to be made
    #[arg(short, long, value_name = "DATABASE")]
    output: PathBuf,

    /// The database as it was at a time: 2026-03-01T12:00:00Z, or @SECONDS since 1970
    #[arg(long, value_name = "TIME", value_parser = litefoot_ship::time::parse, conflicts_with = "transaction")]
    at: Option<u64>,

    /// The database as it was behind a transaction, in hexadecimal digits
    #[arg(long, value_name = "NUMBER", value_parser = transaction)]
    transaction: Option<u64>,

    /// Replace a database that is there, and its logs
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let until = match (args.at, args.transaction) {
        (Some(time_ms), _) => Until::Time(time_ms),
        (_, Some(number)) => Until::Transaction(litefoot_ltx::TxId::new(number)),
        _ => Until::Latest,
    };
    let store = destination::store(&args.url, args.credentials.as_deref()).map_err(explain)?;
    let replace = if args.force { Replace::Yes } else { Replace::Never };
    let target = Target::new(&args.output, replace).map_err(explain)?;
    let bar: Mutex<Option<Bar>> = Mutex::new(None);
    let progress = |done, all| {
        interrupt::check().map_err(|_| Error::Interrupted)?;
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.get_or_insert_with(|| Bar::new("restoring", all)).at(done);
        Ok(())
    };
    let restored = restore(&*store, until, &target, &progress).map_err(explain)?;
    drop(bar);
    let mut output = Output::lock();
    output.line(format!(
        "{}: complete, {} bytes, as of transaction {} at {}",
        args.output.display(),
        grouped(restored.bytes),
        restored.last,
        litefoot_ship::time::rfc3339(restored.timestamp_ms)
    ))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn transaction(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16)
        .map_err(|_| "a transaction is a number of up to 16 hexadecimal digits".into())
}

//! `litefoot ship compact`: few files instead of many.

use super::explain;
use litefoot_ship::compact::{Retention, compact};
use litefoot_ship::{Error, destination};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::text::grouped;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Merge the files of a backup, and delete those that nobody needs.
///
/// Runs at any machine that reaches the place, beside the shipper or without it. Nothing is deleted before what replaces it is there.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot ship compact file:///backup/app                 each hour, by cron
  litefoot ship compact file:///backup/app --keep 365 --keep-all 7")]
pub struct Args {
    /// The place of the backup
    url: String,

    /// A file with the credentials of the place, a KEY=value a line
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// Days of history that can be restored
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep: u32,

    /// Days for which every single delivery can be restored
    #[arg(long, value_name = "DAYS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_all: u32,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let day = Duration::from_secs(86_400);
    let retention =
        Retention { history: day * args.keep, deliveries: day * args.keep_all, ..Retention::default() };
    let store = destination::store(&args.url, args.credentials.as_deref()).map_err(explain)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let go_on = || interrupt::check().map_err(|_| Error::Interrupted);
    let done = compact(&*store, &retention, now.as_millis() as u64, &std::env::temp_dir(), &go_on)
        .map_err(explain)?;
    let mut output = Output::lock();
    output.line(format!(
        "{}: {} files written, {} bytes; {} deleted",
        args.url,
        done.written,
        grouped(done.written_bytes),
        done.deleted
    ))?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

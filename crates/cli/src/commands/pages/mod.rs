//! `litefoot pages`: page files, whatever is in them.

mod check;
mod create;
mod dump;
mod scan;
mod stat;

use clap::Subcommand;
use litefoot_pagestore::ops::Error;
use litefoot_terminal::Failure;
use std::path::Path;
use std::process::ExitCode;

/// Make, scan, check and describe page files and databases of pages.
///
/// A page file is what `litefoot graph load` makes, and what the engine's operators work on. Pages of a database can
/// be changed, released and allocated.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot pages create test.pages --size 64M
  litefoot pages scan test.pages
  litefoot pages check test.pages
  litefoot pages stat test.pages
  litefoot pages create test.store --size 64M --database
  litefoot pages dump test.store")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(create::Args),
    Scan(scan::Args),
    Check(check::Args),
    Dump(dump::Args),
    Stat(stat::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Create(args) => create::run(args),
        Command::Scan(args) => scan::run(args),
        Command::Check(args) => check::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Stat(args) => stat::run(args),
    }
}

/// An operator's error on a page file, in words.
fn explain(path: &Path, error: &Error) -> Failure {
    match error {
        // These name the file themselves.
        Error::Pages(error) => Failure::new(error.to_string()),
        _ => Failure::file(path, error),
    }
}

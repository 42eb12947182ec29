//! `litefoot tier`: databases whose hot chunks live on a fast device.

mod drain;
mod stat;

pub use stat::{living, spread};

use clap::Subcommand;
use litefoot_terminal::Failure;
use std::process::ExitCode;

/// Look at the fast device that hot chunks of a database live on, and bring them home.
///
/// A database is given a tier by the options tier=PATH and tier_size=BYTES when it is opened. While chunks are away
/// the file is marked, and programs without litefoot refuse it. Closing the last connection brings everything home.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot sql 'file:app.db?tier=/fast/app.tier&tier_size=8M'
  litefoot tier stat app.db                       what is away, and how worn the device is
  litefoot tier stat /fast/app.tier               the same of a device
  litefoot tier drain app.db                      bring everything home
  litefoot tier drain app.db --tier /mnt/app.tier where the device has another path now")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Drain(drain::Args),
    Stat(stat::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Drain(args) => drain::run(args),
        Command::Stat(args) => stat::run(args),
    }
}

//! The commands, one file each.

mod run;
mod sql;

use crate::failure::Failure;
use clap::Subcommand;
use std::process::ExitCode;

/// What the program can do.
#[derive(Subcommand)]
pub enum Command {
    Sql(sql::Args),
    Run(run::Args),
}

/// Runs one command.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Sql(args) => sql::run(args),
        Command::Run(args) => run::run(args),
    }
}

//! A process that an experiment starts and kills.

use crate::failure::Failure;
use std::process::ExitCode;

/// Part of an experiment; nothing for people.
#[derive(clap::Args)]
pub struct Args {
    /// Which process
    name: String,

    /// What it is told
    arguments: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    litefoot_lab::child::run(&args.name, &args.arguments).map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}

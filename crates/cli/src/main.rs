//! The program `litefoot`.
//!
//! One file per command under `commands/`, each with an `Args` that clap reads and a `run(args) -> Result<ExitCode,
//! Failure>`. The modules beside it are shared by the commands:
//!
//! | module | decides |
//! |---|---|
//! | [`inspect`] | what a database's bytes say, without SQLite |
//! | [`open`] | how a database is opened, and what SQLite's refusals mean in plain words |
//! | [`pagefile`] | how a page file is opened and made |
//! | [`reach`] | which programs carry which SQLite, and whether litefoot reaches it |
//!
//! Errors, tables, progress bars and signals are `litefoot_terminal`'s, shared with the laboratory, `litefoot-bench`.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod inspect;
mod open;
mod pagefile;
mod reach;

use clap::Parser;
use litefoot_terminal::progress;
use std::process::ExitCode;

/// SQLite for the edge: same SQL, API and file format; a lighter tread on flash.
///
/// Litefoot is a storage layer beneath unmodified SQLite. `litefoot run -- PROGRAM` runs an existing program on it,
/// `litefoot sql DB` opens a SQL prompt, and `litefoot demo` compares it with stock SQLite on this machine.
#[derive(Parser)]
#[command(name = "litefoot", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

const EXAMPLES: &str = "\
Examples:
  litefoot demo                                   stock SQLite and litefoot side by side
  litefoot sql app.db \"SELECT count(*) FROM t\"    one statement
  litefoot run -- python3 app.py                  an existing program, unchanged, on litefoot
  litefoot try -- python3 app.py                  stock and litefoot in turns, on copies of its databases
  litefoot doctor -- python3                      which SQLite a program carries, and whether litefoot reaches it
  litefoot adopt app.db                           move an existing database onto litefoot
  litefoot stat --watch app.db                    what a running program does to it, live
  litefoot check app.db                           is everything in order?
  litefoot backup app.db copy.db                  a consistent copy, while programs use it
  litefoot bench commit                           what a small durable transaction costs here

Exit codes: 0 done, 1 failed or something was found, 2 wrong usage, 126/127 the program of `run`
cannot be run or found, 130 interrupted.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    litefoot::leave_errors_to_the_program();
    progress::show_replaying();
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

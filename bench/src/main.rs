//! The program `litefoot-bench`: the experiments, as `litefoot bench` hands over to it.
//!
//! # Invariant
//! Only `litefoot_terminal` writes to standard output and standard error.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod command;

use clap::Parser;
use litefoot_bench::child;
use litefoot_bench::harness::child::COMMAND;
use litefoot_terminal::{Failure, progress};
use std::process::ExitCode;

fn main() -> ExitCode {
    litefoot::leave_errors_to_the_program();
    progress::show_replaying();
    let arguments: Vec<String> =
        std::env::args_os().skip(1).filter_map(|argument| argument.into_string().ok()).collect();
    let result = match arguments.as_slice() {
        [first, name, arguments @ ..] if first == COMMAND => {
            child::run(name, arguments).map(|()| ExitCode::SUCCESS).map_err(Failure::new)
        }
        _ => command::run(command::Args::parse()),
    };
    result.unwrap_or_else(|failure| failure.report())
}

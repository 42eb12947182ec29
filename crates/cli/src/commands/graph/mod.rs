//! `litefoot graph`: directed graphs in page files.

mod bfs;
mod load;
mod stat;

use clap::Subcommand;
use litefoot_pagestore::ops::Error;
use litefoot_terminal::Failure;
use std::path::Path;
use std::process::ExitCode;

/// Load, search and describe graphs.
///
/// A graph is loaded from a text: the first line is `nodes edges`, then one edge a line, `source target`, sorted by
/// source, with nodes numbered from 0. `load --edge-list` takes a plain list of edges, as SNAP publishes them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot graph load routes.txt routes.graph
  litefoot graph bfs routes.graph --start 0
  litefoot graph stat routes.graph")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(load::Args),
    Bfs(bfs::Args),
    Stat(stat::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Load(args) => load::run(args),
        Command::Bfs(args) => bfs::run(args),
        Command::Stat(args) => stat::run(args),
    }
}

/// An operator's error on a page file, in words.
fn explain(path: &Path, error: &Error) -> Failure {
    if let (Error::Stopped, Err(interrupted)) = (error, litefoot_terminal::interrupt::check()) {
        return interrupted;
    }
    match error {
        // These name the text themselves.
        Error::Line { .. } | Error::Input { .. } => Failure::new(error.to_string())
            .advice("Nothing was stored. `litefoot graph --help` shows the format."),
        Error::NotAGraph(_) => Failure::file(path, error).advice("Load one: litefoot graph load FILE DB"),
        Error::NoSuchNode { .. } => Failure::file(path, error).advice("`litefoot graph stat` counts them."),
        _ => Failure::file(path, error),
    }
}

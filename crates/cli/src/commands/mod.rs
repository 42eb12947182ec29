//! The commands, one file each.

mod adopt;
mod backup;
mod bench;
mod check;
mod collect;
mod completions;
mod demo;
mod doctor;
mod follow;
mod graph;
mod hold;
mod man;
mod pages;
mod recover;
mod release;
mod restore;
mod run;
mod ship;
mod sql;
mod stat;
mod tier;
mod try_out;
mod yield_to;

use clap::Subcommand;
use litefoot_terminal::Failure;
use std::process::ExitCode;

/// The commands of the program.
#[derive(Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Sql(sql::Args),
    Run(run::Args),
    Doctor(doctor::Args),
    Try(try_out::Args),
    Stat(stat::Args),
    Check(check::Args),
    Adopt(adopt::Args),
    Recover(recover::Args),
    Release(release::Args),
    Backup(backup::Args),
    Ship(ship::Args),
    Collect(collect::Args),
    Restore(restore::Args),
    Follow(follow::Args),
    Yield(yield_to::Args),
    Hold(hold::Args),
    Tier(tier::Args),
    Graph(graph::Args),
    Pages(pages::Args),
    Completions(completions::Args),
    Man(man::Args),
    Bench(bench::Args),
}

/// Runs one command.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Run(args) => run::run(args),
        Command::Try(args) => try_out::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Check(args) => check::run(args),
        Command::Adopt(args) => adopt::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Release(args) => release::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Ship(args) => ship::run(args),
        Command::Collect(args) => collect::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Follow(args) => follow::run(args),
        Command::Yield(args) => yield_to::run(args),
        Command::Hold(args) => hold::run(args),
        Command::Tier(args) => tier::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Pages(args) => pages::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::Bench(args) => bench::run(args),
    }
}

//! The project's one entry point for checks: `cargo xtask test`, and `cargo xtask quick` for a start.
//!
//! Runs the [`steps`], and stops at the first that fails. At the end come a table of their seconds, the tests that took
//! long, and the numbers of passed and failed checks. A check is a test that `cargo test` counts, or a step that has no
//! tests of its own. `cargo xtask test` runs two lanes of steps at the same time (see [`run`]); steps that are named
//! run one behind the other.
//!
//! `cargo xtask boards` takes longer, needs cross compilers, and is no step: see [`boards`]; nor is `cargo xtask sqlite`. Of SQLite's own
//! tests (`cargo xtask sqlite-suite`) a few files are one.

mod apps;
mod boards;
mod dist;
mod emulator;
mod failures;
mod fuzz;
mod licences;
mod miri;
mod process;
mod publish;
mod run;
mod sqlite;
mod sqlite_suite;
mod steps;
mod tables;
mod threads;
mod timing;

use std::process::ExitCode;
use steps::{APART, BESIDE, DOCS, FIRST, FRONT, Step};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["quick"] => named(&["format", "lint", "tables", "unit"], run::in_order),
        ["test"] => run::in_two_lanes(&refs(FIRST), &refs(FRONT), &refs(BESIDE)),
        ["test", "--serial"] => run::in_order(&steps::all().collect::<Vec<_>>()),
        ["test", names @ ..] => named(names, run::in_order),
        [run::LANE, names @ ..] => named(names, run::as_second_lane),
        ["docs"] => run::in_order(&[&DOCS]),
        ["docs", "--check"] => named(&["tables"], run::in_order),
        ["fuzz", arguments @ ..] => match fuzz::drive(arguments) {
            Ok(_) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        ["dist", targets @ ..] => dist::run(targets),
        ["sqlite-suite", options @ ..] => told("sqlite-suite", sqlite_suite::run(options)),
        ["suite-rows", options @ ..] => told("suite-rows", sqlite_suite::rows::run(options)),
        ["apps", names @ ..] => told("apps", apps::run(names)),
        [name] => match APART.iter().find(|step| step.name == *name) {
            Some(step) => run::in_order(&[step]),
            None => usage(&format!("what is {name:?}?")),
        },
        _ => usage("what shall I do?"),
    }
}

fn refs(steps: &'static [Step]) -> Vec<&'static Step> {
    steps.iter().collect()
}

/// Runs the steps of these names.
fn named(names: &[&str], run: fn(&[&Step]) -> ExitCode) -> ExitCode {
    match steps::named(names) {
        Ok(steps) => run(&steps),
        Err(unknown) => usage(&format!("unknown step {unknown:?}")),
    }
}

/// What a run with options of its own has given.
fn told(name: &str, result: process::Result<process::Tally>) -> ExitCode {
    match result {
        Ok(tally) => {
            println!("{} passed, {} failed", tally.passed, tally.failed);
            if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            println!("{name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn usage(complaint: &str) -> ExitCode {
    eprintln!(
        "xtask: {complaint}

Usage: cargo xtask quick                  the check of two minutes: format, lint, tables, unit
       cargo xtask test                   all steps, in two lanes
       cargo xtask test --serial          all steps, one behind the other
       cargo xtask test STEP…             some steps
       cargo xtask docs [--check]         writes the generated tables, or compares them
       cargo xtask fuzz [TARGET…] [--seconds N] [--seed N]
       cargo xtask sqlite-suite [OPTION…] [FILE…]
       cargo xtask suite-rows [OPTION…] [FILE…]
       cargo xtask dist [TARGET…]         makes the packages in target/packages
       cargo xtask apps [NAME…]           real applications, on stock SQLite and on litefoot
       cargo xtask boards | members | ship | sqlite | miri | publish

Steps:"
    );
    for step in steps::all().chain(APART) {
        eprintln!("  {:<12} {}", step.name, step.does);
    }
    ExitCode::from(2)
}

//! `litefoot try`: the user's own command, on stock SQLite and on litefoot in turns, on copies of its databases.
//!
//! The program is started with the library preloaded on both sides. `litefoot::trial` has copies stand for the databases that it opens, and
//! counts what SQLite's own VFS does on stock's side. Litefoot counts itself. So both sides count the same: blocks of 4 KiB in
//! writes, and syncs, those of directories included.
//!
//! | file | does |
//! |---|---|
//! | `run` | one run: start, wait, stop, and what was counted |
//! | `device` | what the device of the copies says |
//! | `result` | medians of the rounds, and the table |
//!
//! # What it promises
//! 1. No database of the user's is changed. Where no copy can be made, the program cannot open it.
//! 2. Every run begins with the same bytes, and the sides take turns.
//! 3. Each of litefoot's databases is checked by stock SQLite before it is counted.

mod device;
mod result;
mod run;

use super::run::option;
use crate::reach::first_look;
use litefoot::trial::FIRST;
use litefoot_terminal::Failure;
use litefoot_terminal::installed;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Bar;
use result::{Result as Outcome, Round};
use run::{Side, Task};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Run a command on stock SQLite and on litefoot in turns, on copies of its databases, and compare.
///
/// The databases are found as the program opens them; their copies are in a temporary directory that is removed at the end, and no database of
/// yours is changed. Whatever else the program does, it does in each run: files that it writes itself, and messages that it
/// sends. A run before the first finds the databases and is not counted. The program has no input, and its output is shown
/// where it fails.
///
/// Programs that preloading does not reach cannot be tried; litefoot doctor says which.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot try -- python3 import.py
  litefoot try --rounds 5 -- sqlite3 app.db \".read load.sql\"
  litefoot try --for 20 -- ./server --port 8080      a server, stopped after 20 seconds in each run
  litefoot try --dir /media/sdcard -- python3 app.py  on the device that counts

Exit codes: 0 done; 1 it could not be compared, such as a program that opens no database; 127 no such program; 130
interrupted. Nothing is left in either case.")]
pub struct Args {
    /// Runs of each side
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// A directory on the device to be measured, for the copies
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// End the program after so many seconds, by SIGTERM, in each run
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,

    /// Option of litefoot for every database; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    set: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let library = installed::library()?;
    let Some((word, arguments)) = args.program.split_first() else {
        return Err(Failure::new("try: no program given").code(2));
    };
    if let Some(line) = first_look::line(word, arguments, &library) {
        return Err(Failure::new(line).advice("It cannot be tried."));
    }
    let folder = work_directory(&args.dir)?;
    let task = Task::new(folder.path(), &args.program, library, args.seconds, &args.set)?;
    let bar = Bar::new("running", u64::from(args.rounds) * 2 + 1);
    let first = task.run(Side::Stock, "0")?;
    if first.counted.pages == 0 {
        return Err(no_database(&args.program));
    }
    if first.counted.commits == 0 {
        return Err(Failure::new(format!(
            "{} opened databases and committed nothing to them",
            shown(&args.program)
        ))
        .advice("Reads are not compared: litefoot bench read does that. Let the program write something."));
    }
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let mut of_round = [None, None];
        for turn in 0..2 {
            interrupt::check()?;
            bar.at(u64::from(2 * round + turn) + 1);
            let side = if (round + turn) % 2 == 0 { Side::Stock } else { Side::Litefoot };
            let name = format!("{}-{}", round + 1, side.name());
            of_round[side as usize] = Some(task.run(side, &name)?);
        }
        if let [Some(stock), Some(litefoot)] = of_round {
            rounds.push(Round { stock, litefoot });
        }
    }
    drop(bar);
    let databases = databases(&folder.path().join(FIRST), &task.files("0"));
    let outcome = Outcome::new(&args.program, rounds, databases, args.seconds.is_some(), folder.path());
    let mut output = Output::lock();
    if args.json {
        output.line(format!("{:#}", outcome.as_json()))?;
    } else {
        output.text(outcome.text())?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The failure of a program that has opened no database by a SQLite that is reached.
fn no_database(program: &[OsString]) -> Failure {
    Failure::new(format!("{} opened no database that litefoot sees", shown(program))).advice(format!(
        "Is its SQLite reached? litefoot doctor -- {}",
        program.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned())
    ))
}

fn shown(program: &[OsString]) -> String {
    program.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn work_directory(parent: &Path) -> Result<tempfile::TempDir, Failure> {
    fs::canonicalize(parent)
        .and_then(|parent| tempfile::Builder::new().prefix("litefoot-try-").tempdir_in(parent))
        .map_err(|error| {
            Failure::file(parent, format!("cannot make a directory here: {error}"))
                .advice("Name a directory that you may write to, on the device that counts: --dir DIR")
        })
}

/// The databases of a run, under their own names: those that were copied, and those that it made.
fn databases(first: &Path, files: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [first, files] {
        let names = run::database_files(folder).into_iter();
        found.extend(names.filter_map(|path| Some(Path::new("/").join(path.strip_prefix(folder).ok()?))));
    }
    found.sort();
    found.dedup();
    found
}

/// Seconds, with a fraction if need be.
fn seconds(text: &str) -> Result<Duration, String> {
    const MOST: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("expected seconds, up to {MOST}")),
    }
}

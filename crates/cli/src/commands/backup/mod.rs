//! `litefoot backup`: a consistent copy of a database, while programs use it.
//!
//! # Why
//! A copy of the file alone misses what is in the logs, and is torn where somebody writes meanwhile. A program that has the
//! database open through litefoot shares it with whoever opens the file, so that SQLite's own backup works beside it.
//!
//! # What it promises
//! 1. The copy holds everything that was committed before the command began, and is one moment of the database.
//! 2. The copy appears whole or not at all: it is made beside its place under another name, synced, and renamed.
//! 3. Programs that write wait as little as SQLite allows: not at all in WAL mode, else for a step of the copy.
//!
//! | file | decides |
//! |---|---|
//! | `source` | by which way the database is read |
//! | `copy` | how many pages are copied at once, and when to stop beginning anew |
//! | `bytes` | what is copied without SQLite, where a database changes too often |
//! | `target` | what may be replaced, and how the copy appears |

mod bytes;
mod copy;
pub mod source;
mod target;

use crate::open::path_of;
use copy::Copied;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Elapsed;
use litefoot_terminal::text::grouped;
use serde_json::json;
use source::Source;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use target::{Target, Unfinished};

/// Times that a copy begins anew since the program that had the database open has died or come.
const ATTEMPTS: u32 = 3;

/// A wait of others that is worth a line.
const NOTABLE: Duration = Duration::from_millis(100);

/// Copy a database while programs use it.
///
/// The copy is one moment of the database, with everything that was committed before the command began. It appears
/// whole or not at all, with the mode and the owner of the database. In WAL mode no program waits for the copy; with
/// rollback journals programs that write wait for a step of it, some milliseconds.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot backup app.db /backup/app.db
  litefoot backup app.db \"/backup/app-$(date +%F).db\" --check
  litefoot backup --force app.db copy.db              replace the last one
  litefoot backup app.db --to - | zstd > app.db.zst   the bytes of the copy, to standard output

What a crash has left is recovered first, as by any program that opens the database through litefoot.

Exit codes: 0 the copy is complete; 1 it was not made, and nothing of it is left; 130 interrupted, as 1;
141 standard output was closed.")]
pub struct Args {
    /// The database
    database: String,

    /// The file to be made
    #[arg(value_name = "COPY", required_unless_present = "to")]
    copy: Option<PathBuf>,

    /// The same, or standard output with -
    #[arg(long, value_name = "COPY", conflicts_with = "copy")]
    to: Option<PathBuf>,

    /// Replace a file that is there
    #[arg(long)]
    force: bool,

    /// Run SQLite's integrity check on the copy before it appears
    #[arg(long)]
    check: bool,

    /// Seconds to wait for a program that keeps the database for itself
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..86_400))]
    wait: u64,

    /// With --to -: the directory in which the copy is made [default: TMPDIR, or /tmp]
    #[arg(long, value_name = "DIRECTORY")]
    tmp: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let Some(place) = args.to.or(args.copy) else {
        return Err(Failure::new("backup: no place for the copy was given").code(2));
    };
    let is_stream = place.as_os_str() == "-";
    if is_stream && std::io::stdout().is_terminal() {
        return Err(Failure::new("standard output is a terminal, and the copy is no text")
            .advice("Pass it to a file or a program, or name a file instead of -."));
    }
    if args.tmp.is_some() && !is_stream {
        return Err(Failure::new("--tmp is for --to -: another copy is made beside its place").code(2));
    }
    if args.json && is_stream {
        return Err(Failure::new("--json is not for --to -: the copy itself is on standard output").code(2));
    }
    let database = path_of(&args.database);
    let target = if is_stream { None } else { Some(Target::new(&place, &database, args.force)?) };
    let unfinished = match &target {
        Some(target) => Unfinished::beside(target)?,
        None => Unfinished::within(args.tmp.unwrap_or_else(std::env::temp_dir))?,
    };
    let copied = copy_to(&args.database, &unfinished, Duration::from_secs(args.wait))?;
    if args.check {
        let _elapsed = Elapsed::new("checking the copy");
        unfinished.check(&database)?;
    }
    match target {
        None => unfinished.stream()?,
        Some(target) => {
            let bytes = unfinished.publish(&target, &database)?;
            let mut output = Output::lock();
            if args.json {
                let object = json!({
                    "database": database.to_string_lossy(),
                    "copy": place.to_string_lossy(),
                    "bytes": bytes,
                    "writers_waited_s": copied.held.map_or(0.0, |held| held.as_secs_f64()),
                });
                output.line(format!("{object:#}"))?;
            } else {
                output.line(format!("{}: complete, {} bytes", place.display(), grouped(bytes)))?;
            }
            output.flush()?;
        }
    }
    if let Some(held) = copied.held.filter(|held| *held >= NOTABLE) {
        let what = format!(
            "{}: it changed too often to be copied in steps: programs that write waited for {:.1} s",
            database.display(),
            held.as_secs_f64()
        );
        Failure::new(what).print();
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies the database, from the way that is right for it now.
fn copy_to(database: &str, unfinished: &Unfinished, patience: Duration) -> Result<Copied, Failure> {
    for _ in 0..ATTEMPTS {
        let source = Source::open(database)?;
        if let Some(copied) = copy::run(&source, unfinished, patience)? {
            return Ok(copied);
        }
    }
    let path = path_of(database);
    Err(Failure::file(&path, "programs that use it came and went in the middle of the copy")
        .advice("Nothing was left. Try again."))
}

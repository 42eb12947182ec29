//! `litefoot adopt`: moving an existing database onto litefoot.
//!
//! There is not much to move: the file is SQLite's and stays so. The command names the obstacles before an application
//! depends on the change, and the changes before they are made. Without `--yes` nothing is written.
//!
//! With `--yes` each step leaves a valid database. The steps are recovering what waits, SQLite's own checks, and the
//! change of the journal mode, in one transaction. Recovery is that of any program that opens the database. Stopped
//! anywhere, the database is at the last of them.

mod plan;
mod report;
mod ways;

use super::check::{foreign_key_findings, integrity_findings};
use super::release::{bring_home, set_journal_mode};
use crate::inspect;
use crate::open::{Access, Database, PERMISSIONS, path_of};
use litefoot_storage::file::{Medium, parent_directory};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::progress::Elapsed;
use plan::Plan;
use report::Report;
use std::path::Path;
use std::process::ExitCode;

/// Findings that are printed.
const MOST_FINDINGS: u32 = 20;

/// Move an existing database onto litefoot: check it, show what will change, do it, and tell how to open it.
///
/// Without --yes nothing is written. The file stays a plain SQLite database, which any SQLite opens as before;
/// litefoot release brings everything home at any time.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot adopt app.db                        what is there, and what would change
  litefoot adopt app.db --yes                  do it; the journal mode stays as it is
  litefoot adopt app.db --journal wal --yes    and go to WAL mode, in which small commits cost least

Exit codes: 0 it can be adopted, or was; 1 something is in the way; 130 interrupted.")]
pub struct Args {
    /// The database
    database: String,

    /// Which journal mode it shall have: the one it has, or WAL; the file remembers it
    #[arg(long, value_name = "MODE", value_enum, default_value = "keep")]
    journal: Mode,

    /// Do what is shown
    #[arg(long)]
    yes: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The journal mode that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// The present one.
    Keep,
    /// Write-ahead log.
    Wal,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = path_of(&args.database);
    let files = inspect::look(&path)?;
    if let Some(away) = &files.away {
        let what = format!("it is on litefoot, and parts of it live on {}", away.device.display());
        return Err(Failure::file(&path, what)
            .advice(format!("Bring them home first: litefoot tier drain {}", ways::quoted(&args.database))));
    }
    files.refuse_owned("Close the other program first, then adopt the database.")?;
    may_write(&path)?;
    let plan = Plan::new(&files, args.journal);
    let mut report = Report::new(args.json);
    report.plan(&plan, &files)?;
    let found = inspect::problems(&files);
    if !found.is_empty() {
        return report.end(&plan, &files, false, &found, |_| Ok(()));
    }
    let mut found = Vec::new();
    if !args.yes && plan.recovers {
        report.line("checks            when what waits was recovered, with --yes")?;
    } else {
        found = check_and_change(&args, &mut report)?;
    }
    let files = inspect::look(&path)?;
    let adopted = args.yes && found.is_empty();
    report.end(&plan, &files, adopted, &found, |report| tell_how_to_open(&args, &plan, &path, report))
}

/// The end of the text: what was done, or is to be done, and how the database is opened through litefoot.
fn tell_how_to_open(args: &Args, plan: &Plan, path: &Path, report: &mut Report) -> Result<(), Failure> {
    report.line("")?;
    if args.yes {
        report.line(format!("{}: adopted. It is a plain SQLite database as before.", path.display()))?;
    } else if !plan.changes.is_empty() {
        let journal = if args.journal == Mode::Wal { " --journal wal" } else { "" };
        report.line("Nothing was changed. To do it:")?;
        return report.line(format!("  litefoot adopt {}{journal} --yes", ways::quoted(&args.database)));
    } else {
        report.line("Nothing needs to be changed.")?;
    }
    report.line("Open it through litefoot from")?;
    ways::lines(path).into_iter().try_for_each(|line| report.line(format!("  {line}")))
}

/// SQLite's check, before which opening recovers what waits, and with `--yes` the change of the journal mode. Answers what was
/// found; then nothing else was changed.
fn check_and_change(args: &Args, report: &mut Report) -> Result<Vec<String>, Failure> {
    // For as long as this takes, nobody else may have it.
    report.flush()?;
    let database = Database::open(&args.database, Access::Alone)?;
    let watch = interrupt::watch(&database.connection);
    let elapsed = Elapsed::new("checking");
    let found =
        integrity_findings(&database.connection, MOST_FINDINGS).map_err(|error| database.explain(&error))?;
    drop(elapsed);
    if !found.is_empty() {
        return Ok(found);
    }
    // Dangling references are the application's business: SQLite does not enforce foreign keys by itself.
    let dangling = foreign_key_findings(&database.connection, MOST_FINDINGS);
    report.in_order(dangling.map_err(|error| database.explain(&error))?)?;
    interrupt::check()?;
    drop(watch);
    if args.yes {
        // Closing does this as well, and tells nobody that the disk was full.
        bring_home(&database, "keep")?;
    }
    if args.yes && args.journal == Mode::Wal {
        let _watch = interrupt::watch(&database.connection);
        set_journal_mode(&database, "wal")?;
    }
    drop(database);
    let after = inspect::look(&path_of(&args.database))?;
    Ok(inspect::problems(&after))
}

/// Logs are made beside the database, so its directory must be writable as well.
fn may_write(path: &Path) -> Result<(), Failure> {
    for (what, place) in [("this file", path), ("the directory of this database", parent_directory(path))] {
        let info = OsMedium.info(place).map_err(|error| Failure::new(error.to_string()))?;
        if !info.is_some_and(|info| info.writable) {
            return Err(Failure::file(path, format!("{what} cannot be written")).advice(PERMISSIONS));
        }
    }
    Ok(())
}

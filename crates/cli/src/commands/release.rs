//! `litefoot release`: everything home in one plain file.
//!
//! Each step leaves a valid database with whatever logs belong to it. Stopped between two steps, or in one, the command
//! loses nothing, and the next release goes on from there.

use crate::inspect::{self, Content, Presence};
use crate::open::{Access, Database, path_of};
use litefoot::stats::processes_that_opened;
use litefoot_storage::file::{Medium, beside};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Elapsed;
use litefoot_terminal::text::{grouped, printable};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bring everything home into the database file: recover what waits, write it in place, remove the logs.
///
/// Chunks that live on a tier device come home as well.
///
/// Afterwards the file is complete by itself: it can be copied, and any SQLite opens it. While a program has
/// the database open, part of it lies in the log beside it; closing the last connection does the same as this
/// command.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot release app.db && cp app.db backup/
  litefoot release app.db --journal delete        and leave WAL mode
  litefoot release app.db --wait 60               once the program that has it open has closed it

Exit codes: 0 the file is complete by itself; 1 it is not, and nothing is lost; 130 interrupted, as 1.")]
pub struct Args {
    /// The database
    database: String,

    /// Also change the journal mode, which the file remembers
    #[arg(long, value_name = "MODE", value_parser = ["keep", "delete", "wal"], default_value = "keep",
        alias = "journal-mode")]
    journal: String,

    /// Wait so many seconds for the programs that have it open to close it
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..86_400))]
    wait: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The pause between two looks for programs that have the database open.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let path = path_of(&args.database);
    await_nobody(&path, Duration::from_secs(args.wait))?;
    inspect::look(&path)?.refuse_owned(CLOSE_IT)?;
    let database = Database::open(&args.database, Access::Alone)?;
    bring_home(&database, &args.journal)?;
    remove_leftovers(&path)?;
    interrupt::check()?;
    drop(database);
    let files = inspect::look(&path)?;
    let logs = [
        ("-wal", files.wal.is_some()),
        ("-journal", files.journal.is_some()),
        ("-commits", files.commit_log_bytes.is_some()),
    ];
    if let Some((log, _)) = logs.iter().find(|(_, there)| *there) {
        return Err(Failure::file(&path, format!("its {log} is still beside it"))
            .advice("Look at it with litefoot stat, and check with litefoot check."));
    }
    if let Some(away) = &files.away {
        let what = format!("parts of it still live on the tier device {}", away.device.display());
        return Err(Failure::file(&path, what)
            .advice("Look at it with litefoot stat, and check with litefoot check."));
    }
    if let Some(problem) = inspect::problems(&files).first() {
        return Err(Failure::file(&path, printable(problem)).advice("Check it with litefoot check."));
    }
    let mut output = Output::lock();
    if args.json {
        let database = path.to_string_lossy();
        let object = json!({"database": database, "bytes": files.bytes, "notes": inspect::notes(&files)});
        output.line(format!("{object:#}"))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    output.line(format!("{}: complete, {} bytes", path.display(), grouped(files.bytes)))?;
    for note in inspect::notes(&files) {
        output.line(format!("  {}", printable(&note)))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

const CLOSE_IT: &str = "Close the other program: the last connection that closes releases the database as well. --wait waits for that.";

/// Waits until no process that can be seen has the database open. The file itself is not opened: that would be a reason for its
/// owner to share it.
fn await_nobody(path: &Path, patience: Duration) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        interrupt::check()?;
        let file = inspect::regular_file(path)?.id;
        let process = match Presence::find(file) {
            Presence::None => match processes_that_opened(file).first() {
                Some(process) => Some(*process),
                None => return Ok(()),
            },
            present => present.published().map(|published| published.process),
        };
        if began.elapsed() >= patience {
            let what = format!("{} has this database open", inspect::process(process));
            return Err(Failure::file(path, what).advice(CLOSE_IT));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Changes the journal mode where that is wanted, and writes the logs to the database file.
pub fn bring_home(database: &Database, journal: &str) -> Result<(), Failure> {
    let explain = |error| database.explain(&error);
    let _watch = interrupt::watch(&database.connection);
    let _elapsed = Elapsed::new("bringing home");
    if journal != "keep" {
        set_journal_mode(database, journal)?;
        interrupt::check()?;
    }
    database.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(explain)?;
    interrupt::check()
}

/// Changes the journal mode. SQLite answers with the mode that is in force, changed or not.
pub fn set_journal_mode(database: &Database, mode: &str) -> Result<(), Failure> {
    let change = format!("PRAGMA journal_mode={mode}");
    let answer = database.connection.query_row(&change, [], |row| row.get::<_, String>(0));
    match answer.map_err(|error| database.explain(&error))? {
        now if now == mode => Ok(()),
        now => {
            let path = path_of(&database.name);
            Err(Failure::file(&path, format!("the journal mode is still {now}"))
                .advice("Nothing was changed. Close what else uses the database, and try again."))
        }
    }
}

/// Removes files that nobody needs again: a finished journal (PERSIST, TRUNCATE), the index of a log that a crash has left, and
/// a redo log that was not finished. The caller owns the database, so no other process uses them.
fn remove_leftovers(path: &Path) -> Result<(), Failure> {
    let remove = |leftover: &Path| {
        match OsMedium.info(leftover) {
            Ok(Some(info)) if info.is_file => OsMedium.delete(leftover),
            other => other.map(drop),
        }
        .map_err(|error| Failure::new(error.to_string()).advice("The database itself is complete."))
    };
    let files = inspect::look(path)?;
    if files.journal.is_some_and(|journal| journal.content == Content::Finished) {
        remove(&beside(path, "-journal"))?;
    }
    if let Some(log) = files.unfinished_log {
        remove(&log)?;
    }
    remove(&beside(path, "-shm"))
}

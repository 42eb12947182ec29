//! `litefoot recover`: the transactions that a crash has left in a commit log.

use crate::inspect;
use crate::open::path_of;
use litefoot::log_inspect::{RecoveryOutcome, Transaction, Waiting, apply, move_away, waiting};
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::progress::Elapsed;
use litefoot_terminal::text::{grouped, printable};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Show the committed transactions that wait in the commit log beside a database.
///
/// Opening a database recovers them by itself, so this is needed only when that was refused: when another
/// program has changed the database since the crash. Statements can then be exported as SQL, looked at, and applied by
/// hand as far as they still make sense. Deltas of pages can be applied where the pages are still those from before them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  litefoot recover app.db                       what waits, and what becomes of it
  litefoot recover app.db --sql -               the transactions as SQL, where they are statements
  litefoot recover app.db --sql waiting.sql
  litefoot recover app.db --apply               deltas into a copy of both files
  litefoot recover app.db --discard --yes       move the log away, so that the database opens")]
pub struct Args {
    /// The database
    database: String,

    /// The commit log, where it lies neither beside the database nor beside its tier device (option commit_log_path)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Write the transactions, where they are statements, as SQL to a new file, or to standard output with -
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,

    /// Apply deltas of pages although the time of change of the database is another one: both files were copied together, and no
    /// other program has written the database since the crash
    #[arg(long, conflicts_with_all = ["sql", "discard"])]
    apply: bool,

    /// Move the log out of the way; it is renamed, never deleted
    #[arg(long, requires = "yes")]
    discard: bool,

    /// Print what waits as one JSON object
    #[arg(long, conflicts_with_all = ["sql", "apply", "discard"])]
    json: bool,

    /// Yes, the database shall do without these transactions
    #[arg(long, requires = "discard")]
    yes: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = path_of(&args.database);
    inspect::look(&path)?.refuse_owned("It recovers the log, or has done so. Close it, and look again.")?;
    let medium: Arc<dyn Medium> = Arc::new(OsMedium::new());
    let found = waiting(&medium, &path, args.log.as_deref()).map_err(|error| Failure::file(&path, error))?;
    let mut output = Output::lock();
    if args.json {
        output.line(format!("{:#}", as_json(found.as_ref(), &path)))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(found) = found else {
        output.line(format!("{}: no commit log, nothing waits", path.display()))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.apply {
        let _elapsed = Elapsed::new("applying");
        let count = apply(&medium, &path, &found).map_err(|error| {
            Failure::file(&path, error)
                .advice("Nothing was changed. Restore the database as it was when the log was copied.")
        })?;
        output.line(format!("{}: {} transactions were applied", path.display(), grouped(count as u64)))?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.sql.is_some() && found.deltas > 0 {
        return Err(Failure::file(
            &found.path,
            "its transactions are deltas of pages, which cannot be told as SQL",
        )
        .advice("Nothing was written. `litefoot recover` without --sql says what becomes of them."));
    }
    match &args.sql {
        Some(target) if target == Path::new("-") => {
            for line in lines(&found) {
                output.line(line)?;
            }
        }
        Some(target) => {
            export(&found, target)?;
            output.line(format!("{}: {} transactions", target.display(), found.transactions.len()))?;
        }
        None => describe(&found, &path, &mut output)?,
    }
    if args.discard {
        if found.recovery_outcome == RecoveryOutcome::Unknown && args.log.is_some() {
            return Err(Failure::file(&found.path, "this is not a commit log that can be understood")
                .advice("Nothing was moved. Name the commit log of the database."));
        }
        let away = move_away(&medium, &path, &found).map_err(|error| Failure::file(&found.path, error))?;
        output.line(format!("{}: moved to {}", found.path.display(), away.display()))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One object; without a commit log there is no `log`, and no outcome.
fn as_json(found: Option<&Waiting>, database: &Path) -> Value {
    let outcome = found.map(|found| match found.recovery_outcome {
        RecoveryOutcome::Unknown => "unknown",
        RecoveryOutcome::Removed => "removed",
        RecoveryOutcome::Replayed => "replayed",
        RecoveryOutcome::Applied => "applied",
        RecoveryOutcome::Refused => "refused",
    });
    json!({
        "database": database.to_string_lossy(),
        "log": found.map(|found| found.path.to_string_lossy()),
        "outcome": outcome,
        "deltas": found.map_or(0, |found| found.deltas),
        "transactions": found.map_or(0, |found| found.transactions.len()),
    })
}

fn describe(found: &Waiting, database: &Path, output: &mut Output) -> Result<(), Failure> {
    let recovery_outcome = match found.recovery_outcome {
        RecoveryOutcome::Unknown => {
            return output.line(format!(
                "{}: no commit log that this version of litefoot understands; the database can only be read until the \
                 version that wrote it has opened it, or it is moved away (--discard --yes)",
                found.path.display()
            ));
        }
        RecoveryOutcome::Removed => {
            return output.line(format!(
                "{}: nothing waits in it; opening the database removes it",
                found.path.display()
            ));
        }
        RecoveryOutcome::Replayed if found.deltas > 0 => {
            "another user owns the log or may write it; the database can only be read until the log has the owner and the \
             mode of the database, or is moved away (--discard --yes)"
                .to_owned()
        }
        RecoveryOutcome::Replayed => format!(
            "the program that wrote them (SQLite {}) replays them when it opens the database through litefoot",
            found.written_by
        ),
        RecoveryOutcome::Applied => "opening the database through litefoot applies them, under any build of SQLite".to_owned(),
        RecoveryOutcome::Refused if found.deltas > 0 => {
            "the database was written by another program since, or copied without its time of change; it can only be read \
             until they are applied (--apply), where no other program has written it, or the log is moved away \
             (--discard --yes)"
                .to_owned()
        }
        RecoveryOutcome::Refused => {
            "the database, or its -wal, was changed by another program since; it can only be read until the \
             log is moved away (--discard --yes); --sql shows what would be missing then"
                .to_owned()
        }
    };
    if found.deltas > 0 {
        output.line(format!(
            "{}: {} committed transactions, as deltas of pages, that are not in {}",
            found.path.display(),
            grouped(found.deltas as u64),
            database.display()
        ))?;
        return output.line(format!("  {recovery_outcome}"));
    }
    let statements: usize = found.transactions.iter().map(|transaction| transaction.statements.len()).sum();
    output.line(format!(
        "{}: {} committed transactions with {} statements that are not in {}",
        found.path.display(),
        grouped(found.transactions.len() as u64),
        grouped(statements as u64),
        database.display()
    ))?;
    output.line(format!("  {recovery_outcome}"))?;
    let [first, .., last] = found.transactions.as_slice() else {
        return found
            .transactions
            .iter()
            .try_for_each(|only| output.line(format!("  it is: {}", brief(only))));
    };
    output.line(format!("  the first: {}", brief(first)))?;
    output.line(format!("  the last:  {}", brief(last)))
}

/// The first statement of a transaction, on one line that fits a terminal.
fn brief(transaction: &Transaction) -> String {
    const MOST_CHARACTERS: usize = 100;
    let first = transaction.statements.first().map_or("", String::as_str);
    let mut words = first.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MOST_CHARACTERS) {
        words.truncate(end);
        words.push('…');
    }
    match transaction.statements.len() {
        0 | 1 => printable(&words),
        count => format!("{} (and {} more)", printable(&words), count - 1),
    }
}

/// The transactions as SQL, with the settings under which they ran.
fn lines(found: &Waiting) -> impl Iterator<Item = String> {
    let mut current = None;
    found.transactions.iter().flat_map(move |transaction| {
        let wanted = (transaction.foreign_keys, transaction.recursive_triggers);
        let settings = (current.replace(wanted) != Some(wanted)).then(|| {
            let [keys, triggers] = [wanted.0, wanted.1].map(|on| if on { "ON" } else { "OFF" });
            format!("PRAGMA foreign_keys={keys}; PRAGMA recursive_triggers={triggers};")
        });
        let body = transaction.statements.iter().map(|sql| format!("{};", sql.trim_start()));
        settings
            .into_iter()
            .chain(std::iter::once("BEGIN;".to_owned()))
            .chain(body)
            .chain(std::iter::once("COMMIT;".to_owned()))
    })
}

fn export(found: &Waiting, target: &Path) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::file(target, error).advice("Name a new file to be written.");
    let mut file = BufWriter::new(File::create_new(target).map_err(fail)?);
    for line in lines(found) {
        writeln!(file, "{line}").map_err(fail)?;
    }
    file.flush().and_then(|()| file.get_ref().sync_all()).map_err(fail)
}

//! Looking at a commit log that waits beside a database, without opening the database.

use crate::capture::encoding;
use crate::capture::encoding::{Logged, Text};
use crate::db::tier;
use crate::error::{Error, Result};
use crate::ffi::statement::Value;
use crate::memory::process_budget::{BudgetShare, ShareRequest};
use crate::memory::reservation::MemoryReservation;
use crate::open::delta_recovery::data_file_at;
use crate::open::export_sql;
use crate::open::recovery::{KeepReason, RecoveryDecision};
use crate::open::take_over::{delta_decision, recovery_decision};
use crate::open::unreplayed::version_text;
use crate::sync::owner_lock;
use litefoot_storage::commit_log::{CommitLog, Record};
use litefoot_storage::file::{FileKind, Medium, OpenMode, SyncLatch, beside, parent_directory};
use litefoot_storage::wal_file::RedoLog;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The fate of a commit log when the database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// Nothing waits in it: it is removed.
    Removed,
    /// Its transactions are replayed, by the build of SQLite that wrote them.
    Replayed,
    /// Its deltas are applied, by any build.
    Applied,
    /// It is refused, and kept: somebody else has changed the database since.
    Refused,
    /// It is none that this version understands: it is refused, and kept.
    Unknown,
}

/// A commit log beside a database.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Where it lies.
    pub path: PathBuf,
    /// Its outcome when the database is opened.
    pub recovery_outcome: RecoveryOutcome,
    /// The version of the SQLite that wrote it, and that alone replays it.
    pub written_by: String,
    /// Its transactions, oldest first, where they are statements.
    pub transactions: Vec<Transaction>,
    /// Its transactions that are deltas of pages.
    pub deltas: usize,
}

/// A transaction that waits.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// True if `PRAGMA foreign_keys` was on.
    pub foreign_keys: bool,
    /// True if `PRAGMA recursive_triggers` was on.
    pub recursive_triggers: bool,
    /// Its statements, with their values in place; none ends with a semicolon or a comment.
    pub statements: Vec<String>,
}

/// The commit log of the database at `database`, if there is one; `log` names it where it does not lie
/// beside the database. Changes nothing.
///
/// # Errors
/// Those of reading, and of a transaction that cannot be understood.
pub fn waiting(medium: &Arc<dyn Medium>, database: &Path, log: Option<&Path>) -> Result<Option<Waiting>> {
    let [redo, beside] = tier::logs_of(medium, database)?;
    let path = log.map_or(beside, Path::to_owned);
    if medium.info(&path)?.is_none() {
        return Ok(None);
    }
    let latch = Arc::new(SyncLatch::new());
    let redo = RedoLog::look(medium.clone(), &redo, None)?;
    let statements = CommitLog::open(medium.clone(), &path, latch)?;
    if let Some(base) = statements.waiting_deltas() {
        let (deltas, decision) =
            delta_decision(&statements, &base, &redo, &data_file_at(medium, database, OpenMode::ReadOnly)?)?;
        return Ok(Some(Waiting {
            path,
            recovery_outcome: outcome(decision),
            written_by: String::new(),
            transactions: Vec::new(),
            deltas: deltas.map_or(0, |deltas| deltas.transactions()),
        }));
    }
    let recovery_outcome = outcome(recovery_decision(&redo, &statements, None)?);
    let records = match recovery_outcome {
        RecoveryOutcome::Replayed | RecoveryOutcome::Refused => statements.records()?,
        RecoveryOutcome::Removed | RecoveryOutcome::Applied | RecoveryOutcome::Unknown => Vec::new(),
    };
    let transactions = transactions(&records, &path)?;
    let written_by = version_text(statements.statement_base().map_or(0, |base| base.writer.version));
    Ok(Some(Waiting { path, recovery_outcome, written_by, transactions, deltas: 0 }))
}

/// The outcome of a decision for the transactions that wait. Opening as the build and the user that wrote the log is taken
/// for granted.
fn outcome(decision: RecoveryDecision) -> RecoveryOutcome {
    match decision {
        RecoveryDecision::Replay | RecoveryDecision::Keep(KeepReason::OtherBuild | KeepReason::Strangers) => {
            RecoveryOutcome::Replayed
        }
        RecoveryDecision::Apply => RecoveryOutcome::Applied,
        RecoveryDecision::Keep(KeepReason::Foreign | KeepReason::Written | KeepReason::Damaged)
        | RecoveryDecision::SetAside => RecoveryOutcome::Refused,
        RecoveryDecision::Keep(KeepReason::Unknown) => RecoveryOutcome::Unknown,
        _ => RecoveryOutcome::Removed,
    }
}

/// Applies the deltas of a log whose database has another time of change than when the log began, because both files were
/// copied. The caller vouches that nobody has written the database before that. The data file must show no change, and every
/// page must be as before the first delta. Answers how many transactions were applied; the redo log has them then, which any
/// SQLite recovers.
///
/// # Errors
/// Those of the files; that the pages are not those; [`Error::Owned`] where a process has the database open.
pub fn apply(medium: &Arc<dyn Medium>, database: &Path, waiting: &Waiting) -> Result<usize> {
    let data = data_file_at(medium, database, OpenMode::ReadWrite)?;
    owner_lock::acquire(&*data.file, true)?;
    let latch = Arc::new(SyncLatch::new());
    let [redo, _] = tier::logs_of(medium, database)?;
    let mut redo = RedoLog::open_of(medium.clone(), &redo, latch.clone(), data.clone())?;
    let mut log = CommitLog::open(medium.clone(), &waiting.path, latch)?;
    let Some(base) = log.waiting_deltas() else {
        return Err(Error::Refused(format!("{}: no deltas wait in it", waiting.path.display())));
    };
    let (found, decision) = delta_decision(&log, &base, &redo, &data)?;
    let Some(deltas) = found.filter(|_| redo.is_empty() && decision != RecoveryDecision::Remove) else {
        return Err(Error::Refused(format!(
            "{}: its deltas are not understood, are applied already, or frames wait in the -wal of the database",
            waiting.path.display()
        )));
    };
    log.sync()?;
    data.content.sync()?;
    deltas.check_before(&log, &base, &data)?;
    let share = BudgetShare::join(&ShareRequest::default());
    deltas.recover(&log, &mut redo, &*data.content, (MemoryReservation::new(&share), usize::MAX))?;
    log.delete()?;
    Ok(deltas.transactions())
}

/// Renames a commit log to a name that is free, and returns that, while nobody has the database open.
///
/// # Errors
/// Those of renaming; [`Error::Owned`] where a process has the database open.
pub fn move_away(medium: &Arc<dyn Medium>, database: &Path, waiting: &Waiting) -> Result<PathBuf> {
    let file = medium.open(database, FileKind::Database, OpenMode::ReadWrite)?;
    owner_lock::acquire(&*file, true)?;
    // Closing the file gives the database back.
    let mut number = 1;
    loop {
        let away = beside(&waiting.path, &format!(".{number}"));
        if medium.info(&away)?.is_none() {
            medium.rename(&waiting.path, &away)?;
            medium.sync_directory(parent_directory(&away))?;
            return Ok(away);
        }
        number += 1;
    }
}

/// The transactions in records, as SQL. One that cannot be told whole is an error: nobody shall take what is left
/// for everything.
fn transactions(records: &[Record], path: &Path) -> Result<Vec<Transaction>> {
    let mut texts = HashMap::new();
    let mut all = Vec::new();
    for record in records {
        match record.kind {
            encoding::TEXT => texts.extend(Text::decode(&record.payload)),
            encoding::TRANSACTION => {
                let transaction = Logged::decode(&record.payload).and_then(|logged| tell(&logged, &texts));
                all.push(transaction.ok_or_else(|| {
                    let number = all.len() + 1;
                    Error::Refused(format!(
                        "{}: transaction {number} cannot be read; was it written by a newer litefoot?",
                        path.display()
                    ))
                })?);
            }
            _ => {}
        }
    }
    Ok(all)
}

fn tell(logged: &Logged<'_>, texts: &HashMap<u64, Text>) -> Option<Transaction> {
    let settings = texts.get(&logged.statements.first()?.0)?.settings;
    let expand = |(id, values): &(u64, Vec<Value<'_>>)| Some(export_sql::expand(&texts.get(id)?.sql, values));
    Some(Transaction {
        foreign_keys: settings.foreign_keys,
        recursive_triggers: settings.recursive_triggers,
        statements: logged.statements.iter().map(expand).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;

    #[test]
    fn each_decision_has_its_outcome_for_the_transactions() {
        for (decision, expected) in [
            (RecoveryDecision::Remove, RecoveryOutcome::Removed),
            (RecoveryDecision::Replay, RecoveryOutcome::Replayed),
            (RecoveryDecision::Keep(KeepReason::OtherBuild), RecoveryOutcome::Replayed),
            (RecoveryDecision::Keep(KeepReason::Strangers), RecoveryOutcome::Replayed),
            (RecoveryDecision::Keep(KeepReason::Foreign), RecoveryOutcome::Refused),
            (RecoveryDecision::Keep(KeepReason::Unknown), RecoveryOutcome::Unknown),
        ] {
            assert_eq!(outcome(decision), expected, "{decision:?}");
        }
    }

    #[test]
    fn a_log_that_is_not_understood_waits_until_it_is_moved_away() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let (database, log) = (Path::new("/a.db"), Path::new("/a.db-commits"));
        let write = |path, kind| {
            medium.open(path, kind, OpenMode::Create).unwrap().write_at(&[7; 8192], 0).unwrap();
        };
        write(database, FileKind::Database);
        assert!(waiting(&medium, database, None).unwrap().is_none());
        write(log, FileKind::CommitLog);
        let found = waiting(&medium, database, None).unwrap().unwrap();
        assert_eq!((found.path.as_path(), found.recovery_outcome), (log, RecoveryOutcome::Unknown));
        assert!(found.transactions.is_empty());
        assert_eq!(move_away(&medium, database, &found).unwrap(), Path::new("/a.db-commits.1"));
        assert!(waiting(&medium, database, None).unwrap().is_none());
        // A name that is taken stays what it is.
        write(log, FileKind::CommitLog);
        assert_eq!(move_away(&medium, database, &found).unwrap(), Path::new("/a.db-commits.2"));
    }
}

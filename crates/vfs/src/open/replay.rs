//! Replaying statements.
//!
//! # Why
//! A log was written by litefoot, or by somebody who wants it to look like that. Each statement is examined once more as it was
//! when it was captured, on a connection that can do no more than change rows.
//!
//! # What it promises
//! 1. A statement runs only if capturing would have vouched for it.
//! 2. A transaction that does not do what it did is the last one that is run: the pages that it changed must be those that the
//!    application's had changed, byte by byte (`commit/page_vouching`). Then nothing of the replay counts.
//! 3. It ends.

use crate::capture::changed_pages::ChangedPages;
use crate::capture::encoding;
use crate::capture::encoding::{Checks, Logged, Settings, Text};
use crate::capture::is_savepoint;
use crate::capture::reference::ReferenceConnection;
use crate::commit::page_vouching::MOST_PAGES;
use crate::commit::wal::Wal;
use crate::ffi::codes::*;
use crate::ffi::connection::Connection;
use crate::ffi::statement::{Statement, Value};
use litefoot_storage::commit_log::Record;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::path::Path;
use std::sync::OnceLock;

/// Told how far replaying is: the database, transactions replayed, and transactions in all.
pub type Progress = fn(&Path, usize, usize);

static PROGRESS: OnceLock<Progress> = OnceLock::new();

/// Sets the function that is told of replaying in this process; the first one stays.
pub fn set_progress(progress: Progress) {
    let _ = PROGRESS.set(progress);
}

/// Statements that are kept prepared.
const MOST_PREPARED: usize = 256;
/// Instructions of all statements of a log together: more than run in the time for which transactions are captured
/// ([`crate::capture::encoding::MOST_TIME`]), and no more than seconds.
const MOST_INSTRUCTIONS: i64 = 200_000_000;

type Outcome<T> = Result<T, String>;

/// Transactions among the records.
pub(crate) fn transactions(records: &[Record]) -> usize {
    records.iter().filter(|record| record.kind == encoding::TRANSACTION).count()
}

pub(crate) fn execute(db: Connection, sql: &str) -> Outcome<()> {
    db.execute(sql).map_err(|code| format!("{sql}: {} ({code})", db.message()))
}

/// Runs all transactions again, in order.
pub(crate) fn replay_records(
    reference: &mut ReferenceConnection,
    records: &[Record],
    (path, wal): (&Path, &Wal),
) -> Outcome<()> {
    let all = transactions(records);
    reference.own().set_budget(MOST_INSTRUCTIONS);
    let mut replay = Replay {
        prepared: HashMap::new(),
        texts: HashMap::new(),
        changes: HashMap::new(),
        pages_left: MOST_PAGES,
        reference,
        wal,
    };
    let mut done = 0;
    for record in records {
        match record.kind {
            encoding::TEXT => {
                let (id, text) = Text::decode(&record.payload).ok_or("a text is damaged")?;
                replay.texts.insert(id, text);
            }
            encoding::TRANSACTION => {
                let logged = Logged::decode(&record.payload).ok_or("a transaction is damaged")?;
                replay.run(&logged).map_err(|what| format!("transaction {} of {all}: {what}", done + 1))?;
                done += 1;
                if let Some(progress) = PROGRESS.get() {
                    progress(path, done, all);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

struct Replay<'a> {
    /// Statements that were prepared, by the number of their text; they go before the connection.
    prepared: HashMap<u64, Statement>,
    texts: HashMap<u64, Text>,
    /// Rows changed by the transactions replayed, by number.
    changes: HashMap<u64, i32>,
    /// Pages that may still be compared.
    pages_left: u64,
    reference: &'a mut ReferenceConnection,
    wal: &'a Wal,
}

impl Replay<'_> {
    fn run(&mut self, logged: &Logged<'_>) -> Outcome<()> {
        let db = **self.reference.own();
        let first = logged.statements.first().and_then(|(id, _)| self.texts.get(id));
        self.set(first.map(|text| text.settings).ok_or("its text is missing")?)?;
        let before = db.total_changes();
        self.reference.own().freely(|db| execute(db, "BEGIN IMMEDIATE"))?;
        for (id, values) in &logged.statements {
            self.run_statement(*id, values)?;
        }
        let changes = db.total_changes().wrapping_sub(before);
        self.check(&logged.checks, changes)?;
        self.changes.insert(logged.number, changes);
        self.reference.own().freely(|db| execute(db, "COMMIT"))?;
        self.compare_pages(&logged.pages)
    }

    fn compare_pages(&mut self, logged: &ChangedPages) -> Outcome<()> {
        let left = self.pages_left.checked_sub(logged.len());
        self.pages_left = left.ok_or("it changed more pages than are logged as statements")?;
        match self.wal.difference_to(logged) {
            Ok(None) => Ok(()),
            Ok(Some(difference)) => Err(difference),
            Err(error) => Err(error.to_string()),
        }
    }

    fn set(&mut self, settings: Settings) -> Outcome<()> {
        if !self.reference.has(settings) {
            self.prepared.clear();
        }
        self.reference.apply(settings).ok_or_else(|| self.reference.own().message())
    }

    /// Prepares a text that capturing would have vouched for.
    fn prepare(reference: &mut ReferenceConnection, text: &Text) -> Outcome<Statement> {
        let sql = &text.sql;
        if sql.contains('\u{feff}') {
            return Err(format!("{sql}: it is none that would have been logged"));
        }
        if !reference.has(text.settings) {
            return Err(format!("{sql}: it is of another setting than its transaction"));
        }
        if !is_savepoint(sql) {
            match reference.examine(sql, text.settings) {
                Some(Ok(_)) => {}
                Some(Err(cause)) => {
                    return Err(format!("{sql}: it is none that would have been logged ({cause:?})"));
                }
                None => return Err(format!("{sql}: {}", reference.own().message())),
            }
        }
        let db = **reference.own();
        db.prepare(sql).map_err(|_| format!("{sql}: {}", db.message()))
    }

    /// Runs one statement to its end. A statement may fail by a constraint, after it has changed some rows, or name a
    /// savepoint that is not there. Such a failure is part of the replay.
    fn run_statement(&mut self, id: u64, values: &[Value<'_>]) -> Outcome<()> {
        let text = self.texts.get(&id).ok_or("its text is missing")?;
        if self.prepared.len() >= MOST_PREPARED {
            self.prepared.clear();
        }
        let statement = match self.prepared.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Replay::prepare(self.reference, text)?),
        };
        if statement.parameters() != values.len() {
            return Err(format!("{}: it takes {} values", text.sql, statement.parameters()));
        }
        for (number, value) in (1..).zip(values) {
            // SAFETY: the values stay where they are until the statement is run with others, or dropped.
            unsafe { statement.bind(number, *value) };
        }
        let code = loop {
            match statement.step() & 0xff {
                SQLITE_ROW => {}
                code => break code,
            }
        };
        let db = **self.reference.own();
        let outcome = if is_replayed(code, is_savepoint(&text.sql)) {
            Ok(())
        } else {
            Err(format!("{}: {} ({code})", text.sql, db.message()))
        };
        statement.reset();
        outcome
    }

    fn check(&self, checks: &Checks, changes: i32) -> Outcome<()> {
        let rowid = self.reference.own().last_insert_rowid();
        compare(checks, changes, rowid, |number| self.changes.get(&number).copied())
    }
}

/// Compares what a transaction has done with what it did: rows changed, the last rowid, and rows changed by an earlier
/// transaction.
fn compare(
    checks: &Checks,
    changes: i32,
    rowid: i64,
    earlier_changes: impl Fn(u64) -> Option<i32>,
) -> Outcome<()> {
    if let Some(expected) = checks.changes.filter(|expected| *expected != changes) {
        return Err(format!("it changed {changes} rows and not {expected}"));
    }
    if let Some(expected) = checks.rowid.filter(|expected| *expected != rowid) {
        return Err(format!("it inserted row {rowid} and not {expected}"));
    }
    if let Some((number, expected)) = checks.earlier
        && let Some(found) = earlier_changes(number)
        && found != expected
    {
        return Err(format!("an earlier one changed {found} rows and not {expected}"));
    }
    Ok(())
}

/// True if a statement that ended with this code has done what it did. A failed constraint is part of what is replayed. So
/// is the name of a savepoint that is not there: it was not there for the application either, and nothing was changed.
fn is_replayed(code: c_int, is_savepoint: bool) -> bool {
    matches!(code, SQLITE_DONE | SQLITE_CONSTRAINT) || code == SQLITE_ERROR && is_savepoint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_must_do_what_it_did() {
        let all = Checks { changes: Some(3), rowid: Some(9), earlier: Some((1, 2)) };
        for (checks, changes, rowid, earlier, wrong) in [
            (&all, 3, 9, Some(2), None),
            // An earlier transaction that is not in this log cannot be asked.
            (&all, 3, 9, None, None),
            (&all, 4, 9, Some(2), Some("changed 4 rows and not 3")),
            (&all, 3, 8, Some(2), Some("inserted row 8 and not 9")),
            (&all, 3, 9, Some(1), Some("an earlier one changed 1 rows and not 2")),
            (&Checks { changes: None, rowid: None, earlier: None }, 4, 8, Some(1), None),
        ] {
            let found = compare(checks, changes, rowid, |number| earlier.filter(|_| number == 1));
            match wrong {
                None => assert_eq!(found, Ok(())),
                Some(wrong) => assert!(found.unwrap_err().contains(wrong)),
            }
        }
    }

    #[test]
    fn a_statement_may_fail_as_it_failed() {
        for (code, is_savepoint, replayed) in [
            (SQLITE_DONE, false, true),
            (SQLITE_CONSTRAINT, false, true),
            (SQLITE_ERROR, false, false),
            (SQLITE_ERROR, true, true),
            (SQLITE_FULL, true, false),
            (SQLITE_BUSY, false, false),
        ] {
            assert_eq!(is_replayed(code, is_savepoint), replayed, "{code}");
        }
    }

    #[test]
    fn only_transactions_are_counted() {
        let kinds = [encoding::TEXT, encoding::TRANSACTION, encoding::MATERIALIZATION, encoding::TRANSACTION];
        let records = kinds.map(|kind| Record { kind, payload: Vec::new() });
        assert_eq!(transactions(&records), 2);
    }
}

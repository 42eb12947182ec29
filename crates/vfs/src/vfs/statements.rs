//! The statement log of a database that is being opened: what it is worth, and replaying it.
//!
//! | statement log | redo log | meaning | what opening does |
//! |---|---|---|---|
//! | none, or retired | any | nothing waits | removes it |
//! | in use | exactly what it builds upon | crashed before a fold, or during one | replays it, folds it |
//! | in use, by another build of SQLite | exactly what it builds upon | the same, under another program | refuses, keeps it |
//! | in use, with a fold announced | begins with the announced frames | crashed after the fold | removes it |
//! | in use | anything else | somebody else changed the database | refuses, keeps it |
//! | not understood | any | of a later version, damaged, or no statement log at all | refuses, keeps it |
//!
//! Two builds of SQLite may make something different of the same statement (how a double becomes text, whether LIKE
//! looks at blobs), so only the one that wrote a log replays it.
//!
//! Replaying writes nothing to the medium before its end; then one fold takes over everything. A crash
//! meanwhile leaves things as they were.

use super::database::Database;
use super::registry::Companion;
use crate::abi::codes::*;
use crate::abi::statement::{Db, Statement, Value};
use crate::capture::record::{self, Checks, Logged, Settings, Text};
use crate::error::{Error, Result};
use litefoot_engine::log::statement::{Record, Writer};
use litefoot_engine::log::{RedoLog, StatementLog};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::OnceLock;

/// Told how far replaying is: the database, transactions replayed, and transactions in all.
pub type Progress = fn(&Path, usize, usize);

static PROGRESS: OnceLock<Progress> = OnceLock::new();

/// Who is told of replaying in this process; the first to ask.
pub fn set_progress(progress: Progress) {
    let _ = PROGRESS.set(progress);
}

/// What a statement log is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Nothing waits in it, or everything is in the redo log.
    Nothing,
    /// It must be replayed.
    Replay,
    /// It does not belong to the database as it is.
    Foreign,
    /// It must be replayed, by the SQLite that wrote it.
    OtherBuild,
    /// It is none that this version understands.
    Unknown,
}

/// What `statements` is worth beside `redo`, for the one who would replay it; `None`: for the one who wrote it.
pub(crate) fn worth(redo: &RedoLog, statements: &StatementLog, writer: Option<Writer>) -> Result<Worth> {
    if !statements.is_understood() {
        return Ok(Worth::Unknown);
    }
    let (Some(base), false) = (statements.base(), statements.is_empty()) else { return Ok(Worth::Nothing) };
    if redo.salts() != Some(base.salts) {
        return Ok(Worth::Foreign);
    }
    if redo.frames() == base.frames {
        let is_ours = writer.is_none_or(|writer| writer == base.writer);
        return Ok(if is_ours { Worth::Replay } else { Worth::OtherBuild });
    }
    let records = statements.records()?;
    let announced = records.iter().rev().find(|record| record.kind == record::FOLD);
    let Some((frames, checksum)) = announced.and_then(|fold| record::decode_fold(&fold.payload)) else {
        return Ok(Worth::Foreign);
    };
    let folded = redo.checksum_after(frames)? == Some(checksum);
    Ok(if folded { Worth::Nothing } else { Worth::Foreign })
}

impl Database {
    /// Replays the statement log that a crash has left. No connection of the application's has seen anything of
    /// the database yet.
    pub(super) fn recover_statements(&self) -> Result<()> {
        let path = self.companion_path(Companion::Wal);
        let (medium, data) = (self.medium().clone(), self.data_file());
        let mut redo = RedoLog::open_of(medium, &path, self.latch().clone(), data)?;
        let mut statements =
            StatementLog::open(self.medium().clone(), &self.statement_path(), self.latch().clone())?;
        match worth(&redo, &statements, Some(self.writer()))? {
            Worth::Nothing => {
                // What has replaced it may be with the operating system only.
                redo.sync()?;
                self.sync()?;
                Ok(statements.delete()?)
            }
            Worth::Foreign => Err(self.foreign(&statements)),
            Worth::OtherBuild => Err(self.other_build(&statements)),
            Worth::Unknown => Err(self.unknown(&statements)),
            Worth::Replay => {
                let records = statements.records()?;
                drop((redo, statements));
                self.replay(&records)
            }
        }
    }

    fn replay(&self, records: &[Record]) -> Result<()> {
        let connection = self.own_connection()?;
        let db = connection.db();
        let result = execute(db, "PRAGMA synchronous=OFF")
            .and_then(|()| self.wal().ok_or_else(|| "its -wal cannot be used".to_owned()))
            .and_then(|wal| {
                wal.set_replaying(self, true).map_err(|error| error.to_string())?;
                db.set_autocheckpoint(0);
                replay_records(db, records, self.path())?;
                wal.set_replaying(self, false).map_err(|error| error.to_string())
            });
        drop(connection);
        result.map_err(|what| {
            // What was replayed so far is in memory only.
            self.forget_wal();
            Error::Refused(format!(
                "{}: the transactions in {} cannot be replayed: {what}; nothing was changed. Where the disk is \
                 full, make room and open the database again; `litefoot recover` shows the transactions",
                self.path().display(),
                self.statement_path().display(),
            ))
        })
    }

    fn other_build(&self, statements: &StatementLog) -> Error {
        let count = statements.records().map_or(0, |records| transactions(&records));
        let theirs = statements.base().map_or(0, |base| base.writer.version);
        Error::Refused(format!(
            "{}: {count} committed transactions wait in {} since a crash; they were written under another build of \
             SQLite ({}, this one is {}), which could make something else of them; nothing was opened or changed. \
             Open the database once with the program that wrote them; `litefoot recover {}` shows them and can \
             export them as SQL",
            self.path().display(),
            statements.path().display(),
            version_text(theirs),
            version_text(self.writer().version),
            self.path().display(),
        ))
    }

    fn unknown(&self, statements: &StatementLog) -> Error {
        Error::Refused(format!(
            "{}: {} should be the statement log and is none that this version of litefoot understands; it was \
             written by a later version, or is damaged, or is another file; nothing was opened or changed. Open \
             the database with the version that wrote it, or name another file, or, where it is of no use, move \
             it away",
            self.path().display(),
            statements.path().display(),
        ))
    }

    fn foreign(&self, statements: &StatementLog) -> Error {
        let count = statements.records().map_or(0, |records| transactions(&records));
        Error::Refused(format!(
            "{}: {} holds {count} committed transactions that are not in the database, but somebody else has \
             changed the database, or its -wal, since; nothing was opened or changed; `litefoot recover {}` \
             shows them and can export them as SQL",
            self.path().display(),
            self.statement_path().display(),
            self.path().display(),
        ))
    }
}

/// A version as people write it.
pub(crate) fn version_text(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

/// Statements that are kept prepared.
const MOST_PREPARED: usize = 256;

/// Transactions among the records.
pub(crate) fn transactions(records: &[Record]) -> usize {
    records.iter().filter(|record| record.kind == record::TRANSACTION).count()
}

fn execute(db: Db, sql: &str) -> std::result::Result<(), String> {
    db.execute(sql).map_err(|code| format!("{sql}: {} ({code})", db.message()))
}

/// Runs all transactions again, in order.
fn replay_records(db: Db, records: &[Record], path: &Path) -> std::result::Result<(), String> {
    let all = transactions(records);
    let mut replay = Replay {
        db,
        texts: HashMap::new(),
        prepared: HashMap::new(),
        changes: HashMap::new(),
        settings: None,
    };
    let mut done = 0;
    for record in records {
        match record.kind {
            record::TEXT => {
                let (id, text) = Text::decode(&record.payload).ok_or("a text is damaged")?;
                replay.texts.insert(id, text);
            }
            record::TRANSACTION => {
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

struct Replay {
    db: Db,
    texts: HashMap<u64, Text>,
    /// Statements that were prepared, by the number of their text.
    prepared: HashMap<u64, Statement>,
    /// Rows changed by the transactions replayed, by number.
    changes: HashMap<u64, i32>,
    settings: Option<Settings>,
}

impl Replay {
    fn run(&mut self, logged: &Logged<'_>) -> std::result::Result<(), String> {
        let db = self.db;
        let first = logged.statements.first().and_then(|(id, _)| self.texts.get(id));
        let settings = first.map(|text| text.settings).ok_or("its text is missing")?;
        if self.settings != Some(settings) {
            self.prepared.clear();
            crate::capture::apply(db, settings).ok_or_else(|| db.message())?;
            self.settings = Some(settings);
        }
        let before = db.total_changes();
        execute(db, "BEGIN IMMEDIATE")?;
        for (id, values) in &logged.statements {
            self.run_statement(*id, values)?;
        }
        let changes = db.total_changes().wrapping_sub(before);
        self.check(&logged.checks, changes)?;
        self.changes.insert(logged.number, changes);
        execute(db, "COMMIT")
    }

    /// Runs one statement to its end. That it fails by a constraint is part of what is replayed.
    fn run_statement(&mut self, id: u64, values: &[Value<'_>]) -> std::result::Result<(), String> {
        let db = self.db;
        let sql = &self.texts.get(&id).ok_or("its text is missing")?.sql;
        if self.prepared.len() >= MOST_PREPARED {
            self.prepared.clear();
        }
        let statement = match self.prepared.entry(id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(db.prepare(sql).map_err(|_| format!("{sql}: {}", db.message()))?)
            }
        };
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
        statement.reset();
        match code {
            SQLITE_DONE | SQLITE_CONSTRAINT | SQLITE_ERROR | SQLITE_MISMATCH | SQLITE_TOOBIG => Ok(()),
            code => Err(format!("{sql}: {} ({code})", db.message())),
        }
    }

    fn check(&self, checks: &Checks, changes: i32) -> std::result::Result<(), String> {
        if checks.changes.is_some_and(|expected| expected != changes) {
            return Err(format!("it changed {changes} rows and not {}", checks.changes.unwrap_or_default()));
        }
        let rowid = self.db.last_insert_rowid();
        if checks.rowid.is_some_and(|expected| expected != rowid) {
            return Err(format!("it inserted row {rowid} and not {}", checks.rowid.unwrap_or_default()));
        }
        if let Some((number, expected)) = checks.earlier
            && let Some(found) = self.changes.get(&number)
            && *found != expected
        {
            return Err(format!("an earlier one changed {found} rows and not {expected}"));
        }
        Ok(())
    }
}

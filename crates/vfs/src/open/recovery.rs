//! The statement log of a database that is being opened: what it is worth, and replaying it.
//!
//! | statement log | redo log | meaning | what opening does |
//! |---|---|---|---|
//! | none, or retired | any | nothing waits | removes it |
//! | in use | exactly what it builds upon | crashed before a fold, or during one | replays it, folds it |
//! | in use, by another build of SQLite | exactly what it builds upon | the same, under another program | keeps it; the database can only be read |
//! | in use, and whoever has it or may write it has no right to the database | exactly what it builds upon | perhaps made by somebody for this program to run | keeps it; the database can only be read |
//! | in use, with a fold announced | begins with the announced frames | crashed after the fold | removes it |
//! | in use | anything else | somebody else changed the database | keeps it; the database can only be read |
//! | not understood | any | of a later version, damaged, or no statement log at all | keeps it; the database can only be read |
//!
//! Two builds of SQLite may make something different of the same statement (how a double becomes text, whether LIKE
//! looks at blobs), so only the one that wrote a log replays it.
//!
//! Replaying writes nothing to the medium before its end; then one fold takes over everything. A crash
//! meanwhile leaves things as they were.

use crate::capture::encoding;
use crate::capture::reference::ReferenceConnection;
use crate::db::Companion;
use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::replay::{execute, replay_records, transactions};
use litefoot_storage::commit_log::StatementLog;
use litefoot_storage::commit_log::{Record, Writer};
use litefoot_storage::sync::Mutex;
use litefoot_storage::wal_file::RedoLog;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let announced = records.iter().rev().find(|record| record.kind == encoding::FOLD);
    let Some((frames, checksum)) = announced.and_then(|fold| encoding::decode_fold(&fold.payload)) else {
        return Ok(Worth::Foreign);
    };
    let folded = redo.checksum_after(frames)? == Some(checksum);
    Ok(if folded { Worth::Nothing } else { Worth::Foreign })
}

/// What is left to do, and was left undone, of what a crash has left.
#[derive(Default)]
pub(crate) struct Recovery {
    /// Whether a statement log may have to be replayed.
    pub(super) replay_waits: AtomicBool,
    pub(super) replaying: Mutex<()>,
    /// Why it must not be replayed: then nothing may be written.
    unreplayed: OnceLock<String>,
}

impl OpenDatabase {
    /// The process has become the owner.
    pub(super) fn take_over(&self) -> Result<()> {
        if !self.db.holds_back() {
            return self.db.refuse_marked();
        }
        self.db.open_tier()?;
        self.rollback_log.recover(&self.db)?;
        self.db.set_committed_len(self.db.data().len()?);
        for companion in [Companion::Wal, Companion::Journal] {
            let there = self.db.medium().identity(&self.db.companion_path(companion))?;
            self.db.set_alone(companion, there.is_none());
        }
        let mut waits = self.db.medium().identity(&self.db.statement_path())?.is_some();
        if waits && self.db.data().is_empty()? {
            self.db.set_statements_aside()?;
            waits = self.db.medium().identity(&self.db.statement_path())?.is_some();
        }
        self.recovery.replay_waits.store(waits, Ordering::Release);
        Ok(())
    }

    /// A statement log waits that must not be replayed, for this reason.
    pub(crate) fn set_unreplayed(&self, reason: String) {
        let _ = self.recovery.unreplayed.set(reason);
    }

    /// Refuses to write while a statement log waits that was not replayed.
    pub(crate) fn check_replayed(&self) -> Result<()> {
        self.recovery.unreplayed.get().map_or(Ok(()), |reason| Err(Error::Unreplayed(reason.clone())))
    }

    /// Replays the statement log that a crash has left. No connection of the application's has seen anything of
    /// the database yet.
    pub(crate) fn recover_statements(&self) -> Result<()> {
        let path = self.db.companion_path(Companion::Wal);
        let (medium, data) = (self.db.medium().clone(), self.db.data_file());
        let mut redo = RedoLog::open_of(medium, &path, self.db.latch().clone(), data)?;
        let mut statements =
            StatementLog::open(self.db.medium().clone(), &self.db.statement_path(), self.db.latch().clone())?;
        match worth(&redo, &statements, Some(self.db.writer()))? {
            Worth::Nothing => {
                // What has replaced it may be with the operating system only.
                redo.sync()?;
                self.db.sync()?;
                Ok(statements.delete()?)
            }
            Worth::Foreign => self.keep_from_writing(self.foreign(&statements)),
            Worth::OtherBuild => self.keep_from_writing(self.other_build(&statements)),
            Worth::Unknown => self.keep_from_writing(self.unknown(&statements)),
            Worth::Replay if statements.is_strangers(self.db.path())? => {
                self.keep_from_writing(self.strangers(&statements))
            }
            Worth::Replay => {
                let records = statements.records()?;
                drop((redo, statements));
                self.replay(&records)
            }
        }
    }

    /// The log stays, and so does what it builds upon: that can be read.
    fn keep_from_writing(&self, reason: String) -> Result<()> {
        crate::notice::tell_once(self.db.path(), "statement log", &reason);
        self.set_unreplayed(reason);
        Ok(())
    }

    fn replay(&self, records: &[Record]) -> Result<()> {
        let mut reference = ReferenceConnection::new(self.internal_connection()?);
        let result = reference
            .as_mut()
            .ok_or_else(|| {
                "this build of SQLite cannot confine what they do, or the database is not in UTF-8".to_owned()
            })
            .and_then(|reference| self.replay_on(reference, records));
        drop(reference);
        let Err(what) = result else { return Ok(()) };
        // What was replayed so far is in memory only.
        self.forget_wal();
        self.keep_from_writing(format!(
            "{}: the transactions in {} cannot be replayed: {what}; nothing was changed, and the database can only be \
             read, as it was before them. Where the disk is full, make room and open the database again; \
             `litefoot recover` shows the transactions",
            self.db.path().display(),
            self.db.statement_path().display(),
        ))
    }

    fn replay_on(
        &self,
        reference: &mut ReferenceConnection,
        records: &[Record],
    ) -> std::result::Result<(), String> {
        reference.own().freely(|db| execute(db, "PRAGMA synchronous=OFF"))?;
        let wal = self.wal().ok_or("its -wal cannot be used")?;
        wal.set_replaying(&self.db, true).map_err(|error| error.to_string())?;
        reference.own().set_autocheckpoint(0);
        replay_records(reference, records, self.db.path())?;
        wal.set_replaying(&self.db, false).map_err(|error| error.to_string())
    }

    fn other_build(&self, statements: &StatementLog) -> String {
        let count = statements.records().map_or(0, |records| transactions(&records));
        let theirs = statements.base().map_or(0, |base| base.writer.version);
        format!(
            "{}: {count} committed transactions wait in {} since a crash; they were written under another build of \
             SQLite ({}, this one is {}), which could make something else of them; nothing was changed, and the database can only be read, as it was before them. \
             Open the database once with the program that wrote them; `litefoot recover {}` shows them and can \
             export them as SQL",
            self.db.path().display(),
            statements.path().display(),
            version_text(theirs),
            version_text(self.db.writer().version),
            self.db.path().display(),
        )
    }

    fn strangers(&self, statements: &StatementLog) -> String {
        let count = statements.records().map_or(0, |records| transactions(&records));
        format!(
            "{}: {} holds {count} transactions, and another user owns it or may write it: it may have been made for this \
             program to run; nothing was changed, and the database can only be read. `litefoot recover {}` shows them. \
             Where they are yours, give that file the owner and the mode of the database; else move it away",
            self.db.path().display(),
            statements.path().display(),
            self.db.path().display(),
        )
    }

    fn unknown(&self, statements: &StatementLog) -> String {
        format!(
            "{}: {} should be the statement log and is none that this version of litefoot understands; it was \
             written by a later version, or is damaged, or is another file; nothing was changed, and the database can only be read. Open \
             the database with the version that wrote it, or name another file, or, where it is of no use, move \
             it away",
            self.db.path().display(),
            statements.path().display(),
        )
    }

    fn foreign(&self, statements: &StatementLog) -> String {
        let count = statements.records().map_or(0, |records| transactions(&records));
        format!(
            "{}: {} holds {count} committed transactions that are not in the database, but somebody else has \
             changed the database, or its -wal, since; nothing was changed, and the database can only be read; `litefoot recover {}` \
             shows them and can export them as SQL",
            self.db.path().display(),
            self.db.statement_path().display(),
            self.db.path().display(),
        )
    }
}

/// A version as people write it.
pub(crate) fn version_text(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

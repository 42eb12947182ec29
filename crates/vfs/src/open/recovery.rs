//! The commit log of a database that is being opened: what it is worth, and replaying it.
//!
//! | commit log | redo log | meaning | what opening does |
//! |---|---|---|---|
//! | none, or retired | any | nothing waits | removes it; SQLite recovers the redo log |
//! | in use | exactly what it builds upon | crashed before a materialization, or during one | replays it, materializes it |
//! | in use, by another build of SQLite | exactly what it builds upon | the same, under another program | keeps it; the database can only be read |
//! | in use, and a user who may not write the database owns it or may write it | exactly what it builds upon | perhaps made for this program to run | keeps it; the database can only be read |
//! | in use, with a materialization announced | begins with the announced frames | crashed after the materialization | removes it |
//! | in use | anything else | another program changed the database | keeps it; the database can only be read |
//! | not understood | any | of a later version, damaged, or no commit log at all | keeps it; the database can only be read |
//!
//! Two builds of SQLite may make something different of the same statement (how a double becomes text, whether LIKE
//! looks at blobs), so only the one that wrote a log replays it.
//!
//! Replaying writes nothing to the medium before its end; then one materialization takes over everything. A crash
//! meanwhile leaves things as they were.

use crate::capture::encoding;
use crate::capture::reference::ReferenceConnection;
use crate::db::Companion;
use crate::db::tier;
use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::replay::{execute, replay_records, transactions};
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::commit_log::{Record, Writer};
use litefoot_storage::sync::Mutex;
use litefoot_storage::wal_file::RedoLog;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a commit log is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryDecision {
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
pub(crate) fn recovery_decision(
    redo: &RedoLog,
    statements: &CommitLog,
    writer: Option<Writer>,
) -> Result<RecoveryDecision> {
    if !statements.is_understood() {
        return Ok(RecoveryDecision::Unknown);
    }
    let (Some(base), false) = (statements.base(), statements.is_empty()) else {
        return Ok(RecoveryDecision::Nothing);
    };
    if redo.salts() != Some(base.salts) {
        return Ok(RecoveryDecision::Foreign);
    }
    if redo.frames() == base.frames {
        let is_ours = writer.is_none_or(|writer| writer == base.writer);
        return Ok(if is_ours { RecoveryDecision::Replay } else { RecoveryDecision::OtherBuild });
    }
    let records = statements.records()?;
    let announced = records.iter().rev().find(|record| record.kind == encoding::MATERIALIZATION);
    let Some((frames, checksum)) = announced.and_then(|fold| encoding::decode_materialization(&fold.payload))
    else {
        return Ok(RecoveryDecision::Foreign);
    };
    let materialized = redo.checksum_after(frames)? == Some(checksum);
    Ok(if materialized { RecoveryDecision::Nothing } else { RecoveryDecision::Foreign })
}

/// What is left to do, and was left undone, of what a crash has left.
#[derive(Default)]
pub(crate) struct Recovery {
    /// Whether a commit log may have to be replayed.
    pub(super) replay_waits: AtomicBool,
    pub(super) replaying: Mutex<()>,
    /// Why it must not be replayed: then nothing may be written.
    unreplayed: OnceLock<String>,
}

impl OpenDatabase {
    /// The process has become the owner.
    pub(super) fn take_over(&self) -> Result<()> {
        if !self.db.holds_back() {
            return tier::refuse_marked(&self.db);
        }
        tier::open(&self.db)?;
        self.rollback_log.recover(&self.db)?;
        self.db.file_end().set_committed_len(self.db.data().len()?);
        for companion in [Companion::Wal, Companion::Journal] {
            let there = self.db.medium().identity(&self.db.companion_path(companion))?;
            self.db.companions().set_alone(companion, there.is_none());
        }
        let mut waits = self.db.medium().identity(&self.db.commit_log_path())?.is_some();
        if waits && self.db.data().is_empty()? {
            self.db.set_commit_log_aside()?;
            waits = self.db.medium().identity(&self.db.commit_log_path())?.is_some();
        }
        self.recovery.replay_waits.store(waits, Ordering::Release);
        Ok(())
    }

    /// A commit log waits that must not be replayed, for this reason.
    pub(crate) fn set_unreplayed(&self, reason: String) {
        let _ = self.recovery.unreplayed.set(reason);
    }

    /// Refuses to write while a commit log waits that was not replayed.
    pub(crate) fn check_replayed(&self) -> Result<()> {
        self.recovery.unreplayed.get().map_or(Ok(()), |reason| Err(Error::Unreplayed(reason.clone())))
    }

    /// Replays the commit log that a crash has left. No connection of the application's has seen anything of
    /// the database yet.
    pub(crate) fn recover_commit_log(&self) -> Result<()> {
        let path = self.db.companion_path(Companion::Wal);
        let (medium, data) = (self.db.medium().clone(), self.db.data_file());
        let mut redo = RedoLog::open_of(medium, &path, self.db.latch().clone(), data)?;
        let mut statements =
            CommitLog::open(self.db.medium().clone(), &self.db.commit_log_path(), self.db.latch().clone())?;
        match recovery_decision(&redo, &statements, Some(self.db.writer()))? {
            RecoveryDecision::Nothing => {
                // What has replaced it may be with the operating system only.
                redo.sync()?;
                self.db.sync()?;
                Ok(statements.delete()?)
            }
            RecoveryDecision::Foreign => self.keep_from_writing(self.foreign(&statements)),
            RecoveryDecision::OtherBuild => self.keep_from_writing(self.other_build(&statements)),
            RecoveryDecision::Unknown => self.keep_from_writing(self.unknown(&statements)),
            RecoveryDecision::Replay if statements.is_strangers(self.db.path())? => {
                self.keep_from_writing(self.strangers(&statements))
            }
            RecoveryDecision::Replay => {
                let records = statements.records()?;
                drop((redo, statements));
                self.replay(&records)
            }
        }
    }

    /// The log stays, and so does what it builds upon: that can be read.
    fn keep_from_writing(&self, reason: String) -> Result<()> {
        crate::notice::tell_once(self.db.path(), "commit log", &reason);
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
        self.reset_wal();
        self.keep_from_writing(format!(
            "{}: the transactions in {} cannot be replayed: {what}; nothing was changed, and the database can only be \
             read, as it was before them. Where the disk is full, make room and open the database again; \
             `litefoot recover` shows the transactions",
            self.db.path().display(),
            self.db.commit_log_path().display(),
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

    fn other_build(&self, statements: &CommitLog) -> String {
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

    fn strangers(&self, statements: &CommitLog) -> String {
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

    fn unknown(&self, statements: &CommitLog) -> String {
        format!(
            "{}: {} should be the commit log and is none that this version of litefoot understands; it was \
             written by a later version, or is damaged, or is another file; nothing was changed, and the database can only be read. Open \
             the database with the version that wrote it, or name another file, or, where it is of no use, move \
             it away",
            self.db.path().display(),
            statements.path().display(),
        )
    }

    fn foreign(&self, statements: &CommitLog) -> String {
        let count = statements.records().map_or(0, |records| transactions(&records));
        format!(
            "{}: {} holds {count} committed transactions that are not in the database, but somebody else has \
             changed the database, or its -wal, since; nothing was changed, and the database can only be read; `litefoot recover {}` \
             shows them and can export them as SQL",
            self.db.path().display(),
            self.db.commit_log_path().display(),
            self.db.path().display(),
        )
    }
}

/// A version as people write it.
pub(crate) fn version_text(number: u32) -> String {
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

//! Taking a database over: opening it as the last owner, or a crash, has left it.
//!
//! # Order
//! The first lock finds the tier, then finishes the redo log, then looks for a commit log. Deltas of a database that is not in
//! WAL mode are recovered then. Any other commit log waits for the first read, since replaying needs a connection. Each step gathers its facts and does what
//! [`recovery`](super::recovery) decides.
//!
//! # Invariants
//! No connection of the application's has seen anything of the database before the last step.

use crate::capture::encoding;
use crate::capture::reference::ReferenceConnection;
use crate::commit::log_place::set_commit_log_aside;
use crate::commit::page_one::{is_wal_mode, says_wal_mode};
use crate::commit::rollback_checkpoint::copy_in_place;
use crate::commit::rollback_log::RollbackRedoLog;
use crate::db::companions::has_real_journal;
use crate::db::durable_names::settle_void_journal;
use crate::db::tier::refused;
use crate::db::{Companion, Db};
use crate::error::{Error, Result};
use crate::memory::reservation::MemoryReservation;
use crate::open::OpenDatabase;
use crate::open::delta_recovery::WaitingDeltas;
use crate::open::recovery::{
    BeginningFacts, CommitLogFacts, Facts, FoundRedoLog, KeepReason, RecoveryDecision, RedoLogFacts, decide,
};
use crate::open::replay::{execute, replay_records};
use crate::open::{open_tier, unreplayed};
use crate::sync::shm_file::remove_orphan;
use litefoot_storage::commit_log::{Base, CommitLog, DeltaBase, Record, Writer, base_at};
use litefoot_storage::log_file::is_in_use;
use litefoot_storage::sync::Mutex;
use litefoot_storage::wal_file::RedoLog;
use litefoot_storage::wal_file::origin::DataFile;
use litefoot_tier::tier_of;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far the recovery of a database is.
#[derive(Default)]
pub(crate) struct Recovery {
    /// True if a commit log may have to be replayed.
    pub(super) replay_waits: AtomicBool,
    /// Held by the one thread that replays.
    replaying: Mutex<()>,
    /// Why the commit log must not be replayed: then nothing may be written.
    unreplayed: OnceLock<String>,
}

impl Recovery {
    /// Refuses to write while a commit log waits that was not replayed.
    pub(crate) fn check_replayed(&self) -> Result<()> {
        self.unreplayed.get().map_or(Ok(()), |reason| Err(Error::Unreplayed(reason.clone())))
    }

    /// Keeps the log, and what it builds upon: from now on that can only be read.
    fn keep_from_writing(&self, db: &Db, reason: String) -> Result<()> {
        crate::notice::tell_once(db.path(), "commit log", &reason);
        let _ = self.unreplayed.set(reason);
        Ok(())
    }
}

/// The process has become the owner: finds the tier, finishes the redo log, and looks for a commit log.
pub(super) fn take_over(database: &OpenDatabase) -> Result<()> {
    let db = &database.db;
    if !db.holds_back() {
        return open_tier::refuse_marked(database);
    }
    open_tier::open(db)?;
    // Before the log changes.
    remove_orphan(&**db.medium(), &db.companion_path(Companion::WalIndex))?;
    finish_redo_log(db, &database.rollback_log, database.succeeds())?;
    let commit_log = is_there(db)?;
    let empty_database = commit_log && db.data().is_empty()?;
    let waits = match decide(&Facts::Beginning(BeginningFacts { commit_log, empty_database })) {
        RecoveryDecision::SetAside => {
            set_commit_log_aside(db)?;
            is_there(db)?
        }
        decision => decision == RecoveryDecision::LookInto && look_into(database)?,
    };
    database.recovery.replay_waits.store(waits, Ordering::Release);
    // What recovery leaves: a database that its deltas take into WAL mode has a log now.
    db.file_end().set_committed_len(db.data().len()?);
    let lies_there =
        |companion| Ok::<_, Error>(db.medium().identity(&db.companion_path(companion))?.is_some());
    let is_kept = lies_there(Companion::Journal)? && database.rollback_log.find_kept_journal(db);
    // One that a process has left which used the database beside others, or in the mode TRUNCATE or PERSIST.
    if !is_kept {
        settle_void_journal(db)?;
    }
    db.companions().set_alone(Companion::Journal, is_kept || !lies_there(Companion::Journal)?);
    db.companions().set_alone(Companion::Wal, !lies_there(Companion::Wal)?);
    Ok(())
}

/// True if there is a commit log.
fn is_there(db: &Db) -> Result<bool> {
    Ok(db.medium().identity(&db.commit_log_path())?.is_some())
}

/// Looks into a commit log; `false` where nothing of it waits for the first read.
///
/// The deltas of a database that is not in WAL mode are recovered now, before anybody has read: their pages go to the redo
/// log, and from there to the database file.
fn look_into(database: &OpenDatabase) -> Result<bool> {
    let db = &database.db;
    let log = match CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone()) {
        Ok(log) => log,
        Err(error) if is_in_use(&error) => return is_ours_in_use(db),
        Err(error) => return Err(error.into()),
    };
    let Some(base) = log.waiting_deltas() else { return Ok(true) };
    let path = db.companion_path(Companion::Wal);
    let mut redo = RedoLog::open_of(db.medium().clone(), &path, db.latch().clone(), db.data_file())?;
    if is_wal_mode(db, &redo)? {
        return Ok(true);
    }
    recover_deltas(&database.recovery, db, &mut redo, log, &base)?;
    drop(redo);
    finish_redo_log(db, &database.rollback_log, false)?;
    is_there(db)
}

/// A commit log is in use: `false` where that is by a program that has an older file of this name open, or nothing waits.
///
/// # Errors
/// `Busy` while another process looks at what waits for this database.
fn is_ours_in_use(db: &Db) -> Result<bool> {
    match base_at(&**db.medium(), &db.commit_log_path())? {
        None => Ok(false),
        Some(Base::Deltas(base)) if !base.origin.is_of(db.file())? => Ok(false),
        Some(_) => Err(Error::Busy),
    }
}

/// Finishes what a crash has left in the redo log: copies its pages to the database file. The log of a database in WAL
/// mode is left to SQLite, unless that is too large. Snapshots may build upon one that is inherited.
pub(crate) fn finish_redo_log(db: &Db, log: &RollbackRedoLog, is_inherited: bool) -> Result<()> {
    let path = db.companion_path(Companion::Wal);
    if db.medium().info(&path)?.is_none_or(|info| !info.is_file) {
        return Ok(());
    }
    let found = log.find(db)?;
    let wal_mode = found.as_ref().map_or(Ok(false), |redo| is_wal_mode(db, redo))?;
    let hot_journal = found.is_some() && !wal_mode && has_real_journal(db)?;
    let is_too_large = |redo: &RedoLog| redo.bytes() > db.memory().wal_bytes() as u64;
    let too_large = wal_mode && !is_inherited && found.as_ref().is_some_and(is_too_large) && !is_there(db)?;
    let facts = RedoLogFacts { ours: found.is_some(), wal_mode, too_large, hot_journal };
    let (Some(mut redo), RecoveryDecision::CopyHome) = (found, decide(&Facts::RedoLog(facts))) else {
        return Ok(());
    };
    copy_log_home(db, &mut redo)
}

/// Copies the pages of a redo log to the database file, durably, and removes the log.
pub(super) fn copy_log_home(db: &Db, redo: &mut RedoLog) -> Result<()> {
    if !redo.is_empty() {
        // The process that wrote it may have died before its last frames were durable.
        redo.sync()?;
        let numbers: Vec<u32> = redo.page_numbers().collect();
        copy_in_place(db, redo, None, &numbers)?;
    }
    // Also where the log was void: the process that voided it may have left the database file unsynced.
    db.sync()?;
    Ok(redo.delete()?)
}

/// Replays the commit log, unless another thread has.
#[cold]
pub(super) fn replay_once(database: &OpenDatabase) -> Result<()> {
    let recovery = &database.recovery;
    let _one = recovery.replaying.lock();
    if recovery.replay_waits.load(Ordering::Acquire) {
        recover_commit_log(database)?;
        recovery.replay_waits.store(false, Ordering::Release);
    }
    Ok(())
}

/// Ends a recovery, where that needs no SQLite. No connection has read anything yet.
///
/// # Errors
/// `Busy` where statements wait; [`Error::Unreplayed`] where a log is kept, so that nothing may be written.
pub(super) fn complete(database: &OpenDatabase) -> Result<()> {
    complete_deltas(database)?;
    database.recovery.check_replayed()
}

/// The same; where a log is kept, the database can be read.
///
/// # Errors
/// `Busy` where statements wait.
pub(super) fn complete_deltas(database: &OpenDatabase) -> Result<()> {
    let recovery = &database.recovery;
    let _one = recovery.replaying.lock();
    if recovery.replay_waits.load(Ordering::Acquire) {
        let base = base_at(&**database.db.medium(), &database.db.commit_log_path())?;
        if let Some(Base::Statements(_)) = base {
            return Err(Error::Busy);
        }
        recover_commit_log(database)?;
        recovery.replay_waits.store(false, Ordering::Release);
    }
    Ok(())
}

/// True if there is a commit log in use.
pub(super) fn has_commit_log(database: &OpenDatabase) -> Result<bool> {
    let db = &database.db;
    Ok(is_there(db)? && base_at(&**db.medium(), &db.commit_log_path())?.is_some())
}

/// Removes a commit log in which nothing waits, for good: it knows nothing of what others commit from now on.
pub(super) fn remove_commit_log(db: &Db) -> Result<()> {
    if !is_there(db)? {
        return Ok(());
    }
    match CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone()) {
        Ok(mut log) => Ok(log.delete()?),
        // At a place of its own it is another database's.
        Err(error) if is_in_use(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// True if commits wait beside a database for litefoot to recover, or chunks on its tier: stock SQLite would not see them.
pub(super) fn waits_for_recovery(database: &OpenDatabase) -> Result<bool> {
    let db = &database.db;
    if has_commit_log(database)? || tier_of(db.file()).map_err(refused)?.is_some() {
        return Ok(true);
    }
    // The redo log of a database that is not in WAL mode.
    let has_log = db.medium().glance(&db.companion_path(Companion::Wal))?.is_some_and(|(_, len)| len > 0);
    Ok(has_log && !says_wal_mode(db)?)
}

/// Does with the commit log what is to be done.
fn recover_commit_log(database: &OpenDatabase) -> Result<()> {
    let db = &database.db;
    let path = db.companion_path(Companion::Wal);
    let mut redo = RedoLog::open_of(db.medium().clone(), &path, db.latch().clone(), db.data_file())?;
    let mut log = CommitLog::open(db.medium().clone(), &db.commit_log_path(), db.latch().clone())?;
    if let Some(base) = log.waiting_deltas() {
        return recover_deltas(&database.recovery, db, &mut redo, log, &base);
    }
    match recovery_decision(&redo, &log, Some((db.writer(), db.path())))? {
        RecoveryDecision::Remove => {
            // The pages that have replaced it may be with the operating system only.
            redo.sync()?;
            db.sync()?;
            Ok(log.delete()?)
        }
        RecoveryDecision::Keep(reason) => {
            database.recovery.keep_from_writing(db, unreplayed::message(db, &log, reason))
        }
        _ => {
            let records = log.records()?;
            drop((redo, log));
            replay(database, &records)
        }
    }
}

/// Does with a commit log of deltas what is to be done.
pub(crate) fn recover_deltas(
    recovery: &Recovery,
    db: &Db,
    redo: &mut RedoLog,
    mut log: CommitLog,
    base: &DeltaBase,
) -> Result<()> {
    let (waiting, decision) = delta_decision(&log, base, redo, &db.data_file())?;
    match (decision, waiting) {
        (RecoveryDecision::Remove, _) => {
            redo.sync()?;
            db.sync()?;
            Ok(log.delete()?)
        }
        (RecoveryDecision::Apply, Some(waiting)) => {
            // The writer may have died before its last record was durable, and this one shows it.
            log.sync()?;
            let memory = (MemoryReservation::new(db.memory().share()), db.memory().wal_bytes());
            waiting.recover(&log, redo, &**db.data(), memory)?;
            Ok(log.delete()?)
        }
        (RecoveryDecision::SetAside, _) => {
            drop(log);
            set_commit_log_aside(db)
        }
        (RecoveryDecision::Keep(reason), waiting) => {
            let count = waiting.map_or(0, |waiting| waiting.transactions());
            recovery.keep_from_writing(db, unreplayed::deltas(db, &log, reason, count))
        }
        _ => Ok(()),
    }
}

/// The transactions that wait as deltas, where they are understood, and the decision on them.
pub(crate) fn delta_decision(
    log: &CommitLog,
    base: &DeltaBase,
    redo: &RedoLog,
    data: &DataFile,
) -> Result<(Option<WaitingDeltas>, RecoveryDecision)> {
    let Some(waiting) = WaitingDeltas::of(log)? else {
        return Ok((None, RecoveryDecision::Keep(KeepReason::Unknown)));
    };
    let facts = waiting.facts(log, base, redo, data)?;
    Ok((Some(waiting), decide(&Facts::Deltas(facts))))
}

/// The decision on a commit log beside a redo log. `replayer` is the build of SQLite that opens the database, and the
/// database's path. `None` stands for the build that wrote the log.
pub(crate) fn recovery_decision(
    redo: &RedoLog,
    log: &CommitLog,
    replayer: Option<(Writer, &Path)>,
) -> Result<RecoveryDecision> {
    let mut facts = CommitLogFacts {
        understood: log.is_understood(),
        in_use: false,
        redo_log: FoundRedoLog::Changed,
        other_build: false,
        strangers: false,
    };
    // Texts alone are what a power cut has left of the first transactions, which nobody was told of.
    if let (true, Some(base), true) = (facts.understood, log.statement_base(), has_transactions(log)?) {
        facts.in_use = true;
        facts.redo_log = if redo.salts() != Some(base.salts) {
            FoundRedoLog::Changed
        } else if redo.frames() == base.frames {
            FoundRedoLog::AsBuiltUpon
        } else {
            materialized(redo, &log.records()?)?
        };
        if let (FoundRedoLog::AsBuiltUpon, Some((writer, path))) = (facts.redo_log, replayer) {
            facts.other_build = writer != base.writer;
            facts.strangers = !facts.other_build && log.is_strangers(path)?;
        }
    }
    Ok(decide(&Facts::CommitLog(facts)))
}

/// True if transactions wait in a log of statements.
fn has_transactions(log: &CommitLog) -> Result<bool> {
    let mut found = false;
    log.for_each_record(|kind, _| found |= kind == encoding::TRANSACTION)?;
    Ok(found)
}

/// Compares a redo log that the commit log does not build upon with the frames that its records announce.
fn materialized(redo: &RedoLog, records: &[Record]) -> Result<FoundRedoLog> {
    let announced = records.iter().rev().find(|record| record.kind == encoding::MATERIALIZATION);
    let announced = announced.and_then(|record| encoding::decode_materialization(&record.payload));
    let Some((frames, checksum)) = announced else { return Ok(FoundRedoLog::Changed) };
    let is_there = redo.checksum_after(frames)? == Some(checksum);
    Ok(if is_there { FoundRedoLog::Materialized } else { FoundRedoLog::Changed })
}

fn replay(database: &OpenDatabase, records: &[Record]) -> Result<()> {
    let mut reference = ReferenceConnection::new(database.internal_connection()?);
    let result = reference
        .as_mut()
        .ok_or_else(|| {
            "this build of SQLite cannot confine what they do, or the database is not in UTF-8".to_owned()
        })
        .and_then(|reference| replay_on(database, reference, records));
    drop(reference);
    let Err(what) = result else { return Ok(()) };
    // All that was replayed so far is in memory only.
    database.reset_wal();
    database.recovery.keep_from_writing(&database.db, unreplayed::failed(&database.db, &what))
}

fn replay_on(
    database: &OpenDatabase,
    reference: &mut ReferenceConnection,
    records: &[Record],
) -> std::result::Result<(), String> {
    let db = &database.db;
    reference.own().freely(|connection| execute(connection, "PRAGMA synchronous=OFF"))?;
    let wal = database.wal().ok_or("its -wal cannot be used")?;
    wal.set_replaying(db, true).map_err(|error| error.to_string())?;
    reference.own().set_autocheckpoint(0);
    replay_records(reference, records, (db.path(), &wal))?;
    wal.set_replaying(db, false).map_err(|error| error.to_string())
}

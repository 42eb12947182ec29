//! A database whose hot chunks live on a fast device (options `tier`, `tier_size`, `tier_policy`).
//!
//! # How it fits together
//! From the moment this process owns the database, a [`TieredFile`] takes the place of the database file for reading
//! and writing. The lock and the identity stay those of the flash file. The file is *marked* while chunks are away, and
//! stock SQLite refuses it. SQLite plays back what lies beside a database before it looks at the database's first
//! bytes, so the logs must not lie there then.
//!
//! # Invariants
//! 1. The redo log and the commit log lie beside the device exactly while the file is marked, and beside the database
//!    otherwise. The option `commit_log_path` names one place of the commit log for both.
//! 2. They change places only while neither is there. The file is marked, durably, before the first log is written, and
//!    both logs are removed, durably, before the mark goes.
//! 3. A rollback journal that may be hot lies beside a file without a mark only: a transaction over several databases
//!    brings everything home first. So does one that begins in a journal which was kept from there.
//!
//! # Beside other processes
//! While a database is multi-process its tier is lent (`lend`): the file is plain, and the device free. Everything was
//! brought home before, which takes as long as the chunks on the device do.
//!
//! # Closing
//! The last connection that closes removes the logs and brings everything home. A log stays if a checkpoint failed, or
//! if SQLite was told to make none. Then the file stays marked, and the next process that opens it goes on.
//!
//! # Failure
//! The device is under the latch of the database. Once the device has failed, the database is read-only, and chunks
//! that live only on the device cannot be read.

use crate::db::companions::has_real_journal;
use crate::db::{Companion, Db};
use crate::error::{Error, Result};
use crate::stats::Stats;
use litefoot_storage::commit_log::CommitLog;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Operation, beside, parent_directory};
use litefoot_storage::wal_file::RedoLog;
use litefoot_tier::{self as tier, CHUNK_BYTES, TieredFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slots whose writes are sorted with every sync; those of a larger device are told by itself (`litefoot tier stat`).
const MOST_SORTED: u32 = 16 << 10;

/// The tiered file of a database.
pub(crate) struct Tier {
    tiered: Arc<TieredFile>,
    file: Arc<dyn File>,
    /// True if the file is marked, and the logs lie beside the device.
    marked: AtomicBool,
}

impl Tier {
    /// The file that all reads and writes go to.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Gives the device back, although a read ahead may still hold the file.
    pub fn close(&self) {
        self.tiered.close();
    }

    /// True if the logs lie beside the device.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Acquire)
    }
}

/// Where the logs of a tiered database lie: the redo log and the commit log.
pub fn logs_beside(device: &Path) -> [PathBuf; 2] {
    [redo_log_companion(device), Companion::CommitLog.of(device)]
}

/// Where the redo log lies. SQLite knows no such name.
pub(crate) fn redo_log_companion(device: &Path) -> PathBuf {
    beside(device, "-redo")
}

/// Takes the tier out of a database that is closed.
pub(crate) fn take(db: &mut Db) -> Option<Tier> {
    db.tier.take()
}

/// True while this process has the device, and so must keep others from the file.
pub(crate) fn is_in_use(db: &Db) -> bool {
    db.tier().is_some_and(|tier| !tier.tiered.is_lent())
}

/// Brings everything home, and gives the device back: the file is anybody's, as far as the tier goes. The caller has removed the
/// redo log, and nobody writes.
pub(crate) fn lend(db: &Db) -> Result<()> {
    let Some(tier) = db.tier() else { return Ok(()) };
    come_home(db)?;
    tier.tiered.lend()?;
    note_figures(db);
    Ok(())
}

/// Takes a tier back that was lent; `false` where there is none. This process owns the file.
pub(crate) fn take_back(db: &Db, marked: bool) -> Result<bool> {
    let Some(tier) = db.tier() else { return Ok(false) };
    tier.tiered.take_back().map_err(refused)?;
    if !marked {
        tier.tiered.stay();
    }
    tier.marked.store(marked, Ordering::Release);
    note_figures(db);
    Ok(true)
}

/// The database uses this tier from now on.
pub(crate) fn set(db: &Db, tiered: Arc<TieredFile>, marked: bool) {
    let _ = db.tier.set(Tier { file: tiered.clone(), tiered, marked: AtomicBool::new(marked) });
    note_figures(db);
}

/// True if the logs should move to the tier as soon as they can.
pub(crate) fn is_awaited(db: &Db) -> bool {
    db.tier().is_some_and(|tier| !tier.is_marked())
}

/// True if the logs wait for the file to be longer: what is marked has a chunk at least.
pub(crate) fn awaits_length(db: &Db, len: u64) -> bool {
    len < CHUNK_BYTES as u64 && is_awaited(db)
}

/// A commit that went to a log has changed these pages: tells the policy, which moves their chunks with the next checkpoint.
pub(crate) fn note_commit(db: &Db, page_numbers: impl Iterator<Item = u32>, page_bytes: usize) {
    if let Some(tier) = db.tier() {
        tier.tiered.note_commit(page_numbers, page_bytes);
    }
}

/// Marks the file, so that logs may lie beside the device from now on; answers whether they do. The caller has
/// none open, and everything that was committed is in the file.
pub(crate) fn mark(db: &Db) -> Result<bool> {
    let Some(tier) = db.tier() else { return Ok(false) };
    if tier.is_marked() {
        return Ok(true);
    }
    db.latch().check(db.path())?;
    if tier.file.len()? < CHUNK_BYTES as u64 || has_real_journal(db)? || !remove_empty_logs(db)? {
        return Ok(false);
    }
    // A journal that is finished, and a log that is gone, must not come back beside a marked file.
    let (medium, journal) = (db.medium(), db.companion_path(Companion::Journal));
    if medium.info(&journal)?.is_some() {
        let journal = medium.open(&journal, FileKind::Journal, OpenMode::ReadWrite)?;
        db.latch().watch(journal.sync())?;
    }
    db.latch().watch(medium.sync_directory(parent_directory(db.path())))?;
    let marked = tier.tiered.leave()?;
    tier.marked.store(marked, Ordering::Release);
    note_figures(db);
    Ok(marked)
}

/// Removes logs beside the database in which nothing waits; answers whether there are none now.
fn remove_empty_logs(db: &Db) -> Result<bool> {
    let (medium, latch) = (db.medium(), db.latch());
    let redo = db.companion_path(Companion::Wal);
    if medium.info(&redo)?.is_some() {
        let mut redo = RedoLog::open(medium.clone(), &redo, latch.clone())?;
        if !redo.is_empty() || !redo.is_understood() {
            return Ok(false);
        }
        redo.delete()?;
    }
    if db.options().commit_log_path.is_some() {
        return Ok(!commit_log_waits(db)?);
    }
    let statements = db.commit_log_path();
    if medium.info(&statements)?.is_some() {
        let mut statements = CommitLog::open(medium.clone(), &statements, latch.clone())?;
        if !statements.is_understood() || !statements.is_empty() {
            return Ok(false);
        }
        statements.delete()?;
    }
    Ok(true)
}

/// Brings everything home: the file is plain, and journals may lie beside it. The caller has removed the redo
/// log, and nobody writes.
pub(crate) fn come_home(db: &Db) -> Result<()> {
    let Some(tier) = db.tier().filter(|tier| tier.is_marked()) else { return Ok(()) };
    if has_logs(db)? {
        return Err(Error::Io(format!(
            "{}: the logs beside its tier device are still in use",
            db.path().display()
        )));
    }
    // Chunks that leave of themselves afterwards would mark the file.
    tier.tiered.stay();
    tier.tiered.drain()?;
    tier.marked.store(false, Ordering::Release);
    // The length that a marked file could not be cut to. Should that be lost, the file is longer than its header says, which
    // SQLite bears with. The pages that a transaction has written behind the end is cut off, or kept, by its own end.
    let len = db.file_len()?;
    if len < tier.file.len()? && len < CHUNK_BYTES as u64 && !db.file_end().is_written_behind() {
        tier.file.set_len(len)?;
    }
    note_figures(db);
    Ok(())
}

/// True if a log is there that would have to move.
fn has_logs(db: &Db) -> Result<bool> {
    let there = |path: &Path| Ok(db.medium().info(path)?.is_some());
    if there(&db.companion_path(Companion::Wal))? {
        return Ok(true);
    }
    if db.options().commit_log_path.is_some() { commit_log_waits(db) } else { there(&db.commit_log_path()) }
}

/// True if transactions wait in the commit log that the option `commit_log_path` names, which may be another database's.
fn commit_log_waits(db: &Db) -> Result<bool> {
    let path = db.commit_log_path();
    if db.medium().info(&path)?.is_none() {
        return Ok(false);
    }
    match CommitLog::open(db.medium().clone(), &path, db.latch().clone()) {
        Ok(statements) => Ok(!statements.is_understood() || !statements.is_empty()),
        Err(error) if error.operation == Operation::Lock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The last handle was closed, and nobody can lock the database meanwhile: brings everything home, where no
/// log needs to stay.
pub(crate) fn close(db: &Db) -> Result<()> {
    match db.tier() {
        Some(tier) if tier.is_marked() && !has_logs(db)? => come_home(db),
        _ => Ok(()),
    }
}

/// The length that the file is cut to: a marked one keeps its first chunk.
pub(crate) fn least_len(db: &Db, len: u64) -> u64 {
    match db.tier() {
        Some(tier) if tier.is_marked() => len.max(CHUNK_BYTES as u64),
        _ => len,
    }
}

/// Shows what the tier has done.
pub(crate) fn note_figures(db: &Db) {
    let Some(tier) = db.tier() else { return };
    let (stats, seen) = (db.counters(), tier.tiered.activity());
    if seen.slots <= MOST_SORTED {
        let (least, median, most) = tier.tiered.statistics().wear();
        Stats::set(&stats.tier_least_slot_writes, least);
        Stats::set(&stats.tier_median_slot_writes, median);
        Stats::set(&stats.tier_most_slot_writes, most);
    }
    for (place, value) in [
        (&stats.tier_slots, u64::from(seen.slots)),
        (&stats.tier_away, seen.away as u64),
        (&stats.tier_moved_in, seen.moved_in),
        (&stats.tier_moved_home, seen.moved_home),
        (&stats.tier_changed_slot, seen.changed_slot),
        (&stats.tier_drains, seen.drains),
    ] {
        Stats::set(place, value);
    }
}

pub(crate) fn refused(error: tier::Error) -> Error {
    match error {
        tier::Error::Device(error) => Error::Device(error),
        other => Error::Refused(other.to_string()),
    }
}

/// Where the redo log and the commit log of a database lie, as its file says.
pub(crate) fn logs_of(medium: &Arc<dyn Medium>, database: &Path) -> Result<[PathBuf; 2]> {
    let flash = medium.open(database, FileKind::Database, OpenMode::ReadOnly)?;
    Ok(match tier::tier_of(&*flash).map_err(refused)? {
        Some(device) => logs_beside(&device),
        None => [Companion::Wal.of(database), Companion::CommitLog.of(database)],
    })
}

//! Opening the tier of a database.
//!
//! # What it promises
//! Nothing is changed where opening is refused. The cases are in [`recovery`](super::recovery); the device itself may be
//! refused, too: see the table of [`litefoot_tier`].

use crate::db::companions::has_real_journal;
use crate::db::tier::{self, Tier, logs_beside, refused};
use crate::db::{Companion, Db};
use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::recovery::{Facts, RecoveryDecision, TierFacts, decide};
use crate::open::take_over::copy_log_home;
use litefoot_storage::file::FileKind;
use litefoot_storage::wal_file::RedoLog;
use litefoot_tier::{Config, TieredFile, Transactions, Whereabouts, look, tier_of};
use std::path::{Path, PathBuf};

/// Takes over the tier, or finds that there must be one. The caller owns the file.
pub(super) fn open(db: &Db) -> Result<()> {
    if tier::is_in_use(db) {
        return Ok(());
    }
    let recorded = tier_of(db.file()).map_err(refused)?;
    let marked = recorded.is_some();
    let mut facts = TierFacts {
        option: db.options().tier.is_some(),
        marked,
        anothers_device: false,
        misplaced_log: false,
    };
    let mut misplaced = None;
    if let Some(device) = &db.options().tier {
        check_is_file(db, device)?;
        facts.anothers_device = !marked && is_anothers(db, device);
        if !facts.anothers_device {
            misplaced = misplaced_log(db, device, marked)?;
        }
        facts.misplaced_log = misplaced.is_some();
    }
    match (decide(&Facts::Tier(facts)), &db.options().tier, recorded, misplaced) {
        (RecoveryDecision::OpenTier, Some(device), ..) => take(db, device, marked),
        (RecoveryDecision::NameTheTier, _, Some(recorded), _) => Err(needs_tier(db, &recorded)),
        (RecoveryDecision::RefuseOtherTime, _, _, Some(log)) => Err(other_time(db, &log)),
        _ => Ok(()),
    }
}

/// Brings everything home, and gives the device back: the next ones find a plain file of stock SQLite's. This process has the owner
/// lock, and nothing in memory counts.
pub(super) fn lend(db: &Db) -> Result<()> {
    if db.tier().is_some_and(Tier::is_marked) {
        // Beside the device nobody would find it.
        let path = db.companion_path(Companion::Wal);
        if db.medium().info(&path)?.is_some() {
            let mut redo = RedoLog::open_of(db.medium().clone(), &path, db.latch().clone(), db.data_file())?;
            copy_log_home(db, &mut redo)?;
        }
    }
    tier::lend(db)
}

fn take(db: &Db, device: &Path, marked: bool) -> Result<()> {
    if tier::take_back(db, marked)? {
        return Ok(());
    }
    let options = db.options();
    let config = Config {
        bytes: options.tier_size as u64,
        kind: options.tier_policy,
        transactions: Transactions::Told,
        latencies: options.tier_latencies,
        ..Config::default()
    };
    let flash = db.metered(db.data_file().file, FileKind::Database);
    let tiered = TieredFile::open_guarded(flash, db.medium(), device, &config, db.latch().clone());
    let tiered = tiered.map_err(refused)?;
    if !marked {
        tiered.stay();
    }
    tier::set(db, tiered, marked);
    Ok(())
}

/// Refuses a marked file that cannot be written: it can have no tier.
pub(super) fn refuse_marked(database: &OpenDatabase) -> Result<()> {
    let db = &database.db;
    match tier_of(db.file()).map_err(refused)? {
        Some(_) if database.host.is_some() => Err(Error::Refused(format!(
            "{}: parts of it live on a tier device; it cannot be read without write permission",
            db.path().display()
        ))),
        _ => Ok(()),
    }
}

fn needs_tier(db: &Db, recorded: &Path) -> Error {
    let (name, recorded) = (db.path().display(), recorded.display());
    Error::Refused(format!(
        "{name}: parts of it live on the tier device {recorded}: open it with tier={recorded}, or bring them \
         home with `litefoot tier drain {name}`; nothing was changed"
    ))
}

fn other_time(db: &Db, log: &Path) -> Error {
    Error::Refused(format!(
        "{}: the log {} is of another time than the file: one of them was copied or restored without \
         the other; nothing was changed. Restore what belongs together, or move the log away",
        db.path().display(),
        log.display()
    ))
}

fn check_is_file(db: &Db, device: &Path) -> Result<()> {
    if db.medium().info(device)?.is_some_and(|info| !info.is_file) {
        return Err(Error::Refused(format!(
            "{}: the tier must be a file; name one on a file system of the fast device",
            device.display()
        )));
    }
    Ok(())
}

/// True if a device has chunks of another database.
fn is_anothers(db: &Db, device: &Path) -> bool {
    let device = look(db.medium(), device).ok().flatten();
    device.is_some_and(|seen| seen.whereabouts != Whereabouts::Home && !seen.names(db.path()))
}

/// A log, or a hot journal, where it can only be of another time than the file.
fn misplaced_log(db: &Db, device: &Path, marked: bool) -> Result<Option<PathBuf>> {
    let in_the_way = if marked {
        let mut ours = vec![Companion::Wal.of(db.path())];
        if db.options().commit_log_path.is_none() {
            ours.push(Companion::CommitLog.of(db.path()));
        }
        if has_real_journal(db)? {
            ours.push(Companion::Journal.of(db.path()));
        }
        ours
    } else {
        logs_beside(device).to_vec()
    };
    for path in in_the_way {
        if db.medium().info(&path)?.is_some_and(|info| info.len > 0) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

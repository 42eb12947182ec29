//! Giving a database to a related process, and having it again: connections stay open meanwhile.
//!
//! # Invariants
//! 1. A process gives the ownership up only while none of its connections is in a transaction. No slot is taken, and a
//!    reader slot is above NONE only if its transactions take slots of the wal-index. Nor is a thread of litefoot's at
//!    work.
//! 2. Before that everything committed is in the database file, or in the redo log on the medium, for good. A crash at
//!    this moment would leave the same. The next owner begins as after a crash.
//! 3. Afterwards nothing that is in memory counts: no page, no length, no log, and no index of one.
//! 4. A connection that begins a transaction has its reader slot, or its slot, and then looks whether this process still is the owner.
//! 5. A connection that has read before finds that the database has changed, by the change counter. In WAL mode it
//!    finds so since every new index differs from all earlier ones
//!    ([`WalIndex::renew`](crate::sync::wal_index::WalIndex)).
//!
//! A database with a tier, with a commit log, or whose calls are only passed on, is not given up.

use crate::commit::page_one::is_wal_mode;
use crate::db::Companion;
use crate::error::{Error, Result};
use crate::memory::spill_file::MakeSpill;
use crate::open::OpenDatabase;
use crate::open::ownership::Attention;
use crate::open::take_over;
use crate::stats::DatabaseState;
use crate::sync::owner_lock;
use crate::sync::relatives;
use crate::sync::relatives::{Answer, Lendable};
use litefoot_storage::file::FileId;
use litefoot_storage::wal_file::RedoLog;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

/// The longest wait of a process that has just given a database up, before it takes the database again. The process
/// that asked is being woken meanwhile.
const COURTESY: Duration = Duration::from_millis(2);
/// The time between two looks if that process still waits.
const GLANCE: Duration = Duration::from_micros(100);

/// How often relatives are asked before it is clear that the owner is none.
const QUESTIONS: u32 = 2;

/// Makes what makes the file for what does not fit into the memory of a log.
pub type SpillSource = Box<dyn Fn() -> MakeSpill + Send + Sync>;

/// The relatives that want the database.
#[derive(Default)]
pub(crate) struct Handover {
    /// How often it was asked for when that was seen to last.
    seen: AtomicU32,
    /// True if it was given up, and not taken since.
    given: AtomicBool,
    /// How often it was asked for in a row and nobody has answered.
    unanswered: AtomicU32,
    spill: OnceLock<SpillSource>,
}

impl Handover {
    /// Notes where a log that is opened again has its spill from.
    pub(crate) fn set_spill_source(&self, source: SpillSource) {
        let _ = self.spill.set(source);
    }
}

/// The facts that decide whether a database may be given to another process while it is open.
#[derive(Clone, Copy)]
struct LendingFacts {
    /// True if SQLite is reached from below.
    has_host: bool,
    /// True if transactions are held back until they commit.
    holds_back: bool,
    /// True if the file can be written.
    writable: bool,
    /// True if the database has a tier, or is to have one.
    tier: bool,
    /// True if it has a commit log, or a place for one.
    commit_log: bool,
    /// True if the file is the system's, so that others can lock it.
    has_descriptor: bool,
}

impl LendingFacts {
    fn of(database: &OpenDatabase) -> LendingFacts {
        let (db, options) = (&database.db, database.db.options());
        LendingFacts {
            has_host: database.host.is_some(),
            holds_back: db.holds_back(),
            writable: db.writable(),
            tier: options.tier.is_some() || db.tier().is_some(),
            commit_log: options.commit_log_path.is_some() || options.logs_statements(),
            has_descriptor: db.file().raw_descriptor().is_some(),
        }
    }

    /// True if another process would find all that it needs.
    fn allow(self) -> bool {
        self.has_host
            && (self.holds_back || !self.writable)
            && !self.tier
            && !self.commit_log
            && self.has_descriptor
    }
}

/// True if a database may be given to another process while it is open.
fn may_be_given(database: &OpenDatabase) -> bool {
    // Without its name its logs lie where another process would not find them.
    LendingFacts::of(database).allow() && database.db.has_its_name()
}

/// The question that a new owner takes for answered: a relative that still waits has asked before, and its question counts
/// once more.
fn last_answered(wanted: u32, is_awaited: bool) -> u32 {
    if is_awaited { wanted.wrapping_sub(1) } else { wanted }
}

/// Takes the lock on the file, or asks a relative for it.
pub(super) fn acquire(database: &OpenDatabase) -> Result<()> {
    let place = relatives::place_of(database.db.file().id());
    if database.ownership.handover.given.swap(false, Ordering::Relaxed) {
        let end = Instant::now() + COURTESY;
        while relatives::is_awaited(place) && Instant::now() < end {
            std::thread::sleep(GLANCE);
        }
    }
    if owner_lock::try_acquire(database.db.file(), database.db.writable())? {
        return Ok(());
    }
    let unanswered = database.ownership.handover.unanswered.load(Ordering::Relaxed);
    let again = || {
        owner_lock::try_acquire(database.db.file(), database.db.writable())
            .is_ok_and(|free| free)
            .then_some(())
    };
    match relatives::ask(place, unanswered < QUESTIONS, again) {
        Some(Answer::Given(())) => Ok(()),
        Some(Answer::Busy) => Err(Error::Busy),
        None if unanswered < QUESTIONS && relatives::has_relatives() => {
            // A relative may be slow to hear: somebody else is told of when the application tries again.
            database.ownership.handover.unanswered.store(unanswered + 1, Ordering::Relaxed);
            Err(Error::Busy)
        }
        None => owner_lock::acquire(database.db.file(), database.db.writable()),
    }
}

/// This process has become the owner, and may have connections from before.
pub(super) fn begin_ownership(database: &OpenDatabase) -> Result<()> {
    let Some(spill) = database.ownership.handover.spill.get().filter(|_| database.wal_index.is_used()) else {
        return Ok(());
    };
    // Before the log is open: recovery opens it, too.
    take_over::complete_deltas(database)?;
    let path = database.db.companion_path(Companion::Wal);
    let redo = RedoLog::open_of(
        database.db.medium().clone(),
        &path,
        database.db.latch().clone(),
        database.db.data_file(),
    )?;
    if !database.db.has_its_name() || !is_wal_mode(&database.db, &redo)? {
        return Err(Error::Refused(format!(
            "{}: another process has renamed the database, or taken it out of WAL mode; close this connection and open it \
             again",
            database.db.path().display()
        )));
    }
    drop(redo);
    database.wal_or_open(spill())?.rebuild_checksums(&database.db)
}

/// As above, once nothing can fail any more.
pub(super) fn note_ownership(database: &OpenDatabase) {
    database.ownership.handover.unanswered.store(0, Ordering::Relaxed);
    if may_be_given(database)
        && let Some(database) = database.weak_self.get().and_then(Weak::upgrade)
    {
        let place = relatives::place_of(database.db.file().id());
        // In this order: who waits has asked before, or asks again, and that counts as a question to this process.
        let wanted = relatives::wanted(place);
        let seen = last_answered(wanted, relatives::is_awaited(place));
        database.ownership.handover.seen.store(seen, Ordering::Relaxed);
        database.ownership.attention.set(Attention::RELATIVES, false);
        relatives::note_owned(&database);
    }
}

fn give_up(database: &OpenDatabase) -> bool {
    database.checkpointer.await_end();
    let _one = database.ownership.becoming.lock();
    if !database.is_owned() {
        return true;
    }
    let given = database.locks.while_idle(|| {
        database.wal_index.while_idle(|| {
            // One that began meanwhile: it needs the slots.
            !database.checkpointer.is_at_work() && bring_home(database).is_ok() && let_file_go(database)
        })
    });
    given.flatten().unwrap_or(false)
}

/// Everything is on the medium, as the next owner expects it.
pub(super) fn bring_home(database: &OpenDatabase) -> Result<()> {
    database.db.latch().check(database.db.path())?;
    if let Some(wal) = database.wal() {
        wal.finish();
        wal.before_in_place(&database.db)?;
    }
    database.rollback_log.retire(&database.db)?;
    database.rollback_log.leave_kept_journal(&database.db);
    Ok(())
}

/// Nothing counts any more; then the file is anybody's.
fn let_file_go(database: &OpenDatabase) -> bool {
    forget_memory(database);
    database.ownership.own_name.forget();
    database.db.stats_page().set_state(DatabaseState::Open);
    // Should this fail, nobody else gets the file before it is closed; this process takes it again.
    owner_lock::release(database.db.file()).is_ok()
}

/// Nothing in memory counts from now on, and this process is no owner. Its lock on the file stays.
///
/// Readers outside of WAL mode may go on meanwhile: they find no owner first, then no pool, and read the file.
pub(super) fn forget_memory(database: &OpenDatabase) {
    // First of all: no other pool is made.
    database.db.shared().set_owned(false);
    database.wal_index.renew();
    forget_copies(database);
    for companion in [Companion::Wal, Companion::Journal] {
        database.db.companions().set_alone(companion, false);
    }
}

/// The files have all that is in memory, and this process is the owner no more. Readers may go on meanwhile.
pub(super) fn forget_copies(database: &OpenDatabase) {
    if let Some(wal) = database.wal() {
        // Handles that are idle, or read just now, still have it.
        wal.close();
    }
    database.reset_wal();
    database.db.file_end().forget_kept();
    database.cache.drop_pages(|| ());
    database.db.shared().forget_file();
}

impl Lendable for OpenDatabase {
    fn is_owned(&self) -> bool {
        OpenDatabase::is_owned(self)
    }

    fn file_id(&self) -> FileId {
        self.db.file().id()
    }

    fn is_wanted(&self, wanted: u32) -> bool {
        self.ownership.handover.seen.load(Ordering::Relaxed) != wanted
    }

    fn hand_over(&self, wanted: u32) {
        if !may_be_given(self) {
            return self.ownership.handover.seen.store(wanted, Ordering::Relaxed);
        }
        // First of all: who ends a transaction from now on says so.
        self.ownership.attention.set(Attention::RELATIVES, true);
        let given = give_up(self);
        if given {
            self.ownership.handover.given.store(true, Ordering::Relaxed);
            self.ownership.attention.set(Attention::RELATIVES, false);
            self.ownership.handover.seen.store(wanted, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENT: LendingFacts = LendingFacts {
        has_host: true,
        holds_back: true,
        writable: true,
        tier: false,
        commit_log: false,
        has_descriptor: true,
    };

    #[test]
    fn only_a_database_whose_files_say_everything_is_given() {
        for (facts, is_given, why) in [
            (LENT, true, "an ordinary database"),
            (LendingFacts { holds_back: false, writable: false, ..LENT }, true, "one that is only read"),
            (LendingFacts { holds_back: false, ..LENT }, false, "its calls are only passed on"),
            (LendingFacts { has_host: false, ..LENT }, false, "SQLite is not reached"),
            (LendingFacts { tier: true, ..LENT }, false, "chunks are away"),
            (LendingFacts { commit_log: true, ..LENT }, false, "statements wait"),
            (LendingFacts { has_descriptor: false, ..LENT }, false, "nobody else can lock it"),
        ] {
            assert_eq!(facts.allow(), is_given, "{why}");
        }
    }

    #[test]
    fn a_relative_that_still_waits_is_answered_by_the_next_end_of_a_transaction() {
        for (wanted, is_awaited, seen) in [(7, false, 7), (7, true, 6), (0, true, u32::MAX)] {
            assert_eq!(last_answered(wanted, is_awaited), seen);
        }
    }
}

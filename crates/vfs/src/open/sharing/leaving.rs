//! Leaving: the owner lets other processes in, beside readers of its own.
//!
//! # Why
//! Stock SQLite lets visitors in beside a reader, however long that reads, and outside of WAL mode beside one that is going to write.
//! So a change takes these along, and waits for nobody but those that write to the file or the log.
//! In a rollback-journal mode a reader sees what was committed last, and nothing else: once everything is home that is the
//! file. The lock that the reader has in memory is taken on the file. In WAL mode a reader sees a snapshot. Its frames are in SQLite's
//! log and not in the redo log, so the log becomes a file as SQLite wrote it, and so does the wal-index. Members of a group that read by their seats are left
//! behind with the index that they have: no change of that concerns their snapshots.
//!
//! # Order
//! 1. Everything committed goes home, durably, while the owner lock keeps all others out.
//! 2. Beside snapshots: the wal-index becomes `-shm`, with its readers' slots locked there, and then SQLite's log becomes `-wal`.
//! 3. Nothing in memory counts any more. A reader that goes on meanwhile reads the files, which are complete.
//! 4. The owner lock goes down to what the readers have: others may read from then on, and nobody can write what a reader sees.
//! 5. The lease goes back: an `open` that waits goes on.
//!
//! A failure before the log has its name leaves the owner as it was. Between that and the fourth step nothing fails.
//!
//! # Invariants
//! 1. No handle is at EXCLUSIVE, and none holds a slot exclusively, from the first step to the last. SQLite writes to the file at
//!    EXCLUSIVE only: what a handle below is going to write is in its connection, and its journal in memory. That journal
//!    becomes a file before the first write (`files/journal_content.rs`). None gets a lock or a slot. One at PENDING waits for readers
//!    of this process, and needs no more than RESERVED on the file (`sync/file_locks.rs`).
//!    A reader may give its own back at any moment. Where it has done so in memory only, [`trim_locks`] follows.
//! 2. No log of more than [`LARGEST_LOG`] is copied. Readers of such a log are waited for, as writers are, and so are those of a log
//!    that could not be copied.
//! 3. Nobody is taken along beside a hot journal: a reader may be about to roll that back. Nor is one while chunks are on a tier.
//! 4. A database in WAL mode that has lost its name is not shared: what has the names of its logs is another one's.

use super::{enter, note_left};
use crate::db::companions::has_real_journal;
use crate::db::{Companion, tier};
use crate::error::{Error, Result};
use crate::open::{OpenDatabase, handover, open_tier, take_over};
use crate::sync::file_locks::Change as LockChange;
use crate::sync::lock_table::{Inside, Level};
use crate::sync::wal_index_sharing::IndexedLog;
use litefoot_storage::wal_file::RedoLog;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A log that is copied at once where readers have snapshots of it, and the largest that is copied at all.
const SMALL_LOG: u64 = 4 << 20;
const LARGEST_LOG: u64 = 64 << 20;
/// The time for which the readers of one in between are waited for: without them nothing is copied.
const PATIENCE: Duration = Duration::from_millis(50);

/// True if a log of so many bytes is to be copied, when another process has waited for so long. Where members read by their seats, most of them have ended
/// a moment later.
fn may_copy(log_bytes: u64, members_read: bool, waited: Duration) -> bool {
    log_bytes <= LARGEST_LOG && (waited >= PATIENCE || log_bytes <= SMALL_LOG && !members_read)
}

/// What is taken along.
enum Carried {
    /// The highest level of the handles: of none, of readers, or of one that is going to write. All see what was committed last.
    Locks(Level),
    /// Readers of this log by the index.
    Snapshots(IndexedLog),
}

/// Brings everything home, and goes on by SQLite's own protocol; `false` where a transaction is in the way, or a failure is. Then
/// the owner lock stays. Another process has waited for so long.
pub(super) fn leave(database: &OpenDatabase, waited: Duration) -> bool {
    let since = Instant::now();
    database.checkpointer.await_end();
    let _one = database.ownership.becoming.lock();
    if database.is_multi_process() {
        return true;
    }
    let mut locks = database.sharing().file_locks.change();
    database.sharing().note_attempt();
    let left = database.locks.while_unwritten(|handles| {
        database.wal_index.while_nobody_writes(|is_free| {
            // One that began meanwhile: it needs the slots.
            if database.checkpointer.is_at_work() {
                return false;
            }
            let Ok(Some(inside)) = look_inside(database, (handles, is_free), waited) else { return false };
            (!database.is_owned() || bring_home(database).is_ok())
                && match inside {
                    Carried::Locks(level) => let_others_in(database, level, &mut locks),
                    Carried::Snapshots(log) => let_others_in_beside_snapshots(database, log, &mut locks)
                        // It is likely to fail again, and costs much.
                        .inspect_err(|_| database.sharing().copy_failed.store(true, Ordering::Relaxed)),
                }
                .is_ok()
        })
    });
    database.sharing().note_attempt();
    let is_done = left.flatten().unwrap_or(false);
    if is_done {
        note_left(database, since.elapsed());
    }
    is_done
}

/// What can be taken along; `None` where a handle must leave first. `is_free` says that none shares a slot.
fn look_inside(
    database: &OpenDatabase,
    (handles, is_free): (Inside, bool),
    waited: Duration,
) -> Result<Option<Carried>> {
    let wal = database.wal();
    let by_slots = database.wal_index.is_used() || wal.is_some();
    let is_plain = !tier::is_in_use(&database.db);
    if is_free {
        let may_stay = handles.are_idle || (is_plain && !by_slots && !has_real_journal(&database.db)?);
        return Ok(may_stay.then_some(Carried::Locks(handles.level.min(Level::Reserved))));
    }
    let has_failed = database.sharing().copy_failed.load(Ordering::Relaxed);
    let may_stay = handles.are_idle && is_plain && database.is_owned() && !has_failed;
    let Some(wal) = wal.filter(|_| may_stay) else { return Ok(None) };
    let log = database.wal_index.indexed_log(wal.freed_below());
    let members_read = database.wal_index.is_shared_by_members();
    let may_copy = |log: &IndexedLog| may_copy(wal.file_bytes(log.frames), members_read, waited);
    Ok(log.filter(may_copy).map(Carried::Snapshots))
}

/// Everything is in files that stock SQLite understands.
fn bring_home(database: &OpenDatabase) -> Result<()> {
    if database.recovery.replay_waits.load(Ordering::Acquire) {
        return Err(Error::Busy);
    }
    database.recovery.check_replayed()?;
    if (database.wal_index.is_used() || database.wal().is_some()) && !database.db.has_its_name() {
        return Err(Error::Busy);
    }
    handover::bring_home(database)?;
    // A log that is no more than begun is in the way of nobody. At a place of its own there may be another database's.
    let is_ours = database.wal().is_some() || database.db.options().commit_log_path.is_none();
    if is_ours && take_over::has_commit_log(database)? { Err(Error::Busy) } else { Ok(()) }
}

/// The files are others' as well from now on. Everything is in them.
fn let_others_in(database: &OpenDatabase, level: Level, locks: &mut LockChange<'_>) -> Result<()> {
    handover::forget_memory(database);
    // Members that read by their seats: with their end the lock on the file goes back.
    database.locks.ask_for_ends();
    // Until the end, a failure leaves a database that the next lock takes over as after a crash.
    database.sharing().keeps_owner_lock.store(true, Ordering::Relaxed);
    let db = &database.db;
    // It is void: what it had is in the other files.
    take_over::remove_commit_log(db)?;
    open_tier::lend(db)?;
    if database.wal_index.is_used() {
        let path = db.companion_path(Companion::Wal);
        let log = RedoLog::open_of(db.medium().clone(), &path, db.latch().clone(), db.data_file())?;
        let is_empty = log.is_empty();
        drop(log);
        database.wal_index.share(db.medium(), &db.companion_path(Companion::WalIndex), is_empty)?;
    }
    locks.begin(db.file(), level)?;
    enter(database);
    Ok(())
}

/// The same beside readers that share slots.
fn let_others_in_beside_snapshots(
    database: &OpenDatabase,
    log: IndexedLog,
    locks: &mut LockChange<'_>,
) -> Result<()> {
    let db = &database.db;
    let Some(wal) = database.wal() else { return Err(Error::Busy) };
    database.wal_index.share_as_it_is(db.medium(), &db.companion_path(Companion::WalIndex))?;
    if let Err(error) = wal.become_file(db, log) {
        database.wal_index.keep_as_it_is();
        return Err(error);
    }
    // First of all: a reader that asks for the log from now on finds the file.
    enter(database);
    wal.take_frames().into_iter().for_each(|frames| database.wal_index.keep_frames(frames));
    handover::forget_copies(database);
    // It is void, durably: what it had is in the other files. One that stays is in the way of nobody.
    let _ = take_over::remove_commit_log(db);
    // Where that fails no other process can lock the file yet, and the next step of the watcher tries again.
    let _ = locks.begin(db.file(), Level::Shared);
    Ok(())
}

#[cfg(test)]
impl OpenDatabase {
    /// Others that have waited are let in, beside whatever may stay inside; `false` where something may not.
    pub(crate) fn leave_of_test(&self) -> bool {
        leave(self, PATIENCE)
    }
}

/// Gives back on the files what no handle has any more: a reader that left during the change may have told the memory only.
pub(super) fn trim_locks(database: &OpenDatabase) {
    let file_locks = &database.sharing().file_locks;
    // Where that fails it is tried again, and closing the file gives its locks back at the latest.
    let _ = database.while_multi_process(|| {
        database.wal_index.trim();
        file_locks.trim(database.db.file(), &database.locks)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::spill_file::tests::make_spill;
    use crate::open::database::DatabaseSetup;
    use crate::sync::file_seats::SeatLock;
    use crate::sync::group_board::Board;
    use crate::sync::group_changes::Moment;
    use crate::sync::owner_lock::{LOCK_BYTES, LOCK_OFFSET};
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode, RangeLock};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    /// A change that failed behind the moment when nothing in memory counted any more, beside a handle at that level.
    fn failed_beside(level: Level) -> (OpenDatabase, Arc<dyn litefoot_storage::file::File>) {
        let medium = SimMedium::new();
        let database =
            OpenDatabase::new(DatabaseSetup::of_test(Arc::new(medium.clone()), Path::new("/a.db")));
        let handle = database.locks().new_reader_slot();
        for step in [Level::Shared, level] {
            database.lock(&handle, step).unwrap();
        }
        handover::forget_memory(&database);
        database.sharing().keeps_owner_lock.store(true, Ordering::Relaxed);
        let others = medium.open(Path::new("/a.db"), FileKind::Database, OpenMode::ReadWrite).unwrap();
        (database, others)
    }

    #[test]
    fn a_handle_stays_protected_where_a_change_has_failed() {
        for (level, others_reserve) in [(Level::Shared, true), (Level::Reserved, false)] {
            let (database, others) = failed_beside(level);
            let may = |offset, len, lock| {
                let is_free = others.lock_range(LOCK_OFFSET + offset, len, lock).unwrap();
                others.lock_range(LOCK_OFFSET, LOCK_BYTES, RangeLock::None).unwrap();
                is_free
            };
            crate::open::sharing::release_unless_needed(&database).unwrap();
            assert!(!may(2, 510, RangeLock::Shared), "the next attempt goes on with the owner lock");
            crate::open::sharing::join(&database).unwrap();
            assert!(database.is_multi_process() && may(2, 510, RangeLock::Shared));
            assert_eq!(may(1, 1, RangeLock::Exclusive), others_reserve);
            assert!(!may(2, 510, RangeLock::Exclusive), "{level:?} is inside");
        }
    }

    #[test]
    fn a_member_that_reads_by_its_seat_stays_protected_where_a_change_has_failed() {
        let (database, others) = failed_beside(Level::None);
        let (board, now) =
            (Arc::new(Board::new(database.db().file().id()).unwrap()), Moment { epoch: 1, commits: 0 });
        board.set_open(true);
        board.show(now);
        database.locks().sit(&board, 3);
        assert_eq!(board.read(3, now), SeatLock::Shared);
        crate::open::sharing::release_unless_needed(&database).unwrap();
        crate::open::sharing::join(&database).unwrap();
        let is_free = others.lock_range(LOCK_OFFSET + 2, LOCK_BYTES - 2, RangeLock::Exclusive).unwrap();
        assert!(database.is_multi_process() && !is_free);
        assert!(!board.unread(3), "the owner has to hear of its end");
    }

    /// A reader that goes on meanwhile asks for one of the two.
    #[test]
    fn there_is_a_log_in_memory_until_the_database_is_multi_process() {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        let database = OpenDatabase::new(DatabaseSetup::of_test(medium, Path::new("/a.db")));
        database.own().unwrap();
        database.wal_or_open(make_spill()).unwrap();
        let (word, told) = channel();
        std::thread::scope(|scope| {
            let database = &database;
            let reader = scope.spawn(move || {
                // Nothing else in memory is dropped meanwhile.
                database.cache.drop_pages(|| {
                    word.send(()).unwrap();
                    while database.wal().is_some() {
                        std::thread::yield_now();
                    }
                    database.is_multi_process()
                })
            });
            told.recv().unwrap();
            let log = IndexedLog { frames: 0, checksum: [0; 2] };
            let mut locks = database.sharing().file_locks.change();
            let_others_in_beside_snapshots(database, log, &mut locks).unwrap();
            assert!(reader.join().unwrap());
        });
    }

    #[test]
    fn a_large_log_is_copied_only_where_its_readers_stay() {
        let (short, long) = (Duration::from_millis(10), Duration::from_millis(60));
        for (bytes, members_read, waited, expected) in [
            (0, false, short, true),
            (0, true, short, false),
            (0, true, PATIENCE, true),
            (SMALL_LOG, false, short, true),
            (SMALL_LOG + 1, false, short, false),
            (SMALL_LOG + 1, false, PATIENCE, true),
            (LARGEST_LOG, true, long, true),
            (LARGEST_LOG + 1, false, long, false),
        ] {
            assert_eq!(may_copy(bytes, members_read, waited), expected, "{bytes} {members_read} {waited:?}");
        }
    }
}

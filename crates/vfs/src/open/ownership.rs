//! Owning a database: the first lock takes the file for this process, and recovers what a crash has left.

use crate::error::{Error, Result};
use crate::open::OpenDatabase;
use crate::open::handover::{self, Handover};
use crate::open::own_name::{self, OwnName};
use crate::open::sharing::{self, Sharing};
use crate::open::{open_tier, take_over};
use crate::stats::DatabaseState;
use crate::sync::lock_table::{Level, ReaderSlot};
use crate::sync::relatives;
use litefoot_storage::file::parent_directory;
use litefoot_storage::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The ownership of a database by this process.
#[derive(Default)]
pub(crate) struct Ownership {
    /// Held by the one that makes this process the owner, or gives the file up.
    pub(super) becoming: Mutex<()>,
    /// The related processes that want the database.
    pub(super) handover: Handover,
    /// The other processes that have it open.
    pub(super) sharing: Sharing,
    pub(super) attention: Attention,
    /// The watch of the name that its logs lie beside.
    pub(super) own_name: OwnName,
    /// True if SQLite has deleted a log under its exclusive lock, and the directory is still to be synced.
    log_deleted: AtomicBool,
}

/// What transactions must look at when they begin and end.
#[derive(Default)]
pub(crate) struct Attention(AtomicU8);

impl Attention {
    /// Another process waits in its `open`.
    pub(super) const ASKED: u8 = 1;
    /// The database is multi-process.
    pub(super) const MULTI_PROCESS: u8 = 2;
    /// A related process waits for the transactions of this one to end.
    pub(super) const RELATIVES: u8 = 4;
    /// The way back waits for the transactions of this process to end.
    pub(super) const RETURNING: u8 = 8;

    /// True if there is anything.
    #[inline]
    fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn has(&self, bit: u8) -> bool {
        self.0.load(Ordering::SeqCst) & bit != 0
    }

    pub(super) fn set(&self, bit: u8, is_set: bool) {
        if is_set {
            self.0.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

impl OpenDatabase {
    /// True if this process owns the database now.
    #[inline]
    pub fn is_owned(&self) -> bool {
        self.db.shared().is_owned()
    }

    /// The same where nothing waits that the last owner has left.
    pub(crate) fn is_recovered(&self) -> bool {
        self.is_owned() && !self.recovery.replay_waits.load(Ordering::Acquire)
    }

    /// From now on something waits, as behind a crash.
    #[cfg(test)]
    pub(crate) fn replay_waits_in_test(&self) {
        self.recovery.replay_waits.store(true, Ordering::Release);
    }

    /// Gives SHARED to a handle that holds nothing, where this process owns the database and nobody is in the way. `false`
    /// leaves the handle as it was: [`OpenDatabase::lock`] knows what to do.
    #[inline]
    pub fn try_share(&self, reader_slot: &ReaderSlot) -> bool {
        let is_ready = self.db.is_of_this_process()
            && self.db.shared().was_owned()
            && !self.ownership.attention.is_wanted()
            && !self.recovery.replay_waits.load(Ordering::Acquire);
        if !is_ready || !self.locks.try_share(reader_slot) {
            return false;
        }
        // In this order: nobody commits from now on.
        let syncs = self.rollback_log.syncs();
        // Where a sync takes long, a statement that is going to write waits for its turn first.
        let waits = syncs.unsettled().is_some() || syncs.is_long() && self.serves_group();
        let is_ready = !waits && self.is_owned();
        if !is_ready {
            // It was given to another process meanwhile, or must wait.
            self.locks.try_unshare(reader_slot);
        }
        is_ready
    }

    /// True if the beginning or the end of a transaction has something to look at.
    #[inline]
    pub(crate) fn wants_attention(&self) -> bool {
        self.ownership.attention.is_wanted()
    }

    /// A transaction begins: where another process waits in its `open`, that comes first.
    #[inline]
    pub(crate) fn yield_to_others(&self) {
        if self.ownership.attention.is_wanted() {
            self.yield_slowly();
        }
    }

    #[cold]
    fn yield_slowly(&self) {
        let is_awaited = self.ownership.attention.has(Attention::ASKED | Attention::RETURNING);
        // A succession comes before that.
        if is_awaited && self.heirs_may_come().is_none() {
            self.ownership.sharing.await_change();
        }
        if self.ownership.attention.has(Attention::MULTI_PROCESS) {
            sharing::come_back_at_once(self);
        }
    }

    /// Raises a handle's lock; takes ownership of the file with the first one.
    #[inline]
    pub fn lock(&self, reader_slot: &ReaderSlot, wanted: Level) -> Result<()> {
        self.db.check_process()?;
        if reader_slot.level() == Level::None {
            self.yield_to_others();
        }
        // One that closes while others have a log open is refused at once, as by SQLite: it waits for no checkpoint.
        if wanted == Level::Exclusive && !(self.wal_index.is_used() && self.locks.has_others(reader_slot)) {
            self.checkpointer.await_end_for_use(&self.db);
        }
        // Of those with a log, the last one to close asks for EXCLUSIVE with SHARED. Others wait where SQLite would wait for a lock.
        let mut may_wait = match reader_slot.level() {
            Level::Shared if self.wal_index.is_used() => wanted == Level::Exclusive,
            level => !self.wal_index.is_used() && (level == Level::None || wanted >= Level::Reserved),
        };
        loop {
            self.own()?;
            if self.is_multi_process() {
                if self.lock_file(reader_slot, wanted, &mut may_wait)? {
                    return Ok(());
                }
                continue;
            }
            if self.recovery.replay_waits.load(Ordering::Acquire) {
                take_over::replay_once(self)?;
            }
            let before = reader_slot.level();
            let locked = self.locks.lock(reader_slot, wanted);
            if self.is_owned() {
                if !locked {
                    return Err(Error::Busy);
                }
                break;
            }
            // It was given to another process meanwhile, or is shared with others.
            self.locks.unlock(reader_slot, before);
        }
        if wanted == Level::Exclusive {
            self.cache.pin_caches().unpin();
            // One that has begun meanwhile. The next one sees the lock.
            if self.checkpointer.is_at_work() {
                self.checkpointer.await_end_for_use(&self.db);
            }
        }
        Ok(())
    }

    /// Raises a handle's lock by SQLite's own protocol; `false` where the database is not multi-process any more, or a visitor was
    /// waited for, which is done once.
    #[cold]
    fn lock_file(&self, reader_slot: &ReaderSlot, wanted: Level, may_wait: &mut bool) -> Result<bool> {
        let sharing = &self.ownership.sharing;
        if *may_wait && sharing.has_guest() {
            sharing.await_guest();
            *may_wait = false;
        }
        self.while_multi_process(|| {
            if *may_wait && sharing.has_guest() {
                return Ok(false);
            }
            let file_locks = &sharing.file_locks;
            if file_locks.lock(self.db.file(), &self.locks, reader_slot, wanted)? {
                Ok(true)
            } else {
                Err(Error::Busy)
            }
        })
        .unwrap_or(Ok(false))
    }

    /// Calls `then` if the database is multi-process, and keeps it so meanwhile.
    pub(crate) fn while_multi_process<T>(&self, then: impl FnOnce() -> T) -> Option<T> {
        if !self.is_multi_process() {
            return None;
        }
        let _one = self.ownership.becoming.lock();
        self.is_multi_process().then(then)
    }

    /// Calls `then` if the database is not multi-process, and keeps it so meanwhile. Where that `is_internal`, the caller keeps it so already.
    pub(crate) fn while_alone<T>(&self, is_internal: bool, then: impl FnOnce() -> T) -> Option<T> {
        let _one = (!is_internal).then(|| self.ownership.becoming.lock());
        (!self.is_multi_process()).then(then)
    }

    /// Others are let in, once `meanwhile` has been called in the middle of the change.
    #[cfg(test)]
    pub(crate) fn let_others_in_of_test(&self, meanwhile: impl FnOnce()) {
        let _one = self.ownership.becoming.lock();
        meanwhile();
        sharing::enter(self);
    }

    /// Makes this process the owner; where others have the database open, SQLite's own protocol is used from now on.
    #[inline]
    pub(crate) fn own(&self) -> Result<()> {
        if self.db.shared().was_owned() { Ok(()) } else { self.become_owner() }
    }

    #[cold]
    fn become_owner(&self) -> Result<()> {
        let _one = self.ownership.becoming.lock();
        if !self.db.shared().was_owned() && !self.is_multi_process() {
            if self.db.passes_through() {
                open_tier::refuse_marked(self)?;
                sharing::enter(self);
                return Ok(());
            }
            if sharing::has_company(self) {
                if !self.succeeds() {
                    return sharing::join(self);
                }
                // They find the owner lock, as they have in the dead owner's time, until its transactions have come.
                sharing::note_company(self);
            }
            handover::acquire(self)?;
            if let Err(error) = take_over::take_over(self).and_then(|()| handover::begin_ownership(self)) {
                sharing::release_unless_needed(self)?;
                return Err(error);
            }
            self.db.shared().set_owned(true);
            sharing::note_ownership(self);
            own_name::watch(self);
            self.db.stats_page().set_state(DatabaseState::Owned);
            handover::note_ownership(self);
        }
        Ok(())
    }

    /// Takes SHARED back from a handle that has no more than that; `false` leaves the handle as it was.
    #[inline]
    pub fn try_unshare(&self, reader_slot: &ReaderSlot) -> bool {
        let is_done = self.locks.try_unshare(reader_slot);
        if is_done && self.ownership.attention.is_wanted() {
            self.unlocked(reader_slot, Level::None);
        }
        is_done
    }

    /// Lowers a handle's lock.
    #[inline]
    pub fn unlock(&self, reader_slot: &ReaderSlot, to: Level) {
        self.locks.unlock(reader_slot, to);
        if self.ownership.attention.is_wanted() {
            self.unlocked(reader_slot, to);
        }
    }

    /// Tells whether a connection of this process is about to write, or one of another process.
    pub(crate) fn is_reserved(&self) -> Result<bool> {
        let file_locks = &self.ownership.sharing.file_locks;
        let is_reserved = self.while_multi_process(|| file_locks.is_reserved(self.db.file(), &self.locks));
        is_reserved.unwrap_or_else(|| Ok(self.locks.is_reserved()))
    }

    /// Takes back the slot of a handle that is closed.
    pub(crate) fn leave_slot(&self, reader_slot: &Arc<ReaderSlot>) {
        self.locks.leave(reader_slot);
        if self.ownership.attention.is_wanted() {
            self.unlocked(reader_slot, Level::None);
        }
    }

    /// A handle's lock was lowered: so are the locks on the file, where there are such.
    #[cold]
    fn unlocked(&self, reader_slot: &ReaderSlot, to: Level) {
        // Closing the file gives its locks back at the latest.
        let file_locks = &self.ownership.sharing.file_locks;
        let _ = self.while_multi_process(|| file_locks.unlock(self.db.file(), &self.locks, reader_slot, to));
        if to == Level::None {
            self.ownership.log_deleted.store(false, Ordering::Relaxed);
        }
        self.note_transaction_end();
    }

    /// SQLite has deleted the log under its exclusive lock. The directory is not synced for that: it would double what the close of a last
    /// connection costs, and make its lock last longer.
    ///
    /// Should the log come back after a power cut, it has nothing that is not in the database file, as long as nobody has written since. In WAL
    /// mode whoever writes makes a new log first, or a redo log or commit log where it is alone, and syncs the directory for its name. So
    /// only the connection that takes the database out of WAL mode syncs the directory, before it writes. It has the same lock still.
    pub(crate) fn note_log_deleted(&self) {
        self.ownership.log_deleted.store(true, Ordering::Relaxed);
    }

    /// Syncs the directory, where the connection that is about to write has deleted the log under the lock that it has.
    pub(crate) fn sync_deleted_log(&self) -> Result<()> {
        if self.ownership.log_deleted.load(Ordering::Relaxed)
            && self.ownership.log_deleted.swap(false, Ordering::Relaxed)
        {
            self.db.medium().sync_directory(parent_directory(self.db.path()))?;
        }
        Ok(())
    }

    /// Tells others that wait: a transaction has ended, or a connection was closed.
    #[inline]
    pub(crate) fn note_transaction_end(&self) {
        if self.ownership.attention.is_wanted() {
            self.wake_waiting();
        }
    }

    #[cold]
    fn wake_waiting(&self) {
        if self.ownership.attention.has(Attention::RELATIVES) {
            relatives::look_again();
        }
        if self.ownership.attention.has(Attention::ASKED | Attention::RETURNING) {
            sharing::look_again(&self.ownership.sharing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::database::DatabaseSetup;
    use crate::stats::{Published, StatsPage};
    use litefoot_sim::{CountingMedium, SimMedium};
    use litefoot_storage::file::{FileId, Medium};
    use litefoot_storage::os::OsMedium;
    use std::path::Path;
    use std::sync::Arc;

    /// The statistics page, as other processes see it, of an owned database over a medium.
    fn published(medium: Arc<dyn Medium>, path: &Path) -> Option<Published> {
        let setup = DatabaseSetup::of_test(medium, path);
        let id = setup.file.id();
        let database = OpenDatabase::new(setup);
        database.lock(&database.locks().new_reader_slot(), Level::Shared).unwrap();
        Published::find(id)
    }

    #[test]
    fn only_files_of_the_operating_system_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let unused = FileId { device: 0xfeed, inode: 0xfaced };
        let counting = CountingMedium::new(Arc::new(OsMedium));
        assert!(published(Arc::new(SimMedium::new()), Path::new("/a.db")).is_none());
        assert!(published(Arc::new(counting), &path).is_none());
        assert_eq!(published(Arc::new(OsMedium), &path).is_some(), !StatsPage::shared(unused).is_private());
    }

    #[test]
    fn the_first_lock_takes_the_file_and_a_writer_meets_readers() {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/a.db"));
        let database = OpenDatabase::new(setup);
        let [writer, reader] = [database.locks().new_reader_slot(), database.locks().new_reader_slot()];
        assert!(!database.is_owned() && database.db().file_end().committed_len().is_none());
        database.lock(&writer, Level::Shared).unwrap();
        assert!(database.is_owned() && database.db().file_end().committed_len() == Some(0));
        database.lock(&reader, Level::Shared).unwrap();
        database.lock(&writer, Level::Reserved).unwrap();
        assert!(matches!(database.lock(&writer, Level::Exclusive), Err(Error::Busy)));
        database.unlock(&reader, Level::None);
        database.lock(&writer, Level::Exclusive).unwrap();
        database.unlock(&writer, Level::None);
        assert!(database.is_owned(), "until the last handle is closed");
    }

    #[test]
    fn a_quick_lock_is_one_of_the_owner() {
        let setup = DatabaseSetup::of_test(Arc::new(SimMedium::new()), Path::new("/a.db"));
        let database = OpenDatabase::new(setup);
        let [one, other] = [database.locks().new_reader_slot(), database.locks().new_reader_slot()];
        assert!(!database.try_share(&one) && one.level() == Level::None, "nobody owns it");
        database.lock(&one, Level::Shared).unwrap();
        assert!(database.try_share(&other) && other.level() == Level::Shared);
        assert!(!database.try_share(&other) && database.try_unshare(&other) && !database.try_unshare(&other));
        database.recovery.replay_waits.store(true, Ordering::Release);
        assert!(!database.try_share(&other), "commits wait to be replayed");
        database.recovery.replay_waits.store(false, Ordering::Release);
        database.lock(&one, Level::Exclusive).unwrap();
        assert!(!database.try_share(&other) && other.level() == Level::None, "a writer is in the way");
        assert!(!database.try_unshare(&one) && one.level() == Level::Exclusive);
        database.unlock(&one, Level::None);
        database.db().shared().set_owned(false);
        assert!(!database.try_share(&other) && other.level() == Level::None, "another process has it");
        database.db().shared().set_owned(true);
    }

    #[test]
    fn a_file_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let open = || OpenDatabase::new(DatabaseSetup::of_test(Arc::new(OsMedium), &path));
        let (first, second) = (open(), open());
        first.own().unwrap();
        assert!(matches!(second.own(), Err(Error::Owned { .. })) && !second.is_owned());
        drop(first);
        second.own().unwrap();
        assert!(second.is_owned());
    }
}

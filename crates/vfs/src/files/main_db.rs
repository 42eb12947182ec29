//! A handle on a main database file.
//!
//! # Why
//! SQLite reads, writes and locks a database by this handle, and asks it for pages by address. Work of more than a
//! few lines has a file of its own: `main_locks`, `rollback_txn`, `wal_index_locks`, `durable_reads`, `wal_commit`,
//! `beside_others`, `forked_child`.
//!
//! # Invariants
//! 1. Pages are asked for so often that nothing may lie between: the paths of `fetch` and `unfetch` are inlined.
//! 2. Any call that may lose the lock, or begin to hold a transaction back, leaves the fast path first.

use crate::cache::connection_cache::{ConnectionCache, is_change_look};
use crate::commit::wal::Wal;
use crate::db::Companion;
use crate::error::{Error, Result, last_errno};
use crate::ffi::codes::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
use crate::files::auto_checkpoint::AutoCheckpoint;
use crate::files::connection_state::ConnectionState;
use crate::files::durable_reads::UnsettledRead;
use crate::files::handle::{Control, Handle, Handled, PragmaCall, exchange_mmap_size};
use crate::files::rollback_txn::RollbackTxn;
use crate::files::shared_reads::SharedRead;
use crate::open::OpenDatabase;
use crate::sync::forks::outside;
use crate::sync::group_changes::Moment;
use crate::sync::lock_table::{HandleId, Level};
use crate::sync::refused_writer::Attempts;
use crate::sync::wal_index::HeldSlots;
use litefoot_storage::os::LocalSocket;
use litefoot_storage::reserve;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// One connection's handle on a database.
pub struct MainFile {
    pub(super) database: Arc<OpenDatabase>,
    pub(super) connection: Arc<ConnectionState>,
    pub(super) id: HandleId,
    pub(super) read_only: bool,
    pub(super) rollback_txn: RollbackTxn,
    pub(super) slots: HeldSlots,
    pub(super) uses_wal_index: bool,
    /// True from the end of that until SQLite has looked whether the database has changed.
    pub(super) left_wal_index: bool,
    pub(super) persist_wal: bool,
    pub(super) powersafe_overwrite: bool,
    /// How much of the file is to be mapped, by what the application says.
    pub(super) mmap_size: i64,
    /// True if a transaction was completed that nobody has asked to be durable, and that is in no log.
    pub(super) unlogged: bool,
    pub(super) checkpoint: Checkpoint,
    pub(super) auto_checkpoint: AutoCheckpoint,
    pub(super) connection_cache: ConnectionCache,
    /// How many commits had been promised to be durable when the last look found all of them so.
    pub(super) settled: u64,
    /// The read under way, where commits were not durable when it began.
    pub(super) unsettled: Option<UnsettledRead>,
    /// The same for commits by rollback journals.
    pub(super) shared_read: SharedRead,
    /// The moment at which a commit has given its lock up, until SQLite does (`early_release`).
    pub(super) released: Option<Moment>,
    /// The change counter of the index when a member that reads by its seat has begun to (`group_turns`).
    pub(super) seat_read: Option<u32>,
    /// True if the running statement has waited for its turn to write, and has not written yet.
    pub(super) has_unused_turn: bool,
    /// Waits for commits in a row, each of which was followed by another commit.
    pub(super) waits: u32,
    /// The token of a member's connection, for its heirs (`sync/heirs`); 0 for one of this process.
    pub(super) token: u64,
    /// True from a transaction that has come from a dead owner until its commit.
    pub(super) is_inherited: bool,
    /// The stream of the process whose connection it is, where that is another one.
    pub(super) stream: Option<Arc<LocalSocket>>,
    /// The attempts to take the write lock that were refused, since the last that was not.
    pub(super) refused: Option<Attempts>,
    /// True if it was looked what a crash has left, by one that takes no locks.
    pub(super) looked: bool,
    /// The log as it was asked for last, and when that was. It is not kept alive: its files are locked.
    pub(super) wal: (u64, Weak<Wal>),
}

/// How far a checkpoint of this connection is.
///
/// SQLite settles which frames a checkpoint takes once it holds the checkpointer's lock, and before it writes the
/// first page. A transaction committed by then must be in the redo log before that page; what is committed later is
/// not written, and need not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// The lock is not held. In exclusive mode SQLite checkpoints like that.
    None,
    /// It is, and nothing was written.
    Begun,
    /// Everything it takes is in the redo log, durably.
    Logged,
}

impl MainFile {
    /// A handle on `database`.
    pub fn new(
        database: Arc<OpenDatabase>,
        read_only: bool,
        powersafe_overwrite: bool,
        unlocked: bool,
    ) -> MainFile {
        let internal = crate::ffi::connection::is_internal();
        let id = database.begin_handle(internal);
        let connection = Arc::new(ConnectionState::new(database.clone(), id, internal, unlocked));
        MainFile {
            connection_cache: ConnectionCache::new(database.cache(), connection.reader_slot.clone()),
            slots: database.wal_index().register(),
            connection,
            database,
            id,
            read_only,
            rollback_txn: RollbackTxn::default(),
            uses_wal_index: false,
            left_wal_index: false,
            persist_wal: false,
            powersafe_overwrite,
            mmap_size: 0,
            unlogged: false,
            checkpoint: Checkpoint::None,
            auto_checkpoint: AutoCheckpoint::default(),
            settled: 0,
            unsettled: None,
            shared_read: SharedRead::default(),
            released: None,
            seat_read: None,
            has_unused_turn: false,
            waits: 0,
            token: 0,
            is_inherited: false,
            stream: None,
            refused: None,
            wal: (0, Weak::new()),
            looked: !unlocked,
        }
    }

    /// Recovers the database, where possible, before a connection without locks reads. The newest transactions are in a
    /// log that such a connection does not look at. As with SQLite, the connection is told of nothing that is in the
    /// way.
    #[cold]
    fn look(&mut self) {
        self.looked = true;
        let log = self.database.db().companion_path(Companion::Wal);
        if self.database.db().holds_back() && matches!(self.database.db().medium().info(&log), Ok(Some(_))) {
            let _ = self.database.own();
        }
    }

    /// True if its connection is in no transaction, and SQLite has no page.
    pub fn is_idle(&self) -> bool {
        !self.connection.internal
            && !self.rollback_txn.holds()
            && !self.connection_cache.is_mapped()
            && self.connection.reader_slot.is_idle()
            && self.slots.is_empty()
    }

    /// The log, if a connection has used it.
    #[inline]
    pub(super) fn wal(&mut self) -> Option<Arc<Wal>> {
        let generation = self.database.wal_generation();
        if self.wal.0 != generation {
            let wal = self.database.wal();
            self.wal = (generation, wal.as_ref().map(Arc::downgrade).unwrap_or_default());
        }
        self.wal.1.upgrade()
    }

    #[cold]
    fn has_wal(&self) -> bool {
        self.database.wal().is_some()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.database.db().check_process()?;
        if self.read_only {
            Err(Error::ReadOnly { path: self.database.db().path().to_owned() })
        } else {
            Ok(())
        }
    }

    /// Refuses a transaction that would write to a latched database. SQLite has nothing to roll back yet, so the answer
    /// may be that nothing can be written. Within a transaction SQLite drops its cache for an input/output error only.
    pub(super) fn may_begin(&self) -> Result<()> {
        self.database.recovery().check_replayed()?;
        self.database.db().latch().check(self.database.db().path()).map_err(Error::Closed)
    }

    /// Does what waits for the medium. A fork need not wait for a thread of ours in it.
    fn at_leisure<T>(&mut self, work: impl FnOnce(&mut MainFile) -> T) -> T {
        if self.connection.internal { outside(|| work(self)) } else { work(self) }
    }

    fn pragma(&mut self, call: PragmaCall<'_>) -> Result<Handled> {
        let Some(name) = call.name.strip_prefix("litefoot_") else {
            self.note_pragma(call.name, call.value);
            return Ok(Handled::No);
        };
        *call.answer = Some(crate::files::pragma::answer(&self.database, name, call.value)?);
        Ok(Handled::Yes)
    }

    /// Notes settings of SQLite's that matter here.
    fn note_pragma(&mut self, name: &str, value: Option<&str>) {
        self.auto_checkpoint.note_pragma(name, value);
        let Some(value) = value else { return };
        if name == "synchronous" {
            self.connection.note_synchronous(value);
        }
        self.connection.cache_size.note(name, value);
    }
}

fn get_or_set(flag: &mut bool, value: &mut c_int) {
    match *value {
        0 => *flag = false,
        set if set > 0 => *flag = true,
        _ => {}
    }
    *value = c_int::from(*flag);
}

/// Calls of every query.
impl MainFile {
    /// Reads what tells a transaction that begins whether the database has changed, where the connection keeps page 1.
    /// Otherwise nothing is done, and the answer is `false`.
    #[inline]
    pub fn read_pinned(&mut self, buf: &mut [u8], offset: u64) -> bool {
        self.looked && self.connection_cache.read_pinned(self.database.cache(), buf, offset)
    }

    /// Takes the lock of a reader, where the connection has none and nothing is in the way; `false` changes nothing, and
    /// [`Handle::lock`] knows what to do.
    #[inline]
    pub fn try_share(&mut self) -> bool {
        if self.connection.internal
            || !reserve::is_untouched()
            || !self.database.try_share(&self.connection.reader_slot)
        {
            return false;
        }
        if !self.rollback_txn.holds() {
            self.connection_cache.enter_fast_path();
        }
        true
    }

    /// Gives up the lock of a reader, behind a transaction that has only read; `false` where [`Handle::unlock`] knows what
    /// else there is to do.
    #[inline]
    pub fn try_unshare(&mut self) -> bool {
        if !self.rollback_txn.is_none() || !self.connection_cache.is_settled() || self.database.serves_group()
        {
            return false;
        }
        self.connection.writing.store(false, Ordering::Relaxed);
        self.connection_cache.leave_fast_path();
        self.database.try_unshare(&self.connection.reader_slot)
    }

    /// The length of the database as the connection sees it, where that is known; [`Handle::size`] finds it out.
    #[inline]
    pub fn known_size(&self) -> Option<u64> {
        if !self.looked {
            return None;
        }
        self.rollback_txn.len().or_else(|| self.database.db().file_end().committed_len())
    }

    /// What [`Handle::characteristics`] answers, where it is known without a look at the log.
    #[inline]
    pub fn known_characteristics(&self) -> Option<c_int> {
        self.powersafe_overwrite.then_some(SQLITE_IOCAP_POWERSAFE_OVERWRITE)
    }
}

/// Pages by address.
impl MainFile {
    /// The address of `bytes` at `offset`, where they are one page that the connection keeps; it stays until
    /// [`MainFile::unfetch`].
    #[inline]
    pub fn fetch_pinned(&mut self, offset: u64, bytes: u32) -> Option<NonNull<u8>> {
        self.connection_cache.fetch_pinned(self.database.cache(), offset, bytes)
    }

    /// The same where they are one that is in memory.
    #[inline]
    pub fn fetch_in_memory(&mut self, offset: u64, bytes: u32) -> Option<NonNull<u8>> {
        self.connection_cache.fetch_in_memory(self.database.cache(), offset, bytes)
    }

    /// The address of `bytes` at `offset`, where they are one page that can be had.
    pub fn fetch(&mut self, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        if self.rollback_txn.holds() || self.is_beside_others() || self.released.is_some() {
            return None;
        }
        self.connection_cache.fetch(&*self.database, offset, bytes)
    }

    /// The page at `offset` that was fetched is not looked at any more.
    #[inline]
    pub fn unfetch(&mut self, offset: u64) {
        self.connection_cache.unfetch(offset);
    }
}

impl Handle for MainFile {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        if !self.looked {
            self.look();
        }
        if self.released.is_some() {
            self.take_lock_again()?;
        }
        if self.left_wal_index && is_change_look(buf, offset) {
            return self.read_as_changed(buf, offset);
        }
        if self.is_beside_others() {
            return self.read_file(buf, offset);
        }
        if !self.rollback_txn.holds() && self.connection_cache.read(&*self.database, buf, offset) {
            return Ok(());
        }
        self.rollback_txn.read(&self.connection, buf, offset, &mut ())
    }

    fn write(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        self.check_writable()?;
        self.connection_cache.leave_fast_path();
        if self.is_beside_others() {
            return self.write_file(buf, offset);
        }
        self.at_leisure(|this| {
            this.before_in_place()?;
            this.rollback_txn.write(&this.connection, buf, offset)
        })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.connection_cache.leave_fast_path();
        if self.is_beside_others() {
            return self.database.db().set_len_unseen(len);
        }
        self.before_in_place()?;
        self.rollback_txn.set_len(&self.connection, len)
    }

    fn sync(&mut self) -> Result<()> {
        self.at_leisure(|this| this.rollback_txn.sync(&this.connection))
    }

    fn size(&mut self) -> Result<u64> {
        if !self.looked {
            self.look();
        }
        match self.rollback_txn.len() {
            Some(len) => Ok(len),
            None => self.database.db().file_len(),
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.leave_wal_index(false);
        self.rollback_txn.close(&self.connection);
        self.database.writer_queue().leave(self.id);
        self.database.wal_index().unregister(&mut self.slots);
        self.connection_cache.close(&*self.database);
        self.database.leave_slot(&self.connection.reader_slot);
        self.database.leave(self.connection.internal)
    }

    fn lock(&mut self, to: Level) -> Result<()> {
        if self.released.is_some() {
            self.take_lock_again()?;
        }
        self.past_departures(
            |this| if to > Level::Shared { this.lock_to_write(to) } else { this.lock_shared() },
        )
    }

    fn unlock(&mut self, to: Level) -> Result<()> {
        if to < Level::Reserved {
            self.rollback_txn.end(&self.connection);
        }
        self.give_lock_up(to);
        if to == Level::None {
            (self.released, self.is_inherited) = (None, false);
            // A failure latches the database, and the next transaction meets it there.
            let _ = self.settle_shared_sync();
        }
        Ok(())
    }

    fn is_reserved(&mut self) -> Result<bool> {
        self.database.is_reserved()
    }

    fn control(&mut self, control: Control<'_>) -> Result<Handled> {
        match control {
            Control::LockState(state) => *state = self.connection.reader_slot.level() as c_int,
            Control::LastErrno(errno) => *errno = last_errno(),
            Control::PersistWal(value) => get_or_set(&mut self.persist_wal, value),
            Control::PowersafeOverwrite(value) => get_or_set(&mut self.powersafe_overwrite, value),
            Control::HasMoved(moved) => {
                let has_moved = !self.database.db().has_its_name();
                if has_moved && self.database.db().is_of_this_process() && !self.rollback_txn.holds() {
                    self.database.rollback_log().leave_place(self.database.db())?;
                }
                *moved = c_int::from(has_moved);
            }
            Control::MmapSize(size) => exchange_mmap_size(&mut self.mmap_size, size),
            Control::ExternalReader(is_there) => {
                *is_there = c_int::from(self.database.wal_index().is_read_by_others()?);
            }
            Control::Growth => {}
            Control::Connected => self.connection.receives_file_controls.store(true, Ordering::Relaxed),
            // Beside others it is SQLite's own already.
            Control::SeveralFiles if self.is_beside_others() => {}
            Control::SeveralFiles => self.rollback_txn.use_native_journal(&self.connection)?,
            Control::CommitDone => self.commit_done()?,
            Control::Pragma(call) => return self.pragma(call),
        }
        Ok(Handled::Yes)
    }

    fn characteristics(&self) -> c_int {
        // SQLite asks when it has opened its log. Without this flag SQLite would fill sectors of the log with frames
        // that count for nothing, and sync in the middle of one. But SQLite's log is memory, and the log on the medium
        // has another form.
        let powersafe = self.powersafe_overwrite || self.has_wal();
        if powersafe { SQLITE_IOCAP_POWERSAFE_OVERWRITE } else { 0 }
    }

    fn connection_state(&self) -> Option<&Arc<ConnectionState>> {
        Some(&self.connection)
    }

    fn latch_after_panic(&self, text: &str) {
        self.database.db().latch_after_panic(text);
    }

    fn database(&self) -> Option<&Arc<OpenDatabase>> {
        Some(&self.database)
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Result<Option<NonNull<u8>>> {
        self.map_wal_index(region, bytes, extend)
    }

    #[inline]
    fn shm_lock(&mut self, first: usize, count: usize, exclusive: bool) -> Result<()> {
        self.lock_slots(first, count, exclusive)
    }

    #[inline]
    fn shm_unlock(&mut self, first: usize, count: usize) -> Result<()> {
        self.unlock_slots(first, count)
    }

    fn shm_unmap(&mut self, delete: bool) -> Result<()> {
        self.leave_wal_index(delete);
        Ok(())
    }

    #[inline]
    fn shm_barrier(&mut self) {
        self.database.wal_index().barrier(&self.slots);
    }
}

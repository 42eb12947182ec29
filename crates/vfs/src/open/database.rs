//! One open database of this process: what ties its rooms together.
//!
//! Invariants:
//! 1. There is at most one [`OpenDatabase`] per file identity, VFS and fork generation (see `registry`).
//! 2. A pool, a log in memory and a length count only while this process owns the file (see `ownership`).

use crate::cache::{Cache, CacheHost};
use crate::capture::SharedCapture;
use crate::commit::rollback_log::RollbackRedoLog;
use crate::commit::wal::Wal;
use crate::db::tier::{self, Tier};
use crate::db::{Access, Db, DbSetup, KeptLogs};
use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::memory::spill_file::MakeSpill;
use crate::open::at_exit;
use crate::open::checkpointer::Checkpointer;
use crate::open::departures::Departures;
use crate::open::group::{GroupEnd, OwnGroup};
use crate::open::handles::Handles;
use crate::open::handover::Handover;
use crate::open::idle::Idle;
use crate::open::joiners::Joiners;
use crate::open::looks::Looks;
use crate::open::ownership::Ownership;
use crate::open::succession::Succession;
use crate::open::take_over::Recovery;
use crate::options::Options;
use crate::stats::Stats;
use crate::sync::lock_table::LockTable;
use crate::sync::wal_index::WalIndex;
use crate::sync::writer_queue::WriterQueue;
use crate::sync::{forks, owner_lock, relatives};
use crate::txn::{SpillTarget, TxnTarget};
use litefoot_storage::buffer_pool::Advisor;
use litefoot_storage::commit_log::Writer;
use litefoot_storage::file::{File, Medium, Operation};
use litefoot_storage::sync::Mutex;
use litefoot_storage::wal_file::ReservedSlots;
use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// One open database: all connections of this process to its file share it.
pub struct OpenDatabase {
    pub(super) db: Db,
    pub(super) cache: Cache,
    /// The redo log of its rollback-journal transactions.
    pub(super) rollback_log: Arc<RollbackRedoLog>,
    /// The write-ahead log, once a connection has used it.
    wal: Mutex<Option<Arc<Wal>>>,
    pub(super) locks: LockTable,
    pub(super) wal_index: WalIndex,
    pub(super) ownership: Ownership,
    pub(super) handles: Handles,
    pub(super) checkpointer: Checkpointer,
    /// The watch for a time without commits.
    idle: Idle,
    pub(super) recovery: Recovery,
    /// State that the captures of all connections share.
    shared_capture: SharedCapture,
    /// How SQLite is reached from below; absent where nothing needs it.
    pub(super) host: Option<Host>,
    /// True if SQLite's own protocol is used after all, until the database is closed.
    native: AtomicBool,
    /// A pointer to this value where it is shared, for threads that keep the database open.
    pub(super) weak_self: OnceLock<Weak<OpenDatabase>>,
    pub(super) serves_group: AtomicBool,
    pub(super) group_end: GroupEnd,
    pub(super) departures: Arc<Departures>,
    /// The same of those that have borrowed the file.
    pub(super) borrowers: Arc<Departures>,
    pub(super) looks: Looks,
    pub(super) joiners: Joiners,
    pub(super) succession: Succession,
    /// Dropped last: whoever finds the name free finds the file closed.
    pub(super) group: OwnGroup,
}

/// How SQLite is reached from below.
#[derive(Clone)]
pub struct Host {
    /// Its functions.
    pub api: &'static Api,
    /// The name of the VFS that serves the database.
    pub vfs: String,
}

/// The setup of a database that is opened.
pub struct DatabaseSetup {
    /// How SQLite is reached from below.
    pub host: Option<Host>,
    /// The medium that holds it.
    pub medium: Arc<dyn Medium>,
    /// Its open file.
    pub file: Arc<dyn File>,
    /// Its absolute path.
    pub path: PathBuf,
    /// Its options.
    pub options: Options,
    /// True if the file was opened for writing.
    pub writable: bool,
    /// True if the open created the file.
    pub created: bool,
    /// True if transactions are held back until they commit.
    pub holds_back: bool,
    /// True if its pages are kept in memory for all connections.
    pub pooled: bool,
    /// Where logs are remembered that closes keep; absent where none are kept.
    pub kept_logs: Option<Arc<KeptLogs>>,
}

impl OpenDatabase {
    /// A database over an open file.
    pub fn new(setup: DatabaseSetup) -> OpenDatabase {
        forks::watch();
        let rollback_log = Arc::<RollbackRedoLog>::default();
        let build = setup.host.as_ref().map(|host| host.api.build());
        let db = Db::new(DbSetup {
            medium: setup.medium,
            file: setup.file,
            path: setup.path,
            options: setup.options,
            access: Access {
                writable: setup.writable,
                created: setup.created,
                holds_back: setup.holds_back,
                pooled: setup.pooled,
            },
            build: build.map(|build| Writer { version: build.version, hash: build.hash }),
            redo_log: rollback_log.live_flag(),
            kept_logs: setup.kept_logs,
        });
        OpenDatabase {
            db,
            cache: Cache::default(),
            rollback_log,
            wal: Mutex::default(),
            locks: LockTable::default(),
            wal_index: WalIndex::default(),
            ownership: Ownership::default(),
            handles: Handles::default(),
            checkpointer: Checkpointer::default(),
            idle: Idle::default(),
            recovery: Recovery::default(),
            shared_capture: SharedCapture::default(),
            host: setup.host,
            native: AtomicBool::new(false),
            weak_self: OnceLock::new(),
            serves_group: AtomicBool::new(false),
            group_end: GroupEnd::default(),
            departures: Arc::default(),
            borrowers: Arc::default(),
            looks: Looks::default(),
            joiners: Joiners::default(),
            succession: Succession::default(),
            group: OwnGroup::default(),
        }
    }

    /// Its data file, and the files beside it.
    #[inline]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Its pages in memory.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The redo log of its rollback-journal transactions.
    pub fn rollback_log(&self) -> &Arc<RollbackRedoLog> {
        &self.rollback_log
    }

    /// How SQLite is reached from below.
    pub(crate) fn host(&self) -> Option<Host> {
        self.host.clone()
    }

    /// The wal-index.
    pub fn wal_index(&self) -> &WalIndex {
        &self.wal_index
    }

    /// The queue of its writers.
    pub fn writer_queue(&self) -> &Arc<WriterQueue> {
        self.db.writer_queue()
    }

    /// The locks between its connections.
    pub(crate) fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// The handles that connections have on it.
    pub(crate) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// Giving it to related processes.
    #[inline]
    pub(crate) fn handover(&self) -> &Handover {
        &self.ownership.handover
    }

    /// The recovery of the database, and how far it is.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The thread that checkpoints.
    #[inline]
    pub(crate) fn checkpointer(&self) -> &Checkpointer {
        &self.checkpointer
    }

    /// The watch for a time without commits.
    #[inline]
    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Notes that the database is shared from now on.
    pub(crate) fn set_shared(self: &Arc<OpenDatabase>) {
        let _ = self.weak_self.set(Arc::downgrade(self));
        at_exit::note_opened(self);
    }

    /// Reads exactly `buf` of the database as it was committed last.
    pub fn read(&self, buf: &mut [u8], offset: u64, advisor: &mut dyn Advisor) -> Result<()> {
        self.cache.read(&self.db, &self.rollback_log, buf, offset, advisor)
    }

    /// Writes to the database file what readers will see, unless a sync has failed before.
    pub fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.note_for_watchers(buf.len() as u64, offset);
        self.cache.write(&self.db, buf, offset)
    }

    /// Notes that a page is written for those that look at the database from outside. In WAL mode the log has had it before.
    fn note_for_watchers(&self, page_bytes: u64, offset: u64) {
        let changed = self.db.shared().changed();
        if !changed.are_watched() || self.wal().is_some() {
            return;
        }
        match (self.db.file_len(), u32::try_from(offset / page_bytes.max(1) + 1)) {
            (Ok(len), Ok(number)) if page_bytes >= 512 && offset.is_multiple_of(page_bytes) => {
                changed.note([number].into_iter(), len / page_bytes);
            }
            _ => changed.note_all(),
        }
    }

    /// Cuts the database file, or extends it, and readers see it.
    pub fn set_len(&self, len: u64) -> Result<()> {
        let changed = self.db.shared().changed();
        if changed.are_watched() && self.wal().is_none() {
            changed.note_all();
        }
        self.cache.set_len(&self.db, len)
    }

    /// All that is wrong with the pages in memory, while no commit is under way.
    #[doc(hidden)]
    pub fn wrong_pages(&self) -> Vec<String> {
        self.checkpointer.await_end();
        self.cache.wrong_pages(&self.db, &self.rollback_log)
    }

    /// The pages in memory; `None` while there can be none.
    #[doc(hidden)]
    pub fn pages(&self) -> Result<Option<Arc<crate::cache::pool::Pages>>> {
        self.cache.pages(&self.db, &self.rollback_log)
    }

    /// The pages in memory, if they are used already.
    #[doc(hidden)]
    pub fn known_pages(&self) -> Option<Arc<crate::cache::pool::Pages>> {
        self.cache.known_pages()
    }

    /// Figures of this database since it was opened, by name.
    pub fn stats(&self) -> Vec<(String, i64)> {
        let stats = self.db.stats_page();
        let wal = self.wal();
        Stats::set(&stats.wal_limit_bytes, self.db.memory().wal_bytes() as u64);
        if let Some(wal) = &wal {
            wal.note_fill(stats);
        }
        self.cache.pin_caches().count(stats);
        if let Some(pages) = self.cache.known_pages() {
            pages.note();
        }
        tier::note_figures(&self.db);
        let mut rows = stats.rows();
        let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        rows.push(("wal_memory_bytes".to_owned(), bytes(wal.map_or(0, |wal| wal.memory_bytes()))));
        rows.push(("log_memory_bytes".to_owned(), bytes(self.rollback_log.memory_bytes())));
        rows
    }

    /// Forgets the log in memory; what is on the medium stays.
    pub(crate) fn reset_wal(&self) {
        let mut wal = self.wal.lock();
        if let Some(wal) = wal.take() {
            // The next one may have the same salts, and other frames.
            wal.unshare_frames();
            self.db.companions().change_wal();
        }
        drop(wal);
        self.db.file_end().note_needed(0);
    }

    /// True if SQLite's own protocol is used after all.
    #[inline]
    pub fn is_native(&self) -> bool {
        self.native.load(Ordering::Acquire)
    }

    /// Goes over to SQLite's own protocol, until the database is closed: its journals and its log are files. The
    /// reasons are a connection without locks, or a VFS above litefoot that renames the companion files or does not
    /// tell of commits. In these cases litefoot cannot know which writes are one transaction, nor if all of them are in
    /// this file.
    pub fn go_native(&self) -> Result<()> {
        if self.is_native() {
            return Ok(());
        }
        if self.db.shared().is_multi_process() {
            // It is so already; now for good.
            self.native.store(true, Ordering::Release);
            return Ok(());
        }
        // A connection without locks may be on a file system that has none.
        match self.own() {
            Err(Error::Device(error)) if error.operation == Operation::Lock => {}
            result => result?,
        }
        let wal = self.wal.lock();
        if wal.is_some() {
            return Err(Error::Refused(format!(
                "{}: other connections of this process have its write-ahead log in memory, and this one comes \
                 through a VFS that does not say whose journal or log it opens; close the others first",
                self.db.path().display()
            )));
        }
        self.native.store(true, Ordering::Release);
        // Members ask from now on, and hear that nothing is held back.
        self.db.shared().changes().forget();
        drop(wal);
        self.rollback_log.clear_for_journal(&self.db)
    }

    /// State that the captures of all connections share.
    #[inline]
    pub(crate) fn shared_capture(&self) -> &SharedCapture {
        &self.shared_capture
    }

    /// Changes whenever another log, or none, has to be asked for.
    #[inline]
    pub fn wal_generation(&self) -> u64 {
        self.db.companions().wal_generation()
    }

    /// The number of the schema in the log, if a connection has used the log.
    pub(crate) fn schema(&self) -> Option<u32> {
        self.wal.lock().as_ref().map(|wal| wal.schema())
    }

    /// Materializes the deltas at the end of the process, without waiting for anybody; `false` where another thread is at work on the logs.
    pub(super) fn fold_at_exit(&self) -> bool {
        if !self.db.is_of_this_process() || !self.db.shared().was_owned() {
            return true;
        }
        let Some(wal) = self.wal.try_lock().map(|wal| wal.clone()) else { return false };
        wal.is_none_or(|wal| wal.fold_at_exit())
    }

    /// The log, if a connection has used it.
    pub fn wal(&self) -> Option<Arc<Wal>> {
        self.wal.lock().clone()
    }

    /// The log; `make_spill` makes the file for what does not fit into its memory.
    pub fn wal_or_open(&self, make_spill: MakeSpill) -> Result<Arc<Wal>> {
        let mut wal = self.wal.lock();
        if let Some(wal) = &*wal {
            return Ok(wal.clone());
        }
        if self.is_native() {
            return Err(Error::Busy);
        }
        let opened = Arc::new(Wal::open(&self.db, make_spill)?);
        *wal = Some(opened.clone());
        self.db.companions().change_wal();
        drop(wal);
        // For those who look from outside: nobody inside may ever ask.
        Stats::set(&self.db.counters().wal_limit_bytes, self.db.memory().wal_bytes() as u64);
        Ok(opened)
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        // Before another process can have the file.
        self.db.companions().close();
        let tier = tier::take(&mut self.db);
        if !self.db.is_of_this_process() {
            // Their threads are the parent's, and locks may be held that nothing gives back here.
            self.cache.forget_pages();
            self.db.forget_memory();
            self.wal_index.forget();
            // Nor is what the parent has begun on the tier to be ended here.
            std::mem::forget(tier);
            return;
        }
        // Before the file is anybody else's.
        tier.iter().for_each(Tier::close);
        if self.db.shared().was_owned()
            && let Some(wal) = self.wal()
        {
            wal.remove_left_commit_log();
        }
        // A forked child must not drop the lock that its parent holds on the shared file description.
        if tier.is_some() || self.db.shared().was_owned() {
            // An heir counts on the lock.
            if let Some(unwritten) = self.db.shared().unwritten() {
                unwritten.close();
                unwritten.note_owned(false);
            }
            // Closing the descriptor releases the lock as well; nothing is lost if this fails.
            let _ = owner_lock::release(self.db.file());
            relatives::look_again();
        }
    }
}

impl CacheHost for OpenDatabase {
    type Source = RollbackRedoLog;

    #[inline]
    fn cache(&self) -> &Cache {
        &self.cache
    }

    #[inline]
    fn db(&self) -> &Db {
        &self.db
    }

    #[inline]
    fn source(&self) -> &Arc<RollbackRedoLog> {
        &self.rollback_log
    }
}

impl SpillTarget for OpenDatabase {
    fn db(&self) -> &Db {
        &self.db
    }

    fn write_behind_end(&self, bufs: &[IoSlice<'_>], offset: u64, start_writeback: bool) -> Result<()> {
        self.db.latch().check(self.db.path())?;
        self.rollback_log.undisturbed(|| self.db.file_end().write_behind(bufs, offset, start_writeback))
    }
}

impl TxnTarget for OpenDatabase {
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.cache.read(&self.db, &self.rollback_log, buf, offset, &mut ())
    }

    fn write(&self, buf: &[u8], offset: u64) -> Result<()> {
        OpenDatabase::write(self, buf, offset)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        OpenDatabase::set_len(self, len)
    }

    fn before_behind_end(&self, end: u64) -> Result<()> {
        self.rollback_log.before_behind_end(&self.db, end)
    }

    fn log_contains(&self, number: u32) -> bool {
        self.rollback_log.contains(number)
    }

    fn reserve_slots(&self, page_bytes: usize, first: usize, count: usize) -> Result<ReservedSlots> {
        self.rollback_log.reserve_slots(&self.db, page_bytes, first, count)
    }
}

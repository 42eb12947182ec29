//! One open database of this process: what all its connections share.
//!
//! Invariants:
//! 1. There is at most one `Database` per file identity, VFS and fork generation (see `registry.rs`).
//! 2. Nothing of the file is read or written under a lock before this process owns it.
//! 3. Every write of the database file, its journal and its log passes the one sync latch first.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the database: who owns it, its locks, its logs, its end |
//! | `pooled` | its pages in memory |
//! | `lending` | giving it to a related process, and having it again |
//! | `content` | what is read from the file and written to it |

pub(crate) mod content;
pub(crate) mod lending;
#[cfg(test)]
mod of_test;
mod pooled;

use crate::cache::pin_cache::Views;
use crate::cache::pool::Pages;
use crate::capture::SharedCapture;
use crate::commit::rollback_log::AtomicLog;
use crate::commit::wal::Wal;
use crate::db::companions::Beside;
use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::connection::InternalConnection;
use crate::memory::process_budget::{Share, ShareRequest};
use crate::memory::spill_file::MakeSpill;
use crate::open::checkpointer::Background;
use crate::open::database::lending::Turns;
use crate::open::registry::Companion;
use crate::open::tier::{Tier, redo_log_beside};
use crate::options::Options;
use crate::stats::{Meter, MeteredFile, Page, PageState, Stats};
use crate::sync::forks;
use crate::sync::lock_table::{HandleId, Level, LockTable, Seat};
use crate::sync::owner_lock;
use crate::sync::relatives;
use crate::sync::wal_index::SharedMemory;
use crate::sync::writer_queue::Writers;
use litefoot_storage::commit_log::Writer;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Operation, SyncLatch};
use litefoot_storage::fork;
use litefoot_storage::sync::{Mutex, RwLock};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// Most bytes of the write-ahead log that are kept in memory between transactions, and the part of the memory of the
/// process, where nobody says how much.
const WAL_BYTES: usize = 16 << 20;
const WAL_SHARE: usize = 4;

/// How many bytes of new pages are many, and the part of a given memory that is.
const MANY_NEW_BYTES: usize = 256 << 10;
const MANY_NEW_SHARE: usize = 64;

/// No length: the file may be another process's.
const UNKNOWN: u64 = u64::MAX;

/// What all connections to one database file share.
pub struct Database {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    /// What takes its place for all that is read and written, where there is a tier.
    tier: OnceLock<Tier>,
    path: PathBuf,
    options: Options,
    writable: bool,
    fork_generation: u32,
    latch: Arc<SyncLatch>,
    stats: Arc<Page>,
    shm: SharedMemory,
    locks: LockTable,
    next_handle: AtomicU64,
    /// Whether the file's name may not be durable yet.
    name_unsynced: AtomicBool,
    /// When it was found to have its name, in milliseconds since it was opened, about.
    named_at: AtomicU64,
    /// When it was opened.
    opened_at: Instant,
    /// Whether the file was written since its last sync.
    written: AtomicBool,
    /// The log, once a connection has used it.
    wal: Mutex<Option<Arc<Wal>>>,
    /// How many commits of the log were promised to be durable.
    promises: AtomicU64,
    /// The redo log of its rollback-journal transactions.
    atomic: Arc<AtomicLog>,
    /// Whether there may be a pool at all.
    pooled: bool,
    /// What the connections keep of them.
    views: Views,
    /// The pages in memory, once there are any.
    pages: RwLock<Option<Arc<Pages>>>,
    /// Changes whenever `pages` does.
    pages_generation: AtomicU64,
    /// Whether transactions are held back until they commit.
    holds_back: bool,
    /// Whether SQLite's own protocol is used after all, until the database is closed.
    native: AtomicBool,
    /// Bytes of a page, as the file says; 0 while that must be read.
    page_bytes: AtomicU32,
    /// Length of the file, while this process owns it; [`UNKNOWN`] before.
    len: AtomicU64,
    /// What is known of the files beside it, and whether `wal` is there: it changes under the lock of that.
    beside: Arc<Beside>,
    handles: AtomicU64,
    /// Those of them that are the application's.
    application_handles: AtomicU64,
    /// How SQLite is reached from below; absent where nothing needs it.
    host: Option<Host>,
    writers: Writers,
    background: Arc<Background>,
    /// Whether a statement log may have to be replayed.
    replay_waits: AtomicBool,
    replaying: Mutex<()>,
    /// Why it must not be replayed: then nobody may write.
    unreplayed: OnceLock<String>,
    /// State that the captures of all connections share.
    shared_capture: SharedCapture,
    /// Whether a transaction has written behind the end of the database.
    behind_end: AtomicBool,
    /// Held by whoever writes behind the end, or moves it. Bytes of the file that hold pages which the log in memory has
    /// as well, mostly.
    tail: Mutex<Option<Range<u64>>>,
    /// Bytes that the newest commit in the log in memory counts on.
    needed: AtomicU64,
    /// Whether this process is the owner, and the lock of whoever makes it that.
    owned: AtomicBool,
    owning: Mutex<()>,
    /// Who else wants it.
    turns: Turns,
    /// Itself, as it is shared.
    me: OnceLock<Weak<Database>>,
    /// Its share of the process's memory.
    share: OnceLock<Arc<Share>>,
}

/// How SQLite is reached from below.
#[derive(Clone)]
pub struct Host {
    /// Its functions.
    pub api: &'static Api,
    /// The name of the VFS that serves the database.
    pub vfs: String,
}

/// What a database is opened with.
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
    /// Whether the file was opened for writing.
    pub writable: bool,
    /// Whether the open created the file.
    pub created: bool,
    /// Whether transactions are held back until they commit.
    pub holds_back: bool,
    /// Whether its pages are kept in memory for all connections.
    pub pooled: bool,
}

impl Database {
    /// A database over an open file.
    pub fn new(setup: DatabaseSetup) -> Database {
        forks::watch();
        // What simulates, counts or models has no descriptor, and is nobody else's to look at.
        let stats = Arc::new(match setup.file.raw_descriptor() {
            Some(_) => Page::shared(setup.file.id()),
            None => Page::private(),
        });
        // Without rights of its own, a medium makes files as it does.
        let medium = setup.medium.for_database(&setup.file).unwrap_or(setup.medium);
        let atomic = Arc::<AtomicLog>::default();
        let limit = if setup.options.logs_statements() { setup.options.sla_size as u64 } else { 0 };
        Stats::set(&stats.statement_log_limit_bytes, limit);
        Stats::set(&stats.redo_log_limit_bytes, setup.options.log_bytes as u64);
        Database {
            medium: Arc::new(Meter::new(medium, stats.clone())),
            file: setup.file,
            tier: OnceLock::new(),
            path: setup.path,
            writable: setup.writable,
            fork_generation: fork::generation(),
            latch: Arc::default(),
            wal: Mutex::default(),
            beside: Arc::new(Beside::new(atomic.live_flag())),
            atomic,
            pooled: setup.pooled && setup.options.pool != Some(0),
            options: setup.options,
            pages: RwLock::default(),
            views: Views::default(),
            pages_generation: AtomicU64::new(0),
            owned: AtomicBool::new(false),
            owning: Mutex::default(),
            turns: Turns::default(),
            me: OnceLock::new(),
            share: OnceLock::new(),
            holds_back: setup.holds_back && setup.writable,
            native: AtomicBool::new(false),
            promises: AtomicU64::new(0),
            page_bytes: AtomicU32::new(0),
            len: AtomicU64::new(UNKNOWN),
            handles: AtomicU64::new(0),
            application_handles: AtomicU64::new(0),
            host: setup.host,
            writers: Writers::default(),
            background: Arc::default(),
            replay_waits: AtomicBool::new(false),
            replaying: Mutex::default(),
            unreplayed: OnceLock::new(),
            shared_capture: SharedCapture::default(),
            behind_end: AtomicBool::new(false),
            tail: Mutex::default(),
            needed: AtomicU64::new(0),
            written: AtomicBool::new(false),
            stats,
            shm: SharedMemory::default(),
            locks: LockTable::default(),
            next_handle: AtomicU64::new(1),
            name_unsynced: AtomicBool::new(setup.created),
            named_at: AtomicU64::new(0),
            opened_at: Instant::now(),
        }
    }

    /// The database file as it is on flash: its locks and its identity.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The same, to be kept.
    pub(crate) fn flash(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    /// What the database is read from and written to.
    pub fn data(&self) -> &Arc<dyn File> {
        self.tier.get().map_or(&self.file, Tier::file)
    }

    /// The tier, where there is one and this process owns the database.
    pub(crate) fn tier(&self) -> Option<&Tier> {
        self.tier.get()
    }

    /// How SQLite is reached from below.
    pub(crate) fn host(&self) -> Option<Host> {
        self.host.clone()
    }

    /// Whether the database is litefoot's to look after, and not only passed on.
    pub(crate) fn host_is_there(&self) -> bool {
        self.host.is_some()
    }

    pub(crate) fn set_tier(&self, tier: Tier) {
        let _ = self.tier.set(tier);
    }

    /// The medium that holds the database and everything beside it.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// A file that was opened past [`Database::medium`], so that what is written to it is counted, too.
    pub(crate) fn metered(&self, file: Arc<dyn File>, kind: FileKind) -> Arc<dyn File> {
        Arc::new(MeteredFile::new(file, kind, self.stats.clone()))
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether the file can be written.
    pub fn writable(&self) -> bool {
        self.writable
    }

    /// The latch that guards the database file, its journal and its logs together.
    pub fn latch(&self) -> &Arc<SyncLatch> {
        &self.latch
    }

    /// A call of SQLite's has panicked: what it was changing is unknown, and nothing is written on top of that.
    pub fn latch_after_panic(&self, text: &str) {
        let path = self.path.display();
        self.latch.close(&format!("{path}: internal error (please report it): {text}"));
    }

    /// The wal-index.
    pub fn shm(&self) -> &SharedMemory {
        &self.shm
    }

    /// Whether it was opened by this process, not by one that has forked since.
    pub fn is_of_this_process(&self) -> bool {
        self.fork_generation == fork::generation()
    }

    /// Refuses what a forked child would do to its parent's database.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.is_of_this_process() { Ok(()) } else { Err(Error::Forked { path: self.path.clone() }) }
    }

    /// A number for a new handle.
    pub fn new_handle(&self, internal: bool) -> HandleId {
        self.handles.fetch_add(1, Ordering::Relaxed);
        self.application_handles.fetch_add(u64::from(!internal), Ordering::Relaxed);
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// A seat among the locks for a new handle, which gives it back to [`Database::give_up_seat`].
    pub fn sit(&self) -> Arc<Seat> {
        self.locks.sit()
    }

    /// It is shared.
    pub(crate) fn set_shared(self: &Arc<Database>) {
        let _ = self.me.set(Arc::downgrade(self));
    }

    /// The handle is closed.
    pub fn give_up_seat(&self, seat: &Arc<Seat>) {
        self.locks.leave(seat);
    }

    /// Raises a handle's lock; takes ownership of the file with the first one.
    #[inline]
    pub fn lock(&self, seat: &Seat, wanted: Level) -> Result<()> {
        self.check_process()?;
        if wanted == Level::Exclusive {
            self.await_background();
        }
        self.own()?;
        if self.replay_waits.load(Ordering::Acquire) {
            self.replay_once()?;
        }
        let before = seat.level();
        let locked = self.locks.lock(seat, wanted);
        if !locked || !self.is_owned() {
            self.lock_again(seat, before, wanted, locked)?;
        }
        if wanted == Level::Exclusive {
            self.views.let_go();
        }
        Ok(())
    }

    #[cold]
    fn replay_once(&self) -> Result<()> {
        let _one = self.replaying.lock();
        if self.replay_waits.load(Ordering::Acquire) {
            self.recover_statements()?;
            self.replay_waits.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Somebody is in the way of a handle that was `before`, or the database was given to another process meanwhile.
    #[cold]
    fn lock_again(&self, seat: &Seat, before: Level, wanted: Level, mut locked: bool) -> Result<()> {
        while !locked || !self.is_owned() {
            if !locked && self.is_owned() {
                return Err(Error::Busy);
            }
            self.locks.unlock(seat, before);
            self.own()?;
            locked = self.locks.lock(seat, wanted);
        }
        Ok(())
    }

    /// Makes this process the owner.
    #[inline]
    pub(crate) fn own(&self) -> Result<()> {
        if self.owned.load(Ordering::Acquire) { Ok(()) } else { self.become_owner() }
    }

    #[cold]
    fn become_owner(&self) -> Result<()> {
        let _one = self.owning.lock();
        if !self.owned.load(Ordering::Acquire) {
            self.acquire()?;
            if let Err(error) = self.take_over().and_then(|()| self.begin_turn()) {
                // A tier is used further by whoever tries again; until then nobody else may have the file.
                if self.tier.get().is_none() {
                    owner_lock::release(&*self.file)?;
                }
                return Err(error);
            }
            self.owned.store(true, Ordering::SeqCst);
            self.stats.set_state(PageState::Owned);
            self.note_turn();
        }
        Ok(())
    }

    /// Whether its pages are kept in memory for all connections.
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// The share of the process's memory, for what this database keeps there.
    pub fn share(&self) -> &Arc<Share> {
        self.share.get_or_init(|| {
            Arc::new(Share::join(&ShareRequest {
                pool_bytes: self.options.pool,
                write_bytes: self.options.wal_memory,
                is_pooled: self.pooled,
            }))
        })
    }

    /// Bytes of new pages up to which a transaction writes them to a log: going straight into the file costs a sync.
    pub fn many_new_bytes(&self) -> usize {
        self.options.wal_memory.map_or(MANY_NEW_BYTES, |bytes| bytes / MANY_NEW_SHARE)
    }

    /// Bytes of the write-ahead log that are kept in memory between transactions.
    pub fn wal_bytes(&self) -> usize {
        match self.options.wal_memory {
            Some(bytes) => bytes,
            None if self.pooled => WAL_BYTES.min(self.share().bytes() / WAL_SHARE),
            None => WAL_BYTES,
        }
    }

    /// Lowers a handle's lock.
    #[inline]
    pub fn unlock(&self, seat: &Seat, to: Level) {
        self.locks.unlock(seat, to);
        self.may_give_turn();
    }

    /// Whether any handle is at RESERVED or above.
    pub fn is_reserved(&self) -> bool {
        self.locks.is_reserved()
    }

    /// Figures of this database since it was opened, by name.
    pub fn stats(&self) -> Vec<(String, i64)> {
        let wal = self.wal();
        Stats::set(&self.stats.wal_limit_bytes, self.wal_bytes() as u64);
        if let Some(wal) = &wal {
            wal.note_fill(&self.stats);
        }
        self.views.count(&self.stats);
        if let Some(pages) = self.known_pages() {
            pages.note();
        }
        self.note_tier();
        let mut rows = self.stats.rows();
        let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        rows.push(("wal_memory_bytes".to_owned(), bytes(wal.map_or(0, |wal| wal.memory_bytes()))));
        rows.push(("log_memory_bytes".to_owned(), bytes(self.atomic.memory_bytes())));
        rows
    }

    /// The process has become the owner.
    fn take_over(&self) -> Result<()> {
        if !self.holds_back {
            return self.refuse_marked();
        }
        self.open_tier()?;
        self.atomic.recover(self)?;
        self.len.store(self.data().len()?, Ordering::Release);
        for companion in [Companion::Wal, Companion::Journal] {
            let there = self.medium.identity(&self.companion_path(companion))?;
            self.set_alone(companion, there.is_none());
        }
        let mut waits = self.medium.identity(&self.statement_path())?.is_some();
        if waits && self.data().is_empty()? {
            self.set_statements_aside()?;
            waits = self.medium.identity(&self.statement_path())?.is_some();
        }
        self.replay_waits.store(waits, Ordering::Release);
        Ok(())
    }

    /// A statement log waits that must not be replayed, for this reason.
    pub(crate) fn set_unreplayed(&self, reason: String) {
        let _ = self.unreplayed.set(reason);
    }

    /// Refuses to write while a statement log waits that was not replayed.
    pub(crate) fn check_replayed(&self) -> Result<()> {
        self.unreplayed.get().map_or(Ok(()), |reason| Err(Error::Unreplayed(reason.clone())))
    }

    /// Who writes, and replays, statements of this database: this build of SQLite.
    pub(crate) fn writer(&self) -> Writer {
        let build = self.host.as_ref().map(|host| host.api.build()).unwrap_or_default();
        Writer { version: build.version, hash: build.hash }
    }

    /// What its connections keep of the pages in memory.
    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// The queue of its writers.
    pub fn writers(&self) -> &Writers {
        &self.writers
    }

    /// The thread that checkpoints.
    pub fn background(&self) -> &Arc<Background> {
        &self.background
    }

    /// Waits until that has ended, and counts it where it was at work.
    pub fn await_background(&self) {
        if self.background.wait() {
            Stats::add(&self.stats.checkpoint_waits, 1);
        }
    }

    /// Where the statement log lies.
    pub fn statement_path(&self) -> PathBuf {
        match &self.options.nvram {
            Some(path) => path.clone(),
            None => self.companion_path(Companion::StatementLog),
        }
    }

    /// A new connection of our own. Not while one of the application's has the database to itself: its index of
    /// the log is then its own, too.
    pub(crate) fn internal_connection(&self) -> Result<InternalConnection> {
        if self.is_reserved() {
            return Err(Error::Busy);
        }
        let host = self.host.as_ref().ok_or_else(|| Error::Refused("no way into SQLite".to_owned()))?;
        // It would be one to another file.
        if !self.has_its_name() {
            return Err(Error::Busy);
        }
        let connection = InternalConnection::open(host.api, &host.vfs, &self.path).map_err(Error::Refused)?;
        // SQLite opens the log with the first read, and takes a checkpoint before that for done.
        let read = connection.execute("SELECT count(*) FROM sqlite_schema");
        read.map_err(|_| Error::Refused(connection.message()))?;
        Ok(connection)
    }

    /// State that the captures of all connections share.
    #[inline]
    pub(crate) fn shared_capture(&self) -> &SharedCapture {
        &self.shared_capture
    }

    /// Forgets the log in memory; what is on the medium stays.
    pub(crate) fn forget_wal(&self) {
        let mut wal = self.wal.lock();
        if wal.is_some() {
            *wal = None;
            self.beside.change_wal();
        }
        drop(wal);
        self.note_needed(0);
    }

    /// What is known of the files beside it.
    pub(crate) fn beside(&self) -> &Arc<Beside> {
        &self.beside
    }

    /// Whether it is known, without asking the medium, that a companion is not there.
    pub fn is_alone(&self, companion: Companion) -> bool {
        self.beside.is_alone(companion)
    }

    /// Notes whether a companion is known not to be there.
    pub fn set_alone(&self, companion: Companion, alone: bool) {
        self.beside.set_alone(companion, alone);
    }

    /// Length of the database file.
    pub fn file_len(&self) -> Result<u64> {
        match self.len.load(Ordering::Acquire) {
            UNKNOWN => Ok(self.data().len()?),
            known => Ok(known),
        }
    }

    /// Notes what a commit has made of the length: the file itself follows later.
    pub fn set_committed_len(&self, len: u64) {
        self.len.store(len, Ordering::Release);
    }

    fn note_len(&self, change: impl Fn(u64) -> u64) {
        let known = |len| (len != UNKNOWN).then(|| change(len));
        let _ = self.len.fetch_update(Ordering::AcqRel, Ordering::Acquire, known);
    }

    /// The counters of this database.
    pub(crate) fn counters(&self) -> &Stats {
        &self.stats
    }

    /// A handle is closed; the last one leaves the database file alone and complete.
    pub fn leave(&self, internal: bool) -> Result<()> {
        let last_of_application = !internal && self.application_handles.fetch_sub(1, Ordering::AcqRel) == 1;
        // In a forked child neither the thread nor its connection is there.
        if last_of_application && self.is_of_this_process() {
            self.background.wait();
            self.shared_capture.close_reference();
            if let Some(wal) = self.wal() {
                wal.finish();
            }
        }
        let last = self.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if !last || !self.is_of_this_process() {
            return Ok(());
        }
        self.atomic.retire(self)?;
        // SQLite makes no checkpoint of a file that has lost its name.
        if let Some(wal) = self.wal().filter(|_| !self.has_its_name()) {
            wal.bring_home(self)?;
            self.forget_wal();
        }
        if self.tier.get().is_none() {
            return Ok(());
        }
        // Whoever opens it meanwhile waits for the lock, and then finds everything at home.
        self.locks.while_free(|| self.close_tier()).unwrap_or(Ok(()))
    }

    /// Notes that a connection keeps more or less memory for its transactions.
    pub fn note_held_bytes(&self, before: usize, now: usize) {
        self.stats.held_memory_bytes.fetch_add(now as u64, Ordering::Relaxed);
        self.stats.held_memory_bytes.fetch_sub(before as u64, Ordering::Relaxed);
    }

    /// The redo log of its rollback-journal transactions.
    pub fn atomic(&self) -> &AtomicLog {
        &self.atomic
    }

    /// Whether transactions are held back until they commit.
    pub fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Whether SQLite's own protocol is used after all.
    #[inline]
    pub fn is_native(&self) -> bool {
        self.native.load(Ordering::Acquire)
    }

    /// From now on, until the database is closed, everything goes by SQLite's own protocol: its journals and its log are
    /// files. A connection does not lock, or a VFS above litefoot has names of its own for them, or does not tell of
    /// commits; then it is not known which writes are one transaction, nor whether they are all in this file.
    pub fn go_native(&self) -> Result<()> {
        if self.is_native() {
            return Ok(());
        }
        // Who has no locks may be on a file system that has none.
        match self.own() {
            Err(Error::Device(error)) if error.operation == Operation::Lock => {}
            result => result?,
        }
        let wal = self.wal.lock();
        if wal.is_some() {
            return Err(Error::Refused(format!(
                "{}: other connections of this process have its write-ahead log in memory, and this one comes \
                 through a VFS that does not say whose journal or log it opens; close the others first",
                self.path.display()
            )));
        }
        self.native.store(true, Ordering::Release);
        drop(wal);
        self.atomic.clear_for_journal(self)
    }

    /// Where a companion lies, if it is there.
    pub fn companion_path(&self, companion: Companion) -> PathBuf {
        let marked = self.tier.get().is_some_and(Tier::is_marked);
        match (companion, self.options.tier.as_ref().filter(|_| marked)) {
            (Companion::Wal, Some(device)) => redo_log_beside(device),
            (Companion::StatementLog, Some(device)) => companion.of(device),
            _ => companion.of(&self.path),
        }
    }

    /// Whether there is a rollback journal on the medium that may be hot. One whose header is zeros was finished
    /// in the mode PERSIST.
    pub fn has_real_journal(&self) -> Result<bool> {
        let path = self.companion_path(Companion::Journal);
        if self.medium.info(&path)?.is_none_or(|info| info.len == 0) {
            return Ok(false);
        }
        let mut first = [0];
        self.medium.open(&path, FileKind::Journal, OpenMode::ReadOnly)?.read_at(&mut first, 0)?;
        Ok(first != [0])
    }

    /// A commit was promised to be durable, and readers must wait for that: the log says so already, and nobody sees the
    /// commit yet.
    pub fn note_promise(&self) {
        self.promises.fetch_add(1, Ordering::Release);
    }

    /// How many commits of the log were promised to be durable.
    #[inline]
    pub fn promises(&self) -> u64 {
        self.promises.load(Ordering::Acquire)
    }

    /// Changes whenever another log, or none, has to be asked for.
    #[inline]
    pub fn wal_generation(&self) -> u64 {
        self.beside.wal_generation()
    }

    /// Whether a connection has used the log.
    #[inline]
    pub fn has_wal(&self) -> bool {
        self.beside.has_wal()
    }

    /// The number of the schema in the log, if a connection has used the log.
    pub(crate) fn schema(&self) -> Option<u32> {
        self.wal.lock().as_ref().map(|wal| wal.schema())
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
        let opened = Arc::new(Wal::open(self, make_spill)?);
        *wal = Some(opened.clone());
        self.beside.change_wal();
        drop(wal);
        // For those who look from outside: nobody inside may ever ask.
        Stats::set(&self.stats.wal_limit_bytes, self.wal_bytes() as u64);
        Ok(opened)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Before anybody else can have the file.
        self.beside.close();
        let tier = self.tier.take();
        if !self.is_of_this_process() {
            // Their threads are the parent's, and locks may be held that nobody gives back here.
            std::mem::forget(self.pages.get_mut().take());
            std::mem::forget(self.share.take());
            self.shm.forget();
            // Nor is what the parent has begun on the tier to be ended here.
            std::mem::forget(tier);
            return;
        }
        // Before the file is anybody else's.
        tier.iter().for_each(Tier::close);
        // A forked child must not drop the lock that its parent holds on the shared file description.
        if tier.is_some() || self.owned.load(Ordering::Acquire) {
            // Closing the descriptor releases the lock as well; nothing is lost if this fails.
            let _ = owner_lock::release(&*self.file);
            relatives::look_again();
        }
    }
}

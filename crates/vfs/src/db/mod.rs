//! One database as its process has it: the data file, the files beside it, and what is known of both.
//!
//! A [`Db`] is what every other room may ask for: where bytes are read and written, under which latch, with which
//! options, counted where. It knows no log, no pool and no lock between connections; [`crate::open`] ties those to it.
//!
//! # Two halves
//! [`Shared`] is what all users of the database have in common: plain numbers, which could lie in memory that several
//! processes share. The rest of a `Db` is this process's own: descriptors, paths, figures, memory.
//!
//! # Invariants
//! 1. Nothing of the file is read or written under a lock before this process owns it.
//! 2. Every write of the database file, its journal and its log passes the one sync latch first.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the database: its file, its paths, its latch, its share of memory |
//! | `data_file` | what is read from the file and written to it |
//! | `shared` | what all users of the database have in common |
//! | `companions` | the files beside it, and what is known of them without asking the medium |
//! | `tier` | a fast device in the place of the file's hot chunks |

pub(crate) mod companions;
pub(crate) mod data_file;
#[cfg(test)]
mod of_test;
mod shared;
pub mod tier;

pub use companions::Companion;
pub use data_file::{MAGIC, page_bytes_in};
pub use shared::Shared;

use crate::error::{Error, Result};
use crate::memory::process_budget::{BudgetShare, ShareRequest};
use crate::options::Options;
use crate::stats::{Meter, MeteredFile, Stats, StatsPage};
use companions::CompanionFiles;
use litefoot_storage::commit_log::Writer;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode, SyncLatch};
use litefoot_storage::fork;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tier::{Tier, redo_log_companion};

/// Most bytes of the write-ahead log in memory between transactions, and the part of the memory of the process, where
/// no option says how much.
const WAL_BYTES: usize = 16 << 20;
const WAL_SHARE: usize = 4;

/// How many bytes of new pages are many, and the part of a given memory that is.
const MANY_NEW_BYTES: usize = 256 << 10;
const MANY_NEW_SHARE: usize = 64;

/// The data file of a database, with its companions.
pub struct Db {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    /// The tiered file that takes the place of `file` for all reads and writes, where there is a tier.
    tier: OnceLock<Tier>,
    path: PathBuf,
    options: Options,
    access: Access,
    fork_generation: u32,
    latch: Arc<SyncLatch>,
    stats: Arc<StatsPage>,
    companions: Arc<CompanionFiles>,
    /// The build of SQLite that writes statements to the commit log, and replays them; absent where SQLite is not
    /// reached from below.
    build: Option<Writer>,
    memory: Memory,
    name: data_file::Name,
    shared: Shared,
}

/// How a database may be used.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Whether the file was opened for writing.
    pub writable: bool,
    /// Whether the open created the file.
    pub created: bool,
    /// Whether transactions are held back until they commit.
    pub holds_back: bool,
    /// Whether its pages are kept in memory for all connections.
    pub pooled: bool,
}

/// The share of the process's memory that a database has.
#[derive(Default)]
struct Memory {
    share: OnceLock<Arc<BudgetShare>>,
}

/// What a database is opened with.
pub struct DbSetup {
    /// The medium that holds it.
    pub medium: Arc<dyn Medium>,
    /// Its open file.
    pub file: Arc<dyn File>,
    /// Its absolute path.
    pub path: PathBuf,
    /// Its options.
    pub options: Options,
    /// How it may be used.
    pub access: Access,
    /// The build of SQLite that reaches it.
    pub build: Option<Writer>,
    /// Whether the redo log of rollback-journal transactions lies beside it.
    pub redo_log: Arc<AtomicBool>,
}

impl Db {
    /// A database over an open file.
    pub fn new(setup: DbSetup) -> Db {
        // What simulates, counts or models has no descriptor, and no other process looks at its figures.
        let stats = Arc::new(match setup.file.raw_descriptor() {
            Some(_) => StatsPage::shared(setup.file.id()),
            None => StatsPage::private(),
        });
        // Without rights of its own, a medium makes files as it does.
        let medium = setup.medium.for_database(&setup.file).unwrap_or(setup.medium);
        let limit = if setup.options.logs_statements() { setup.options.commit_log_size as u64 } else { 0 };
        Stats::set(&stats.commit_log_limit_bytes, limit);
        Stats::set(&stats.redo_log_limit_bytes, setup.options.max_wal_size as u64);
        let pooled = setup.access.pooled && setup.options.buffer_pool_size != Some(0);
        let holds_back = setup.access.holds_back && setup.access.writable;
        Db {
            medium: Arc::new(Meter::new(medium, stats.clone())),
            file: setup.file,
            tier: OnceLock::new(),
            path: setup.path,
            options: setup.options,
            access: Access { pooled, holds_back, ..setup.access },
            fork_generation: fork::generation(),
            latch: Arc::default(),
            stats,
            companions: Arc::new(CompanionFiles::new(setup.redo_log)),
            build: setup.build,
            memory: Memory::default(),
            name: data_file::Name::new(setup.access.created),
            shared: Shared::default(),
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

    pub(crate) fn set_tier(&self, tier: Tier) {
        let _ = self.tier.set(tier);
    }

    /// Takes the tier out of a database that is closed.
    pub(crate) fn take_tier(&mut self) -> Option<Tier> {
        self.tier.take()
    }

    /// The medium that holds the database and everything beside it.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// A file that was opened past [`Db::medium`], so that what is written to it is counted, too.
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
        self.access.writable
    }

    /// Whether transactions are held back until they commit.
    pub fn holds_back(&self) -> bool {
        self.access.holds_back
    }

    /// Whether its pages are kept in memory for all connections.
    pub fn is_pooled(&self) -> bool {
        self.access.pooled
    }

    /// Whether SQLite is reached from below: the database is litefoot's to look after, and not only passed on.
    pub(crate) fn has_host(&self) -> bool {
        self.build.is_some()
    }

    /// The build of SQLite that writes statements to the commit log, and replays them.
    pub(crate) fn writer(&self) -> Writer {
        self.build.unwrap_or_default()
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

    /// The counters of this database.
    pub(crate) fn counters(&self) -> &Stats {
        &self.stats
    }

    /// The same, to be kept, with the page that other processes read.
    pub(crate) fn stats_page(&self) -> &Arc<StatsPage> {
        &self.stats
    }

    /// What all users of the database have in common.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The files beside it.
    pub(crate) fn companions(&self) -> &Arc<CompanionFiles> {
        &self.companions
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

    /// The share of the process's memory, for what this database keeps there.
    pub fn share(&self) -> &Arc<BudgetShare> {
        self.memory.share.get_or_init(|| {
            Arc::new(BudgetShare::join(&ShareRequest {
                pool_bytes: self.options.buffer_pool_size,
                write_bytes: self.options.write_buffer_size,
                is_pooled: self.is_pooled(),
            }))
        })
    }

    /// In a forked child: leaves the share of the parent's memory as it is.
    pub(crate) fn forget_share(&mut self) {
        std::mem::forget(self.memory.share.take());
    }

    /// Bytes of new pages up to which a transaction writes them to a log: going straight into the file costs a sync.
    pub fn many_new_bytes(&self) -> usize {
        self.options.write_buffer_size.map_or(MANY_NEW_BYTES, |bytes| bytes / MANY_NEW_SHARE)
    }

    /// Bytes of the write-ahead log that are kept in memory between transactions.
    pub fn wal_bytes(&self) -> usize {
        match self.options.write_buffer_size {
            Some(bytes) => bytes,
            None if self.is_pooled() => WAL_BYTES.min(self.share().bytes() / WAL_SHARE),
            None => WAL_BYTES,
        }
    }

    /// Notes that a connection keeps more or less memory for its transactions.
    pub fn note_dirty_bytes(&self, before: usize, now: usize) {
        self.stats.txn_dirty_bytes.fetch_add(now as u64, Ordering::Relaxed);
        self.stats.txn_dirty_bytes.fetch_sub(before as u64, Ordering::Relaxed);
    }

    /// Whether it is known, without asking the medium, that a companion is not there.
    pub fn is_alone(&self, companion: Companion) -> bool {
        self.companions.is_alone(companion)
    }

    /// Notes whether a companion is known not to be there.
    pub fn set_alone(&self, companion: Companion, alone: bool) {
        self.companions.set_alone(companion, alone);
    }

    /// Where the commit log lies.
    pub fn commit_log_path(&self) -> PathBuf {
        match &self.options.commit_log_path {
            Some(path) => path.clone(),
            None => self.companion_path(Companion::CommitLog),
        }
    }

    /// Where a companion lies, if it is there.
    pub fn companion_path(&self, companion: Companion) -> PathBuf {
        let marked = self.tier.get().is_some_and(Tier::is_marked);
        match (companion, self.options.tier.as_ref().filter(|_| marked)) {
            (Companion::Wal, Some(device)) => redo_log_companion(device),
            (Companion::CommitLog, Some(device)) => companion.of(device),
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
}

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
//! | `data_file` | reading, writing, cutting and syncing the file |
//! | `file_end` | where the database ends, and what is written behind that |
//! | `atomic_write` | a page overwritten in place, whole or not at all |
//! | `memory_share` | its share of the memory of the process |
//! | `shared` | what all users of the database have in common |
//! | `kept_log` | void logs that a close has left for the next opening |
//! | `durable_names` | the files beside it whose names are durable |
//! | `companions` | the files beside it, and what is known of them without asking the medium |
//! | `tier` | a fast device in the place of the file's hot chunks |

mod atomic_write;
pub(crate) mod companions;
pub(crate) mod data_file;
pub(crate) mod durable_names;
mod file_end;
pub(crate) mod kept_log;
mod memory_share;
#[cfg(test)]
mod of_test;
mod shared;
pub mod tier;

pub(crate) use atomic_write::{atomic_write_bytes, write_atomic};
pub use companions::Companion;
pub use data_file::{HEADER_BYTES, MAGIC, VERSIONS_AT, is_wal_mode, page_bytes_in};
pub use file_end::FileEnd;
pub use kept_log::KeptLogs;
pub use memory_share::MemoryShare;
pub(crate) use memory_share::note_dirty_bytes;
pub use shared::Shared;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::stats::{Meter, MeteredFile, Stats, StatsPage};
use crate::sync::writer_queue::WriterQueue;
use companions::CompanionFiles;
use durable_names::DurableNames;
use litefoot_storage::commit_log::Writer;
use litefoot_storage::file::{File, FileKind, Medium, SyncLatch};
use litefoot_storage::fork;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use tier::{Tier, redo_log_companion};

/// The data file of a database, with its companions.
pub struct Db {
    medium: Arc<dyn Medium>,
    file: Arc<dyn File>,
    /// The tiered file that takes the place of `file` for all reads and writes, where there is a tier.
    tier: OnceLock<Tier>,
    path: PathBuf,
    options: Options,
    access: Access,
    /// True if SQLite's calls are only passed on, or the database is shared and can only be read.
    passes_through: bool,
    fork_generation: u32,
    latch: Arc<SyncLatch>,
    stats: Arc<StatsPage>,
    companions: Arc<CompanionFiles>,
    durable_names: DurableNames,
    /// The build of SQLite that writes statements to the commit log, and replays them; absent where SQLite is not
    /// reached from below.
    build: Option<Writer>,
    memory: MemoryShare,
    name: data_file::Name,
    kept_logs: Option<Arc<KeptLogs>>,
    shared: Shared,
    writer_queue: Arc<WriterQueue>,
}

/// How a database may be used.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// True if the file was opened for writing.
    pub writable: bool,
    /// True if the open created the file.
    pub created: bool,
    /// True if transactions are held back until they commit.
    pub holds_back: bool,
    /// True if its pages are kept in memory for all connections.
    pub pooled: bool,
}

/// The setup of a database that is opened.
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
    /// True if the redo log of rollback-journal transactions lies beside it.
    pub redo_log: Arc<AtomicBool>,
    /// Where logs are remembered that closes keep; absent where none are kept.
    pub kept_logs: Option<Arc<KeptLogs>>,
}

impl Db {
    /// A database over an open file.
    pub fn new(setup: DbSetup) -> Db {
        // A medium that simulates, counts or models has no descriptor, and no other process looks at its figures.
        let stats = Arc::new(match setup.file.raw_descriptor() {
            Some(_) => StatsPage::shared(setup.file.id()),
            None => StatsPage::private(),
        });
        // Without rights of its own, a medium makes files as it does.
        let medium = setup.medium.for_database(&setup.file).unwrap_or(setup.medium);
        let has_log = setup.options.logs_statements() || setup.options.logs_deltas();
        let limit = if has_log { setup.options.commit_log_size as u64 } else { 0 };
        Stats::set(&stats.commit_log_limit_bytes, limit);
        Stats::set(&stats.redo_log_limit_bytes, setup.options.max_wal_size as u64);
        let pooled = setup.access.pooled && setup.options.buffer_pool_size != Some(0);
        let memory = MemoryShare::new(&setup.options, pooled);
        // A file that cannot be written takes no lease, and an owner lock would keep its writers out.
        let only_reads = !setup.access.writable && setup.options.sharing.lets_others_in();
        let passes_through = !setup.access.holds_back || (only_reads && setup.options.tier.is_none());
        let holds_back = setup.access.holds_back && setup.access.writable;
        Db {
            medium: Arc::new(Meter::new(medium, stats.clone())),
            file: setup.file,
            tier: OnceLock::new(),
            path: setup.path,
            options: setup.options,
            access: Access { pooled, holds_back, ..setup.access },
            passes_through,
            fork_generation: fork::generation(),
            latch: Arc::default(),
            writer_queue: Arc::new(WriterQueue::new(stats.clone())),
            stats,
            companions: Arc::new(CompanionFiles::new(setup.redo_log)),
            durable_names: DurableNames::default(),
            build: setup.build,
            memory,
            name: data_file::Name::new(setup.access.created),
            kept_logs: setup.kept_logs,
            shared: Shared::default(),
        }
    }

    /// The database file as it is on flash: its locks and its identity.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The file that the database is read from and written to.
    pub fn data(&self) -> &Arc<dyn File> {
        self.tier.get().map_or(&self.file, Tier::file)
    }

    /// The tier, where there is one and this process owns the database.
    pub(crate) fn tier(&self) -> Option<&Tier> {
        self.tier.get()
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

    /// The options that it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// True if the file can be written.
    pub fn writable(&self) -> bool {
        self.access.writable
    }

    /// True if transactions are held back until they commit: never while other processes may have the database open.
    pub fn holds_back(&self) -> bool {
        self.access.holds_back && !self.shared.is_multi_process()
    }

    /// The same, while no other process has the database open.
    pub fn may_hold_back(&self) -> bool {
        self.access.holds_back
    }

    /// True if SQLite's own protocol is used from the first lock to the end.
    pub fn passes_through(&self) -> bool {
        self.passes_through
    }

    /// True if its pages are kept in memory for all connections.
    pub fn is_pooled(&self) -> bool {
        self.access.pooled && !self.shared.is_multi_process()
    }

    /// The same, while no other process has the database open.
    pub fn may_be_pooled(&self) -> bool {
        self.access.pooled
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

    /// The half that all users of the database have in common.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The queue of its writers.
    pub fn writer_queue(&self) -> &Arc<WriterQueue> {
        &self.writer_queue
    }

    /// The end of its file.
    #[inline]
    pub fn file_end(&self) -> FileEnd<'_> {
        FileEnd { db: self }
    }

    /// Its memory.
    #[inline]
    pub fn memory(&self) -> &MemoryShare {
        &self.memory
    }

    /// In a forked child: leaves the memory of the parent as it is.
    pub(crate) fn forget_memory(&mut self) {
        self.memory.forget();
    }

    /// The files beside it.
    pub(crate) fn companions(&self) -> &Arc<CompanionFiles> {
        &self.companions
    }

    /// The log and the journal beside it whose names are durable, while it is multi-process.
    pub(crate) fn durable_names(&self) -> &DurableNames {
        &self.durable_names
    }

    /// True if it was opened by this process, not by one that has forked since.
    pub fn is_of_this_process(&self) -> bool {
        self.fork_generation == fork::generation()
    }

    /// Refuses what a forked child would do to its parent's database.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.is_of_this_process() { Ok(()) } else { Err(Error::Forked { path: self.path.clone() }) }
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

    /// The same, where SQLite asks for it at a path: mostly there.
    pub(crate) fn companion_asked_for<'a>(&self, companion: Companion, asked: &'a Path) -> Cow<'a, Path> {
        let base = asked.as_os_str().as_encoded_bytes().strip_suffix(companion.suffix().as_bytes());
        if self.tier.get().is_none() && base == Some(self.path.as_os_str().as_encoded_bytes()) {
            Cow::Borrowed(asked)
        } else {
            Cow::Owned(self.companion_path(companion))
        }
    }
}

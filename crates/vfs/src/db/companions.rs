//! Companion files: what is known of the files beside a database, without asking the medium, and which thread asked for them last.
//!
//! SQLite asks for the journal and the log by their paths, whenever a connection outside of WAL mode begins to read.
//! So that this takes no lock and touches nothing that other threads write, each thread remembers what it asked for
//! last.
//!
//! # Invariants
//! 1. A note is believed only while no database was opened since it was made, anywhere in the process.
//! 2. Of a database that is closed nothing is known: others may change what lies beside it.

use super::Db;
use crate::error::Result;
use litefoot_storage::file::{FileKind, OpenMode, beside};
use litefoot_storage::fork;
use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A file that SQLite keeps beside a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Companion {
    /// The write-ahead log.
    Wal,
    /// The rollback journal.
    Journal,
    /// The commit log, which SQLite knows nothing of.
    CommitLog,
}

impl Companion {
    /// Where it lies, if it is there.
    pub fn of(self, database: &Path) -> PathBuf {
        beside(database, self.suffix())
    }

    /// The end of its path, behind the database's.
    pub fn suffix(self) -> &'static str {
        match self {
            Companion::Wal => "-wal",
            Companion::Journal => "-journal",
            Companion::CommitLog => "-commits",
        }
    }
}

/// The companion files of one database, as far as they are known.
#[derive(Default)]
pub struct CompanionFiles {
    /// True if it is known that no log and no journal lie there, which nobody but the owner could put there.
    alone: [AtomicBool; 2],
    /// Changes whenever the log in memory does, and is odd while there is one.
    wal_generation: AtomicU64,
    /// True if the redo log of rollback-journal transactions lies there, which SQLite must not see.
    redo_log: Arc<AtomicBool>,
    /// True if the database is closed.
    closed: AtomicBool,
}

impl CompanionFiles {
    /// Nothing is known; `redo_log` says whether that log lies there.
    pub fn new(redo_log: Arc<AtomicBool>) -> CompanionFiles {
        CompanionFiles { redo_log, ..CompanionFiles::default() }
    }

    /// True if it is known that a companion is not there.
    pub fn is_alone(&self, companion: Companion) -> bool {
        self.alone[companion as usize].load(Ordering::Acquire)
    }

    /// Notes whether a companion is known not to be there.
    pub fn set_alone(&self, companion: Companion, alone: bool) {
        self.alone[companion as usize].store(alone, Ordering::Release);
    }

    /// Changes whenever another log, or none, has to be asked for.
    #[inline]
    pub fn wal_generation(&self) -> u64 {
        self.wal_generation.load(Ordering::Acquire)
    }

    /// There is another log in memory, or none any more.
    pub fn change_wal(&self) {
        self.wal_generation.fetch_add(1, Ordering::Release);
    }

    /// True if there is a log in memory.
    #[inline]
    pub fn has_wal(&self) -> bool {
        self.wal_generation() & 1 == 1
    }

    /// From now on nothing is known.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// True if SQLite may be told at once that a companion is not there.
    pub fn lacks(&self, companion: Companion) -> bool {
        let lacks = match companion {
            Companion::Wal => {
                !self.has_wal() && (self.redo_log.load(Ordering::Acquire) || self.is_alone(companion))
            }
            _ => self.is_alone(companion),
        };
        lacks && !self.closed.load(Ordering::Acquire)
    }
}

/// True if there is a rollback journal on the medium that may be hot. One whose header is zeros was finished in the mode
/// PERSIST.
pub(crate) fn has_real_journal(db: &Db) -> Result<bool> {
    let path = db.companion_path(Companion::Journal);
    if db.medium().info(&path)?.is_none_or(|info| info.len == 0) {
        return Ok(false);
    }
    let mut first = [0];
    db.medium().open(&path, FileKind::Journal, OpenMode::ReadOnly)?.read_at(&mut first, 0)?;
    Ok(first != [0])
}

/// How many databases were opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Paths that a thread remembers: two for each of a few databases.
const NOTES: usize = 4;

struct Note {
    opened: u64,
    /// Which registry knows the database.
    registry: u64,
    path: Box<[u8]>,
    companion: Companion,
    companions: Arc<CompanionFiles>,
}

#[derive(Default)]
struct Notes {
    notes: [Option<Note>; NOTES],
    next: usize,
}

thread_local! {
    static MINE: RefCell<Notes> = RefCell::default();
}

/// How many databases were opened so far: to be asked for before a database is looked for. A forked child has opened
/// none of its parent's.
pub fn opened() -> u64 {
    OPENED.load(Ordering::Acquire) ^ u64::from(fork::generation()) << 40
}

/// A database was opened, and can be found.
pub fn note_opened() -> u64 {
    OPENED.fetch_add(1, Ordering::AcqRel)
}

/// True if this thread knows that there is nothing at a path.
pub fn lacks(registry: u64, path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let opened = opened();
    let is_it = |note: &&Note| note.registry == registry && note.opened == opened && *note.path == *path;
    let known = |mine: &RefCell<Notes>| {
        let mine = mine.borrow();
        mine.notes.iter().flatten().find(is_it).is_some_and(|note| note.companions.lacks(note.companion))
    };
    MINE.try_with(known).unwrap_or(false)
}

/// The thread has found the database that a path belongs to, when so many were opened.
pub fn remember(
    registry: u64,
    opened: u64,
    path: &Path,
    companion: Companion,
    companions: &Arc<CompanionFiles>,
) {
    let path = path.as_os_str().as_bytes();
    let note = Note { opened, registry, path: path.into(), companion, companions: companions.clone() };
    let put = |mine: &RefCell<Notes>| {
        let mut mine = mine.borrow_mut();
        let next = mine.next;
        let same = mine.notes.iter().position(|note| note.as_ref().is_some_and(|note| *note.path == *path));
        mine.notes[same.unwrap_or(next)] = Some(note);
        mine.next = if same.is_none() { (next + 1) % NOTES } else { next };
    };
    // A thread that ends remembers nothing.
    let _ = MINE.try_with(put);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_believed_while_nothing_has_changed() {
        let companions = Arc::new(CompanionFiles::default());
        let (wal, journal) = (Path::new("/a.db-wal"), Path::new("/a.db-journal"));
        // Other tests open databases meanwhile, and make notes void.
        let note = || {
            remember(7, opened(), wal, Companion::Wal, &companions);
            remember(7, opened(), journal, Companion::Journal, &companions);
        };
        let is_known = |path| {
            (0..1000).any(|_| {
                note();
                lacks(7, path)
            })
        };
        assert!(!is_known(wal) && !is_known(journal));
        companions.set_alone(Companion::Wal, true);
        assert!(is_known(wal) && !is_known(journal) && !lacks(8, wal) && !lacks(7, Path::new("/b.db-wal")));
        companions.change_wal();
        assert!(!is_known(wal));
        companions.change_wal();
        companions.set_alone(Companion::Wal, false);
        assert!(!is_known(wal));
        companions.redo_log.store(true, Ordering::Release);
        companions.set_alone(Companion::Journal, true);
        assert!(is_known(wal) && is_known(journal));
        note_opened();
        assert!(!lacks(7, wal) && !lacks(7, journal));
        companions.close();
        assert!(!is_known(wal) && !is_known(journal));
    }
}

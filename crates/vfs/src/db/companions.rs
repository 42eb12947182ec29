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
use litefoot_storage::file::{File, FileKind, OpenMode, beside};
use litefoot_storage::fork;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
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
    /// The wal-index, while several processes use the database.
    WalIndex,
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
            Companion::WalIndex => "-shm",
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
    #[inline]
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
    Ok(!is_void(&*db.medium().open(&path, FileKind::Journal, OpenMode::ReadOnly)?)?)
}

/// True if no transaction is in a journal: it is empty, or its header is zeros.
pub(crate) fn is_void(journal: &dyn File) -> Result<bool> {
    let mut first = [0];
    journal.read_at(&mut first, 0)?;
    Ok(first == [0])
}

/// How many databases were opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Paths that a thread remembers: two for each of a few databases.
const NOTES: usize = 4;

struct Note {
    opened: u64,
    /// Which registry knows the database.
    registry: u64,
    path: CString,
    /// Where SQLite has the path in memory, as it was asked for last. It has the paths of an open connection at one place.
    address: Cell<usize>,
    companion: Companion,
    companions: Arc<CompanionFiles>,
}

struct Notes {
    notes: [Option<Note>; NOTES],
    next: usize,
}

thread_local! {
    static MINE: RefCell<Notes> =
        const { RefCell::new(Notes { notes: [const { None }; NOTES], next: 0 }) };
}

impl Notes {
    /// The note of a path that lies at `name`, by the address, and else by the text. The text is compared in both cases.
    ///
    /// # Safety
    /// As for [`lacks`].
    #[inline]
    unsafe fn find(&self, name: *const c_char) -> Option<&Note> {
        // SAFETY: by contract; the path ends with a NUL, too.
        let is_it = |note: &&Note| unsafe { libc::strcmp(note.path.as_ptr(), name) == 0 };
        let mut notes = self.notes.iter().flatten();
        let by_address = notes.find(|note| note.address.get() == name.addr()).filter(is_it);
        by_address.or_else(|| self.find_by_text(name.addr(), is_it))
    }

    #[cold]
    fn find_by_text(&self, address: usize, is_it: impl FnMut(&&Note) -> bool) -> Option<&Note> {
        let found = self.notes.iter().flatten().find(is_it)?;
        found.address.set(address);
        Some(found)
    }
}

/// How many databases were opened so far: to be asked for before a database is looked for. A forked child has opened
/// none of its parent's.
#[inline]
pub fn opened() -> u64 {
    OPENED.load(Ordering::Acquire) ^ u64::from(fork::generation()) << 40
}

/// A database was opened, and can be found.
pub fn note_opened() -> u64 {
    OPENED.fetch_add(1, Ordering::AcqRel)
}

/// True if this thread knows that there is nothing at the path `name`. This never panics.
///
/// # Safety
/// `name` is a NUL-terminated string.
#[inline]
pub unsafe fn lacks(registry: u64, name: *const c_char) -> bool {
    let known = |mine: &RefCell<Notes>| {
        let Ok(mine) = mine.try_borrow() else { return false };
        // SAFETY: by contract.
        let Some(note) = (unsafe { mine.find(name) }) else { return false };
        note.registry == registry && note.opened == opened() && note.companions.lacks(note.companion)
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
    let is_same = |note: &Note| {
        let names = (note.opened, note.registry, note.companion) == (opened, registry, companion);
        names
            && Arc::ptr_eq(&note.companions, companions)
            && note.path.as_bytes() == path.as_os_str().as_bytes()
    };
    // Beside other processes it is asked for in each transaction.
    if MINE.try_with(|mine| mine.borrow().notes.iter().flatten().any(is_same)).unwrap_or(true) {
        return;
    }
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    let address = Cell::new(0);
    let note = Note { opened, registry, path, address, companion, companions: companions.clone() };
    let put = |mine: &RefCell<Notes>| {
        let mut mine = mine.borrow_mut();
        let next = mine.next;
        let is_same = |other: &Note| other.path == note.path;
        let same = mine.notes.iter().position(|other| other.as_ref().is_some_and(is_same));
        mine.notes[same.unwrap_or(next)] = Some(note);
        mine.next = if same.is_none() { (next + 1) % NOTES } else { next };
    };
    // A thread that ends remembers nothing.
    let _ = MINE.try_with(put);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_note_is_believed_while_nothing_has_changed() {
        let companions = Arc::new(CompanionFiles::default());
        let (wal, journal) = (c"/a.db-wal", c"/a.db-journal");
        // SAFETY: it ends with a NUL.
        let lacks = |registry, path: &CStr| unsafe { lacks(registry, path.as_ptr()) };
        let remember = |path: &CStr, companion| {
            let path = Path::new(path.to_str().unwrap());
            remember(7, opened(), path, companion, &companions);
        };
        // Other tests open databases meanwhile, and make notes void.
        let note = || {
            remember(wal, Companion::Wal);
            remember(journal, Companion::Journal);
        };
        let is_known = |path| {
            (0..1000).any(|_| {
                note();
                lacks(7, path)
            })
        };
        assert!(!is_known(wal) && !is_known(journal));
        companions.set_alone(Companion::Wal, true);
        assert!(is_known(wal) && !is_known(journal) && !lacks(8, wal) && !lacks(7, c"/b.db-wal"));
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

    #[test]
    fn a_note_is_of_the_text_and_not_of_the_place_in_memory() {
        let companions = Arc::new(CompanionFiles::default());
        companions.set_alone(Companion::Journal, true);
        let mut name = *b"/a.db-journal\0";
        let mut copy = name;
        let known = |name: &[u8]| {
            // Other tests open databases meanwhile, and make notes void.
            (0..1000).any(|_| {
                remember(9, opened(), Path::new("/a.db-journal"), Companion::Journal, &companions);
                // SAFETY: it ends with a NUL.
                unsafe { lacks(9, name.as_ptr().cast()) && lacks(9, name.as_ptr().cast()) }
            })
        };
        assert!(known(&name) && known(&copy) && known(&name));
        // The place is another path's now.
        name[1] = b'b';
        assert!(!known(&name) && known(&copy));
        copy[12] = 0;
        assert!(!known(&copy), "the beginning of a path");
    }
}

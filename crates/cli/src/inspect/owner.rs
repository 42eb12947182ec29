//! The processes that use a database, found without being in their way.
//!
//! An owner that is alone with its database learns of everybody who opens the file, and changes its ways for them. So
//! [`Presence`] is told from outside first: from the owner's statistics page, and from the system's list of locks. Locks are asked for,
//! and none is taken: a lock of an instant would refuse somebody else's.

use litefoot::stats::{DatabaseState, Published};
use litefoot_storage::file::{File, FileId};
use litefoot_terminal::text::printable;

/// First of SQLite's lock bytes, and how many there are (file format, section 1.4, and `os.h`).
const LOCK_OFFSET: u64 = 0x4000_0000;
const LOCK_BYTES: u64 = 512;

/// The system's list of locks and leases.
const LOCKS: &str = "/proc/locks";

/// The holder of SQLite's locks on a database file, as far as the system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody at this moment.
    Nobody,
    /// Somebody reads; writers may be idle.
    Shared(Option<u32>),
    /// One process keeps all others out: its owner through litefoot, or a stock SQLite that writes.
    Exclusive(Option<u32>),
}

impl Owner {
    /// The same, with a process where the locks did not tell one.
    pub fn or_process(self, process: Option<u32>) -> Owner {
        match self {
            Owner::Nobody => Owner::Nobody,
            Owner::Shared(known) => Owner::Shared(known.or(process)),
            Owner::Exclusive(known) => Owner::Exclusive(known.or(process)),
        }
    }
}

/// The use of a database by litefoot, as far as it can be told without opening the file.
#[derive(Debug)]
pub enum Presence {
    /// No process is known.
    None,
    /// A process owns it, whose figures may be seen: other users' may not.
    Owned(Option<Published>),
    /// A process has it open, and shares it by SQLite's own protocol.
    MultiProcess(Published),
}

impl Presence {
    /// Looks for the process that has a database open through litefoot.
    pub fn find(database: FileId) -> Presence {
        match Published::find(database).and_then(|found| Some((found.read()?.state, found))) {
            Some((DatabaseState::MultiProcess, found)) => Presence::MultiProcess(found),
            Some((_, found)) => Presence::Owned(Some(found)),
            None if has_owner(&std::fs::read_to_string(LOCKS).unwrap_or_default(), database) => {
                Presence::Owned(None)
            }
            None => Presence::None,
        }
    }

    /// True where a process has the database open through litefoot.
    pub fn is_live(&self) -> bool {
        !matches!(self, Presence::None)
    }

    /// True where a process owns the database: it keeps others out, until they open the file.
    pub fn is_owned(&self) -> bool {
        matches!(self, Presence::Owned(_))
    }

    /// The owner's figures.
    pub fn published(self) -> Option<Published> {
        match self {
            Presence::None => None,
            Presence::Owned(found) => found,
            Presence::MultiProcess(found) => Some(found),
        }
    }
}

/// True if the list of locks has an owner lock on that file: on all lock bytes, exclusive, and of an open file description.
fn has_owner(locks: &str, database: FileId) -> bool {
    // 1: OFDLCK ADVISORY  WRITE -1 fe:00:131073 1073741824 1073742335
    let file = place(database);
    let (first, last) = (LOCK_OFFSET.to_string(), (LOCK_OFFSET + LOCK_BYTES - 1).to_string());
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "OFDLCK", _, "WRITE", _, place, from, to] if place == file && from == first && to == last)
    })
}

/// A file as the list of locks names it.
fn place(database: FileId) -> String {
    let device = database.device as libc::dev_t;
    format!("{:02x}:{:02x}:{}", libc::major(device), libc::minor(device), database.inode)
}

/// True where the owner of a database shares it with whoever opens the file: it has a lease.
pub fn is_shared_on_demand(database: FileId) -> bool {
    has_lease(&std::fs::read_to_string(LOCKS).unwrap_or_default(), database)
}

/// True if the list of locks has a lease of a writer on that file.
fn has_lease(locks: &str, database: FileId) -> bool {
    // 1: LEASE  ACTIVE    WRITE 77 fe:00:131073 0 EOF
    let file = place(database);
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "LEASE", "ACTIVE", "WRITE", _, place, ..] if place == file)
    })
}

/// The holder of SQLite's locks on an open file. Nothing is locked.
pub fn holder(file: &dyn File) -> Owner {
    let Some(descriptor) = file.raw_descriptor() else { return Owner::Nobody };
    let conflict = |kind| {
        let mut request = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: LOCK_OFFSET as libc::off_t,
            l_len: LOCK_BYTES as libc::off_t,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open as long as the file, and the structure is as the call expects it.
        let result = unsafe { libc::fcntl(descriptor, libc::F_OFD_GETLK, &raw mut request) };
        // A lock on an open file description names process -1.
        (result == 0 && i32::from(request.l_type) != libc::F_UNLCK).then(|| u32::try_from(request.l_pid).ok())
    };
    match (conflict(libc::F_RDLCK), conflict(libc::F_WRLCK)) {
        (Some(process), _) => Owner::Exclusive(process),
        (None, Some(process)) => Owner::Shared(process),
        (None, None) => Owner::Nobody,
    }
}

/// A process and its program, as far as they are known.
pub fn process(id: Option<u32>) -> String {
    match id.map(|id| (id, program(id))) {
        None => "another process".to_owned(),
        Some((id, None)) => format!("process {id}"),
        Some((id, Some(program))) => format!("process {id} ({program})"),
    }
}

/// The name of the program that a process runs, where the system tells.
pub fn program(id: u32) -> Option<String> {
    litefoot::stats::program(id).map(|name| printable(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lock_is_found_in_the_list_of_locks() {
        let database = FileId { device: 0xfe05, inode: 131_073 };
        for (line, owned) in [
            ("1: OFDLCK ADVISORY  WRITE -1 fe:05:131073 1073741824 1073742335", true),
            ("2: OFDLCK  ADVISORY  READ  -1 fe:05:131073 1073741824 1073742335", false),
            ("3: OFDLCK ADVISORY WRITE -1 fe:05:131074 1073741824 1073742335", false),
            ("4: OFDLCK ADVISORY WRITE -1 fe:06:131073 1073741824 1073742335", false),
            ("5: POSIX  ADVISORY  WRITE 77 fe:05:131073 1073741824 1073742335", false),
            ("6: OFDLCK ADVISORY WRITE -1 fe:05:131073 1073741825 1073741825", false),
            ("7: LEASE  ACTIVE    WRITE 77 fe:05:131073 0 EOF", false),
            ("", false),
        ] {
            assert_eq!(has_owner(line, database), owned, "{line}");
        }
    }

    #[test]
    fn a_lease_is_found_in_the_list_of_locks() {
        let database = FileId { device: 0xfe05, inode: 131_073 };
        for (line, leased) in [
            ("1: LEASE  ACTIVE    WRITE 77 fe:05:131073 0 EOF", true),
            ("2: LEASE  BREAKING  WRITE 77 fe:05:131073 0 EOF", false),
            ("3: LEASE  ACTIVE    READ  77 fe:05:131073 0 EOF", false),
            ("4: LEASE  ACTIVE    WRITE 77 fe:05:131074 0 EOF", false),
            ("5: OFDLCK ADVISORY  WRITE -1 fe:05:131073 1073741824 1073742335", false),
            ("", false),
        ] {
            assert_eq!(has_lease(line, database), leased, "{line}");
        }
    }
}

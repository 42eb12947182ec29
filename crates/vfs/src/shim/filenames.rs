//! SQLite's file names: paths, with URI parameters behind them where the flags of the open say so.
//!
//! # Why SQLite is not asked
//! SQLite's core makes the names of a database, of its journal and of its log in one block of memory.
//! `sqlite3_database_file_object` finds the open file from each of them. But a VFS above litefoot may pass these names
//! on, and then the file is that VFS's. Or it may pass names of its own, and then the function reads beyond them. So
//! [`Names`] keeps the addresses at which the names of each open database must lie. A name at such an address, with the
//! expected text, belongs to that database.

use crate::files::connection_state::ConnectionState;
use crate::files::group::link::Link;
use litefoot_storage::sync::{AcrossFork, Global};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The limit of URI parameters; further ones are ignored.
const PARAMETERS: usize = 64;

/// The suffixes that SQLite adds to the name of a database.
const SUFFIXES: [&[u8]; 2] = [b"-journal", b"-wal"];

/// The number of entries from which those of closed databases are removed.
const FEW_ENTRIES: usize = 1024;

/// The path of a NUL-terminated name; `None` for a null pointer.
///
/// # Safety
/// `name` is null or a NUL-terminated string that outlives the result.
pub(crate) unsafe fn path<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by contract.
    let name = unsafe { CStr::from_ptr(name) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// An owned copy of [`path`].
///
/// # Safety
/// As for [`path`].
pub(crate) unsafe fn path_buf(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: by contract.
    unsafe { path(name) }.map(Path::to_owned)
}

/// The URI parameters of a main database's name, in order; of two with one name the first, as SQLite has it.
///
/// # Safety
/// `name` was passed to `xOpen` for a main database with `SQLITE_OPEN_URI`, which says that parameters follow its
/// terminator, up to an empty one.
pub(crate) unsafe fn parameters(name: *const c_char) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    // SAFETY: by contract.
    unsafe {
        let mut at = behind(name);
        while *at != 0 && found.len() < PARAMETERS {
            let (key, value) = (CStr::from_ptr(at), CStr::from_ptr(behind(at)));
            let key = key.to_string_lossy().into_owned();
            if !found.iter().any(|(known, _)| *known == key) {
                found.push((key, value.to_string_lossy().into_owned()));
            }
            at = behind(behind(at));
        }
    }
    found
}

/// The address behind a string's terminator.
///
/// # Safety
/// `text` is a NUL-terminated string.
unsafe fn behind(text: *const c_char) -> *const c_char {
    // SAFETY: by contract.
    text.wrapping_add(unsafe { CStr::from_ptr(text) }.to_bytes().len() + 1)
}

/// The owners of the names of journals and logs, for all open databases of a VFS.
#[derive(Default)]
pub(crate) struct Names {
    known: Global<Known>,
}

#[derive(Default)]
struct Known {
    /// The names, by address.
    names: HashMap<usize, Name>,
    /// The number of entries at which those of closed databases are removed next.
    most: usize,
}

struct Name {
    text: Box<[u8]>,
    owner: KnownOwner,
}

/// The owner of a name, as long as it is open.
enum KnownOwner {
    Connection(Weak<ConnectionState>),
    Member(Weak<Link>),
    /// The platform's VFS, which does not tell when it closes a database.
    Platform,
}

/// The owner of a journal or a log.
pub(crate) enum Owner {
    /// A connection of litefoot's VFS.
    Connection(Arc<ConnectionState>),
    /// A member's connection to a database that another process owns.
    Member(Arc<Link>),
    /// A connection of the platform's VFS.
    Platform,
}

impl Names {
    /// Notes the name of an opened database.
    ///
    /// In a name of the core, the journal's and the log's name follow the parameters, or one more terminator where there
    /// are no parameters.
    ///
    /// # Safety
    /// `name` was passed to `xOpen` for a main database; `has_parameters` says whether with `SQLITE_OPEN_URI`.
    pub unsafe fn opened(&self, name: *const c_char, has_parameters: bool, owner: &Owner) {
        // SAFETY: by contract.
        let text = unsafe { CStr::from_ptr(name) }.to_bytes();
        let mut at = name.wrapping_add(text.len() + 1);
        if has_parameters {
            // SAFETY: by contract they lie there.
            unsafe {
                while *at != 0 {
                    at = behind(behind(at));
                }
            }
        }
        at = at.wrapping_add(1);
        let mut known = self.known.lock();
        known.make_room();
        for suffix in SUFFIXES {
            let text = [text, suffix].concat().into_boxed_slice();
            let len = text.len();
            let owner = match owner {
                Owner::Connection(connection) => KnownOwner::Connection(Arc::downgrade(connection)),
                Owner::Member(link) => KnownOwner::Member(Arc::downgrade(link)),
                Owner::Platform => KnownOwner::Platform,
            };
            known.names.insert(at.addr(), Name { text, owner });
            at = at.wrapping_add(len + 1);
        }
    }

    /// The owner of the journal or log of this name, for a name that SQLite's core has made.
    ///
    /// # Safety
    /// `name` is a NUL-terminated string.
    pub unsafe fn owner(&self, name: *const c_char) -> Option<Owner> {
        let known = self.known.lock();
        let found = known.names.get(&name.addr())?;
        // SAFETY: by contract.
        if unsafe { CStr::from_ptr(name) }.to_bytes() != &*found.text {
            return None;
        }
        let mut connection = match &found.owner {
            KnownOwner::Platform => return Some(Owner::Platform),
            KnownOwner::Member(link) => return link.upgrade().map(Owner::Member),
            KnownOwner::Connection(connection) => connection.upgrade()?,
        };
        // In a forked child another one has taken its place.
        while let Some(successor) = connection.successor.get() {
            connection = successor.clone();
        }
        Some(Owner::Connection(connection))
    }

    /// The same, where that is a member's connection.
    ///
    /// # Safety
    /// As for [`Names::owner`].
    pub unsafe fn member(&self, name: *const c_char) -> Option<Arc<Link>> {
        // SAFETY: by contract.
        match unsafe { self.owner(name) }? {
            Owner::Member(link) => Some(link),
            Owner::Connection(_) | Owner::Platform => None,
        }
    }
}

impl AcrossFork for Known {
    fn inherit(parents: Known) -> Known {
        // The connections are inherited as well, and so are the names.
        parents
    }
}

impl Known {
    /// Removes entries of closed databases, once there are many. The entries of the platform's VFS go, too, even of
    /// open databases: litefoot then serves their journals as plain files.
    fn make_room(&mut self) {
        if self.names.len() >= self.most {
            self.names.retain(|_, name| match &name.owner {
                KnownOwner::Connection(connection) => connection.strong_count() > 0,
                KnownOwner::Member(link) => link.strong_count() > 0,
                KnownOwner::Platform => false,
            });
            self.most = FEW_ENTRIES.max(2 * self.names.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::forks;

    #[test]
    fn parameters_follow_the_name_and_the_first_of_one_name_counts() {
        for (name, expected) in [
            (&b"/app.db\0\0"[..], &[][..]),
            (b"/app.db\0a\x001\0\0", &[("a", "1")]),
            (b"/app.db\0a\x001\0b\0\0a\x002\0\0", &[("a", "1"), ("b", "")]),
        ] {
            // SAFETY: laid out as the core does it.
            let found = unsafe { parameters(name.as_ptr().cast()) };
            let expected: Vec<_> =
                expected.iter().map(|(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_name_belongs_to_a_database_by_its_address_and_its_text() {
        let names = Names::default();
        let mut bytes = *b"/app.db\0a\x001\0\0/app.db-journal\0/app.db-wal\0";
        let copy = bytes;
        let name = bytes.as_mut_ptr().cast::<c_char>();
        // SAFETY: laid out as the core does it.
        unsafe { names.opened(name, true, &Owner::Platform) };
        let (journal, wal) = (b"/app.db\0a\x001\0\0".len(), b"/app.db\0a\x001\0\0/app.db-journal\0".len());
        // SAFETY: names that are terminated.
        let is_known = |name: *const c_char| unsafe { names.owner(name) }.is_some();
        for (at, expected) in [(0, false), (journal, true), (journal + 1, false), (wal, true)] {
            assert_eq!(is_known(name.wrapping_add(at)), expected, "{at}");
            assert!(!is_known(copy.as_ptr().cast::<c_char>().wrapping_add(at)), "elsewhere, {at}");
        }
        // SAFETY: inside the array.
        unsafe { name.wrapping_add(wal + 1).write(b'b' as c_char) };
        assert!(!is_known(name.wrapping_add(wal)), "another text at that address");
    }

    #[test]
    fn a_forked_child_waits_for_no_name_that_another_thread_was_noting() {
        forks::watch();
        let names = Names::default();
        let bytes = b"/app.db\0\0/app.db-journal\0/app.db-wal\0";
        let name = bytes.as_ptr().cast::<c_char>();
        // SAFETY: laid out as the core does it.
        unsafe { names.opened(name, false, &Owner::Platform) };
        let journal = name.wrapping_add(b"/app.db\0\0".len());
        // SAFETY: a name that is terminated.
        let is_known = || unsafe { names.owner(journal) }.is_some();
        assert!(is_known());
        for is_held in [false, true] {
            let guard = is_held.then(|| names.known.lock());
            // SAFETY: the child uses nothing but what is under test, and ends at once; should it hang, it is killed.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(10);
                    let inherited = is_known();
                    names.opened(name, false, &Owner::Platform);
                    libc::_exit(i32::from(inherited == is_held || !is_known()));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status
            };
            drop(guard);
            assert_eq!(status, 0, "held: {is_held}");
        }
        assert!(is_known());
    }
}

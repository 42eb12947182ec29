//! SQLite's file names: paths, with URI parameters behind them where the flags of the open say so.
//!
//! # Why nobody asks SQLite about them
//! The core makes the name of a database, of its journal and of its log in one block, and
//! `sqlite3_database_file_object` goes from each of them back to the open file. A VFS above litefoot may pass these names
//! on, and then the file is that VFS's; or names of its own making, and then there is nothing to go back to, and the
//! question reads memory that is not there. So [`Names`] keeps where the journal's and the log's name of each open
//! database must lie, without looking there: a name that lies at that address, and reads so, belongs to it.

use crate::files::session::Session;
use litefoot_storage::sync::{AcrossFork, Global};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Most URI parameters that are looked at.
const PARAMETERS: usize = 64;

/// What SQLite puts behind the name of a database.
const SUFFIXES: [&[u8]; 2] = [b"-journal", b"-wal"];

/// Entries below which those of closed databases are left alone.
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

/// What lies behind a string's terminator.
///
/// # Safety
/// `text` is a NUL-terminated string.
unsafe fn behind(text: *const c_char) -> *const c_char {
    // SAFETY: by contract.
    text.wrapping_add(unsafe { CStr::from_ptr(text) }.to_bytes().len() + 1)
}

/// Whose the names of journals and logs are, for all open databases of a VFS.
#[derive(Default)]
pub(crate) struct Names {
    known: Global<Known>,
}

#[derive(Default)]
struct Known {
    /// By the address of the name.
    names: HashMap<usize, Name>,
    /// Entries at which those of closed databases go.
    most: usize,
}

struct Name {
    text: Box<[u8]>,
    owner: Weak<Session>,
    /// Whether the database is left to the platform's VFS, which does not tell when it is closed.
    shared: bool,
}

/// Whose a journal or a log is.
pub(crate) enum Owner {
    /// This connection's.
    Session(Arc<Session>),
    /// One that the platform's VFS has.
    Platform,
}

impl Names {
    /// A database was opened under a name; without a connection where it is the platform's. Where the core made the
    /// name, the journal's and the log's follow it at once: behind the parameters, or, where there are none, behind one
    /// more terminator.
    ///
    /// # Safety
    /// `name` was passed to `xOpen` for a main database; `has_parameters` says whether with `SQLITE_OPEN_URI`.
    pub unsafe fn opened(&self, name: *const c_char, has_parameters: bool, session: Option<&Arc<Session>>) {
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
            let owner = session.map(Arc::downgrade).unwrap_or_default();
            known.names.insert(at.addr(), Name { text, owner, shared: session.is_none() });
            at = at.wrapping_add(len + 1);
        }
    }

    /// Whose the journal or log of this name is, where the core made it.
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
        if found.shared {
            return Some(Owner::Platform);
        }
        let mut session = found.owner.upgrade()?;
        // In a forked child another one has taken its place.
        while let Some(successor) = session.successor.get() {
            session = successor.clone();
        }
        Some(Owner::Session(session))
    }
}

impl AcrossFork for Known {
    fn inherit(parents: Known) -> Known {
        // The connections are inherited as well, and so are the names.
        parents
    }
}

impl Known {
    /// Forgets databases that are closed, once there are many entries; and those of the platform, of which that is not
    /// known: their journals are then served here, as the files that they are.
    fn make_room(&mut self) {
        if self.names.len() >= self.most {
            self.names.retain(|_, name| name.owner.strong_count() > 0);
            self.most = FEW_ENTRIES.max(2 * self.names.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::forks;

    #[test]
    fn a_forked_child_waits_for_no_name_that_another_thread_was_noting() {
        forks::watch();
        let names = Names::default();
        let bytes = b"/app.db\0\0/app.db-journal\0/app.db-wal\0";
        let name = bytes.as_ptr().cast::<c_char>();
        // SAFETY: laid out as the core does it.
        unsafe { names.opened(name, false, None) };
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
                    names.opened(name, false, None);
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

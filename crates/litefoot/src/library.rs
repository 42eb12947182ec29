//! The SQLite that this program links, as a function table.
//!
//! SQLite hands its table to extensions only. So one is registered for a moment, and opening `:memory:`
//! calls it. From there on the Rust front goes the same way as the loadable extension.

use crate::Error;
use litefoot_storage::sync::{AcrossFork, Global};
use litefoot_vfs::ffi::api::Api;
use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static TABLE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn keep_table(
    _db: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    table: *const ffi::sqlite3_api_routines,
) -> c_int {
    TABLE.store(table.cast_mut().cast(), Ordering::Release);
    ffi::SQLITE_OK
}

fn read_table() -> Result<&'static Api, String> {
    // SAFETY: `keep_table` has the signature of an entry point and is cancelled before this returns.
    unsafe { ffi::sqlite3_auto_extension(Some(keep_table)) };
    let opened = rusqlite::Connection::open_in_memory();
    // SAFETY: as above.
    unsafe { ffi::sqlite3_cancel_auto_extension(Some(keep_table)) };
    opened.map_err(|error| error.to_string())?;
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return Err("it was built without extensions (SQLITE_OMIT_LOAD_EXTENSION)".to_owned());
    }
    // SAFETY: this is the table that SQLite passed to an entry point.
    let api = unsafe { Api::from_table(table) }.map_err(|unsuitable| unsuitable.to_string())?;
    Ok(Box::leak(Box::new(api)))
}

/// The result of the first look for the table. A child that is forked during that looks for itself.
#[derive(Default)]
struct Table(Option<Result<&'static Api, String>>);

impl AcrossFork for Table {
    fn inherit(parents: Table) -> Table {
        parents
    }
}

static API: Global<Table> = Global::new(Table(None));

/// The functions of the linked SQLite.
pub(crate) fn api() -> Result<&'static Api, Error> {
    API.lock().0.get_or_insert_with(read_table).clone().map_err(Error::Library)
}

/// Registers litefoot with the linked SQLite.
pub(crate) fn install(make_default: bool) -> Result<(), Error> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if make_default || !INSTALLED.load(Ordering::Acquire) {
        litefoot_vfs::shim::install::install(*api()?, make_default, false)?;
        if !INSTALLED.swap(true, Ordering::AcqRel) {
            // SAFETY: `at_exit` is a function of this program. Without it, what waits is left to the next open.
            unsafe { libc::atexit(at_exit) };
        }
    }
    Ok(())
}

/// A program that exits without closing leaves its newest commits where stock SQLite finds them.
extern "C" fn at_exit() {
    // A failure leaves them to the next open.
    let _ = catch_unwind(litefoot_vfs::open::at_exit::leave);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_waits_for_no_thread_that_was_looking_for_the_table() {
        install(false).unwrap();
        for is_held in [false, true] {
            let guard = is_held.then(|| API.lock());
            // SAFETY: the child uses nothing but what is under test, and ends at once; should it hang, it is killed.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(10);
                    libc::_exit(i32::from(api().is_err() || install(true).is_err()));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status
            };
            drop(guard);
            assert_eq!(status, 0, "held: {is_held}");
        }
    }
}

//! The SQLite that this program links, as a function table.
//!
//! SQLite hands its table to extensions only. So one is registered for a moment, and opening `:memory:`
//! calls it. From there on the Rust front goes the same way as the loadable extension.

use crate::Error;
use litefoot_vfs::abi::api::Api;
use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

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

/// The functions of the linked SQLite.
pub(crate) fn api() -> Result<&'static Api, Error> {
    static API: OnceLock<Result<&'static Api, String>> = OnceLock::new();
    API.get_or_init(read_table).clone().map_err(Error::Library)
}

/// Registers litefoot with the linked SQLite.
pub(crate) fn install(make_default: bool) -> Result<(), Error> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    if INSTALLED.get().is_none() || make_default {
        litefoot_vfs::install::install(*api()?, make_default)?;
        let _ = INSTALLED.set(());
    }
    Ok(())
}

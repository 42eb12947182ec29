//! SQLite's file names: paths with URI parameters and a database behind them.
//!
//! A name that SQLite's core passes to `xOpen` is more than a string: parameters follow its terminator,
//! and for a journal or log it leads back to the main database's open file.

use super::Sqlite3File;
use super::api::Api;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most URI parameters that are looked at.
const PARAMETERS: i32 = 64;

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

/// The URI parameters of a main database's name, in order.
///
/// # Safety
/// `name` was passed to `xOpen` by SQLite's core, for a main database.
pub(crate) unsafe fn parameters(api: &Api, name: *const c_char) -> Vec<(String, String)> {
    let text = |pointer: *const c_char| {
        // SAFETY: SQLite returns null or a NUL-terminated string that lives as long as the name.
        unsafe { (!pointer.is_null()).then(|| CStr::from_ptr(pointer).to_string_lossy().into_owned()) }
    };
    let mut found = Vec::new();
    for number in 0..PARAMETERS {
        // SAFETY: by contract.
        let key = unsafe { (api.uri_key)(name, number) };
        let Some(key_text) = text(key) else { break };
        // SAFETY: by contract; the key is one that SQLite returned.
        let value = text(unsafe { (api.uri_parameter)(name, key) }).unwrap_or_default();
        found.push((key_text, value));
    }
    found
}

/// The value of one URI parameter of the database behind a database, journal or log name.
///
/// # Safety
/// `name` is null or was passed to `xOpen` by SQLite's core.
pub(crate) unsafe fn parameter(api: &Api, name: *const c_char, key: &CStr) -> Option<String> {
    // SAFETY: by contract; SQLite accepts null.
    let value = unsafe { (api.uri_parameter)(name, key.as_ptr()) };
    // SAFETY: SQLite returns null or a NUL-terminated string.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
}

/// The open file of the main database behind a journal's or log's name.
///
/// # Safety
/// `name` was passed to `xOpen` by SQLite's core with the flag of a main journal or a WAL.
pub(crate) unsafe fn main_file(api: &Api, name: *const c_char) -> *mut Sqlite3File {
    // SAFETY: by contract.
    unsafe { (api.database_file_object)(name) }
}

/// An owned copy of [`path`].
///
/// # Safety
/// As for [`path`].
pub(crate) unsafe fn path_buf(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: by contract.
    unsafe { path(name) }.map(Path::to_owned)
}

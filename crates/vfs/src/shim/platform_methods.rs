//! The callbacks of `sqlite3_vfs` that have nothing to do with files: the platform's VFS carries them out.
//!
//! Libraries that are loaded, random bytes and the time of day are SQLite's own business. SQLite's arguments are passed on as they came.

use crate::ffi::codes::SQLITE_ERROR;
use crate::ffi::{DlSymbol, Sqlite3Vfs};
use crate::shim::vfs_methods::app;
use std::ffi::{c_char, c_double, c_int, c_void};

pub(super) unsafe extern "C" fn dl_open(vfs: *mut Sqlite3Vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).dl_open.map_or(std::ptr::null_mut(), |call| call(base, name))
    }
}

pub(super) unsafe extern "C" fn dl_error(vfs: *mut Sqlite3Vfs, bytes: c_int, message: *mut c_char) {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        if let Some(call) = (*base).dl_error {
            call(base, bytes, message);
        }
    }
}

pub(super) unsafe extern "C" fn dl_sym(
    vfs: *mut Sqlite3Vfs,
    library: *mut c_void,
    name: *const c_char,
) -> DlSymbol {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).dl_sym.and_then(|call| call(base, library, name))
    }
}

pub(super) unsafe extern "C" fn dl_close(vfs: *mut Sqlite3Vfs, library: *mut c_void) {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        if let Some(call) = (*base).dl_close {
            call(base, library);
        }
    }
}

pub(super) unsafe extern "C" fn randomness(vfs: *mut Sqlite3Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).randomness.map_or(0, |call| call(base, bytes, out))
    }
}

pub(super) unsafe extern "C" fn current_time(vfs: *mut Sqlite3Vfs, out: *mut c_double) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).current_time.map_or(SQLITE_ERROR, |call| call(base, out))
    }
}

pub(super) unsafe extern "C" fn current_time_int64(vfs: *mut Sqlite3Vfs, out: *mut i64) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).current_time_int64.map_or(SQLITE_ERROR, |call| call(base, out))
    }
}

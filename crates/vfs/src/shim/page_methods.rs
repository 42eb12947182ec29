//! The callbacks `xFetch` and `xUnfetch`: pages by address.
//!
//! SQLite makes these calls for every page that it reads. So nothing lies between the call and a page in memory: no check
//! for a forked child, and no result to translate. Everything else goes the way of the other methods.

use crate::ffi::Sqlite3File;
use crate::ffi::codes::SQLITE_OK;
use crate::files::main_db::MainFile;
use crate::shim::file_object::{FileObject, offset_of, panicked, with};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// As [`with`], without its checks, for the two calls that SQLite makes for every page. A panic latches the database.
///
/// # Safety
/// As for [`with`].
#[inline(always)]
unsafe fn on_main_file<T>(
    file: *mut Sqlite3File,
    call: impl FnOnce(&mut MainFile) -> T,
) -> std::result::Result<Option<T>, c_int> {
    // SAFETY: by contract; SQLite does not call two methods of one file at a time.
    let main = unsafe { (*file.cast::<FileObject>()).handle.main() };
    let Some(main) = main else { return Ok(None) };
    match catch_unwind(AssertUnwindSafe(|| call(main))) {
        Ok(found) => Ok(Some(found)),
        // SAFETY: by contract. Nothing of the file is borrowed any more.
        Err(panic) => Err(unsafe { panicked(file, panic) }),
    }
}

pub(crate) unsafe extern "C" fn fetch(
    file: *mut Sqlite3File,
    offset: i64,
    bytes: c_int,
    page: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file holds a FileObject, SQLite does not call two methods of it at a time; `page` can be written.
    unsafe {
        match on_main_file(file, |main| main.fetch_pinned(offset as u64, bytes as u32)) {
            Ok(Some(Some(found))) => {
                *page = found.as_ptr().cast();
                SQLITE_OK
            }
            Ok(_) => fetch_in_memory(file, offset, bytes, page),
            Err(code) => code,
        }
    }
}

/// A page that the connection has not pinned; apart, so that pinned pages cost less.
#[inline(never)]
unsafe extern "C" fn fetch_in_memory(
    file: *mut Sqlite3File,
    offset: i64,
    bytes: c_int,
    page: *mut *mut c_void,
) -> c_int {
    // SAFETY: as for `fetch`.
    unsafe {
        match on_main_file(file, |main| main.fetch_in_memory(offset as u64, bytes as u32)) {
            Ok(Some(Some(found))) => {
                *page = found.as_ptr().cast();
                SQLITE_OK
            }
            Ok(_) => fetch_other(file, offset, bytes, page),
            Err(code) => code,
        }
    }
}

/// A page that is not in memory, and all other rare cases.
#[cold]
unsafe extern "C" fn fetch_other(
    file: *mut Sqlite3File,
    offset: i64,
    bytes: c_int,
    page: *mut *mut c_void,
) -> c_int {
    // SAFETY: as for `fetch`.
    unsafe {
        *page = std::ptr::null_mut();
        with(file, |object| {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            let main = object.handle.main();
            if let Some(found) = main.and_then(|main| main.fetch(offset_of(offset), bytes)) {
                *page = found.as_ptr().cast();
            }
            Ok(SQLITE_OK)
        })
    }
}

pub(crate) unsafe extern "C" fn unfetch(file: *mut Sqlite3File, offset: i64, page: *mut c_void) -> c_int {
    // A call without a page announces a change of the file: a hint for a VFS that maps the whole file.
    if page.is_null() {
        return SQLITE_OK;
    }
    // SAFETY: as for `fetch`.
    match unsafe { on_main_file(file, |main| main.unfetch(offset as u64)) } {
        Ok(_) => SQLITE_OK,
        Err(code) => code,
    }
}

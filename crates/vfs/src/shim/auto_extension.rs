//! The hook on new connections, an automatic extension of SQLite.
//!
//! SQLite calls the hook at the end of `sqlite3_open`, for every connection of the process, on any VFS. Every connection
//! gets the table-valued functions. On litefoot's VFS the hook prepares the connection (`main_file`), or fails a refused
//! open with the full message.

use crate::ffi::Sqlite3;
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::shim::boundary::caught;
use crate::shim::libraries;
use crate::shim::main_file::{main_file, watch};
use std::ffi::{c_char, c_int, c_void};

/// The automatic extension.
///
/// # Safety
/// Called by SQLite with a connection, room for a message, and its function table.
pub unsafe extern "C" fn on_new_connection(
    db: *mut Sqlite3,
    message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: by contract.
    let Some(api) = (unsafe { functions(table) }) else { return SQLITE_OK };
    // SAFETY: by contract.
    guarded(|| unsafe { greet(&api, db, message) })
}

/// Runs the hook. A panic fails the open; the process, which may not know of litefoot, goes on.
fn guarded(hook: impl FnOnce() -> c_int) -> c_int {
    caught(|| Ok(hook())).unwrap_or_else(|panic| {
        crate::error::remember(&panic);
        panic.code()
    })
}

/// # Safety
/// As for [`on_new_connection`].
unsafe fn greet(api: &Api, db: *mut Sqlite3, message: *mut *mut c_char) -> c_int {
    // SAFETY: by contract. Where another extension has failed, SQLite lets the open fail, unless a statement of ours makes it
    // forget that.
    if unsafe { (api.errcode)(db) } != SQLITE_OK {
        return SQLITE_OK;
    }
    // SAFETY: by contract. A connection without the functions is still a good connection, unless memory has run out.
    // SQLite has noted that, and fails the open for it, in its own words.
    if unsafe { crate::shim::tables::register_all(api, db) } == SQLITE_NOMEM {
        return SQLITE_OK;
    }
    // SAFETY: by contract; SQLite is opening the connection, and nobody uses it yet.
    let Some(object) = (unsafe { main_file(api, db) }) else { return SQLITE_OK };
    // SAFETY: none of its methods runs; nothing of it is borrowed when one does.
    let refusal = unsafe { object.as_ref() }.refusal().map(|reason| {
        crate::error::remember(reason);
        format!("litefoot: {reason}")
    });
    let Some(refusal) = refusal else {
        // SAFETY: as above. The connection is alive as long as its main file, which owns what is made here.
        // Without memory SQLite lets the open fail by itself, as above.
        let _ = unsafe { watch(object, db) };
        return SQLITE_OK;
    };
    if !message.is_null() {
        // SAFETY: SQLite frees the message.
        unsafe { *message = api.allocate_text(&refusal) };
    }
    SQLITE_CANTOPEN
}

/// The functions of the library that calls. A library built without loadable extensions passes no table; then only the
/// functions that were found by name can serve.
///
/// # Safety
/// `table` is null or SQLite's function table.
unsafe fn functions(table: *const c_void) -> Option<Api> {
    if table.is_null() {
        return libraries::only();
    }
    // SAFETY: by contract.
    unsafe { Api::from_table(table) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_hook_fails_the_open_and_not_the_process() {
        assert_eq!(guarded(|| SQLITE_OK), SQLITE_OK);
        assert_eq!(guarded(|| panic!("on purpose")), SQLITE_INTERNAL);
        assert!(crate::last_error().is_some_and(|text| text.contains("on purpose")));
    }
}

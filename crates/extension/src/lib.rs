//! `liblitefoot.so`: one library for every SQLite from 3.40 on, in any language.
//!
//! - As a loadable extension: `.load ./liblitefoot` or `load_extension('./liblitefoot')`, then
//!   `file:app.db?vfs=litefoot`. It stays loaded for the life of the process.
//! - The entry point `sqlite3_litefootdefault_init` also makes litefoot the default VFS, for drivers
//!   that accept no URIs: `load_extension('./liblitefoot', 'sqlite3_litefootdefault_init')`.
//! - As a preload library: see `preload.rs`.

mod preload;

use litefoot_vfs::ffi::Sqlite3;
use litefoot_vfs::ffi::api::Api;
use litefoot_vfs::ffi::codes::{SQLITE_ERROR, SQLITE_OK_LOAD_PERMANENTLY};
use litefoot_vfs::shim::install::Server;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::panic::catch_unwind;

/// The allocator with a reserve: a program that runs out of memory gets an error from SQLite, and goes on.
#[global_allocator]
static ALLOCATOR: litefoot_vfs::Allocator = litefoot_vfs::Allocator;

/// Runs when the process exits, after the program's own handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// A program that exits without closing leaves its newest commits where stock SQLite finds them, and no void log.
extern "C" fn at_exit() {
    // A failure leaves them to the next open.
    let _ = catch_unwind(litefoot_vfs::open::at_exit::leave);
}

/// Entry point: registers the VFS `litefoot`.
///
/// # Safety
/// Called by SQLite's extension loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litefoot_init(
    db: *mut Sqlite3,
    message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe { load(db, message, table, false) }
}

/// Entry point: registers the VFS `litefoot` and makes it the default.
///
/// # Safety
/// Called by SQLite's extension loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_litefootdefault_init(
    db: *mut Sqlite3,
    message: *mut *mut c_char,
    table: *const c_void,
) -> c_int {
    // SAFETY: by contract.
    unsafe { load(db, message, table, true) }
}

/// # Safety
/// The arguments are those of an extension's entry point.
unsafe fn load(
    db: *mut Sqlite3,
    message: *mut *mut c_char,
    table: *const c_void,
    make_default: bool,
) -> c_int {
    // SAFETY: by contract.
    let api = match unsafe { Api::from_table(table) } {
        Ok(api) => api,
        // Without the table's functions there is no way to hand over a message that SQLite could free.
        Err(unsuitable) => {
            tell(&unsuitable.to_string());
            return SQLITE_ERROR;
        }
    };
    let result = catch_unwind(|| litefoot_vfs::shim::install::install(api, make_default, true));
    let text = match result {
        Ok(Ok(server)) => {
            // Later connections get the functions from the hook; this one is open already. Without them it is
            // still a good connection.
            if server == Server::ThisCopy {
                // SAFETY: the connection that loads the extension.
                let _ = unsafe { litefoot_vfs::shim::tables::register_all(&api, db) };
            }
            return SQLITE_OK_LOAD_PERMANENTLY;
        }
        Ok(Err(error)) => format!("litefoot: {error}"),
        Err(_) => "litefoot: internal error while loading".to_owned(),
    };
    if !message.is_null() {
        // SAFETY: SQLite provides room for one pointer and frees the text.
        unsafe { *message = api.allocate_text(&text) };
    }
    SQLITE_ERROR
}

/// Writes one line to standard error; a failure to write is ignored.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "litefoot: {text}");
}

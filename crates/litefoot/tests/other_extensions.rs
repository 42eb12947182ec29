//! Automatic extensions of others, which SQLite calls for every new connection as it calls litefoot's.

#![allow(clippy::unwrap_used)]

use litefoot::Vfs;
use litefoot::rusqlite::ffi;
use litefoot_sim::SimMedium;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static FAILS: AtomicBool = AtomicBool::new(false);

/// Fails without a word, as one does that finds no memory for its functions: SQLite notes it for the connection.
unsafe extern "C" fn hook(
    db: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    _table: *const ffi::sqlite3_api_routines,
) -> c_int {
    if FAILS.load(Ordering::Relaxed) {
        // SAFETY: the connection is SQLite's, which lets extensions run statements.
        unsafe { ffi::sqlite3_exec(db, c"no statement".as_ptr(), None, null_mut(), null_mut()) };
    }
    ffi::SQLITE_OK
}

#[test]
fn an_open_fails_for_an_extension_that_came_before() {
    // SAFETY: the hook has the signature of an entry point. It comes before litefoot's, which is registered below.
    unsafe { ffi::sqlite3_auto_extension(Some(hook)) };
    let vfs = Vfs::builder("after-others").medium(Arc::new(SimMedium::new())).register().unwrap();
    vfs.open("/app.db").unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
    FAILS.store(true, Ordering::Relaxed);
    let failed = vfs.open("/app.db").map(drop).unwrap_err();
    assert!(failed.to_string().contains("syntax error"), "{failed}");
    FAILS.store(false, Ordering::Relaxed);
    vfs.open("/app.db").unwrap().execute_batch("INSERT INTO t VALUES(1)").unwrap();
}

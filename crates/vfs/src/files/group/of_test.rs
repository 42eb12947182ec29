//! The setup that tests of the group begin with.

use crate::ffi::api::Api;
use crate::ffi::connection::Connection;
use crate::ffi::{Sqlite3, Sqlite3Stmt};
use crate::files::vfs::{Vfs, VfsSetup};
use crate::open::OpenDatabase;
use crate::open::database::DatabaseSetup;
use crate::options::Options;
use litefoot_sim::SimMedium;
use litefoot_storage::file::Medium;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// A VFS over a medium.
pub(super) fn vfs_on(medium: Arc<dyn Medium>) -> Arc<Vfs> {
    Arc::new(Vfs::new(VfsSetup {
        name: "group".to_owned(),
        medium,
        defaults: Options::default(),
        pass_through: false,
        keeps_logs: false,
    }))
}

/// An owner that members may come to.
pub(super) fn group_on(medium: &SimMedium) -> (Arc<Vfs>, Arc<OpenDatabase>) {
    let medium = Arc::new(medium.clone());
    let vfs = vfs_on(medium.clone());
    let setup = DatabaseSetup::of_test(medium, Path::new("/app.db"));
    let database = vfs.databases.get_or_insert(setup.file.id(), || OpenDatabase::new(setup));
    database.db().shared().begin_board(database.wal_index().begin_group(database.db().file().id()).unwrap());
    database.own().unwrap();
    (vfs, database)
}

thread_local! {
    /// How many spills such a connection has counted, and whether its statement writes nothing, in this thread.
    pub(super) static SPILLS: Cell<c_int> = const { Cell::new(0) };
    pub(super) static READS: Cell<c_int> = const { Cell::new(0) };
}

/// The handle of a connection in which one INSERT runs, and no other statement.
pub(super) fn inserting() -> Connection {
    const TEXT: &CStr = c"INSERT INTO t VALUES(1)";
    unsafe extern "C" fn no() -> c_int {
        0
    }
    unsafe extern "C" fn reads() -> c_int {
        READS.get()
    }
    unsafe extern "C" fn status(
        _: *mut Sqlite3,
        _: c_int,
        current: *mut c_int,
        _: *mut c_int,
        _: c_int,
    ) -> c_int {
        // SAFETY: the number can be written.
        unsafe { *current = SPILLS.get() };
        0
    }
    unsafe extern "C" fn yes() -> c_int {
        1
    }
    unsafe extern "C" fn next_stmt(_: *mut Sqlite3, after: *mut Sqlite3Stmt) -> *mut Sqlite3Stmt {
        ptr::without_provenance_mut(if after.is_null() { 8 } else { 0 })
    }
    unsafe extern "C" fn sql(_: *mut Sqlite3Stmt) -> *const c_char {
        TEXT.as_ptr()
    }
    unsafe extern "C" fn nothing() {
        unreachable!("a function that the test has not")
    }
    fn function(name: &CStr) -> *const c_void {
        match name.to_bytes() {
            b"sqlite3_get_autocommit" | b"sqlite3_stmt_busy" => yes as *const c_void,
            b"sqlite3_stmt_readonly" => reads as *const c_void,
            b"sqlite3_column_count" => no as *const c_void,
            b"sqlite3_db_status" => status as *const c_void,
            b"sqlite3_next_stmt" => next_stmt as *const c_void,
            b"sqlite3_sql" => sql as *const c_void,
            _ => nothing as *const c_void,
        }
    }
    static API: OnceLock<Api> = OnceLock::new();
    // SAFETY: each takes what SQLite's function takes, or nothing of it; `nothing` never returns.
    let api = API.get_or_init(|| unsafe { Api::from_symbols(function) }.unwrap());
    // SAFETY: no function looks at the address.
    unsafe { Connection::new(api, ptr::null_mut()) }
}

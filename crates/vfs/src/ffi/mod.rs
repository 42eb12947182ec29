//! The C side of SQLite: its structures, its numbers, its functions, and safe connections and statements.
//!
//! The ground floor of this crate: nothing here imports another room. Layouts and numbers are those of `sqlite3.h`, which
//! SQLite has promised to keep since version 3. The callbacks that SQLite calls are in `shim`.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | SQLite's structures |
//! | `codes` | SQLite's numbers |
//! | `api` | the table of SQLite's functions |
//! | `statement` | prepared statements |
//! | `connection` | connections |
//! | `authorizer` | connections that may do little |

pub mod api;
pub(crate) mod authorizer;
pub mod codes;
pub(crate) mod connection;
pub(crate) mod statement;

use std::ffi::{c_char, c_double, c_int, c_void};

/// A database connection (`sqlite3*`), opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3 {
    _opaque: [u8; 0],
}

/// A lock (`sqlite3_mutex*`), opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3Mutex {
    _opaque: [u8; 0],
}

/// A prepared statement (`sqlite3_stmt*`), opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3Stmt {
    _opaque: [u8; 0],
}

/// The room for a function's result (`sqlite3_context*`), opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3Context {
    _opaque: [u8; 0],
}

/// A value (`sqlite3_value*`), opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3Value {
    _opaque: [u8; 0],
}

/// `sqlite3_file`: the header of every open file.
#[repr(C)]
#[derive(Debug)]
pub struct Sqlite3File {
    /// The methods; null until the open succeeds.
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct IoMethods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut Sqlite3File) -> c_int,
    pub read: unsafe extern "C" fn(*mut Sqlite3File, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut Sqlite3File, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut Sqlite3File, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut Sqlite3File, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut Sqlite3File, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut Sqlite3File, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut Sqlite3File, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut Sqlite3File, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut Sqlite3File, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut Sqlite3File) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut Sqlite3File) -> c_int,
    pub shm_map:
        Option<unsafe extern "C" fn(*mut Sqlite3File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut Sqlite3File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut Sqlite3File)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut Sqlite3File, c_int) -> c_int>,
    pub fetch: Option<unsafe extern "C" fn(*mut Sqlite3File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut Sqlite3File, i64, *mut c_void) -> c_int>,
}

/// A dynamic symbol as `xDlSym` returns it.
pub type DlSymbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 3.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Sqlite3Vfs {
    pub version: c_int,
    pub os_file_bytes: c_int,
    pub max_pathname: c_int,
    pub next: *mut Sqlite3Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Option<
        unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, *mut Sqlite3File, c_int, *mut c_int) -> c_int,
    >,
    pub delete: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, c_int) -> c_int>,
    pub access: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_pathname:
        Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *mut c_void, *const c_char) -> DlSymbol>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *mut c_void)>,
    pub randomness: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, c_int) -> c_int>,
    pub current_time: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *mut c_double) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Sqlite3Vfs, *mut i64) -> c_int>,
    pub set_system_call: *const c_void,
    pub get_system_call: *const c_void,
    pub next_system_call: *const c_void,
}

//! The system's SQLite, as far as the session extension is asked.

// The types stand once, in the structure below.
#![allow(clippy::missing_transmute_annotations)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

type Handle = *mut c_void;

/// The functions of the library, which stays loaded.
pub struct SystemSqlite {
    open: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    close: unsafe extern "C" fn(Handle) -> c_int,
    exec: unsafe extern "C" fn(Handle, *const c_char, *const c_void, *const c_void, *const c_void) -> c_int,
    errmsg: unsafe extern "C" fn(Handle) -> *const c_char,
    free: unsafe extern "C" fn(*mut c_void),
    session_create: unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> c_int,
    session_attach: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    session_diff: unsafe extern "C" fn(Handle, *const c_char, *const c_char, *mut *mut c_char) -> c_int,
    session_changeset: unsafe extern "C" fn(Handle, *mut c_int, *mut *mut c_void) -> c_int,
    session_delete: unsafe extern "C" fn(Handle),
    apply: unsafe extern "C" fn(Handle, c_int, *const c_void, *const c_void, Conflict, *mut c_void) -> c_int,
}

type Conflict = unsafe extern "C" fn(*mut c_void, c_int, Handle) -> c_int;

/// Ends the application of a changeset: there must be no conflict.
unsafe extern "C" fn conflict(_: *mut c_void, _: c_int, _: Handle) -> c_int {
    const ABORT: c_int = 2;
    ABORT
}

/// A function of the library, by its name.
macro_rules! symbol {
    ($library:expr, $name:literal) => {{
        // SAFETY: the library is loaded; the name ends with 0.
        let found = unsafe { libc::dlsym($library, $name.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: it is the function of that name, whose type SQLite's header has.
        unsafe { std::mem::transmute(found) }
    }};
}

impl SystemSqlite {
    /// Loads the library; `None` where there is none, or one without the session extension.
    pub fn load() -> Option<SystemSqlite> {
        // SAFETY: the name ends with 0. SQLite's library runs no code when it is loaded.
        let library = unsafe { libc::dlopen(c"libsqlite3.so.0".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        Some(SystemSqlite {
            open: symbol!(library, c"sqlite3_open"),
            close: symbol!(library, c"sqlite3_close"),
            exec: symbol!(library, c"sqlite3_exec"),
            errmsg: symbol!(library, c"sqlite3_errmsg"),
            free: symbol!(library, c"sqlite3_free"),
            session_create: symbol!(library, c"sqlite3session_create"),
            session_attach: symbol!(library, c"sqlite3session_attach"),
            session_diff: symbol!(library, c"sqlite3session_diff"),
            session_changeset: symbol!(library, c"sqlite3session_changeset"),
            session_delete: symbol!(library, c"sqlite3session_delete"),
            apply: symbol!(library, c"sqlite3changeset_apply"),
        })
    }

    /// The changeset that leads from the older file to the newer one.
    pub fn difference(&self, older: &Path, newer: &Path, tables: &[&str]) -> Vec<u8> {
        let database = Database::open(self, newer);
        database.exec(&format!("ATTACH '{}' AS older", older.display()));
        let mut session: Handle = null_mut();
        let (mut length, mut bytes) = (0, null_mut());
        // SAFETY: the database is open; all texts end with 0; the session ends before the database does.
        unsafe {
            assert_eq!((self.session_create)(database.handle, c"main".as_ptr(), &mut session), 0);
            for table in tables {
                let table = CString::new(*table).unwrap();
                assert_eq!((self.session_attach)(session, table.as_ptr()), 0);
                let code = (self.session_diff)(session, c"older".as_ptr(), table.as_ptr(), null_mut());
                assert_eq!(code, 0, "{}", database.error());
            }
            assert_eq!((self.session_changeset)(session, &mut length, &mut bytes), 0);
            (self.session_delete)(session);
        }
        if bytes.is_null() {
            return Vec::new();
        }
        // SAFETY: the extension answered so many bytes, which are ours to free.
        unsafe {
            let changeset = std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize).to_vec();
            (self.free)(bytes);
            changeset
        }
    }
}

/// An open database.
pub struct Database<'a> {
    sqlite: &'a SystemSqlite,
    handle: Handle,
}

impl<'a> Database<'a> {
    pub fn open(sqlite: &'a SystemSqlite, path: &Path) -> Database<'a> {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let mut handle = null_mut();
        // SAFETY: the path ends with 0.
        assert_eq!(unsafe { (sqlite.open)(path.as_ptr(), &mut handle) }, 0);
        Database { sqlite, handle }
    }

    fn exec(&self, sql: &str) {
        let text = CString::new(sql).unwrap();
        // SAFETY: the database is open; nobody wants rows or messages.
        let code = unsafe { (self.sqlite.exec)(self.handle, text.as_ptr(), null(), null(), null()) };
        assert_eq!(code, 0, "{sql}: {}", self.error());
    }

    fn error(&self) -> String {
        // SAFETY: the text lives until the next call.
        unsafe { CStr::from_ptr((self.sqlite.errmsg)(self.handle)) }.to_string_lossy().into_owned()
    }

    /// Applies a changeset; a conflict is an error.
    pub fn apply(&self, changeset: &[u8]) -> Result<(), String> {
        let (length, bytes) = (changeset.len() as c_int, changeset.as_ptr().cast());
        // SAFETY: the changeset lives for the call, and the function for conflicts touches nothing.
        let code = unsafe { (self.sqlite.apply)(self.handle, length, bytes, null(), conflict, null_mut()) };
        if code == 0 { Ok(()) } else { Err(format!("code {code}: {}", self.error())) }
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing of it is used afterwards.
        unsafe { (self.sqlite.close)(self.handle) };
    }
}

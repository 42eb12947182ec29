//! Using SQLite from below: connections and statements of our own.
//!
//! Everything here is called by a thread that SQLite has called, or by one of ours, on connections that are
//! alive; SQLite's mutexes, which are recursive, do the rest.

use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::ffi::{Sqlite3, Sqlite3Stmt};
use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::time::Duration;

const SQLITE_OPEN_PRIVATECACHE: c_int = 0x0004_0000;
const SQLITE_UTF8: u8 = 1;
/// "The destructor is null": SQLite does not copy, and does not free.
const SQLITE_STATIC: *const c_void = std::ptr::null();

/// How long a connection of our own sleeps before it tries a lock again, and how long that takes, about.
const NAP: Duration = Duration::from_micros(50);
const NAP_TAKES: Duration = Duration::from_micros(100);

/// Sleeps, unless that was done as often as `most` says; SQLite tries again then.
unsafe extern "C" fn nap(most: *mut c_void, times: c_int) -> c_int {
    let again = usize::try_from(times).is_ok_and(|times| times < most.addr());
    if again {
        std::thread::sleep(NAP);
    }
    c_int::from(again)
}

thread_local! {
    static INTERNAL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is opening a connection of ours.
pub(crate) fn is_internal() -> bool {
    INTERNAL.get()
}

/// A value on its way in or out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    None,
    /// It has a snapshot.
    Reading,
    /// It has the write lock.
    Writing,
}

/// A connection that somebody keeps alive.
#[derive(Clone, Copy)]
pub(crate) struct Db {
    api: &'static Api,
    raw: *mut Sqlite3,
}

// SAFETY: a connection may be used by any thread; SQLite serialises by its mutex, and where it was built or
// configured without one, only the thread that SQLite has called uses it.
unsafe impl Send for Db {}
// SAFETY: as above.
unsafe impl Sync for Db {}

impl Db {
    /// Whether this SQLite has a way to read bindings.
    pub(crate) fn can_lend_bindings(self) -> bool {
        self.api.transfer_bindings.is_some() && self.api.expired.is_some()
    }

    /// # Safety
    /// The connection lives as long as the result and its copies are used.
    pub(crate) unsafe fn new(api: &'static Api, raw: *mut Sqlite3) -> Db {
        Db { api, raw }
    }

    /// The connection as SQLite has it.
    pub(crate) fn raw(self) -> *mut Sqlite3 {
        self.raw
    }

    /// The functions of its SQLite.
    pub(crate) fn api(self) -> &'static Api {
        self.api
    }

    /// A setting of the connection (`sqlite3_db_config`); `None` where this SQLite does not know it. Runs no SQL.
    pub(crate) fn flag(self, name: c_int) -> Option<bool> {
        let mut value: c_int = 0;
        // SAFETY: the connection is alive; these settings take a number, which leaves them as they are, and a place.
        let code = unsafe { (self.api.db_config)(self.raw, name, -1 as c_int, &raw mut value) };
        (code == SQLITE_OK).then_some(value != 0)
    }

    /// Changes such a setting.
    pub(crate) fn set_flag(self, name: c_int, value: bool) {
        // SAFETY: as above.
        unsafe { (self.api.db_config)(self.raw, name, c_int::from(value), std::ptr::null_mut::<c_int>()) };
    }

    /// A limit of the connection (`sqlite3_limit`).
    pub(crate) fn limit(self, name: c_int) -> c_int {
        // SAFETY: the connection is alive; a negative number leaves the limit as it is.
        unsafe { (self.api.limit)(self.raw, name, -1) }
    }

    /// Whether no transaction was begun explicitly.
    pub(crate) fn is_autocommit(self) -> bool {
        // SAFETY: the connection is alive.
        unsafe { (self.api.get_autocommit)(self.raw) != 0 }
    }

    /// How far the transaction on the main database is.
    pub(crate) fn transaction(self) -> TransactionState {
        // SAFETY: the connection is alive.
        match unsafe { (self.api.txn_state)(self.raw, c"main".as_ptr()) } {
            1 => TransactionState::Reading,
            2 => TransactionState::Writing,
            _ => TransactionState::None,
        }
    }

    /// Rows changed since the connection was opened; wraps.
    pub(crate) fn total_changes(self) -> i32 {
        // SAFETY: the connection is alive.
        unsafe { (self.api.total_changes)(self.raw) }
    }

    /// The rowid inserted last.
    pub(crate) fn last_insert_rowid(self) -> i64 {
        // SAFETY: the connection is alive.
        unsafe { (self.api.last_insert_rowid)(self.raw) }
    }

    /// How often the connection has asked its caches for a page.
    pub(crate) fn page_accesses(self) -> i64 {
        let count = |what| {
            let (mut current, mut most) = (0, 0);
            // SAFETY: the connection is alive, and both numbers can be written.
            unsafe { (self.api.db_status)(self.raw, what, &raw mut current, &raw mut most, 0) };
            i64::from(current)
        };
        count(SQLITE_DBSTATUS_CACHE_HIT) + count(SQLITE_DBSTATUS_CACHE_MISS)
    }

    /// Whether a statement has started and not ended, but for one; one that is not run by steps, as for a blob handle, counts,
    /// too.
    pub(crate) fn has_open_statement_but(self, one: Running) -> bool {
        let mut statement = std::ptr::null_mut();
        loop {
            // SAFETY: the connection is alive, and so are its statements while its thread is here.
            unsafe {
                statement = (self.api.next_stmt)(self.raw, statement);
                if statement.is_null() {
                    return false;
                }
                if statement as usize != one.id() && (self.api.stmt_busy)(statement) != 0 {
                    return true;
                }
            }
        }
    }

    /// The connection's last error message.
    pub(crate) fn message(self) -> String {
        // SAFETY: the connection is alive; the text is copied at once.
        unsafe { std::ffi::CStr::from_ptr((self.api.errmsg)(self.raw)) }.to_string_lossy().into_owned()
    }

    /// Prepares one statement.
    pub(crate) fn prepare(self, sql: &str) -> Result<Statement, c_int> {
        let mut raw = std::ptr::null_mut();
        let len = c_int::try_from(sql.len()).map_err(|_| SQLITE_ERROR)?;
        // SAFETY: the text has `len` bytes, the statement can be stored.
        let code = unsafe {
            (self.api.prepare_v2)(self.raw, sql.as_ptr().cast(), len, &raw mut raw, std::ptr::null_mut())
        };
        if code != SQLITE_OK || raw.is_null() {
            return Err(if code == SQLITE_OK { SQLITE_ERROR } else { code });
        }
        Ok(Statement { api: self.api, raw })
    }

    /// Prepares a statement that selects its parameters, which are this many: bindings can be lent to it.
    pub(crate) fn prepare_parameters(self, parameters: usize) -> Result<Statement, c_int> {
        let list: Vec<String> = (1..=parameters).map(|number| format!("?{number}")).collect();
        self.prepare(&format!("SELECT {}", list.join(",")))
    }

    /// Runs one statement to its end.
    pub(crate) fn execute(self, sql: &str) -> Result<(), c_int> {
        let mut statement = self.prepare(sql)?;
        loop {
            match statement.step() {
                SQLITE_ROW => {}
                SQLITE_DONE => return Ok(()),
                code => return Err(code),
            }
        }
    }

    /// Asks for checkpoints after commits of this many frames.
    pub(crate) fn set_autocheckpoint(self, frames: c_int) {
        // SAFETY: the connection is alive.
        unsafe { (self.api.wal_autocheckpoint)(self.raw, frames) };
    }

    /// How long SQLite waits for others, trying again in shorter steps than its own of a millisecond and more.
    pub(crate) fn set_patience(self, limit: Duration) {
        let naps = limit.as_micros() / NAP_TAKES.as_micros();
        // SAFETY: the connection is alive, and the handler takes its argument for a number.
        unsafe {
            (self.api.busy_handler)(self.raw, Some(nap), std::ptr::without_provenance_mut(naps as usize))
        };
    }

    /// Checkpoints; answers SQLite's code.
    pub(crate) fn checkpoint(self, mode: c_int) -> c_int {
        // SAFETY: the connection is alive; no counts are asked for.
        unsafe {
            (self.api.wal_checkpoint_v2)(
                self.raw,
                c"main".as_ptr(),
                mode,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        }
    }
}

/// A connection of ours: not counted among the application's, without capture.
pub(crate) struct OwnConnection {
    db: Db,
}

impl OwnConnection {
    /// Opens the database at `path` through the VFS of that name.
    pub(crate) fn open(api: &'static Api, vfs: &str, path: &Path) -> Result<OwnConnection, String> {
        let text = |text: &[u8]| CString::new(text).map_err(|error| error.to_string());
        let path_text = text(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))?;
        let vfs = text(vfs.as_bytes())?;
        let mut raw = std::ptr::null_mut();
        let before = INTERNAL.replace(true);
        // SAFETY: plain strings; the connection is stored and closed by `drop`, also where the open failed.
        let code = unsafe {
            let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE;
            (api.open_v2)(path_text.as_ptr(), &raw mut raw, flags, vfs.as_ptr())
        };
        INTERNAL.set(before);
        if raw.is_null() {
            return Err("out of memory".to_owned());
        }
        // SAFETY: closed by `drop` only.
        let connection = OwnConnection { db: unsafe { Db::new(api, raw) } };
        if code == SQLITE_OK { Ok(connection) } else { Err(connection.db.message()) }
    }

    /// The connection, while this lives.
    pub(crate) fn db(&self) -> Db {
        self.db
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once; its statements are gone, they borrow nothing but end first.
        unsafe { (self.db.api.close_v2)(self.db.raw) };
    }
}

/// A statement of ours.
pub(crate) struct Statement {
    api: &'static Api,
    raw: *mut Sqlite3Stmt,
}

// SAFETY: as for `Db`.
unsafe impl Send for Statement {}

impl Statement {
    /// How many values it takes.
    pub(crate) fn parameters(&self) -> usize {
        // SAFETY: the statement is alive until `drop`.
        usize::try_from(unsafe { (self.api.bind_parameter_count)(self.raw) }).unwrap_or(0)
    }

    /// Whether its bindings cannot be lent: the values shape its plan, and a statement whose bindings were lent
    /// stops with an error then.
    pub(crate) fn is_shaped_by_values(&mut self, db: Db) -> bool {
        let parameters = self.parameters();
        let (Some(transfer), Some(expired)) = (self.api.transfer_bindings, self.api.expired) else {
            return true;
        };
        if parameters == 0 {
            return false;
        }
        let Ok(other) = db.prepare_parameters(parameters) else { return true };
        self.reset();
        // SAFETY: both are statements of one connection, and alive.
        unsafe { transfer(self.raw, other.raw) != SQLITE_OK || expired(self.raw) != 0 }
    }

    /// One step; answers SQLite's code.
    pub(crate) fn step(&mut self) -> c_int {
        // SAFETY: the statement is alive until `drop`.
        unsafe { (self.api.step)(self.raw) }
    }

    /// Back to the beginning.
    pub(crate) fn reset(&mut self) {
        // SAFETY: as above.
        unsafe { (self.api.reset)(self.raw) };
    }

    /// Columns of a row.
    pub(crate) fn columns(&self) -> c_int {
        // SAFETY: as above.
        unsafe { (self.api.column_count)(self.raw) }
    }

    /// A column of the current row; valid until the next step.
    pub(crate) fn value(&self, column: c_int) -> Value<'_> {
        // SAFETY: the statement stands on a row; pointer and length belong together (pointer first).
        unsafe {
            match (self.api.column_type)(self.raw, column) {
                SQLITE_INTEGER => Value::Integer((self.api.column_int64)(self.raw, column)),
                SQLITE_FLOAT => Value::Real((self.api.column_double)(self.raw, column)),
                SQLITE_TEXT => {
                    let pointer = (self.api.column_text)(self.raw, column);
                    Value::Text(self.bytes(pointer, column))
                }
                SQLITE_BLOB => {
                    let pointer = (self.api.column_blob)(self.raw, column);
                    Value::Blob(self.bytes(pointer.cast(), column))
                }
                _ => Value::Null,
            }
        }
    }

    /// # Safety
    /// `pointer` was returned for this column of the current row.
    unsafe fn bytes(&self, pointer: *const u8, column: c_int) -> &[u8] {
        // SAFETY: by contract.
        let len = unsafe { (self.api.column_bytes)(self.raw, column) };
        match usize::try_from(len) {
            // SAFETY: SQLite holds that many bytes there until the next step.
            Ok(len) if len > 0 && !pointer.is_null() => unsafe { std::slice::from_raw_parts(pointer, len) },
            _ => &[],
        }
    }

    /// A column as an integer.
    pub(crate) fn integer(&self, column: c_int) -> i64 {
        // SAFETY: the statement stands on a row.
        unsafe { (self.api.column_int64)(self.raw, column) }
    }

    /// A column as text.
    pub(crate) fn text(&self, column: c_int) -> String {
        match self.value(column) {
            Value::Null => String::new(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(bytes) | Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// Binds a value, which stays where it is until it is bound anew; parameters count from 1.
    ///
    /// # Safety
    /// Text and blobs outlive the binding.
    pub(crate) unsafe fn bind(&mut self, parameter: c_int, value: Value<'_>) -> c_int {
        // SAFETY: by contract the bytes live long enough.
        unsafe {
            match value {
                Value::Null => (self.api.bind_null)(self.raw, parameter),
                Value::Integer(number) => (self.api.bind_int64)(self.raw, parameter, number),
                Value::Real(number) => (self.api.bind_double)(self.raw, parameter, number),
                Value::Text(bytes) => (self.api.bind_text64)(
                    self.raw,
                    parameter,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    SQLITE_STATIC,
                    SQLITE_UTF8,
                ),
                Value::Blob(bytes) => (self.api.bind_blob64)(
                    self.raw,
                    parameter,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                    SQLITE_STATIC,
                ),
            }
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: prepared by `prepare`, finalized once.
        unsafe { (self.api.finalize)(self.raw) };
    }
}

/// A statement of the application's, inside a callback that SQLite made for it.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    api: &'static Api,
    raw: *mut Sqlite3Stmt,
}

impl Running {
    /// # Safety
    /// SQLite has passed the statement to the callback that is running.
    pub(crate) unsafe fn new(api: &'static Api, raw: *mut c_void) -> Running {
        Running { api, raw: raw.cast() }
    }

    /// What tells it from the connection's other statements.
    pub(crate) fn id(self) -> usize {
        self.raw as usize
    }

    /// Whether it writes nothing (SQLite's own judgement).
    pub(crate) fn is_read_only(self) -> bool {
        // SAFETY: by the contract of `new`.
        unsafe { (self.api.stmt_readonly)(self.raw) != 0 }
    }

    /// Whether it returns rows.
    pub(crate) fn has_columns(self) -> bool {
        // SAFETY: by the contract of `new`.
        unsafe { (self.api.column_count)(self.raw) > 0 }
    }

    /// Number of its parameters.
    pub(crate) fn parameters(self) -> usize {
        // SAFETY: by the contract of `new`.
        usize::try_from(unsafe { (self.api.bind_parameter_count)(self.raw) }).unwrap_or(0)
    }

    /// Lends its bindings to `helper`, which selects as many parameters, and takes them back. `read` gets the
    /// helper standing on its one row. `false` where SQLite does not play along.
    pub(crate) fn read_bindings(self, helper: &mut Statement, read: impl FnOnce(&Statement)) -> bool {
        let Some(transfer) = self.api.transfer_bindings else { return false };
        // SAFETY: both statements belong to the connection of the callback. SQLite reads a statement's
        // bindings only while it executes instructions, and it is in the callback of the first.
        unsafe {
            if transfer(self.raw, helper.raw) != SQLITE_OK {
                return false;
            }
            let there = helper.step() == SQLITE_ROW;
            if there {
                read(helper);
            }
            helper.reset();
            transfer(helper.raw, self.raw) == SQLITE_OK && there
        }
    }
}

//! Connections: the application's, through a handle, and internal ones.
//!
//! SQLite is called here by a thread that SQLite has called, or by a background thread, on connections that are alive.
//! SQLite's own mutexes are recursive and order the calls.

use crate::ffi::Sqlite3;
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::ffi::statement::{RunningStatement, Statement};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

const SQLITE_OPEN_PRIVATECACHE: c_int = 0x0004_0000;

/// The sleep between two tries of an internal connection at a lock.
const NAP: Duration = Duration::from_micros(50);
/// The time that one such sleep takes, about.
const NAP_TAKES: Duration = Duration::from_micros(100);

/// Busy handler: sleeps and asks SQLite to try again, at most `most` times.
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

/// True while this thread opens an internal connection.
pub(crate) fn is_internal() -> bool {
    INTERNAL.get()
}

/// The state of a transaction (`sqlite3_txn_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionState {
    None,
    /// The transaction has a snapshot.
    Reading,
    /// The transaction has the write lock.
    Writing,
}

/// A handle of a connection that its owner keeps alive.
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    api: &'static Api,
    raw: *mut Sqlite3,
}

// SAFETY: a connection may be used by any thread, since SQLite serialises by its mutex. Where SQLite has no mutex, by
// its build or configuration, only the thread that SQLite has called uses the connection.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

/// Which statements of a connection have started and not ended.
enum OpenStatements {
    None,
    One(RunningStatement),
    /// Several have, or there are many to be looked at.
    Others,
}

impl Connection {
    /// True where this SQLite can move bindings from one statement to another.
    pub(crate) fn can_lend_bindings(self) -> bool {
        self.api.transfer_bindings.is_some() && self.api.expired.is_some()
    }

    /// # Safety
    /// The connection lives as long as the result and its copies are used.
    pub(crate) unsafe fn new(api: &'static Api, raw: *mut Sqlite3) -> Connection {
        Connection { api, raw }
    }

    /// The connection as SQLite has it.
    pub(crate) fn raw(self) -> *mut Sqlite3 {
        self.raw
    }

    /// The functions of its SQLite.
    pub(crate) fn api(self) -> &'static Api {
        self.api
    }

    /// A setting of the connection (`sqlite3_db_config`); `None` where this SQLite lacks it. Runs no SQL.
    pub(crate) fn flag(self, name: c_int) -> Option<bool> {
        let mut value: c_int = 0;
        // SAFETY: the connection is alive; these settings take a number, which leaves them as they are, and a place.
        let code = unsafe { (self.api.db_config)(self.raw, name, -1 as c_int, &raw mut value) };
        (code == SQLITE_OK).then_some(value != 0)
    }

    /// Changes a setting of the connection (`sqlite3_db_config`).
    pub(crate) fn set_flag(self, name: c_int, value: bool) {
        // SAFETY: as above.
        unsafe { (self.api.db_config)(self.raw, name, c_int::from(value), std::ptr::null_mut::<c_int>()) };
    }

    /// A limit of the connection (`sqlite3_limit`).
    pub(crate) fn limit(self, name: c_int) -> c_int {
        // SAFETY: the connection is alive; a negative number leaves the limit as it is.
        unsafe { (self.api.limit)(self.raw, name, -1) }
    }

    /// True outside an explicit transaction.
    pub(crate) fn is_autocommit(self) -> bool {
        // SAFETY: the connection is alive.
        unsafe { (self.api.get_autocommit)(self.raw) != 0 }
    }

    /// The state of the transaction on the main database.
    pub(crate) fn transaction(self) -> TransactionState {
        // SAFETY: the connection is alive.
        match unsafe { (self.api.txn_state)(self.raw, c"main".as_ptr()) } {
            1 => TransactionState::Reading,
            2 => TransactionState::Writing,
            _ => TransactionState::None,
        }
    }

    /// The count of rows changed since the open; wraps.
    pub(crate) fn total_changes(self) -> i32 {
        // SAFETY: the connection is alive.
        unsafe { (self.api.total_changes)(self.raw) }
    }

    /// The rowid inserted last.
    pub(crate) fn last_insert_rowid(self) -> i64 {
        // SAFETY: the connection is alive.
        unsafe { (self.api.last_insert_rowid)(self.raw) }
    }

    /// The count of page requests to the connection's caches.
    pub(crate) fn page_accesses(self) -> i64 {
        self.status(SQLITE_DBSTATUS_CACHE_HIT) + self.status(SQLITE_DBSTATUS_CACHE_MISS)
    }

    /// The count of pages that were to leave the connection's caches in the middle of a transaction, whether they could or not.
    pub(crate) fn spills(self) -> i64 {
        self.status(SQLITE_DBSTATUS_CACHE_SPILL)
    }

    /// A figure of the connection (`sqlite3_db_status`).
    fn status(self, what: c_int) -> i64 {
        let (mut current, mut most) = (0, 0);
        // SAFETY: the connection is alive, and both numbers can be written.
        unsafe { (self.api.db_status)(self.raw, what, &raw mut current, &raw mut most, 0) };
        i64::from(current)
    }

    /// True while a statement other than `one` has started and not ended. Statements that SQLite runs without steps, as
    /// for a blob handle, count as well.
    pub(crate) fn has_open_statement_but(self, one: RunningStatement) -> bool {
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

    /// The statements that have started and not ended.
    fn open_statements(self) -> OpenStatements {
        const MOST: usize = 64;
        let mut statement = std::ptr::null_mut();
        let mut found = OpenStatements::None;
        for _ in 0..=MOST {
            // SAFETY: the connection is alive, and so are its statements while its thread is here.
            unsafe {
                statement = (self.api.next_stmt)(self.raw, statement);
                if statement.is_null() {
                    return found;
                }
                if (self.api.stmt_busy)(statement) != 0 {
                    if !matches!(found, OpenStatements::None) {
                        return OpenStatements::Others;
                    }
                    found = OpenStatements::One(RunningStatement::new(self.api, statement.cast()));
                }
            }
        }
        OpenStatements::Others
    }

    /// The statement that has started and not ended, where that is one; `None` as well where the connection has many statements to be
    /// looked at.
    pub(crate) fn only_open_statement(self) -> Option<RunningStatement> {
        match self.open_statements() {
            OpenStatements::One(statement) => Some(statement),
            OpenStatements::None | OpenStatements::Others => None,
        }
    }

    /// True if one statement has started and not ended, and only reads. Where the connection has many statements that is not known.
    pub(crate) fn only_reads(self) -> bool {
        self.only_open_statement().is_some_and(RunningStatement::is_read_only)
    }

    /// The same, or if none has started: SQLite reads the schema then.
    pub(crate) fn only_reads_or_prepares(self) -> bool {
        match self.open_statements() {
            OpenStatements::None => true,
            OpenStatements::One(statement) => statement.is_read_only(),
            OpenStatements::Others => false,
        }
    }

    /// True if the end of the running statement is the end of all that the connection does. Where it has many statements that is not known.
    pub(crate) fn ends_with_statement(self) -> bool {
        self.is_autocommit() && self.only_open_statement().is_some()
    }

    /// The connection's last error message.
    pub(crate) fn message(self) -> String {
        // SAFETY: the connection is alive; the text is copied at once.
        unsafe { CStr::from_ptr((self.api.errmsg)(self.raw)) }.to_string_lossy().into_owned()
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
        // SAFETY: just prepared, and stored here only; callers keep the connection open longer.
        Ok(unsafe { Statement::new(self.api, raw) })
    }

    /// The declared type and the collation of a column of the main database; `None` where there is no such column, or where
    /// this SQLite cannot say.
    pub(crate) fn column(self, table: &str, column: &str) -> Option<(String, String)> {
        let ask = self.api.table_column_metadata?;
        let (table, column) = (CString::new(table).ok()?, CString::new(column).ok()?);
        let (mut declared, mut collation) = (std::ptr::null(), std::ptr::null());
        let nowhere = std::ptr::null_mut::<c_int>;
        // SAFETY: the connection is alive, the names end with NUL, and the two texts can be stored.
        let code = unsafe {
            let (name, column) = (table.as_ptr(), column.as_ptr());
            let (declared, collation) = (&raw mut declared, &raw mut collation);
            ask(
                self.raw,
                c"main".as_ptr(),
                name,
                column,
                declared,
                collation,
                nowhere(),
                nowhere(),
                nowhere(),
            )
        };
        let text = |text: *const std::ffi::c_char| {
            // SAFETY: SQLite's texts live until the schema changes; they are copied at once.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        (code == SQLITE_OK).then(|| Some((text(declared).unwrap_or_default(), text(collation)?)))?
    }

    /// Prepares `SELECT ?1, ?2, …`: a statement that bindings can be moved to and read from.
    pub(crate) fn prepare_parameters(self, parameters: usize) -> Result<Statement, c_int> {
        let list: Vec<String> = (1..=parameters).map(|number| format!("?{number}")).collect();
        self.prepare(&format!("SELECT {}", list.join(",")))
    }

    /// True where the plan of `statement` depends on its bound values, or where that cannot be found out. SQLite ends such
    /// a statement with an error when its bindings are moved.
    pub(crate) fn is_shaped_by_values(self, statement: &mut Statement) -> bool {
        let parameters = statement.parameters();
        let (Some(transfer), Some(expired)) = (self.api.transfer_bindings, self.api.expired) else {
            return true;
        };
        if parameters == 0 {
            return false;
        }
        let Ok(other) = self.prepare_parameters(parameters) else { return true };
        statement.reset();
        // SAFETY: both are statements of this connection, and alive.
        unsafe { transfer(statement.raw(), other.raw()) != SQLITE_OK || expired(statement.raw()) != 0 }
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

    /// Has SQLite checkpoint after a commit that leaves this many frames (`sqlite3_wal_autocheckpoint`).
    pub(crate) fn set_autocheckpoint(self, frames: c_int) {
        // SAFETY: the connection is alive.
        unsafe { (self.api.wal_autocheckpoint)(self.raw, frames) };
    }

    /// Busy timeout: SQLite tries a lock again every 100 us or so; its own handler sleeps a millisecond and more.
    pub(crate) fn set_busy_timeout(self, limit: Duration) {
        let naps = limit.as_micros() / NAP_TAKES.as_micros();
        // SAFETY: the connection is alive, and the handler takes its argument for a number.
        unsafe {
            (self.api.busy_handler)(self.raw, Some(nap), std::ptr::without_provenance_mut(naps as usize))
        };
    }

    /// Checkpoints the main database; answers SQLite's code.
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

/// An internal connection: neither counted among the application's nor captured. Dropping it closes it.
pub(crate) struct InternalConnection {
    connection: Connection,
}

impl InternalConnection {
    /// Opens the database at `path` through the VFS of that name.
    pub(crate) fn open(api: &'static Api, vfs: &str, path: &Path) -> Result<InternalConnection, String> {
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
        let internal = InternalConnection { connection: unsafe { Connection::new(api, raw) } };
        if code == SQLITE_OK { Ok(internal) } else { Err(internal.message()) }
    }
}

impl Deref for InternalConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for InternalConnection {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once; its statements end before it.
        unsafe { (self.api.close_v2)(self.raw) };
    }
}

//! A connection and a database for tests of capture: SQLite's functions answer what a test has set.

use crate::capture::{Capture, Host, SharedCapture, Subscription};
use crate::ffi::api::Api;
use crate::ffi::codes::{SQLITE_ERROR, SQLITE_OK};
use crate::ffi::connection::{Connection, InternalConnection};
use crate::ffi::statement::RunningStatement;
use crate::ffi::{Sqlite3, Sqlite3Stmt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

/// State of the connection and of its database.
pub(super) struct Fake {
    pub autocommit: bool,
    /// `sqlite3_txn_state`: 0 none, 1 reading, 2 writing.
    pub transaction: c_int,
    pub changes: c_int,
    pub accesses: c_int,
    /// Statements that are open although their start was not told.
    pub open: Vec<usize>,
    /// Called when capture prepares a helper statement.
    pub on_prepare: Option<Rc<dyn Fn()>>,
    pub generation: u64,
    pub schema: Option<u32>,
    pub may_read: bool,
    /// Calls of the database, by name.
    pub calls: Vec<&'static str>,
    /// By id: whether the statement is read-only, and has columns.
    pub statements: BTreeMap<usize, (bool, bool)>,
}

impl Default for Fake {
    fn default() -> Fake {
        Fake {
            autocommit: true,
            transaction: 0,
            changes: 0,
            accesses: 0,
            open: Vec::new(),
            on_prepare: None,
            generation: 1,
            schema: Some(1),
            may_read: false,
            calls: Vec::new(),
            statements: BTreeMap::new(),
        }
    }
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::default();
}

/// Changes or reads the state of this thread's connection.
pub(super) fn with<T>(action: impl FnOnce(&mut Fake) -> T) -> T {
    FAKE.with_borrow_mut(action)
}

/// The calls of the database since that was asked last.
pub(super) fn calls() -> Vec<&'static str> {
    with(|fake| std::mem::take(&mut fake.calls))
}

/// The database of this thread's connection.
#[derive(Default)]
pub(super) struct FakeHost(SharedCapture);

impl Host for FakeHost {
    fn is_of_this_process(&self) -> bool {
        true
    }
    fn log_generation(&self) -> u64 {
        with(|fake| fake.generation)
    }
    fn schema(&self) -> Option<u32> {
        with(|fake| fake.schema)
    }
    fn wait_durable(&self, _commit: u64) {
        with(|fake| fake.calls.push("wait"));
    }
    fn may_read(&self) -> bool {
        with(|fake| fake.may_read)
    }
    fn is_reserved(&self) -> bool {
        false
    }
    fn join_writer_queue(&self) {
        with(|fake| fake.calls.push("join"));
    }
    fn join_writer_queue_for(&self, _most: Duration) {
        with(|fake| fake.calls.push("join for"));
    }
    fn leave_writer_queue_unless_writing(&self) {
        with(|fake| fake.calls.push("leave"));
    }
    fn shared(&self) -> &SharedCapture {
        &self.0
    }
    fn open_internal(&self) -> Option<InternalConnection> {
        None
    }
}

unsafe extern "C" fn get_autocommit(_: *mut Sqlite3) -> c_int {
    with(|fake| c_int::from(fake.autocommit))
}
unsafe extern "C" fn txn_state(_: *mut Sqlite3, _: *const c_char) -> c_int {
    with(|fake| fake.transaction)
}
unsafe extern "C" fn total_changes(_: *mut Sqlite3) -> c_int {
    with(|fake| fake.changes)
}
unsafe extern "C" fn last_insert_rowid(_: *mut Sqlite3) -> i64 {
    0
}
unsafe extern "C" fn db_status(
    _: *mut Sqlite3,
    _: c_int,
    current: *mut c_int,
    _: *mut c_int,
    _: c_int,
) -> c_int {
    // SAFETY: capture passes two places.
    unsafe { *current = with(|fake| fake.accesses) };
    SQLITE_OK
}
unsafe extern "C" fn stmt_readonly(statement: *mut Sqlite3Stmt) -> c_int {
    with(|fake| c_int::from(fake.statements[&statement.addr()].0))
}
unsafe extern "C" fn column_count(statement: *mut Sqlite3Stmt) -> c_int {
    with(|fake| c_int::from(fake.statements[&statement.addr()].1))
}
unsafe extern "C" fn bind_parameter_count(_: *mut Sqlite3Stmt) -> c_int {
    0
}
unsafe extern "C" fn next_stmt(_: *mut Sqlite3, statement: *mut Sqlite3Stmt) -> *mut Sqlite3Stmt {
    let after = statement.addr();
    let next = with(|fake| fake.open.iter().copied().filter(|open| *open > after).min());
    ptr::without_provenance_mut(next.unwrap_or(0))
}
unsafe extern "C" fn stmt_busy(_: *mut Sqlite3Stmt) -> c_int {
    1
}
unsafe extern "C" fn prepare_v2(
    _: *mut Sqlite3,
    _: *const c_char,
    _: c_int,
    _: *mut *mut Sqlite3Stmt,
    _: *mut *const c_char,
) -> c_int {
    let on_prepare = with(|fake| fake.on_prepare.clone());
    if let Some(on_prepare) = on_prepare {
        on_prepare();
    }
    SQLITE_ERROR
}
unsafe extern "C" fn not_expected() {
    unreachable!("capture calls a function that the test has not");
}

fn function(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"sqlite3_get_autocommit" => get_autocommit as *const c_void,
        b"sqlite3_txn_state" => txn_state as *const c_void,
        b"sqlite3_total_changes" => total_changes as *const c_void,
        b"sqlite3_last_insert_rowid" => last_insert_rowid as *const c_void,
        b"sqlite3_db_status" => db_status as *const c_void,
        b"sqlite3_stmt_readonly" => stmt_readonly as *const c_void,
        b"sqlite3_column_count" => column_count as *const c_void,
        b"sqlite3_bind_parameter_count" => bind_parameter_count as *const c_void,
        b"sqlite3_next_stmt" => next_stmt as *const c_void,
        b"sqlite3_stmt_busy" => stmt_busy as *const c_void,
        b"sqlite3_prepare_v2" => prepare_v2 as *const c_void,
        _ => not_expected as *const c_void,
    }
}

/// A capture of this thread's connection, which has just been opened.
pub(super) fn capture() -> Capture<FakeHost> {
    static API: OnceLock<Api> = OnceLock::new();
    let api = API.get_or_init(|| {
        // SAFETY: each function has the type of SQLite's; `not_expected` never returns.
        unsafe { Api::from_symbols(function) }.expect("no function is missing")
    });
    // SAFETY: no function of this SQLite looks at the address.
    let connection = unsafe { Connection::new(api, ptr::null_mut()) };
    Capture::new(connection, FakeHost::default())
}

/// A statement of the application.
#[derive(Clone, Copy)]
pub(super) struct Sql {
    id: usize,
    text: &'static CStr,
}

/// Prepares a statement: queries are read-only and have columns, boundaries are read-only.
pub(super) fn sql(id: usize, text: &'static CStr) -> Sql {
    let starts = |words: &[&str]| words.iter().any(|word| text.to_string_lossy().starts_with(word));
    let (is_query, is_boundary) = (starts(&["SELECT"]), starts(&["BEGIN", "COMMIT", "PRAGMA"]));
    with(|fake| fake.statements.insert(id, (is_query || is_boundary, is_query)));
    Sql { id, text }
}

impl Sql {
    /// The statement inside a callback.
    pub fn running(self, capture: &Capture<FakeHost>) -> RunningStatement {
        // SAFETY: the fake functions know statements by their addresses only.
        unsafe { RunningStatement::new(capture.db().api(), ptr::without_provenance_mut(self.id)) }
    }

    /// SQLite tells of the start, as the trace hook does: the new subscription, and whether the recorder was passed by.
    pub fn start(self, capture: &Capture<FakeHost>) -> (Option<Subscription>, bool) {
        let running = self.running(capture);
        let text = self.text.as_ptr().cast();
        // SAFETY: the text ends with a zero.
        if unsafe { capture.skips(text) || capture.started_quickly(running, text) } {
            return (None, true);
        }
        (capture.started(running, self.text.to_bytes()), false)
    }

    /// SQLite tells of the end: whether the recorder was passed by.
    pub fn end(self, capture: &Capture<FakeHost>) -> bool {
        let running = self.running(capture);
        let quickly = capture.ended_quickly(running);
        if !quickly {
            capture.ended(running);
        }
        quickly
    }

    /// Both.
    pub fn run(self, capture: &Capture<FakeHost>) {
        self.start(capture);
        self.end(capture);
    }
}

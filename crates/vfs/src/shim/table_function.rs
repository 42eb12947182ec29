//! The callbacks of `sqlite3_module`: functions that return rows.
//!
//! A table-valued function is an eponymous virtual table: `f` in a FROM clause is the table `f`. It exists as long as
//! its connection, and nothing creates or writes it. Its parameters are hidden columns behind the others, in their order:
//! SQLite makes `f(1)` of `f WHERE first_hidden_column = 1`.
//!
//! # Invariants
//! 1. A [`TableObject`] begins with SQLite's `sqlite3_vtab`, a [`CursorObject`] with its `sqlite3_vtab_cursor`; both
//!    are boxes that only `disconnect` and `close` take back.
//! 2. SQLite closes all cursors of a table before it disconnects it, and calls both under the connection's mutex.

use crate::ffi::api::{Api, SQLITE_TRANSIENT};
use crate::ffi::codes::*;
use crate::ffi::statement::{Owned, Value};
use crate::ffi::{self, Sqlite3, Sqlite3Context, Sqlite3Value};
use crate::files::connection_state::ConnectionState;
use crate::files::snapshot::Snapshot;
use crate::shim::libraries::served;
use crate::shim::main_file::{connection_state_of, main_file};
use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result columns of a row; those that a function has beyond them are NULL.
pub(crate) type Row = Vec<Owned>;

/// Rows, one after the other; an error is the message of the statement that failed.
pub(crate) type Rows = Box<dyn FnMut() -> Result<Option<Row>, String>>;

/// A function that answers with rows. There is one for each connection.
pub(crate) trait TableFunction: Default {
    const NAME: &'static CStr;
    /// The result columns with their types.
    const COLUMNS: &'static [&'static str];
    /// The parameters, which are hidden columns; at most 31.
    const PARAMETERS: &'static [&'static str] = &[];

    /// The connection that it belongs to; called once, before everything else.
    fn connect(&mut self, _connection: Connection) {}

    /// Begins to answer. Each parameter has its argument, or `None` where the statement gives none.
    fn call(&mut self, arguments: &[Option<Owned>]) -> Result<Rows, String>;
}

/// The connection that a function belongs to.
pub(crate) struct Connection {
    api: Api,
    db: *mut Sqlite3,
}

impl Connection {
    /// The connection's main database, where it is ours.
    pub(crate) fn state(&self) -> Option<Arc<ConnectionState>> {
        // SAFETY: the function does not outlive its connection.
        unsafe { connection_state_of(&self.api, self.db) }
    }

    /// The connection for statements of our own; `None` where litefoot does not serve its library.
    pub(crate) fn handle(&self) -> Option<ffi::connection::Connection> {
        // SAFETY: as in `state`; the functions are those of the library.
        let own = unsafe { main_file(&self.api, self.db).map(|file| file.as_ref().api) };
        let api = own.or_else(|| served(&self.api))?;
        // SAFETY: the function does not outlive its connection, and neither do the rows of a call.
        Some(unsafe { ffi::connection::Connection::new(api, self.db) })
    }

    /// The pages that the transaction of the connection sees in its main database.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, &'static str> {
        // SAFETY: as in `state`. None of the file's methods runs: SQLite has called a function of a table. Nothing of the
        // file is borrowed when this ends, and SQLite is not called before.
        unsafe {
            let mut file = main_file(&self.api, self.db).ok_or("the database is not on litefoot")?;
            let file = file.as_mut();
            if file.is_inherited() {
                return Err("the connection is a parent process's");
            }
            file.handle.main().ok_or("the database is not on litefoot")?.snapshot()
        }
    }
}

/// Makes a function known to a connection.
///
/// # Safety
/// `db` is a connection of the library behind `api`.
pub(crate) unsafe fn register<F: TableFunction>(api: &Api, db: *mut Sqlite3) -> c_int {
    let module: &'static Module = &Methods::<F>::MODULE;
    let own_api = Box::into_raw(Box::new(*api)).cast();
    // SAFETY: the module lives for ever; SQLite calls the destructor once, also when this fails.
    unsafe {
        (api.create_module_v2)(db, F::NAME.as_ptr(), (&raw const *module).cast(), own_api, Some(drop_api))
    }
}

unsafe extern "C" fn drop_api(api: *mut c_void) {
    // SAFETY: the box that `register` leaked.
    drop(unsafe { Box::from_raw(api.cast::<Api>()) });
}

type Connect = unsafe extern "C" fn(
    *mut Sqlite3,
    *mut c_void,
    c_int,
    *const *const c_char,
    *mut *mut Vtab,
    *mut *mut c_char,
) -> c_int;
type OnTable = unsafe extern "C" fn(*mut Vtab) -> c_int;
type OnCursor = unsafe extern "C" fn(*mut Cursor) -> c_int;

/// `sqlite3_module`, version 1; what is null is for tables that can be created or written.
#[repr(C)]
struct Module {
    version: c_int,
    create: *const c_void,
    connect: Connect,
    best_index: unsafe extern "C" fn(*mut Vtab, *mut IndexInfo) -> c_int,
    disconnect: OnTable,
    destroy: *const c_void,
    open: unsafe extern "C" fn(*mut Vtab, *mut *mut Cursor) -> c_int,
    close: OnCursor,
    filter: unsafe extern "C" fn(*mut Cursor, c_int, *const c_char, c_int, *mut *mut Sqlite3Value) -> c_int,
    next: OnCursor,
    eof: OnCursor,
    column: unsafe extern "C" fn(*mut Cursor, *mut Sqlite3Context, c_int) -> c_int,
    rowid: unsafe extern "C" fn(*mut Cursor, *mut i64) -> c_int,
    for_writers: [*const c_void; 7],
}

// SAFETY: the table of functions is never written.
unsafe impl Sync for Module {}

/// `sqlite3_vtab`.
#[repr(C)]
struct Vtab {
    module: *const Module,
    references: c_int,
    message: *mut c_char,
}

/// `sqlite3_vtab_cursor`.
#[repr(C)]
struct Cursor {
    table: *mut Vtab,
}

/// `sqlite3_index_info`, up to what is written here.
#[repr(C)]
struct IndexInfo {
    constraint_count: c_int,
    constraints: *const Constraint,
    order_count: c_int,
    orders: *const c_void,
    usages: *mut Usage,
    index: c_int,
    index_text: *mut c_char,
    free_index_text: c_int,
    ordered: c_int,
    cost: c_double,
    rows: i64,
}

/// `sqlite3_index_constraint`.
#[repr(C)]
struct Constraint {
    column: c_int,
    operator: c_uchar,
    usable: c_uchar,
    term: c_int,
}

/// `sqlite3_index_constraint_usage`.
#[repr(C)]
struct Usage {
    argument: c_int,
    omit: c_uchar,
}

#[repr(C)]
struct TableObject<F> {
    header: Vtab,
    api: Api,
    function: F,
}

#[repr(C)]
struct CursorObject {
    header: Cursor,
    rows: Option<Rows>,
    row: Option<Row>,
    rowid: i64,
}

struct Methods<F>(std::marker::PhantomData<F>);

impl<F: TableFunction> Methods<F> {
    const MODULE: Module = Module {
        version: 1,
        create: std::ptr::null(),
        connect: connect::<F>,
        best_index: best_index::<F>,
        disconnect: disconnect::<F>,
        destroy: std::ptr::null(),
        open,
        close,
        filter: filter::<F>,
        next: next::<F>,
        eof,
        column: column::<F>,
        rowid,
        for_writers: [std::ptr::null(); 7],
    };
}

/// Runs a call behind the boundary; its error becomes the table's message.
fn guard<F>(
    table: &mut TableObject<F>,
    call: impl FnOnce(&mut TableObject<F>) -> Result<(), String>,
) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(|| call(table)));
    let text = match result {
        Ok(Ok(())) => return SQLITE_OK,
        Ok(Err(text)) => text,
        Err(_) => "internal error (please report it)".to_owned(),
    };
    // SAFETY: the message is null or was allocated below; SQLite frees the new one.
    unsafe { (table.api.free)(table.header.message.cast()) };
    table.header.message = table.api.allocate_text(&text);
    SQLITE_ERROR
}

unsafe extern "C" fn connect<F: TableFunction>(
    db: *mut Sqlite3,
    api: *mut c_void,
    _argc: c_int,
    _argv: *const *const c_char,
    table: *mut *mut Vtab,
    _message: *mut *mut c_char,
) -> c_int {
    // SAFETY: what `register` passed.
    let api = unsafe { *api.cast::<Api>() };
    let hidden = F::PARAMETERS.iter().map(|parameter| format!("{parameter} HIDDEN"));
    let columns: Vec<String> = F::COLUMNS.iter().map(|column| (*column).to_owned()).chain(hidden).collect();
    let Ok(declaration) = CString::new(format!("CREATE TABLE x({})", columns.join(", "))) else {
        return SQLITE_INTERNAL;
    };
    // SAFETY: called while SQLite connects this table, as both functions demand. A view or trigger of a
    // database that came from elsewhere must not read the process's figures.
    unsafe {
        (api.vtab_config)(db, SQLITE_VTAB_DIRECTONLY);
        match (api.declare_vtab)(db, declaration.as_ptr()) {
            SQLITE_OK => {}
            code => return code,
        }
    }
    let header = Vtab { module: std::ptr::null(), references: 0, message: std::ptr::null_mut() };
    let mut function = F::default();
    function.connect(Connection { api, db });
    let object = Box::new(TableObject { header, api, function });
    // SAFETY: SQLite provides room for the pointer.
    unsafe { *table = Box::into_raw(object).cast() };
    SQLITE_OK
}

unsafe extern "C" fn disconnect<F>(table: *mut Vtab) -> c_int {
    // SAFETY: the box that `connect` leaked (invariants 1 and 2).
    drop(unsafe { Box::from_raw(table.cast::<TableObject<F>>()) });
    SQLITE_OK
}

/// Passes on the arguments: a bit of the index for each parameter that has one.
unsafe extern "C" fn best_index<F: TableFunction>(_table: *mut Vtab, info: *mut IndexInfo) -> c_int {
    // SAFETY: SQLite's structure, for the duration of the call.
    let info = unsafe { &mut *info };
    (info.cost, info.rows) = (1000.0, 1000);
    let count = usize::try_from(info.constraint_count).unwrap_or(0);
    for parameter in 0..F::PARAMETERS.len() {
        for number in 0..count {
            // SAFETY: SQLite's arrays have as many elements.
            let (constraint, usage) =
                unsafe { (&*info.constraints.add(number), &mut *info.usages.add(number)) };
            let column = F::COLUMNS.len() + parameter;
            let is_argument =
                constraint.column == column as c_int && constraint.operator == SQLITE_INDEX_CONSTRAINT_EQ;
            if !is_argument || info.index >> parameter & 1 != 0 {
                continue;
            }
            // It may be known in another order of the tables only.
            if constraint.usable == 0 {
                return SQLITE_CONSTRAINT;
            }
            info.index |= 1 << parameter;
            (usage.argument, usage.omit) = (info.index.count_ones() as c_int, 1);
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn open(_table: *mut Vtab, cursor: *mut *mut Cursor) -> c_int {
    let header = Cursor { table: std::ptr::null_mut() };
    let object = CursorObject { header, rows: None, row: None, rowid: 0 };
    // SAFETY: SQLite provides room for the pointer, and sets the table.
    unsafe { *cursor = Box::into_raw(Box::new(object)).cast() };
    SQLITE_OK
}

unsafe extern "C" fn close(cursor: *mut Cursor) -> c_int {
    // SAFETY: the box that `open` leaked (invariant 1).
    drop(unsafe { Box::from_raw(cursor.cast::<CursorObject>()) });
    SQLITE_OK
}

/// The two objects behind a cursor.
///
/// # Safety
/// `cursor` is an open cursor of a table of this function.
unsafe fn objects<'a, F>(cursor: *mut Cursor) -> (&'a mut CursorObject, &'a mut TableObject<F>) {
    // SAFETY: invariant 1; SQLite makes one call at a time.
    unsafe {
        let cursor = &mut *cursor.cast::<CursorObject>();
        let table = &mut *cursor.header.table.cast::<TableObject<F>>();
        (cursor, table)
    }
}

unsafe extern "C" fn filter<F: TableFunction>(
    cursor: *mut Cursor,
    index: c_int,
    _index_text: *const c_char,
    argc: c_int,
    argv: *mut *mut Sqlite3Value,
) -> c_int {
    // SAFETY: by contract of xFilter.
    let (cursor, table) = unsafe { objects::<F>(cursor) };
    (cursor.rows, cursor.row, cursor.rowid) = (None, None, 0);
    guard(table, |table| {
        let mut given = (0..argc).map(|number| {
            // SAFETY: SQLite passes as many values, which live during the call.
            unsafe { argument(&table.api, *argv.offset(number as isize)) }
        });
        let of = |parameter| if index >> parameter & 1 != 0 { given.next() } else { None };
        let arguments: Vec<Option<Owned>> = (0..F::PARAMETERS.len()).map(of).collect();
        advance(cursor, table.function.call(&arguments)?)
    })
}

/// A copy of a value.
///
/// # Safety
/// The value is SQLite's, and alive.
unsafe fn argument(api: &Api, value: *mut Sqlite3Value) -> Owned {
    // SAFETY: by contract; pointer and length belong together (pointer first), until the next conversion.
    unsafe {
        let bytes = |pointer: *const u8| {
            let len = usize::try_from((api.value_bytes)(value)).unwrap_or(0);
            if pointer.is_null() { Vec::new() } else { std::slice::from_raw_parts(pointer, len).to_vec() }
        };
        match (api.value_type)(value) {
            SQLITE_INTEGER => Owned::Integer((api.value_int64)(value)),
            SQLITE_FLOAT => Owned::Real((api.value_double)(value)),
            SQLITE_TEXT => Owned::Text(bytes((api.value_text)(value))),
            SQLITE_BLOB => Owned::Blob(bytes((api.value_blob)(value).cast())),
            _ => Owned::Null,
        }
    }
}

fn advance(cursor: &mut CursorObject, mut rows: Rows) -> Result<(), String> {
    cursor.row = rows()?;
    cursor.rowid += 1;
    cursor.rows = cursor.row.is_some().then_some(rows);
    Ok(())
}

unsafe extern "C" fn next<F>(cursor: *mut Cursor) -> c_int {
    // SAFETY: by contract of xNext.
    let (cursor, table) = unsafe { objects::<F>(cursor) };
    cursor.row = None;
    guard(table, |_| match cursor.rows.take() {
        Some(rows) => advance(cursor, rows),
        None => Ok(()),
    })
}

unsafe extern "C" fn eof(cursor: *mut Cursor) -> c_int {
    // SAFETY: an open cursor of ours.
    let cursor = unsafe { &*cursor.cast::<CursorObject>() };
    c_int::from(cursor.row.is_none())
}

unsafe extern "C" fn column<F: TableFunction>(
    cursor: *mut Cursor,
    context: *mut Sqlite3Context,
    column: c_int,
) -> c_int {
    // SAFETY: by contract of xColumn.
    let (cursor, table) = unsafe { objects::<F>(cursor) };
    let api = &table.api;
    let value =
        cursor.row.as_ref().zip(usize::try_from(column).ok()).and_then(|(row, column)| row.get(column));
    let value = value.map_or(Value::Null, Owned::as_value);
    // SAFETY: the context is valid for the call; bytes are copied before it returns.
    unsafe {
        match value {
            Value::Null => (api.result_null)(context),
            Value::Integer(number) => (api.result_int64)(context, number),
            Value::Real(number) => (api.result_double)(context, number),
            Value::Text(text) => {
                (api.result_text)(context, text.as_ptr().cast(), text.len() as c_int, SQLITE_TRANSIENT);
            }
            Value::Blob(blob) => {
                (api.result_blob)(context, blob.as_ptr().cast(), blob.len() as c_int, SQLITE_TRANSIENT);
            }
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn rowid(cursor: *mut Cursor, rowid: *mut i64) -> c_int {
    // SAFETY: an open cursor of ours, and room for the number.
    unsafe { *rowid = (*cursor.cast::<CursorObject>()).rowid };
    SQLITE_OK
}

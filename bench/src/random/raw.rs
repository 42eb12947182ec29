//! A connection by SQLite's own interface: what a statement does to the last detail, as text.

use rusqlite::ffi;
use std::ffi::{CStr, CString, c_int};
use std::fmt::Write as _;
use std::ptr::null_mut;

/// A value that is bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    ZeroBlob(u32),
}

/// Most bytes kept of a row; the rest counts by its checksum only.
const SHOWN: usize = 200;

/// A connection, and the statements that are under way on it.
pub struct Db {
    raw: *mut ffi::sqlite3,
    cursors: Vec<*mut ffi::sqlite3_stmt>,
}

impl Db {
    /// Opens a database.
    ///
    /// # Errors
    /// SQLite's message.
    pub fn open(name: &str, vfs: &str) -> Result<Db, String> {
        let (name, vfs) = (c_string(name)?, c_string(vfs)?);
        let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_URI;
        let mut db = Db { raw: null_mut(), cursors: Vec::new() };
        // SAFETY: the names end with NUL; SQLite sets the handle, on failure, too.
        let code = unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &raw mut db.raw, flags, vfs.as_ptr()) };
        if code != ffi::SQLITE_OK {
            return Err(format!("open: {code} {}", db.message()));
        }
        // SAFETY: the handle is open.
        unsafe { ffi::sqlite3_extended_result_codes(db.raw, 1) };
        Ok(db)
    }

    fn message(&self) -> String {
        // SAFETY: SQLite answers for every handle, null included, with a text that lives until the next call.
        unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.raw)) }.to_string_lossy().into_owned()
    }

    /// Runs a statement to its end; rows, code, message and all counters as text.
    pub fn run(&mut self, sql: &str, values: &[Value]) -> String {
        let mut rows = Rows::default();
        let code = match self.prepare(sql, values) {
            Ok(statement) => {
                let stepped = loop {
                    // SAFETY: the statement is prepared and not finalized.
                    match unsafe { ffi::sqlite3_step(statement) } {
                        ffi::SQLITE_ROW => rows.add(statement),
                        code => break code,
                    }
                };
                // SAFETY: the statement is not used again.
                let finalized = unsafe { ffi::sqlite3_finalize(statement) };
                if stepped == ffi::SQLITE_DONE { finalized } else { stepped }
            }
            Err(code) => code,
        };
        self.outcome(code, &rows)
    }

    /// Rows of a query, each as text.
    ///
    /// # Errors
    /// SQLite's message.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let failed = |db: &Db, code: c_int| format!("{sql}: {code} {}", db.message());
        let statement = self.prepare(sql, &[]).map_err(|code| failed(self, code))?;
        let mut rows = Vec::new();
        let code = loop {
            // SAFETY: the statement is prepared and not finalized.
            match unsafe { ffi::sqlite3_step(statement) } {
                ffi::SQLITE_ROW => rows.push(row(statement)),
                code => break code,
            }
        };
        let result = if code == ffi::SQLITE_DONE { Ok(rows) } else { Err(failed(self, code)) };
        // SAFETY: the statement is not used again.
        unsafe { ffi::sqlite3_finalize(statement) };
        result
    }

    /// Begins a statement, takes one row, and leaves it under way.
    pub fn begin(&mut self, sql: &str) -> String {
        let mut rows = Rows::default();
        let code = match self.prepare(sql, &[]) {
            Ok(statement) => {
                self.cursors.push(statement);
                // SAFETY: the statement is prepared and not finalized.
                match unsafe { ffi::sqlite3_step(statement) } {
                    ffi::SQLITE_ROW => {
                        rows.add(statement);
                        ffi::SQLITE_OK
                    }
                    ffi::SQLITE_DONE => ffi::SQLITE_OK,
                    code => code,
                }
            }
            Err(code) => code,
        };
        self.outcome(code, &rows)
    }

    /// Gives up what is under way.
    pub fn end(&mut self) -> String {
        for statement in self.cursors.drain(..) {
            // SAFETY: each was prepared here and is finalized once.
            unsafe { ffi::sqlite3_finalize(statement) };
        }
        self.outcome(ffi::SQLITE_OK, &Rows::default())
    }

    /// Gives up the pages in the connection's cache, as far as nothing uses them.
    pub fn forget_pages(&mut self) {
        // SAFETY: the handle is open.
        unsafe { ffi::sqlite3_db_release_memory(self.raw) };
    }

    /// Writes over the beginning of a value in place.
    pub fn write_blob(&mut self, table: &CStr, column: &CStr, id: i64, bytes: &[u8]) -> String {
        let mut blob = null_mut();
        // SAFETY: the names end with NUL; SQLite sets the handle, to null on failure.
        let mut code = unsafe {
            let main = c"main".as_ptr();
            ffi::sqlite3_blob_open(self.raw, main, table.as_ptr(), column.as_ptr(), id, 1, &raw mut blob)
        };
        if code == ffi::SQLITE_OK {
            // SAFETY: the handle is open, and closed once.
            code = unsafe {
                let len = ffi::sqlite3_blob_bytes(blob).min(bytes.len() as c_int);
                let written = ffi::sqlite3_blob_write(blob, bytes.as_ptr().cast(), len, 0);
                let closed = ffi::sqlite3_blob_close(blob);
                if written == ffi::SQLITE_OK { closed } else { written }
            };
        }
        self.outcome(code, &Rows::default())
    }

    fn prepare(&self, sql: &str, values: &[Value]) -> Result<*mut ffi::sqlite3_stmt, c_int> {
        let mut statement = null_mut();
        let len = sql.len() as c_int;
        // SAFETY: text and length belong together; SQLite sets the handle.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(self.raw, sql.as_ptr().cast(), len, &raw mut statement, null_mut())
        };
        if code != ffi::SQLITE_OK {
            return Err(code);
        }
        for (index, value) in (1..).zip(values) {
            bind(statement, index, value);
        }
        Ok(statement)
    }

    fn outcome(&self, code: c_int, rows: &Rows) -> String {
        let message = if code == ffi::SQLITE_OK { String::new() } else { self.message() };
        // SAFETY: the handle is open.
        let (changes, total, last, automatic) = unsafe {
            (
                ffi::sqlite3_changes64(self.raw),
                ffi::sqlite3_total_changes64(self.raw),
                ffi::sqlite3_last_insert_rowid(self.raw),
                ffi::sqlite3_get_autocommit(self.raw),
            )
        };
        format!(
            "{} rows {} sum {:x}; {code} {message}; changes {changes} of {total}, last {last}, autocommit {automatic}",
            rows.count, rows.text, rows.sum
        )
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.end();
        // SAFETY: nothing of the connection is under way; it is not used again.
        unsafe { ffi::sqlite3_close(self.raw) };
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

fn bind(statement: *mut ffi::sqlite3_stmt, index: c_int, value: &Value) {
    // SAFETY: the statement is prepared; SQLite copies what is bound (TRANSIENT).
    unsafe {
        match value {
            Value::Null => ffi::sqlite3_bind_null(statement, index),
            Value::Int(value) => ffi::sqlite3_bind_int64(statement, index, *value),
            Value::Real(value) => ffi::sqlite3_bind_double(statement, index, *value),
            Value::Text(text) => {
                let (bytes, len) = (text.as_ptr().cast(), text.len() as c_int);
                ffi::sqlite3_bind_text(statement, index, bytes, len, ffi::SQLITE_TRANSIENT())
            }
            Value::Blob(blob) => {
                // A null pointer would be NULL, not an empty blob.
                let bytes = if blob.is_empty() { c"".as_ptr().cast() } else { blob.as_ptr().cast() };
                ffi::sqlite3_bind_blob(statement, index, bytes, blob.len() as c_int, ffi::SQLITE_TRANSIENT())
            }
            Value::ZeroBlob(len) => ffi::sqlite3_bind_zeroblob(statement, index, *len as c_int),
        }
    };
}

/// Rows that came of a statement.
#[derive(Default)]
struct Rows {
    count: usize,
    /// The beginning of the first.
    text: String,
    /// Of all of them (FNV-1a).
    sum: u64,
}

impl Rows {
    fn add(&mut self, statement: *mut ffi::sqlite3_stmt) {
        let text = row(statement);
        for byte in text.bytes() {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.count == 0 {
            self.text = text.chars().take(SHOWN).collect();
        }
        self.count += 1;
    }
}

/// The row a statement is at, with the types of its values.
fn row(statement: *mut ffi::sqlite3_stmt) -> String {
    let mut text = String::new();
    // SAFETY: the statement is at a row.
    let columns = unsafe { ffi::sqlite3_column_count(statement) };
    for column in 0..columns {
        if column > 0 {
            text.push('|');
        }
        // SAFETY: the statement is at a row that has this column; the bytes live until the next step.
        unsafe {
            let _ = match ffi::sqlite3_column_type(statement, column) {
                ffi::SQLITE_NULL => write!(text, "NULL"),
                ffi::SQLITE_INTEGER => write!(text, "{}", ffi::sqlite3_column_int64(statement, column)),
                ffi::SQLITE_FLOAT => write!(text, "{:?}", ffi::sqlite3_column_double(statement, column)),
                kind => {
                    // As UTF-8, whatever the database's encoding.
                    let bytes: *const u8 = match kind {
                        ffi::SQLITE_TEXT => ffi::sqlite3_column_text(statement, column),
                        _ => ffi::sqlite3_column_blob(statement, column).cast(),
                    };
                    let len = ffi::sqlite3_column_bytes(statement, column) as usize;
                    let bytes = if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes, len) };
                    match std::str::from_utf8(bytes) {
                        Ok(known) if kind == ffi::SQLITE_TEXT => write!(text, "{known:?}"),
                        _ => write!(text, "x'{}'", bytes.escape_ascii()),
                    }
                }
            };
        }
    }
    text
}

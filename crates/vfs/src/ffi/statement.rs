//! Statements of this crate, and the application's statement inside a callback.
//!
//! SQLite finalizes nothing by itself: a [`Statement`] does so when it is dropped. A [`RunningStatement`] belongs to the
//! application and lives as long as the callback that was given it.

use crate::ffi::Sqlite3Stmt;
use crate::ffi::api::{Api, Destructor, SQLITE_TRANSIENT};
use crate::ffi::codes::*;
use std::ffi::{c_int, c_void};

const SQLITE_UTF8: u8 = 1;
/// Bytes at the beginning of a text, enough for the first word behind a short comment.
const TEXT_BEGIN: usize = 128;
/// The null destructor: SQLite neither copies the value nor frees it.
const SQLITE_STATIC: Destructor = std::ptr::null();

/// A value of a column or of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// A value that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Owned {
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            Owned::Null => Value::Null,
            Owned::Integer(number) => Value::Integer(*number),
            Owned::Real(number) => Value::Real(*number),
            Owned::Text(bytes) => Value::Text(bytes),
            Owned::Blob(bytes) => Value::Blob(bytes),
        }
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let own = match self {
            Owned::Text(bytes) | Owned::Blob(bytes) => bytes.capacity(),
            _ => 0,
        };
        size_of::<Owned>() + own
    }
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Owned {
        match value {
            Value::Null => Owned::Null,
            Value::Integer(number) => Owned::Integer(number),
            Value::Real(number) => Owned::Real(number),
            Value::Text(bytes) => Owned::Text(bytes.to_vec()),
            Value::Blob(bytes) => Owned::Blob(bytes.to_vec()),
        }
    }
}

/// A statement that this crate has prepared; dropping it finalizes it.
pub(crate) struct Statement {
    api: &'static Api,
    raw: *mut Sqlite3Stmt,
}

// SAFETY: SQLite serialises the statements of a connection by its mutex; without one, only the calling thread uses them.
unsafe impl Send for Statement {}

impl Statement {
    /// # Safety
    /// The statement was prepared by the library behind `api`, its connection outlives it, and nobody else finalizes it.
    pub(crate) unsafe fn new(api: &'static Api, raw: *mut Sqlite3Stmt) -> Statement {
        Statement { api, raw }
    }

    /// The statement as SQLite has it.
    pub(crate) fn raw(&self) -> *mut Sqlite3Stmt {
        self.raw
    }

    /// The number of its parameters.
    pub(crate) fn parameters(&self) -> usize {
        // SAFETY: the statement is alive until `drop`.
        usize::try_from(unsafe { (self.api.bind_parameter_count)(self.raw) }).unwrap_or(0)
    }

    /// Runs one step; answers SQLite's code.
    pub(crate) fn step(&mut self) -> c_int {
        // SAFETY: the statement is alive until `drop`.
        unsafe { (self.api.step)(self.raw) }
    }

    /// Returns to the beginning.
    pub(crate) fn reset(&mut self) {
        // SAFETY: as above.
        unsafe { (self.api.reset)(self.raw) };
    }

    /// The number of columns of a row.
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

    /// Binds a value without a copy; parameters count from 1.
    ///
    /// # Safety
    /// The bytes of text and blobs outlive the binding.
    pub(crate) unsafe fn bind(&mut self, parameter: c_int, value: Value<'_>) -> c_int {
        // SAFETY: by contract the bytes live long enough.
        unsafe { self.bind_with(parameter, value, SQLITE_STATIC) }
    }

    /// Binds a copy of a value; parameters count from 1.
    pub(crate) fn bind_copied(&mut self, parameter: c_int, value: Value<'_>) -> c_int {
        // SAFETY: SQLite copies the bytes at once.
        unsafe { self.bind_with(parameter, value, SQLITE_TRANSIENT) }
    }

    /// # Safety
    /// The bytes live as long as the destructor says.
    unsafe fn bind_with(&mut self, parameter: c_int, value: Value<'_>, destructor: Destructor) -> c_int {
        // SAFETY: by contract.
        unsafe {
            match value {
                Value::Null => (self.api.bind_null)(self.raw, parameter),
                Value::Integer(number) => (self.api.bind_int64)(self.raw, parameter, number),
                Value::Real(number) => (self.api.bind_double)(self.raw, parameter, number),
                Value::Text(bytes) => {
                    let (text, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    (self.api.bind_text64)(self.raw, parameter, text, len, destructor, SQLITE_UTF8)
                }
                Value::Blob(bytes) => {
                    let (blob, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    (self.api.bind_blob64)(self.raw, parameter, blob, len, destructor)
                }
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

/// A statement of the application, inside a callback that SQLite made for it.
#[derive(Clone, Copy)]
pub(crate) struct RunningStatement {
    api: &'static Api,
    raw: *mut Sqlite3Stmt,
}

impl RunningStatement {
    /// # Safety
    /// SQLite has passed the statement to the callback that is running.
    pub(crate) unsafe fn new(api: &'static Api, raw: *mut c_void) -> RunningStatement {
        RunningStatement { api, raw: raw.cast() }
    }

    /// A number that differs among the live statements of a connection.
    pub(crate) fn id(self) -> usize {
        self.raw as usize
    }

    /// True for a statement that writes nothing, in SQLite's own judgement.
    pub(crate) fn is_read_only(self) -> bool {
        // SAFETY: by the contract of `new`.
        unsafe { (self.api.stmt_readonly)(self.raw) != 0 }
    }

    /// True for a statement that returns rows.
    pub(crate) fn has_columns(self) -> bool {
        // SAFETY: by the contract of `new`.
        unsafe { (self.api.column_count)(self.raw) > 0 }
    }

    /// The beginning of its text.
    pub(crate) fn text_begin<'a>(self) -> &'a [u8] {
        // SAFETY: by the contract of `new`; SQLite keeps the text as long as the statement.
        unsafe {
            let text = (self.api.sql)(self.raw).cast::<u8>();
            if text.is_null() {
                return &[];
            }
            let len = (0..TEXT_BEGIN).take_while(|at| *text.add(*at) != 0).count();
            std::slice::from_raw_parts(text, len)
        }
    }

    /// The number of its parameters.
    pub(crate) fn parameters(self) -> usize {
        // SAFETY: by the contract of `new`.
        usize::try_from(unsafe { (self.api.bind_parameter_count)(self.raw) }).unwrap_or(0)
    }

    /// Moves its bindings to `helper`, which selects as many parameters, and back again.
    ///
    /// `read` gets the helper standing on its one row. Answers `false` where SQLite refuses a move.
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

//! A connection of ours for SQL that others wrote: what it may do.
//!
//! # Why
//! A statement log is a file beside a database, and anybody may have put it there. Replaying it must do no more than change
//! rows of that database, whatever it says.
//!
//! # What it promises
//! 1. SQL that is compiled between [`Confined::new`] and `drop`, but for that in [`Confined::freely`], reads and changes
//!    rows of the main database's own tables. It calls no function, by whatever name, and opens no other file. Anything
//!    else does not compile, and [`Confined::denied`] says what that was.
//! 2. What runs is interrupted once the budget of instructions is used up.
//! 3. The schema is not trusted, and cannot be written as data.

use crate::ffi::codes::SQLITE_OK;
use crate::ffi::connection::{Db, OwnConnection};
use litefoot_engine::sync::Mutex;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// SQLite's numbers of what is to be authorized.
pub(crate) const SQLITE_CREATE_TEMP_INDEX: c_int = 3;
pub(crate) const SQLITE_CREATE_TEMP_VIEW: c_int = 6;
const SQLITE_DELETE: c_int = 9;
const SQLITE_INSERT: c_int = 18;
pub(crate) const SQLITE_PRAGMA: c_int = 19;
const SQLITE_READ: c_int = 20;
const SQLITE_SELECT: c_int = 21;
const SQLITE_UPDATE: c_int = 23;
pub(crate) const SQLITE_FUNCTION: c_int = 31;
const SQLITE_SAVEPOINT: c_int = 32;
const SQLITE_RECURSIVE: c_int = 33;
const SQLITE_DENY: c_int = 1;

const SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: c_int = 1005;
const SQLITE_DBCONFIG_DEFENSIVE: c_int = 1010;
const SQLITE_DBCONFIG_TRUSTED_SCHEMA: c_int = 1017;

const SQLITE_LIMIT_VDBE_OP: c_int = 5;
const SQLITE_LIMIT_ATTACHED: c_int = 7;
const SQLITE_LIMIT_WORKER_THREADS: c_int = 11;

/// Most instructions of one statement's program.
const MOST_INSTRUCTIONS: c_int = 1_000_000;
/// Instructions between two looks at the budget.
const STEP: c_int = 1000;

/// What was not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// SQLite's number of the action.
    pub action: c_int,
    /// The name of a function; of anything else, the database that it is about.
    pub name: String,
}

struct Context {
    free: AtomicBool,
    denied: Mutex<Option<Denied>>,
    budget: AtomicI64,
}

/// A connection of ours that may do little.
pub(crate) struct Confined {
    connection: OwnConnection,
    /// What its callbacks are given; it goes after the connection.
    context: Box<Context>,
}

impl Confined {
    /// Confines a connection; `None` where this SQLite was built without what that takes.
    pub fn new(connection: OwnConnection) -> Option<Confined> {
        let db = connection.db();
        let (api, raw) = (db.api(), db.raw());
        let (set_authorizer, set_progress) = (api.set_authorizer?, api.progress_handler?);
        let context = Box::new(Context {
            free: AtomicBool::new(false),
            denied: Mutex::default(),
            budget: AtomicI64::new(i64::MAX),
        });
        let pointer = (&raw const *context).cast_mut().cast::<c_void>();
        db.set_flag(SQLITE_DBCONFIG_DEFENSIVE, true);
        db.set_flag(SQLITE_DBCONFIG_TRUSTED_SCHEMA, false);
        db.set_flag(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, false);
        // SAFETY: the connection is alive, and the context outlives it.
        unsafe {
            (api.limit)(raw, SQLITE_LIMIT_ATTACHED, 0);
            (api.limit)(raw, SQLITE_LIMIT_WORKER_THREADS, 0);
            (api.limit)(raw, SQLITE_LIMIT_VDBE_OP, MOST_INSTRUCTIONS);
            set_progress(raw, STEP, Some(spend), pointer);
            if set_authorizer(raw, Some(authorize), pointer) != SQLITE_OK {
                return None;
            }
        }
        Some(Confined { connection, context })
    }

    /// The connection, while this lives.
    pub fn db(&self) -> Db {
        self.connection.db()
    }

    /// Does something of ours, whatever it is.
    pub fn freely<T>(&self, what: impl FnOnce(Db) -> T) -> T {
        self.context.free.store(true, Ordering::Relaxed);
        let result = what(self.db());
        self.context.free.store(false, Ordering::Relaxed);
        result
    }

    /// What was denied since it was asked last.
    pub fn denied(&self) -> Option<Denied> {
        self.context.denied.lock().take()
    }

    /// So many instructions may run from now on.
    pub fn set_budget(&self, instructions: i64) {
        self.context.budget.store(instructions, Ordering::Relaxed);
    }
}

/// Whether SQLite may compile something.
unsafe extern "C" fn authorize(
    context: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    _source: *const c_char,
) -> c_int {
    // SAFETY: `Confined::new` has passed the context; SQLite's arguments are texts or null.
    let (context, first, second, database) =
        unsafe { (&*context.cast::<Context>(), text(first), text(second), text(database)) };
    if context.free.load(Ordering::Relaxed) {
        return SQLITE_OK;
    }
    let allowed = match action {
        SQLITE_SELECT | SQLITE_RECURSIVE | SQLITE_SAVEPOINT => true,
        SQLITE_READ => database == b"main",
        SQLITE_INSERT | SQLITE_UPDATE | SQLITE_DELETE => {
            let is_own = first.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"sqlite_"));
            database == b"main" && !is_own
        }
        _ => false,
    };
    if allowed {
        return SQLITE_OK;
    }
    let name = if action == SQLITE_FUNCTION { second } else { database };
    let denied = Denied { action, name: String::from_utf8_lossy(name).into_owned() };
    context.denied.lock().get_or_insert(denied);
    SQLITE_DENY
}

/// Some instructions have run: whether it is enough.
unsafe extern "C" fn spend(context: *mut c_void) -> c_int {
    // SAFETY: `Confined::new` has passed the context.
    let context = unsafe { &*context.cast::<Context>() };
    let left = context.budget.fetch_sub(STEP.into(), Ordering::Relaxed);
    c_int::from(left <= 0 && !context.free.load(Ordering::Relaxed))
}

/// # Safety
/// `pointer` is null or a text that ends with a zero and lives for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> &'a [u8] {
    // SAFETY: by contract.
    if pointer.is_null() { &[] } else { unsafe { CStr::from_ptr(pointer) }.to_bytes() }
}

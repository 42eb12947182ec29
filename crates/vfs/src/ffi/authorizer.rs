//! Confined connections: internal connections that run SQL of unknown origin.
//!
//! # Why
//! A statement log is a file beside a database, and anybody may have put it there. Replay must do no more than change
//! rows of that database, whatever the log says.
//!
//! # Promises
//! 1. SQL that is compiled after [`ConfinedConnection::new`], outside [`ConfinedConnection::freely`], reads and changes
//!    rows of the main database's own tables only. It calls no function and opens no other file. Anything else does not
//!    compile, and [`ConfinedConnection::denied`] says what that was.
//! 2. A statement is interrupted once the budget of instructions is used up.
//! 3. The schema is not trusted, and cannot be written as data.

use crate::ffi::codes::SQLITE_OK;
use crate::ffi::connection::{Connection, InternalConnection};
use litefoot_storage::sync::Mutex;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Numbers of the actions that SQLite asks an authorizer about (`sqlite3.h`).
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

/// The limit of instructions in one statement's program.
const MOST_INSTRUCTIONS: c_int = 1_000_000;
/// Instructions between two checks of the budget.
const STEP: c_int = 1000;

/// An action that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// SQLite's number of the action.
    pub action: c_int,
    /// The name of the function; for any other action, the name of its database.
    pub name: String,
}

/// The state that the callbacks share with the connection.
struct Context {
    free: AtomicBool,
    denied: Mutex<Option<Denied>>,
    budget: AtomicI64,
}

/// An internal connection that may change rows of the main database and nothing else.
pub(crate) struct ConfinedConnection {
    connection: InternalConnection,
    /// Given to the callbacks; dropped after the connection.
    context: Box<Context>,
}

impl ConfinedConnection {
    /// Confines a connection; `None` where this SQLite was built without what that takes.
    pub fn new(connection: InternalConnection) -> Option<ConfinedConnection> {
        let (api, raw) = (connection.api(), connection.raw());
        let (set_authorizer, set_progress) = (api.set_authorizer?, api.progress_handler?);
        let context = Box::new(Context {
            free: AtomicBool::new(false),
            denied: Mutex::default(),
            budget: AtomicI64::new(i64::MAX),
        });
        let pointer = (&raw const *context).cast_mut().cast::<c_void>();
        connection.set_flag(SQLITE_DBCONFIG_DEFENSIVE, true);
        connection.set_flag(SQLITE_DBCONFIG_TRUSTED_SCHEMA, false);
        connection.set_flag(SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, false);
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
        Some(ConfinedConnection { connection, context })
    }

    /// Runs `what` without the limits, for SQL of this crate.
    pub fn freely<T>(&self, what: impl FnOnce(Connection) -> T) -> T {
        self.context.free.store(true, Ordering::Relaxed);
        let result = what(**self);
        self.context.free.store(false, Ordering::Relaxed);
        result
    }

    /// The first refused action since the last call.
    pub fn denied(&self) -> Option<Denied> {
        self.context.denied.lock().take()
    }

    /// Allows this many instructions from now on.
    pub fn set_budget(&self, instructions: i64) {
        self.context.budget.store(instructions, Ordering::Relaxed);
    }
}

impl Deref for ConfinedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Authorizer: allows reads and changes of rows in the main database.
unsafe extern "C" fn authorize(
    context: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    _source: *const c_char,
) -> c_int {
    // SAFETY: `ConfinedConnection::new` has passed the context; SQLite's arguments are texts or null.
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

/// Progress handler: interrupts the statement when the budget is used up.
unsafe extern "C" fn spend(context: *mut c_void) -> c_int {
    // SAFETY: `ConfinedConnection::new` has passed the context.
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

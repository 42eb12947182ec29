//! Confined connections: internal connections that run SQL of unknown origin.
//!
//! # Why
//! A commit log is a file beside a database, and anybody may have put it there. Replay must do no more than change
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
use std::panic::{AssertUnwindSafe, catch_unwind};
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

impl Context {
    /// SQLite's number of the answer: whether the action may be compiled.
    fn answer(&self, action: c_int, first: &[u8], second: &[u8], database: &[u8]) -> c_int {
        if self.free.load(Ordering::Relaxed) || is_allowed(action, first, database) {
            return SQLITE_OK;
        }
        let name = if action == SQLITE_FUNCTION { second } else { database };
        let denied = Denied { action, name: String::from_utf8_lossy(name).into_owned() };
        self.denied.lock().get_or_insert(denied);
        SQLITE_DENY
    }

    /// Counts a step of instructions; whether the budget is used up.
    fn is_spent(&self) -> bool {
        let left = self.budget.fetch_sub(STEP.into(), Ordering::Relaxed);
        left <= 0 && !self.free.load(Ordering::Relaxed)
    }
}

/// True if an action reads or changes rows of the main database's own tables, and nothing else.
fn is_allowed(action: c_int, first: &[u8], database: &[u8]) -> bool {
    match action {
        SQLITE_SELECT | SQLITE_RECURSIVE | SQLITE_SAVEPOINT => true,
        SQLITE_READ => database == b"main",
        SQLITE_INSERT | SQLITE_UPDATE | SQLITE_DELETE => {
            let is_own = first.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"sqlite_"));
            database == b"main" && !is_own
        }
        _ => false,
    }
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
    // After a panic nothing more is allowed than before.
    catch_unwind(AssertUnwindSafe(|| context.answer(action, first, second, database))).unwrap_or(SQLITE_DENY)
}

/// Progress handler: interrupts the statement when the budget is used up.
unsafe extern "C" fn spend(context: *mut c_void) -> c_int {
    // SAFETY: `ConfinedConnection::new` has passed the context.
    let context = unsafe { &*context.cast::<Context>() };
    catch_unwind(AssertUnwindSafe(|| c_int::from(context.is_spent()))).unwrap_or(1)
}

/// # Safety
/// `pointer` is null or a text that ends with a zero and lives for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> &'a [u8] {
    // SAFETY: by contract.
    if pointer.is_null() { &[] } else { unsafe { CStr::from_ptr(pointer) }.to_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_the_main_database_are_allowed() {
        const ATTACH: c_int = 24;
        for (action, first, second, database, allowed, name) in [
            (SQLITE_SELECT, "", "", "", true, ""),
            (SQLITE_READ, "t", "a", "main", true, ""),
            (SQLITE_READ, "t", "a", "temp", false, "temp"),
            (SQLITE_INSERT, "t", "", "main", true, ""),
            (SQLITE_UPDATE, "SQLITE_schema", "", "main", false, "main"),
            (SQLITE_DELETE, "sqlite_sequence", "", "main", false, "main"),
            (SQLITE_FUNCTION, "", "random", "", false, "random"),
            (SQLITE_PRAGMA, "page_size", "", "", false, ""),
            (ATTACH, "file", "", "", false, ""),
        ] {
            let context =
                Context { free: AtomicBool::new(false), denied: Mutex::default(), budget: AtomicI64::new(0) };
            let answer = || context.answer(action, first.as_bytes(), second.as_bytes(), database.as_bytes());
            assert_eq!(answer() == SQLITE_OK, allowed, "{action} {first}");
            let denied = (!allowed).then(|| Denied { action, name: name.to_owned() });
            assert_eq!(context.denied.lock().take(), denied, "{action} {first}");
            context.free.store(true, Ordering::Relaxed);
            assert_eq!(answer(), SQLITE_OK, "free");
        }
    }

    #[test]
    fn a_budget_ends_a_statement_unless_it_is_free() {
        for (budget, free, spent) in
            [(0, false, [true, true]), (1000, false, [false, true]), (0, true, [false, false])]
        {
            let context = Context {
                free: AtomicBool::new(free),
                denied: Mutex::default(),
                budget: AtomicI64::new(budget),
            };
            assert_eq!([context.is_spent(), context.is_spent()], spent, "{budget} {free}");
        }
    }
}

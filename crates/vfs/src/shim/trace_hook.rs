//! The trace hook and the authorizer of a captured connection: SQLite tells of statements (`sqlite3_trace_v2`), and of what it
//! compiles, which the authorizer always allows.
//!
//! # How it stays true
//! - SQLite may call the hook as long as the connection lives. That can be longer than its main file lives:
//!   `sqlite3_deserialize` puts another file in its place. So the hook is given a [`Context`], which loses its capture
//!   with the file.
//! - The context is freed with the file, where SQLite has said before that the connection is closed. Where it has not,
//!   because of the above or because the application has taken the hook, these few bytes stay.
//! - The hook is set where the connection is new, and changed only where SQLite has just called it: there it is ours.
//! - The authorizer is set there, too, and never again: an authorizer of the application takes its place, and capture
//!   notices.
//! - No panic crosses into SQLite. Where one happens, the connection is never captured again, and pages are written.

use crate::capture::Subscription;
use crate::ffi::authorizer::text;
use crate::ffi::codes::{SQLITE_OK, SQLITE_TRACE_CLOSE, SQLITE_TRACE_PROFILE, SQLITE_TRACE_STMT};
use crate::ffi::statement::RunningStatement;
use crate::open::capture_host::ConnectionCapture;
use crate::stats::FallbackCause;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Argument of the hooks. SQLite calls them under the connection's mutex, and closes files under that, too.
struct Context {
    /// Null once the file is closed.
    capture: AtomicPtr<ConnectionCapture>,
    /// True while the connection is being closed.
    closes: AtomicBool,
}

/// A captured connection, as its main file knows it.
pub(crate) struct TraceHook {
    context: NonNull<Context>,
    /// So that the context's pointer is good until this is dropped.
    _capture: Arc<ConnectionCapture>,
}

impl TraceHook {
    /// Sets the hook.
    ///
    /// # Safety
    /// The connection of the capture is alive, and its hook is nobody's.
    pub unsafe fn begin(capture: Arc<ConnectionCapture>) -> TraceHook {
        let pointer = AtomicPtr::new(Arc::as_ptr(&capture).cast_mut());
        let context = Box::new(Context { capture: pointer, closes: AtomicBool::new(false) });
        let context = NonNull::from(Box::leak(context));
        // SAFETY: by contract.
        unsafe {
            listen(&capture, context.as_ptr(), Subscription::All);
            if let Some(set_authorizer) = capture.db().api().set_authorizer {
                set_authorizer(capture.db().raw(), Some(authorized), context.as_ptr().cast());
            }
        }
        TraceHook { context, _capture: capture }
    }
}

impl Drop for TraceHook {
    fn drop(&mut self) {
        // SAFETY: the context was leaked in `begin`, and is freed only here. If the connection closes no statement of it
        // will ever run again.
        unsafe {
            let context = self.context.as_ref();
            context.capture.store(ptr::null_mut(), Ordering::Relaxed);
            if context.closes.load(Ordering::Relaxed) {
                drop(Box::from_raw(self.context.as_ptr()));
            }
        }
    }
}

/// Sets the hook of a connection's statements.
///
/// # Safety
/// The connection is alive, and its hook is ours or nobody's.
unsafe fn listen(capture: &ConnectionCapture, context: *mut Context, subscription: Subscription) {
    let events = SQLITE_TRACE_CLOSE
        | match subscription {
            Subscription::All => SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE,
            Subscription::Starts => SQLITE_TRACE_STMT,
        };
    // SAFETY: by contract; the callback takes the context for what it is.
    unsafe { (capture.db().api().trace_v2)(capture.db().raw(), events, Some(traced), context.cast()) };
}

/// Runs a callback's work; a panic bars the connection from capture, and answers `None`.
///
/// # Safety
/// `context` is that of a hook which SQLite has called.
unsafe fn guard<T>(context: *mut Context, work: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    if result.is_none() {
        // SAFETY: by contract; the capture is there while the pointer is not null.
        if let Some(capture) = unsafe { (*context).capture.load(Ordering::Relaxed).as_ref() } {
            capture.bar(FallbackCause::Unavailable);
        }
    }
    result
}

/// SQLite compiles something, and asks for leave.
unsafe extern "C" fn authorized(
    context: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    _database: *const c_char,
    _source: *const c_char,
) -> c_int {
    let context = context.cast::<Context>();
    // SAFETY: as for `traced`; the others are texts, or null.
    unsafe {
        guard(context, || {
            if let Some(capture) = (*context).capture.load(Ordering::Relaxed).as_ref() {
                capture.compiles(action, text(first), (!second.is_null()).then(|| text(second)));
            }
        })
    };
    SQLITE_OK
}

/// SQLite tells of a statement. Nothing in here panics but `told`, which is guarded.
unsafe extern "C" fn traced(
    event: c_uint,
    context: *mut c_void,
    statement: *mut c_void,
    detail: *mut c_void,
) -> c_int {
    // SAFETY: `listen` has passed a context, which is there while the hook can be called; its capture is there while it is
    // not null. For this event the detail is the text of the statement.
    unsafe {
        let capture = (*context.cast::<Context>()).capture.load(Ordering::Relaxed);
        if event == SQLITE_TRACE_STMT
            && !capture.is_null()
            && !detail.is_null()
            && (*capture).skips(detail.cast())
        {
            return 0;
        }
        told(event, context, statement, detail)
    }
}

/// As [`traced`], for statements that the filter passes.
#[inline(never)]
unsafe extern "C" fn told(
    event: c_uint,
    context: *mut c_void,
    statement: *mut c_void,
    detail: *mut c_void,
) -> c_int {
    let context = context.cast::<Context>();
    // SAFETY: as for `traced`, which has called.
    unsafe { guard(context, || tell(event, context, statement, detail)) };
    0
}

/// Tells the capture of a statement.
///
/// # Safety
/// As for [`traced`], which SQLite has called.
#[inline]
unsafe fn tell(event: c_uint, context: *mut Context, statement: *mut c_void, detail: *mut c_void) {
    // SAFETY: by contract. A connection that was to be closed may turn out to be busy, and live on. Then a statement
    // runs before its file can be closed by other means.
    unsafe { (*context).closes.store(event == SQLITE_TRACE_CLOSE, Ordering::Relaxed) };
    if event == SQLITE_TRACE_CLOSE {
        return;
    }
    // SAFETY: by contract.
    let capture = unsafe { (*context).capture.load(Ordering::Relaxed).as_ref() };
    // In a forked child the capture belongs to a database of the parent.
    let is_ours = |capture: &&ConnectionCapture| !capture.is_busy() && capture.is_of_this_process();
    let Some(capture) = capture.filter(is_ours) else { return };
    // SAFETY: SQLite passes the statement that it is about to run, or has run.
    let running = unsafe { RunningStatement::new(capture.db().api(), statement) };
    let done = match event {
        // SAFETY: for this event the detail is the text of the statement.
        SQLITE_TRACE_STMT if !detail.is_null() => unsafe { capture.started_quickly(running, detail.cast()) },
        SQLITE_TRACE_PROFILE => capture.ended_quickly(running),
        _ => true,
    };
    if !done {
        // SAFETY: by contract.
        unsafe { note(capture, context, event, running, detail.cast()) };
    }
}

/// SQLite tells of a statement that did not take the shortcut. A panic leaves the capture busy: nothing is captured any more.
///
/// # Safety
/// As for [`traced`], which SQLite has called.
#[inline(never)]
unsafe fn note(
    capture: &ConnectionCapture,
    context: *mut Context,
    event: c_uint,
    running: RunningStatement,
    sql: *const c_char,
) {
    if event != SQLITE_TRACE_STMT {
        return capture.ended(running);
    }
    // SAFETY: for this event the detail is the text of the statement.
    let sql = unsafe { CStr::from_ptr(sql) }.to_bytes();
    if let Some(subscription) = capture.started(running, sql) {
        // SAFETY: SQLite has called our hook; the connection is alive.
        unsafe { listen(capture, context, subscription) };
    }
}

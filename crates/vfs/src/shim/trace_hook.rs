//! The hooks that a connection's statements are told by (`sqlite3_trace_v2`, and an authorizer that allows everything).
//!
//! # How it stays true
//! - The hook may be called for as long as the connection lives, which can be longer than its main file:
//!   `sqlite3_deserialize` puts another in its place. So what it is given is a [`Context`] of its own, which loses its
//!   capture with the file.
//! - The context is freed with the file where SQLite has said before that the connection is closed. Where it has not,
//!   because of the above or because the application has taken the hook, these few bytes stay.
//! - The hook is set where the connection is new, and changed only where SQLite has just called it: there it is ours.
//! - The authorizer is set there, too, and never again: an application's takes its place, and that is noticed.

use crate::capture::{Capture, Subscription};
use crate::ffi::authorizer::text;
use crate::ffi::codes::{SQLITE_OK, SQLITE_TRACE_CLOSE, SQLITE_TRACE_PROFILE, SQLITE_TRACE_STMT};
use crate::ffi::statement::RunningStatement;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What the hook is given. SQLite calls it under the connection's lock, and closes files under that, too.
struct Context {
    /// Null once the file is closed.
    capture: AtomicPtr<Capture>,
    /// Whether the connection is being closed.
    closes: AtomicBool,
}

/// A connection that is watched, as its main file knows it.
pub(crate) struct Watched {
    context: NonNull<Context>,
    /// So that the context's pointer is good until this is dropped.
    _capture: Arc<Capture>,
}

impl Watched {
    /// Sets the hook.
    ///
    /// # Safety
    /// The connection of the capture is alive, and its hook is nobody's.
    pub unsafe fn begin(capture: Arc<Capture>) -> Watched {
        let pointer = AtomicPtr::new(Arc::as_ptr(&capture).cast_mut());
        let context = Box::new(Context { capture: pointer, closes: AtomicBool::new(false) });
        let context = NonNull::from(Box::leak(context));
        // SAFETY: by contract.
        unsafe {
            listen(&capture, context.as_ptr(), Subscription::All);
            if let Some(set_authorizer) = capture.api().set_authorizer {
                set_authorizer(capture.db().raw(), Some(authorized), context.as_ptr().cast());
            }
        }
        Watched { context, _capture: capture }
    }
}

impl Drop for Watched {
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
unsafe fn listen(capture: &Capture, context: *mut Context, hears: Subscription) {
    let events = SQLITE_TRACE_CLOSE
        | match hears {
            Subscription::All => SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE,
            Subscription::Starts => SQLITE_TRACE_STMT,
        };
    // SAFETY: by contract; the callback takes the context for what it is.
    unsafe { (capture.api().trace_v2)(capture.db().raw(), events, Some(traced), context.cast()) };
}

/// SQLite tells of something that is compiled.
unsafe extern "C" fn authorized(
    context: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    _database: *const c_char,
    _source: *const c_char,
) -> c_int {
    // SAFETY: as for `traced`; the others are texts, or null.
    unsafe {
        let capture = (*context.cast::<Context>()).capture.load(Ordering::Relaxed);
        if let Some(capture) = capture.as_ref() {
            capture.compiles(action, text(first), (!second.is_null()).then(|| text(second)));
        }
    }
    SQLITE_OK
}

/// SQLite tells of a statement.
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
            && (*capture).sleeps_on(detail.cast())
        {
            return 0;
        }
        told(event, context, statement, detail)
    }
}

/// As [`traced`], where SQLite should tell of statements.
#[inline(never)]
unsafe extern "C" fn told(
    event: c_uint,
    context: *mut c_void,
    statement: *mut c_void,
    detail: *mut c_void,
) -> c_int {
    let context = context.cast::<Context>();
    // SAFETY: as for `traced`. A connection that was to be closed may turn out to be busy, and live on: then a statement runs
    // before its file can be closed by other means.
    unsafe { (*context).closes.store(event == SQLITE_TRACE_CLOSE, Ordering::Relaxed) };
    if event == SQLITE_TRACE_CLOSE {
        return 0;
    }
    // SAFETY: as for `traced`.
    let capture = unsafe { (*context).capture.load(Ordering::Relaxed).as_ref() };
    // In a forked child it belongs to a database of the parent's.
    let is_ours = |capture: &&Capture| !capture.is_busy() && capture.is_of_this_process();
    let Some(capture) = capture.filter(is_ours) else { return 0 };
    // SAFETY: SQLite passes the statement that it is about to run, or has run.
    let running = unsafe { RunningStatement::new(capture.api(), statement) };
    let done = match event {
        // SAFETY: for this event the detail is the text of the statement.
        SQLITE_TRACE_STMT if !detail.is_null() => unsafe { capture.started_quickly(running, detail.cast()) },
        SQLITE_TRACE_PROFILE => capture.ended_quickly(running),
        _ => true,
    };
    if !done {
        // SAFETY: as above.
        unsafe { note(capture, context, event, running, detail.cast()) };
    }
    0
}

/// SQLite tells of a statement of which something has to be noted.
///
/// # Safety
/// As for [`traced`], which SQLite has called.
#[inline(never)]
unsafe fn note(
    capture: &Capture,
    context: *mut Context,
    event: c_uint,
    running: RunningStatement,
    sql: *const c_char,
) {
    let call = || match event {
        SQLITE_TRACE_STMT => {
            // SAFETY: for this event the detail is the text of the statement.
            let sql = unsafe { CStr::from_ptr(sql) }.to_bytes();
            if let Some(hears) = capture.started(running, sql) {
                // SAFETY: whoever calls us has our hook; the connection is alive.
                unsafe { listen(capture, context, hears) };
            }
        }
        _ => capture.ended(running),
    };
    // A panic leaves the callback marked as busy: nothing is captured any more, and pages are written.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

//! Lines on standard error, for the user of a program in which litefoot causes an error that SQLite cannot explain.
//!
//! SQLite reports an error below it in a text of its own, such as "unable to open database file". A program that knows
//! nothing of litefoot then shows its user no reason.
//!
//! # Promises
//! 1. A line is written once for each database and cause in a process.
//! 2. Writing never waits, raises no signal, and changes no `errno` of the application's.
//! 3. With `LITEFOOT_QUIET=1` nothing is written.
//!
//! # Limits
//! At most [`MOST`] different lines in a process. A line is lost where standard error cannot take it at once.

use crate::error::{Error, printable};
use litefoot_storage::sync::{AcrossFork, Global};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString, c_char};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The limit of lines in one process.
const MOST: usize = 64;

/// The variable that silences all lines.
const QUIET: &str = "LITEFOOT_QUIET";

unsafe extern "C" {
    /// A function of the C library that the `libc` crate lacks.
    fn secure_getenv(name: *const c_char) -> *mut c_char;
}

/// The lines written so far: a hash of the database and the cause of each.
#[derive(Default)]
struct Told(BTreeSet<u64>);

impl AcrossFork for Told {
    fn inherit(parents: Told) -> Told {
        // A child writes to its parent's standard error.
        parents
    }
}

static TOLD: Global<Told> = Global::new(Told(BTreeSet::new()));

/// True in a program that shows litefoot's errors itself.
static SHOWN_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Writes no lines of errors from now on. For programs that show [`last_error`](crate::last_error) themselves.
pub fn leave_errors_to_the_program() {
    SHOWN_ELSEWHERE.store(true, Ordering::Relaxed);
}

/// Writes the line of an error that litefoot causes, once for each database and cause.
///
/// Answers whether the error belongs into SQLite's error log: always, but for a database that another process owns. An
/// application meets that at every try, and the log gets one entry.
pub(crate) fn tell(error: &Error) -> bool {
    let cause = match error {
        Error::Owned { .. } => "owned",
        Error::Forked { .. } => "forked",
        Error::Closed(_) => "closed",
        Error::ReadOnlyWal { .. } => "read-only",
        Error::Refused(_) | Error::Io(_) | Error::Panic(_) => "refused",
        // Stock SQLite would have met it as well.
        _ => return true,
    };
    if SHOWN_ELSEWHERE.load(Ordering::Relaxed) {
        return true;
    }
    let text = error.to_string();
    let is_new = match error {
        Error::Owned { path, .. } | Error::Forked { path } => tell_once(path, cause, &text),
        _ => tell_once(Path::new(&text), cause, &text),
    };
    is_new || !matches!(error, Error::Owned { .. })
}

/// Writes `text` as one line, once for each `cause` and database. Answers whether this was the first time.
pub(crate) fn tell_once(database: &Path, cause: &'static str, text: &str) -> bool {
    if !is_new(database, cause) {
        return false;
    }
    if environment(QUIET).is_some_and(|value| value != "0" && !value.is_empty()) {
        return true;
    }
    let line = printable(&format!("litefoot: {text}")) + "\n";
    write_at_once(line.as_bytes());
    true
}

/// True once a line of this `cause` was written for this database.
pub(crate) fn was_told(database: &Path, cause: &'static str) -> bool {
    TOLD.lock().0.contains(&key(database, cause))
}

/// A variable of the environment; `None` in a program that runs with more rights than its user has.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is NUL-terminated; the value is copied before anything else can change the environment.
    unsafe {
        let value = secure_getenv(name.as_ptr());
        (!value.is_null()).then(|| OsString::from_vec(CStr::from_ptr(value).to_bytes().to_vec()))
    }
}

fn is_new(database: &Path, cause: &'static str) -> bool {
    let mut told = TOLD.lock();
    told.0.len() < MOST && told.0.insert(key(database, cause))
}

fn key(database: &Path, cause: &'static str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (database, cause).hash(&mut hasher);
    hasher.finish()
}

/// Writes to standard error as much as the stream takes without waiting.
fn write_at_once(line: &[u8]) {
    // SAFETY: all structures are plain data on this stack; the descriptor may be closed, and then the calls fail.
    unsafe {
        let errno = *libc::__errno_location();
        let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
        if libc::poll(&raw mut ready, 1, 0) == 1 && ready.revents & libc::POLLOUT != 0 {
            // The reader of a pipe may be gone: its signal is consumed before the application can see it.
            let (mut pipe, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut pipe);
            libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
            libc::sigpending(&raw mut pending);
            let was_pending = libc::sigismember(&raw const pending, libc::SIGPIPE) == 1;
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before) == 0 {
                let written = libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
                if written < 0 && *libc::__errno_location() == libc::EPIPE && !was_pending {
                    let now: libc::timespec = std::mem::zeroed();
                    libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const now);
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            }
        }
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_for_each_database() {
        let (a, b) = (Path::new("/notice-a.db"), Path::new("/notice-b.db"));
        assert!(is_new(a, "locked") && !is_new(a, "locked"));
        assert!(is_new(b, "locked") && is_new(a, "moved") && !is_new(b, "locked"));
    }

    #[test]
    fn the_environment_is_read() {
        assert_eq!(environment("LITEFOOT_SURELY_NOT_SET"), None);
        assert!(environment("PATH").is_some());
    }
}

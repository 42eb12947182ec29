//! Something that happens in the midst of a commit.

use litefoot::rusqlite::Connection;
use litefoot::rusqlite::ffi::*;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{from_mut, null_mut};

struct Interposed {
    methods: *const sqlite3_io_methods,
    work: Box<dyn FnOnce()>,
}

thread_local! {
    static INTERPOSED: RefCell<Option<Interposed>> = const { RefCell::new(None) };
}

/// Does something in the next commit of a connection, by this thread: when the write lock has been dropped, and before the
/// commit returns.
pub fn in_next_commit(db: &Connection, work: impl FnOnce() + 'static) {
    let mut file: *mut sqlite3_file = null_mut();
    // SAFETY: SQLite writes a pointer there. The file's methods are ours until the commit, and nobody else uses the connection.
    unsafe {
        sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            SQLITE_FCNTL_FILE_POINTER,
            from_mut(&mut file).cast(),
        );
        let methods = (*file).pMethods;
        let ours = sqlite3_io_methods { xFileControl: Some(file_control), ..*methods };
        (*file).pMethods = Box::into_raw(Box::new(ours));
        INTERPOSED.set(Some(Interposed { methods, work: Box::new(work) }));
    }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    let is_commit = operation == SQLITE_FCNTL_COMMIT_PHASETWO;
    let work = is_commit.then(|| INTERPOSED.take()).flatten();
    // SAFETY: SQLite calls with the file whose methods were exchanged; they are its own again before anything else is done.
    unsafe {
        let methods = match work {
            Some(Interposed { methods, work }) => {
                drop(Box::from_raw((*file).pMethods.cast_mut()));
                (*file).pMethods = methods;
                work();
                methods
            }
            None => {
                INTERPOSED.with_borrow(|known| known.as_ref().map_or((*file).pMethods, |known| known.methods))
            }
        };
        ((*methods).xFileControl.unwrap())(file, operation, argument)
    }
}

//! The main file of a connection: finding it, and preparing a new connection on it.

use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::ffi::connection::Connection;
use crate::ffi::{Sqlite3, Sqlite3File};
use crate::files::connection_state::ConnectionState;
use crate::files::handle::MMAP_SIZE_OF_INTERNAL;
use crate::open::capture_host::{CaptureHost, ConnectionCapture};
use crate::shim::file_object::FileObject;
use crate::shim::io_methods::object_of;
use crate::shim::trace_hook::TraceHook;
use crate::stats::FallbackCause;
use std::ptr::NonNull;
use std::sync::Arc;

/// Prepares a new connection: SQLite asks for its pages by address, and its statements are captured where the options
/// say so. A failure is a lack of memory, of which SQLite knows.
///
/// A shared cache has one file, and each of its connections comes here. The findings of the first stay. Another one may
/// be in a transaction, and SQLite then refuses settings that come through a new one.
///
/// # Safety
/// `db` is a connection whose main file this is. The file is open, and none of its methods runs.
pub(crate) unsafe fn watch(file: NonNull<FileObject>, db: *mut Sqlite3) -> Result<()> {
    // SAFETY: by contract. Nothing of the file is borrowed any longer than this takes.
    let (connection, api, is_first) = unsafe {
        let is_first = !std::mem::replace(&mut (*file.as_ptr()).met, true);
        (FileObject::connection_state(file), file.as_ref().api, is_first)
    };
    // SAFETY: as above.
    if let Some(link) = unsafe { FileObject::member(file) } {
        // SAFETY: the handle serves calls that SQLite makes on that file.
        link.set_handle(unsafe { Connection::new(api, db) });
        return Ok(());
    }
    let Some(connection) = connection.filter(|connection| !connection.internal) else { return Ok(()) };
    if !is_first {
        connection.set_shared();
        // The statements of a transaction can no longer be told apart by connection.
        if let Some(capture) = connection.capture() {
            capture.bar(FallbackCause::Interleaved);
        }
        return Ok(());
    }
    let database = &connection.database;
    // SAFETY: the state, which owns the capture, ends with the main file, and the hook is told. The state's handle serves calls
    // that SQLite makes on that file.
    let handle = unsafe { Connection::new(api, db) };
    connection.set_handle(handle);
    // Also while other processes have the database open: it may be this process's alone again.
    if database.db().may_be_pooled() {
        // This comes back through `file_control`.
        use_pool(handle)?;
    }
    if !database.db().holds_back() || !database.db().options().logs_statements() {
        return Ok(());
    }
    let capture = Arc::new(ConnectionCapture::new(
        handle,
        CaptureHost::new(database.clone(), connection.id, connection.reader_slot.clone()),
    ));
    connection.set_capture(capture.clone());
    // SAFETY: as above; the connection is new, and its hook nobody's.
    unsafe {
        let trace_hook = TraceHook::begin(capture);
        (*file.as_ptr()).trace_hook = Some(trace_hook);
    }
    Ok(())
}

/// Has SQLite ask for pages by address. A later setting of the application counts, and the application reads back its own
/// (`MmapSize`). This reads nothing of the database.
fn use_pool(db: Connection) -> Result<()> {
    // Any size will do: the VFS decides how much is mapped. A build that cannot map reads instead.
    match db.execute(&format!("PRAGMA mmap_size={MMAP_SIZE_OF_INTERNAL}")) {
        Err(SQLITE_NOMEM) => Err(Error::NoMemory),
        _ => Ok(()),
    }
}

/// The state of a connection, by its main database, where that is on litefoot.
///
/// # Safety
/// `db` is a connection of the library behind `api`.
pub(crate) unsafe fn connection_state_of(api: &Api, db: *mut Sqlite3) -> Option<Arc<ConnectionState>> {
    // SAFETY: by contract.
    unsafe { FileObject::connection_state(main_file(api, db)?) }
}

/// A connection's main database file, where that is on litefoot.
///
/// # Safety
/// As for [`connection_state_of`].
pub(crate) unsafe fn main_file(api: &Api, db: *mut Sqlite3) -> Option<NonNull<FileObject>> {
    let mut file: *mut Sqlite3File = std::ptr::null_mut();
    // SAFETY: FILE_POINTER stores one pointer; SQLite returns the connection's main file.
    unsafe {
        let code =
            (api.file_control)(db, c"main".as_ptr(), SQLITE_FCNTL_FILE_POINTER, (&raw mut file).cast());
        if code == SQLITE_OK { object_of(file) } else { None }
    }
}

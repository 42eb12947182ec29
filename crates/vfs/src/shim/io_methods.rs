//! The callbacks of `sqlite3_io_methods`, but for pages by address (`page_methods`).

use crate::error::Error;
use crate::ffi::codes::*;
use crate::ffi::{IoMethods, Sqlite3File};
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use crate::shim::boundary::{answer, caught};
use crate::shim::file_control::control;
use crate::shim::file_object::{
    FileObject, apart, begin, offset_of, on_own_main_file, quickly_or, with, with_own,
};
use crate::shim::page_methods::{fetch, unfetch};
use crate::sync::lock_table::Level;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// The methods for a kind of file: those of a main database have shared memory and pages by address.
pub(crate) fn methods(is_main: bool) -> &'static IoMethods {
    if is_main { &MAIN_METHODS } else { &OTHER_METHODS }
}

/// The object behind a file, where litefoot has opened that.
///
/// # Safety
/// `file` is null or an open file of SQLite's.
pub(crate) unsafe fn object_of(file: *mut Sqlite3File) -> Option<NonNull<FileObject>> {
    let file = NonNull::new(file)?;
    // SAFETY: by contract the header can be read.
    let methods = unsafe { (*file.as_ptr()).methods };
    let is_known =
        std::ptr::eq(methods, &raw const MAIN_METHODS) || std::ptr::eq(methods, &raw const OTHER_METHODS);
    // Only `install` stores these tables, in a FileObject.
    is_known.then(|| file.cast())
}

unsafe extern "C" fn close(file: *mut Sqlite3File) -> c_int {
    // SAFETY: SQLite closes an open file once and does not use it afterwards.
    let object = unsafe { file.cast::<FileObject>().read() };
    // SAFETY: the header may be written; null methods mean "closed".
    unsafe { (*file).methods = std::ptr::null() };
    if object.is_inherited() {
        // The parent has its locks, threads and logs: the child only forgets the object.
        std::mem::forget(object);
        return SQLITE_OK;
    }
    let FileObject { api, vfs, handle, trace_hook, .. } = object;
    // Other connections may use it, and the registry may keep it for the next open.
    let database = handle.database().cloned();
    let result = caught(|| {
        // Before the capture that the hook looks at.
        drop(trace_hook);
        handle.close().map(|()| SQLITE_OK)
    });
    if let (Err(Error::Panic(text)), Some(database)) = (&result, &database) {
        database.db().latch_after_panic(text);
    }
    let gone = caught(|| {
        drop((database, vfs));
        Ok(SQLITE_OK)
    });
    answer(api, result.and(gone))
}

unsafe extern "C" fn read(file: *mut Sqlite3File, buf: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite passes a buffer of `bytes` bytes; the file holds a FileObject.
    unsafe {
        let buf = std::slice::from_raw_parts_mut(buf.cast::<u8>(), usize::try_from(bytes).unwrap_or(0));
        match on_own_main_file(file, |main| Ok(main.read_pinned(buf, offset as u64))) {
            Ok(Some(true)) => SQLITE_OK,
            Ok(_) => apart(move || {
                with(file, |object| object.handle.read(buf, offset_of(offset)).map(|()| SQLITE_OK))
            }),
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn write(file: *mut Sqlite3File, buf: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: as for `read`.
    unsafe {
        let buf = std::slice::from_raw_parts(buf.cast::<u8>(), usize::try_from(bytes).unwrap_or(0));
        with(file, |object| object.handle.write(buf, offset_of(offset)).map(|()| SQLITE_OK))
    }
}

unsafe extern "C" fn truncate(file: *mut Sqlite3File, len: i64) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe { with(file, |object| object.handle.truncate(offset_of(len)).map(|()| SQLITE_OK)) }
}

unsafe extern "C" fn sync(file: *mut Sqlite3File, _flags: c_int) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe { with(file, |object| object.handle.sync().map(|()| SQLITE_OK)) }
}

unsafe extern "C" fn file_size(file: *mut Sqlite3File, size: *mut i64) -> c_int {
    // SAFETY: the file holds a FileObject; `size` can be written.
    unsafe {
        let on_main = |main: &mut MainFile| main.known_size().map(|known| *size = known as i64).is_some();
        quickly_or(file, on_main, move || {
            with(file, |object| {
                *size = object.handle.size()? as i64;
                Ok(SQLITE_OK)
            })
        })
    }
}

fn level(lock: c_int) -> Level {
    match lock {
        SQLITE_LOCK_NONE => Level::None,
        SQLITE_LOCK_SHARED => Level::Shared,
        SQLITE_LOCK_RESERVED => Level::Reserved,
        SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn lock(file: *mut Sqlite3File, to: c_int) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe {
        let on_main = |main: &mut MainFile| to == SQLITE_LOCK_SHARED && main.try_share();
        quickly_or(file, on_main, move || {
            let to = level(to);
            match begin(file, to == Level::Shared) {
                Ok(()) => with(file, |object| {
                    if to == Level::Shared {
                        object.leave_group_unheard()?;
                    }
                    object.handle.lock(to).map(|()| SQLITE_OK)
                }),
                Err(code) => code,
            }
        })
    }
}

unsafe extern "C" fn unlock(file: *mut Sqlite3File, to: c_int) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe {
        let on_main = |main: &mut MainFile| to == SQLITE_LOCK_NONE && main.try_unshare();
        quickly_or(file, on_main, move || {
            with_own(file, |object| object.handle.unlock(level(to)).map(|()| SQLITE_OK))
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut Sqlite3File, reserved: *mut c_int) -> c_int {
    // SAFETY: the file holds a FileObject; `reserved` can be written.
    unsafe {
        with(file, |object| {
            *reserved = c_int::from(object.handle.is_reserved()?);
            Ok(SQLITE_OK)
        })
    }
}

unsafe extern "C" fn file_control(file: *mut Sqlite3File, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the file holds a FileObject; the argument has the type that the operation defines (sqlite3.h).
    unsafe {
        // A setting is one of the connection that will go on here.
        if begin(file, operation == SQLITE_FCNTL_PRAGMA).is_err()
            || (*file.cast::<FileObject>()).is_inherited()
        {
            return SQLITE_NOTFOUND;
        }
        with(file, |object| control(object, operation, argument))
    }
}

unsafe extern "C" fn sector_size(_file: *mut Sqlite3File) -> c_int {
    // As SQLite's own VFS: together with POWERSAFE_OVERWRITE this only spaces journal headers.
    4096
}

unsafe extern "C" fn device_characteristics(file: *mut Sqlite3File) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe {
        match on_own_main_file(file, |main| Ok(main.known_characteristics())) {
            Ok(Some(Some(known))) => known,
            Ok(_) => apart(move || {
                if (*file.cast::<FileObject>()).is_inherited() {
                    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
                }
                with(file, |object| Ok(object.handle.characteristics()))
            }),
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn shm_map(
    file: *mut Sqlite3File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file holds a FileObject; `memory` can be written.
    unsafe {
        *memory = std::ptr::null_mut();
        with(file, |object| {
            let region = usize::try_from(region).unwrap_or(usize::MAX);
            let bytes = usize::try_from(bytes).unwrap_or(0);
            if let Some(found) = object.handle.shm_map(region, bytes, extend != 0)? {
                *memory = found.as_ptr().cast();
            }
            Ok(SQLITE_OK)
        })
    }
}

unsafe extern "C" fn shm_lock(file: *mut Sqlite3File, first: c_int, count: c_int, flags: c_int) -> c_int {
    let (first, count) = (usize::try_from(first).unwrap_or(0), usize::try_from(count).unwrap_or(0));
    debug_assert!(first + count <= SQLITE_SHM_NLOCK);
    // SAFETY: the file holds a FileObject.
    unsafe {
        if flags & SQLITE_SHM_LOCK != 0 {
            let exclusive = flags & SQLITE_SHM_EXCLUSIVE != 0;
            let on_main = |main: &mut MainFile| !exclusive && main.try_share_slot(first, count);
            quickly_or(file, on_main, move || match begin(file, true) {
                Ok(()) => {
                    with(file, |object| object.handle.shm_lock(first, count, exclusive).map(|()| SQLITE_OK))
                }
                Err(code) => code,
            })
        } else {
            let on_main = |main: &mut MainFile| main.try_unshare_slot(first, count);
            quickly_or(file, on_main, move || {
                with_own(file, |object| object.handle.shm_unlock(first, count).map(|()| SQLITE_OK))
            })
        }
    }
}

unsafe extern "C" fn shm_barrier(file: *mut Sqlite3File) {
    // SAFETY: the file holds a FileObject.
    unsafe {
        let on_main = |main: &mut MainFile| {
            main.shm_barrier();
            true
        };
        quickly_or(file, on_main, move || {
            with_own(file, |object| {
                object.handle.shm_barrier();
                Ok(SQLITE_OK)
            })
        });
    }
}

unsafe extern "C" fn shm_unmap(file: *mut Sqlite3File, delete: c_int) -> c_int {
    // SAFETY: the file holds a FileObject.
    unsafe { with_own(file, |object| object.handle.shm_unmap(delete != 0).map(|()| SQLITE_OK)) }
}

static MAIN_METHODS: IoMethods = IoMethods {
    version: 3,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map: Some(shm_map),
    shm_lock: Some(shm_lock),
    shm_barrier: Some(shm_barrier),
    shm_unmap: Some(shm_unmap),
    fetch: Some(fetch),
    unfetch: Some(unfetch),
};

static OTHER_METHODS: IoMethods = IoMethods {
    version: 1,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
    ..MAIN_METHODS
};

//! Trampolines of `sqlite3_io_methods`.
//!
//! A [`FileObject`] is what SQLite's `sqlite3_file` really is when it is ours. SQLite calls its methods one
//! at a time (it holds the connection's mutex), so a call may borrow the handle mutably. All others know it by its address,
//! and borrow nothing of it while SQLite runs: that may come back through a method of the same file.

use crate::capture::Capture;
use crate::error::{Error, Result, remember};
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::ffi::connection::Connection;
use crate::ffi::{IoMethods, Sqlite3, Sqlite3File};
use crate::files::handle::{AnyHandle, Control, Handled, MMAP_SIZE_OF_OURS, PragmaCall};
use crate::files::session::Session;
use crate::files::vfs::Vfs;
use crate::open::database::Database;
use crate::shim::page_methods::{fetch, unfetch};
use crate::shim::trace_hook::Watched;
use crate::stats::FallbackCause;
use crate::sync::lock_table::Level;
use crate::worker::text_of;
use litefoot_engine::fork;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// An open file of ours. SQLite allocates it and sees only the header.
#[repr(C)]
pub(crate) struct FileObject {
    header: Sqlite3File,
    /// In which process it was opened, counted in forks.
    generation: u32,
    api: &'static Api,
    vfs: Arc<Vfs>,
    pub(crate) handle: AnyHandle,
    /// Whether one of its methods runs, where that is asserted.
    is_called: bool,
    /// What the connection's hook is given, where this is its main file and it is watched.
    watched: Option<Watched>,
    /// Whether a connection has been opened on it.
    met: bool,
}

impl FileObject {
    /// Builds the object in the memory that SQLite provides.
    ///
    /// # Safety
    /// `file` points to memory of at least `size_of::<FileObject>()` bytes, aligned for pointers.
    pub(crate) unsafe fn install(
        file: *mut Sqlite3File,
        api: &'static Api,
        vfs: Arc<Vfs>,
        handle: AnyHandle,
        has_shared_memory: bool,
    ) {
        let methods: &'static IoMethods = if has_shared_memory { &MAIN_METHODS } else { &PLAIN_METHODS };
        let generation = fork::generation();
        let header = Sqlite3File { methods };
        let object =
            FileObject { header, generation, api, vfs, handle, is_called: false, watched: None, met: false };
        // SAFETY: by contract; the memory holds nothing that must be dropped.
        unsafe { file.cast::<FileObject>().write(object) }
    }

    /// The object behind a file that may or may not be ours.
    ///
    /// # Safety
    /// `file` is null or an open file of SQLite's.
    pub(crate) unsafe fn of(file: *mut Sqlite3File) -> Option<NonNull<FileObject>> {
        let file = NonNull::new(file)?;
        // SAFETY: by contract the header can be read.
        let methods = unsafe { (*file.as_ptr()).methods };
        let is_ours =
            std::ptr::eq(methods, &raw const MAIN_METHODS) || std::ptr::eq(methods, &raw const PLAIN_METHODS);
        // Only `install` stores these method tables, in a FileObject.
        is_ours.then(|| file.cast())
    }

    /// Whether it is a file of a database that the parent of this process has opened.
    #[inline]
    fn is_inherited(&self) -> bool {
        self.generation != fork::generation() && self.inherited_database().is_some()
    }

    #[cold]
    fn inherited_database(&self) -> Option<&Arc<Database>> {
        self.handle.database()
    }

    /// In a forked child: goes on with an inherited connection that is in no transaction.
    #[cold]
    fn come_back(&mut self) -> Result<()> {
        let new = match &self.handle {
            AnyHandle::Main(main) => AnyHandle::Main(Box::new(main.in_this_process(&self.vfs)?)),
            AnyHandle::Other(other) => match other.in_this_process() {
                Some(new) => AnyHandle::Other(new),
                None => return self.refuse_inherited().map(drop),
            },
        };
        // What is the parent's is left as it is.
        std::mem::forget(std::mem::replace(&mut self.handle, new));
        std::mem::forget(self.watched.take());
        self.generation = fork::generation();
        Ok(())
    }

    /// A log comes back behind the main file of its connection, and not by itself.
    #[cold]
    fn follow_main(&mut self) -> Result<()> {
        if self.handle.main().is_some() { self.refuse_inherited().map(drop) } else { self.come_back() }
    }

    /// The same before a call that begins a transaction.
    fn begin(&mut self, is_begin: bool) -> Result<()> {
        if is_begin && self.is_inherited() && self.handle.main().is_some() {
            self.come_back()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn refuse_inherited(&self) -> Result<c_int> {
        // Between transactions SQLite asks for it when it closes the file, and goes on without what it would do then.
        if let AnyHandle::Main(main) = &self.handle
            && main.is_idle()
        {
            return Err(Error::Busy);
        }
        let path = self.handle.database().map(|database| database.path().to_owned());
        Err(Error::Forked { path: path.unwrap_or_default() })
    }

    /// The connection behind a main database file.
    ///
    /// # Safety
    /// The file is open, and none of its methods runs.
    pub(crate) unsafe fn session(file: NonNull<FileObject>) -> Option<Arc<Session>> {
        // SAFETY: by contract.
        unsafe { file.as_ref() }.handle.session().cloned()
    }

    /// Makes a new connection one of ours: has it ask for pages by address, and watches its statements where that is asked
    /// for. Where this fails, it is by lack of memory, and SQLite knows.
    ///
    /// A shared cache has one file, and each of its connections comes here. What the first has found stays as it is: the
    /// others may be in a transaction, and then SQLite refuses whatever would be said through a new one.
    ///
    /// # Safety
    /// `db` is a connection whose main file this is. The file is open, and none of its methods runs.
    pub(crate) unsafe fn watch(file: NonNull<FileObject>, db: *mut Sqlite3) -> Result<()> {
        // SAFETY: by contract. Nothing of the file is borrowed any longer than this takes.
        let (session, api, is_first) = unsafe {
            let is_first = !std::mem::replace(&mut (*file.as_ptr()).met, true);
            (FileObject::session(file), file.as_ref().api, is_first)
        };
        let Some(session) = session.filter(|session| !session.internal) else { return Ok(()) };
        if !is_first {
            // Whose statements made a transaction cannot be told any more.
            if let Some(capture) = session.capture() {
                capture.bar(FallbackCause::Interleaved);
            }
            return Ok(());
        }
        let database = &session.database;
        // SAFETY: the session, which owns the capture, ends with the main file, and the hook is told.
        let handle = unsafe { Connection::new(api, db) };
        if database.is_pooled() {
            // This comes back through `file_control`.
            use_pool(handle)?;
        }
        if !database.holds_back() || !database.options().logs_statements() {
            return Ok(());
        }
        let capture = Arc::new(Capture::new(api, handle, database.clone(), session.id, session.seat.clone()));
        session.set_capture(capture.clone());
        // SAFETY: as above; the connection is new, and its hook nobody's.
        unsafe {
            let watched = Watched::begin(capture);
            (*file.as_ptr()).watched = Some(watched);
        }
        Ok(())
    }

    /// Why the open was refused, where it was.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.handle.refusal()
    }
}

/// Tells SQLite to ask for pages by address. What the application says later counts, and what it has said is what it is
/// told (`MmapSize`). This works without a look at the database.
fn use_pool(db: Connection) -> Result<()> {
    // Any size will do: how much is mapped is for the VFS to say. A build that cannot map reads instead.
    match db.execute(&format!("PRAGMA mmap_size={MMAP_SIZE_OF_OURS}")) {
        Err(SQLITE_NOMEM) => Err(Error::NoMemory),
        _ => Ok(()),
    }
}

/// The session behind a connection's main database, where that is ours.
///
/// # Safety
/// `db` is a connection of the library behind `api`.
pub(crate) unsafe fn session_of(api: &Api, db: *mut Sqlite3) -> Option<Arc<Session>> {
    // SAFETY: by contract.
    unsafe { FileObject::session(main_file(api, db)?) }
}

/// A connection's main database file, where that is ours.
///
/// # Safety
/// As for [`session_of`].
pub(crate) unsafe fn main_file(api: &Api, db: *mut Sqlite3) -> Option<NonNull<FileObject>> {
    let mut file: *mut Sqlite3File = std::ptr::null_mut();
    // SAFETY: FILE_POINTER stores one pointer; SQLite returns the connection's main file.
    unsafe {
        let code =
            (api.file_control)(db, c"main".as_ptr(), SQLITE_FCNTL_FILE_POINTER, (&raw mut file).cast());
        if code == SQLITE_OK { FileObject::of(file) } else { None }
    }
}

/// Runs one call behind the boundary: panics become errors, errors become codes.
pub(crate) fn guard(api: &Api, call: impl FnOnce() -> Result<()>) -> c_int {
    guard_code(api, || call().map(|()| SQLITE_OK))
}

/// As [`guard`], for calls that have more than one good answer.
pub(crate) fn guard_code(api: &Api, call: impl FnOnce() -> Result<c_int>) -> c_int {
    answer(api, caught(call))
}

/// What a call gives, its panic as an error.
#[inline]
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Error::Panic(text_of(&*panic))))
}

/// The code for SQLite.
#[inline]
fn answer(api: &Api, result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| answer_error(api, &error))
}

/// The code of an error, whose text is kept.
#[cold]
fn answer_error(api: &Api, error: &Error) -> c_int {
    let code = error.code();
    if let Some(text) = remember(error)
        && crate::notice::tell(error)
    {
        api.write_log(code, &format!("litefoot: {text}"));
    }
    code
}

/// Borrows the object behind a call and runs `call` guarded. What a panic leaves half done is not built upon.
///
/// # Safety
/// `file` is one of ours: SQLite calls these methods only through our tables.
pub(crate) unsafe fn with(
    file: *mut Sqlite3File,
    call: impl FnOnce(&mut FileObject) -> Result<c_int>,
) -> c_int {
    // SAFETY: by contract; SQLite does not call two methods of one file at a time.
    let object = unsafe { &mut *file.cast::<FileObject>() };
    let api = object.api;
    if object.is_inherited() {
        let code = guard(api, || object.follow_main());
        if code != SQLITE_OK {
            return code;
        }
    }
    debug_assert!(!std::mem::replace(&mut object.is_called, true), "a method inside a method of one file");
    let result = caught(|| call(&mut *object));
    if cfg!(debug_assertions) {
        object.is_called = false;
    }
    if let Err(Error::Panic(text)) = &result {
        object.handle.latch_after_panic(text);
    }
    answer(api, result)
}

/// Before a call that may begin a transaction: lets an inherited connection come back.
///
/// # Safety
/// As for [`with`].
#[inline]
unsafe fn begin(file: *mut Sqlite3File, is_begin: bool) -> std::result::Result<(), c_int> {
    // SAFETY: by contract; SQLite does not call two methods of one file at a time.
    let object = unsafe { &mut *file.cast::<FileObject>() };
    if object.generation == fork::generation() { Ok(()) } else { begin_inherited(object, is_begin) }
}

#[cold]
fn begin_inherited(object: &mut FileObject, is_begin: bool) -> std::result::Result<(), c_int> {
    let api = object.api;
    match guard(api, || object.begin(is_begin)) {
        SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// The same as [`with`] for what must not fail: in a forked child there is nothing to be done for a file of the parent's.
///
/// # Safety
/// As for [`with`].
unsafe fn with_own(file: *mut Sqlite3File, call: impl FnOnce(&mut FileObject) -> Result<c_int>) -> c_int {
    // SAFETY: by contract.
    unsafe { if (*file.cast::<FileObject>()).is_inherited() { SQLITE_OK } else { with(file, call) } }
}

pub(crate) fn offset_of(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

unsafe extern "C" fn close(file: *mut Sqlite3File) -> c_int {
    // SAFETY: SQLite closes an open file once and does not use it afterwards.
    let object = unsafe { file.cast::<FileObject>().read() };
    // SAFETY: the header may be written; null methods mean "closed".
    unsafe { (*file).methods = std::ptr::null() };
    if object.is_inherited() {
        // It is the parent's, with its locks, its threads and its logs: here it is only forgotten.
        std::mem::forget(object);
        return SQLITE_OK;
    }
    let FileObject { api, vfs, handle, watched, .. } = object;
    // Others may have it open, and it may be kept for the next who opens it.
    let database = handle.database().cloned();
    let result = caught(|| {
        // Before what it looks at goes.
        drop(watched);
        handle.close().map(|()| SQLITE_OK)
    });
    if let (Err(Error::Panic(text)), Some(database)) = (&result, &database) {
        database.latch_after_panic(text);
    }
    let gone = caught(|| {
        drop((database, vfs));
        Ok(SQLITE_OK)
    });
    answer(api, result.and(gone))
}

unsafe extern "C" fn read(file: *mut Sqlite3File, buf: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite passes a buffer of `bytes` bytes; the file is ours.
    unsafe {
        let buf = std::slice::from_raw_parts_mut(buf.cast::<u8>(), usize::try_from(bytes).unwrap_or(0));
        with(file, |object| object.handle.read(buf, offset_of(offset)).map(|()| SQLITE_OK))
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
    // SAFETY: the file is ours.
    unsafe { with(file, |object| object.handle.truncate(offset_of(len)).map(|()| SQLITE_OK)) }
}

unsafe extern "C" fn sync(file: *mut Sqlite3File, _flags: c_int) -> c_int {
    // SAFETY: the file is ours.
    unsafe { with(file, |object| object.handle.sync().map(|()| SQLITE_OK)) }
}

unsafe extern "C" fn file_size(file: *mut Sqlite3File, size: *mut i64) -> c_int {
    // SAFETY: the file is ours; `size` can be written.
    unsafe {
        with(file, |object| {
            *size = object.handle.size()? as i64;
            Ok(SQLITE_OK)
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
    // SAFETY: the file is ours.
    unsafe {
        if let Err(code) = begin(file, to == SQLITE_LOCK_SHARED) {
            return code;
        }
        with(file, |object| object.handle.lock(level(to)).map(|()| SQLITE_OK))
    }
}

unsafe extern "C" fn unlock(file: *mut Sqlite3File, to: c_int) -> c_int {
    // SAFETY: the file is ours.
    unsafe { with_own(file, |object| object.handle.unlock(level(to)).map(|()| SQLITE_OK)) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut Sqlite3File, reserved: *mut c_int) -> c_int {
    // SAFETY: the file is ours; `reserved` can be written.
    unsafe {
        with(file, |object| {
            *reserved = c_int::from(object.handle.is_reserved()?);
            Ok(SQLITE_OK)
        })
    }
}

unsafe extern "C" fn file_control(file: *mut Sqlite3File, operation: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the file is ours; the argument has the type that the operation defines (sqlite3.h).
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

/// # Safety
/// `argument` has the type that `operation` defines.
unsafe fn control(object: &mut FileObject, operation: c_int, argument: *mut c_void) -> Result<c_int> {
    let number = argument.cast::<c_int>();
    // SAFETY: each operation's argument type is fixed by sqlite3.h.
    let control = unsafe {
        match operation {
            SQLITE_FCNTL_LOCKSTATE => Control::LockState(&mut *number),
            SQLITE_FCNTL_LAST_ERRNO => Control::LastErrno(&mut *number),
            SQLITE_FCNTL_PERSIST_WAL => Control::PersistWal(&mut *number),
            SQLITE_FCNTL_POWERSAFE_OVERWRITE => Control::PowersafeOverwrite(&mut *number),
            SQLITE_FCNTL_PDB => Control::Connected,
            SQLITE_FCNTL_SYNC if !argument.is_null() => Control::SeveralFiles,
            SQLITE_FCNTL_COMMIT_PHASETWO => Control::CommitDone,
            SQLITE_FCNTL_HAS_MOVED => Control::HasMoved(&mut *number),
            SQLITE_FCNTL_MMAP_SIZE => Control::MmapSize(&mut *argument.cast::<i64>()),
            SQLITE_FCNTL_EXTERNAL_READER => Control::ExternalReader(&mut *number),
            SQLITE_FCNTL_SIZE_HINT | SQLITE_FCNTL_CHUNK_SIZE => Control::Growth,
            SQLITE_FCNTL_VFSNAME => {
                *argument.cast::<*mut c_char>() = object.api.allocate_text(&object.vfs.name);
                return Ok(SQLITE_OK);
            }
            SQLITE_FCNTL_TEMPFILENAME => {
                let path = object.vfs.temporary_files().free_path()?;
                *argument.cast::<*mut c_char>() = object.api.allocate_text(&path.to_string_lossy());
                return Ok(SQLITE_OK);
            }
            SQLITE_FCNTL_PRAGMA => return pragma(object, argument.cast()),
            _ => return Ok(SQLITE_NOTFOUND),
        }
    };
    Ok(match object.handle.control(control)? {
        Handled::Yes => SQLITE_OK,
        Handled::No => SQLITE_NOTFOUND,
    })
}

/// # Safety
/// `arguments` are the three strings of `SQLITE_FCNTL_PRAGMA`: answer, name, value or null.
unsafe fn pragma(object: &mut FileObject, arguments: *mut *mut c_char) -> Result<c_int> {
    // SAFETY: by contract.
    let text = |index: usize| unsafe {
        let pointer = *arguments.add(index);
        (!pointer.is_null()).then(|| CStr::from_ptr(pointer).to_string_lossy().into_owned())
    };
    let Some(name) = text(1).map(|name| name.to_ascii_lowercase()) else { return Ok(SQLITE_NOTFOUND) };
    let value = text(2);
    let mut answer = None;
    let call = PragmaCall { name: &name, value: value.as_deref(), answer: &mut answer };
    let (code, answer) = match object.handle.control(Control::Pragma(call)) {
        Ok(Handled::No) => return Ok(SQLITE_NOTFOUND),
        Ok(Handled::Yes) => (SQLITE_OK, answer),
        // With an error code the text becomes the message of the failed statement.
        Err(error) => (SQLITE_ERROR, Some(error.to_string())),
    };
    if let Some(answer) = answer {
        // SAFETY: SQLite frees the text it finds here.
        unsafe { *arguments = object.api.allocate_text(&answer) };
    }
    Ok(code)
}

unsafe extern "C" fn sector_size(_file: *mut Sqlite3File) -> c_int {
    // What SQLite's own VFS reports: together with POWERSAFE_OVERWRITE it only spaces journal headers.
    4096
}

unsafe extern "C" fn device_characteristics(file: *mut Sqlite3File) -> c_int {
    // SAFETY: the file is ours.
    unsafe {
        if (*file.cast::<FileObject>()).is_inherited() {
            return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
        }
        with(file, |object| Ok(object.handle.characteristics()))
    }
}

unsafe extern "C" fn shm_map(
    file: *mut Sqlite3File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is ours; `memory` can be written.
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
    // SAFETY: the file is ours.
    unsafe {
        if flags & SQLITE_SHM_LOCK != 0 {
            let exclusive = flags & SQLITE_SHM_EXCLUSIVE != 0;
            if let Err(code) = begin(file, true) {
                return code;
            }
            with(file, |object| object.handle.shm_lock(first, count, exclusive).map(|()| SQLITE_OK))
        } else {
            with_own(file, |object| object.handle.shm_unlock(first, count).map(|()| SQLITE_OK))
        }
    }
}

unsafe extern "C" fn shm_barrier(file: *mut Sqlite3File) {
    // SAFETY: the file is ours.
    unsafe {
        with_own(file, |object| {
            object.handle.shm_barrier();
            Ok(SQLITE_OK)
        });
    }
}

unsafe extern "C" fn shm_unmap(file: *mut Sqlite3File, delete: c_int) -> c_int {
    // SAFETY: the file is ours.
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

static PLAIN_METHODS: IoMethods = IoMethods {
    version: 1,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
    ..MAIN_METHODS
};

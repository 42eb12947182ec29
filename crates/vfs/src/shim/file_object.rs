//! The object behind an open file, and its life in a forked child.
//!
//! A [`FileObject`] lies in the memory of SQLite's `sqlite3_file`. SQLite calls the methods of one file one at a time
//! (it holds the connection's mutex), so that a call may borrow the handle mutably. All others know the object by its
//! address, and borrow nothing of it while SQLite runs. SQLite may come back through a method of the same file.
//!
//! Every query makes some ten calls on the main file. They come by [`on_own_main_file`], where the type of the handle is
//! known and one comparison tells a file of this process. All others come by [`with`].

use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::codes::SQLITE_OK;
use crate::ffi::{IoMethods, Sqlite3File};
use crate::files::any_handle::AnyHandle;
use crate::files::connection_state::ConnectionState;
use crate::files::group::link::Link;
use crate::files::handle::Handle;
use crate::files::main_db::MainFile;
use crate::files::vfs::Vfs;
use crate::open::OpenDatabase;
use crate::shim::boundary::{answer, caught, guard};
use crate::shim::trace_hook::TraceHook;
use litefoot_storage::fork;
use litefoot_storage::worker::panic_text;
use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// An open file of litefoot's. SQLite allocates it and sees only the header.
#[repr(C)]
pub(crate) struct FileObject {
    header: Sqlite3File,
    /// The process that opened it, as a number of forks.
    generation: u32,
    pub(crate) api: &'static Api,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) handle: AnyHandle,
    /// True while one of its methods runs, where that is asserted.
    is_called: bool,
    /// The trace hook of the connection, on a main file whose statements are captured.
    pub(crate) trace_hook: Option<TraceHook>,
    /// True once a connection has been opened on it.
    pub(crate) met: bool,
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
        methods: &'static IoMethods,
    ) {
        let generation = fork::generation();
        let header = Sqlite3File { methods };
        let object = FileObject {
            header,
            generation,
            api,
            vfs,
            handle,
            is_called: false,
            trace_hook: None,
            met: false,
        };
        // SAFETY: by contract; the memory holds nothing that must be dropped.
        unsafe { file.cast::<FileObject>().write(object) }
    }

    /// True for a file of a database that the parent of this process has opened.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation != fork::generation() && self.inherited_database().is_some()
    }

    #[cold]
    fn inherited_database(&self) -> Option<&Arc<OpenDatabase>> {
        self.handle.database()
    }

    /// In a forked child: an inherited connection outside a transaction goes on with files of this process.
    #[cold]
    fn come_back(&mut self) -> Result<()> {
        let new = match &self.handle {
            AnyHandle::Main(main) => AnyHandle::Main(Box::new(main.in_this_process(&self.vfs)?)),
            AnyHandle::Other(other) => match other.in_this_process() {
                Some(new) => AnyHandle::Other(new),
                None => return self.refuse_inherited().map(drop),
            },
        };
        // The parent's handle and hook are left as they are.
        std::mem::forget(std::mem::replace(&mut self.handle, new));
        std::mem::forget(self.trace_hook.take());
        self.generation = fork::generation();
        Ok(())
    }

    /// A log comes back after the main file of its connection, and not by itself.
    #[cold]
    fn follow_main(&mut self) -> Result<()> {
        if self.handle.main().is_some() { self.refuse_inherited().map(drop) } else { self.come_back() }
    }

    /// Before a call that begins a transaction: an inherited main file comes back.
    fn begin(&mut self, is_begin: bool) -> Result<()> {
        if is_begin && self.is_inherited() && self.handle.main().is_some() {
            self.come_back()
        } else {
            Ok(())
        }
    }

    /// Before the first lock of a transaction: a member's connection that is told of no commits goes on as a stranger. The owner of a group has its
    /// log in memory, and would have to give that up for such a member.
    pub(crate) fn leave_group_unheard(&mut self) -> Result<()> {
        let Some(link) = self.handle.member().filter(|link| !link.is_heard()) else { return Ok(()) };
        let Some(alone) = self.vfs.open_beside_group(link)? else { return Ok(()) };
        std::mem::replace(&mut self.handle, AnyHandle::Main(Box::new(alone))).close()
    }

    #[cold]
    fn refuse_inherited(&self) -> Result<c_int> {
        // Between transactions SQLite locks only to close the file, and skips its last checkpoint when busy.
        if let AnyHandle::Main(main) = &self.handle
            && main.is_idle()
        {
            return Err(Error::Busy);
        }
        let path = self.handle.database().map(|database| database.db().path().to_owned());
        Err(Error::Forked { path: path.unwrap_or_default() })
    }

    /// The connection behind a main database file.
    ///
    /// # Safety
    /// The file is open, and none of its methods runs.
    pub(crate) unsafe fn connection_state(file: NonNull<FileObject>) -> Option<Arc<ConnectionState>> {
        // SAFETY: by contract.
        unsafe { file.as_ref() }.handle.connection_state().cloned()
    }

    /// The connection behind a main database file, where it is a member's.
    ///
    /// # Safety
    /// As for [`FileObject::connection_state`].
    pub(crate) unsafe fn member(file: NonNull<FileObject>) -> Option<Arc<Link>> {
        // SAFETY: by contract.
        unsafe { file.as_ref() }.handle.member().cloned()
    }

    /// A method begins to run, or has ended.
    #[inline]
    fn note_call(&mut self, runs: bool) {
        if cfg!(debug_assertions) {
            let did_run = std::mem::replace(&mut self.is_called, runs);
            assert!(!(runs && did_run), "a method inside a method of one file");
        }
    }

    /// The reason of a refused open.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.handle.refusal()
    }
}

/// Borrows the object behind a call and runs `call` guarded. A panic latches the database.
///
/// # Safety
/// `file` holds a [`FileObject`]: SQLite calls these methods only through the tables of `io_methods`.
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
    object.note_call(true);
    let result = caught(|| call(&mut *object));
    object.note_call(false);
    result.unwrap_or_else(|error| failed(object.api, &*object.handle, error))
}

/// As [`with`], on a main file that this process has opened; `None` for any other, with which [`with`] knows what to do.
/// A file whose generation is this process's is not inherited, which is all that [`with`], [`begin`] and [`with_own`]
/// look for.
///
/// # Safety
/// As for [`with`].
#[inline(always)]
pub(crate) unsafe fn on_own_main_file<T>(
    file: *mut Sqlite3File,
    call: impl FnOnce(&mut MainFile) -> Result<T>,
) -> std::result::Result<Option<T>, c_int> {
    // SAFETY: by contract; SQLite does not call two methods of one file at a time.
    let object = unsafe { &mut *file.cast::<FileObject>() };
    if object.generation != fork::generation() {
        return Ok(None);
    }
    object.note_call(true);
    let api = object.api;
    let Some(main) = object.handle.main() else {
        object.note_call(false);
        return Ok(None);
    };
    // An error becomes a code at once: to carry it further would cost the calls that succeed.
    let result =
        catch_unwind(AssertUnwindSafe(|| call(main).map(Some).map_err(|error| failed(api, main, error))));
    match result {
        Ok(result) => {
            object.note_call(false);
            result
        }
        // SAFETY: by contract. Nothing of the file is borrowed any more.
        Err(panic) => Err(unsafe { panicked(file, panic) }),
    }
}

/// The code of a method that has panicked.
///
/// # Safety
/// As for [`with`].
#[cold]
pub(crate) unsafe fn panicked(file: *mut Sqlite3File, panic: Box<dyn Any + Send>) -> c_int {
    // SAFETY: by contract.
    let object = unsafe { &mut *file.cast::<FileObject>() };
    object.note_call(false);
    failed(object.api, &*object.handle, Error::Panic(panic_text(&*panic)))
}

/// The code of a method that has failed. A panic latches the database.
#[cold]
#[inline(never)]
fn failed(api: &Api, handle: &dyn Handle, error: Error) -> c_int {
    if let Error::Panic(text) = &error {
        handle.latch_after_panic(text);
    }
    answer(api, Err(error))
}

/// Runs `quick` on a main file that this process has opened, and `other` where that answers `false`, or where the file is
/// any other. Such a call has no error to carry.
///
/// # Safety
/// As for [`with`].
#[inline(always)]
pub(crate) unsafe fn quickly_or(
    file: *mut Sqlite3File,
    quick: impl FnOnce(&mut MainFile) -> bool,
    other: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by contract.
    match unsafe { on_own_main_file(file, |main| Ok(quick(main))) } {
        Ok(Some(true)) => SQLITE_OK,
        Ok(_) => apart(other),
        Err(code) => code,
    }
}

/// Runs `other` apart from the calls that are frequent, so that those cost less.
#[cold]
#[inline(never)]
pub(crate) fn apart(other: impl FnOnce() -> c_int) -> c_int {
    other()
}

/// Before a call that may begin a transaction: lets an inherited connection come back.
///
/// # Safety
/// As for [`with`].
#[inline]
pub(crate) unsafe fn begin(file: *mut Sqlite3File, is_begin: bool) -> std::result::Result<(), c_int> {
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

/// As [`with`], for calls that must not fail. In a forked child a file of the parent's needs nothing done.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn with_own(
    file: *mut Sqlite3File,
    call: impl FnOnce(&mut FileObject) -> Result<c_int>,
) -> c_int {
    // SAFETY: by contract.
    unsafe { if (*file.cast::<FileObject>()).is_inherited() { SQLITE_OK } else { with(file, call) } }
}

/// An offset of SQLite, which is never negative.
#[inline]
pub(crate) fn offset_of(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

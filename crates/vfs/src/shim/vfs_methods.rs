//! The callbacks of `sqlite3_vfs`, and the registration of a VFS.

use crate::db::companions;
use crate::error::{Error, Result, check_memory, last_errno};
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::ffi::{Sqlite3File, Sqlite3Vfs};
use crate::files::group::link::Link;
use crate::files::group::sleeps_at_owner;
use crate::files::vfs::{OpenRequest, Vfs};
use crate::shim::auto_extension::on_new_connection;
use crate::shim::boundary::{caught, guard, guard_code};
use crate::shim::file_object::FileObject;
use crate::shim::filenames;
use crate::shim::filenames::{Names, Owner};
use crate::shim::io_methods::methods;
use crate::shim::platform_methods::{
    current_time, current_time_int64, dl_close, dl_error, dl_open, dl_sym, randomness,
};
use crate::sync::{forks, refused_writer};
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The limit of a path's length, as in SQLite's unix VFS.
const MAX_PATHNAME: c_int = 512;

/// The target of `pAppData`.
///
/// A connection uses its VFS for as long as it lives, and for more than files; the end of the last connection cannot be
/// seen. So this and SQLite's structure are never freed. Everything behind them is, once the registration and all files
/// are gone.
pub(super) struct AppData {
    api: &'static Api,
    vfs: Weak<Vfs>,
    /// The platform's VFS, for everything but files.
    pub(super) base: *mut Sqlite3Vfs,
    name: CString,
    /// True once SQLite knows the hook on new connections. The preload entry registers the VFS while SQLite initialises,
    /// when `sqlite3_auto_extension` would wait for itself. The first open is early enough: the hook runs at its end.
    hooked: AtomicBool,
    /// The owners of journals and logs, by name.
    names: Names,
    /// The registry that has the databases of the VFS.
    registry: u64,
}

/// The data of the VFS that was registered last, for VFSes that have only borrowed our functions.
static NEWEST: AtomicPtr<AppData> = AtomicPtr::new(std::ptr::null_mut());

/// The type of [`open`].
type Open =
    unsafe extern "C" fn(*mut Sqlite3Vfs, *const c_char, *mut Sqlite3File, c_int, *mut c_int) -> c_int;

impl AppData {
    /// The VFS, unless its name was taken back and no file of it is open any more.
    fn vfs(&self) -> Result<Arc<Vfs>> {
        let gone = || {
            let name = self.name.to_string_lossy();
            Error::Refused(format!("the VFS {name} is gone; keep it for as long as its connections"))
        };
        self.vfs.upgrade().ok_or_else(gone)
    }

    /// The member's connection whose journal or log has that name.
    ///
    /// # Safety
    /// `name` is a NUL-terminated string.
    unsafe fn member(&self, ours: &Vfs, name: *const c_char) -> Option<Arc<Link>> {
        // SAFETY: by contract.
        if ours.links.are_there() { unsafe { self.names.member(name) } } else { None }
    }

    fn hook_connections(&self) -> Result<()> {
        if self.hooked.load(Ordering::Acquire) {
            return Ok(());
        }
        // SAFETY: the hook has the signature of an entry point and stays for the life of the process.
        match unsafe { (self.api.auto_extension)(on_new_connection) } {
            SQLITE_OK => {
                self.hooked.store(true, Ordering::Release);
                Ok(())
            }
            code => Err(Error::Refused(format!("cannot hook new connections: SQLite answers {code}"))),
        }
    }
}

/// A registered VFS; dropping it takes the name out of SQLite's list. Connections that are open go on.
pub struct Registration {
    registered: *mut Sqlite3Vfs,
    api: &'static Api,
    vfs: Arc<Vfs>,
}

// SAFETY: the pointer is only used for unregistering, which SQLite serialises by its own mutex.
unsafe impl Send for Registration {}
// SAFETY: as above; there are no methods that use it by shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `vfs` with the SQLite behind `api`.
    pub fn new(api: &'static Api, vfs: Vfs, make_default: bool) -> Result<Registration> {
        forks::watch();
        forks::guard(api);
        let base = platform_vfs(api)?;
        let vfs = Arc::new(vfs);
        vfs.set_shared();
        let name = CString::new(vfs.name.as_str()).map_err(|_| Error::Path(vfs.name.clone()))?;
        // SAFETY: the platform's VFS lives as long as the process.
        let base_bytes = unsafe { (*base).os_file_bytes };
        let (weak, registry) = (Arc::downgrade(&vfs), vfs.registry());
        let app = Box::new(AppData {
            api,
            vfs: weak,
            base,
            name,
            hooked: AtomicBool::new(false),
            names: Names::default(),
            registry,
        });
        let app = Box::into_raw(app);
        let registered = Box::into_raw(Box::new(Sqlite3Vfs {
            version: 3,
            os_file_bytes: base_bytes.max(size_of::<FileObject>() as c_int),
            max_pathname: MAX_PATHNAME,
            next: std::ptr::null_mut(),
            // SAFETY: never freed.
            name: unsafe { (*app).name.as_ptr() },
            app_data: app.cast(),
            open: Some(open),
            delete: Some(delete),
            access: Some(access),
            full_pathname: Some(full_pathname),
            dl_open: Some(dl_open),
            dl_error: Some(dl_error),
            dl_sym: Some(dl_sym),
            dl_close: Some(dl_close),
            randomness: Some(randomness),
            sleep: Some(sleep),
            current_time: Some(current_time),
            get_last_error: Some(get_last_error),
            current_time_int64: Some(current_time_int64),
            set_system_call: std::ptr::null(),
            get_system_call: std::ptr::null(),
            next_system_call: std::ptr::null(),
        }));
        let registration = Registration { registered, api, vfs };
        // SAFETY: the structure is valid and is never freed.
        match unsafe { (api.vfs_register)(registered, c_int::from(make_default)) } {
            SQLITE_OK => {
                NEWEST.store(app, Ordering::Release);
                Ok(registration)
            }
            code => Err(Error::Refused(format!("cannot register the VFS: SQLite answers {code}"))),
        }
    }

    /// Makes the VFS the default again, after SQLite was shut down and initialised anew.
    pub fn register_again(&self, make_default: bool) -> c_int {
        // SAFETY: the structures are never freed.
        unsafe {
            (*(*self.registered).app_data.cast::<AppData>()).hooked.store(false, Ordering::Release);
            (self.api.vfs_register)(self.registered, c_int::from(make_default))
        }
    }

    /// The VFS.
    pub fn vfs(&self) -> &Arc<Vfs> {
        &self.vfs
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered by `new`; the structure itself stays.
        unsafe { (self.api.vfs_unregister)(self.registered) };
    }
}

/// The platform's own VFS, whatever is the default at the moment.
fn platform_vfs(api: &Api) -> Result<*mut Sqlite3Vfs> {
    for name in [c"unix".as_ptr(), std::ptr::null()] {
        // SAFETY: null or a NUL-terminated name.
        let found = unsafe { (api.vfs_find)(name) };
        if !found.is_null() {
            return Ok(found);
        }
    }
    Err(Error::Refused("this SQLite has no VFS of the platform".to_owned()))
}

/// What a callback works with.
///
/// A library may make a VFS of its own out of the default one: it puts our functions beside an `xOpen` of its own, and data of its
/// own into `pAppData` (PROJ does, and with it GDAL and SpatiaLite). The platform's functions do not look at `pAppData`, so that works on
/// stock SQLite. Such a VFS gets the data of the one that was registered last.
///
/// # Safety
/// SQLite, or a library that has our functions, passes `vfs`; one of ours was registered by [`Registration::new`].
pub(super) unsafe fn app<'a>(vfs: *mut Sqlite3Vfs) -> &'a AppData {
    // SAFETY: the structure is valid while it is used; `AppData` is never freed.
    unsafe {
        let is_ours = (*vfs).open.is_some_and(|its| std::ptr::fn_addr_eq(its, open as Open));
        &*if is_ours { (*vfs).app_data.cast::<AppData>() } else { NEWEST.load(Ordering::Acquire) }
    }
}

unsafe extern "C" fn open(
    vfs: *mut Sqlite3Vfs,
    name: *const c_char,
    file: *mut Sqlite3File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, memory for the file, and a name of its own making.
    unsafe {
        (*file).methods = std::ptr::null();
        let app = app(vfs);
        if wants_platform(app, name, flags) {
            if flags & SQLITE_OPEN_MAIN_DB != 0 {
                app.names.opened(name, flags & SQLITE_OPEN_URI != 0, &Owner::Platform);
            }
            return platform_open(app, name, file, flags, out_flags);
        }
        guard_code(app.api, || {
            check_memory()?;
            // The standard library allocates this once in each thread, and aborts where it cannot: now memory is left. A thread
            // of ours can do without it.
            if !litefoot_storage::thread::is_ours() {
                let _ = std::thread::current();
            }
            app.hook_connections()?;
            let request = request(app, name, flags)?;
            let ours = app.vfs()?;
            let opened = match ours.open(request) {
                Err(Error::LeftToPlatform) => {
                    if flags & SQLITE_OPEN_MAIN_DB != 0 && !name.is_null() {
                        app.names.opened(name, flags & SQLITE_OPEN_URI != 0, &Owner::Platform);
                    }
                    return Ok(platform_open(app, name, file, flags, out_flags));
                }
                opened => opened?,
            };
            if !out_flags.is_null() {
                *out_flags = opened.flags;
            }
            let is_main = flags & SQLITE_OPEN_MAIN_DB != 0;
            let owner = match (opened.handle.connection_state(), opened.handle.member()) {
                (Some(connection), _) => Some(Owner::Connection(connection.clone())),
                (None, link) => link.map(|link| Owner::Member(link.clone())),
            };
            if let Some(owner) = owner.filter(|_| is_main && !name.is_null()) {
                app.names.opened(name, flags & SQLITE_OPEN_URI != 0, &owner);
            }
            FileObject::install(file, app.api, ours, opened.handle, methods(is_main));
            Ok(SQLITE_OK)
        })
    }
}

/// # Safety
/// As for `xOpen`.
unsafe fn request(app: &AppData, name: *const c_char, flags: c_int) -> Result<OpenRequest> {
    // SAFETY: by contract.
    unsafe {
        let mut request = OpenRequest {
            path: filenames::path_buf(name),
            flags,
            parameters: main_parameters(name, flags),
            connection: None,
            member: None,
            api: app.api,
        };
        if request.path.is_some() && flags & BELONGS != 0 {
            match app.names.owner(name) {
                Some(Owner::Connection(connection)) => request.connection = Some(connection),
                Some(Owner::Member(link)) => request.member = Some(link),
                Some(Owner::Platform) | None => {}
            }
        }
        Ok(request)
    }
}

/// The flags of files that belong to a database: journal and log.
const BELONGS: c_int = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;

/// The URI parameters of a main database; there are none without `SQLITE_OPEN_URI`.
///
/// # Safety
/// As for `xOpen`.
unsafe fn main_parameters(name: *const c_char, flags: c_int) -> Vec<(String, String)> {
    let both = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_URI;
    if name.is_null() || flags & both != both {
        return Vec::new();
    }
    // SAFETY: by contract.
    unsafe { filenames::parameters(name) }
}

/// True for a file of a database that the platform's VFS serves (`sharing=passthrough`).
///
/// # Safety
/// As for `xOpen`.
unsafe fn wants_platform(app: &AppData, name: *const c_char, flags: c_int) -> bool {
    if name.is_null() || flags & (SQLITE_OPEN_MAIN_DB | BELONGS) == 0 {
        return false;
    }
    if flags & SQLITE_OPEN_MAIN_DB == 0 {
        // SAFETY: by contract.
        return matches!(unsafe { app.names.owner(name) }, Some(Owner::Platform));
    }
    // SAFETY: by contract.
    let parameters = unsafe { main_parameters(name, flags) };
    is_passthrough(&parameters, || app.vfs.upgrade().is_some_and(|vfs| vfs.passthrough_by_default()))
}

/// True for a database that is left to the platform's VFS, by its URI parameters or else by default.
fn is_passthrough(parameters: &[(String, String)], by_default: impl FnOnce() -> bool) -> bool {
    let value = |keys: [&str; 2]| {
        let found = parameters.iter().find(|(name, _)| keys.contains(&name.as_str()));
        found.map(|(_, value)| value.as_str())
    };
    if value(["tier", "litefoot_tier"]).is_some() {
        // Litefoot serves it, and refuses the tier together with `sharing=passthrough`.
        return false;
    }
    match value(["sharing", "litefoot_sharing"]) {
        Some(value) => value == "passthrough",
        None => by_default(),
    }
}

/// # Safety
/// As for `xOpen`.
unsafe fn platform_open(
    app: &AppData,
    name: *const c_char,
    file: *mut Sqlite3File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the platform's VFS gets its own structure and memory of at least the size it asked for.
    unsafe {
        match (*app.base).open {
            Some(open) => open(app.base, name, file, flags, out_flags),
            None => SQLITE_CANTOPEN,
        }
    }
}

unsafe extern "C" fn delete(vfs: *mut Sqlite3Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite passes our VFS and a path.
    unsafe {
        let app = app(vfs);
        guard(app.api, || {
            let path = filenames::path(name).ok_or_else(|| Error::Path(String::new()))?;
            let ours = app.vfs()?;
            ours.delete(path, sync_directory != 0, app.member(&ours, name))
        })
    }
}

unsafe extern "C" fn access(
    vfs: *mut Sqlite3Vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a path, and room for the answer.
    unsafe {
        let app = app(vfs);
        *answer = 0;
        // SQLite asks in each transaction: the answer takes no lock, writes no shared memory, and cannot panic.
        if !name.is_null() && companions::lacks(app.registry, name) {
            return SQLITE_OK;
        }
        access_other(app, name, flags, answer)
    }
}

/// What the thread does not know; apart, so that what it knows costs less.
///
/// # Safety
/// As for [`access`].
#[inline(never)]
unsafe fn access_other(app: &AppData, name: *const c_char, flags: c_int, answer: *mut c_int) -> c_int {
    guard(app.api, || {
        // SAFETY: by contract.
        unsafe {
            let path = filenames::path(name).ok_or_else(|| Error::Path(String::new()))?;
            let ours = app.vfs()?;
            *answer = c_int::from(ours.access(path, flags, app.member(&ours, name))?);
        }
        Ok(())
    })
}

unsafe extern "C" fn full_pathname(
    vfs: *mut Sqlite3Vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a path, and `bytes` bytes of room.
    unsafe {
        let app = app(vfs);
        guard_code(app.api, || {
            let path = filenames::path(name).ok_or_else(|| Error::Path(String::new()))?;
            let full = app.vfs()?.full_pathname(path)?;
            let full_bytes = full.path.as_os_str().as_bytes();
            if full_bytes.len() >= usize::try_from(bytes).unwrap_or(0) {
                return Err(Error::Path(full.path.to_string_lossy().into_owned()));
            }
            std::ptr::copy_nonoverlapping(full_bytes.as_ptr(), out.cast::<u8>(), full_bytes.len());
            *out.add(full_bytes.len()) = 0;
            // SQLite refuses it in an open with SQLITE_OPEN_NOFOLLOW.
            Ok(if full.through_link { SQLITE_OK_SYMLINK } else { SQLITE_OK })
        })
    }
}

unsafe extern "C" fn sleep(vfs: *mut Sqlite3Vfs, microseconds: c_int) -> c_int {
    let time = Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    // A panic leaves the sleep to the platform.
    if caught(|| Ok(refused_writer::sleeps_in_queue(time) || sleeps_at_owner(time))).unwrap_or(false) {
        return microseconds;
    }
    // SAFETY: passed on as it came.
    unsafe {
        let base = app(vfs).base;
        (*base).sleep.map_or(0, |call| call(base, microseconds))
    }
}

unsafe extern "C" fn get_last_error(_vfs: *mut Sqlite3Vfs, bytes: c_int, message: *mut c_char) -> c_int {
    if let (Ok(room), Some(text)) = (usize::try_from(bytes), crate::error::last_error())
        && room > 0
        && !message.is_null()
    {
        let count = text.len().min(room - 1);
        // SAFETY: SQLite provides `bytes` bytes of room.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), message.cast::<u8>(), count);
            *message.add(count) = 0;
        }
    }
    last_errno()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_before_the_default_and_a_tier_is_never_passed_through() {
        for (parameters, by_default, expected) in [
            (&[][..], false, false),
            (&[], true, true),
            (&[("other", "1")], true, true),
            (&[("sharing", "passthrough")], false, true),
            (&[("litefoot_sharing", "passthrough")], false, true),
            (&[("sharing", "auto")], true, false),
            (&[("sharing", "maybe")], true, false),
            (&[("sharing", "passthrough"), ("tier", "/fast")], true, false),
            (&[("litefoot_tier", "/fast")], true, false),
        ] {
            let list: Vec<_> = parameters
                .iter()
                .map(|(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            assert_eq!(is_passthrough(&list, || by_default), expected, "{parameters:?}, {by_default}");
        }
    }
}

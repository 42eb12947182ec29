//! VFSes above another one, as they are found in the wild.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every function here is called by SQLite with what its VFS interface promises, and passes that on"
)]

use litefoot::rusqlite::ffi::*;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{from_mut, null_mut};
use std::sync::Mutex;

/// The change that a shim makes to what passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing.
    Through,
    /// It opens every file under a name in memory of its own.
    OwnNames,
    /// It does so with databases only.
    OwnMain,
    /// It does so with journals and logs only.
    OwnBeside,
    /// It answers file controls by itself.
    Deaf,
    /// It keeps a checksum in the last eight bytes of each page, which SQLite leaves alone.
    Sealing,
    /// It encrypts pages, the first included.
    Hiding,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Through,
        Kind::OwnNames,
        Kind::OwnMain,
        Kind::OwnBeside,
        Kind::Deaf,
        Kind::Sealing,
        Kind::Hiding,
    ];

    fn renames(self, flags: c_int) -> bool {
        match self {
            Kind::OwnNames => true,
            Kind::OwnMain => flags & SQLITE_OPEN_MAIN_DB != 0,
            Kind::OwnBeside => flags & SQLITE_OPEN_MAIN_DB == 0,
            _ => false,
        }
    }
}

/// The data that a shim's VFS points to.
struct App {
    real: *mut sqlite3_vfs,
    kind: Kind,
}

/// A shim's file; the real one lies behind it.
#[repr(C)]
struct File {
    base: sqlite3_file,
    kind: Kind,
    /// True if pages pass: in a database, or in a log.
    pages: bool,
    own_name: *mut c_char,
}

/// The name of a shim over the VFS `base`, which is registered once.
pub fn over(base: &str, kind: Kind) -> String {
    static REGISTERED: Mutex<Option<HashMap<String, ()>>> = Mutex::new(None);
    let name = format!("{kind:?} over {base}");
    let mut registered = REGISTERED.lock().unwrap();
    if registered.get_or_insert_default().insert(name.clone(), ()).is_some() {
        return name;
    }
    let base = CString::new(base).unwrap();
    unsafe {
        let real = sqlite3_vfs_find(base.as_ptr());
        assert!(!real.is_null());
        let mut shim = Box::new(*real);
        shim.iVersion = 2;
        shim.szOsFile += size_of::<File>() as c_int;
        shim.pNext = null_mut();
        shim.zName = CString::new(name.clone()).unwrap().into_raw();
        shim.pAppData = Box::into_raw(Box::new(App { real, kind })).cast();
        shim.xOpen = Some(open);
        shim.xDelete = Some(delete);
        shim.xAccess = Some(access);
        shim.xFullPathname = Some(full_pathname);
        shim.xRandomness = Some(randomness);
        shim.xSleep = Some(sleep);
        shim.xCurrentTime = Some(current_time);
        shim.xGetLastError = None;
        shim.xCurrentTimeInt64 = Some(current_time_int64);
        assert_eq!(sqlite3_vfs_register(Box::into_raw(shim), 0), SQLITE_OK);
    }
    name
}

unsafe fn app<'a>(vfs: *mut sqlite3_vfs) -> &'a App {
    unsafe { &*(*vfs).pAppData.cast::<App>() }
}

fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    file.wrapping_byte_add(size_of::<File>())
}

/// The real file and its methods.
unsafe fn below<'a>(file: *mut sqlite3_file) -> (*mut sqlite3_file, &'a sqlite3_io_methods) {
    let real = real(file);
    unsafe { (real, &*(*real).pMethods) }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let app = app(vfs);
        let mut own_name = null_mut();
        let mut flags = flags;
        if app.kind.renames(flags) && !name.is_null() {
            // As large as it has to be, so that a look beyond it is seen by those who check that.
            own_name = CStr::from_ptr(name).to_owned().into_raw();
            flags &= !SQLITE_OPEN_URI;
        }
        let passed = if own_name.is_null() { name } else { own_name.cast_const() };
        let code = ((*app.real).xOpen.unwrap())(app.real, passed, real(file), flags, out);
        let pages = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL) != 0;
        let base =
            sqlite3_file { pMethods: if code == SQLITE_OK { &raw const METHODS } else { std::ptr::null() } };
        file.cast::<File>().write(File { base, kind: app.kind, pages, own_name });
        code
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    unsafe {
        let own = own_name(vfs, name);
        let passed = own.as_ref().map_or(name, |own| own.as_ptr());
        ((*app(vfs).real).xDelete.unwrap())(app(vfs).real, passed, sync)
    }
}

/// The name of a file that lies beside a database, where the shim has one of its own.
unsafe fn own_name(vfs: *mut sqlite3_vfs, name: *const c_char) -> Option<CString> {
    unsafe { app(vfs).kind.renames(SQLITE_OPEN_MAIN_JOURNAL).then(|| CStr::from_ptr(name).to_owned()) }
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    unsafe {
        let own = own_name(vfs, name);
        let passed = own.as_ref().map_or(name, |own| own.as_ptr());
        ((*app(vfs).real).xAccess.unwrap())(app(vfs).real, passed, flags, out)
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    unsafe { ((*app(vfs).real).xFullPathname.unwrap())(app(vfs).real, name, bytes, out) }
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, bytes: c_int, out: *mut c_char) -> c_int {
    unsafe { ((*app(vfs).real).xRandomness.unwrap())(app(vfs).real, bytes, out) }
}

unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, microseconds: c_int) -> c_int {
    unsafe { ((*app(vfs).real).xSleep.unwrap())(app(vfs).real, microseconds) }
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    unsafe { ((*app(vfs).real).xCurrentTime.unwrap())(app(vfs).real, out) }
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    unsafe { ((*app(vfs).real).xCurrentTimeInt64.unwrap())(app(vfs).real, out) }
}

/// The seal at the end of a page with this content.
fn seal(page: &[u8]) -> [u8; 8] {
    page.iter().fold(1_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte))).to_le_bytes()
}

/// True if the file's pages have room for a seal, as page 1 says.
const fn is_page(bytes: usize) -> bool {
    bytes >= 512 && bytes.is_power_of_two()
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    buf: *mut c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    unsafe {
        let (real, methods) = below(file);
        let code = (methods.xRead.unwrap())(real, buf, bytes, offset);
        let shim = &*file.cast::<File>();
        let content = std::slice::from_raw_parts_mut(buf.cast::<u8>(), bytes as usize);
        match shim.kind {
            Kind::Hiding
                if shim.pages && code == SQLITE_OK && (is_page(content.len()) || !is_log(real, methods)) =>
            {
                content.iter_mut().for_each(|byte| *byte ^= HIDDEN);
            }
            Kind::Sealing if shim.pages && code == SQLITE_OK && is_page(content.len()) => {
                let (page, end) = content.split_at(content.len() - 8);
                if *end != seal(page) {
                    return SQLITE_IOERR_DATA;
                }
            }
            _ => {}
        }
        code
    }
}

const HIDDEN: u8 = 0x5a;

/// Logs begin with a magic that is not hidden.
unsafe fn is_log(real: *mut sqlite3_file, methods: &sqlite3_io_methods) -> bool {
    let mut magic = [0_u8; 4];
    let code = unsafe { (methods.xRead.unwrap())(real, magic.as_mut_ptr().cast(), 4, 0) };
    code == SQLITE_OK && u32::from_be_bytes(magic) & !1 == 0x377f_0682
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    buf: *const c_void,
    bytes: c_int,
    offset: sqlite3_int64,
) -> c_int {
    unsafe {
        let (real, methods) = below(file);
        let shim = &*file.cast::<File>();
        let mut content = std::slice::from_raw_parts(buf.cast::<u8>(), bytes as usize).to_vec();
        if shim.pages && is_page(content.len()) {
            match shim.kind {
                Kind::Hiding => content.iter_mut().for_each(|byte| *byte ^= HIDDEN),
                Kind::Sealing => {
                    let (page, end) = content.split_at_mut(bytes as usize - 8);
                    end.copy_from_slice(&seal(page));
                }
                _ => {}
            }
        }
        (methods.xWrite.unwrap())(real, content.as_ptr().cast(), bytes, offset)
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let (real, methods) = below(file);
        let code = (methods.xClose.unwrap())(real);
        let own_name = std::mem::replace(&mut (*file.cast::<File>()).own_name, null_mut());
        if !own_name.is_null() {
            drop(CString::from_raw(own_name));
        }
        code
    }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    unsafe {
        if (*file.cast::<File>()).kind == Kind::Deaf {
            return SQLITE_NOTFOUND;
        }
        let (real, methods) = below(file);
        (methods.xFileControl.unwrap())(real, operation, argument)
    }
}

/// A method that is passed on.
macro_rules! passed_on {
    ($($name:ident = $method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) $(-> $result)? {
            unsafe {
                let (real, methods) = below(file);
                (methods.$method.unwrap())(real $(, $argument)*)
            }
        }
    )*};
}

passed_on! {
    truncate = xTruncate(len: sqlite3_int64) -> c_int;
    sync = xSync(flags: c_int) -> c_int;
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(answer: *mut c_int) -> c_int;
    sector_size = xSectorSize() -> c_int;
    device_characteristics = xDeviceCharacteristics() -> c_int;
    shm_map = xShmMap(region: c_int, bytes: c_int, extend: c_int, memory: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(first: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Leaves room for a seal at the end of the pages of a new database.
pub fn reserve(db: &litefoot::rusqlite::Connection, bytes: c_int) {
    let mut bytes = bytes;
    unsafe {
        sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            SQLITE_FCNTL_RESERVE_BYTES,
            from_mut(&mut bytes).cast(),
        );
    }
}

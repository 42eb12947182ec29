//! The preload entry: `LD_PRELOAD=liblitefoot.so PROGRAM` makes litefoot the default VFS of a program
//! that links `libsqlite3.so.0` and knows nothing of it.
//!
//! SQLite calls `sqlite3_os_init` through its procedure linkage table whenever it initialises, also after
//! `sqlite3_shutdown`. A preloaded library that has this symbol is called in its place. It calls the library's own
//! function, which registers the platform's VFSes, and then registers litefoot as default. Nothing of SQLite is
//! configured, so that programs which call `sqlite3_config` first still can.

use crate::tell;
use litefoot_vfs::ffi::api::Api;
use litefoot_vfs::trial::Trial;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;

const SQLITE_OK: c_int = 0;
const SQLITE_ERROR: c_int = 1;

/// Takes the place of the library's `sqlite3_os_init`.
///
/// Its one job is to find out who calls: the return address lies in the SQLite library that initialises.
///
/// # Safety
/// Called by SQLite during its initialisation.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn sqlite3_os_init() -> c_int {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("mov rdi, [rsp]", "jmp {inner}", inner = sym initialise);
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("mov x0, x30", "b {inner}", inner = sym initialise);
    #[cfg(target_arch = "arm")]
    std::arch::naked_asm!("mov r0, lr", "b {inner}", inner = sym initialise);
}

/// Symbols of the programs that load PHP's extensions: PHP's own, and Apache for its module.
///
/// They load with `RTLD_DEEPBIND`: a library that comes with the extension looks into itself before it looks into what was preloaded. One that is
/// there already does not.
const LOADS_DEEPLY: [&CStr; 2] = [c"php_module_startup", c"ap_run_mpm"];

/// Called by the loader, once all that a program is started with is there.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        let _ = catch_unwind(load_sqlite_first);
    }
    begin
};

/// Loads SQLite's library ahead of a program that would bind it past this one. It is visible to nobody who does not ask for it.
fn load_sqlite_first() {
    // SAFETY: a look-up among what is loaded; the names are NUL-terminated.
    let is_there = |name: &&CStr| unsafe { !libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).is_null() };
    if LOADS_DEEPLY.iter().any(is_there) && is_wanted() {
        // SAFETY: the library has no initialiser that could do harm. Without it there is nothing to be done.
        unsafe { libc::dlopen(c"libsqlite3.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    }
}

unsafe extern "C" fn initialise(caller: *const c_void) -> c_int {
    // SAFETY: the address is code of the library that called.
    let Some(library) = (unsafe { Library::of(caller) }) else {
        tell("cannot find the SQLite library that is being initialised");
        return SQLITE_ERROR;
    };
    let Some(real) =
        library.find(c"sqlite3_os_init").filter(|real| *real != sqlite3_os_init as *const c_void)
    else {
        tell(&format!("{} has no sqlite3_os_init of its own", library.name()));
        return SQLITE_ERROR;
    };
    // SAFETY: SQLite's function of that name has this type.
    let real: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(real) };
    // SAFETY: called as SQLite would have.
    let code = unsafe { real() };
    if code == SQLITE_OK {
        let installed = catch_unwind(|| if is_wanted() { install(&library) } else { Ok(()) });
        match installed {
            Ok(Ok(())) => {}
            Ok(Err(why)) => tell(&format!("not in use: {why}")),
            Err(_) => tell("not in use: internal error (please report it)"),
        }
    }
    code
}

/// Registers litefoot with a SQLite library.
fn install(library: &Library) -> Result<(), String> {
    // SAFETY: the symbols are those of the SQLite library that called.
    let api = unsafe { Api::from_symbols(|name| library.find(name).unwrap_or(std::ptr::null())) };
    match api {
        Ok(api) => begin(api).map_err(|error| error.to_string()),
        Err(missing) => Err(format!("{} has no function {missing}", library.name())),
    }
}

/// Makes litefoot the default VFS; in a trial, only on litefoot's side.
fn begin(api: Api) -> litefoot_vfs::Result<()> {
    let trial = Trial::of_environment();
    if !trial.as_ref().is_some_and(Trial::is_stock) {
        litefoot_vfs::shim::install::install(api, true, true)?;
    }
    trial.map_or(Ok(()), |trial| trial.begin(&api))
}

/// True in a program that is to be on litefoot.
fn is_wanted() -> bool {
    is_preloaded() && !litefoot_vfs::shim::install::is_switched_off()
}

/// True where `LD_PRELOAD` has loaded this library. A loaded extension is visible to later libraries as well, and must not
/// change their default. An entry of the list counts by the library that it has loaded, not by its name.
fn is_preloaded() -> bool {
    // SAFETY: any address is allowed; this one is ours.
    let Some(this) = (unsafe { Library::of(is_preloaded as *const c_void) }) else { return false };
    let list = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let mut entries = list.as_bytes().split(|byte| byte.is_ascii_whitespace() || *byte == b':');
    entries.any(|entry| CString::new(entry).is_ok_and(|entry| !entry.is_empty() && this.is_loaded_as(&entry)))
}

/// A shared library of this process.
struct Library {
    handle: *mut c_void,
    name: *const c_char,
}

impl Library {
    /// The library that holds an address.
    ///
    /// # Safety
    /// `address` may be anything.
    unsafe fn of(address: *const c_void) -> Option<Library> {
        // SAFETY: Dl_info is plain data.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` can be written; any address is allowed.
        if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the name is that of a loaded library; NOLOAD only looks it up. The handle is kept for the
        // life of the process, as the library itself is.
        let mut handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            // The program itself is known by no name.
            // SAFETY: a null name asks for the program.
            handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        }
        (!handle.is_null()).then_some(Library { handle, name: info.dli_fname })
    }

    /// True for a name or path by which the loader knows this library.
    fn is_loaded_as(&self, name: &CStr) -> bool {
        // SAFETY: the name is NUL-terminated; NOLOAD only looks it up, and what it found is given back at once.
        unsafe {
            let found = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if !found.is_null() {
                libc::dlclose(found);
            }
            found == self.handle
        }
    }

    fn find(&self, symbol: &CStr) -> Option<*const c_void> {
        // SAFETY: the handle is open; the name is NUL-terminated.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        (!address.is_null()).then_some(address.cast_const())
    }

    fn name(&self) -> String {
        // SAFETY: the name lives as long as the library is loaded.
        unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned()
    }
}

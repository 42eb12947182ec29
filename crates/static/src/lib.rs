//! `liblitefoot.a`: litefoot for a program that compiles SQLite's amalgamation itself.
//!
//! ```sh
//! cc -DSQLITE_EXTRA_INIT=litefoot_init app.c sqlite3.c liblitefoot.a -lpthread -ldl -lm
//! ```
//!
//! SQLite calls [`litefoot_init`] at the end of its initialisation, and litefoot is the default VFS from then on. A program
//! with threads takes `-DSQLITE_EXTRA_INIT_MUTEXED=litefoot_init`, which newer versions of SQLite have: there the call comes before
//! any thread finds SQLite initialised. Without either option a program may call the function at its start:
//! `litefoot_init(0)`, after `sqlite3_config`.
//!
//! The drop-in `libsqlite3.so.0` is made this way, too.
//!
//! # Promises
//! 1. SQLite goes on without litefoot where it cannot be used, and one line on standard error says why.
//! 2. `LITEFOOT=off` leaves SQLite as it is.
//! 3. The functions of SQLite are found when the program is linked ([`functions`]): no extension is loaded, and
//!    `SQLITE_OMIT_LOAD_EXTENSION` does no harm.

mod functions;

use litefoot_vfs::ffi::api::{Api, OLDEST_SQLITE};
use litefoot_vfs::ffi::codes::SQLITE_OK;
use litefoot_vfs::shim::install;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::panic::catch_unwind;

/// The allocator with a reserve: a program that runs out of memory gets an error from SQLite, and goes on.
#[global_allocator]
static ALLOCATOR: litefoot_vfs::Allocator = litefoot_vfs::Allocator;

/// Runs when the process exits, after the program's own handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// A program that exits without closing leaves its newest commits where stock SQLite finds them, and no void log.
extern "C" fn at_exit() {
    // A failure leaves them to the next open.
    let _ = catch_unwind(litefoot_vfs::open::at_exit::leave);
}

/// Registers the VFS `litefoot` with the SQLite that is linked into this program, and makes it the default.
///
/// The argument is SQLite's, and not used. The answer is always `SQLITE_OK`.
///
/// # Safety
/// May be called by SQLite while it initialises, or by the program at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn litefoot_init(_unused: *const c_char) -> c_int {
    if let Err(why) =
        catch_unwind(register).unwrap_or_else(|_| Err("internal error (please report it)".to_owned()))
    {
        let _ = writeln!(std::io::stderr(), "litefoot: not in use: {why}");
    }
    SQLITE_OK
}

fn register() -> Result<(), String> {
    if install::is_switched_off() {
        return Ok(());
    }
    // SAFETY: the functions are those of the SQLite that this program is linked with.
    let api = unsafe { Api::from_symbols(functions::find) }
        .map_err(|missing| format!("this library does not link {missing} (please report it)"))?;
    // SAFETY: a plain function without arguments.
    let version = unsafe { (api.libversion_number)() };
    if version < OLDEST_SQLITE {
        return Err(format!("SQLite {version} is too old; {OLDEST_SQLITE} or later is needed"));
    }
    install::install(api, true, true).map(drop).map_err(|error| error.to_string())
}

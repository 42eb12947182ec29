//! Putting litefoot into a running SQLite: once per SQLite library in the process.
//!
//! A library is known by the address of one of its functions. Its registration stays for the life of the process.

use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::files::vfs::{Vfs, VfsSetup};
use crate::notice::environment;
use crate::options::Options;
use crate::shim::libraries::SERVED;
use crate::shim::vfs_methods::Registration;
use crate::uri_parameters::VFS_NAME;
use litefoot_storage::os::OsMedium;
use litefoot_storage::sync::{AcrossFork, Global};
use std::ffi::CString;
use std::sync::Arc;

/// The environment variable that holds default options, `name=value&name=value`.
pub const OPTIONS_VARIABLE: &str = "LITEFOOT_OPTIONS";

/// The environment variable that keeps litefoot out of programs which did not ask for it: `off`.
const SWITCH_VARIABLE: &str = "LITEFOOT";

/// The copy of litefoot that serves an SQLite library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// This one.
    ThisCopy,
    /// One that was there before, such as the copy inside a `libsqlite3.so.0`. A database open in both would be locked by each
    /// against the other, so there is one at a time.
    AnotherCopy,
}

/// A library that has litefoot.
struct Installed {
    /// The address of `sqlite3_vfs_register`, which differs among libraries.
    library: usize,
    registration: Registration,
}

/// The registrations of this process, one for each library.
#[derive(Default)]
struct Registrations(Vec<Installed>);

impl AcrossFork for Registrations {
    fn inherit(parents: Registrations) -> Registrations {
        // SQLite's list of them is inherited as well.
        parents
    }
}

static INSTALLED: Global<Registrations> = Global::new(Registrations(Vec::new()));

/// Registers the VFS `litefoot` over the operating system's files. May be called while SQLite initialises.
///
/// Doing it again for the same library is allowed: after `sqlite3_shutdown` it is necessary.
///
/// `told_of_exit`: the process calls what [`crate::open::at_exit`] has when it exits.
pub fn install(api: Api, make_default: bool, told_of_exit: bool) -> Result<Server> {
    let mut installed = INSTALLED.lock();
    let library = api.vfs_register as usize;
    if let Some(known) = installed.0.iter().find(|known| known.library == library) {
        known.registration.register_again(make_default);
        return Ok(Server::ThisCopy);
    }
    if another_copy(&api, make_default) {
        return Ok(Server::AnotherCopy);
    }
    let api: &'static Api = Box::leak(Box::new(api));
    let vfs = Vfs::new(VfsSetup {
        name: VFS_NAME.to_owned(),
        medium: Arc::new(OsMedium::new()),
        defaults: default_options()?,
        pass_through: false,
        keeps_logs: told_of_exit,
    });
    let mut served = SERVED.lock();
    let registration = Registration::new(api, vfs, make_default)?;
    served.0.push(api);
    installed.0.push(Installed { library, registration });
    Ok(Server::ThisCopy)
}

/// True where the user has switched litefoot off (`LITEFOOT=off`), for ways in that no line of the program asks for.
pub fn is_switched_off() -> bool {
    environment(SWITCH_VARIABLE).is_some_and(|value| value == "off")
}

/// True where another copy of litefoot has registered its VFS with this SQLite; by wish it becomes the default.
fn another_copy(api: &Api, make_default: bool) -> bool {
    let Ok(name) = CString::new(VFS_NAME) else { return false };
    // SAFETY: the name is NUL-terminated; a VFS of litefoot's is never freed.
    unsafe {
        let found = (api.vfs_find)(name.as_ptr());
        if !found.is_null() && make_default {
            (api.vfs_register)(found, 1);
        }
        !found.is_null()
    }
}

/// The options of the environment, for programs that cannot give them in a URI.
fn default_options() -> Result<Options> {
    let mut options = Options::default();
    if let Some(list) = environment(OPTIONS_VARIABLE) {
        options
            .set_list(&list.to_string_lossy())
            .map_err(|why| Error::Refused(format!("environment variable {OPTIONS_VARIABLE}: {why}")))?;
    }
    Ok(options)
}

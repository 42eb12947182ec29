//! Putting litefoot into a running SQLite: once per SQLite library in the process.
//!
//! A process can hold several copies of SQLite (its own, and one inside an interpreter). Each is known by
//! the address of one of its functions and gets its own registration, which stays for the life of the
//! process.

use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::files::vfs::{Vfs, VfsSetup};
use crate::notice::environment;
use crate::options::Options;
use crate::shim::vfs_methods::Registration;
use litefoot_engine::device::OsMedium;
use litefoot_engine::sync::{AcrossFork, Global};
use std::sync::Arc;

/// The name of the VFS.
pub const VFS_NAME: &str = "litefoot";

/// The environment variable that holds default options, `name=value&name=value`.
pub const OPTIONS_VARIABLE: &str = "LITEFOOT_OPTIONS";

struct Installed {
    /// Address of `sqlite3_vfs_register`, which tells libraries apart.
    library: usize,
    api: &'static Api,
    registration: Registration,
}

#[derive(Default)]
struct All(Vec<Installed>);

impl AcrossFork for All {
    fn inherit(parents: All) -> All {
        // SQLite's list of them is inherited as well.
        parents
    }
}

static INSTALLED: Global<All> = Global::new(All(Vec::new()));

/// Registers the VFS `litefoot` over the operating system's files. May be called while SQLite initialises.
///
/// Doing it again for the same library is allowed: after `sqlite3_shutdown` it is necessary.
pub fn install(api: Api, make_default: bool) -> Result<()> {
    let mut installed = INSTALLED.lock();
    let library = api.vfs_register as usize;
    if let Some(known) = installed.0.iter().find(|known| known.library == library) {
        known.registration.register_again(make_default);
        return Ok(());
    }
    let api: &'static Api = Box::leak(Box::new(api));
    let vfs = Vfs::new(VfsSetup {
        name: VFS_NAME.to_owned(),
        medium: Arc::new(OsMedium::new()),
        defaults: default_options()?,
        pass_through: false,
    });
    let registration = Registration::new(api, vfs, make_default)?;
    installed.0.push(Installed { library, api, registration });
    Ok(())
}

/// The functions of the library that litefoot serves, if there is exactly one.
pub(crate) fn only_library() -> Option<Api> {
    let installed = INSTALLED.lock();
    match installed.0.as_slice() {
        [only] => Some(*only.api),
        _ => None,
    }
}

/// The options of the environment, for programs that cannot say them in a URI.
fn default_options() -> Result<Options> {
    let mut options = Options::default();
    if let Some(list) = environment(OPTIONS_VARIABLE) {
        options
            .set_list(&list.to_string_lossy())
            .map_err(|why| Error::Refused(format!("environment variable {OPTIONS_VARIABLE}: {why}")))?;
    }
    Ok(options)
}

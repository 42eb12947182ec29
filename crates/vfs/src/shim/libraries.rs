//! The SQLite libraries of this process that litefoot serves.
//!
//! A process can hold several copies of SQLite: its own, and one inside an interpreter, say.

use crate::ffi::api::Api;
use litefoot_storage::sync::{AcrossFork, Global};

/// The function tables of the libraries, in the order in which they were installed.
#[derive(Default)]
pub(crate) struct Libraries(pub(crate) Vec<&'static Api>);

impl AcrossFork for Libraries {
    fn inherit(parents: Libraries) -> Libraries {
        // The child has the same libraries, and litefoot in them.
        parents
    }
}

/// The libraries; an install holds this lock until it has ended.
pub(crate) static SERVED: Global<Libraries> = Global::new(Libraries(Vec::new()));

/// The functions of the served library, where there is exactly one.
pub(crate) fn only() -> Option<Api> {
    match SERVED.lock().0.as_slice() {
        [api] => Some(**api),
        _ => None,
    }
}

/// The functions of the served library that `api` is of: the same ones, for as long as the process lives.
pub(crate) fn served(api: &Api) -> Option<&'static Api> {
    let library = api.vfs_register as usize;
    SERVED.lock().0.iter().copied().find(|served| served.vfs_register as usize == library)
}

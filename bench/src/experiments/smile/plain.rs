//! The system's files without the system's own reading ahead: what a medium is by itself.

use litefoot_storage::file::{File, FileKind, Medium, OpenMode, Result};
use litefoot_storage::os::OsMedium;
use litefoot_storage::pass_on;
use std::path::Path;
use std::sync::Arc;

/// Files of the operating system that it does not read ahead. The files themselves are its own.
pub struct WithoutReadahead(OsMedium);

impl WithoutReadahead {
    pub fn new() -> WithoutReadahead {
        WithoutReadahead(OsMedium::new())
    }
}

impl Medium for WithoutReadahead {
    pass_on!(0: delete, rename, info, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.0.open(path, kind, mode)?;
        if let Some(descriptor) = file.raw_descriptor() {
            // SAFETY: a plain system call on an open descriptor. It is advice: where it is not taken, the figures
            // are those of a medium that reads ahead.
            let _ = unsafe { libc::posix_fadvise(descriptor, 0, 0, libc::POSIX_FADV_RANDOM) };
        }
        Ok(file)
    }
}

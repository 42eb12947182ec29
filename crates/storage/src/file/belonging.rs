//! The operating system's files as one database uses them: what is created gets the rights that the database has then.
//!
//! The names of logs do not always lead to their database: those beside a tier device lie in another directory.

use super::opening::Rights;
use super::os::open_file;
use super::{File, FileKind, Medium, OpenMode, OsMedium, Result};
use crate::pass_on;
use std::fs;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::sync::{Arc, Weak};

pub(super) struct DatabaseMedium {
    system: OsMedium,
    /// Whoever has the medium does not keep the database open.
    database: Weak<dyn File>,
}

impl DatabaseMedium {
    pub fn new(database: &Arc<dyn File>) -> DatabaseMedium {
        DatabaseMedium { system: OsMedium, database: Arc::downgrade(database) }
    }

    fn rights(&self) -> Option<Rights> {
        let database = self.database.upgrade()?;
        // SAFETY: the descriptor is open as long as `database` lives, and is not closed here.
        let file = ManuallyDrop::new(unsafe { fs::File::from_raw_fd(database.raw_descriptor()?) });
        file.metadata().ok().map(|found| Rights::of(&found))
    }
}

impl Medium for DatabaseMedium {
    pass_on!(system: delete, rename, rename_new, info, identity, glance, list, sync_directory, absolute);

    fn open(&self, path: &Path, kind: FileKind, mode: OpenMode) -> Result<Arc<dyn File>> {
        open_file(path, kind, mode, || self.rights())
    }
}

//! Further VFSes: over a simulated or counting medium, or with other default options.

use crate::{Error, library};
use litefoot_storage::file::Medium;
use litefoot_storage::os::OsMedium;
use litefoot_vfs::{Options, Registration, VfsSetup};
use std::sync::Arc;

/// A VFS that is registered under its own name until it is dropped.
///
/// Its connections may live longer: then the name cannot be opened any more, and they go on.
pub struct Vfs {
    name: String,
    registration: Registration,
}

impl Vfs {
    /// Starts to describe a VFS of that name.
    ///
    /// ```
    /// # fn main() -> Result<(), litefoot::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let mut options = litefoot::Options::default();
    /// options.set("commit_log", "statements").unwrap();
    /// let vfs = litefoot::Vfs::builder("tuned").options(options).register()?;
    /// let db = vfs.open(directory.path().join("app.db"))?;
    /// db.execute_batch("CREATE TABLE reading(at INTEGER, value REAL)")?;
    /// assert_eq!(vfs.open_databases().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(name: impl Into<String>) -> VfsBuilder {
        VfsBuilder {
            name: name.into(),
            medium: Arc::new(OsMedium::new()),
            options: Options::default(),
            pass_through: false,
            keeps_logs: false,
        }
    }

    /// The name that `?vfs=` and [`rusqlite::Connection::open_with_flags_and_vfs`] take.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens a database through this VFS.
    ///
    /// # Errors
    /// SQLite's, with litefoot's message in it.
    pub fn open(&self, path: impl AsRef<std::path::Path>) -> Result<rusqlite::Connection, Error> {
        let flags = rusqlite::OpenFlags::default();
        Ok(rusqlite::Connection::open_with_flags_and_vfs(path, flags, self.name.as_str())?)
    }

    /// The databases that are open through this VFS, for tests.
    #[doc(hidden)]
    pub fn databases(&self) -> Vec<Arc<litefoot_vfs::open::OpenDatabase>> {
        self.registration.vfs().databases()
    }

    /// The paths of the databases that are open through this VFS.
    pub fn open_databases(&self) -> Vec<std::path::PathBuf> {
        self.registration.vfs().databases().iter().map(|database| database.db().path().to_owned()).collect()
    }
}

/// Describes a [`Vfs`].
pub struct VfsBuilder {
    name: String,
    medium: Arc<dyn Medium>,
    options: Options,
    pass_through: bool,
    keeps_logs: bool,
}

impl VfsBuilder {
    /// The medium that holds the files; the operating system's by default.
    #[must_use]
    pub fn medium(mut self, medium: Arc<dyn Medium>) -> VfsBuilder {
        self.medium = medium;
        self
    }

    /// The default options of databases, for what their URI leaves open.
    #[must_use]
    pub fn options(mut self, options: Options) -> VfsBuilder {
        self.options = options;
        self
    }

    /// Passes SQLite's calls on to the medium and changes nothing of its protocol.
    #[must_use]
    pub fn pass_through(mut self, pass_through: bool) -> VfsBuilder {
        self.pass_through = pass_through;
        self
    }

    /// Lets closes keep void logs for the next openings, though nobody is told of the exit of the process: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn keeps_logs(mut self, keeps_logs: bool) -> VfsBuilder {
        self.keeps_logs = keeps_logs;
        self
    }

    /// Registers the VFS. SQLite finds the one that was registered last under a name.
    ///
    /// # Errors
    /// When the linked SQLite cannot be used or the name is not valid.
    pub fn register(self) -> Result<Vfs, Error> {
        // The hook on new connections reports refused opens with their reason.
        library::install(false)?;
        let vfs = litefoot_vfs::Vfs::new(VfsSetup {
            name: self.name.clone(),
            medium: self.medium,
            defaults: self.options,
            pass_through: self.pass_through,
            keeps_logs: self.keeps_logs,
        });
        let registration = Registration::new(library::api()?, vfs, false)?;
        Ok(Vfs { name: self.name, registration })
    }
}

//! One registered VFS: SQLite's calls that name a file.
//!
//! # Why
//! A [`Vfs`] serves one name over one medium. It tells which kind of file an open asks for (`requested_file`), and hands out the
//! handle; the kinds have a file each in this room.
//!
//! # What it promises
//! 1. An open that is refused says why: SQLite would drop the reason, so the handle keeps it.
//! 2. A path of the file beside an open database reaches what that database has: memory, or another place.
//!
//! | file | holds |
//! |---|---|
//! | `vfs` | the VFS: which handle an open gets |
//! | `open_main` | opening a main database |
//! | `companion_files` | opening, deleting and finding what lies beside a database |

use crate::db::KeptLogs;
use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::codes::SQLITE_OPEN_WAL;
use crate::files::any_handle::AnyHandle;
use crate::files::connection_state::ConnectionState;
use crate::files::group::link::{Link, Links};
use crate::files::group::member_companion::MemberCompanion;
use crate::files::group::protocol::FileOf;
use crate::files::handle::Handle;
use crate::files::passthrough::PassThroughFile;
use crate::files::rejected::RefusedFile;
use crate::files::requested_file::{RequestedFile, open_mode, read_only};
use crate::files::temporary::TemporaryFiles;
use crate::memory::memory_file::MemoryFile;
use crate::memory::reservation::MemoryReservation;
use crate::open::OpenDatabase;
use crate::open::registry::Registry;
use crate::options::{Options, Sharing};
use litefoot_storage::file::{DeviceError, ErrorKind, File, FileKind, Medium, OpenMode, Resolved};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

/// One registered VFS: a name over a medium.
pub struct Vfs {
    pub(crate) name: String,
    pub(super) medium: Arc<dyn Medium>,
    pub(super) defaults: Options,
    pub(super) pass_through: bool,
    pub(super) databases: Registry,
    /// Where logs are remembered that closes keep; absent where none are kept.
    pub(super) kept_logs: Option<Arc<KeptLogs>>,
    /// The connections whose databases other processes own.
    pub(crate) links: Links,
    weak_self: OnceLock<Weak<Vfs>>,
}

/// How a VFS is set up.
pub struct VfsSetup {
    /// The name that `?vfs=` takes.
    pub name: String,
    /// Where the files are.
    pub medium: Arc<dyn Medium>,
    /// The options that databases are opened with unless they say otherwise.
    pub defaults: Options,
    /// Leave SQLite's own protocol as it is and only pass its calls on to the medium. This is how stock
    /// SQLite's operations are counted and its power cuts simulated.
    pub pass_through: bool,
    /// True if closes may keep logs for the next openings: the process is told of its exit.
    pub keeps_logs: bool,
}

/// A request of `xOpen`.
pub(crate) struct OpenRequest {
    /// Absent for a temporary file.
    pub path: Option<PathBuf>,
    pub flags: c_int,
    /// URI parameters, in order.
    pub parameters: Vec<(String, String)>,
    /// For a journal or log: the connection it belongs to.
    pub connection: Option<Arc<ConnectionState>>,
    /// For a journal or log of a member's: the connection it belongs to.
    pub member: Option<Arc<Link>>,
    /// The functions of the SQLite that asks.
    pub api: &'static Api,
}

/// An answer of `xOpen`.
pub(crate) struct Opened {
    pub handle: AnyHandle,
    pub flags: c_int,
}

impl Opened {
    pub(super) fn new(handle: impl Handle + 'static, flags: c_int) -> Opened {
        Opened { handle: AnyHandle::Other(Box::new(handle)), flags }
    }
}

impl Vfs {
    /// A VFS that is not registered yet.
    pub fn new(setup: VfsSetup) -> Vfs {
        Vfs {
            name: setup.name,
            kept_logs: setup.keeps_logs.then(|| KeptLogs::new(setup.medium.clone())),
            medium: setup.medium,
            defaults: setup.defaults,
            pass_through: setup.pass_through,
            databases: Registry::default(),
            links: Links::default(),
            weak_self: OnceLock::new(),
        }
    }

    /// Notes where the VFS is shared, for threads that use it.
    pub(crate) fn set_shared(self: &Arc<Vfs>) {
        let _ = self.weak_self.set(Arc::downgrade(self));
    }

    pub(super) fn weak(&self) -> Weak<Vfs> {
        self.weak_self.get().cloned().unwrap_or_default()
    }

    /// The databases that are open through this VFS now.
    pub fn databases(&self) -> Vec<Arc<OpenDatabase>> {
        self.databases.all()
    }

    /// True if databases are left to the platform's VFS unless they say otherwise.
    pub(crate) fn passthrough_by_default(&self) -> bool {
        self.defaults.sharing == Sharing::Passthrough
    }

    /// Opens what SQLite asks for.
    pub(crate) fn open(&self, request: OpenRequest) -> Result<Opened> {
        let flags = request.flags;
        match RequestedFile::of(request.path, flags) {
            RequestedFile::Unnamed => self.open_temporary(flags),
            RequestedFile::MainDatabase(path) => {
                match self.open_main(&path, flags, &request.parameters, request.api) {
                    // The system's refusals are told in SQLite's own words, as an application expects them.
                    Err(Error::Device(error)) => Err(explain(error)),
                    Err(error @ (Error::LeftToPlatform | Error::NoMemory)) => Err(error),
                    Err(reason) => {
                        crate::notice::tell(&reason);
                        Ok(Opened::new(RefusedFile::new(reason), flags))
                    }
                    opened => opened,
                }
            }
            // A connection of the owner's, in a process that was a member before, says which one it is.
            RequestedFile::Companion(path)
                if request.member.is_some()
                    || request.connection.is_none() && self.links.at(&path).is_some() =>
            {
                let file = if flags & SQLITE_OPEN_WAL != 0 { FileOf::Wal } else { FileOf::Journal };
                let is_ours = || self.databases.companion_at(&path).is_some();
                let asking = || self.links.asking(&path, file, flags).filter(|_| !is_ours());
                let link = request.member.or_else(asking).ok_or_else(|| {
                    Error::Refused(format!(
                        "{}: this connection comes through a VFS that does not say whose journal or log it opens; open \
                         the database with sharing=separate",
                        path.display()
                    ))
                })?;
                let (handle, flags) = MemberCompanion::open(link, file, flags)?;
                Ok(Opened::new(handle, flags))
            }
            RequestedFile::Companion(path) => self.open_companion_file(&path, flags, request.connection),
            RequestedFile::SuperJournal(path) => self.open_companion(&path, flags, None),
            RequestedFile::Named { path, delete } => {
                let (file, flags) = self.open_file(&path, FileKind::Temporary, flags)?;
                Ok(Opened::new(PassThroughFile::temporary(self.medium.clone(), file.file, delete), flags))
            }
        }
    }

    fn open_temporary(&self, flags: c_int) -> Result<Opened> {
        let file = self.temporary_files().open()?;
        Ok(Opened::new(PassThroughFile::temporary(self.medium.clone(), file, false), flags))
    }

    /// A file in memory that keeps as many bytes there as the database allows.
    pub(super) fn memory(&self, database: &OpenDatabase) -> MemoryFile {
        let files = self.temporary_files_of(database);
        MemoryFile::new(
            MemoryReservation::new(database.db().memory().share()),
            Box::new(move || files.open()),
        )
    }

    /// Where temporary files come from.
    pub(crate) fn temporary_files(&self) -> TemporaryFiles {
        TemporaryFiles { medium: self.medium.clone(), vfs: self.name.clone() }
    }

    /// The same, for a database that counts what is written to them.
    pub(super) fn temporary_files_of(&self, database: &OpenDatabase) -> TemporaryFiles {
        TemporaryFiles { medium: database.db().medium().clone(), vfs: self.name.clone() }
    }

    /// Opens by SQLite's flags; without write permission a read-write open falls back to reading.
    pub(super) fn open_file(&self, path: &Path, kind: FileKind, flags: c_int) -> Result<(OpenedFile, c_int)> {
        let opened = self.open_by(path, flags, |mode| self.medium.open(path, kind, mode).map(Some))?;
        opened.ok_or(Error::Busy)
    }

    /// The same; `None` where another process has a lease on the file, and has been told.
    pub(super) fn open_file_at_once(
        &self,
        path: &Path,
        kind: FileKind,
        flags: c_int,
    ) -> Result<Option<(OpenedFile, c_int)>> {
        self.open_by(path, flags, |mode| self.medium.open_at_once(path, kind, mode))
    }

    fn open_by(
        &self,
        path: &Path,
        flags: c_int,
        open: impl Fn(OpenMode) -> litefoot_storage::file::Result<Option<Arc<dyn File>>>,
    ) -> Result<Option<(OpenedFile, c_int)>> {
        let mode = open_mode(flags);
        let existed = mode != OpenMode::Create || self.medium.info(path)?.is_some();
        match open(mode) {
            Ok(file) => {
                let created = mode == OpenMode::CreateNew || !existed;
                Ok(file.map(|file| (OpenedFile { file, created }, flags)))
            }
            Err(error) if error.kind() == ErrorKind::Permission && mode != OpenMode::ReadOnly && existed => {
                let file = open(OpenMode::ReadOnly)?;
                Ok(file.map(|file| (OpenedFile { file, created: false }, read_only(flags))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Which registry has its databases.
    pub(crate) fn registry(&self) -> u64 {
        self.databases.id()
    }

    /// The name that the file at `path` has behind all symbolic links, and what lies beside it belongs to.
    pub(crate) fn full_pathname(&self, path: &Path) -> Result<Resolved> {
        self.medium.absolute(path).map_err(|error| Error::CannotOpen(error, "check the path"))
    }
}

/// A file that was opened, and whether the open created it.
pub(super) struct OpenedFile {
    pub file: Arc<dyn File>,
    pub created: bool,
}

/// Adds to the error of an open what can be done about it.
fn explain(error: DeviceError) -> Error {
    let advice = match error.kind() {
        ErrorKind::NotFound => "check the path: the directory must exist",
        ErrorKind::Permission => "check the permissions of the file and of its directory",
        ErrorKind::IsDirectory => "this is a directory: name a file in it",
        ErrorKind::Full => "free some space",
        _ => return error.into(),
    };
    Error::CannotOpen(error, advice)
}

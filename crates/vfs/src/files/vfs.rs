//! SQLite's file calls.
//!
//! A [`Vfs`] serves one registered name over one medium. It decides which kind of file an open asks for
//! and hands out the handle; the kinds have a file each:
//!
//! - `main_file`: a main database, with the locks and the wal-index in process memory;
//! - `plain_file`: what SQLite keeps beside it, and temporary files;
//! - `refused_file`: an open that failed, until the connection hook reports why.
//!
//! `database` is what the handles on one file share; `registry` finds it by file identity. `pages` are its pages in
//! memory, `view` and `kept` what one connection has of them, `process` is what all databases share; `beside` is what is
//! known of the files beside a database.

use crate::commit::wal::Wal;
use crate::db::Companion;
use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::files::any_handle::AnyHandle;
use crate::files::connection_state::ConnectionState;
use crate::files::handle::Handle;
use crate::files::journal::JournalFile;
use crate::files::main_db::MainFile;
use crate::files::passthrough::PassThroughFile;
use crate::files::rejected::RefusedFile;
use crate::files::temporary::TemporaryFiles;
use crate::files::wal::WalFile;
use crate::memory::memory_file::MemoryFile;
use crate::memory::reservation::MemoryReservation;
use crate::memory::spill_file::MakeSpill;
use crate::open::OpenDatabase;
use crate::open::database::{DatabaseSetup, Host};
use crate::open::registry::Registry;
use crate::options::Options;
use crate::sync::lock_table::Level;
use crate::uri_parameters as parameters;
use litefoot_storage::file::{
    DeviceError, ErrorKind, File, FileKind, Medium, OpenMode, Resolved, parent_directory,
};
use litefoot_tier::tier_of;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a database says how it is to be written and read: 2 stands for a write-ahead log.
const VERSIONS_AT: u64 = 18;

/// One registered VFS: a name over a medium.
pub struct Vfs {
    pub(crate) name: String,
    medium: Arc<dyn Medium>,
    defaults: Options,
    pass_through: bool,
    databases: Registry,
}

/// How a VFS is set up.
pub struct VfsSetup {
    /// The name that `?vfs=` takes.
    pub name: String,
    /// Where the files are.
    pub medium: Arc<dyn Medium>,
    /// What databases are opened with unless they say otherwise.
    pub defaults: Options,
    /// Leave SQLite's own protocol as it is and only pass its calls on to the medium. This is how stock
    /// SQLite's operations are counted and its power cuts simulated.
    pub pass_through: bool,
}

/// What SQLite asks `xOpen` for.
pub(crate) struct OpenRequest {
    /// Absent for a temporary file.
    pub path: Option<PathBuf>,
    pub flags: c_int,
    /// URI parameters, in order.
    pub parameters: Vec<(String, String)>,
    /// For a journal or log: the connection it belongs to.
    pub connection: Option<Arc<ConnectionState>>,
    /// The functions of the SQLite that asks.
    pub api: &'static Api,
}

/// What `xOpen` answers.
pub(crate) struct Opened {
    pub handle: AnyHandle,
    pub flags: c_int,
}

impl Opened {
    fn new(handle: impl Handle + 'static, flags: c_int) -> Opened {
        Opened { handle: AnyHandle::Other(Box::new(handle)), flags }
    }
}

impl Vfs {
    /// A VFS that is not registered yet.
    pub fn new(setup: VfsSetup) -> Vfs {
        Vfs {
            name: setup.name,
            medium: setup.medium,
            defaults: setup.defaults,
            pass_through: setup.pass_through,
            databases: Registry::default(),
        }
    }

    /// The databases that are open through this VFS now.
    pub fn databases(&self) -> Vec<Arc<OpenDatabase>> {
        self.databases.all()
    }

    /// Whether databases are left to the platform's VFS unless they say otherwise.
    pub(crate) fn passthrough_by_default(&self) -> bool {
        self.defaults.passthrough
    }

    pub(crate) fn open(&self, request: OpenRequest) -> Result<Opened> {
        let flags = request.flags;
        let Some(path) = request.path else { return self.open_temporary(flags) };
        if flags & SQLITE_OPEN_MAIN_DB != 0 {
            let opened = self.open_main(&path, flags, &request.parameters, request.api);
            return match opened {
                // The system's refusals are told in SQLite's own words, as an application expects them.
                Err(Error::Device(error)) => Err(explain(error)),
                Err(error @ (Error::LeftToPlatform | Error::NoMemory)) => Err(error),
                Err(reason) => {
                    crate::notice::tell(&reason);
                    Ok(Opened::new(RefusedFile::new(reason), flags))
                }
                opened => opened,
            };
        }
        if flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) != 0 {
            return self.open_companion_file(&path, flags, request.connection);
        }
        if flags & SQLITE_OPEN_SUPER_JOURNAL != 0 {
            return self.open_companion(&path, flags, None);
        }
        let (file, flags) = self.open_file(&path, FileKind::Temporary, flags)?;
        let delete = flags & SQLITE_OPEN_DELETEONCLOSE != 0;
        Ok(Opened::new(PassThroughFile::temporary(self.medium.clone(), file.file, delete), flags))
    }

    fn open_main(
        &self,
        path: &Path,
        flags: c_int,
        parameters: &[(String, String)],
        api: &'static Api,
    ) -> Result<Opened> {
        let mut options = self.defaults.clone();
        let (mut powersafe_overwrite, mut unlocked) = (true, false);
        parameters::apply(&mut options, parameters)
            .map_err(|why| Error::Refused(format!("{}: {why}; nothing was opened", path.display())))?;
        for (name, value) in parameters {
            unlocked |= matches!(name.as_str(), "nolock" | "immutable") && is_true(value);
            if name == "psow" {
                powersafe_overwrite = value != "0" && value != "off" && value != "no";
            }
        }
        // A handle that only reads still wants write permission where it can be had: without it nobody
        // could keep the writers of other processes out.
        let read_only = flags & SQLITE_OPEN_READONLY != 0;
        let wanted = if read_only { flags & !SQLITE_OPEN_READONLY | SQLITE_OPEN_READWRITE } else { flags };
        self.close_devices(&mut options)?;
        let (opened, out) = self.open_file(path, FileKind::Database, wanted)?;
        let writable = out & SQLITE_OPEN_READWRITE != 0;
        let id = opened.file.id();
        if self.is_foreign_wal(path, &*opened.file, &options, writable)? {
            return Err(Error::LeftToPlatform);
        }
        // One that is damaged is refused with the first lock.
        let tiered = options.tier.is_some() || !matches!(tier_of(&*opened.file), Ok(None));
        let database = self.databases.get_or_insert(id, || {
            OpenDatabase::new(DatabaseSetup {
                host: (!self.pass_through).then(|| Host { api, vfs: self.name.clone() }),
                medium: self.medium.clone(),
                file: opened.file.clone(),
                path: path.to_owned(),
                options,
                writable,
                // SQLite itself leaves the name of a new database to the file system. An empty file counts
                // as new: whoever created it may have synced nothing.
                holds_back: !self.pass_through,
                pooled: !self.pass_through,
                created: !self.pass_through && (opened.created || opened.file.is_empty().unwrap_or(true)),
            })
        });
        if !self.pass_through {
            self.databases.all_at(&database).iter().for_each(|former| former.give_up_names());
        }
        if !self.pass_through && tiered {
            // What is wrong with it is told by the open, which has a message. That another process has the database
            // is not: SQLite's busy handler is asked first.
            match database.own() {
                Ok(()) | Err(Error::Owned { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let read_only = read_only || !writable;
        let flags = if read_only {
            out & !(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_READONLY
        } else {
            out
        };
        let handle = MainFile::new(database, read_only, powersafe_overwrite, unlocked);
        Ok(Opened { handle: AnyHandle::Main(Box::new(handle)), flags })
    }

    /// Whether a database is one that only SQLite's own protocol can read: in WAL mode, and without write permission for
    /// it or for its log. To own it takes a lock that takes this permission, and the wal-index must then be one
    /// that other processes see.
    fn is_foreign_wal(
        &self,
        path: &Path,
        file: &dyn File,
        options: &Options,
        writable: bool,
    ) -> Result<bool> {
        if self.pass_through || options.tier.is_some() || self.databases.has(file.id()) {
            return Ok(false);
        }
        let log = self.medium.info(&Companion::Wal.of(path))?;
        let is_foreign = if writable {
            log.is_some_and(|log| !log.writable)
        } else {
            let mut versions = [0; 2];
            log.is_some_and(|log| log.len > 0)
                || (file.read_at(&mut versions, VERSIONS_AT).is_ok() && versions == [2, 2])
        };
        // What is only there as statements is for us to run again, or to refuse.
        Ok(is_foreign && self.medium.info(&Companion::CommitLog.of(path))?.is_none_or(|log| log.len == 0))
    }

    /// Checks the options of a tier, and lets the paths of devices survive a change of the directory.
    fn close_devices(&self, options: &mut Options) -> Result<()> {
        if let Some(commit_log_path) = &mut options.commit_log_path {
            *commit_log_path = self.medium.absolute(commit_log_path)?.path;
        }
        let Some(tier) = &options.tier else { return Ok(()) };
        if self.pass_through || options.passthrough {
            return Err(Error::Refused(format!(
                "{}: a tier needs a database that one process owns: leave passthrough=1 out; nothing was opened",
                tier.display()
            )));
        }
        options.tier = Some(self.medium.absolute(tier)?.path);
        Ok(())
    }

    /// In a forked child: the database of an inherited connection, opened by this process.
    pub(crate) fn open_again(&self, parents: &OpenDatabase) -> Result<Arc<OpenDatabase>> {
        let mode = if parents.db().writable() { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let file = self.medium.open(parents.db().path(), FileKind::Database, mode)?;
        let id = parents.db().file().id();
        if file.id() != id {
            return Err(Error::Refused(format!(
                "{}: this connection was opened before fork(), and another file has taken the place of the database since; \
                 open it again",
                parents.db().path().display()
            )));
        }
        Ok(self.databases.get_or_insert(id, || {
            OpenDatabase::new(DatabaseSetup {
                host: parents.host(),
                medium: self.medium.clone(),
                file,
                path: parents.db().path().to_owned(),
                options: parents.db().options().clone(),
                writable: parents.db().writable(),
                holds_back: !self.pass_through,
                pooled: !self.pass_through,
                created: false,
            })
        }))
    }

    /// Where a log of the database that is opened again has its spill from.
    pub(crate) fn provide_spill(&self, database: &OpenDatabase) -> MakeSpill {
        let files = self.temporary_files_of(database);
        let spill = move || -> MakeSpill {
            let files = files.clone();
            Box::new(move || files.open())
        };
        let made = spill();
        database.handover().set_spill_source(Box::new(spill));
        made
    }

    /// Opens a journal or a log: the one in memory where it is known to be the connection's, else the file.
    fn open_companion_file(
        &self,
        path: &Path,
        flags: c_int,
        connection: Option<Arc<ConnectionState>>,
    ) -> Result<Opened> {
        if let Some(connection) = connection.as_ref().filter(|connection| connection.may_hold()) {
            if flags & SQLITE_OPEN_WAL != 0
                && let Some(wal) = self.wal_of(&connection.database)?
            {
                // With the lock that it has, the connection will make an index of its own from the log.
                if connection.reader_slot.level() == Level::Exclusive {
                    wal.rebuild_checksums(connection.database.db())?;
                }
                return Ok(Opened::new(WalFile::new(connection.clone(), wal), flags));
            }
            if flags & SQLITE_OPEN_WAL == 0 && flags & SQLITE_OPEN_CREATE != 0 {
                connection.begin_writing();
                let memory = self.memory(&connection.database);
                return Ok(Opened::new(JournalFile::new(connection.clone(), memory), flags));
            }
        }
        let is_new = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_CREATE) != 0;
        let database = match connection {
            Some(connection) => Some(connection.database.clone()),
            None => self.companion_at(path).map(|(database, _)| database),
        };
        if let Some(database) = database.as_ref().filter(|database| is_new && database.db().holds_back()) {
            database.go_native()?;
        }
        self.open_companion(path, flags, database)
    }

    /// The open database whose log or journal would have that path, and which of them it is.
    fn companion_at(&self, path: &Path) -> Option<(Arc<OpenDatabase>, Companion)> {
        // A VFS above may say it by another way than the core, which knows absolute paths only.
        if path.is_absolute() {
            return self.databases.companion_at(path);
        }
        self.databases.companion_at(&self.medium.absolute(path).ok()?.path)
    }

    /// The log in memory of a database; `None` where SQLite's own protocol is used.
    fn wal_of(&self, database: &Arc<OpenDatabase>) -> Result<Option<Arc<Wal>>> {
        if self.pass_through || !database.db().writable() || database.is_native() {
            return Ok(None);
        }
        database.rollback_log().retire(database.db())?;
        if database.wal().is_none() && !database.db().has_its_name() {
            let name = database.db().path().display();
            let what =
                format!("{name}: renamed or removed since it was opened: it cannot begin a write-ahead log");
            return Err(Error::Refused(what));
        }
        let spill = self.provide_spill(database);
        database.wal_or_open(spill).map(Some)
    }

    fn open_companion(
        &self,
        path: &Path,
        flags: c_int,
        database: Option<Arc<OpenDatabase>>,
    ) -> Result<Opened> {
        let kind = if flags & SQLITE_OPEN_WAL != 0 {
            FileKind::RedoLog
        } else if flags & SQLITE_OPEN_SUPER_JOURNAL != 0 {
            FileKind::SuperJournal
        } else {
            FileKind::Journal
        };
        if let (Some(database), true) = (&database, flags & SQLITE_OPEN_CREATE != 0) {
            let is_log = flags & SQLITE_OPEN_WAL != 0;
            database
                .db()
                .companions()
                .set_alone(if is_log { Companion::Wal } else { Companion::Journal }, false);
        }
        let (opened, flags) = self.open_file(path, kind, flags)?;
        // As SQLite's own VFS does: the directory is synced with the first sync of a handle that may have
        // created the file, whether it did or not.
        let name_unsynced = flags & SQLITE_OPEN_CREATE != 0;
        let (medium, file) = match &database {
            Some(database) => (database.db().medium(), database.db().metered(opened.file, kind)),
            None => (&self.medium, opened.file),
        };
        // Where it is not known whose it is, it may be one of ours.
        let settles = database.as_ref().map_or(!self.pass_through, |database| database.db().holds_back());
        let handle = PassThroughFile::companion(medium.clone(), file, database, name_unsynced, settles);
        Ok(Opened::new(handle, flags))
    }

    fn open_temporary(&self, flags: c_int) -> Result<Opened> {
        let file = self.temporary_files().open()?;
        Ok(Opened::new(PassThroughFile::temporary(self.medium.clone(), file, false), flags))
    }

    /// A file in memory that keeps as many bytes there as the database allows.
    fn memory(&self, database: &OpenDatabase) -> MemoryFile {
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
    fn temporary_files_of(&self, database: &OpenDatabase) -> TemporaryFiles {
        TemporaryFiles { medium: database.db().medium().clone(), vfs: self.name.clone() }
    }

    /// Opens by SQLite's flags; without write permission a read-write open falls back to reading.
    fn open_file(&self, path: &Path, kind: FileKind, flags: c_int) -> Result<(OpenedFile, c_int)> {
        let mode = if flags & SQLITE_OPEN_READWRITE == 0 {
            OpenMode::ReadOnly
        } else if flags & SQLITE_OPEN_CREATE == 0 {
            OpenMode::ReadWrite
        } else if flags & SQLITE_OPEN_EXCLUSIVE != 0 {
            OpenMode::CreateNew
        } else {
            OpenMode::Create
        };
        let existed = mode != OpenMode::Create || self.medium.info(path)?.is_some();
        match self.medium.open(path, kind, mode) {
            Ok(file) => {
                let created = mode == OpenMode::CreateNew || !existed;
                Ok((OpenedFile { file, created }, flags))
            }
            Err(error) if error.kind() == ErrorKind::Permission && mode != OpenMode::ReadOnly && existed => {
                let file = self.medium.open(path, kind, OpenMode::ReadOnly)?;
                let flags = flags & !(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_READONLY;
                Ok((OpenedFile { file, created: false }, flags))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn delete(&self, path: &Path, sync_directory: bool) -> Result<()> {
        let companion = self.companion_at(path);
        match &companion {
            Some((database, Companion::Wal)) => {
                if let Some(wal) = database.wal() {
                    // The next log begins from nothing; until then the database is not in WAL mode.
                    database.shared_capture().close_reference();
                    wal.delete(database.db())?;
                    database.reset_wal();
                    return Ok(());
                }
                if database.rollback_log().is_live() {
                    return Ok(());
                }
            }
            // A journal in memory is gone with its handle.
            Some((database, Companion::Journal))
                if database.db().companions().is_alone(Companion::Journal) =>
            {
                return Ok(());
            }
            _ => {}
        }
        if companion.is_none() && self.databases.is_inherited(path) {
            return Err(Error::Forked { path: path.to_owned() });
        }
        let actual = actual(path, companion.as_ref());
        self.medium.delete(&actual)?;
        // SQLite asks for it at synchronous=EXTRA only. At FULL a deleted journal could then come back after
        // a power cut and roll an acknowledged transaction back, or an old log be taken for a new one.
        if sync_directory || !self.pass_through {
            self.medium.sync_directory(parent_directory(&actual))?;
            if let Some((database, companion)) = companion {
                database.db().companions().set_alone(companion, true);
            }
        }
        Ok(())
    }

    /// Which registry has its databases.
    pub(crate) fn registry(&self) -> u64 {
        self.databases.id()
    }

    /// Whether there is a file, or one that can be used, as far as [`beside::lacks`] has not answered already.
    pub(crate) fn access(&self, path: &Path, flags: c_int) -> Result<bool> {
        let companion = self.companion_at(path);
        if let Some((database, companion)) = &companion {
            if let (Companion::Wal, Some(wal)) = (companion, database.wal()) {
                return Ok(flags != SQLITE_ACCESS_EXISTS || wal.bytes() > 0);
            }
            let hidden = *companion == Companion::Wal && database.rollback_log().is_live();
            if hidden || database.db().companions().is_alone(*companion) {
                return Ok(false);
            }
        }
        let Some(info) = self.medium.info(&actual(path, companion.as_ref()))? else { return Ok(false) };
        Ok(match flags {
            // SQLite takes an empty file for none: a journal of zero bytes is not hot.
            SQLITE_ACCESS_EXISTS => !info.is_file || info.len > 0,
            SQLITE_ACCESS_READWRITE => info.readable && info.writable,
            _ => info.readable,
        })
    }

    /// The name that the file at `path` has behind all symbolic links, and what lies beside it belongs to.
    pub(crate) fn full_pathname(&self, path: &Path) -> Result<Resolved> {
        self.medium.absolute(path).map_err(|error| Error::CannotOpen(error, "check the path"))
    }
}

struct OpenedFile {
    file: Arc<dyn File>,
    created: bool,
}

/// Whether SQLite takes the value of a URI parameter for "yes".
fn is_true(value: &str) -> bool {
    let words = ["on", "yes", "true"];
    words.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.parse::<i64>().is_ok_and(|number| number != 0)
}

/// Where that is which SQLite looks for beside a database: with a tier the log lies elsewhere.
fn actual(path: &Path, companion: Option<&(Arc<OpenDatabase>, Companion)>) -> PathBuf {
    companion
        .map_or_else(|| path.to_owned(), |(database, companion)| database.db().companion_path(*companion))
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

//! The place of the copy: what may be replaced, and how the copy appears there.

use crate::commands::check::integrity_findings;
use crate::inspect::{self, Content, Presence};
use crate::open::percent_encoded;
use litefoot::stats::processes_that_opened;
use litefoot_storage::file::{ErrorKind, FileId, Medium, beside, parent_directory};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::output::Output;
use litefoot_terminal::text::printable;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Permission bits of a mode.
const PERMISSION_BITS: u32 = 0o777;

/// The place of a copy that becomes a file.
pub struct Target {
    path: PathBuf,
    force: bool,
}

impl Target {
    /// Checks the place, before anything is copied.
    pub fn new(place: &Path, database: &Path, force: bool) -> Result<Target, Failure> {
        let source = inspect::regular_file(database)?.id;
        // Behind a symbolic link, the file it leads to is replaced.
        let path = if force {
            fs::canonicalize(place).unwrap_or_else(|_| place.to_owned())
        } else {
            place.to_owned()
        };
        let target = Target { path, force };
        let found = match fs::symlink_metadata(&target.path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::file(place, error).advice("Check the path; nothing was made.")),
        };
        let replaces = found.is_some();
        if let Some(found) = found {
            if found.is_dir() {
                return Err(Failure::file(place, "is a directory").advice("Name the file to be made in it."));
            }
            let id =
                fs::metadata(&target.path).map(|found| FileId { device: found.dev(), inode: found.ino() });
            if id.is_ok_and(|id| id == source) {
                return Err(Failure::file(place, "is the database itself").advice("Name another file."));
            }
            if !force {
                return Err(exists(place));
            }
            if !found.is_file() {
                return Err(
                    Failure::file(place, "is not a regular file").advice("Name a new file, or use --to -.")
                );
            }
            refuse_in_use(place, FileId { device: found.dev(), inode: found.ino() })?;
        }
        refuse_logs(&target.path, replaces)?;
        Ok(target)
    }

    fn directory(&self) -> &Path {
        parent_directory(&self.path)
    }
}

fn exists(place: &Path) -> Failure {
    Failure::file(place, "there is a file already")
        .advice("Name a new file, or replace this one with --force.")
}

/// A file that a program has open is not taken away from under it.
fn refuse_in_use(place: &Path, file: FileId) -> Result<(), Failure> {
    let published = match Presence::find(file) {
        Presence::None => processes_that_opened(file).first().copied(),
        present => present.published().map(|published| published.process),
    };
    let Some(process) = published else { return Ok(()) };
    let what = format!("{} has this file open", inspect::process(Some(process)));
    Err(Failure::file(place, what).advice("Close it first, or name another file."))
}

/// The files that would be taken for the copy's own.
const LOGS: [&str; 3] = ["-wal", "-journal", "-commits"];

/// Refuses logs beside the place of the copy, but for those of the file that is replaced in which nothing stands.
fn refuse_logs(path: &Path, replaces: bool) -> Result<(), Failure> {
    let files = if replaces { inspect::look(path).ok() } else { None };
    let is_void = |ending| {
        files.as_ref().is_some_and(|files| match ending {
            "-wal" => files.wal.as_ref().is_some_and(|wal| !wal.foreign && wal.committed_frames == 0),
            "-journal" => files.journal.as_ref().is_some_and(|journal| journal.content == Content::Finished),
            _ => false,
        })
    };
    for ending in LOGS {
        let log = beside(path, ending);
        let info = OsMedium.info(&log).map_err(|error| Failure::new(error.to_string()))?;
        if info.is_some_and(|info| info.len > 0) && !is_void(ending) {
            return Err(Failure::file(&log, "there is a log, which would be taken for the copy's").advice(
                "Name another file; or bring the log home with litefoot release, or remove it, if it is of no use.",
            ));
        }
    }
    Ok(())
}

/// Removes the void logs of the file that is replaced.
fn remove_void_logs(path: &Path) -> Result<(), Failure> {
    for ending in ["-wal", "-journal", "-shm"] {
        match fs::remove_file(beside(path, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(
                    Failure::file(&beside(path, ending), error).advice("Nothing was left of the copy.")
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// A copy without a name of its own yet. It goes when this is dropped.
pub struct Unfinished {
    file: NamedTempFile,
    /// The directory, as the user knows it.
    directory: PathBuf,
}

impl Unfinished {
    /// A file beside the place of the copy, so that it can be renamed.
    pub fn beside(target: &Target) -> Result<Unfinished, Failure> {
        Unfinished::within(target.directory().to_owned())
    }

    /// A file in a directory.
    pub fn within(directory: PathBuf) -> Result<Unfinished, Failure> {
        let file =
            tempfile::Builder::new().prefix(".litefoot-backup-").suffix(".tmp").tempfile_in(&directory);
        let file = file.map_err(|error| cannot_write(&directory, &error))?;
        interrupt::remove_at_exit(Some(file.path().to_owned()));
        Ok(Unfinished { file, directory })
    }

    /// The file.
    pub fn file(&self) -> &fs::File {
        self.file.as_file()
    }

    /// The message about an error of a write to it.
    pub fn cannot_write(&self, error: &io::Error) -> Failure {
        cannot_write(&self.directory, error)
    }

    /// A connection that writes it. The file is nobody else's, and is synced once, at the end.
    pub fn connect(&self) -> Result<Connection, Failure> {
        let empty = |error: io::Error| cannot_write(&self.directory, &error);
        self.file.as_file().set_len(0).map_err(empty)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(self.file.path(), flags, c"unix");
        connection
            .and_then(|connection| {
                connection.execute_batch(
                    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE",
                )?;
                Ok(connection)
            })
            .map_err(|error| self.explain(&error))
    }

    /// The message about an error that came from the copy.
    pub fn explain(&self, error: &rusqlite::Error) -> Failure {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => full(&self.directory),
            _ => Failure::file(&self.directory, format!("the copy cannot be written: {error}"))
                .advice("Nothing was left. Look at the system's log for the device."),
        }
    }

    /// Runs SQLite's integrity check on it.
    pub fn check(&self, database: &Path) -> Result<(), Failure> {
        let name = format!("file:{}?immutable=1", percent_encoded(self.file.path().as_os_str().as_bytes()));
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let found = Connection::open_with_flags_and_vfs(name, flags, c"unix").and_then(|copy| {
            let _watch = interrupt::watch(&copy);
            integrity_findings(&copy, 1)
        });
        interrupt::check()?;
        match found.map(|found| found.into_iter().next()) {
            Ok(None) => Ok(()),
            Ok(Some(finding)) => Err(damaged(database, &finding)),
            Err(error) => Err(damaged(database, &error.to_string())),
        }
    }

    /// Writes it to standard output.
    pub fn stream(mut self) -> Result<(), Failure> {
        let file = self.file.as_file_mut();
        let mut output = Output::lock();
        let mut buffer = vec![0; 1 << 18];
        loop {
            interrupt::check()?;
            let read =
                io::Read::read(file, &mut buffer).map_err(|error| cannot_write(&self.directory, &error))?;
            if read == 0 {
                break;
            }
            output.bytes(&buffer[..read])?;
        }
        output.flush()?;
        interrupt::remove_at_exit(None);
        Ok(())
    }

    /// Makes it durable, with the mode and the owner of the database, under its name. Answers its length.
    pub fn publish(self, target: &Target, database: &Path) -> Result<u64, Failure> {
        let fail = |error: io::Error| cannot_write(&self.directory, &error);
        let file = self.file.as_file();
        let like = fs::metadata(database).map_err(|error| Failure::file(database, error))?;
        // Only root can give files away; and others only to groups of theirs.
        let _ = fchown(file, None, Some(like.gid()));
        let _ = fchown(file, Some(like.uid()), None);
        file.set_permissions(fs::Permissions::from_mode(like.mode() & PERMISSION_BITS)).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        interrupt::check()?;
        let bytes = file.metadata().map_err(fail)?.len();
        let from = self.file.path();
        if target.force {
            remove_void_logs(&target.path)?;
            OsMedium.rename(from, &target.path)
        } else {
            OsMedium.rename_new(from, &target.path)
        }
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&target.path),
            _ => Failure::new(error.to_string()).advice("Nothing was left of the copy."),
        })?;
        interrupt::remove_at_exit(None);
        OsMedium.sync_directory(target.directory()).map_err(|error| {
            Failure::new(error.to_string())
                .advice("The copy is there, and a power cut may take its name away.")
        })?;
        Ok(bytes)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        interrupt::remove_at_exit(None);
    }
}

fn damaged(database: &Path, finding: &str) -> Failure {
    let what = format!("its copy is damaged, and was not kept: {}", printable(finding));
    Failure::file(database, what).advice("`litefoot check` says what is wrong with the database.")
}

fn full(directory: &Path) -> Failure {
    Failure::file(directory, "the disk is full").advice("Nothing was left. Make room, or name another place.")
}

fn cannot_write(directory: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(directory),
        io::ErrorKind::NotFound => Failure::file(directory, "no such directory").advice("Create it first."),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Failure::file(directory, "the copy cannot be made in this directory: it cannot be written")
                .advice("Check the permissions of the directory.")
        }
        _ => Failure::file(directory, format!("the copy cannot be made in this directory: {error}"))
            .advice("Nothing was left."),
    }
}

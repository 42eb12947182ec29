//! Opening and creating files of the operating system.
//!
//! # Why
//! A database may lie in a directory that other users may write to. They can put links, pipes and files at every name
//! that is used there. The rights of a database are its owner's decision, also over copies of its pages.
//!
//! # What it promises
//! 1. No symbolic link is followed in the last part of a path; [`Medium::absolute`](crate::file::Medium::absolute) comes first
//!    where one may be. A file is created only where there was none (`O_EXCL`).
//! 2. Every file that is opened beside a database is a regular file. No pipe or device is waited for, and no terminal
//!    taken.
//! 3. A file that belongs to a database has the mode of the database from the first moment on, whatever the umask. As
//!    root, its owner and group are set before a byte is in it. Files without a database are private to the user.
//! 4. No descriptor below 3 is kept: a program with closed standard streams must not print to a database, or close it.
//! 5. No program that this process starts inherits a descriptor.
//! 6. A file without a name is private to the user, and stays without one.

#[cfg(target_os = "linux")]
use super::leased;
use crate::file::{FileKind, OpenMode, user};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Rights of a file that only its owner may read.
const PRIVATE: u32 = 0o600;
/// Rights of a new database, less the umask.
const PUBLIC: u32 = 0o644;
/// Bits of a mode that are passed on to files beside a database.
pub(super) const RIGHTS: u32 = 0o777;
/// How files are opened: what is no file must not be waited for.
const FLAGS: libc::c_int = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
/// Attempts to either open or create a file that others create and remove.
const ATTEMPTS: u32 = 8;
/// First descriptor that is no standard stream.
const FIRST_FREE: libc::c_int = 3;

/// The rights that a file beside a database gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    mode: u32,
    user: u32,
    group: u32,
}

impl Rights {
    /// The rights of a database.
    pub fn of(database: &Metadata) -> Rights {
        Rights { mode: database.mode() & RIGHTS, user: database.uid(), group: database.gid() }
    }

    /// The rights of the database beside a log or journal: its name is the part before the last hyphen, as in SQLite.
    fn beside(path: &Path) -> Option<Rights> {
        let name = path.file_name()?.as_bytes();
        let hyphen = name.iter().rposition(|byte| *byte == b'-').filter(|at| *at > 0)?;
        let database: PathBuf = path.with_file_name(OsStr::from_bytes(&name[..hyphen]));
        fs::symlink_metadata(database).ok().filter(Metadata::is_file).map(|found| Rights::of(&found))
    }
}

/// What an open does about another process's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtLease {
    /// It waits until the lease is given back.
    Waits,
    /// It fails with `WouldBlock`. The holder has been told.
    Fails,
}

/// Opens a file; `rights` are those of its database, where it is known.
pub(super) fn open(
    path: &Path,
    kind: FileKind,
    mode: OpenMode,
    at_lease: AtLease,
    rights: impl Fn() -> Option<Rights>,
) -> io::Result<(File, Metadata)> {
    let create = || create(path, kind, rights());
    let existing = |path, write| existing(path, write, at_lease);
    let file = match mode {
        OpenMode::ReadOnly => existing(path, false)?,
        OpenMode::ReadWrite => existing(path, true)?,
        OpenMode::CreateNew => create().map_err(|error| as_link(path, error))?,
        OpenMode::Create => {
            let mut attempts = 1;
            loop {
                match existing(path, true) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => break opened?,
                }
                match create() {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < ATTEMPTS => {}
                    created => break created?,
                }
                attempts += 1;
            }
        }
    };
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if kind != FileKind::Database && !metadata.is_file() {
        return Err(io::Error::other("it is no regular file, and was left alone; move it away"));
    }
    // A file that must not be waited for has its requests refused where a device would have to be.
    // SAFETY: plain system call on a descriptor we own; no other flag was set.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((file, metadata))
}

/// Makes a file without a name in a directory, which nobody can give one. Fails where the file system has none (`EOPNOTSUPP`), and where the directory
/// may not be written.
#[cfg(target_os = "linux")]
pub(super) fn nameless(directory: &Path) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(PRIVATE).custom_flags(libc::O_TMPFILE | libc::O_EXCL);
    let file = above_standard_streams(options.open(directory)?)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

fn options(write: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(write).custom_flags(FLAGS);
    options
}

fn existing(path: &Path, write: bool, at_lease: AtLease) -> io::Result<File> {
    let attempt = || options(write).open(path);
    #[cfg(target_os = "linux")]
    let attempt = || match at_lease {
        AtLease::Waits => leased::open(path, write, attempt),
        AtLease::Fails => attempt(),
    };
    #[cfg(not(target_os = "linux"))]
    let _ = at_lease;
    above_standard_streams(attempt()?)
}

fn create(path: &Path, kind: FileKind, rights: Option<Rights>) -> io::Result<File> {
    let belongs = matches!(
        kind,
        FileKind::RedoLog | FileKind::CommitLog | FileKind::Journal | FileKind::Tier | FileKind::WalIndex
    );
    let rights = if belongs { rights.or_else(|| Rights::beside(path)) } else { None };
    let mode = match (rights, kind) {
        (Some(rights), _) => rights.mode,
        (None, FileKind::Database | FileKind::SuperJournal | FileKind::Metadata) => PUBLIC,
        (None, _) => PRIVATE,
    };
    let file = above_standard_streams(options(true).mode(mode).create_new(true).open(path)?)?;
    let Some(rights) = rights else { return Ok(file) };
    let made = file.metadata()?;
    if made.mode() & RIGHTS != rights.mode {
        file.set_permissions(fs::Permissions::from_mode(rights.mode))?;
    }
    if user() == 0 && (made.uid(), made.gid()) != (rights.user, rights.group) {
        // Where the file system has no owners, or this root may not change them, the file is as good as SQLite's own.
        let _ = fchown(&file, Some(rights.user), Some(rights.group));
    }
    Ok(file)
}

/// The error for a link in the place of a new file: the same as for a link in the place of an existing one.
fn as_link(path: &Path, error: io::Error) -> io::Error {
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if error.kind() == io::ErrorKind::AlreadyExists && is_link() {
        return io::Error::from_raw_os_error(libc::ELOOP);
    }
    error
}

/// Gives a file a descriptor above those of the standard streams.
pub(super) fn above_standard_streams(file: File) -> io::Result<File> {
    let low = file.as_raw_fd();
    if low >= FIRST_FREE {
        return Ok(file);
    }
    // SAFETY: plain system call on a descriptor we own.
    let moved = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, FIRST_FREE) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and has no other owner.
    let moved = unsafe { File::from_raw_fd(moved) };
    // As SQLite does: the next file that the process opens must not get that descriptor either.
    drop(file);
    while let Ok(null) = File::open("/dev/null") {
        if null.as_raw_fd() >= FIRST_FREE {
            break;
        }
        let _ = null.into_raw_fd();
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Medium;
    use crate::file::{FileKind, OpenMode};
    use crate::os::OsMedium;
    use std::io::IoSlice;
    use std::os::unix::fs::symlink;

    const LOGS: [(FileKind, &str); 3] = [
        (FileKind::RedoLog, "app.db-wal"),
        (FileKind::CommitLog, "app.db-commits"),
        (FileKind::Journal, "app.db-journal"),
    ];

    /// The rights are found by the database's name, or known.
    #[test]
    fn a_log_has_the_mode_of_its_database_and_as_root_its_owner() {
        for mode in [0o600, 0o640, 0o666] {
            let directory = tempfile::tempdir().unwrap();
            let database = directory.path().join("app.db");
            fs::write(&database, "").unwrap();
            fs::set_permissions(&database, fs::Permissions::from_mode(mode)).unwrap();
            if user() == 0 {
                std::os::unix::fs::chown(&database, Some(65_534), Some(65_533)).unwrap();
            }
            let rights = Rights::of(&fs::metadata(&database).unwrap());
            for (kind, name) in LOGS {
                for (path, known) in [(name, None), ("elsewhere", Some(rights))] {
                    let path = directory.path().join(path);
                    let (_, made) = open(&path, kind, OpenMode::CreateNew, AtLease::Waits, || known).unwrap();
                    let made_rights = (made.mode() & RIGHTS, made.uid(), made.gid());
                    assert_eq!(made_rights, (mode, rights.user, rights.group), "{kind:?} {}", path.display());
                    fs::remove_file(&path).unwrap();
                }
            }
        }
    }

    #[test]
    fn no_link_is_followed_nothing_is_replaced_and_nothing_inherited() {
        let directory = tempfile::tempdir().unwrap();
        let (target, dangling) = (directory.path().join("target"), directory.path().join("missing"));
        fs::write(&target, "theirs").unwrap();
        for (kind, name) in LOGS {
            let path = directory.path().join(name);
            let tried = |mode| {
                open(&path, kind, mode, AtLease::Waits, || None)
                    .map(drop)
                    .map_err(|error| error.raw_os_error())
            };
            for to in [&target, &dangling] {
                symlink(to, &path).unwrap();
                for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::Create, OpenMode::CreateNew] {
                    assert_eq!(tried(mode), Err(Some(libc::ELOOP)), "{kind:?} {mode:?}");
                }
                fs::remove_file(&path).unwrap();
            }
            let (file, _) = open(&path, kind, OpenMode::Create, AtLease::Waits, || None).unwrap();
            assert_eq!(tried(OpenMode::CreateNew), Err(Some(libc::EEXIST)), "{kind:?}");
            // SAFETY: asks only.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert!(flags & libc::FD_CLOEXEC != 0, "{kind:?}");
        }
        assert!(!dangling.exists());
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_nameless_file_is_written_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = OsMedium.open_nameless(directory.path()).expect("a file system with such files");
        file.write_durable_at(&[IoSlice::new(b"bytes")], 0).unwrap();
        let mut read = [0; 5];
        assert_eq!((file.read_at(&mut read, 0).unwrap(), &read), (5, b"bytes"));
        assert_eq!(file.id().device, fs::metadata(directory.path()).unwrap().dev());
        let descriptor = file.raw_descriptor().unwrap();
        // SAFETY: asks only.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        assert!(flags & libc::FD_CLOEXEC != 0);
        let found = fs::metadata(format!("/proc/self/fd/{descriptor}")).unwrap();
        assert_eq!((found.mode() & RIGHTS, found.nlink()), (PRIVATE, 0));
        let name = directory.path().join("name");
        let link = |to: &Path| {
            let from = std::ffi::CString::new(format!("/proc/self/fd/{descriptor}")).unwrap();
            let to = std::ffi::CString::new(to.as_os_str().as_bytes()).unwrap();
            let here = libc::AT_FDCWD;
            // SAFETY: both are NUL-terminated strings that outlive the call.
            unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) }
        };
        assert_eq!(link(&name), -1);
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(OsMedium.open_nameless(&name).is_none());
        let database = OsMedium.open(&name, FileKind::Database, OpenMode::CreateNew).unwrap();
        assert!(OsMedium.for_database(&database).unwrap().open_nameless(directory.path()).is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_that_may_not_be_written_gets_no_nameless_file() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().to_owned();
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set(0o555);
        let its = path.clone();
        let asked = std::thread::spawn(move || {
            if user() == 0 {
                // SAFETY: changes this thread, which ends.
                unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            }
            OsMedium.open_nameless(&its).is_some()
        });
        assert!(!asked.join().unwrap());
        set(0o755);
        assert!(OsMedium.open_nameless(&path).is_some());
    }
}

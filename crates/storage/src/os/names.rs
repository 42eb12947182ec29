//! Questions about names, and renames: system calls that take a path.

use crate::file::{FileId, PathInfo};
#[cfg(target_os = "linux")]
use crate::os::calls::statx;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A path as system calls take it, ended by NUL.
fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A rename that replaces nothing. Where the file system has none, a file that appears between check and rename is lost.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let from = c_path(from)?;
        let to = c_path(to)?;
        // SAFETY: both are NUL-terminated strings that outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_renameat2,
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::RENAME_NOREPLACE,
            )
        };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) {
            return Err(error);
        }
    }
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// What becomes of a symbolic link in the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// The file that it leads to is meant.
    Followed,
    /// The link itself is meant.
    Kept,
}

/// The identity and the length of the file at `path`, without its times.
///
/// A file system with exact times (Linux 6.13) notes that they were asked for. The next change of the file is then
/// written to its journal. A commit that asked for the times of its log took 1.4 times as long.
#[cfg(target_os = "linux")]
pub(super) fn glance(path: &Path, links: Links) -> io::Result<(FileId, u64)> {
    let name = c_path(path)?;
    let mask = libc::STATX_INO | libc::STATX_SIZE;
    let flags = if links == Links::Kept { libc::AT_SYMLINK_NOFOLLOW } else { 0 };
    let error = match statx(libc::AT_FDCWD, &name, flags, mask) {
        Ok(found) => {
            let device = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
            return Ok((FileId { device, inode: found.stx_ino }, found.stx_size));
        }
        Err(error) => error,
    };
    // Sandboxes know the older call only.
    if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
        glance_with_times(path, links)
    } else {
        Err(error)
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn glance(path: &Path, links: Links) -> io::Result<(FileId, u64)> {
    glance_with_times(path, links)
}

fn glance_with_times(path: &Path, links: Links) -> io::Result<(FileId, u64)> {
    let metadata = match links {
        Links::Followed => fs::metadata(path)?,
        Links::Kept => fs::symlink_metadata(path)?,
    };
    Ok((FileId { device: metadata.dev(), inode: metadata.ino() }, metadata.len()))
}

/// The properties of the file at `path`.
pub(super) fn info(path: &Path) -> io::Result<PathInfo> {
    let metadata = fs::metadata(path)?;
    let (readable, writable) = rights(path);
    Ok(PathInfo {
        id: FileId { device: metadata.dev(), inode: metadata.ino() },
        len: metadata.len(),
        is_file: metadata.is_file(),
        readable,
        writable,
        owner: metadata.uid(),
        group: metadata.gid(),
        mode: metadata.mode() & super::opening::RIGHTS,
    })
}

/// True if this process may open a file for reading, and for writing.
fn rights(path: &Path) -> (bool, bool) {
    let Ok(path) = c_path(path) else { return (false, false) };
    // One question where all is allowed, as it mostly is.
    if has_access(&path, libc::R_OK | libc::W_OK) {
        return (true, true);
    }
    (has_access(&path, libc::R_OK), has_access(&path, libc::W_OK))
}

/// True if this process may open a file in this way (`R_OK`, `W_OK`).
fn has_access(path: &CStr, mode: libc::c_int) -> bool {
    // SAFETY: `path` is a NUL-terminated string that outlives the calls.
    unsafe {
        // The C library's function asks for the user first, with calls of its own.
        #[cfg(target_os = "linux")]
        {
            let (directory, flags) = (libc::AT_FDCWD, libc::AT_EACCESS);
            if libc::syscall(libc::SYS_faccessat2, directory, path.as_ptr(), mode, flags) == 0 {
                return true;
            }
            // Before Linux 5.8, and in old sandboxes, it is unknown.
            if !matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
                return false;
            }
        }
        // The first asks for the user who has started the process. The other one is unknown to old sandboxes.
        if (libc::getuid(), libc::getgid()) == (libc::geteuid(), libc::getegid()) {
            libc::access(path.as_ptr(), mode) == 0
        } else {
            libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_rename_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        let cases = [
            ("a", "b", Some(io::ErrorKind::AlreadyExists)),
            ("none", "c", Some(io::ErrorKind::NotFound)),
            ("a", "c", None),
        ];
        for (from, to, expected) in cases {
            assert_eq!(
                rename_new(&path(from), &path(to)).err().map(|error| error.kind()),
                expected,
                "{from} {to}"
            );
        }
        assert_eq!(fs::read(path("b")).unwrap(), b"b");
        assert_eq!(fs::read(path("c")).unwrap(), b"a");
    }

    #[test]
    fn a_glance_says_the_same_with_and_without_times() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("f"), directory.path().join("link"));
        let followed = |path: &Path| glance(path, Links::Followed);
        assert_eq!(followed(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "four").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let (id, len) = followed(&path).unwrap();
        assert_eq!((id, len), info(&path).map(|info| (info.id, info.len)).unwrap());
        assert_eq!((len, followed(&link).unwrap()), (4, (id, 4)));
        assert_eq!(glance(&path, Links::Kept).unwrap(), (id, len));
        assert!(glance(&link, Links::Kept).unwrap().0 != id);
        for links in [Links::Followed, Links::Kept] {
            for path in [&path, &link] {
                assert_eq!(glance(path, links).unwrap(), glance_with_times(path, links).unwrap());
            }
        }
        assert!(followed(Path::new("a\0b")).is_err() && rights(Path::new("a\0b")) == (false, false));
    }

    #[test]
    fn access_is_that_of_the_user_whose_rights_the_process_has() {
        // SAFETY: asks only.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("f");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let rights = |path: &Path| info(path).map(|info| (info.readable, info.writable)).unwrap();
        assert_eq!(rights(&path), (true, true));
        let answer = std::thread::spawn(move || {
            // SAFETY: changes this thread, which ends.
            unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
            rights(&path)
        });
        assert_eq!(answer.join().unwrap(), (true, false));
    }
}

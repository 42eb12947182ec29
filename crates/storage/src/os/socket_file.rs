//! Sockets at a path, for processes that share a directory and no network namespace, as containers do.
//!
//! # What it promises
//! 1. A path has one listener at a time. A process takes a lock of the directory (`flock(2)`) to become it, or to remove it.
//! 2. The file of a listener that was killed is nobody's: the next listener takes its place. One that ends removes its own.
//! 3. A forked child removes nothing.
//!
//! Paths may be longer than an address has room for: it names the directory by a descriptor.

use super::local_socket::{LocalListener, LocalSocket};
use crate::file::FileId;
use crate::fork::LockedFile;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A directory, and a name in it.
struct Place {
    directory: File,
    address: PathBuf,
}

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let directory = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(parent)?;
        let address = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Place { directory, address })
    }

    /// Calls `then` while no other process does so for this directory.
    fn locked<T>(&self, then: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _note = LockedFile::note(self.directory.as_raw_fd());
        self.directory.lock()?;
        let done = then();
        self.directory.unlock()?;
        done
    }
}

/// The file of a listener, which goes with it.
pub(super) struct SocketFile {
    path: PathBuf,
    id: FileId,
    process: u32,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // A file that stays is the next listener's.
        let _ = Place::of(&self.path).and_then(|place| {
            place.locked(|| match id_of(&self.path)? == self.id {
                true => std::fs::remove_file(&self.path),
                false => Ok(()),
            })
        });
    }
}

fn id_of(path: &Path) -> io::Result<FileId> {
    std::fs::symlink_metadata(path).map(|file| FileId { device: file.dev(), inode: file.ino() })
}

/// Listens at a path; `None` where another process does.
///
/// # Errors
/// Errors of the system; something else than a socket has the path.
pub(super) fn bind(path: &Path) -> io::Result<Option<LocalListener>> {
    let place = Place::of(path)?;
    let listen = || LocalListener::at_path(place.address.as_os_str().as_bytes());
    place.locked(|| {
        let mut listener = listen()?;
        if listener.is_none() {
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            // Whoever listens began to do so under the lock: what nobody listens at is left.
            if connect(path)?.is_some() {
                return Ok(None);
            }
            std::fs::remove_file(path)?;
            listener = listen()?;
        }
        let Some(listener) = listener else { return Ok(None) };
        let file = SocketFile { path: path.to_owned(), id: id_of(path)?, process: std::process::id() };
        Ok(Some(listener.with_file(file)))
    })
}

/// Connects to the listener at a path; `None` where nobody listens.
///
/// # Errors
/// Errors of the system; `WouldBlock` where the listener accepts nobody.
pub(super) fn connect(path: &Path) -> io::Result<Option<LocalSocket>> {
    let place = Place::of(path)?;
    match LocalSocket::to_path(place.address.as_os_str().as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        connected => connected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::LocalName;

    #[test]
    fn a_path_has_one_listener_and_none_is_left() {
        let directory = tempfile::tempdir().unwrap();
        // Longer than an address.
        let deep = directory.path().join("d".repeat(100));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("a.db-group");
        let name = LocalName::File(path.clone());
        assert!(LocalSocket::connect_to(&name).unwrap().is_none() && !path.exists());
        let first = LocalListener::bind_to(&name).unwrap().unwrap();
        assert!(LocalListener::bind_to(&name).unwrap().is_none());
        let stream = LocalSocket::connect_to(&name).unwrap().unwrap();
        stream.send(b"x", None).unwrap();
        // Its first stream was the look of the one that wanted to listen, too.
        drop(first.accept().unwrap());
        let mut byte = [0];
        assert_eq!(first.accept().unwrap().receive(&mut byte).unwrap().0, 1);
        drop(first);
        assert!(!path.exists(), "it is removed");
        // One that was killed leaves its file.
        drop(std::os::unix::net::UnixListener::bind(directory.path().join("left")).unwrap());
        let left = LocalName::File(directory.path().join("left"));
        assert!(LocalSocket::connect_to(&left).unwrap().is_none());
        let next = LocalListener::bind_to(&left).unwrap().unwrap();
        // Whoever has removed it, and listens there, keeps it.
        std::fs::remove_file(directory.path().join("left")).unwrap();
        let other = LocalListener::bind_to(&left).unwrap().unwrap();
        drop(next);
        assert!(LocalSocket::connect_to(&left).unwrap().is_some());
        drop(other);
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "text").unwrap();
        assert!(LocalListener::bind_to(&LocalName::File(plain.clone())).is_err());
        assert_eq!(std::fs::read(&plain).unwrap(), b"text");
    }

    #[test]
    fn of_many_that_want_a_path_one_gets_it() {
        let directory = tempfile::tempdir().unwrap();
        let name = LocalName::File(directory.path().join("s"));
        for _ in 0..50 {
            let bind = || LocalListener::bind_to(&name).unwrap();
            let found = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(found.len(), 1);
            // Killed: the file is left.
            found.into_iter().for_each(LocalListener::leave_file);
        }
    }
}

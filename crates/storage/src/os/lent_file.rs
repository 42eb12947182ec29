//! A lent file: an open file of another process's, which that has sent.
//!
//! # Why
//! The lender has a lease on the file, which any `open` breaks. To read by its own open file disturbs nothing.
//!
//! # Promises
//! 1. Nothing is changed by it: neither the file, nor its locks, nor its lease, while the lender lives.
//! 2. Locks and leases belong to the open file, and outlive a lender that dies as long as somebody has it. Whoever has borrowed it gives them
//!    back then ([`LentFile::release`]), or goes on with them ([`LentFile::take_over`]).
//! 3. A forked child does not have it.

use super::closings::Descriptor;
use super::opening::above_standard_streams;
use super::os_file::{self, give_lease_back, lock_range, read_at};
use crate::file::{File as MediumFile, RangeLock};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// An open file of another process's.
pub struct LentFile {
    descriptor: Descriptor,
}

impl LentFile {
    /// The file whose descriptor was sent.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn of(descriptor: OwnedFd) -> io::Result<LentFile> {
        Ok(LentFile { descriptor: Descriptor::of(File::from(descriptor))? })
    }

    /// Reads as many bytes from `offset` on as there are.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_at(&self.descriptor.file, buf, offset)
    }

    /// Gives back all locks and the lease of the open file, once its lender is known to be dead. Others may do so, too.
    pub fn release(&self) {
        // Each of the two may have been given back already.
        let _ = lock_range(&self.descriptor.file, 0, 0, RangeLock::None);
        give_lease_back(&self.descriptor.file);
    }

    /// Locks bytes by the open file, or unlocks them, once its lender is known to be dead; `false` where somebody has them by another one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn lock_range(&self, offset: u64, len: u64, lock: RangeLock) -> io::Result<bool> {
        lock_range(&self.descriptor.file, offset, len, lock)
    }

    /// The open file as this process's own, with its locks and its lease, once its lender is known to be dead. Nobody else may do so.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn take_over(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        os_file::taken_over(above_standard_streams(self.descriptor.file.try_clone()?)?, path)
    }

    /// The same file, opened once more, with locks of its own, once its lender is known to be dead. The lease is given back for that.
    ///
    /// # Errors
    /// Errors of the system; somebody else has a lease, or this process may not write the file.
    pub fn open_again(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        give_lease_back(&self.descriptor.file);
        let number = self.descriptor.file.as_raw_fd();
        let mut options = File::options();
        // Its name may be another file's by now.
        let opened = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        os_file::opened(above_standard_streams(opened.open(format!("/proc/self/fd/{number}"))?)?, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn locks_of_a_lender_last_until_they_are_released() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (lender, other) = (open(), open());
        assert!(lock_range(&lender, 3, 4, RangeLock::Exclusive).unwrap());
        let lent = LentFile::of(lender.as_fd().try_clone_to_owned().unwrap()).unwrap();
        drop(lender);
        assert!(!lock_range(&other, 3, 4, RangeLock::Exclusive).unwrap());
        let mut bytes = [0; 6];
        assert_eq!((lent.read_at(&mut bytes, 6).unwrap(), &bytes[..4]), (4, &b"6789"[..]));
        lent.release();
        assert!(lock_range(&other, 3, 4, RangeLock::Exclusive).unwrap());
    }

    #[test]
    fn a_file_that_is_opened_again_has_locks_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let lender = File::options().read(true).write(true).open(&path).unwrap();
        let lent = LentFile::of(lender.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(lent.lock_range(0, 2, RangeLock::Exclusive).unwrap());
        // Others may have its name by now.
        std::fs::rename(&path, directory.path().join("g")).unwrap();
        std::fs::write(&path, b"another").unwrap();
        let again = lent.open_again(&path).unwrap();
        assert_eq!(again.len().unwrap(), 10);
        assert!(!again.lock_range(0, 2, RangeLock::Shared).unwrap(), "it is another open file");
        assert!(again.lock_range(2, 2, RangeLock::Exclusive).unwrap());
        assert!(!lent.lock_range(2, 2, RangeLock::Shared).unwrap());
        again.write_at(b"x", 9).unwrap();
        drop(again);
        assert!(lent.lock_range(2, 2, RangeLock::Exclusive).unwrap());
        let mut bytes = [0];
        assert_eq!((lent.read_at(&mut bytes, 9).unwrap(), bytes), (1, *b"x"));
    }
}

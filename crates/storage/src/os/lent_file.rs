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
use std::os::fd::OwnedFd;
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

    /// The open file as this process's own, with its locks and its lease, once its lender is known to be dead. Nobody else may do so.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn take_over(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        os_file::taken_over(above_standard_streams(self.descriptor.file.try_clone()?)?, path)
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
}

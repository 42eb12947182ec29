//! Files that are not in memory.

use crate::{Error, Result};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Takes a file out of the system's page cache.
///
/// # Errors
/// [`Error::Directory`] where the file cannot be opened, or the system refuses.
pub fn make_cold(path: &Path) -> Result<()> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    // SAFETY: a plain system call on an open descriptor.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(failed(std::io::Error::from_raw_os_error(code))),
    }
}

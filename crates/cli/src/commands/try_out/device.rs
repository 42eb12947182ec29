//! What the device beneath a directory says of itself: bytes and flushes, by anybody.
//!
//! The kernel counts for the whole device. So the figures are right only where nobody else writes there, and the table says so.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of the line in `/sys/dev/block/*/stat` (`Documentation/block/stat.rst` of Linux): 512-byte sectors written, flushes.
const SECTORS_WRITTEN: usize = 6;
const FLUSHES: usize = 15;
const SECTOR_BYTES: u64 = 512;

/// The device beneath a directory.
#[derive(Debug)]
pub struct Device {
    directory: File,
    stat: PathBuf,
}

/// What it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Bytes, metadata and journal of the file system included.
    pub bytes: u64,
    /// Flushes of its cache.
    pub flushes: u64,
}

impl Given {
    /// What came since.
    pub fn since(self, before: Given) -> Given {
        Given {
            bytes: self.bytes.saturating_sub(before.bytes),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

impl Device {
    /// The device beneath a directory; `None` where the kernel counts for none, as for memory and some file systems.
    pub fn beneath(directory: &Path) -> Option<Device> {
        let directory = File::open(directory).ok()?;
        let number = directory.metadata().ok()?.dev();
        let stat =
            PathBuf::from(format!("/sys/dev/block/{}:{}/stat", libc::major(number), libc::minor(number)));
        let device = Device { directory, stat };
        device.given().map(|_| device)
    }

    /// Has everything written, and says what came in all.
    pub fn given(&self) -> Option<Given> {
        // SAFETY: a plain system call on a descriptor that is open.
        if unsafe { libc::syncfs(self.directory.as_raw_fd()) } != 0 {
            return None;
        }
        parse(&fs::read_to_string(&self.stat).ok()?)
    }
}

fn parse(line: &str) -> Option<Given> {
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(Given { bytes: numbers.get(SECTORS_WRITTEN)? * SECTOR_BYTES, flushes: *numbers.get(FLUSHES)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        let line = "   11 2 33 4 5 6 800 8 9 10 11 12 13 14 15 77 17\n";
        assert_eq!(parse(line), Some(Given { bytes: 409_600, flushes: 77 }));
        // Before Linux 5.5 nobody counted flushes.
        assert_eq!(parse("1 2 3 4 5 6 7 8 9 10 11"), None);
        let since = Given { bytes: 10, flushes: 5 }.since(Given { bytes: 4, flushes: 6 });
        assert_eq!(since, Given { bytes: 6, flushes: 0 });
    }
}

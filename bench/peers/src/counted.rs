//! Writes and syncs of this process, counted without anybody's help.
//!
//! The program has functions of its own by the names of the C library's ([`calls`]). So the calls of everything that is
//! linked into it come here first, C and C++ included. Each counts, and asks the kernel for what was wanted.
//!
//! # What counts
//! - **Syncs**: `fsync`, `fdatasync`, `msync`, and each write through a descriptor that is opened with `O_DSYNC`, as LMDB writes its meta
//!   page.
//! - **Bytes**: blocks of 4 KiB that were touched between two syncs of a descriptor, each once. Blocks that were never
//!   synced count when the descriptor is closed or somebody asks. That is what litefoot's counting medium counts.
//!   `write_bytes` of `/proc/self/io` is no substitute: it charges the whole of a large folio for one of its pages.

mod calls;

use libc::{c_int, off_t, ssize_t};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{LazyLock, Mutex, MutexGuard};

const BLOCK_BYTES: u64 = 4096;

static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Counts {
    syncs: u64,
    /// Blocks that are done with.
    blocks: u64,
    /// Blocks of each descriptor that wait for a sync.
    dirty: HashMap<c_int, HashSet<u64>>,
}

/// Syncs and bytes so far.
pub fn spent() -> crate::round::Spent {
    let counts = counts();
    let waiting: u64 = counts.dirty.values().map(|blocks| blocks.len() as u64).sum();
    crate::round::Spent { syncs: counts.syncs, bytes: (counts.blocks + waiting) * BLOCK_BYTES }
}

fn counts() -> MutexGuard<'static, Counts> {
    COUNTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A sync of a descriptor.
fn synced(fd: c_int) {
    let mut counts = counts();
    counts.syncs += 1;
    counts.settle(fd);
}

/// A sync of mapped pages, of whichever file.
fn synced_mapped() {
    counts().syncs += 1;
}

fn closed(fd: c_int) {
    counts().settle(fd);
}

/// So many bytes, if any, were written there.
fn written(fd: c_int, offset: off_t, length: ssize_t) {
    let Some(blocks) = blocks(offset, length) else { return };
    // SAFETY: asks for the flags of a descriptor.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    let mut counts = counts();
    if flags >= 0 && flags & libc::O_DSYNC != 0 {
        counts.syncs += 1;
        counts.blocks += blocks.end() - blocks.start() + 1;
    } else {
        counts.dirty.entry(fd).or_default().extend(blocks);
    }
}

/// The blocks of a write; nothing where it failed, or where what was written to has no places.
fn blocks(offset: off_t, length: ssize_t) -> Option<RangeInclusive<u64>> {
    let (offset, length) =
        (u64::try_from(offset).ok()?, u64::try_from(length).ok().filter(|length| *length > 0)?);
    Some(offset / BLOCK_BYTES..=(offset + length - 1) / BLOCK_BYTES)
}

impl Counts {
    fn settle(&mut self, fd: c_int) {
        if let Some(blocks) = self.dirty.get_mut(&fd) {
            self.blocks += blocks.len() as u64;
            blocks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Spent;
    use std::io::Write;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};

    /// Syncs and blocks spent since the last call.
    fn since(last: &mut Spent) -> (u64, u64) {
        let now = spent();
        let since = (now.syncs - last.syncs, (now.bytes - last.bytes) / BLOCK_BYTES);
        *last = now;
        since
    }

    #[test]
    fn what_the_standard_library_writes_and_syncs_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        let last = &mut spent();
        file.write_all(&[1; 5000]).unwrap();
        file.write_all_at(&[1; 100], 0).unwrap();
        assert_eq!(since(last), (0, 2), "each block once");
        file.sync_data().unwrap();
        assert_eq!(since(last), (1, 0));
        file.write_all(&[1; 100]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(since(last), (1, 1), "behind the 5000, and again after the sync");
        let two = [std::io::IoSlice::new(&[1; 4096]), std::io::IoSlice::new(&[1; 4096])];
        assert_eq!(file.write_vectored(&two).unwrap(), 8192);
        drop(file);
        assert_eq!(since(last), (0, 3));
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).custom_flags(libc::O_DSYNC).open(&path).unwrap();
        (&file).write_all(&[1; 10]).unwrap();
        assert_eq!(since(last), (1, 1));
        assert!((&std::fs::File::open(&path).unwrap()).write_all(&[1]).is_err());
        assert_eq!(since(last), (0, 0), "a write that fails");
    }
}

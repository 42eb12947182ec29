//! Kept log: a void file that a close leaves at its name, for the next opening.
//!
//! # Why
//! Creating a log, giving it space and removing it costs eight blocks of the file system's journal, and two syncs. A program
//! that opens its database for each commit would pay that each time. A void log is nothing to SQLite, which leaves such
//! logs itself (`SQLITE_FCNTL_PERSIST_WAL`).
//!
//! # What it promises
//! A log [is untouched](KeptLog::is_untouched) only if it is as durable as [`RedoLog::keep`] has left it, up to
//! the place of its first frame: void, and at a durable name.
//!
//! # Bytes
//! ```text
//!  0                    32     40
//! | zeros: a void header | mark | older frames, which do not count …
//! ```
//! The mark is random, with the process's number, and where the header of the first frame begins. Other programs void a log without a mark, and
//! whatever they had written before has overwritten it. So a log that another process has used since is told apart, though
//! that process may have died before its own void header was durable.

use super::RedoLog;
use super::format::HEADER_BYTES;
use super::origin::DataFile;
use crate::file::{File, FileId, Medium, OpenMode, Result, SyncLatch};
use std::path::Path;
use std::sync::Arc;

const MARK_BYTES: usize = 8;
const VOID_BYTES: usize = HEADER_BYTES + MARK_BYTES;

/// What a process remembers of a log that it has kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLog {
    /// Which file it is.
    pub file: FileId,
    mark: u64,
}

impl KeptLog {
    /// A mark for a file.
    pub(super) fn new(file: FileId) -> KeptLog {
        // A forked child draws the same numbers as its parent.
        KeptLog { file, mark: u64::from(fastrand::u32(..)) << 32 | u64::from(std::process::id()) }
    }

    /// True if nobody has written to the log since it was kept.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn is_untouched(&self, file: &dyn File) -> Result<bool> {
        if file.id() != self.file {
            return Ok(false);
        }
        let mut bytes = [0; VOID_BYTES];
        Ok(file.read_at(&mut bytes, 0)? == VOID_BYTES && bytes == void_header(*self))
    }
}

impl RedoLog {
    /// Takes over the log of a data file that a close of this process has kept. Where anybody has written to it since, it is a log like
    /// any other.
    ///
    /// # Errors
    /// As [`RedoLog::open`].
    pub fn open_kept(
        medium: Arc<dyn Medium>,
        path: &Path,
        latch: Arc<SyncLatch>,
        data: DataFile,
        kept: KeptLog,
    ) -> Result<RedoLog> {
        let mut log = RedoLog::new(medium, path, latch, Some(data));
        if let Some(file) = log.file.find(OpenMode::ReadWrite)? {
            if kept.is_untouched(&*file)? {
                log.file.take_over_kept(file, kept);
            } else {
                log.take_over_file(file)?;
            }
        }
        Ok(log)
    }

    /// True if there is a file, other than a kept one that is untouched.
    pub fn is_used(&self) -> bool {
        self.file.is_used()
    }

    /// Leaves the file for the next opening, void, in the place of [`RedoLog::delete`]; `None` where it was removed.
    pub fn keep(&mut self) -> Result<Option<KeptLog>> {
        self.reset();
        self.last = None;
        self.slots = 0;
        self.file.keep()
    }
}

/// The bytes of a log that is kept.
pub(super) fn void_header(kept: KeptLog) -> [u8; VOID_BYTES] {
    let mut bytes = [0; VOID_BYTES];
    bytes[HEADER_BYTES..].copy_from_slice(&kept.mark.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::tests::{append, version_of};
    use super::*;
    use crate::file::FileKind;
    use crate::log_file::Durability;
    use crate::sim::SimMedium;

    const LOG: &str = "/a-wal";

    fn data(medium: &SimMedium) -> DataFile {
        let file = medium.open(Path::new("/a"), FileKind::Database, OpenMode::Create).unwrap();
        DataFile { path: "/a".into(), content: file.clone(), file }
    }

    /// A log of one transaction, that was kept.
    fn kept(medium: &SimMedium) -> KeptLog {
        let (medium, data) = (Arc::new(medium.clone()), data(medium));
        let mut log = RedoLog::open_of(medium, Path::new(LOG), Arc::default(), data).unwrap();
        append(&mut log, &[1, 2], 1, Durability::Durable).unwrap();
        log.keep().unwrap().unwrap()
    }

    #[test]
    fn a_log_is_untouched_until_anybody_writes_its_beginning() {
        let medium = SimMedium::new();
        let kept = kept(&medium);
        let file = medium.open(Path::new(LOG), FileKind::RedoLog, OpenMode::ReadWrite).unwrap();
        let void = void_header(kept);
        assert!(kept.is_untouched(&*file).unwrap());
        for (offset, byte, expected) in
            [(0, 1, false), (31, 1, false), (32, !void[32], false), (39, 0, false), (40, 1, true)]
        {
            if void.get(offset as usize) == Some(&byte) {
                continue;
            }
            file.write_at(&[byte], offset).unwrap();
            assert_eq!(kept.is_untouched(&*file).unwrap(), expected, "{offset}");
            file.write_at(&void, 0).unwrap();
        }
        let other = KeptLog::new(kept.file);
        assert!(!other.is_untouched(&*file).unwrap(), "another close has kept it");
        let elsewhere = KeptLog { file: FileId { inode: kept.file.inode + 1, ..kept.file }, ..kept };
        assert!(!elsewhere.is_untouched(&*file).unwrap(), "another file");
        file.set_len(39).unwrap();
        assert!(!kept.is_untouched(&*file).unwrap());
    }

    #[test]
    fn a_kept_log_goes_on_with_frames_of_its_own() {
        let medium = SimMedium::new();
        let kept = kept(&medium);
        let shared: Arc<SimMedium> = Arc::new(medium.clone());
        let open = || {
            RedoLog::open_kept(shared.clone(), Path::new(LOG), Arc::default(), data(&medium), kept).unwrap()
        };
        let mut log = open();
        assert!(log.is_empty() && !log.is_used() && log.is_synced());
        append(&mut log, &[2], 2, Durability::Durable).unwrap();
        assert!(log.is_used());
        drop(log);
        let mut found = open();
        assert_eq!([1, 2].map(|number| version_of(&found, number)), [None, Some(2)]);
        assert!(found.is_used() && !found.is_synced(), "a log like any other");
        found.reset();
        found.delete().unwrap();
        assert!(open().is_empty() && !open().is_used(), "there is none");
    }

    #[test]
    fn a_log_that_is_large_or_has_lost_its_name_is_not_kept() {
        for renamed in [false, true] {
            let medium = SimMedium::new();
            let shared: Arc<SimMedium> = Arc::new(medium.clone());
            let mut log = RedoLog::open_of(shared, Path::new(LOG), Arc::default(), data(&medium)).unwrap();
            append(&mut log, &[1], 1, Durability::Durable).unwrap();
            if renamed {
                medium.rename(Path::new(LOG), Path::new("/else")).unwrap();
            } else {
                log.claim(512, 10_000).unwrap();
            }
            assert_eq!(log.keep().unwrap(), None);
            assert!(medium.info(Path::new(LOG)).unwrap().is_none());
        }
    }
}

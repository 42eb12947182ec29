//! The log becomes a file that other processes use by SQLite's own protocol, beside readers that go on with it.
//!
//! # Invariants
//! 1. Everything committed is durable in the redo log before, and in the new file before that has the name.
//! 2. The new file has exactly the frames that the wal-index knows. A commit behind them was never published.
//! 3. Where the index knows no frame the file is empty, and the database file has every page, durably.

use crate::commit::wal::Wal;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::sync::wal_index_sharing::IndexedLog;
use litefoot_storage::file::{self, DeviceError, File, Operation};
use litefoot_storage::wal_file;
use std::io;

impl Wal {
    /// Bytes of a file of so many frames.
    pub(crate) fn file_bytes(&self, frames: u32) -> u64 {
        self.frames.read().file_bytes(frames as usize)
    }

    /// The frames that every reader sees: older versions of their pages may be freed.
    pub(crate) fn freed_below(&self) -> u32 {
        u32::try_from(self.frames.read().freed_below()).unwrap_or(u32::MAX)
    }

    /// The file of the log has the frames that `indexed` tells of from now on, as SQLite wrote them, in the place of the redo log.
    /// Everything committed is durable there. Nobody writes.
    ///
    /// # Errors
    /// Those of the medium; [`Error::Busy`] where the logs are not at their names; and where SQLite's frames do not hold together. The
    /// redo log is as it was, unless the latch is closed.
    pub(crate) fn become_file(&self, db: &Db, indexed: IndexedLog) -> Result<()> {
        if !db.has_its_name() || !self.commits.is_at_its_name()? {
            return Err(Error::Busy);
        }
        if indexed.frames == 0 {
            db.sync()?;
        }
        let write = |file: &dyn File| self.write_frames(file, db, indexed);
        Ok(wal_file::replace(db.medium(), &self.path, db.latch(), write)?)
    }

    fn write_frames(&self, file: &dyn File, db: &Db, indexed: IndexedLog) -> file::Result<()> {
        if indexed.frames == 0 {
            return Ok(());
        }
        let frames = self.frames.read();
        let mut offset = 0;
        let mut put = |part: &[u8]| {
            file.write_at(part, offset)?;
            offset += part.len() as u64;
            Ok(())
        };
        let is_all = frames.committed() == indexed.frames as usize;
        let checksum =
            if is_all { frames.whole_log(frames.committed(), &**db.data(), &mut put)? } else { None };
        if checksum == Some(indexed.checksum) {
            return Ok(());
        }
        let what = io::Error::other("its frames are not those of the wal-index");
        Err(DeviceError::new(Operation::Write, &self.path, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::of_test::{PAGE, frame_offset, wal_header};
    use crate::memory::spill_file::tests::make_spill;
    use crate::memory::sqlite_cache::SqliteCacheSize;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::Medium;
    use litefoot_storage::wal_file::format::{FRAME_HEADER_BYTES, Header};
    use std::path::Path;
    use std::sync::Arc;

    /// A log of so many commits of a page each, all in the redo log; and the log as SQLite has written it.
    fn committed(medium: &SimMedium, count: usize) -> (Arc<Db>, Arc<Wal>, Vec<u8>, IndexedLog) {
        let db = Arc::new(Db::of_test_on(medium, &[7; 4 * PAGE]));
        let wal = Arc::new(Wal::open(&db, make_spill()).unwrap());
        let mut log = wal_header().to_vec();
        let (header, mut checksum) = Header::decode(&log).unwrap();
        let write =
            |bytes: &[u8], at: usize| wal.write(&db, &SqliteCacheSize::default(), bytes, at as u64).unwrap();
        write(&log, 0);
        for number in 0..count {
            let page = [number as u8; PAGE];
            let (head, next) = header.encode_frame(checksum, 1 + number as u32 % 3, 4, &page);
            write(&head, frame_offset(number));
            let transaction = write(&page, frame_offset(number) + FRAME_HEADER_BYTES).unwrap();
            wal.log_commit(&db, transaction).unwrap();
            log.extend_from_slice(&[&head[..], &page[..]].concat());
            checksum = next;
        }
        (db, wal, log, IndexedLog { frames: count as u32, checksum: checksum.words() })
    }

    fn file(medium: &SimMedium) -> Vec<u8> {
        let mut files = medium.files().into_iter();
        files.find(|(path, ..)| path == Path::new("/app.db-wal")).map(|(.., bytes)| bytes).unwrap()
    }

    #[test]
    fn the_file_has_the_frames_of_the_index() {
        let medium = SimMedium::new();
        let (db, wal, log, indexed) = committed(&medium, 5);
        assert_eq!(wal.file_bytes(5), log.len() as u64);
        for wrong in [
            IndexedLog { frames: 4, ..indexed },
            IndexedLog { frames: 6, ..indexed },
            IndexedLog { checksum: [1, 2], ..indexed },
        ] {
            let before = file(&medium);
            assert!(wal.become_file(&db, wrong).is_err(), "{wrong:?}");
            assert_eq!((file(&medium), medium.files().len()), (before, 2), "{wrong:?}");
        }
        wal.become_file(&db, indexed).unwrap();
        assert_eq!(file(&medium), log);
    }

    #[test]
    fn a_log_without_frames_is_empty() {
        let medium = SimMedium::new();
        let (db, wal, ..) = committed(&medium, 5);
        wal.become_file(&db, IndexedLog { frames: 0, checksum: [0; 2] }).unwrap();
        assert_eq!(file(&medium), []);
    }

    #[test]
    fn a_log_that_has_lost_its_name_is_no_file() {
        let medium = SimMedium::new();
        let (db, wal, _, indexed) = committed(&medium, 5);
        medium.rename(Path::new("/app.db-wal"), Path::new("/other-wal")).unwrap();
        assert!(matches!(wal.become_file(&db, indexed), Err(Error::Busy)));
    }
}

//! The write-ahead log: which of its frames count.

use litefoot_storage::file::{File, Result};
use litefoot_storage::wal_file::format::{HEADER_BYTES, Header};
use litefoot_storage::wal_file::frames;

/// A write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wal {
    /// Its length.
    pub bytes: u64,
    /// Its header; `None` when the log is empty or reset, or its header was never finished.
    pub header: Option<Header>,
    /// True if it begins with something that is neither a log's header nor zeros.
    pub foreign: bool,
    /// Frames that belong to committed transactions.
    pub committed_frames: u64,
    /// Size of the database in pages after the last of them.
    pub pages: u32,
}

impl Wal {
    /// Reads the whole log.
    pub fn read(file: &dyn File) -> Result<Wal> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        let mut wal = Wal { bytes: file.len()?, header: None, foreign: false, committed_frames: 0, pages: 0 };
        let Some((header, checksum)) = Header::decode(&bytes[..read]) else {
            // SQLite ignores a log whose header a power cut has torn, and so may everybody.
            wal.foreign = !Header::begins(&bytes) && bytes[..read].iter().any(|byte| *byte != 0);
            return Ok(wal);
        };
        frames(file, &header, checksum, |frame, _| {
            if frame.database_pages > 0 {
                wal.committed_frames = u64::from(frame.number) + 1;
                wal.pages = frame.database_pages;
            }
        })?;
        wal.header = Some(header);
        Ok(wal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use litefoot_storage::os::OsMedium;
    use std::path::Path;

    fn read(path: &Path) -> Wal {
        Wal::read(&*OsMedium::new().open(path, FileKind::RedoLog, OpenMode::ReadOnly).unwrap()).unwrap()
    }

    #[test]
    fn frames_of_stock_sqlite_count_up_to_the_last_whole_commit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        db.execute_batch(
            "CREATE TABLE t(a); INSERT INTO t VALUES (zeroblob(9000)); INSERT INTO t VALUES (1);",
        )
        .unwrap();
        let log = directory.path().join("a.db-wal");
        let frame_bytes = 24 + 4096;
        let whole = read(&log);
        assert_eq!(whole.header.as_ref().unwrap().page_bytes, 4096);
        assert_eq!(whole.committed_frames, (whole.bytes - 32) / frame_bytes);
        assert!(whole.pages >= 4);

        // A copy that lost its last byte lost its last transaction; one with a flipped bit in the first
        // frame lost all.
        let bytes = std::fs::read(&log).unwrap();
        let copy = directory.path().join("copy");
        std::fs::write(&copy, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&copy).committed_frames < whole.committed_frames);
        let mut flipped = bytes.clone();
        flipped[32 + 24 + 100] ^= 1;
        std::fs::write(&copy, &flipped).unwrap();
        assert_eq!(read(&copy).committed_frames, 0);

        std::fs::write(&copy, b"something else entirely, longer than a header").unwrap();
        assert!(read(&copy).foreign);
        std::fs::write(&copy, b"").unwrap();
        assert_eq!((read(&copy).foreign, read(&copy).header), (false, None));
    }
}

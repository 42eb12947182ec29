//! The write-ahead log (file format, section 4): which of its frames count.
//!
//! A frame counts when its salts are those of the header and the running checksum over the log up to its
//! end is the one it carries; a transaction counts when its last frame, the one with a database size, does.

use super::be_u32;
use litefoot_storage::file::{File, Result};

const MAGIC: u32 = 0x377f_0682;
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// A write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wal {
    /// Its length.
    pub bytes: u64,
    /// Its header; `None` when the log is empty or reset, or its header was never finished.
    pub header: Option<WalHeader>,
    /// Whether it begins with something that is neither a log's header nor zeros.
    pub foreign: bool,
    /// Frames that belong to committed transactions.
    pub committed_frames: u64,
    /// Size of the database in pages after the last of them.
    pub pages: u32,
}

/// The header of a write-ahead log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalHeader {
    /// Page size of the database it belongs to.
    pub page_bytes: u32,
    /// Counts checkpoints.
    pub checkpoint_sequence: u32,
}

impl Wal {
    /// Reads the whole log, one frame at a time.
    pub fn read(file: &dyn File) -> Result<Wal> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        let mut wal = Wal { bytes: file.len()?, header: None, foreign: false, committed_frames: 0, pages: 0 };
        let big_endian = match be_u32(&bytes, 0) ^ MAGIC {
            0 => false,
            1 => true,
            _ => {
                wal.foreign = bytes[..read].iter().any(|byte| *byte != 0);
                return Ok(wal);
            }
        };
        let mut sum = Checksum { words: (0, 0), big_endian };
        sum.add(&bytes[..24]);
        let page_bytes = be_u32(&bytes, 8);
        let plausible = page_bytes.is_power_of_two() && (512..=65_536).contains(&page_bytes);
        if !plausible || sum.words != (be_u32(&bytes, 24), be_u32(&bytes, 28)) {
            // A header torn by a power cut: SQLite ignores such a log, and so may everybody.
            return Ok(wal);
        }
        wal.header = Some(WalHeader { page_bytes, checkpoint_sequence: be_u32(&bytes, 12) });
        wal.read_frames(file, &bytes[16..24], sum, page_bytes)?;
        Ok(wal)
    }

    fn read_frames(
        &mut self,
        file: &dyn File,
        salts: &[u8],
        mut sum: Checksum,
        page_bytes: u32,
    ) -> Result<()> {
        let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes as usize];
        let frames = self.bytes.saturating_sub(HEADER_BYTES as u64) / frame.len() as u64;
        for index in 0..frames {
            let offset = HEADER_BYTES as u64 + index * frame.len() as u64;
            if file.read_at(&mut frame, offset)? < frame.len() || frame[8..16] != *salts {
                break;
            }
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER_BYTES..]);
            if sum.words != (be_u32(&frame, 16), be_u32(&frame, 20)) {
                break;
            }
            let pages_after_commit = be_u32(&frame, 4);
            if pages_after_commit > 0 {
                self.committed_frames = index + 1;
                self.pages = pages_after_commit;
            }
        }
        Ok(())
    }
}

/// The log's checksum (file format, section 4.2): over pairs of 32-bit words.
struct Checksum {
    words: (u32, u32),
    big_endian: bool,
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let word = |at: usize| {
            let word = be_u32(bytes, at);
            if self.big_endian { word } else { word.swap_bytes() }
        };
        let (mut first, mut second) = self.words;
        for at in (0..bytes.len()).step_by(8) {
            first = first.wrapping_add(word(at)).wrapping_add(second);
            second = second.wrapping_add(word(at + 4)).wrapping_add(first);
        }
        self.words = (first, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_storage::file::{FileKind, Medium, OpenMode, OsMedium};
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

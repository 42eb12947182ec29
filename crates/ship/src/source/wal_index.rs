//! The header of SQLite's wal-index, the `-shm` file: which frames of the log are committed.
//!
//! ```text
//!  0 version 3007000       u32     16 last committed frame   u32      32 salts of the log     u32 u32
//!  4 zeros                 u32     20 pages of the database  u32      40 checksum of 0 to 40  u32 u32
//!  8 counter of changes    u32     24 checksum of that frame u32 u32  48 the same 48 bytes again
//! 12 initialized            u8     (the byte order of the machine, but for the salts, which are bytes of the log)
//! 13 log is big-endian      u8     96 frames that were checkpointed   u32
//! 14 bytes of a page       u16
//! ```
//!
//! SQLite's file format names this layout (section 4.4 of the description of the WAL format). The two copies are equal unless a
//! writer is at work on them.

/// Bytes from the first copy to the number of frames that were checkpointed.
pub const BYTES: usize = 100;
const COPY_BYTES: usize = 48;
const VERSION: u32 = 3_007_000;

/// The committed end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIndex {
    /// Bytes of a page; any number where there is no frame.
    pub page_size: u32,
    /// The last committed frame, from 1 on; 0 for an empty log.
    pub frames: u32,
    /// Pages of the database behind that frame.
    pub pages: u32,
    /// The checksum of that frame.
    pub checksum: [u32; 2],
    /// The salts of the log, which a restart changes.
    pub salts: [u8; 8],
}

/// Reads the header. `None` while a writer is at work on it, or where it is not initialized.
pub fn parse(bytes: &[u8; BYTES]) -> Option<WalIndex> {
    let (first, second) = bytes.split_at(COPY_BYTES);
    let second = &second[..COPY_BYTES];
    if first != second || u32_at(first, 0) != VERSION || first[12] == 0 {
        return None;
    }
    if checksum(&first[..40]) != [u32_at(first, 40), u32_at(first, 44)] {
        return None;
    }
    // 1 stands for 65,536.
    let page_size = match u16::from_ne_bytes([first[14], first[15]]) {
        1 => 65_536,
        other => u32::from(other),
    };
    let mut salts = [0; 8];
    salts.copy_from_slice(&first[32..40]);
    let frames = u32_at(first, 16);
    // A log without a header has no page size yet.
    (frames == 0 || litefoot_ltx::is_page_size(page_size)).then_some(WalIndex {
        page_size,
        frames,
        pages: u32_at(first, 20),
        checksum: [u32_at(first, 24), u32_at(first, 28)],
        salts,
    })
}

/// SQLite's checksum, in the byte order of the machine.
fn checksum(bytes: &[u8]) -> [u32; 2] {
    let [mut low, mut high] = [0_u32; 2];
    for pair in bytes.chunks_exact(8) {
        low = low.wrapping_add(u32_at(pair, 0)).wrapping_add(high);
        high = high.wrapping_add(u32_at(pair, 4)).wrapping_add(low);
    }
    [low, high]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    fn header(database: &std::path::Path) -> [u8; BYTES] {
        let bytes = std::fs::read(super::super::stamp::beside(database, "-shm")).unwrap();
        bytes[..BYTES].try_into().unwrap()
    }

    #[test]
    fn it_is_what_sqlite_writes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database
            .execute_batch(
                "PRAGMA page_size=65536; PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1)",
            )
            .unwrap();
        let found = parse(&header(&path)).unwrap();
        let pages: u32 = database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        let log = std::fs::read(super::super::stamp::beside(&path, "-wal")).unwrap();
        assert_eq!((found.page_size, found.pages), (65_536, pages));
        assert_eq!(found.salts, log[16..24]);
        assert_eq!(log.len(), 32 + found.frames as usize * (65_536 + 24));
        let last = &log[log.len() - 65_536 - 24..][..24];
        let checksum = [16, 20].map(|at| u32::from_be_bytes(last[at..at + 4].try_into().unwrap()));
        assert!(checksum == found.checksum || checksum.map(u32::swap_bytes) == found.checksum);
    }

    #[test]
    fn a_header_at_work_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        database.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)").unwrap();
        let sound = header(&path);
        assert!(parse(&sound).is_some());
        for at in (0..48).chain(48..96) {
            let mut bytes = sound;
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes), None, "{at}");
        }
        for at in 0..48 {
            let mut bytes = sound;
            bytes[at] ^= 1;
            bytes[at + 48] ^= 1;
            assert_eq!(parse(&bytes), None, "{at} in both copies");
        }
    }
}

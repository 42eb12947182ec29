//! The first 100 bytes of a database file (file format, section 1.3).

use super::be_u32;
use litefoot_storage::file::{File, Result};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Bytes of the header.
pub const HEADER_BYTES: usize = 100;

/// The fields of the header. Their names are the file format's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Page size in bytes; 0 when the header holds no valid one.
    pub page_bytes: u32,
    /// 1 rollback journal, 2 write-ahead log.
    pub write_version: u8,
    /// Bytes kept free at the end of each page.
    pub reserved_bytes: u8,
    /// Counts the transactions that changed the file (in rollback modes).
    pub change_counter: u32,
    /// Size of the database in pages; valid when `version_valid_for` equals `change_counter`.
    pub pages: u32,
    /// Pages on the free list.
    pub free_pages: u32,
    /// Counts changes of the schema.
    pub schema_cookie: u32,
    /// `PRAGMA user_version`.
    pub user_version: u32,
    /// `PRAGMA application_id`.
    pub application_id: u32,
    /// The change counter when `pages` was written.
    pub version_valid_for: u32,
    /// SQLite version that wrote last, as a number.
    pub sqlite_version: u32,
}

impl Header {
    /// Reads the header; `None` for a file that has none: it is too short, or begins otherwise.
    pub fn read(file: &dyn File) -> Result<Option<Header>> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        Ok(if read == HEADER_BYTES { Header::parse(&bytes) } else { None })
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        Some(Header {
            page_bytes: page_bytes(u16::from_be_bytes([bytes[16], bytes[17]])),
            write_version: bytes[18],
            reserved_bytes: bytes[20],
            change_counter: be_u32(bytes, 24),
            pages: be_u32(bytes, 28),
            free_pages: be_u32(bytes, 36),
            schema_cookie: be_u32(bytes, 40),
            user_version: be_u32(bytes, 60),
            application_id: be_u32(bytes, 68),
            version_valid_for: be_u32(bytes, 92),
            sqlite_version: be_u32(bytes, 96),
        })
    }

    /// The journal family in SQLite's words.
    pub fn journal_mode(&self) -> &'static str {
        match self.write_version {
            1 => "rollback",
            2 => "wal",
            _ => "unknown",
        }
    }

    /// `sqlite_version` as people write it.
    pub fn sqlite_version_text(&self) -> String {
        let number = self.sqlite_version;
        format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
    }
}

/// Decodes the page size field: a power of two from 512, with 1 for 65,536.
fn page_bytes(field: u16) -> u32 {
    match field {
        1 => 65_536,
        size if size >= 512 && size.is_power_of_two() => u32::from(size),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_powers_of_two() {
        for (field, bytes) in
            [(512, 512), (4096, 4096), (32_768, 32_768), (1, 65_536), (0, 0), (256, 0), (1000, 0)]
        {
            assert_eq!(page_bytes(field), bytes, "{field}");
        }
    }
}

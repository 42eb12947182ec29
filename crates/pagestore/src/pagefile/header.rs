//! Page 0; its layout is drawn in the module above.

use super::{Error, PAGE_SIZES, Result};
use litefoot_storage::file::File;

const MAGIC: &[u8; 8] = b"lf-pages";
const VERSION: u32 = 1;
const CHECKED_BYTES: usize = 24;
const HEADER_BYTES: usize = 28;

/// The content of page 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub page_bytes: usize,
    /// Page 0 among them.
    pub pages: u64,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Header {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.page_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&self.pages.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub fn read(file: &dyn File) -> Result<Header> {
        let no = |what: String| Error::NotAPageFile { path: file.path().to_owned(), what };
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_at(&mut bytes, 0)?;
        if read < HEADER_BYTES || &bytes[..8] != MAGIC {
            return Err(no("is not a page file".to_owned()));
        }
        if u32_at(&bytes, 8) != VERSION {
            let version = u32_at(&bytes, 8);
            return Err(no(format!("has the version {version}, which a later litefoot has made")));
        }
        if crc32c::crc32c(&bytes[..CHECKED_BYTES]) != u32_at(&bytes, CHECKED_BYTES) {
            return Err(no("is damaged: the checksum of its header is wrong".to_owned()));
        }
        let header = Header { page_bytes: u32_at(&bytes, 12) as usize, pages: u64_at(&bytes, 16) };
        if !PAGE_SIZES.contains(&header.page_bytes) {
            return Err(Error::PageSize(header.page_bytes));
        }
        let (expected, found) = (header.pages.checked_mul(header.page_bytes as u64), file.len()?);
        if expected != Some(found) {
            let pages = header.pages;
            return Err(no(format!("is damaged or cut short: {found} bytes, where {pages} pages should be")));
        }
        Ok(header)
    }
}

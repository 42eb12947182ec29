//! The rollback journal's header (file format, section 3).

use super::be_u32;
use litefoot_storage::file::{File, Result};
use litefoot_storage::rollback_journal::MAGIC;

const HEADER_BYTES: usize = 28;

/// A rollback journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Its length.
    pub bytes: u64,
    /// The meaning of its first bytes.
    pub content: Content,
}

/// The meaning of a rollback journal's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Empty, or its header is zeros: nothing to roll back (`TRUNCATE` and `PERSIST` leave it so).
    Finished,
    /// A transaction was begun: hot, unless its writer is still at work.
    InUse {
        /// Pages of the database when the transaction began.
        initial_pages: u32,
        /// Page size of the database it belongs to.
        page_bytes: u32,
    },
    /// It is no journal.
    Foreign,
}

impl Journal {
    /// Reads the header.
    pub fn read(file: &dyn File) -> Result<Journal> {
        let mut header = [0; HEADER_BYTES];
        let read = file.read_at(&mut header, 0)?;
        let content = if header.iter().all(|byte| *byte == 0) {
            Content::Finished
        } else if read == HEADER_BYTES && header.starts_with(&MAGIC) {
            Content::InUse { initial_pages: be_u32(&header, 16), page_bytes: be_u32(&header, 24) }
        } else {
            Content::Foreign
        };
        Ok(Journal { bytes: file.len()?, content })
    }
}

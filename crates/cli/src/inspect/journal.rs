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
    /// Empty, or its first byte is zero, by which SQLite tells that there is nothing to roll back. `TRUNCATE` and `PERSIST` leave it so, and
    /// a process that has died before it synced the journal: the header gets its first bytes behind that sync.
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
        let content = if header[0] == 0 {
            Content::Finished
        } else if read == HEADER_BYTES && header.starts_with(&MAGIC) {
            Content::InUse { initial_pages: be_u32(&header, 16), page_bytes: be_u32(&header, 24) }
        } else {
            Content::Foreign
        };
        Ok(Journal { bytes: file.len()?, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::path::Path;

    #[test]
    fn the_first_byte_tells_whether_there_is_something_to_roll_back() {
        let header = |magic: &[u8]| {
            [magic, &[0; 4], &[7; 4], &3_u32.to_be_bytes(), &[0, 0, 2, 0, 0, 0, 16, 0]].concat()
        };
        let in_use = Content::InUse { initial_pages: 3, page_bytes: 4096 };
        for (bytes, content) in [
            (Vec::new(), Content::Finished),
            (vec![0; 512], Content::Finished),
            // As SQLite writes it before it syncs the journal.
            (header(&[0; 8]), Content::Finished),
            (header(&MAGIC), in_use),
            (MAGIC.to_vec(), Content::Foreign),
            (b"a text, and no journal of SQLite's".to_vec(), Content::Foreign),
        ] {
            let medium = SimMedium::new();
            let file =
                medium.open(Path::new("/app.db-journal"), FileKind::Journal, OpenMode::Create).unwrap();
            file.write_at(&bytes, 0).unwrap();
            let expected = Journal { bytes: bytes.len() as u64, content };
            assert_eq!(Journal::read(&*file).unwrap(), expected, "{bytes:?}");
        }
    }
}

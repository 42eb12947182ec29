//! The origin of a log: the data file, and its first sector, when a generation began.
//!
//! # Why
//! A log is found by its name. The database of that name may be another file by then: created anew, restored from a
//! copy, or moved there. The header of a generation therefore says what the data file was when it began:
//!
//! 1. **What is in it**: a checksum of its first sector. A sector is never torn. So a crash in the middle of a
//!    checkpoint leaves the sector of that moment, or a later one. The log has an image of either.
//! 2. **Which file it is**: its inode's number and its birth. A copy has others, so that this is no proof.
//! 3. **Which file the log is**, in the same way. Where the log is the same file and the data file is another, somebody has
//!    put that there. Where both are others, they were copied together. A copy that is taken for the same file costs
//!    transactions, so that more bits tell logs apart: 24, and 16 for the data file.
//!
//! The callers, which know pages, decide what follows from that.

use super::format::Origin;
use crate::file::{File, Medium, Result, SECTOR_BYTES};
use std::path::PathBuf;
use std::sync::Arc;

/// The file that a log belongs to.
#[derive(Clone)]
pub struct DataFile {
    /// The path that it was opened with.
    pub path: PathBuf,
    /// The file of that name: its identity.
    pub file: Arc<dyn File>,
    /// The file as it is read and written: through its tier, if it has one.
    pub content: Arc<dyn File>,
}

impl DataFile {
    /// Its first sector, or what there is of it.
    pub fn first_sector(&self) -> Result<Vec<u8>> {
        let mut sector = vec![0; SECTOR_BYTES];
        let read = self.content.read_at(&mut sector, 0)?;
        sector.truncate(read);
        Ok(sector)
    }

    /// The origin for a generation of `log` that begins now.
    pub fn origin(&self, log: &dyn File) -> Result<Origin> {
        let content = content_of(&self.first_sector()?);
        Ok(Origin { content, data: which(&*self.file)? as u16, log: which(log)? })
    }

    /// True if the file still has its name.
    pub fn has_its_name(&self, medium: &dyn Medium) -> Result<bool> {
        Ok(medium.identity(&self.path)? == Some(self.file.id()))
    }
}

/// The checksum of a first sector.
pub fn content_of(sector: &[u8]) -> u32 {
    crc32c::crc32c_append(sector.len() as u32, sector)
}

impl Origin {
    /// True if `file` is the data file of then.
    ///
    /// # Errors
    /// Errors of the look-up: half an identity would be another file's.
    pub fn is_of(&self, file: &dyn File) -> Result<bool> {
        Ok(which(file)? as u16 == self.data)
    }

    /// True if `file` is the log of then.
    ///
    /// # Errors
    /// As those of [`Origin::is_of`].
    pub fn is_in(&self, file: &dyn File) -> Result<bool> {
        Ok(which(file)? == self.log)
    }
}

/// The identity of a file, in 24 bits. The device is left out: its number changes when the machine starts.
pub(super) fn which(file: &dyn File) -> Result<u32> {
    let sum =
        crc32c::crc32c_append(crc32c::crc32c(&file.id().inode.to_le_bytes()), &file.birth()?.to_le_bytes());
    Ok(sum >> 24 << 16 | (sum ^ sum >> 16) & 0xffff)
}

//! Whose log it is: what the data file was when a generation began.
//!
//! # Why
//! A log is found by its name, and the file that has the name beside it may be another one: removed and made anew,
//! restored from a copy, moved there. The header of a generation therefore says what the data file was when it began:
//!
//! 1. **What is in it**: a checksum of its first sector. A sector is never torn, so a crash in the middle of a checkpoint
//!    leaves the sector of then, or a later one, of which the log has an image.
//! 2. **Which file it is**: its inode's number and its birth. A copy has others, so that this is no proof.
//! 3. **Which file the log is**, in the same way. Where the log is the same file and the data file is another, somebody has
//!    put that there. Where both are others, they were copied together.
//!
//! What may follow from that is decided by those who know what a page is.

use super::format::Origin;
use crate::file::{File, Medium, Result, SECTOR_BYTES};
use std::path::PathBuf;
use std::sync::Arc;

/// The file that a log belongs to.
#[derive(Clone)]
pub struct DataFile {
    /// Where it was opened.
    pub path: PathBuf,
    /// The file of that name: its identity.
    pub file: Arc<dyn File>,
    /// What is read and written of it, which a tier stands before.
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

    /// What a generation of `log` that begins now says of it.
    pub fn origin(&self, log: &dyn File) -> Result<Origin> {
        Ok(Origin { content: content_of(&self.first_sector()?), data: which(&*self.file)?, log: which(log)? })
    }

    /// Whether the file still has its name.
    pub fn has_its_name(&self, medium: &dyn Medium) -> Result<bool> {
        Ok(medium.identity(&self.path)? == Some(self.file.id()))
    }
}

/// What is in a first sector.
pub fn content_of(sector: &[u8]) -> u32 {
    crc32c::crc32c_append(sector.len() as u32, sector)
}

/// Which file it is, in 16 bits. The device is left out: its number changes when the machine starts.
///
/// # Errors
/// Those of looking: half an identity would be another file's.
pub fn which(file: &dyn File) -> Result<u16> {
    let sum =
        crc32c::crc32c_append(crc32c::crc32c(&file.id().inode.to_le_bytes()), &file.birth()?.to_le_bytes());
    Ok((sum ^ (sum >> 16)) as u16)
}

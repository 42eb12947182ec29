//! The floor: what any durable transaction costs at least.

use crate::Result;
use litefoot_storage::file::{File, FileKind, Medium, OpenMode};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a small transaction.
const RECORD_BYTES: usize = 300;
/// The file is long enough that a device cannot take it for one place.
const FILE_BYTES: usize = 4 << 20;
const RECORDS: u64 = (FILE_BYTES / RECORD_BYTES) as u64;

/// A file whose every byte is written and durable.
pub struct Floor(Arc<dyn File>);

impl Floor {
    pub fn open(medium: &dyn Medium, path: &Path) -> Result<Floor> {
        let file = medium.open(path, FileKind::CommitLog, OpenMode::CreateNew)?;
        file.write_at(&vec![0; FILE_BYTES], 0)?;
        file.sync()?;
        Ok(Floor(file))
    }

    /// Writes record number `number` in place, behind the last one, and makes it durable.
    pub fn write(&self, number: u64) -> Result<()> {
        let record = [number as u8 | 1; RECORD_BYTES];
        self.0.write_at(&record, number % RECORDS * RECORD_BYTES as u64)?;
        Ok(self.0.sync()?)
    }
}

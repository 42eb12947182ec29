//! Batches of several parts, in a file without a name until all parts are there.
//!
//! A transaction of PostgreSQL that waits for a device's network would hold locks that others need.

use super::part::{Label, Receiver};
use crate::Batch;
use litefoot_rowdiff::TableChanges;
use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};

/// Most bytes of a batch, as it travels.
pub(super) const MOST_BYTES: u64 = 4 << 30;

/// The parts of a batch.
pub(super) struct Spool {
    file: File,
    bytes: u64,
    parts: u32,
    label: Label,
}

impl Spool {
    pub fn new(label: Label) -> std::io::Result<Spool> {
        Ok(Spool { file: tempfile::tempfile()?, bytes: 0, parts: 0, label })
    }

    pub fn label(&self) -> &Label {
        &self.label
    }

    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Adds a part.
    pub fn push(&mut self, part: &[u8]) -> Result<(), String> {
        self.bytes += part.len() as u64;
        if self.bytes > MOST_BYTES {
            return Err(format!(
                "the batch has more than {MOST_BYTES} bytes: ship fewer tables, or to PostgreSQL directly"
            ));
        }
        let length = u32::try_from(part.len()).map_err(|error| error.to_string())?.to_le_bytes();
        let write = self.file.write_all(&length).and_then(|()| self.file.write_all(part));
        self.parts += 1;
        write.map_err(|error| format!("the collector cannot keep the batch: {error}"))
    }

    /// The batch, with the tables of its first part, and a reader of the others.
    pub fn open(&mut self) -> Result<(Batch, Pieces<'_>), String> {
        self.file.rewind().map_err(|error| error.to_string())?;
        let mut pieces =
            Pieces { file: BufReader::new(&self.file), left: self.parts, receiver: Receiver::default() };
        let tables = pieces.next()?.unwrap_or_default();
        Ok((self.label.batch(tables), pieces))
    }
}

/// The parts of a spool, one after the other.
pub(super) struct Pieces<'a> {
    file: BufReader<&'a File>,
    left: u32,
    receiver: Receiver,
}

impl Pieces<'_> {
    /// The tables of the next part; `None` behind the last.
    pub fn next(&mut self) -> Result<Option<Vec<TableChanges>>, String> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let fail = |error: std::io::Error| format!("the collector cannot read the batch back: {error}");
        let mut length = [0; 4];
        self.file.read_exact(&mut length).map_err(fail)?;
        let mut part = vec![0; u32::from_le_bytes(length) as usize];
        self.file.read_exact(&mut part).map_err(fail)?;
        self.receiver.tables(&part).map(Some)
    }
}

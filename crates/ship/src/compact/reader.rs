//! A file of a store as a stream, fetched in parts.

use crate::store::{Listed, Store};
use std::io::{self, Read};

/// Bytes that are fetched at once.
const PART_BYTES: u64 = 1 << 20;

/// Reads a file from its beginning.
pub struct Reader<'a> {
    store: &'a dyn Store,
    file: Listed,
    at: u64,
    part: Vec<u8>,
    used: usize,
}

impl Reader<'_> {
    /// The file of that name.
    pub fn new(store: &dyn Store, file: Listed) -> Reader<'_> {
        Reader { store, file, at: 0, part: Vec::new(), used: 0 }
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.used == self.part.len() && self.at < self.file.bytes {
            let end = self.file.bytes.min(self.at + PART_BYTES);
            let part = self.store.get(self.file.name, self.at..end).map_err(io::Error::other)?;
            let part =
                part.ok_or_else(|| io::Error::other(format!("{} has gone meanwhile", self.file.name)))?;
            self.at += part.len() as u64;
            (self.part, self.used) = (part, 0);
        }
        let bytes = to.len().min(self.part.len() - self.used);
        to[..bytes].copy_from_slice(&self.part[self.used..self.used + bytes]);
        self.used += bytes;
        Ok(bytes)
    }
}

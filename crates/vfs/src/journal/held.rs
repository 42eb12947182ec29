//! The pages that a transaction has written and that nobody else may see yet.

use crate::error::Result;
use crate::memory::MemoryFile;
use std::collections::BTreeMap;

/// Pages of a transaction, kept out of the database file until it commits.
///
/// Invariants:
/// 1. All pages have `page_bytes` bytes; a write of any other shape is refused, and the caller goes back
///    to SQLite's own protocol.
/// 2. A page at or behind the end of the database is not held.
pub struct Held {
    pages: MemoryFile,
    page_bytes: usize,
    places: BTreeMap<u32, usize>,
    /// Places given out so far; those of pages that were cut off again are not reused.
    used: usize,
    /// Bytes of the database as the transaction sees it, and as the file has them.
    len: u64,
    file_len: u64,
    /// Whether SQLite has asked for a sync: it waits for the commit.
    pub sync_wanted: bool,
}

impl Held {
    /// Nothing held yet of a database file of `file_len` bytes. The memory is taken over from the last
    /// transaction.
    pub fn new(pages: MemoryFile, page_bytes: usize, file_len: u64) -> Held {
        Held {
            pages,
            page_bytes,
            places: BTreeMap::new(),
            used: 0,
            len: file_len,
            file_len,
            sync_wanted: false,
        }
    }

    /// The memory, for the next transaction.
    pub fn into_memory(self) -> MemoryFile {
        self.pages
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Length of the database as the transaction sees it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Pages of the database as the transaction sees it.
    pub fn database_pages(&self) -> u32 {
        (self.len / self.page_bytes as u64) as u32
    }

    /// Length of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Whether the transaction has changed nothing.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.len == self.file_len
    }

    /// The numbers of the pages held, in order.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    /// Whether a write is one of a whole page of the right size.
    pub fn fits(&self, buf: &[u8], offset: u64) -> bool {
        buf.len() == self.page_bytes && offset.is_multiple_of(self.page_bytes as u64)
    }

    /// Takes a page that [`Held::fits`].
    pub fn write(&mut self, page: &[u8], offset: u64) -> Result<()> {
        let number = (offset / self.page_bytes as u64) as u32 + 1;
        let place = *self.places.entry(number).or_insert_with(|| {
            self.used += 1;
            self.used - 1
        });
        self.pages.write(page, place * self.page_bytes)?;
        self.len = self.len.max(offset + page.len() as u64);
        Ok(())
    }

    /// Reads a part of a held page; `false` where the page is not held.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<bool> {
        let page_bytes = self.page_bytes as u64;
        let Some(place) = self.places.get(&((offset / page_bytes) as u32 + 1)) else { return Ok(false) };
        let inside = (offset % page_bytes) as usize;
        self.pages.read(buf, place * self.page_bytes + inside)?;
        Ok(true)
    }

    /// Copies a held page.
    pub fn copy(&self, number: u32, page: &mut [u8]) -> litefoot_engine::device::Result<()> {
        match self.places.get(&number) {
            Some(place) => self.pages.read(page, place * self.page_bytes).map(drop),
            None => Ok(()),
        }
    }

    /// Cuts the database, or extends it; `false` if that is not at a page.
    pub fn set_len(&mut self, len: u64) -> bool {
        let whole = len.is_multiple_of(self.page_bytes as u64);
        if whole {
            let behind = (len / self.page_bytes as u64) as u32 + 1;
            drop(self.places.split_off(&behind));
            self.len = len;
        }
        whole
    }
}

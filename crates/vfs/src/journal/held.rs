//! The pages that a transaction has written and that nobody else may see yet.

use crate::error::Result;
use crate::memory::MemoryFile;
use crate::vfs::database::page_bytes_in;
use std::collections::BTreeMap;

/// Reads the database as it was before the transaction; what is behind its end reads as zeros.
pub type Base<'a> = dyn Fn(&mut [u8], u64) -> Result<()> + 'a;

/// Pages of a transaction, kept out of the database file until it commits.
///
/// Pages have the size that the database had when the transaction began. A VACUUM to another page size
/// writes across their borders and may leave a length that is no multiple of them.
///
/// Invariant: no page that begins at or behind the end of the database is held, and what a held page has
/// behind that end is zero.
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

    /// Takes a write; `base` reads the database as it was before, for pages that are written in part.
    pub fn write(&mut self, buf: &[u8], offset: u64, base: &Base<'_>) -> Result<()> {
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            let (number, inside) = self.page_of(at);
            let (part, behind) = rest.split_at(rest.len().min(self.page_bytes - inside));
            let place = self.place(number, part.len() == self.page_bytes, base)?;
            self.pages.write(part, place * self.page_bytes + inside)?;
            at += part.len() as u64;
            rest = behind;
        }
        self.len = self.len.max(at);
        Ok(())
    }

    /// Reads the database as the transaction sees it.
    pub fn read(&self, buf: &mut [u8], offset: u64, base: &Base<'_>) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (number, inside) = self.page_of(at);
            let end = buf.len().min(done + self.page_bytes - inside);
            let part = &mut buf[done..end];
            match self.places.get(&number) {
                Some(place) => drop(self.pages.read(part, place * self.page_bytes + inside)?),
                None => base(part, at)?,
            }
            done = end;
        }
        Ok(())
    }

    /// Copies a held page.
    pub fn copy(&self, number: u32, page: &mut [u8]) -> litefoot_engine::device::Result<()> {
        match self.places.get(&number) {
            Some(place) => self.pages.read(page, place * self.page_bytes).map(drop),
            None => Ok(()),
        }
    }

    /// Bytes of a page after the transaction, as its page 1 says.
    pub fn new_page_bytes(&self) -> Result<usize> {
        let Some(place) = self.places.get(&1) else { return Ok(self.page_bytes) };
        let mut head = [0; 32];
        self.pages.read(&mut head, place * self.page_bytes)?;
        Ok(page_bytes_in(&head) as usize)
    }

    /// Cuts the database, or extends it.
    pub fn set_len(&mut self, len: u64) -> Result<()> {
        let (number, inside) = self.page_of(len);
        let behind = if inside == 0 { number } else { number + 1 };
        drop(self.places.split_off(&behind));
        if let Some(place) = self.places.get(&number).filter(|_| inside > 0) {
            let zeros = vec![0; self.page_bytes - inside];
            self.pages.write(&zeros, place * self.page_bytes + inside)?;
        }
        self.len = len;
        Ok(())
    }

    /// The page that an offset lies in, and how far inside it.
    fn page_of(&self, offset: u64) -> (u32, usize) {
        let page_bytes = self.page_bytes as u64;
        ((offset / page_bytes) as u32 + 1, (offset % page_bytes) as usize)
    }

    /// The place of a page; what it held before is brought there unless all of it is about to be written.
    fn place(&mut self, number: u32, whole: bool, base: &Base<'_>) -> Result<usize> {
        if let Some(place) = self.places.get(&number) {
            return Ok(*place);
        }
        let place = self.used;
        if !whole {
            let mut page = vec![0; self.page_bytes];
            let start = u64::from(number - 1) * self.page_bytes as u64;
            if start < self.len {
                base(&mut page, start)?;
            }
            self.pages.write(&page, place * self.page_bytes)?;
        }
        self.used += 1;
        self.places.insert(number, place);
        Ok(place)
    }
}

//! A vector of integers in pages.

use crate::ops::{Error, Extents, Pages, PagesMut, Result};
use std::ops::Range;

/// Reads a little-endian integer of 4 or 8 bytes.
fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Pages that a vector of so many entries takes.
pub(super) fn pages_for(entries: u64, id_bytes: usize, page_bytes: usize) -> u64 {
    entries.div_ceil((page_bytes / id_bytes) as u64)
}

/// Reads a vector; keeps its last page pinned.
pub(super) struct Cursor<'p, P: Pages> {
    pages: &'p P,
    extents: &'p Extents,
    id_bytes: usize,
    per_page: u64,
    held: Option<(u64, P::Guard<'p>)>,
}

impl<'p, P: Pages> Cursor<'p, P> {
    pub fn new(pages: &'p P, extents: &'p Extents, id_bytes: usize) -> Cursor<'p, P> {
        let per_page = (pages.page_bytes() / id_bytes) as u64;
        Cursor { pages, extents, id_bytes, per_page, held: None }
    }

    /// The bytes of the page at that place of the sequence.
    fn page(&mut self, place: u64) -> Result<&[u8]> {
        if self.held.as_ref().is_none_or(|(held, _)| *held != place) {
            // Unpins the old page first: only one page of each vector is pinned.
            self.held = None;
            let page = self.extents.get(place).ok_or_else(|| {
                Error::NotAGraph(format!("page {place} of a vector of {} is wanted", self.extents.len()))
            })?;
            self.held = Some((place, self.pages.page(page)?));
        }
        Ok(self.held.as_ref().map_or(&[], |(_, guard)| guard))
    }

    /// One entry.
    pub fn get(&mut self, index: u64) -> Result<u64> {
        let (id_bytes, place) = (self.id_bytes, index / self.per_page);
        let offset = (index % self.per_page) as usize * id_bytes;
        Ok(integer(&self.page(place)?[offset..offset + id_bytes]))
    }

    /// A range of entries, in order.
    pub fn each(&mut self, range: Range<u64>, found: &mut impl FnMut(u64)) -> Result<()> {
        let id_bytes = self.id_bytes;
        let mut index = range.start;
        while index < range.end {
            let (place, inside) = (index / self.per_page, index % self.per_page);
            let count = (self.per_page - inside).min(range.end - index);
            let offset = inside as usize * id_bytes;
            let bytes = &self.page(place)?[offset..offset + count as usize * id_bytes];
            match id_bytes {
                4 => bytes.chunks_exact(4).for_each(|entry| found(integer(entry))),
                _ => bytes.chunks_exact(8).for_each(|entry| found(integer(entry))),
            }
            index += count;
        }
        Ok(())
    }
}

/// Writes a vector from its beginning to its end, a page at a time.
pub(super) struct Writer<'p, P: PagesMut> {
    pages: &'p P,
    extents: Extents,
    id_bytes: usize,
    /// Pages written.
    written: u64,
    page: Vec<u8>,
}

impl<'p, P: PagesMut> Writer<'p, P> {
    /// A vector of so many entries, in new pages.
    pub fn new(pages: &'p P, entries: u64, id_bytes: usize) -> Result<Writer<'p, P>> {
        let extents = pages.allocate(pages_for(entries, id_bytes, pages.page_bytes()))?;
        Ok(Writer { pages, extents, id_bytes, written: 0, page: Vec::with_capacity(pages.page_bytes()) })
    }

    pub fn push(&mut self, value: u64) -> Result<()> {
        self.page.extend_from_slice(&value.to_le_bytes()[..self.id_bytes]);
        if self.page.len() + self.id_bytes > self.pages.page_bytes() { self.write_page() } else { Ok(()) }
    }

    /// Writes what is left and gives the pages.
    pub fn finish(mut self) -> Result<Extents> {
        if !self.page.is_empty() {
            self.write_page()?;
        }
        Ok(self.extents)
    }

    fn write_page(&mut self) -> Result<()> {
        let page = self
            .extents
            .get(self.written)
            .ok_or_else(|| Error::NotAGraph("more entries than announced".to_owned()))?;
        let content = &self.page;
        self.pages.update(page, &mut |bytes| bytes[..content.len()].copy_from_slice(content))?;
        self.written += 1;
        self.page.clear();
        Ok(())
    }
}

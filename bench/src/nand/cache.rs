//! The page cache of a file on NAND, and the places of its pages.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// Bytes of a page of NAND.
pub const PAGE_BYTES: u64 = 2048;

/// A file as the operating system has it.
#[derive(Debug, Default)]
pub struct CachedFile {
    /// The page of the device that each page of the file has. A page gets one when it is first written out.
    pub places: BTreeMap<u64, u32>,
    /// The page of the device that says what the file is.
    pub own_page: Option<u32>,
    cached: HashSet<u64>,
    dirty: BTreeSet<u64>,
    /// True if length or places have changed since that page was written.
    pub changed: bool,
}

impl CachedFile {
    /// A new file.
    pub fn created() -> CachedFile {
        CachedFile { changed: true, ..CachedFile::default() }
    }

    /// Reads a range; gives the pages of the device that are read for it.
    pub fn read(&mut self, range: Range<u64>) -> Vec<u32> {
        let missing = pages_of(range).filter(|page| self.cached.insert(*page));
        let missing: Vec<u64> = missing.collect();
        missing.iter().filter_map(|page| self.places.get(page).copied()).collect()
    }

    /// Writes a range; gives the pages that must be read because only a part of them is written.
    pub fn write(&mut self, range: Range<u64>) -> Vec<u32> {
        let mut partly = Vec::new();
        for page in pages_of(range.clone()) {
            let whole = range.start <= page * PAGE_BYTES && range.end >= (page + 1) * PAGE_BYTES;
            if self.cached.insert(page) && !whole {
                partly.extend(self.places.get(&page));
            }
            self.dirty.insert(page);
        }
        partly
    }

    /// The file has another length; gives the pages of the device that it gives up.
    pub fn set_len(&mut self, len: u64) -> Vec<u32> {
        self.changed = true;
        let end = len.div_ceil(PAGE_BYTES);
        self.dirty.split_off(&end);
        self.cached.retain(|page| *page < end);
        self.places.split_off(&end).into_values().collect()
    }

    /// Takes the pages that a sync writes.
    pub fn take_dirty(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.dirty)
    }
}

fn pages_of(range: Range<u64>) -> Range<u64> {
    if range.is_empty() { 0..0 } else { range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_once_and_not_where_it_is_written_whole() {
        let mut file = CachedFile::created();
        file.places.extend([(0, 10), (1, 11), (2, 12)]);
        assert_eq!(file.write(2048..4096), Vec::<u32>::new());
        assert_eq!(file.write(100..200), [10]);
        assert_eq!(file.read(0..6144), [12]);
        assert_eq!(file.take_dirty(), [0, 1].into());
        assert_eq!(file.set_len(2049), [12]);
        assert_eq!(file.set_len(0), [10, 11]);
    }
}

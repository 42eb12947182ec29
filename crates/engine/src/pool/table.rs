//! The page table: a word of state for each page.
//!
//! Two levels, so that it grows without moving: whoever looks a page up takes no lock. Neighbours in the file are
//! not neighbours here: threads that hold adjacent pages, as those of a parallel scan do, would otherwise take the
//! cache line from each other.

use super::state::State;
use std::sync::OnceLock;

/// Pages of a block: a page of memory full.
const BLOCK: usize = 512;
/// Blocks of a chunk: the second level.
const CHUNK: usize = 64 * BLOCK;
/// Adjacent pages' words lie so many words apart: eight cache lines.
const APART: usize = 64;

pub(super) struct Table {
    chunks: Box<[OnceLock<Box<[State]>>]>,
}

impl Table {
    /// A table for at most so many pages; memory is taken by those that [`Table::grow`] was called for.
    pub fn new(most_pages: u64) -> Table {
        let chunks = usize::try_from(most_pages.div_ceil(CHUNK as u64)).unwrap_or(usize::MAX);
        Table { chunks: (0..chunks).map(|_| OnceLock::new()).collect() }
    }

    /// There are `pages` pages now. What lies beyond the most there can be has no word.
    pub fn grow(&self, pages: u64) {
        let chunks = pages.div_ceil(CHUNK as u64) as usize;
        for chunk in self.chunks.iter().take(chunks).rev().take_while(|chunk| chunk.get().is_none()) {
            chunk.get_or_init(|| (0..CHUNK).map(|_| State::default()).collect());
        }
    }

    /// The state of a page; there are some behind the last page that nobody uses.
    #[inline]
    pub fn of(&self, page: u64) -> Option<&State> {
        let page = usize::try_from(page).ok()?;
        let chunk = self.chunks.get(page / CHUNK)?.get()?;
        let (block, inside) = ((page % CHUNK) & !(BLOCK - 1), page & (BLOCK - 1));
        let rows = BLOCK / APART;
        chunk.get(block | (inside % rows * APART) | (inside / rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_page_has_a_word_of_its_own() {
        let table = Table::new(3 * CHUNK as u64);
        assert!(table.of(0).is_none());
        table.grow(CHUNK as u64 + 1);
        let words: HashSet<_> =
            (0..2 * CHUNK as u64).map(|page| std::ptr::from_ref(table.of(page).unwrap())).collect();
        assert_eq!(words.len(), 2 * CHUNK);
        assert!(table.of(2 * CHUNK as u64).is_none());
        table.grow(u64::MAX);
        assert!(table.of(3 * CHUNK as u64 - 1).is_some() && table.of(3 * CHUNK as u64).is_none());
    }
}

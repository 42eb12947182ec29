//! The page table: a word of state for each page.
//!
//! It grows without moving, so that whoever looks a page up takes no lock: chunk *k* has the words of
//! `BLOCK << k` pages, twice as many as the one before it. Neighbours in the file are not neighbours here:
//! threads that hold adjacent pages, as those of a parallel scan do, would otherwise take the cache line from each
//! other.

use super::state::State;
use std::sync::OnceLock;

/// Pages of the first chunk: a page of memory full. All others are whole blocks, too.
const BLOCK: u64 = 512;
/// Adjacent pages' words lie so many words apart: eight cache lines.
const APART: u64 = 64;
/// Chunks for all pages there can be.
const CHUNKS: usize = 32;

pub(super) struct Table {
    chunks: [OnceLock<Box<[State]>>; CHUNKS],
    most_pages: u64,
}

/// The chunk of a page, and the page's place in it.
#[inline]
fn place(page: u64) -> (usize, u64) {
    // Chunk k has the pages from BLOCK << k on, were they counted from BLOCK: their highest bit tells it.
    let page = page.saturating_add(BLOCK);
    let highest = page.ilog2();
    ((highest - BLOCK.ilog2()) as usize, page ^ (1 << highest))
}

impl Table {
    /// A table for at most so many pages; memory is taken by those that [`Table::grow`] was called for.
    pub fn new(most_pages: u64) -> Table {
        Table { chunks: [const { OnceLock::new() }; CHUNKS], most_pages }
    }

    /// There are `pages` pages now. What lies beyond the most there can be has no word.
    pub fn grow(&self, pages: u64) {
        let Some(last) = pages.min(self.most_pages).checked_sub(1) else { return };
        let (chunks, _) = place(last);
        for (number, chunk) in self.chunks.iter().enumerate().take(chunks + 1) {
            chunk.get_or_init(|| (0..BLOCK << number).map(|_| State::default()).collect());
        }
    }

    /// The state of a page; there are some behind the last page that nobody uses.
    #[inline]
    pub fn of(&self, page: u64) -> Option<&State> {
        let (chunk, inside) = place(page);
        let (block, inside) = (inside & !(BLOCK - 1), inside & (BLOCK - 1));
        let rows = BLOCK / APART;
        let word = block | (inside % rows * APART) | (inside / rows);
        self.chunks.get(chunk)?.get()?.get(usize::try_from(word).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_page_has_a_word_of_its_own() {
        let most = 3 * BLOCK;
        let table = Table::new(most);
        assert!(table.of(0).is_none());
        table.grow(1);
        assert!(table.of(BLOCK - 1).is_some() && table.of(BLOCK).is_none());
        let first = std::ptr::from_ref(table.of(7).unwrap());
        table.grow(BLOCK + 1);
        assert_eq!(first, std::ptr::from_ref(table.of(7).unwrap()));
        let words: HashSet<_> = (0..most).map(|page| std::ptr::from_ref(table.of(page).unwrap())).collect();
        assert_eq!(words.len() as u64, most);
        assert!(table.of(most).is_none());
        table.grow(u64::MAX);
        assert!(table.of(most - 1).is_some() && table.of(most).is_none() && table.of(u64::MAX).is_none());
    }

    #[test]
    fn chunks_lie_one_behind_the_other() {
        let mut expected = 0;
        for chunk in 0..CHUNKS {
            assert_eq!(place(expected), (chunk, 0));
            expected += BLOCK << chunk;
            assert_eq!(place(expected - 1), (chunk, (BLOCK << chunk) - 1));
        }
        assert!(expected > u64::from(u32::MAX));
    }
}

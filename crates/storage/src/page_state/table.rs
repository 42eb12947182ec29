//! The page table: a word of state for each page.
//!
//! The table grows without moving, so that a look-up takes no lock. Chunk *k* has the words of `1 << k` pages, twice as
//! many as the one before it. Neighbours in the file are not neighbours here. The threads of a parallel scan pin
//! adjacent pages, and would take the cache line from each other.
//!
//! The number of pages comes from files, which may contain any number. A chunk takes memory page by page as it is used.
//! Pages of a chunk without memory have no word, as if they did not exist.

use super::PageState;
use crate::sync::Mutex;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pages of the first chunk: a page of memory full. All others are whole blocks, too.
const BLOCK: u64 = 512;
/// Adjacent pages' words lie so many words apart: eight cache lines.
const APART: u64 = 64;
/// Chunks for all pages there can be.
const CHUNKS: usize = 32;
/// Pages that these have room for.
const ROOM: u64 = (BLOCK << CHUNKS) - BLOCK;
/// The first chunk's place among them, so that looking one up takes no subtraction.
const FIRST: usize = BLOCK.ilog2() as usize;

pub(crate) struct Table {
    /// The words of chunk *k*, which are `1 << k`; null before they are needed, and where there is no memory.
    chunks: [AtomicPtr<PageState>; u64::BITS as usize],
    growing: Mutex<()>,
    most_pages: u64,
}

/// The chunk of a page, and the page's place in it.
#[inline]
fn place(page: u64) -> Option<(usize, u64)> {
    // Chunk k has the pages from 1 << k on, were they counted from BLOCK: their highest bit tells it.
    let page = page.checked_add(BLOCK)?;
    let highest = page.ilog2();
    Some((highest as usize, page ^ (1 << highest)))
}

/// The memory of a chunk; `None` where no machine could have it.
fn layout(chunk: usize) -> Option<Layout> {
    Layout::array::<PageState>(1usize.checked_shl(chunk as u32)?).ok()
}

impl Table {
    /// A table for at most so many pages; memory is taken by those that [`Table::grow`] was called for.
    pub fn new(most_pages: u64) -> Table {
        Table {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; u64::BITS as usize],
            growing: Mutex::new(()),
            most_pages: most_pages.min(ROOM),
        }
    }

    /// There are `pages` pages now. Pages beyond the most there can be, and pages without memory for a word, have none.
    pub fn grow(&self, pages: u64) {
        let last = pages.min(self.most_pages).checked_sub(1);
        let Some((last, _)) = last.and_then(place) else { return };
        let is_there = |chunk: &AtomicPtr<PageState>| !chunk.load(Ordering::Acquire).is_null();
        if self.chunks[FIRST..=last].iter().all(is_there) {
            return;
        }
        let _one = self.growing.lock();
        for (number, chunk) in (FIRST..=last).zip(&self.chunks[FIRST..=last]) {
            if !is_there(chunk) {
                let Some(layout) = layout(number) else { return };
                // SAFETY: the layout is not empty, and zeros are what a state of a page that is not in memory is.
                let states = unsafe { alloc_zeroed(layout) };
                if states.is_null() {
                    return;
                }
                // A thread that finds the chunk finds words in it.
                chunk.store(states.cast(), Ordering::Release);
            }
        }
    }

    /// The state of a page; there are unused ones behind the last page.
    #[inline]
    pub fn of(&self, page: u64) -> Option<&PageState> {
        let (chunk, inside) = place(page)?;
        let (block, inside) = (inside & !(BLOCK - 1), inside & (BLOCK - 1));
        let rows = BLOCK / APART;
        let word = block | (inside % rows * APART) | (inside / rows);
        let states = self.chunks[chunk].load(Ordering::Acquire);
        if states.is_null() {
            return None;
        }
        // SAFETY: the chunk has a word for each of its pages, this is one of them, and they stay while the table does.
        Some(unsafe { &*states.add(word as usize) })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            let states = *chunk.get_mut();
            if !states.is_null() {
                // The same that it was made with.
                let Some(layout) = layout(number) else { continue };
                // SAFETY: `grow` made it with this layout, and no thread looks at it any more. States own nothing.
                unsafe { dealloc(states.cast(), layout) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicU64;

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
    fn a_word_that_was_never_used_is_that_of_a_page_that_is_not_in_memory() {
        let table = Table::new(BLOCK);
        table.grow(BLOCK);
        assert_eq!(table.of(3).unwrap().look(), super::super::Found::Empty);
        assert_eq!(PageState::<AtomicU64>::default().look(), super::super::Found::Empty);
    }

    #[test]
    fn a_file_that_claims_any_number_of_pages_takes_no_memory_for_them() {
        let table = Table::new(u64::from(u32::MAX));
        let before = resident_bytes();
        table.grow(u64::from(u32::MAX));
        assert!(table.of(0).is_some(), "the first chunks are there whatever comes behind them");
        assert!(resident_bytes() < before + (64 << 20));
    }

    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn chunks_lie_one_behind_the_other() {
        let mut expected = 0;
        for chunk in FIRST..FIRST + CHUNKS {
            assert_eq!(place(expected), Some((chunk, 0)));
            expected += 1 << chunk;
            assert_eq!(place(expected - 1), Some((chunk, (1 << chunk) - 1)));
        }
        assert!(expected == ROOM && expected > u64::from(u32::MAX));
        assert_eq!(place(u64::MAX), None);
    }
}

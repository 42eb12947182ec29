//! The page table: a word of state for each page.
//!
//! It grows without moving, so that whoever looks a page up takes no lock: chunk *k* has the words of
//! `1 << k` pages, twice as many as the one before it. Neighbours in the file are not neighbours here:
//! threads that hold adjacent pages, as those of a parallel scan do, would otherwise take the cache line from each
//! other.

use super::state::State;
use crate::sync::Mutex;
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

pub(super) struct Table {
    /// The words of chunk *k*, which are `1 << k`; null where nobody has asked for them yet, and where there is none.
    chunks: [AtomicPtr<State>; u64::BITS as usize],
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

impl Table {
    /// A table for at most so many pages; memory is taken by those that [`Table::grow`] was called for.
    pub fn new(most_pages: u64) -> Table {
        Table {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; u64::BITS as usize],
            growing: Mutex::new(()),
            most_pages: most_pages.min(ROOM),
        }
    }

    /// There are `pages` pages now. What lies beyond the most there can be has no word.
    pub fn grow(&self, pages: u64) {
        let last = pages.min(self.most_pages).checked_sub(1);
        let Some((last, _)) = last.and_then(place) else { return };
        let is_there = |chunk: &AtomicPtr<State>| !chunk.load(Ordering::Acquire).is_null();
        if self.chunks[FIRST..=last].iter().all(is_there) {
            return;
        }
        let _one = self.growing.lock();
        for (number, chunk) in (FIRST..=last).zip(&self.chunks[FIRST..=last]) {
            if !is_there(chunk) {
                let states: Box<[State]> = (0..1u64 << number).map(|_| State::default()).collect();
                // Whoever finds it finds words that say something.
                chunk.store(Box::into_raw(states).cast(), Ordering::Release);
            }
        }
    }

    /// The state of a page; there are some behind the last page that nobody uses.
    #[inline]
    pub fn of(&self, page: u64) -> Option<&State> {
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
                // SAFETY: `grow` made it out of a box with as many words, and nobody looks at it any more.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(states, 1 << number)) });
            }
        }
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
        for chunk in FIRST..FIRST + CHUNKS {
            assert_eq!(place(expected), Some((chunk, 0)));
            expected += 1 << chunk;
            assert_eq!(place(expected - 1), Some((chunk, (1 << chunk) - 1)));
        }
        assert!(expected == ROOM && expected > u64::from(u32::MAX));
        assert_eq!(place(u64::MAX), None);
    }
}

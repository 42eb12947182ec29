//! The allocation table: the pages in use. Pure: no I/O, no locks.
//!
//! # Invariants
//! 1. Every page below `pages` is in use, free, or in the hands of one caller between [`Allocation::take`] and
//!    [`Allocation::mark`] or [`Allocation::give_back`]. Never two of these.
//! 2. Protected pages below `pages` are in use.

use super::{MOST_PAGES, PageId};
use std::collections::BTreeSet;

/// Pages that one page of the table has bits for.
pub(super) fn pages_per_group(page_bytes: usize) -> u64 {
    8 * page_bytes as u64
}

/// The allocation table in memory.
#[derive(Debug)]
pub(crate) struct Allocation {
    page_size: u32,
    now: Vec<u64>,
    pages: u64,
    in_use: u64,
    free: BTreeSet<u32>,
    /// Groups whose bits changed since the last checkpoint.
    changed: BTreeSet<u32>,
}

impl Allocation {
    /// The table of a new store: page 0 alone.
    pub fn new(page_size: u32) -> Allocation {
        let mut table = Allocation {
            page_size,
            now: Vec::new(),
            pages: 0,
            in_use: 0,
            free: BTreeSet::new(),
            changed: BTreeSet::new(),
        };
        table.extend();
        table
    }

    /// The table that these groups' pages hold, one behind the other; or what is wrong with them.
    pub fn decode(page_size: u32, bytes: &[u8]) -> Result<Allocation, String> {
        let word = |word: &[u8]| word.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let now: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let highest = now.iter().rposition(|word| *word != 0);
        let pages = highest.map_or(0, |at| at as u64 * 64 + 64 - u64::from(now[at].leading_zeros()));
        let in_use = now.iter().map(|word| u64::from(word.count_ones())).sum();
        let mut table =
            Allocation { page_size, now, pages, in_use, free: BTreeSet::new(), changed: BTreeSet::new() };
        if pages == 0 || pages > MOST_PAGES {
            return Err(format!("the allocation table says that there are {pages} pages"));
        }
        let per_group = table.pages_per_group();
        if let Some(group) = (0..pages.div_ceil(per_group)).find(|group| !table.is_in_use(group * per_group))
        {
            return Err(format!(
                "page {} of the allocation table is not marked as in use",
                group * per_group
            ));
        }
        table.free = (0..pages).filter(|page| !table.is_in_use(*page)).map(|page| page as u32).collect();
        Ok(table)
    }

    fn pages_per_group(&self) -> u64 {
        pages_per_group(self.page_size as usize)
    }

    /// True if a page belongs to the table itself.
    pub fn is_protected(&self, page: PageId) -> bool {
        page.is_multiple_of(self.pages_per_group())
    }

    /// Pages of the file.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages in use, those of the table among them.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// One more than the last page in use.
    pub fn end_of_use(&self) -> u64 {
        (0..self.pages).rev().find(|page| self.is_in_use(*page)).map_or(0, |page| page + 1)
    }

    /// Pages of the table.
    pub fn groups(&self) -> u32 {
        self.pages.div_ceil(self.pages_per_group()) as u32
    }

    /// True if a page is in use.
    pub fn is_in_use(&self, page: PageId) -> bool {
        bit(&self.now, page)
    }

    /// The free pages, lowest first.
    pub fn free(&self) -> impl Iterator<Item = PageId> {
        self.free.iter().map(|page| u64::from(*page))
    }

    /// Pages of the file once a page is taken; `None` where no more can be numbered.
    pub fn pages_with_one(&self) -> Option<u64> {
        if !self.free.is_empty() {
            return Some(self.pages);
        }
        (self.pages < MOST_PAGES - 1).then(|| self.pages + 1 + u64::from(self.is_protected(self.pages)))
    }

    /// Pages of the file once so many consecutive ones are taken; `None` where they do not fit.
    pub fn pages_with_run(&self, count: u64) -> Option<u64> {
        let per_group = self.pages_per_group();
        if count == 0 || count >= per_group || self.pages + count + per_group > MOST_PAGES {
            return None;
        }
        let inside = self.pages % per_group;
        let fits = inside > 0 && inside + count <= per_group;
        Some(if fits { self.pages + count } else { self.pages.next_multiple_of(per_group) + 1 + count })
    }

    /// The lowest free page, or a new one at the end; `None` where no more can be numbered.
    pub fn take(&mut self) -> Option<PageId> {
        match self.free.pop_first() {
            Some(page) => Some(u64::from(page)),
            None => self.pages_with_one().map(|_| self.extend()),
        }
    }

    /// So many consecutive new pages at the end, in use at once, all of one group; `None` where they do not fit.
    ///
    /// Pages that are skipped because the group has too few left become free.
    pub fn take_run(&mut self, count: u64) -> Option<PageId> {
        let end = self.pages_with_run(count)?;
        let first = end - count;
        while self.pages < end {
            let page = self.extend();
            if page < first { self.give_back(page) } else { self.mark(page) }
        }
        Some(first)
    }

    /// Adds a page at the end, and before it the page of the table that it needs.
    fn extend(&mut self) -> PageId {
        loop {
            let page = self.pages;
            self.pages += 1;
            if !self.is_protected(page) {
                return page;
            }
            let words = self.now.len() + self.pages_per_group() as usize / 64;
            self.now.resize(words, 0);
            self.mark(page);
            if page == 0 {
                return page;
            }
        }
    }

    /// Marks a page in hand as in use.
    pub fn mark(&mut self, page: PageId) {
        self.now[page as usize / 64] |= 1 << (page % 64);
        self.in_use += 1;
        self.note(page);
    }

    /// Takes a page in use in hand: it has no owner for the moment; `false` where it is not in use.
    pub fn take_back(&mut self, page: PageId) -> bool {
        let was = self.is_in_use(page);
        if was {
            self.now[page as usize / 64] &= !(1 << (page % 64));
            self.in_use -= 1;
            self.note(page);
        }
        was
    }

    /// A page in hand is free.
    pub fn give_back(&mut self, page: PageId) {
        self.free.insert(page as u32);
    }

    fn note(&mut self, page: PageId) {
        self.changed.insert((page / self.pages_per_group()) as u32);
    }

    /// The page of the table with a group's bits.
    pub fn page_of(&self, group: u32) -> PageId {
        u64::from(group) * self.pages_per_group()
    }

    /// Writes a group's bits into a page.
    pub fn encode(&self, group: u32, page: &mut [u8]) {
        let first = group as usize * self.pages_per_group() as usize / 64;
        for (bytes, word) in page.chunks_exact_mut(8).zip(&self.now[first..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The groups that have changed since they were last taken. Where they do not become durable,
    /// [`Allocation::put_back`] says so.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Groups that were taken are not durable after all.
    pub fn put_back(&mut self, groups: BTreeSet<u32>) {
        self.changed.extend(groups);
    }

    /// Puts a page on the free list although it is in use, for the tests of the checks.
    #[cfg(test)]
    pub fn corrupt_free_list(&mut self, page: PageId, add: bool) {
        if add {
            self.free.insert(page as u32)
        } else {
            self.free.remove(&(page as u32))
        };
    }
}

fn bit(words: &[u64], page: PageId) -> bool {
    words.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_protected_pages_are_where_the_groups_begin() {
        let mut table = Allocation::new(4096);
        let group = 8 * 4096;
        for expected in (1..group).chain(group + 1..group + 3) {
            let page = table.take().unwrap();
            table.mark(page);
            assert_eq!(page, expected);
        }
        assert!(table.is_protected(0) && table.is_protected(group) && !table.is_protected(group + 1));
        assert_eq!((table.groups(), table.pages(), table.in_use()), (2, group + 3, group + 3));
        let mut bytes = vec![0; 2 * 4096];
        for (group, page) in bytes.chunks_mut(4096).enumerate() {
            table.encode(group as u32, page);
        }
        let back = Allocation::decode(4096, &bytes).unwrap();
        assert_eq!((back.pages(), back.in_use(), back.free().count()), (group + 3, group + 3, 0));
        bytes[4096] &= !1;
        assert!(Allocation::decode(4096, &bytes).is_err());
        assert!(Allocation::decode(4096, &[0; 4096]).is_err());
    }

    #[test]
    fn a_run_lies_in_one_group_and_what_it_skips_is_free() {
        let mut table = Allocation::new(4096);
        let group = 8 * 4096;
        assert_eq!(table.take_run(group - 10), Some(1));
        assert_eq!(table.take_run(100), Some(group + 1));
        assert_eq!(table.free().collect::<Vec<_>>(), (group - 9..group).collect::<Vec<_>>());
        assert_eq!(table.take_run(5), Some(group + 101));
        assert_eq!(table.take_run(group), None);
        assert_eq!(table.take_run(0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_agrees_with_a_set(steps in prop::collection::vec((0u8..4, 0u64..200), 1..300)) {
            let mut table = Allocation::new(4096);
            let mut model = BTreeSet::from([0u64]);
            for (step, choice) in steps {
                match step {
                    0 | 1 => {
                        let page = table.take().unwrap();
                        prop_assert!(!model.contains(&page));
                        if choice % 5 == 0 { table.give_back(page) } else { table.mark(page); model.insert(page); }
                    }
                    2 if choice > 0 => {
                        let taken = table.take_back(choice);
                        prop_assert_eq!(taken, model.remove(&choice));
                        if taken { table.give_back(choice) }
                    }
                    _ => {
                        let changed = table.take_changed();
                        if choice % 2 == 0 { table.put_back(changed) }
                    }
                }
                for page in 0..200 {
                    prop_assert_eq!(table.is_in_use(page), model.contains(&page));
                }
                prop_assert_eq!(table.in_use(), model.len() as u64);
                prop_assert_eq!(table.free().count() as u64, table.pages() - table.in_use());
            }
        }
    }
}

//! A checksum for each page of a database, as of the last delivery: eight bytes a page.

use litefoot_ltx::{Checksum, lock_page};

/// The pages of a database by their checksums.
///
/// # Invariants
/// 1. `sum` is the checksum of the whole database: that of its pages, but for the page of the locks.
/// 2. The page of the locks has [`Checksum::NONE`], and no other has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMap {
    page_size: u32,
    pages: Vec<Checksum>,
    sum: Checksum,
}

impl PageMap {
    /// A database without pages.
    pub fn new(page_size: u32) -> PageMap {
        PageMap { page_size, pages: Vec::new(), sum: Checksum::EMPTY }
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// The number of pages.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The checksum of the database.
    pub fn sum(&self) -> Checksum {
        self.sum
    }

    /// The checksum of a page, if there is one.
    pub fn get(&self, page: u32) -> Option<Checksum> {
        let found = self.pages.get((page as usize).checked_sub(1)?)?;
        found.is_some().then_some(*found)
    }

    /// The checksums of all pages.
    pub fn checksums(&self) -> &[Checksum] {
        &self.pages
    }

    /// Notes a page; `true` where it is another one than before. Pages come in ascending order where they are new.
    pub fn set(&mut self, page: u32, checksum: Checksum) -> bool {
        if page == 0 || page == lock_page(self.page_size) {
            return false;
        }
        if page > self.len() {
            self.grow(page);
        }
        let place = &mut self.pages[page as usize - 1];
        if *place == checksum {
            return false;
        }
        for toggled in [*place, checksum] {
            if toggled.is_some() {
                self.sum = self.sum.toggle(toggled);
            }
        }
        *place = checksum;
        true
    }

    /// Makes room. A page that nobody sets afterwards would break invariant 2.
    fn grow(&mut self, pages: u32) {
        self.pages.resize(pages as usize, Checksum::NONE);
    }

    /// Forgets the pages behind a new end, or makes room up to it: the page of the locks may be the last one.
    pub fn resize(&mut self, pages: u32) {
        for page in self.pages.iter().skip(pages as usize).filter(|page| page.is_some()) {
            self.sum = self.sum.toggle(*page);
        }
        self.pages.resize(pages as usize, Checksum::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_sum_is_that_of_a_plain_list() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut map, mut model) = (PageMap::new(512), BTreeMap::new());
        for step in 0..2000 {
            if random.u8(..10) == 0 {
                let pages = random.u32(..30);
                let old = map.len();
                map.resize(pages);
                model.retain(|page, _| *page <= pages);
                for page in old + 1..=pages {
                    map.set(page, Checksum::of_page(page, &[1]));
                    model.insert(page, Checksum::of_page(page, &[1]));
                }
            }
            let page = random.u32(1..=map.len() + 1);
            let checksum = Checksum::of_page(page, &[random.u8(..3)]);
            let changed = model.insert(page, checksum) != Some(checksum);
            assert_eq!(map.set(page, checksum), changed, "{step}");
            assert_eq!(map.sum(), model.values().fold(Checksum::EMPTY, |sum, page| sum.toggle(*page)));
            assert_eq!(map.len() as usize, model.len());
        }
    }

    #[test]
    fn the_page_of_the_locks_is_none() {
        let lock = lock_page(65_536);
        let mut map = PageMap::new(65_536);
        map.resize(lock + 1);
        assert!(!map.set(lock, Checksum::of_page(lock, &[])) && map.get(lock).is_none());
        assert!(map.set(lock + 1, Checksum::of_page(lock + 1, &[])) && map.get(lock + 2).is_none());
        assert_eq!((map.get(0), map.len()), (None, lock + 1));
    }
}

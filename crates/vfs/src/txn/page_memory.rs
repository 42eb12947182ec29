//! Memory of a transaction's pages: how many there are, and what the memory reservation is told of them.
//!
//! Both families of transactions count alike. They count pages in memory, a running batch's copies of pages that have
//! changed since it began, and what is known of pages elsewhere. The last is told with each change, since its owners
//! count it.
//!
//! # Invariants
//! 1. The reservation has what it was told last; [`PageMemory::bytes`] is exact at any time.
//! 2. A page that a batch writes is never changed: its transaction goes on with a copy.

use crate::memory::reservation::MemoryReservation;
use crate::txn::spiller::PageBytes;
use std::sync::Arc;

/// Count of the pages in memory, and their reservation.
pub struct PageMemory {
    reservation: MemoryReservation,
    page_bytes: usize,
    pages: usize,
    copies: usize,
}

impl PageMemory {
    /// No page yet. Pages of 0 bytes are those of a log without a header.
    pub fn new(reservation: MemoryReservation, page_bytes: usize) -> PageMemory {
        PageMemory { reservation, page_bytes, pages: 0, copies: 0 }
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Pages have another size from now on; there are none.
    pub fn set_page_bytes(&mut self, page_bytes: usize) {
        self.page_bytes = page_bytes;
    }

    /// Pages in memory.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Pages that a batch still has, and that were changed since.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Bytes of pages and copies.
    pub fn bytes(&self) -> usize {
        (self.pages + self.copies) * self.page_bytes
    }

    /// Bytes that the reservation was told last.
    pub fn reserved_bytes(&self) -> usize {
        self.reservation.bytes()
    }

    /// Most bytes that may be in use now.
    pub fn most_bytes(&self) -> usize {
        self.reservation.most()
    }

    /// Replaces the content of a page in memory; answers true where a batch has the old one, and this is a copy.
    pub fn replace(&mut self, page: &mut PageBytes, content: &[u8]) -> bool {
        if let Some(page) = Arc::get_mut(page) {
            page.copy_from_slice(content);
            return false;
        }
        *page = content.into();
        self.copies += 1;
        true
    }

    /// A page has entered memory.
    pub fn add_page(&mut self) {
        self.pages += 1;
    }

    /// So many pages have left memory.
    pub fn remove_pages(&mut self, count: usize) {
        self.pages -= count;
    }

    /// The batch has ended, and its copies are gone.
    pub fn end_copies(&mut self) {
        self.copies = 0;
    }

    /// Tells the reservation what is in use, with so many bytes beside the pages.
    pub fn reserve(&mut self, other_bytes: usize) {
        self.reservation.set(self.bytes() + other_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    #[test]
    fn a_page_that_a_batch_has_is_copied_and_both_are_counted() {
        let mut memory = PageMemory::new(MemoryReservation::fixed(1 << 20), PAGE);
        let mut page: PageBytes = [1; PAGE].into();
        memory.add_page();
        assert!(!memory.replace(&mut page, &[2; PAGE]), "nobody else has it");
        let of_batch = page.clone();
        assert!(memory.replace(&mut page, &[3; PAGE]));
        assert_eq!((of_batch[0], page[0]), (2, 3));
        assert!(!memory.replace(&mut page, &[4; PAGE]), "one copy does");
        assert_eq!((memory.pages(), memory.copies(), memory.bytes()), (1, 1, 2 * PAGE));
        memory.end_copies();
        assert_eq!((memory.copies(), memory.bytes()), (0, PAGE));
    }

    #[test]
    fn the_reservation_has_what_it_was_told_last() {
        let mut memory = PageMemory::new(MemoryReservation::fixed(4 * PAGE), PAGE);
        (0..3).for_each(|_| memory.add_page());
        assert_eq!((memory.bytes(), memory.reserved_bytes()), (3 * PAGE, 0));
        memory.reserve(100);
        assert_eq!(memory.reserved_bytes(), 3 * PAGE + 100);
        memory.remove_pages(2);
        assert_eq!((memory.bytes(), memory.reserved_bytes()), (PAGE, 3 * PAGE + 100));
        memory.reserve(0);
        assert_eq!((memory.reserved_bytes(), memory.most_bytes()), (PAGE, 4 * PAGE));
    }
}

//! What one connection has of the pages in memory.
//!
//! # Invariant
//! While SQLite has the address of a page, the pool that it is from stays the connection's.

use super::database::Database;
use super::pages::{Ahead, Pages};
use super::warm;
use crate::readahead::{LEAF, ReadAhead};
use std::ptr::NonNull;
use std::sync::Arc;

/// What this connection has of the pages in memory.
#[derive(Default)]
pub(super) struct View {
    pages: Option<Arc<Pages>>,
    /// Which of the database's pools that is.
    generation: u64,
    /// Pages that SQLite has the address of.
    mapped: usize,
    /// Requests that found their page in memory, and that nobody has counted yet.
    hits: u64,
    /// How many pages are counted as mapped.
    counted: usize,
    ahead: Option<ReadAhead>,
    /// Whether the last page was a leaf.
    at_leaf: bool,
    /// The address that the processor was asked for in advance.
    asked: usize,
}

impl View {
    /// The pages of the database as they are now; `None` while pages are mapped that are another pool's.
    #[inline]
    fn of(&mut self, database: &Database) -> Option<(&Pages, &mut ReadAhead)> {
        if self.pages.is_none() || self.generation != database.pages_generation() {
            self.renew(database)?;
        }
        self.pages.as_deref().zip(self.ahead.as_mut())
    }

    #[cold]
    fn renew(&mut self, database: &Database) -> Option<()> {
        if self.mapped > 0 {
            return None;
        }
        self.count();
        // The first who asks makes the pool, which changes the generation.
        let _ = database.pages();
        self.generation = database.pages_generation();
        self.pages = database.pages().ok().flatten();
        self.ahead = self.pages.as_ref().map(|pages| pages.read_ahead());
        Some(())
    }

    /// Reads a part of one page, if the pool can serve that.
    pub fn read(&mut self, database: &Database, buf: &mut [u8], offset: u64) -> bool {
        let Some((pages, ahead)) = self.of(database) else { return false };
        let Some(hit) = pages.read(buf, offset, &mut Ahead(ahead)) else { return false };
        if let (Some(page), Some(first)) = (pages.whole_page(offset, buf.len()), buf.first()) {
            ahead.passed(page as u32 + 1, *first);
        }
        self.hits += u64::from(hit);
        true
    }

    /// The address of a page, if the pool can serve that.
    #[inline]
    pub fn fetch(&mut self, database: &Database, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let (pages, ahead) = self.of(database)?;
        let page = pages.whole_page(offset, bytes)?;
        let found = pages.try_map(page);
        let address = match found {
            Some(address) => address,
            None => pages.map(page, &mut Ahead(ahead))?,
        };
        // SAFETY: the page is held; SQLite is about to look at its first bytes, too.
        let first = unsafe { *address.as_ptr() };
        ahead.passed(page as u32 + 1, first);
        let is_leaf = first & LEAF != 0;
        if is_leaf && self.at_leaf {
            // From leaf to leaf: a scan. Where pages lie one behind the other, the next one is asked for, too.
            let behind = address.as_ptr().wrapping_add(bytes);
            if self.asked != address.as_ptr().addr() {
                warm::whole(address.as_ptr(), bytes);
            }
            warm::whole(behind, bytes);
            self.asked = behind.addr();
        } else if is_leaf {
            // SAFETY: as above; it has as many bytes. Interior pages are few, and mostly near the processor.
            unsafe { warm::for_search(address, bytes) };
        }
        self.at_leaf = is_leaf;
        self.mapped += 1;
        match found {
            Some(_) => self.hits += 1,
            None => self.count(),
        }
        Some(address)
    }

    /// SQLite does not look any more at a page that was fetched.
    #[inline]
    pub fn unfetch(&mut self, offset: u64) {
        let Some(pages) = &self.pages else { return };
        // SAFETY: SQLite has the page's address, from this pool: while it has one, the pool is not changed.
        unsafe { pages.let_go(offset >> pages.page_bytes().trailing_zeros()) };
        self.mapped -= 1;
    }

    /// Adds to the figures of the pool.
    pub fn count(&mut self) {
        if let Some(pages) = &self.pages {
            pages.count(std::mem::take(&mut self.hits), self.mapped as i64 - self.counted as i64);
            self.counted = self.mapped;
        }
    }
}

//! What one connection has of the pages in memory.
//!
//! # Invariant
//! While SQLite has the address of a page, the pool that it is from stays the connection's.

use super::database::Database;
use super::kept::Kept;
use super::lock::Seat;
use super::pages::{Ahead, Pages};
use super::warm;
use crate::readahead::{LEAF, ReadAhead};
use litefoot_engine::pool::Place;
use std::ptr::NonNull;
use std::sync::Arc;

/// What this connection has of the pages in memory.
pub(super) struct View {
    pages: Option<Arc<Pages>>,
    /// Which of the database's pools that is.
    generation: u64,
    /// Pages that SQLite has the address of.
    mapped: usize,
    /// How many pages are counted as mapped.
    counted: usize,
    ahead: Option<ReadAhead>,
    /// Whether the last page was a leaf.
    at_leaf: bool,
    /// The address that the processor was asked for in advance.
    asked: usize,
    /// The page that was held last, and where its state lies.
    last: Option<(u64, Place)>,
    /// What it holds although SQLite has done with it.
    kept: Arc<Kept>,
    /// What it has of the locks on the database.
    seat: Arc<Seat>,
}

/// The first bytes of interior pages (file format, section 1.6).
const INTERIOR: [u8; 2] = [2, 5];

impl View {
    /// A view of a connection that has this seat.
    pub fn new(database: &Database, seat: Arc<Seat>) -> View {
        View {
            pages: None,
            generation: 0,
            mapped: 0,
            counted: 0,
            ahead: None,
            at_leaf: false,
            asked: 0,
            last: None,
            kept: database.views().join(),
            seat,
        }
    }

    /// Gets the pages of the database as they are now; `None` while pages are mapped that are another pool's.
    #[inline]
    fn follow(&mut self, database: &Database) -> Option<()> {
        if self.pages.is_some() && self.generation == database.pages_generation() {
            return Some(());
        }
        self.renew(database)
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
        self.kept.renew(self.pages.clone());
        self.last = None;
        self.ahead = self.pages.as_ref().map(|pages| pages.read_ahead());
        Some(())
    }

    /// Reads a part of one page, if the pool can serve that.
    pub fn read(&mut self, database: &Database, buf: &mut [u8], offset: u64) -> bool {
        if self.follow(database).is_none() {
            return false;
        }
        let Some((pages, ahead)) = self.pages.as_deref().zip(self.ahead.as_mut()) else { return false };
        let Some(page) = pages.page_of(offset, buf.len()) else { return false };
        if let Some(address) = self.kept.look(&self.seat, pages, page) {
            // SAFETY: the page is held while the lock on the database is; the part lies inside of it.
            unsafe { pages.copy(address, offset, buf) };
            self.hit();
            return true;
        }
        let Some(hit) = pages.read(buf, offset, &mut Ahead(ahead)) else { return false };
        if !hit {
            pages.sweep(ahead);
        }
        if let (Some(page), Some(first)) = (pages.whole_page(offset, buf.len()), buf.first()) {
            ahead.passed(page as u32 + 1, *first);
        }
        if page == 0 && self.kept.may_keep(&self.seat, pages, page) {
            // SQLite looks at it whenever a transaction begins.
            if let Some(at) = pages.try_map(page) {
                self.kept.keep(pages, page, at, 0);
            }
        }
        if hit {
            self.hit();
        }
        true
    }

    /// The address of a page, if the pool can serve that.
    #[inline]
    pub fn fetch(&mut self, database: &Database, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.follow(database)?;
        let (pages, ahead) = self.pages.as_deref().zip(self.ahead.as_mut())?;
        let page = pages.whole_page(offset, bytes)?;
        if let Some(address) = self.kept.lend(&self.seat, pages, page) {
            // SAFETY: the page is held; SQLite is about to look at its first bytes, too.
            ahead.passed(page as u32 + 1, unsafe { *address.as_ptr() });
            self.at_leaf = false;
            self.mapped += 1;
            self.hit();
            return Some(address);
        }
        let found = pages.try_map(page);
        let address = match found {
            Some((address, _)) => address,
            None => {
                let address = pages.map(page, &mut Ahead(ahead))?;
                pages.sweep(ahead);
                address
            }
        };
        self.last = found.map(|(_, place)| (page, place));
        // SAFETY: as above.
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
        } else if INTERIOR.contains(&first)
            && let Some(at) = found
            && self.kept.may_keep(&self.seat, pages, page)
        {
            self.kept.keep(pages, page, at, 1);
        }
        self.at_leaf = is_leaf;
        self.mapped += 1;
        match found {
            Some(_) => self.hit(),
            None => self.count(),
        }
        Some(address)
    }

    /// SQLite does not look any more at a page that was fetched.
    #[inline]
    pub fn unfetch(&mut self, offset: u64) {
        let Some(pages) = &self.pages else { return };
        let page = offset >> pages.shift();
        if !self.kept.give_back(page) {
            // SAFETY: SQLite has the page's address, from this pool: while it has one, the pool is not changed. No slot
            // has lent it, so it is held for SQLite.
            unsafe {
                match self.last {
                    Some((last, place)) if last == page => pages.let_go_at(place),
                    _ => pages.let_go(page),
                }
            }
        }
        self.mapped -= 1;
    }

    /// A request has found its page in memory.
    #[inline]
    fn hit(&self) {
        self.kept.hit();
    }

    /// A transaction is over.
    #[inline]
    pub fn rest(&mut self, database: &Database) {
        self.count();
        if self.kept.wants_count() {
            self.rest_longer(database);
        }
    }

    #[cold]
    fn rest_longer(&self, database: &Database) {
        database.views().count(database.counters());
        if self.pages.as_ref().is_some_and(|pages| pages.keeps_too_much()) && self.seat.reads() {
            self.kept.renew(self.pages.clone());
        }
    }

    /// Adds to the figures of the pool how many pages are looked at, where that has changed.
    #[inline]
    fn count(&mut self) {
        if self.mapped != self.counted {
            self.count_mapped();
        }
    }

    #[cold]
    fn count_mapped(&mut self) {
        if let Some(pages) = &self.pages {
            pages.count(self.mapped as i64 - self.counted as i64);
            self.counted = self.mapped;
        }
    }

    /// The connection is closed.
    pub fn close(&mut self, database: &Database) {
        self.count();
        database.views().leave(&self.kept, database.counters());
        (self.pages, self.last) = (None, None);
    }
}

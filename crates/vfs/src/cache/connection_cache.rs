//! The connection cache: the pages in memory, as one connection uses them.
//!
//! # Invariants
//! 1. While SQLite has the address of a page, the pool that it is from stays the connection's.
//! 2. `fast_generation` is the pool's generation only while the connection has a lock on the database and holds no
//!    transaction of its own back. Only calls of this connection change the two, and they forget it
//!    ([`ConnectionCache::leave_fast_path`]). So one comparison answers three questions.

use crate::cache::cpu_prefetch;
use crate::cache::pin_cache::{Page, PinCache};
use crate::cache::pool::{Ahead, Pages};
use crate::cache::{Cache, CacheHost};
use crate::readahead::ReadAhead;
use crate::sync::lock_table::ReaderSlot;
use litefoot_format::page::LEAF;
use litefoot_storage::mapped_pool::PagePlace;
use litefoot_storage::mapped_pool::shown;
use std::ptr::NonNull;
use std::sync::Arc;

/// The cache of one connection: its pins, its last page, its readahead.
pub(crate) struct ConnectionCache {
    pages: Option<Arc<Pages>>,
    /// Which of the database's pools that is.
    generation: u64,
    /// The same while pages may be looked at without further questions, or [`NOWHERE`].
    fast_generation: u64,
    /// Bytes of a page, and as a power of two; of no page while there is no pool.
    page_bytes: u32,
    shift: u32,
    /// Pages that SQLite has the address of.
    mapped: usize,
    /// How many pages are counted as mapped.
    counted: usize,
    ahead: ReadAhead,
    /// True if the last page was a leaf.
    at_leaf: bool,
    /// The address that the processor was asked for in advance.
    asked: usize,
    /// The page that was held last, and where its state lies.
    last: Option<(u64, PagePlace)>,
    /// The pages it holds although SQLite has done with it.
    pin_cache: Arc<PinCache>,
    /// Its locks on the database.
    reader_slot: Arc<ReaderSlot>,
}

/// The generation of no pool.
const NOWHERE: u64 = u64::MAX;

/// Where page 1 has the bytes that SQLite compares at the begin of a transaction, the change counter among them (file
/// format, section 1.3), and how many these are.
const CHANGING_OFFSET: u64 = 24;
const CHANGING_BYTES: usize = 16;

/// True if a read of `buf` at `offset` is SQLite's look whether the database has changed.
#[inline]
pub(crate) fn is_change_look(buf: &[u8], offset: u64) -> bool {
    (buf.len() == CHANGING_BYTES) & (offset == CHANGING_OFFSET)
}

/// The first bytes of interior pages (file format, section 1.6).
const INTERIOR: [u8; 2] = [2, 5];

/// True if a page that begins with this byte stays pinned when SQLite has done with it: interior pages do, since every
/// search passes them.
#[inline]
fn is_pinned_longer(first: u8) -> bool {
    INTERIOR.contains(&first)
}

impl ConnectionCache {
    /// A view of a connection that has this reader slot.
    pub fn new(cache: &Cache, reader_slot: Arc<ReaderSlot>) -> ConnectionCache {
        ConnectionCache {
            pages: None,
            generation: 0,
            fast_generation: NOWHERE,
            page_bytes: 0,
            shift: 0,
            mapped: 0,
            counted: 0,
            ahead: ReadAhead::default(),
            at_leaf: false,
            asked: 0,
            last: None,
            pin_cache: cache.pin_caches().join(),
            reader_slot,
        }
    }

    /// Gets the pages of the database as they are now; `None` while pages are mapped that are another pool's.
    #[inline]
    fn follow<H: CacheHost>(&mut self, host: &H) -> Option<()> {
        if self.pages.is_some() && self.generation == host.cache().generation() {
            return Some(());
        }
        self.renew(host)
    }

    #[cold]
    fn renew<H: CacheHost>(&mut self, host: &H) -> Option<()> {
        if self.mapped > 0 {
            return None;
        }
        self.count();
        self.fast_generation = NOWHERE;
        // The first who asks makes the pool, which changes the generation.
        let _ = host.pages();
        self.generation = host.cache().generation();
        self.pages = host.pages().ok().flatten();
        self.pin_cache.renew(self.pages.clone());
        self.last = None;
        let pages = self.pages.as_deref();
        (self.page_bytes, self.shift) =
            pages.map_or((0, 0), |pages| (pages.page_bytes() as u32, pages.shift()));
        self.ahead = pages.map_or_else(ReadAhead::default, Pages::read_ahead);
        Some(())
    }

    /// The connection has no transaction held back: from now on it may look at pages, if it has a lock on the database.
    #[inline]
    pub fn enter_fast_path(&mut self) {
        if self.pages.is_some() && self.reader_slot.reads() {
            self.fast_generation = self.generation;
        }
    }

    /// The connection may lose its lock, or begin to hold a transaction back.
    #[inline]
    pub fn leave_fast_path(&mut self) {
        self.fast_generation = NOWHERE;
    }

    /// True if SQLite has the address of a page.
    pub fn is_mapped(&self) -> bool {
        self.mapped > 0
    }

    /// True if a request finds nothing, for tests.
    #[inline]
    fn refuses(&self) -> bool {
        self.may_panic();
        cfg!(debug_assertions) && self.pages.as_ref().is_some_and(|pages| pages.refuses())
    }

    /// In tests.
    #[inline]
    fn may_panic(&self) {
        if cfg!(debug_assertions) {
            self.pages.iter().for_each(|pages| pages.count_towards_panic());
        }
    }

    /// Reads the bytes of page 1 that change with every transaction, if that page is pinned. Whatever else is asked for is
    /// [`ConnectionCache::read`]'s. SQLite compares these bytes whenever a transaction begins.
    #[inline]
    pub fn read_pinned(&mut self, cache: &Cache, buf: &mut [u8], offset: u64) -> bool {
        // One branch: the compiler takes what lies behind many for rare, and calls it.
        if !(is_change_look(buf, offset) & self.is_fast(cache, self.page_bytes)) {
            return false;
        }
        let Ok(buf) = <&mut [u8; CHANGING_BYTES]>::try_from(buf) else { return false };
        // SAFETY: by invariant 2 there is a lock, and the pool is the one that is set.
        let Some(page) = (unsafe { self.pin_cache.look(Page { offset: 0, number: 0 }) }) else {
            return false;
        };
        let from = page.as_ptr().wrapping_add(CHANGING_OFFSET as usize);
        // So the compiler knows that it copies words.
        if !from.cast::<u64>().is_aligned() {
            return false;
        }
        // SAFETY: the page is held while the lock on the database is; no page is shorter than 512 bytes.
        unsafe { shown::load(from, buf) };
        self.hit();
        true
    }

    /// Reads a part of one page, if the pool can serve that.
    pub fn read<H: CacheHost>(&mut self, host: &H, buf: &mut [u8], offset: u64) -> bool {
        if self.follow(host).is_none() {
            return false;
        }
        let Some(pages) = self.pages.as_deref() else { return false };
        let Some(page) = pages.page_of(offset, buf.len()) else { return false };
        if self.reader_slot.reads()
            // SAFETY: there is a lock, and the pool is the one that is set.
            && let Some(address) = unsafe { self.pin_cache.look(self.page(page)) }
        {
            // SAFETY: the page is held while the lock on the database is; the part lies inside of it.
            unsafe { pages.copy(address, offset, buf) };
            self.hit();
            return true;
        }
        let Some(hit) = pages.read(buf, offset, &mut Ahead(&mut self.ahead)) else { return false };
        if !hit {
            pages.sweep(&mut self.ahead);
        }
        if let (Some(page), Some(first)) = (pages.whole_page(offset, buf.len()), buf.first()) {
            self.ahead.note_passed(page as u32 + 1, *first);
        }
        let first = Page { offset: 0, number: 0 };
        if page == 0 && self.pin_cache.may_cache_pin(&self.reader_slot, pages, first) {
            // SQLite looks at it whenever a transaction begins.
            if let Some(at) = pages.try_map(page) {
                self.pin_cache.keep(pages, first, at, 0);
            }
        }
        if hit {
            self.hit();
        }
        true
    }

    /// A page of the file.
    #[inline]
    fn page(&self, number: u64) -> Page {
        Page { offset: number << self.shift, number }
    }

    /// The page that begins at an offset, if one does.
    #[inline]
    fn page_at(&self, offset: u64) -> Page {
        Page { offset, number: offset >> self.shift }
    }

    /// True if pages of so many bytes may be looked at without further questions.
    #[inline]
    fn is_fast(&self, cache: &Cache, bytes: u32) -> bool {
        bytes == self.page_bytes && self.fast_generation == cache.generation() && !self.refuses()
    }

    /// The address of `bytes` at an offset, if a pinned page holds them. Most requests go this way, since every search
    /// begins with such pages.
    #[inline]
    pub fn fetch_pinned(&mut self, cache: &Cache, offset: u64, bytes: u32) -> Option<NonNull<u8>> {
        if !self.is_fast(cache, bytes) {
            return None;
        }
        let page = self.page_at(offset);
        // SAFETY: by invariant 2 there is a lock, and the pool is the one that is set.
        let address = unsafe { self.pin_cache.pin_cached(page) }?;
        // No other pages are kept but the first, which SQLite never maps.
        self.ahead.note_passed_interior(page.number as u32 + 1);
        self.at_leaf = false;
        self.mapped += 1;
        Some(address)
    }

    /// The same where the page is in memory.
    #[inline(always)]
    pub fn fetch_in_memory(&mut self, cache: &Cache, offset: u64, bytes: u32) -> Option<NonNull<u8>> {
        let page = self.page_at(offset);
        if !self.is_fast(cache, bytes) || page != self.page(page.number) {
            return None;
        }
        let (address, place) = self.pages.as_deref()?.try_map(page.number)?;
        self.hit();
        self.last = Some((page.number, place));
        self.pass(page, address);
        Some(address)
    }

    /// The address of a page, if the pool can serve that. The connection has no transaction held back.
    pub fn fetch<H: CacheHost>(&mut self, host: &H, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        if self.fast_generation != host.cache().generation() {
            self.follow(host)?;
            self.enter_fast_path();
            let small = u32::try_from(bytes).ok()?;
            let found = self.fetch_pinned(host.cache(), offset, small);
            if let Some(address) = found.or_else(|| self.fetch_in_memory(host.cache(), offset, small)) {
                return Some(address);
            }
        }
        let pages = self.pages.as_deref()?;
        let number = pages.whole_page(offset, bytes)?;
        let found = pages.try_map(number);
        let address = match found {
            Some((address, _)) => address,
            None => {
                let address = pages.map(number, &mut Ahead(&mut self.ahead))?;
                pages.sweep(&mut self.ahead);
                address
            }
        };
        self.last = found.map(|(_, place)| (number, place));
        self.pass(Page { offset, number }, address);
        match found {
            Some(_) => self.hit(),
            None => self.count(),
        }
        Some(address)
    }

    /// SQLite gets the address of a page, which is held for it.
    #[inline(always)]
    fn pass(&mut self, page: Page, address: NonNull<u8>) {
        self.mapped += 1;
        // SAFETY: the page is held; SQLite is about to look at its first bytes, too.
        let first = unsafe { shown::byte_at(address.as_ptr(), 0) };
        self.ahead.note_passed(page.number as u32 + 1, first);
        if first & LEAF == 0 {
            self.at_leaf = false;
            self.keep(page, first, address);
        } else if self.at_leaf {
            self.scan(address);
        } else {
            self.at_leaf = true;
            // SAFETY: as above; it has as many bytes. Interior pages are few, and mostly near the processor.
            unsafe { cpu_prefetch::for_search(address, self.page_bytes as usize) };
        }
    }

    /// From leaf to leaf. Where pages lie one behind the other, the next one is asked for, too.
    #[inline(never)]
    fn scan(&mut self, address: NonNull<u8>) {
        let bytes = self.page_bytes as usize;
        let behind = address.as_ptr().wrapping_add(bytes);
        if self.asked != address.as_ptr().addr() {
            cpu_prefetch::whole(address.as_ptr(), bytes);
        }
        cpu_prefetch::whole(behind, bytes);
        self.asked = behind.addr();
    }

    /// Keeps a page that SQLite looks at, if it is one for that, and if it is known where its state lies.
    #[inline(never)]
    fn keep(&self, page: Page, first: u8, address: NonNull<u8>) {
        if let Some(pages) = &self.pages
            && let Some((_, place)) = self.last
            && is_pinned_longer(first)
            && self.pin_cache.may_cache_pin(&self.reader_slot, pages, page)
        {
            self.pin_cache.keep(pages, page, (address, place), 1);
        }
    }

    /// Lets go of a pool that the database has no more, since other processes may change the file.
    #[inline]
    pub fn let_go<H: CacheHost>(&mut self, host: &H) {
        if self.pages.is_some() {
            self.renew(host);
        }
    }

    /// SQLite does not look any more at a page that was fetched.
    #[inline]
    pub fn unfetch(&mut self, offset: u64) {
        self.may_panic();
        let page = self.page_at(offset);
        self.mapped -= 1;
        if !self.pin_cache.give_back(page) {
            self.unpin(page.number);
        }
    }

    fn unpin(&self, page: u64) {
        let Some(pages) = &self.pages else { return };
        // SAFETY: SQLite has the page's address, from this pool: while it has one, the pool is not changed. No slot
        // has lent it, so it is held for SQLite.
        unsafe {
            match self.last {
                Some((last, place)) if last == page => pages.unpin_at(place),
                _ => pages.unpin(page),
            }
        }
    }

    /// A request has found its page in memory.
    #[inline]
    fn hit(&self) {
        self.pin_cache.hit();
    }

    /// True if [`ConnectionCache::rest`] has nothing to do.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.mapped == self.counted && !self.pin_cache.wants_count()
    }

    /// A transaction is over.
    #[inline]
    pub fn rest<H: CacheHost>(&mut self, host: &H) {
        self.count();
        if self.pin_cache.wants_count() {
            self.trim(host);
        }
    }

    #[cold]
    fn trim<H: CacheHost>(&self, host: &H) {
        host.cache().pin_caches().count(host.db().counters());
        if self.pages.as_ref().is_some_and(|pages| pages.pins_too_much()) && self.reader_slot.reads() {
            self.pin_cache.renew(self.pages.clone());
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
    pub fn close<H: CacheHost>(&mut self, host: &H) {
        self.count();
        self.leave_fast_path();
        host.cache().pin_caches().leave(&self.pin_cache, host.db().counters());
        (self.pages, self.last) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interior_pages_stay_pinned_and_no_others() {
        let pinned: Vec<u8> = (0..=u8::MAX).filter(|first| is_pinned_longer(*first)).collect();
        // Interior pages of an index and of a table; leaves (10, 13), overflow and free pages are let go of.
        assert_eq!(pinned, [2, 5]);
        assert!(pinned.iter().all(|first| first & LEAF == 0));
    }
}

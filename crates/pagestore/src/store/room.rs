//! Pins and room, as databases and units need them: the slow path of a pin, pages from the table, a larger file.

use super::allocation::Allocation;
use super::inner::Inner;
use super::{Error, PageId, Result};
use litefoot_storage::buffer_pool::{self, Pinned, PinnedMut};

/// Bytes by which the data file grows, where the disk has them.
const GROWTH_BYTES: u64 = 1 << 20;

impl Inner {
    pub fn is_too_dirty(&self) -> bool {
        self.pool.dirty() > self.threshold
    }

    #[cold]
    pub fn pin_slowly(&self, page: PageId, may_clean: bool) -> Result<Pinned<'_>> {
        self.require(page)?;
        let mut pinned = self.pool.pin(page);
        if may_clean && matches!(pinned, Err(buffer_pool::Error::AllDirty { .. })) {
            self.checkpoint()?;
            pinned = self.pool.pin(page);
        }
        let pinned = pinned.map_err(if may_clean { of_pool } else { in_unit })?;
        // The page was unpinned when it was released; from here on no thread can pin it.
        if let Err(error) = self.require(page) {
            drop(pinned);
            self.pool.forget_clean(page);
            return Err(error);
        }
        Ok(pinned)
    }

    /// Pins a page for writing, for a unit.
    pub fn pin_mut(&self, page: PageId) -> Result<PinnedMut<'_>> {
        self.require(page)?;
        let pinned = self.pool.pin_mut(page).map_err(in_unit)?;
        if let Err(error) = self.require(page) {
            // It was released just now. The next owner must not find the old bytes.
            self.pool.discard(pinned);
            return Err(error);
        }
        Ok(pinned)
    }

    /// Allocates a page for a unit. Nobody can pin it before the unit has it.
    pub fn alloc(&self) -> Result<(PageId, PinnedMut<'_>)> {
        let page = self.take(1, Allocation::pages_with_one, Allocation::take)?;
        let pinned = self.pool.pin_new(page);
        let mut table = self.allocation.lock();
        match pinned {
            Ok(pinned) => {
                table.mark(page);
                Ok((page, pinned))
            }
            Err(error) => {
                table.give_back(page);
                Err(in_unit(error))
            }
        }
    }

    /// Frees a page that the caller alone has. Under the lock of the table: no thread finds the page in memory and free.
    pub fn free(&self, page: PageId, pinned: PinnedMut<'_>) {
        let mut table = self.allocation.lock();
        self.pool.discard(pinned);
        let was_in_use = table.take_back(page);
        debug_assert!(was_in_use, "page {page} was freed while a unit had it");
        table.give_back(page);
    }

    /// The page can be pinned.
    pub fn require(&self, page: PageId) -> Result<()> {
        let table = self.allocation.lock();
        if page >= table.pages() {
            return Err(Error::NoSuchPage { path: self.path.clone(), page, pages: table.pages() });
        }
        if table.is_protected(page) {
            return Err(Error::Protected { page });
        }
        if table.is_in_use(page) { Ok(()) } else { Err(Error::NotAllocated { page }) }
    }

    /// Takes pages from the table once the file has room for them. Without room the table has not changed, and can be
    /// written.
    pub fn take(
        &self,
        count: u64,
        end: impl Fn(&Allocation) -> Option<u64>,
        take: impl Fn(&mut Allocation) -> Option<PageId>,
    ) -> Result<PageId> {
        let too_large = || Error::TooLarge { path: self.path.clone(), pages: count };
        loop {
            let end = {
                let mut table = self.allocation.lock();
                let end = end(&table).ok_or_else(too_large)?;
                if end <= self.pool.pages() {
                    return take(&mut table).ok_or_else(too_large);
                }
                end
            };
            self.grow(end)?;
        }
    }

    /// Makes room for so many pages.
    pub fn grow(&self, pages: u64) -> Result<()> {
        let len = pages * self.pool.page_bytes() as u64;
        let mut room = self.room.lock();
        if len > *room {
            let file = self.pool.file();
            let ahead = len.next_multiple_of(GROWTH_BYTES);
            *room = match file.allocate(ahead) {
                Ok(()) => ahead,
                Err(_) => file.allocate(len).map(|()| len)?,
            };
        }
        // Under the lock: the count only grows.
        self.pool.set_pages(pages.max(self.pool.pages()));
        Ok(())
    }
}

/// An error of the pool, for a unit.
pub(super) fn in_unit(error: buffer_pool::Error) -> Error {
    match error {
        buffer_pool::Error::AllDirty { frames } => Error::UnitTooLarge { frames },
        error => of_pool(error),
    }
}

fn of_pool(error: buffer_pool::Error) -> Error {
    match error {
        buffer_pool::Error::Pinned { page } => Error::Pinned { page },
        error => Error::Pool(error),
    }
}

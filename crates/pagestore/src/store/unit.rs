//! Units of changes: pages that are allocated, changed and released together.

use super::inner::{Inner, PageCleaner};
use super::room::in_unit;
use super::{Error, PageId, Result};
use litefoot_storage::buffer_pool::{Pinned, PinnedMut};

/// Changes that no checkpoint takes apart: they are on the medium together or not at all.
///
/// A checkpoint waits for open units, and a new unit waits for a waiting checkpoint. So a thread must not begin a
/// second unit while it has one. A unit can change at least the share 1 − [`Options::max_dirty_ratio`](super::Options::max_dirty_ratio) of the pool, and
/// more where less is dirty when it begins.
pub struct Unit<'a> {
    pub(super) inner: &'a Inner,
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        self.inner.gate.leave();
        if self.inner.page_cleaner == PageCleaner::Background && self.inner.is_too_dirty() {
            self.inner.worker.signal();
        }
    }
}

impl Unit<'_> {
    /// Pins a page.
    ///
    /// # Errors
    /// As [`Database::pin`](super::Database::pin); [`Error::UnitTooLarge`].
    pub fn pin(&self, page: PageId) -> Result<Pinned<'_>> {
        match self.inner.pool.try_pin(page) {
            Some(pinned) => Ok(pinned),
            None => self.inner.pin_slowly(page, false),
        }
    }

    /// Pins a page for writing; waits until it has no other pin.
    ///
    /// # Errors
    /// As [`Unit::pin`].
    pub fn pin_mut(&self, page: PageId) -> Result<PinnedMut<'_>> {
        self.inner.pin_mut(page)
    }

    /// Allocates a page, of zeros.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::UnitTooLarge`], [`Error::Pool`]; those of the medium, where it is full.
    pub fn alloc(&self) -> Result<(PageId, PinnedMut<'_>)> {
        self.inner.alloc()
    }

    /// Allocates so many consecutive pages, of zeros; answers the first. At most those of one group: one less
    /// than eight times the page size.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; those of the medium, where it is full.
    pub fn reserve(&self, count: u64) -> Result<PageId> {
        self.inner.take(count, |table| table.pages_with_run(count), |table| table.take_run(count))
    }

    /// Gives a page back.
    ///
    /// # Errors
    /// [`Error::Pinned`], [`Error::NotAllocated`], [`Error::Protected`], [`Error::NoSuchPage`].
    pub fn release(&self, page: PageId) -> Result<()> {
        let inner = self.inner;
        inner.require(page)?;
        // Under the lock of the table: no thread finds the page in memory and free, or in use and gone.
        let forgotten = inner.pool.forget_under(page, || inner.allocation.lock());
        let mut table = forgotten.map_err(in_unit)?;
        if !table.take_back(page) {
            return Err(Error::NotAllocated { page });
        }
        table.give_back(page);
        Ok(())
    }
}

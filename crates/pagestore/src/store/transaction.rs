//! Transactions: units of changes that can be rolled back.
//!
//! # Why
//! A unit that fails midway has changed some of its pages. Its maker would have to know what they were before.
//!
//! # What it promises
//! 1. A transaction that is dropped has changed nothing: bytes are as before, pages that it allocated are free, and
//!    pages that it released are in use. Rolling back cannot fail.
//! 2. A transaction that is committed is a [`Unit`]: no checkpoint takes it apart, and the next one makes it durable.
//! 3. Nobody else sees a changed page before the end, nor gets a page that may yet be in use again.
//!
//! # Invariants
//! 1. A page that was changed or released stays pinned for writing until the end. So a reader waits, and rolling back
//!    needs no page that another thread has.
//! 2. A page that was clean before has no copy: its bytes are on the medium, and dropping it from memory brings them
//!    back. A page that was dirty has a copy.
//! 3. The unit ends last: a checkpoint finds all changes, or none.
//!
//! # What it does not do
//! Wait for ever: two transactions that want each other's pages get [`Error::Pool`] after ten seconds, and so does a
//! reader of a page that a transaction keeps for so long.

use super::{Error, PageId, Result, Unit};
use litefoot_storage::buffer_pool::{Pinned, PinnedMut};
use std::collections::BTreeMap;
use std::ops::Deref;

/// A unit of changes that is rolled back unless it is committed.
///
/// The limits of a [`Unit`] hold: a thread must not begin a second one meanwhile, and the changed pages fit the pool.
pub struct Transaction<'a> {
    // Dropped in this order.
    pages: BTreeMap<PageId, Changed<'a>>,
    unit: Unit<'a>,
}

/// A page that a transaction has for itself.
struct Changed<'a> {
    pinned: PinnedMut<'a>,
    before: Before,
    released: bool,
}

/// The page as it was.
enum Before {
    /// Free.
    Free,
    /// As the medium has it.
    OnMedium,
    /// As this copy.
    Copy(Box<[u8]>),
}

/// The bytes of a page, as a transaction sees them.
pub enum Page<'a> {
    /// The transaction has changed it.
    Own(&'a [u8]),
    /// Everybody sees the same.
    Shared(Pinned<'a>),
}

impl Deref for Page<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Page::Own(bytes) => bytes,
            Page::Shared(pinned) => pinned,
        }
    }
}

impl<'a> Transaction<'a> {
    pub(super) fn new(unit: Unit<'a>) -> Transaction<'a> {
        Transaction { pages: BTreeMap::new(), unit }
    }

    /// Pins a page.
    ///
    /// # Errors
    /// As [`Unit::pin`].
    pub fn pin(&self, page: PageId) -> Result<Page<'_>> {
        match self.pages.get(&page) {
            Some(changed) if changed.released => Err(Error::NotAllocated { page }),
            Some(changed) => Ok(Page::Own(&changed.pinned)),
            None => self.unit.pin(page).map(Page::Shared),
        }
    }

    /// Pins a page for writing, until the end of the transaction. Waits until it has no other pin.
    ///
    /// # Errors
    /// As [`Unit::pin_mut`].
    pub fn pin_mut(&mut self, page: PageId) -> Result<&mut [u8]> {
        Ok(&mut self.changed(page)?.pinned)
    }

    /// Allocates a page, of zeros.
    ///
    /// # Errors
    /// As [`Unit::alloc`].
    pub fn alloc(&mut self) -> Result<(PageId, &mut [u8])> {
        let (page, pinned) = self.unit.inner.alloc()?;
        let changed = Changed { pinned, before: Before::Free, released: false };
        Ok((page, &mut self.pages.entry(page).or_insert(changed).pinned))
    }

    /// Gives a page back when the transaction is committed. Waits until it has no other pin.
    ///
    /// # Errors
    /// As [`Unit::pin_mut`].
    pub fn release(&mut self, page: PageId) -> Result<()> {
        let changed = self.changed(page)?;
        changed.released = true;
        if matches!(changed.before, Before::Free)
            && let Some(changed) = self.pages.remove(&page)
        {
            self.unit.inner.free(page, changed.pinned);
        }
        Ok(())
    }

    /// Keeps all changes. The next checkpoint makes them durable, together.
    pub fn commit(mut self) {
        let inner = self.unit.inner;
        for (page, changed) in std::mem::take(&mut self.pages) {
            if changed.released {
                inner.free(page, changed.pinned);
            }
        }
    }

    /// Drops all changes, as dropping the transaction does.
    pub fn roll_back(self) {
        drop(self);
    }

    /// The page, pinned for writing since it was first asked for.
    fn changed(&mut self, page: PageId) -> Result<&mut Changed<'a>> {
        if !self.pages.contains_key(&page) {
            let pinned = self.unit.inner.pin_mut(page)?;
            let before =
                if pinned.was_clean() { Before::OnMedium } else { Before::Copy(Box::from(&*pinned)) };
            self.pages.insert(page, Changed { pinned, before, released: false });
        }
        self.pages.get_mut(&page).filter(|changed| !changed.released).ok_or(Error::NotAllocated { page })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let inner = self.unit.inner;
        for (page, Changed { mut pinned, before, .. }) in std::mem::take(&mut self.pages) {
            match before {
                Before::Free => inner.free(page, pinned),
                Before::OnMedium => inner.pool.discard(pinned),
                Before::Copy(bytes) => pinned.copy_from_slice(&bytes),
            }
        }
    }
}

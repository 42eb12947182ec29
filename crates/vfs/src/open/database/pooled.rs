//! The database's pages in memory: when there are some, and what becomes of them when the file changes.

use crate::cache::pool::{Pages, Setup};
use crate::error::Result;
use crate::open::database::Database;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

impl Database {
    /// Changes whenever another pool has to be asked for.
    #[inline]
    pub fn pages_generation(&self) -> u64 {
        self.pages_generation.load(Ordering::Acquire)
    }

    /// The pages in memory, if they are used already.
    pub fn known_pages(&self) -> Option<Arc<Pages>> {
        if self.pages_generation() == 0 { None } else { self.pages.read().clone() }
    }

    /// The pages in memory; `None` while there can be none.
    pub fn pages(&self) -> Result<Option<Arc<Pages>>> {
        if !self.pooled || !self.owned.load(Ordering::Acquire) {
            return Ok(None);
        }
        if let Some(pages) = self.known_pages() {
            return Ok(Some(pages));
        }
        // Under the lock: whoever changes the file meanwhile either waits, or finds the pool.
        let mut pages = self.pages.write();
        let len = self.file_len()?;
        let page_bytes = self.page_bytes(len)?;
        if len == 0 || page_bytes == 0 {
            return Ok(pages.clone());
        }
        if pages.is_none() {
            let (file, log) = (self.data(), &self.atomic);
            let (direct, stats) = (self.options.direct, &self.stats);
            let setup = Setup { file, log, page_bytes, len, direct, stats };
            *pages = Pages::new(self.share(), &setup).map(Arc::new);
            self.pages_generation.fetch_add(1, Ordering::Release);
        }
        Ok(pages.clone())
    }

    /// Pages have another size once `change` is done. Nobody reads, but for the size itself: who says so has the
    /// database to itself.
    pub(crate) fn drop_pages<T>(&self, change: impl FnOnce() -> T) -> T {
        let mut pages = self.pages.write();
        if pages.take().is_some() {
            self.pages_generation.fetch_add(1, Ordering::Release);
        }
        change()
    }

    /// Changes the file by `unseen` while there is no pool, and while none is made, or else by `seen`.
    pub(crate) fn change<T>(&self, seen: impl FnOnce(&Pages) -> T, unseen: impl FnOnce() -> T) -> T {
        if !self.pooled {
            return unseen();
        }
        let known = self.pages.read();
        match known.clone() {
            None => unseen(),
            Some(pages) => {
                drop(known);
                let result = seen(&pages);
                if pages.is_stale() {
                    self.drop_pages(|| ());
                }
                // SQLite says how far a checkpoint has come by a relaxed store, behind which there is a fence only where that
                // is read. Who keeps a page looks at its state without changing it, and must not find an older one then.
                fence(Ordering::Release);
                result
            }
        }
    }

    /// A transaction that was held back is in the redo log, and nobody reads yet.
    pub fn pages_committed(&self, numbers: impl Iterator<Item = u32>, page_bytes: usize) {
        // Not `known_pages`: one that is being made has not seen the commit.
        let Some(pages) = self.pages.read().clone() else { return };
        let read = |page: &mut [u8], offset| self.read_medium(page, offset).is_ok();
        let same = page_bytes == pages.page_bytes()
            && self.file_len().and_then(|len| pages.committed(numbers, len, read)).is_ok()
            && !pages.is_stale();
        if !same {
            self.drop_pages(|| ());
        }
    }

    /// What is wrong with the pages in memory, while nobody commits.
    #[doc(hidden)]
    pub fn wrong_pages(&self) -> Vec<String> {
        self.background.wait();
        let Some(pages) = self.known_pages() else { return Vec::new() };
        let wrong = pages.differences(|page, offset| self.read_medium(page, offset).is_ok());
        wrong.into_iter().map(|(page, what)| format!("page {}: {what}", page + 1)).collect()
    }
}

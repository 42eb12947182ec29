//! Pages of a database in memory: one pool for all connections, a pin cache and a fast path for each.
//!
//! A [`Cache`] has a pool while one can be had: only while this process owns the database, and of one page size. A page
//! that is written to the database file, or that a commit makes newest, passes through here. So the pool shows what a
//! reader that starts now would see. The logs are a [`PageSource`]: they have newer pages than the file.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | when there is a pool, and what becomes of its pages when the file changes |
//! | `pool` | the pages in memory |
//! | `pool_policy` | what a pool reads ahead, past which cache, and how much stays pinned |
//! | `pin_cache` | pages that stay pinned for the connections |
//! | `connection_cache` | what one connection has of them: its fast path |
//! | `cpu_prefetch` | lines of a page that the processor is told of |

pub(crate) mod connection_cache;
pub(crate) mod cpu_prefetch;
pub(crate) mod pin_cache;
pub mod pool;
mod pool_policy;

use crate::db::{Db, page_bytes_in};
use crate::error::{Error, Result};
use litefoot_storage::buffer_pool::Advisor;
use litefoot_storage::file::{self, File};
use litefoot_storage::sync::RwLock;
use pin_cache::PinCaches;
use pool::{Pages, Setup};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where committed pages are that the database file does not have yet: a log.
pub trait PageSource: Send + Sync + 'static {
    /// True if there is a log at all.
    fn is_live(&self) -> bool;
    /// True if the log has a page.
    fn contains(&self, number: u32) -> bool;
    /// Reads the database as it was committed last, at any offset: pages that the log has from there, all others from
    /// `file`. Answers how many bytes there are.
    fn read(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> file::Result<usize>;
}

/// The questions of a cache to the database that it belongs to.
pub trait CacheHost {
    /// The log that has newer pages than the file.
    type Source: PageSource;
    /// The cache itself.
    fn cache(&self) -> &Cache;
    /// The database.
    fn db(&self) -> &Db;
    /// The log.
    fn source(&self) -> &Arc<Self::Source>;

    /// The pages in memory; `None` while there can be none.
    fn pages(&self) -> Result<Option<Arc<Pages>>> {
        self.cache().pages(self.db(), self.source())
    }
}

/// The pages of one database in memory.
#[derive(Default)]
pub struct Cache {
    /// The pins that the connections keep.
    pin_caches: PinCaches,
    /// The pool, once there is one.
    pages: RwLock<Option<Arc<Pages>>>,
    /// Changes whenever `pages` does.
    generation: AtomicU64,
}

impl Cache {
    /// Changes whenever another pool has to be asked for.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The pins that the connections keep.
    pub(crate) fn pin_caches(&self) -> &PinCaches {
        &self.pin_caches
    }

    /// The pages in memory, if they are used already.
    pub fn known_pages(&self) -> Option<Arc<Pages>> {
        if self.generation() == 0 { None } else { self.pages.read().clone() }
    }

    /// The pages in memory; `None` while there can be none.
    pub fn pages<S: PageSource>(&self, db: &Db, source: &Arc<S>) -> Result<Option<Arc<Pages>>> {
        if !db.is_pooled() || !db.shared().was_owned() {
            return Ok(None);
        }
        if let Some(pages) = self.known_pages() {
            return Ok(Some(pages));
        }
        // Under the lock: a writer that changes the file meanwhile either waits, or finds the pool.
        let mut pages = self.pages.write();
        let len = db.file_len()?;
        let page_bytes = db.page_bytes(len)?;
        // One that is the owner no more has dropped the last pool by now, or waits for this lock to do so.
        if len == 0 || page_bytes == 0 || !db.shared().is_owned() {
            return Ok(pages.clone());
        }
        if pages.is_none() {
            let direct = db.options().direct_io;
            let setup =
                Setup { file: db.data(), log: source, page_bytes, len, direct, stats: db.stats_page() };
            *pages = Pages::new(db.memory().share(), &setup).map(Arc::new);
            self.generation.fetch_add(1, Ordering::Release);
        }
        Ok(pages.clone())
    }

    /// Takes the pool away, and then does `change`: pages have another size afterwards, or another process writes. Nothing
    /// is read meanwhile but the size itself: the caller has the database alone.
    pub(crate) fn drop_pages<T>(&self, change: impl FnOnce() -> T) -> T {
        let mut pages = self.pages.write();
        if pages.take().is_some() {
            self.generation.fetch_add(1, Ordering::Release);
        }
        change()
    }

    /// In a forked child: leaves the parent's pool as it is.
    pub(crate) fn forget_pages(&mut self) {
        std::mem::forget(self.pages.get_mut().take());
    }

    /// Reads exactly `buf` of the database as it was committed last.
    pub fn read<S: PageSource>(
        &self,
        db: &Db,
        source: &Arc<S>,
        buf: &mut [u8],
        offset: u64,
        advisor: &mut dyn Advisor,
    ) -> Result<()> {
        match self.pages(db, source)? {
            Some(pages) if pages.read(buf, offset, advisor).is_some() => Ok(()),
            _ => read_committed(db, &**source, buf, offset),
        }
    }

    /// Writes to the database file what readers will see, unless a sync has failed before.
    pub fn write(&self, db: &Db, buf: &[u8], offset: u64) -> Result<()> {
        let seen = |pages: &Pages| {
            if offset == 0 && page_bytes_in(buf) as usize != pages.page_bytes() {
                return self.drop_pages(|| db.write_unseen(buf, offset));
            }
            pages.write(buf, offset, || db.write_unseen(buf, offset))?;
            pages.resize(db.file_len()?)
        };
        self.change(db, seen, || db.write_unseen(buf, offset))
    }

    /// Cuts the database file, or extends it, and readers see it.
    pub fn set_len(&self, db: &Db, len: u64) -> Result<()> {
        let seen = |pages: &Pages| {
            // In this order: no reader reads what is about to be cut off.
            let before = db.file_len()?;
            if len < before {
                pages.resize(len)?;
            }
            let result = db.set_len_unseen(len);
            pages.resize(if result.is_ok() { db.file_len()? } else { before })?;
            result
        };
        self.change(db, seen, || db.set_len_unseen(len))
    }

    /// Changes the file by `unseen` while there is no pool, and while none is made, or else by `seen`.
    fn change<T>(&self, db: &Db, seen: impl FnOnce(&Pages) -> T, unseen: impl FnOnce() -> T) -> T {
        if db.shared().board().is_some() {
            db.shared().changes().forget();
        }
        if !db.is_pooled() {
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
                // is read. A connection that keeps a page looks at its state without changing it, and must not find an
                // older one then.
                fence(Ordering::Release);
                result
            }
        }
    }

    /// Publishes a transaction that was held back: it is in the log, and nothing reads yet.
    pub fn publish<S: PageSource>(
        &self,
        db: &Db,
        source: &Arc<S>,
        numbers: impl Iterator<Item = u32>,
        page_bytes: usize,
    ) {
        // Not `known_pages`: a pool that is being made has not seen the commit.
        let Some(pages) = self.pages.read().clone() else { return };
        let read = |page: &mut [u8], offset| read_committed(db, &**source, page, offset).is_ok();
        let same = page_bytes == pages.page_bytes()
            && db.file_len().and_then(|len| pages.committed(numbers, len, read)).is_ok()
            && !pages.is_stale();
        if !same {
            self.drop_pages(|| ());
        }
    }

    /// All that is wrong with the pages in memory, while no commit is under way.
    #[doc(hidden)]
    pub fn wrong_pages<S: PageSource>(&self, db: &Db, source: &Arc<S>) -> Vec<String> {
        let Some(pages) = self.known_pages() else { return Vec::new() };
        let wrong = pages.differences(|page, offset| read_committed(db, &**source, page, offset).is_ok());
        wrong.into_iter().map(|(page, what)| format!("page {}: {what}", page + 1)).collect()
    }
}

/// Reads exactly `buf` of the database as it was committed last, past the pages in memory.
pub fn read_committed<S: PageSource>(db: &Db, source: &S, buf: &mut [u8], offset: u64) -> Result<()> {
    let read = source.read(&**db.data(), buf, offset)?;
    if read < buf.len() {
        buf[read..].fill(0);
        return Err(Error::ShortRead);
    }
    Ok(())
}

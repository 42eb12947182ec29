//! Dirty pages: the pages that a rollback-journal transaction has written, and that no other connection may see before its
//! commit.
//!
//! # Where a page lies
//! - In memory, as long as the memory reservation has some.
//! - Beyond that, in a slot of the redo log, where it stays: the commit only adds its frame header.
//! - New pages are behind the end of the database. When a transaction adds many, it writes them early into the database
//!   file, and the commit syncs the file before its record. So a bulk load is written once.
//!
//! Pages are kept by number, since SQLite reads back the newest version only. A transaction in WAL mode reads back every
//! frame that it wrote, and keeps its pages by frame (`wal_bytes`). The spill cycle and the count of memory are the same.
//!
//! # Invariants
//! 1. A page is in memory unless its newest version was spilled, and that write has ended.
//! 2. After any failure the transaction is given up: no slot is left half written behind a commit.
//! 3. No page that begins at or behind the end of the database is a dirty page. The bytes of a dirty page behind that
//!    end are zero.
//! 4. Page 1 is never spilled: the commit looks at it.

use crate::db::{Db, note_dirty_bytes, page_bytes_in};
use crate::error::{Error, Result, check_reserve};
use crate::memory::reservation::MemoryReservation;
use crate::memory::sqlite_cache::{SqliteCacheReservation, SqliteCacheSize};
use crate::txn::TxnTarget;
use crate::txn::new_pages::first_behind;
use crate::txn::page_memory::PageMemory;
use crate::txn::spill_cycle::SpillCycle;
use crate::txn::spill_map::SpillPlace;
use crate::txn::spill_policy::{SpillPolicy, SpillStep};
use crate::txn::spiller::{PageBytes, RunningSpill, SpillJob, colder_half};
use litefoot_storage::wal_file::format::PageSum;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pages that a transaction may have in memory, however little there is.
const FEWEST_PAGES: usize = 4;

/// The newest version of a page, in memory.
struct DirtyPage {
    bytes: PageBytes,
    /// The transaction's write that changed it last; writes count from 1.
    changed: u64,
}

/// Dirty pages of one transaction.
///
/// Pages have the size that the database had when the transaction began. A VACUUM to another page size
/// writes across their borders and may leave a length that is no multiple of them.
pub struct DirtyPages {
    page_bytes: usize,
    /// The pages in memory.
    pages: BTreeMap<u32, DirtyPage>,
    memory: PageMemory,
    cache: SqliteCacheReservation,
    /// Bytes of memory that the figures of the database contain.
    noted: usize,
    writes: u64,
    spill: SpillCycle<u32>,
    /// Bytes of the database as the transaction sees it, and as it was before.
    len: u64,
    base_len: u64,
    /// True once SQLite has asked for a sync, which waits for the commit.
    pub sync_wanted: bool,
    /// True where SQLite has a journal for the transaction, in the mode DELETE, TRUNCATE or PERSIST.
    pub has_journal: bool,
    /// True where the commit gives its lock up before it is durable.
    pub shares_sync: bool,
}

impl DirtyPages {
    /// No dirty page yet, of a database of `base_len` bytes.
    pub fn new(db: &Db, page_bytes: usize, base_len: u64) -> DirtyPages {
        let options = db.options();
        DirtyPages {
            page_bytes,
            pages: BTreeMap::new(),
            memory: PageMemory::new(MemoryReservation::new(db.memory().share()), page_bytes),
            cache: SqliteCacheReservation::new(db.memory().share()),
            noted: 0,
            writes: 0,
            spill: SpillCycle::new(SpillPolicy::new(options.page_cleaner, options.max_dirty_ratio)),
            len: base_len,
            base_len,
            sync_wanted: false,
            has_journal: false,
            shares_sync: false,
        }
    }

    /// True for a transaction whose commit may share a sync with later ones: it is in memory, and the database was there before.
    pub fn may_share_sync(&self) -> bool {
        self.shares_sync && self.base_len > 0 && !self.has_slots() && !self.has_pages_in_file()
    }

    /// Notes how large the cache of the transaction's connection is.
    pub fn set_cache_size(&mut self, size: &SqliteCacheSize) {
        self.cache.set_size(size, self.page_bytes);
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Length of the database as the transaction sees it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Length of the database before the transaction.
    pub fn base_len(&self) -> u64 {
        self.base_len
    }

    /// True as long as the transaction has changed nothing.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.spill.map.is_empty() && self.len == self.base_len
    }

    /// The numbers of the pages in memory, in order.
    pub fn in_memory(&self) -> impl Iterator<Item = u32> {
        self.pages.keys().copied()
    }

    /// The pages in memory, in order.
    pub fn newest(&self) -> impl Iterator<Item = (u32, &PageBytes)> {
        self.pages.iter().map(|(number, page)| (*number, &page.bytes))
    }

    /// The pages in slots of the log, in the order of the slots; a page may have a newer version in memory.
    pub fn in_slots(&self) -> Vec<(u32, PageSum)> {
        self.spill.map.in_slots()
    }

    /// The numbers of the pages that go to the log: those in memory, in order, then those in slots.
    pub fn numbers_to_log(&self) -> impl Iterator<Item = u32> {
        self.in_memory().chain(self.in_slots().into_iter().map(|(number, _)| number))
    }

    /// True where pages were given slots of the log.
    pub fn has_slots(&self) -> bool {
        self.spill.map.slots() > 0
    }

    /// The numbers of the pages written that the database had before, in order.
    pub fn changed_numbers(&self) -> impl Iterator<Item = u32> {
        let before = self.base_len.div_ceil(self.page_bytes as u64);
        self.page_numbers().into_iter().take_while(move |number| u64::from(*number) <= before)
    }

    /// The numbers of all pages written, in order.
    pub fn page_numbers(&self) -> BTreeSet<u32> {
        self.in_memory().chain(self.spill.map.numbers()).collect()
    }

    /// True where pages were written early into the database file.
    pub fn has_pages_in_file(&self) -> bool {
        self.spill.map.has_pages_in_file()
    }

    /// The numbers of the pages whose newest version was written early into the database file, in order.
    pub fn in_file(&self) -> Vec<u32> {
        self.spill.map.in_file().filter(|number| !self.pages.contains_key(number)).collect()
    }

    /// Takes a write of SQLite's.
    pub fn write<T: TxnTarget>(&mut self, target: &Arc<T>, buf: &[u8], offset: u64) -> Result<()> {
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            let (number, inside) = self.page_of(at);
            let (part, behind) = rest.split_at(rest.len().min(self.page_bytes - inside));
            if part.len() == self.page_bytes {
                self.put(target, number, part)?;
            } else {
                let mut page = vec![0; self.page_bytes];
                self.read_page(number, 0, &mut page, &|buf, offset| before(&**target, buf, offset))?;
                page[inside..inside + part.len()].copy_from_slice(part);
                self.put(target, number, &page)?;
            }
            at += part.len() as u64;
            self.len = self.len.max(at);
            rest = behind;
        }
        Ok(())
    }

    /// Reads the database as the transaction sees it; `base` reads it as it was before.
    pub fn read(
        &self,
        buf: &mut [u8],
        offset: u64,
        base: &dyn Fn(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let (number, inside) = self.page_of(offset + done as u64);
            let end = buf.len().min(done + self.page_bytes - inside);
            self.read_page(number, inside, &mut buf[done..end], base)?;
            done = end;
        }
        Ok(())
    }

    /// Copies a page that is in memory.
    pub fn copy(&self, number: u32, page: &mut [u8]) {
        if let Some(dirty) = self.pages.get(&number) {
            page.copy_from_slice(&dirty.bytes);
        }
    }

    /// Bytes of a page after the transaction, as its page 1 says. An application may write anything there. If that
    /// cannot be a size, or the database is no whole number of such pages, the commit keeps the old size.
    pub fn new_page_bytes(&self) -> Result<usize> {
        // Page 1 is never spilled.
        if !self.pages.contains_key(&1) {
            return Ok(self.page_bytes);
        }
        let mut head = [0; 32];
        self.read_page(1, 0, &mut head, &|_, _| Ok(()))?;
        let bytes = page_bytes_in(&head) as usize;
        let is_one = bytes > 0 && self.len.is_multiple_of(bytes as u64);
        Ok(if is_one { bytes } else { self.page_bytes })
    }

    /// Cuts the database, or extends it.
    pub fn set_len<T: TxnTarget>(&mut self, target: &Arc<T>, len: u64) -> Result<()> {
        let (number, inside) = self.page_of(len);
        let first_cut = if inside == 0 { number } else { number + 1 };
        let cut = self.pages.split_off(&first_cut);
        self.memory.remove_pages(cut.len());
        drop(cut);
        self.spill.map.cut(first_cut);
        self.account(target.db());
        if inside > 0 && (self.pages.contains_key(&number) || self.spill.map.contains(number)) {
            let mut page = vec![0; self.page_bytes];
            self.read_page(number, 0, &mut page[..inside], &|buf, offset| before(&**target, buf, offset))?;
            self.put(target, number, &page)?;
        }
        self.len = len;
        Ok(())
    }

    /// The page that an offset lies in, and how far inside it.
    fn page_of(&self, offset: u64) -> (u32, usize) {
        let page_bytes = self.page_bytes as u64;
        ((offset / page_bytes) as u32 + 1, (offset % page_bytes) as usize)
    }

    fn offset_of(&self, number: u32) -> u64 {
        u64::from(number - 1) * self.page_bytes as u64
    }

    /// Reads a part of a page.
    fn read_page(
        &self,
        number: u32,
        inside: usize,
        buf: &mut [u8],
        base: &dyn Fn(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        if let Some(page) = self.pages.get(&number) {
            buf.copy_from_slice(&page.bytes[inside..inside + buf.len()]);
            return Ok(());
        }
        match (self.spill.map.get(number), self.spill.map.log()) {
            (Some(SpillPlace::Slot(offset)), Some(log)) => {
                log.read_at(buf, offset + inside as u64)?;
                Ok(())
            }
            // An early write lies in the file at the place of its number.
            _ => base(buf, self.offset_of(number) + inside as u64),
        }
    }

    /// Puts a whole page into memory.
    fn put<T: TxnTarget>(&mut self, target: &Arc<T>, number: u32, bytes: &[u8]) -> Result<()> {
        self.writes += 1;
        if let Some(page) = self.pages.get_mut(&number) {
            page.changed = self.writes;
            if self.memory.replace(&mut page.bytes, bytes) {
                self.account(target.db());
            }
            return Ok(());
        }
        check_reserve()?;
        if self.spill.map.contains(number) {
            self.spill.note_page_back();
        }
        self.make_room(target)?;
        self.insert(number, bytes.into());
        self.account(target.db());
        Ok(())
    }

    /// A page enters memory.
    fn insert(&mut self, number: u32, bytes: PageBytes) {
        self.pages.insert(number, DirtyPage { bytes, changed: self.writes });
        self.memory.add_page();
    }

    /// Says how much memory is in use, after a change.
    fn account(&mut self, db: &Db) {
        debug_assert_eq!(self.memory.pages(), self.pages.len());
        let now = self.pages.len() * self.page_bytes;
        note_dirty_bytes(db, self.noted, now);
        self.noted = now;
        self.memory.reserve(self.spill.map.bytes());
        self.cache.passed(self.writes as usize * self.page_bytes);
    }

    /// Sees to it that there is memory for one page more.
    fn make_room<T: TxnTarget>(&mut self, target: &Arc<T>) -> Result<()> {
        loop {
            let most = self.memory.most_bytes().max(FEWEST_PAGES * self.page_bytes);
            match self.spill.step(self.memory.reserved_bytes(), most) {
                SpillStep::GoOn => return Ok(()),
                SpillStep::Wait => self.settle(target.db())?,
                SpillStep::Spill { in_background, for_good } => {
                    if !self.spill_colder(target, in_background, for_good)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Spills the colder half; `false` where there is nothing to spill.
    fn spill_colder<T: TxnTarget>(
        &mut self,
        target: &Arc<T>,
        in_background: bool,
        for_good: bool,
    ) -> Result<bool> {
        let numbers = self.colder_half();
        if numbers.is_empty() {
            return Ok(false);
        }
        self.begin_spill(target, numbers, in_background, for_good)?;
        Ok(true)
    }

    fn begin_spill<T: TxnTarget>(
        &mut self,
        target: &Arc<T>,
        numbers: Vec<u32>,
        in_background: bool,
        for_good: bool,
    ) -> Result<()> {
        let job = self.job(&**target, &numbers, for_good)?;
        let running = RunningSpill::begin(job, target, in_background);
        self.spill.begin(running, numbers, self.writes);
        Ok(())
    }

    /// The colder half of the pages in memory, by number.
    fn colder_half(&self) -> Vec<u32> {
        let pages = self.pages.iter().filter(|(number, _)| **number != 1);
        colder_half(pages.map(|(number, page)| (page.changed, *number)).collect())
    }

    /// The job that spills pages. Gives them their places first.
    fn job<T: TxnTarget>(&mut self, target: &T, numbers: &[u32], start_writeback: bool) -> Result<SpillJob> {
        let unplaced = self.spill.unplaced(numbers.iter().copied(), |number| self.is_new(target, number));
        self.reserve(target, &unplaced)?;
        let pages =
            numbers.iter().filter_map(|number| Some((*number, self.pages.get(number)?.bytes.clone())));
        let job = self.spill.map.job(self.page_bytes, pages, start_writeback);
        if !job.to_file.is_empty() && !target.db().file_end().is_written_behind() {
            target.before_behind_end(self.base_len)?;
        }
        Ok(job)
    }

    /// True for a page behind the end of the database that nothing in the log would hide there.
    fn is_new<T: TxnTarget>(&self, target: &T, number: u32) -> bool {
        number >= first_behind(self.base_len, self.page_bytes) && !target.log_contains(number)
    }

    /// Gives pages slots of the log.
    fn reserve<T: TxnTarget>(&mut self, target: &T, numbers: &[u32]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let first = self.spill.map.slots();
        let slots = target.reserve_slots(self.page_bytes, first, numbers.len())?;
        self.spill.map.give(numbers, slots);
        Ok(())
    }

    /// Waits for the spill under way, if one is.
    pub fn settle(&mut self, db: &Db) -> Result<()> {
        let Some(batch) = self.spill.take() else { return Ok(()) };
        let result = batch.wait(db);
        self.memory.end_copies();
        for batched in self.spill.end(batch, result)? {
            if self.pages.get(&batched.page).is_some_and(|page| batched.is_newest(page.changed)) {
                self.pages.remove(&batched.page);
                self.memory.remove_pages(1);
            }
        }
        self.account(db);
        Ok(())
    }

    /// The transaction commits: waits for the spill under way, and writes new pages early where they are many.
    pub fn write_new<T: TxnTarget>(&mut self, target: &Arc<T>) -> Result<()> {
        self.settle(target.db())?;
        let new: Vec<u32> = self.in_memory().filter(|number| self.is_new(&**target, *number)).collect();
        let many = target.db().memory().many_new_bytes();
        if new.is_empty() || (new.len() * self.page_bytes <= many && !self.has_pages_in_file()) {
            return Ok(());
        }
        // The slot of a page would hide what is in the file.
        let new: Vec<u32> = new
            .into_iter()
            .filter(|number| !matches!(self.spill.map.get(*number), Some(SpillPlace::Slot(_))))
            .collect();
        self.begin_spill(target, new, false, false)?;
        self.settle(target.db())
    }

    /// Takes the pages in slots of the log back into memory, whatever the limit: the log is about to overwrite them.
    pub fn leave_slots(&mut self, db: &Db) -> Result<()> {
        let Some(log) = self.spill.map.log() else { return Ok(()) };
        let mut read = Vec::new();
        for number in self.spill.map.numbers() {
            let Some(SpillPlace::Slot(offset)) = self.spill.map.get(number) else { continue };
            if !self.pages.contains_key(&number) {
                let mut bytes = vec![0; self.page_bytes];
                log.read_at(&mut bytes, offset)?;
                read.push((number, PageBytes::from(bytes)));
            }
        }
        for (number, bytes) in read {
            self.insert(number, bytes);
        }
        self.spill.map.leave_slots();
        self.account(db);
        Ok(())
    }

    /// Waits for the spill under way, and gives all memory back.
    pub fn end(mut self, db: &Db) {
        let _ = self.settle(db);
        self.memory.remove_pages(self.pages.len());
        self.pages.clear();
        self.account(db);
    }
}

/// Reads the database as it was before the transaction; what is behind its end, and was not written there,
/// reads as zeros.
pub fn before<T: TxnTarget>(target: &T, buf: &mut [u8], offset: u64) -> Result<()> {
    match target.read(buf, offset) {
        Err(Error::ShortRead) => Ok(()),
        result => result,
    }
}

/// Writes dirty pages in place.
pub fn write_in_place<T: TxnTarget>(target: &T, dirty: &DirtyPages) -> Result<()> {
    let mut page = vec![0; dirty.page_bytes()];
    for number in dirty.page_numbers() {
        let offset = u64::from(number - 1) * dirty.page_bytes() as u64;
        dirty.read(&mut page, offset, &|buf, offset| before(target, buf, offset))?;
        target.write(&page, offset)?;
    }
    if dirty.len() != target.db().file_len()? {
        target.set_len(dirty.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The pages that a transaction has written and that nobody else may see yet.
//!
//! # Where they are
//! - In memory, as long as the transaction may have some ([`MemoryReservation`]).
//! - Beyond it, in slots of the redo log, where they will stay: the commit only adds their headers.
//! - Pages behind the end of the database belong to nobody yet. When a transaction adds many, they go
//!   straight into the database file, and the commit syncs that before its record: a bulk load is
//!   written once.
//!
//! # Invariants
//! 1. A page is in memory unless its newest version was spilled, and that write has ended.
//! 2. One cleaning is under way at most. What it writes is not changed: who writes such a page makes a copy.
//! 3. Once anything has failed, it is given up: no slot is left half written behind a commit.
//! 4. No page that begins at or behind the end of the database is held in memory, and what a held
//!    page has behind that end is zero.

use crate::db::{Db, note_dirty_bytes, page_bytes_in};
use crate::error::{Error, Result, check_reserve};
use crate::memory::reservation::MemoryReservation;
use crate::memory::sqlite_cache::{SqliteCacheReservation, SqliteCacheSize};
use crate::txn::TxnTarget;
use crate::txn::spill_map::{SpillMap, SpillPlace};
use crate::txn::spill_policy::{SpillPolicy, SpillStep};
use crate::txn::spiller::{Bytes, Job, Running, colder_half};
use litefoot_storage::wal_file::format::PageSum;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pages that are held in memory at least.
const FEWEST_PAGES: usize = 4;

/// The newest version of a page, in memory.
struct Page {
    bytes: Bytes,
    /// When it was written last; writes count from 1.
    changed: u64,
}

/// A spill under way.
struct SpillBatch {
    running: Arc<Running>,
    numbers: Vec<u32>,
    /// The last write before it began.
    until: u64,
}

/// Pages of a transaction, kept out of the database until it commits.
///
/// Pages have the size that the database had when the transaction began. A VACUUM to another page size
/// writes across their borders and may leave a length that is no multiple of them.
pub struct DirtyPages {
    page_bytes: usize,
    /// The pages in memory.
    pages: BTreeMap<u32, Page>,
    /// Where those are, or were, that were spilled.
    spill_map: SpillMap,
    memory: MemoryReservation,
    cache: SqliteCacheReservation,
    /// Bytes of memory that the figures of the database contain.
    noted: usize,
    /// Copies that a spill still has of pages changed since it began.
    copies: usize,
    writes: u64,
    policy: SpillPolicy,
    spill_under_way: Option<SpillBatch>,
    /// Bytes of the database as the transaction sees it, and as it was before.
    len: u64,
    base_len: u64,
    /// Whether SQLite has asked for a sync: it waits for the commit.
    pub sync_wanted: bool,
}

impl DirtyPages {
    /// Nothing held yet of a database of `base_len` bytes.
    pub fn new(db: &Db, page_bytes: usize, base_len: u64) -> DirtyPages {
        let options = db.options();
        DirtyPages {
            page_bytes,
            pages: BTreeMap::new(),
            spill_map: SpillMap::default(),
            memory: MemoryReservation::new(db.memory().share()),
            cache: SqliteCacheReservation::new(db.memory().share()),
            noted: 0,
            copies: 0,
            writes: 0,
            policy: SpillPolicy::new(options.page_cleaner, options.max_dirty_ratio),
            spill_under_way: None,
            len: base_len,
            base_len,
            sync_wanted: false,
        }
    }

    /// The transaction is a connection's whose cache is so large.
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

    /// Whether the transaction has changed nothing.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.spill_map.is_empty() && self.len == self.base_len
    }

    /// The numbers of the pages in memory, in order.
    pub fn in_memory(&self) -> impl Iterator<Item = u32> {
        self.pages.keys().copied()
    }

    /// The pages in slots of the log, in the order of the slots; a page may have a newer version in memory.
    pub fn in_slots(&self) -> Vec<(u32, PageSum)> {
        self.spill_map.in_slots()
    }

    /// Whether anything was written to the log ahead of the commit.
    pub fn has_slots(&self) -> bool {
        self.spill_map.slots() > 0
    }

    /// The numbers of the pages written that the database had before, in order.
    pub fn changed_numbers(&self) -> impl Iterator<Item = u32> {
        let before = self.base_len.div_ceil(self.page_bytes as u64);
        self.page_numbers().into_iter().take_while(move |number| u64::from(*number) <= before)
    }

    /// The numbers of all pages written, in order.
    pub fn page_numbers(&self) -> BTreeSet<u32> {
        self.in_memory().chain(self.spill_map.numbers()).collect()
    }

    /// Whether pages are in the database file already.
    pub fn has_pages_in_file(&self) -> bool {
        self.spill_map.has_file()
    }

    /// Takes a write.
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
        if let Some(held) = self.pages.get(&number) {
            page.copy_from_slice(&held.bytes);
        }
    }

    /// Bytes of a page after the transaction, as its page 1 says. An application may write there what it likes: where that
    /// cannot be a size, or the database is no whole number of such pages, it is committed in pages as they were.
    pub fn new_page_bytes(&self) -> Result<usize> {
        // It is never written away.
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
        drop(self.pages.split_off(&first_cut));
        self.spill_map.cut(first_cut);
        self.account(target.db());
        if inside > 0 && (self.pages.contains_key(&number) || self.spill_map.contains(number)) {
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
        match (self.spill_map.get(number), self.spill_map.log()) {
            (Some(SpillPlace::Slot(offset)), Some(log)) => {
                log.read_at(buf, offset + inside as u64)?;
                Ok(())
            }
            // Page numbers in the file are as before: what is there is ours.
            _ => base(buf, self.offset_of(number) + inside as u64),
        }
    }

    /// Puts a whole page into memory.
    fn put<T: TxnTarget>(&mut self, target: &Arc<T>, number: u32, bytes: &[u8]) -> Result<()> {
        self.writes += 1;
        if let Some(page) = self.pages.get_mut(&number) {
            page.changed = self.writes;
            if let Some(old) = Arc::get_mut(&mut page.bytes) {
                old.copy_from_slice(bytes);
            } else {
                page.bytes = bytes.into();
                self.copies += 1;
                self.account(target.db());
            }
            return Ok(());
        }
        check_reserve()?;
        if self.spill_map.contains(number) {
            self.policy.is_back();
        }
        self.make_room(target)?;
        self.pages.insert(number, Page { bytes: bytes.into(), changed: self.writes });
        self.account(target.db());
        Ok(())
    }

    /// The pages in memory have become more, or fewer.
    fn account(&mut self, db: &Db) {
        let now = self.pages.len() * self.page_bytes;
        note_dirty_bytes(db, self.noted, now);
        self.noted = now;
        self.memory.set(now + self.copies * self.page_bytes + self.spill_map.bytes());
        self.cache.passed(self.writes as usize * self.page_bytes);
    }

    /// Sees to it that there is memory for one page more.
    fn make_room<T: TxnTarget>(&mut self, target: &Arc<T>) -> Result<()> {
        loop {
            if self
                .spill_under_way
                .as_ref()
                .is_some_and(|spill_under_way| spill_under_way.running.has_ended())
            {
                self.settle(target.db())?;
            }
            let most = self.memory.most().max(FEWEST_PAGES * self.page_bytes);
            match self.policy.step(self.memory.bytes(), most, self.spill_under_way.is_some()) {
                SpillStep::GoOn => return Ok(()),
                SpillStep::Wait => self.settle(target.db())?,
                SpillStep::Spill { in_background, for_good } => {
                    if !self.spill(target, in_background, for_good)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Writes the colder half away; `false` where there is nothing to write.
    fn spill<T: TxnTarget>(&mut self, target: &Arc<T>, in_background: bool, for_good: bool) -> Result<bool> {
        let numbers = self.colder_half();
        if numbers.is_empty() {
            return Ok(false);
        }
        self.policy.spills(numbers.len());
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
        let running = Running::begin(job, target, in_background);
        self.spill_under_way = Some(SpillBatch { running, numbers, until: self.writes });
        Ok(())
    }

    /// The half of the pages in memory that was not written for longest, by number.
    fn colder_half(&self) -> Vec<u32> {
        // Page 1 is looked at when the transaction commits.
        let held = self.pages.iter().filter(|(number, _)| **number != 1);
        colder_half(held.map(|(number, page)| (page.changed, *number)).collect())
    }

    /// What is to be done to write pages away, and where they will be.
    fn job<T: TxnTarget>(&mut self, target: &T, numbers: &[u32], start_writeback: bool) -> Result<Job> {
        let new_slots: Vec<u32> = numbers
            .iter()
            .copied()
            .filter(|number| !self.spill_map.contains(*number) && !self.is_new(target, *number))
            .collect();
        self.reserve(target, &new_slots)?;
        let pages =
            numbers.iter().filter_map(|number| Some((*number, self.pages.get(number)?.bytes.clone())));
        let job = self.spill_map.job(self.page_bytes, pages, start_writeback);
        if !job.to_file.is_empty() && !target.db().file_end().is_written_behind() {
            target.before_behind_end(self.base_len)?;
        }
        Ok(job)
    }

    /// Whether a page is behind the end of the database, and nothing in the log would hide it there.
    fn is_new<T: TxnTarget>(&self, target: &T, number: u32) -> bool {
        self.base_len > 0 && self.offset_of(number) >= self.base_len && !target.log_contains(number)
    }

    /// Gives pages slots of the log.
    fn reserve<T: TxnTarget>(&mut self, target: &T, numbers: &[u32]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let first = self.spill_map.slots();
        let slots = target.reserve_slots(self.page_bytes, first, numbers.len())?;
        self.spill_map.give(numbers, slots);
        Ok(())
    }

    /// Waits for the spill that is under way, if one is.
    pub fn settle(&mut self, db: &Db) -> Result<()> {
        let Some(spill_under_way) = self.spill_under_way.take() else { return Ok(()) };
        let result = spill_under_way.running.wait(db);
        self.copies = 0;
        self.spill_map.note(result?);
        for number in spill_under_way.numbers {
            if self.pages.get(&number).is_some_and(|page| page.changed <= spill_under_way.until) {
                self.pages.remove(&number);
            }
        }
        self.account(db);
        Ok(())
    }

    /// The transaction commits: everything is in memory or written away for good. New pages, where they are many, go
    /// into the file.
    pub fn write_new<T: TxnTarget>(&mut self, target: &Arc<T>) -> Result<()> {
        self.settle(target.db())?;
        let new: Vec<u32> = self.in_memory().filter(|number| self.is_new(&**target, *number)).collect();
        let many = target.db().memory().many_new_bytes();
        if new.is_empty() || (new.len() * self.page_bytes <= many && !self.has_pages_in_file()) {
            return Ok(());
        }
        // A page that has a slot is newer in the file; the slot would hide it.
        let new: Vec<u32> = new
            .into_iter()
            .filter(|number| !matches!(self.spill_map.get(*number), Some(SpillPlace::Slot(_))))
            .collect();
        self.begin_spill(target, new, false, false)?;
        self.settle(target.db())
    }

    /// Takes the pages in slots of the log back into memory, however much there is: the log is about to be written
    /// over them.
    pub fn leave_slots(&mut self, db: &Db) -> Result<()> {
        let Some(log) = self.spill_map.log() else { return Ok(()) };
        for number in self.spill_map.numbers() {
            let Some(SpillPlace::Slot(offset)) = self.spill_map.get(number) else { continue };
            if !self.pages.contains_key(&number) {
                let mut bytes = vec![0; self.page_bytes];
                log.read_at(&mut bytes, offset)?;
                self.pages.insert(number, Page { bytes: bytes.into(), changed: self.writes });
            }
        }
        self.spill_map.leave_slots();
        self.account(db);
        Ok(())
    }

    /// Gives everything back, once nothing is under way any more.
    pub fn end(mut self, db: &Db) {
        let _ = self.settle(db);
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

/// Writes what is held in place.
pub fn write_in_place<T: TxnTarget>(target: &T, held: &DirtyPages) -> Result<()> {
    let mut page = vec![0; held.page_bytes()];
    for number in held.page_numbers() {
        let offset = u64::from(number - 1) * held.page_bytes() as u64;
        held.read(&mut page, offset, &|buf, offset| before(target, buf, offset))?;
        target.write(&page, offset)?;
    }
    if held.len() != target.db().file_len()? {
        target.set_len(held.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The pages that a transaction has written and that nobody else may see yet.
//!
//! # Where they are
//! - In memory, as long as they fit into the budget.
//! - Beyond it, in slots of the redo log, where they will stay: the commit only adds their headers.
//! - Pages behind the end of the database belong to nobody yet. When a transaction adds many, they go
//!   straight into the database file, and the commit syncs that before its record: a bulk load is
//!   written once.

use crate::error::{Error, Result};
use crate::memory::MemoryFile;
use crate::vfs::database::{Database, page_bytes_in};
use litefoot_engine::log::redo::Slot;
use litefoot_engine::log::redo::format::PageSum;
use std::collections::BTreeMap;

/// The share of the budget that new pages take before they go straight into the file.
const NEW_PAGES_SHARE: usize = 64;

/// Where a page is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At this place in memory.
    Memory(usize),
    /// In this slot of the log.
    Slot(usize),
    /// In the database file, behind its end.
    File,
}

/// A page in the log.
struct SlotPage {
    number: u32,
    slot: Slot,
    sum: PageSum,
}

/// Pages of a transaction, kept out of the database until it commits.
///
/// Pages have the size that the database had when the transaction began. A VACUUM to another page size
/// writes across their borders and may leave a length that is no multiple of them.
///
/// Invariant: no page that begins at or behind the end of the database is held in memory, and what a held
/// page has behind that end is zero.
pub struct Held {
    memory: MemoryFile,
    /// Bytes that may be taken of it.
    budget: usize,
    page_bytes: usize,
    places: BTreeMap<u32, Place>,
    /// Places given out in memory; those of pages that were cut off again are not reused.
    used: usize,
    slots: Vec<SlotPage>,
    /// Bytes of the database as the transaction sees it, and as it was before.
    len: u64,
    base_len: u64,
    /// Whether SQLite has asked for a sync: it waits for the commit.
    pub sync_wanted: bool,
}

impl Held {
    /// Nothing held yet of a database of `base_len` bytes. The memory is taken over from the last
    /// transaction.
    pub fn new(memory: MemoryFile, budget: usize, page_bytes: usize, base_len: u64) -> Held {
        Held {
            memory,
            budget,
            page_bytes,
            places: BTreeMap::new(),
            used: 0,
            slots: Vec::new(),
            len: base_len,
            base_len,
            sync_wanted: false,
        }
    }

    /// The memory, for the next transaction.
    pub fn into_memory(self) -> MemoryFile {
        self.memory
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
        self.places.is_empty() && self.len == self.base_len
    }

    /// The numbers of the pages in memory, in order.
    pub fn in_memory(&self) -> impl Iterator<Item = u32> {
        self.places.iter().filter(|(_, place)| matches!(place, Place::Memory(_))).map(|(number, _)| *number)
    }

    /// The pages in slots of the log, in the order of the slots.
    pub fn in_slots(&self) -> Vec<(u32, PageSum)> {
        self.slots.iter().map(|page| (page.number, page.sum)).collect()
    }

    /// Takes the pages in slots of the log back into memory, whatever its budget: the log is about to be written
    /// over them.
    pub fn leave_slots(&mut self) -> Result<()> {
        let mut page = vec![0; self.page_bytes];
        for (index, SlotPage { number, slot, .. }) in std::mem::take(&mut self.slots).into_iter().enumerate()
        {
            // Pages that were cut off again have left their slots behind.
            if !matches!(self.places.get(&number), Some(Place::Slot(place)) if *place == index) {
                continue;
            }
            slot.file.read_at(&mut page, slot.offset)?;
            self.memory.write(&page, self.used * self.page_bytes)?;
            self.places.insert(number, Place::Memory(self.used));
            self.used += 1;
        }
        Ok(())
    }

    /// The numbers of all pages written, in order.
    pub fn page_numbers(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    /// Whether pages are in the database file already.
    pub fn has_pages_in_file(&self) -> bool {
        self.places.values().any(|place| matches!(place, Place::File))
    }

    /// Takes a write.
    pub fn write(&mut self, database: &Database, buf: &[u8], offset: u64) -> Result<()> {
        let mut rest = buf;
        let mut at = offset;
        while !rest.is_empty() {
            let (number, inside) = self.page_of(at);
            let (part, behind) = rest.split_at(rest.len().min(self.page_bytes - inside));
            if part.len() == self.page_bytes {
                self.put(database, number, part)?;
            } else {
                let mut page = vec![0; self.page_bytes];
                self.read_page(number, 0, &mut page, &|buf, offset| before(database, buf, offset))?;
                page[inside..inside + part.len()].copy_from_slice(part);
                self.put(database, number, &page)?;
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
    pub fn copy(&self, number: u32, page: &mut [u8]) -> litefoot_engine::device::Result<()> {
        match self.places.get(&number) {
            Some(Place::Memory(place)) => self.memory.read(page, place * self.page_bytes).map(drop),
            _ => Ok(()),
        }
    }

    /// Bytes of a page after the transaction, as its page 1 says.
    pub fn new_page_bytes(&self) -> Result<usize> {
        if !self.places.contains_key(&1) {
            return Ok(self.page_bytes);
        }
        let mut head = [0; 32];
        self.read_page(1, 0, &mut head, &|_, _| Ok(()))?;
        Ok(page_bytes_in(&head) as usize)
    }

    /// Cuts the database, or extends it.
    pub fn set_len(&mut self, database: &Database, len: u64) -> Result<()> {
        let (number, inside) = self.page_of(len);
        drop(self.places.split_off(&if inside == 0 { number } else { number + 1 }));
        if inside > 0 && self.places.contains_key(&number) {
            let mut page = vec![0; self.page_bytes];
            self.read_page(number, 0, &mut page[..inside], &|buf, offset| before(database, buf, offset))?;
            self.put(database, number, &page)?;
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
        match self.places.get(&number) {
            Some(Place::Memory(place)) => {
                self.memory.read(buf, place * self.page_bytes + inside)?;
            }
            Some(Place::Slot(index)) => {
                let slot = &self.slots[*index].slot;
                slot.file.read_at(buf, slot.offset + inside as u64)?;
            }
            // Page numbers in the file are as before: what is there is ours.
            Some(Place::File) | None => base(buf, self.offset_of(number) + inside as u64)?,
        }
        Ok(())
    }

    /// Puts a whole page to its place.
    fn put(&mut self, database: &Database, number: u32, page: &[u8]) -> Result<()> {
        let place = match self.places.get(&number) {
            Some(place) => *place,
            None => self.new_place(database, number)?,
        };
        match place {
            Place::Memory(place) => self.memory.write(page, place * self.page_bytes)?,
            Place::File => database.write_behind_end(page, self.offset_of(number))?,
            Place::Slot(index) => {
                let slot = &mut self.slots[index];
                database.latch().check(database.path())?;
                slot.slot.file.write_at(page, slot.slot.offset)?;
                slot.sum = slot.slot.header.page_sum(page);
            }
        }
        self.places.insert(number, place);
        Ok(())
    }

    fn new_place(&mut self, database: &Database, number: u32) -> Result<Place> {
        let taken = (self.used + 1) * self.page_bytes;
        let is_new = self.base_len > 0 && self.offset_of(number) >= self.base_len;
        if is_new && taken > self.budget / NEW_PAGES_SHARE && !database.atomic().contains(number) {
            return Ok(Place::File);
        }
        // Page 1 is looked at when the transaction commits.
        if taken > self.budget && number != 1 {
            let index = self.slots.len();
            let slot = database.atomic().reserve_slot(database, self.page_bytes, index)?;
            let sum = slot.header.page_sum(&[]);
            self.slots.push(SlotPage { number, slot, sum });
            return Ok(Place::Slot(index));
        }
        self.used += 1;
        Ok(Place::Memory(self.used - 1))
    }
}

/// Reads the database as it was before the transaction; what is behind its end, and was not written there,
/// reads as zeros.
pub fn before(database: &Database, buf: &mut [u8], offset: u64) -> Result<()> {
    match database.read(buf, offset, &mut ()) {
        Err(Error::ShortRead) => Ok(()),
        result => result,
    }
}

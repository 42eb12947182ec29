//! The newest versions of the pages that records have changed so far.
//!
//! # Why
//! A record of a few bytes can change a page of 64 KiB. So a log may change more pages than fit into memory.
//!
//! # What it promises
//! Nothing that it writes counts before [`RecoveredPages::commit`]: what does not fit into memory goes to slots of the redo log,
//! which are part of the next transaction only.
//!
//! # Invariants
//! 1. Pages in memory take no more than the limit, between two calls; a page above it is written to its slot at once.
//! 2. Of a page in memory the slot, where it has one, is older.
//! 3. The redo log has no transaction: a page that no record has changed is read from the data file.

use super::read_file_page;
use crate::error::Result;
use crate::memory::reservation::MemoryReservation;
use litefoot_storage::file::{DeviceError, File, Operation};
use litefoot_storage::log_file::Durability;
use litefoot_storage::wal_file::format::PageSum;
use litefoot_storage::wal_file::{RedoLog, ReservedSlots, Transaction};
use std::collections::BTreeMap;
use std::io;

pub(super) struct RecoveredPages<'a> {
    data: &'a dyn File,
    redo: &'a mut RedoLog,
    page_bytes: usize,
    most_bytes: usize,
    memory: MemoryReservation,
    in_memory: BTreeMap<u32, Vec<u8>>,
    slots: Option<ReservedSlots>,
    slot_of: BTreeMap<u32, usize>,
    /// The page in each slot, and its checksum.
    spilled: Vec<(u32, PageSum)>,
}

impl<'a> RecoveredPages<'a> {
    /// No page yet; they take at most so many bytes of memory, and no more than the reservation may have.
    pub fn new(
        data: &'a dyn File,
        redo: &'a mut RedoLog,
        page_bytes: usize,
        (memory, most_bytes): (MemoryReservation, usize),
    ) -> RecoveredPages<'a> {
        debug_assert!(redo.is_empty(), "pages of a redo log are read from nowhere");
        RecoveredPages {
            data,
            redo,
            page_bytes,
            most_bytes: memory.most().min(most_bytes),
            memory,
            in_memory: BTreeMap::new(),
            slots: None,
            slot_of: BTreeMap::new(),
            spilled: Vec::new(),
        }
    }

    /// Reads the newest version of a page.
    pub fn read(&self, number: u32, page: &mut [u8]) -> Result<()> {
        if let Some(newest) = self.in_memory.get(&number) {
            page.copy_from_slice(newest);
            return Ok(());
        }
        let (Some(slot), Some(slots)) = (self.slot_of.get(&number), &self.slots) else {
            return read_file_page(self.data, number, page);
        };
        if slots.file.read_at(page, offset(slots, *slot))? == page.len() {
            return Ok(());
        }
        let what = io::Error::other(format!("it was cut by somebody, and has lost page {number}"));
        Err(DeviceError::new(Operation::Read, self.redo.path(), what).into())
    }

    /// Takes the next version of a page.
    pub fn put(&mut self, number: u32, page: &[u8]) -> Result<()> {
        self.in_memory.entry(number).or_insert_with(|| vec![0; page.len()]).copy_from_slice(page);
        let bytes = self.in_memory.len() * self.page_bytes;
        if bytes > self.most_bytes {
            self.spill()
        } else {
            self.memory.set(bytes);
            Ok(())
        }
    }

    /// Bytes of the pages in memory.
    #[cfg(test)]
    pub fn bytes_in_memory(&self) -> usize {
        self.in_memory.len() * self.page_bytes
    }

    /// Appends all pages to the redo log as one transaction, durably.
    pub fn commit(&mut self, database_pages: u32) -> Result<()> {
        let (older, newest) = std::mem::take(&mut self.in_memory)
            .into_iter()
            .partition(|(number, _)| self.slot_of.contains_key(number));
        self.in_memory = older;
        if !self.in_memory.is_empty() {
            self.spill()?;
        }
        let (page_numbers, pages): (Vec<u32>, Vec<Vec<u8>>) = BTreeMap::into_iter(newest).unzip();
        let transaction = Transaction {
            slots: &self.spilled,
            early: &[],
            page_numbers: &page_numbers,
            page_bytes: self.page_bytes as u32,
            database_pages,
        };
        let mut copy = |index: usize, page: &mut [u8]| {
            page.copy_from_slice(&pages[index]);
            Ok(())
        };
        Ok(self.redo.append(&transaction, &mut copy, Durability::Durable)?)
    }

    /// Gives all slots up, and their space, where nothing of them has counted.
    pub fn discard(&mut self) {
        if self.slots.take().is_some() {
            self.redo.discard_slots();
            // A log without frames is worth as much as none, and the next owner removes it, too.
            let _ = self.redo.delete();
        }
    }

    /// Writes the pages in memory to their slots.
    fn spill(&mut self) -> Result<()> {
        let pages = std::mem::take(&mut self.in_memory);
        self.memory.set(0);
        let new = pages.keys().filter(|number| !self.slot_of.contains_key(number)).count();
        let reserved =
            self.redo.reserve_slots(self.page_bytes as u32, self.spilled.len() as u32, new as u32)?;
        // All slots are behind the first one.
        let slots = self.slots.get_or_insert(reserved);
        for (number, page) in pages {
            let sum = slots.header.page_sum(&page);
            let slot = *self.slot_of.entry(number).or_insert(self.spilled.len());
            match self.spilled.get_mut(slot) {
                Some(spilled) => spilled.1 = sum,
                None => self.spilled.push((number, sum)),
            }
            slots.file.write_at(&page, offset(slots, slot))?;
        }
        Ok(())
    }
}

/// The offset of a slot, of which the first one is given.
fn offset(first: &ReservedSlots, slot: usize) -> u64 {
    first.offset + (slot * first.header.frame_bytes()) as u64
}

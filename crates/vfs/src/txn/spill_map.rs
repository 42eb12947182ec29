//! Where the pages of one large transaction go that leave memory.
//!
//! Invariants:
//! 1. A page has one home, for as long as the transaction lasts, unless it is cut off or the slots are left.
//! 2. Slots are in the log in the order in which they were given; none is given back alone.

use crate::txn::spiller::{Bytes, Job, ToSlot, Written};
use litefoot_storage::file::File;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::format::{Header, PageSum};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillPlace {
    /// A slot of the log, whose page begins at this offset.
    Slot(u64),
    /// The database file, behind its end.
    File,
}

/// A page in the log.
struct LogSlot {
    number: u32,
    offset: u64,
    /// Once it was written.
    sum: Option<PageSum>,
}

/// The homes of pages, by number.
#[derive(Default)]
pub struct SpillMap {
    /// The slot, by its place among them; none for the file.
    of: BTreeMap<u32, Option<usize>>,
    slots: Vec<LogSlot>,
    log: Option<(Arc<dyn File>, Header)>,
}

impl SpillMap {
    /// Where a page goes, or went.
    pub fn get(&self, number: u32) -> Option<SpillPlace> {
        let slot = self.of.get(&number)?;
        Some(slot.map_or(SpillPlace::File, |index| SpillPlace::Slot(self.slots[index].offset)))
    }

    /// Whether a page has one.
    pub fn contains(&self, number: u32) -> bool {
        self.of.contains_key(&number)
    }

    /// Whether no page has one.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The numbers of the pages that have one, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.of.keys().copied()
    }

    /// Whether some pages have theirs in the database file.
    pub fn has_file(&self) -> bool {
        self.of.values().any(Option::is_none)
    }

    /// How many slots were given.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The numbers of the pages that slots were given to, in the order of the slots.
    pub fn slot_numbers(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|slot| slot.number)
    }

    /// The pages in slots, in the order of the slots; a page may have a newer version in memory, or none at all any more.
    pub fn in_slots(&self) -> Vec<(u32, PageSum)> {
        self.slots.iter().filter_map(|slot| slot.sum.map(|sum| (slot.number, sum))).collect()
    }

    /// Whether every slot was written.
    pub fn are_written(&self) -> bool {
        self.slots.iter().all(|slot| slot.sum.is_some())
    }

    /// Gives pages these slots.
    pub fn give(&mut self, numbers: &[u32], slots: wal_file::Slots) {
        for (index, number) in numbers.iter().enumerate() {
            let offset = slots.offset + (index * slots.header.frame_bytes()) as u64;
            self.of.insert(*number, Some(self.slots.len()));
            self.slots.push(LogSlot { number: *number, offset, sum: None });
        }
        self.log = Some((slots.file, slots.header));
    }

    /// What is to be done to write pages, sorted by number, to their homes. Those that have none go into the file.
    pub fn job(
        &mut self,
        page_bytes: usize,
        pages: impl IntoIterator<Item = (u32, Bytes)>,
        start_writeback: bool,
    ) -> Job {
        let (mut to_file, mut to_slots) = (Vec::new(), Vec::new());
        for (number, bytes) in pages {
            match *self.of.entry(number).or_insert(None) {
                Some(index) => to_slots.push(ToSlot { index, offset: self.slots[index].offset, bytes }),
                None => to_file.push((number, bytes)),
            }
        }
        to_slots.sort_unstable_by_key(|page| page.index);
        Job { page_bytes, to_file, to_slots, log: self.log.clone(), start_writeback }
    }

    /// Notes what a job has written to slots.
    pub fn note(&mut self, written: Written) {
        for (index, sum) in written {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.sum = Some(sum);
            }
        }
    }

    /// The log, where slots are in it.
    pub fn log(&self) -> Option<&Arc<dyn File>> {
        self.log.as_ref().map(|(file, _)| file)
    }

    /// Forgets the pages from a number on. Their slots stay given.
    pub fn cut(&mut self, first: u32) {
        drop(self.of.split_off(&first));
    }

    /// Forgets the slots, and the pages that have theirs there.
    pub fn leave_slots(&mut self) {
        self.of.retain(|_, slot| slot.is_none());
        self.slots.clear();
        self.log = None;
    }

    /// Bytes of memory that all this takes.
    pub fn bytes(&self) -> usize {
        self.of.len() * size_of::<(u32, Option<usize>)>() + self.slots.len() * size_of::<LogSlot>()
    }
}

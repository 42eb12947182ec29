//! Spill map: where the spilled pages of one large transaction lie.
//!
//! New pages go to the database file, where the commit leaves them. All others go to slots of the redo log, where they
//! stay too: the commit only adds their frame headers.
//!
//! # Invariants
//! 1. A page has one place, for as long as the transaction lasts, unless it is cut off or the slots are left.
//! 2. Slots are in the log in the order in which they were given; none is given back alone.
//! 3. A slot has a checksum once its page was written.

use crate::txn::spiller::{PageBytes, SlotSums, SpillJob, ToSlot};
use litefoot_storage::file::File;
use litefoot_storage::wal_file;
use litefoot_storage::wal_file::format::{Header, PageSum};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Place of a spilled page. Both families of transactions read it back from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillPlace {
    /// A slot of the redo log, whose page begins at this offset.
    Slot(u64),
    /// The database file, behind its end, as the page of this number.
    Database(u32),
}

/// Slot of the redo log that a page was given.
struct PageSlot {
    number: u32,
    offset: u64,
    /// None before the page was written.
    sum: Option<PageSum>,
}

/// Places of pages, by number.
#[derive(Default)]
pub struct SpillMap {
    /// The slot, by its index in `slots`; none for the database file.
    places: BTreeMap<u32, Option<usize>>,
    slots: Vec<PageSlot>,
    log: Option<(Arc<dyn File>, Header)>,
}

impl SpillMap {
    /// The place of a page, written or not.
    pub fn get(&self, number: u32) -> Option<SpillPlace> {
        let slot = self.places.get(&number)?;
        Some(slot.map_or(SpillPlace::Database(number), |index| SpillPlace::Slot(self.slots[index].offset)))
    }

    /// True for a page that has a place.
    pub fn contains(&self, number: u32) -> bool {
        self.places.contains_key(&number)
    }

    /// True where no page has a place.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The numbers of the pages that have a place, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    /// True where some pages have their place in the database file.
    pub fn has_pages_in_file(&self) -> bool {
        self.in_file().next().is_some()
    }

    /// The numbers of the pages that have their place in the database file, in order.
    pub fn in_file(&self) -> impl Iterator<Item = u32> {
        self.places.iter().filter(|(_, slot)| slot.is_none()).map(|(number, _)| *number)
    }

    /// Number of slots given.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The numbers of the pages that slots were given to, in the order of the slots.
    pub fn slot_numbers(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().map(|slot| slot.number)
    }

    /// The pages in slots, in the order of the slots. A page may have a newer version in memory, or be cut off since.
    pub fn in_slots(&self) -> Vec<(u32, PageSum)> {
        self.slots.iter().filter_map(|slot| slot.sum.map(|sum| (slot.number, sum))).collect()
    }

    /// True where every slot was written.
    pub fn are_written(&self) -> bool {
        self.slots.iter().all(|slot| slot.sum.is_some())
    }

    /// Gives pages these slots.
    pub fn give(&mut self, numbers: &[u32], slots: wal_file::ReservedSlots) {
        for (index, number) in numbers.iter().enumerate() {
            let offset = slots.offset + (index * slots.header.frame_bytes()) as u64;
            self.places.insert(*number, Some(self.slots.len()));
            self.slots.push(PageSlot { number: *number, offset, sum: None });
        }
        self.log = Some((slots.file, slots.header));
    }

    /// The job that writes pages, sorted by number, to their places. Pages without a place go to the database file.
    pub fn job(
        &mut self,
        page_bytes: usize,
        pages: impl IntoIterator<Item = (u32, PageBytes)>,
        start_writeback: bool,
    ) -> SpillJob {
        let (mut to_file, mut to_slots) = (Vec::new(), Vec::new());
        for (number, bytes) in pages {
            match *self.places.entry(number).or_insert(None) {
                Some(index) => to_slots.push(ToSlot { index, offset: self.slots[index].offset, bytes }),
                None => to_file.push((number, bytes)),
            }
        }
        to_slots.sort_unstable_by_key(|page| page.index);
        SpillJob { page_bytes, to_file, to_slots, log: self.log.clone(), start_writeback }
    }

    /// Notes what a job has written to slots.
    pub fn note(&mut self, sums: SlotSums) {
        for (index, sum) in sums {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.sum = Some(sum);
            }
        }
    }

    /// The redo log's file, once slots were given.
    pub fn log(&self) -> Option<&Arc<dyn File>> {
        self.log.as_ref().map(|(file, _)| file)
    }

    /// Forgets the pages from a number on. Their slots stay given.
    pub fn cut(&mut self, first: u32) {
        drop(self.places.split_off(&first));
    }

    /// Forgets the slots, and the pages that have theirs there.
    pub fn leave_slots(&mut self) {
        self.places.retain(|_, slot| slot.is_none());
        self.slots.clear();
        self.log = None;
    }

    /// Bytes of memory that the map takes.
    pub fn bytes(&self) -> usize {
        self.places.len() * size_of::<(u32, Option<usize>)>() + self.slots.len() * size_of::<PageSlot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::of_test::{sum_of, test_slots};

    const PAGE: usize = 512;
    const FRAME: u64 = 24 + PAGE as u64;

    fn page(byte: u8) -> PageBytes {
        [byte; PAGE].into()
    }

    /// Pages 7 and 3 in slots, 9 in the file; none written.
    fn map() -> SpillMap {
        let mut map = SpillMap::default();
        map.give(&[7, 3], test_slots(PAGE, 1000));
        map.job(PAGE, [(9, page(9))], false);
        map
    }

    #[test]
    fn a_page_has_one_place_until_it_is_cut_off_or_its_slot_is_left() {
        let (slot_7, slot_3, file_9) =
            (SpillPlace::Slot(1000), SpillPlace::Slot(1000 + FRAME), SpillPlace::Database(9));
        type Case = (&'static str, fn(&mut SpillMap), [Option<SpillPlace>; 3], usize, bool, bool);
        // (change, places of pages 3, 7 and 9, slots given, pages in the file, a log)
        let cases: [Case; 6] = [
            ("nothing", |_| (), [Some(slot_3), Some(slot_7), Some(file_9)], 2, true, true),
            (
                "written again",
                |map| drop(map.job(PAGE, [(3, page(1)), (9, page(2))], true)),
                [Some(slot_3), Some(slot_7), Some(file_9)],
                2,
                true,
                true,
            ),
            ("cut at 8", |map| map.cut(8), [Some(slot_3), Some(slot_7), None], 2, false, true),
            ("cut at 7", |map| map.cut(7), [Some(slot_3), None, None], 2, false, true),
            ("cut at 1", |map| map.cut(1), [None, None, None], 2, false, true),
            ("slots left", SpillMap::leave_slots, [None, None, Some(file_9)], 0, true, false),
        ];
        for (what, change, places, slots, in_file, log) in cases {
            let mut map = map();
            change(&mut map);
            assert_eq!([3, 7, 9].map(|number| map.get(number)), places, "{what}");
            assert_eq!([3, 7, 9].map(|number| map.contains(number)), places.map(|place| place.is_some()));
            assert_eq!(map.numbers().count(), places.iter().flatten().count(), "{what}");
            assert_eq!(map.is_empty(), places == [None; 3], "{what}");
            let found = (map.slots(), map.has_pages_in_file(), map.log().is_some());
            assert_eq!(found, (slots, in_file, log), "{what}");
        }
    }

    #[test]
    fn a_job_has_new_pages_by_number_and_the_others_by_slot() {
        let mut map = map();
        let job = map.job(PAGE, [(3, page(3)), (5, page(5)), (7, page(7)), (9, page(9))], true);
        assert_eq!(job.to_file.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [5, 9]);
        let slots: Vec<(usize, u64, u8)> =
            job.to_slots.iter().map(|page| (page.index, page.offset, page.bytes[0])).collect();
        assert_eq!(slots, [(0, 1000, 7), (1, 1000 + FRAME, 3)]);
        assert!(job.start_writeback && job.log.is_some() && job.pages() == 4);
        assert_eq!(map.get(5), Some(SpillPlace::Database(5)));
    }

    #[test]
    fn slots_count_once_they_are_written_and_keep_their_order() {
        let mut map = map();
        assert!(SpillMap::default().are_written() && !map.are_written() && map.in_slots().is_empty());
        map.note(vec![(1, sum_of(3))]);
        assert!(!map.are_written());
        assert_eq!(map.in_slots(), [(3, sum_of(3))]);
        // A slot that was left meanwhile has no index.
        map.note(vec![(0, sum_of(7)), (2, sum_of(1))]);
        assert!(map.are_written());
        assert_eq!(map.in_slots(), [(7, sum_of(7)), (3, sum_of(3))]);
        map.cut(1);
        assert_eq!(map.slot_numbers().collect::<Vec<_>>(), [7, 3], "slots stay given");
    }
}

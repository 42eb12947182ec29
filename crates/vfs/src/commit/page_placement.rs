//! Page placement: where the pages of a commit in WAL mode are already, and where the others go.
//!
//! | page | goes |
//! |---|---|
//! | in a slot of the redo log | nowhere: the slot gets a frame header |
//! | in a slot, and given up by the transaction since | appended as it was before, so that the slot's page does not count |
//! | in the database file already (early write) | nowhere: the file is synced before the commit counts |
//! | new, in memory, one of many of a commit that has no other early page or slot | into the database file, which is synced |
//! | any other | appended to the redo log |
//!
//! # Invariant
//! Where pages are in slots or in the file, at least one is appended. Its frame says that the transaction counts.

use crate::txn::spill_map::SpillPlace;
use crate::txn::wal_spill_state::FramePage;
use std::collections::BTreeMap;

/// The places of a commit's pages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Pages in slots that the database has, and the transaction has no version of any more.
    pub given_up: Vec<u32>,
    /// Pages that are in the database file already.
    pub in_file: Vec<u32>,
    /// Pages to be written: page number and frame.
    pub pages: BTreeMap<u32, usize>,
}

/// Places the newest version of each page. `slots` are the pages in slots of the redo log, and `spilled` answers where a
/// frame's page was written before the commit.
pub(crate) fn place(
    mut newest: BTreeMap<u32, usize>,
    slots: impl Iterator<Item = u32>,
    database_pages: u32,
    spilled: impl Fn(usize) -> Option<SpillPlace>,
) -> Placement {
    let given_up = slots.filter(|number| !newest.contains_key(number) && *number <= database_pages).collect();
    let is_in_file = |frame: usize| matches!(spilled(frame), Some(SpillPlace::Database(_)));
    let in_file = newest.iter().filter(|(_, frame)| is_in_file(**frame)).map(|(number, _)| *number).collect();
    newest.retain(|_, frame| spilled(*frame).is_none());
    Placement { given_up, in_file, pages: newest }
}

/// When new pages are many enough to be written into the database file at commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManyPages {
    pub page_bytes: usize,
    /// Bytes that are not many yet.
    pub limit_bytes: usize,
}

impl ManyPages {
    fn is_many(self, pages: usize) -> bool {
        pages * self.page_bytes > self.limit_bytes
    }

    /// True where early writes can pay: the pages are many, and page 1 is left to be appended.
    pub fn may_be_early(self, pages: &BTreeMap<u32, usize>) -> bool {
        self.is_many(pages.len()) && pages.contains_key(&1)
    }

    /// The pages for early writes: those up to the end of the database that `can_be_early` by number and frame. None,
    /// unless they are many.
    pub fn early(
        self,
        pages: &BTreeMap<u32, usize>,
        database_pages: u32,
        can_be_early: impl Fn(u32, usize) -> bool,
    ) -> Vec<FramePage> {
        let early: Vec<FramePage> = pages
            .range(..=database_pages)
            .filter(|(number, frame)| can_be_early(**number, **frame))
            .map(|(number, frame)| FramePage { page_number: *number, frame: *frame })
            .collect();
        if self.is_many(early.len()) { early } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_goes_to_one_place() {
        // Page: frame. Frame 11 is in a slot, frame 12 in the database file.
        let newest = BTreeMap::from([(1, 10), (3, 11), (7, 12), (9, 13)]);
        let spilled = |frame: usize| match frame {
            11 => Some(SpillPlace::Slot(4_096)),
            12 => Some(SpillPlace::Database(7)),
            _ => None,
        };
        // The transaction has given up its versions of pages 4 and 20, and the database ends with page 9.
        let placement = place(newest, [3, 4, 20].into_iter(), 9, spilled);
        let expected =
            Placement { given_up: vec![4], in_file: vec![7], pages: BTreeMap::from([(1, 10), (9, 13)]) };
        assert_eq!(placement, expected);
    }

    #[test]
    fn many_new_pages_are_written_early_and_page_1_never() {
        let pages_of = |numbers: &[u32]| -> BTreeMap<u32, usize> {
            numbers.iter().map(|number| (*number, *number as usize + 100)).collect()
        };
        let cases: [(&[u32], u32, &[u32], &str); 6] = [
            (&[1, 5, 6, 7], 7, &[5, 6, 7], "three new pages are many"),
            (&[1, 5, 6], 6, &[], "three pages, but only two of them new"),
            (&[1, 5], 5, &[], "few pages"),
            (&[5, 6, 7, 8], 8, &[], "nothing would be left to append"),
            (&[1, 5, 6, 7, 8], 7, &[5, 6, 7], "not behind the end of the database"),
            (&[1, 2, 3, 4, 5, 6], 6, &[], "changed pages are not new"),
        ];
        for (numbers, database_pages, expected, what) in cases {
            let many = ManyPages { page_bytes: 512, limit_bytes: 1_024 };
            let pages = pages_of(numbers);
            // Pages from number 5 on are new.
            let early = match many.may_be_early(&pages) {
                true => many.early(&pages, database_pages, |number, frame| {
                    assert_eq!(frame, number as usize + 100);
                    number >= 5
                }),
                false => Vec::new(),
            };
            let early: Vec<u32> = early.iter().map(|leaving| leaving.page_number).collect();
            assert_eq!(early, expected, "{what}");
        }
    }
}

//! The pages that a captured transaction has changed, and a checksum of what they are afterwards.
//!
//! # Why
//! Statements say what was asked for, and not what came of it. A replay is believed only where it gives the same pages, so the
//! record of a transaction names them.
//!
//! # What it promises
//! 1. Two transactions with the same [`ChangedPages`] have the same pages with the same bytes, as far as 32 bits tell.
//! 2. Two fields of page 1 do not count: its change counter, and when and by which SQLite it was written (file format, section
//!    1.3). They tell how often a connection has written that page, not what the database holds.
//!
//! 3. A transaction names no pages where it is open what a replay gives (`commit/page_vouching`).
//!
//! # Bytes
//! ```text
//! | runs   | { pages since the last run | pages of the run } … | CRC-32C |
//! | number |   number                     number                 4 bytes
//! ```
//! The CRC is that of the CRCs of all pages, in the order of their numbers. All of these have 4 bytes, little-endian. The size
//! of the database is not in it: to SQLite it is that of the file, which a crash can leave longer.

use crate::capture::encoding::{Reader, put_number};
use litefoot_storage::page_delta::{extend_sum, page_sum};
use std::ops::Range;

/// The change counter in page 1; the counter for which the database size is valid, and the version of SQLite that wrote it.
const COUNTERS: [Range<usize>; 2] = [24..28, 92..100];

/// Pages by number, and the checksum of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedPages {
    /// The first page of a run, and the page behind its last.
    runs: Vec<(u32, u32)>,
    sum: u32,
}

impl ChangedPages {
    /// Adds a page behind those before, with its bytes.
    pub fn add(&mut self, number: u32, page: &[u8]) {
        self.add_sum(number, sum_of(number, page));
    }

    /// Adds a page behind those before, with the checksum of its bytes.
    pub fn add_sum(&mut self, number: u32, sum: u32) {
        match self.runs.last_mut() {
            Some((_, end)) if *end == number => *end += 1,
            _ => self.runs.push((number, number.saturating_add(1))),
        }
        self.sum = extend_sum(self.sum, &sum.to_le_bytes());
    }

    /// True where no pages are named.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The numbers of the pages, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|(first, end)| *first..*end)
    }

    /// The number of pages.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|(first, end)| u64::from(end - first)).sum()
    }

    /// True for one of the pages.
    pub fn contains(&self, number: u32) -> bool {
        let behind = self.runs.partition_point(|(first, _)| *first <= number);
        behind > 0 && number < self.runs[behind - 1].1
    }

    /// Bytes in a record, at most.
    pub fn bytes(&self) -> usize {
        9 + 10 * self.runs.len()
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.runs.len() as u64);
        let mut last = 0;
        for (first, end) in &self.runs {
            put_number(out, u64::from(first - last));
            put_number(out, u64::from(end - first));
            last = *end;
        }
        out.extend_from_slice(&self.sum.to_le_bytes());
    }

    /// Reads its bytes. A run follows the one before, and is not empty.
    pub(super) fn decode(bytes: &mut Reader<'_>) -> Option<ChangedPages> {
        let count = bytes.number()?;
        let mut pages = ChangedPages::default();
        let mut last = 0u32;
        for _ in 0..count {
            let first = u32::try_from(bytes.number()?).ok().and_then(|gap| last.checked_add(gap))?;
            let end = u32::try_from(bytes.number()?).ok().and_then(|pages| first.checked_add(pages))?;
            if first == 0 || first == end {
                return None;
            }
            pages.runs.push((first, end));
            last = end;
        }
        pages.sum = bytes.word()?;
        Some(pages)
    }
}

/// The checksum of a page, without the counters of page 1.
pub(crate) fn sum_of(number: u32, page: &[u8]) -> u32 {
    let [first, second] = COUNTERS;
    if number != 1 || page.len() < second.end {
        return page_sum(page);
    }
    [&page[..first.start], &page[first.end..second.start], &page[second.end..]]
        .into_iter()
        .fold(0, extend_sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(pages: &BTreeMap<u32, u8>) -> ChangedPages {
        let mut changed = ChangedPages::default();
        pages.iter().for_each(|(number, byte)| changed.add(*number, &[*byte; 128]));
        changed
    }

    proptest! {
        #[test]
        fn pages_come_back_and_only_the_same_are_equal(
            pages in proptest::collection::btree_map(1u32..200, any::<u8>(), 0..60),
        ) {
            let changed = of(&pages);
            let mut bytes = Vec::new();
            changed.encode(&mut bytes);
            prop_assert!(bytes.len() <= changed.bytes());
            prop_assert_eq!(ChangedPages::decode(&mut Reader(&bytes)), Some(changed.clone()));
            prop_assert!((0..bytes.len()).all(|len| ChangedPages::decode(&mut Reader(&bytes[..len])).is_none()));
            prop_assert!(changed.numbers().eq(pages.keys().copied()));
            prop_assert_eq!(changed.len(), pages.len() as u64);
            prop_assert!((0..210).all(|number| changed.contains(number) == pages.contains_key(&number)));
            for number in pages.keys() {
                let mut other = pages.clone();
                other.entry(*number).and_modify(|byte| *byte ^= 1);
                prop_assert!(of(&other) != changed, "page {}", number);
            }
        }
    }

    #[test]
    fn the_counters_of_page_1_do_not_count() {
        let mut page = [7; 512];
        let sums = [1, 2].map(|number| sum_of(number, &page));
        for at in [24, 27, 92, 99] {
            page[at] ^= 1;
        }
        assert_eq!(sum_of(1, &page), sums[0]);
        assert_ne!(sum_of(2, &page), sums[1]);
        for at in [23, 28, 91, 100] {
            page[at] ^= 1;
            assert_ne!(sum_of(1, &page), sums[0], "{at}");
            page[at] ^= 1;
        }
    }

    #[test]
    fn runs_that_no_transaction_has_are_refused() {
        for (what, runs) in [
            ("no page 0", vec![(0u64, 1u64)]),
            ("an empty run", vec![(5, 0)]),
            ("behind the last page", vec![(u64::from(u32::MAX), 1)]),
            ("behind all numbers", vec![(1, u64::MAX)]),
        ] {
            let mut bytes = Vec::new();
            put_number(&mut bytes, runs.len() as u64);
            for (gap, pages) in runs {
                put_number(&mut bytes, gap);
                put_number(&mut bytes, pages);
            }
            bytes.extend_from_slice(&[0; 4]);
            assert_eq!(ChangedPages::decode(&mut Reader(&bytes)), None, "{what}");
        }
    }
}

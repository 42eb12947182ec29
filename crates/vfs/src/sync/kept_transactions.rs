//! Transactions as they were committed, for one that looks at a database and wants each of them.
//!
//! # Why
//! [Marks](super::page_marks) say which pages have changed, and several changes of a page are one mark. A history has to have each.
//!
//! # Invariants
//! 1. The transactions that are kept follow one another, and the first one follows the moment that was told last. Otherwise there is a gap, and
//!    none is kept.
//! 2. Whatever is noted as changed is announced here first, and recorded once it is committed. What is not recorded is a gap.
//! 3. At most [`MOST_BYTES`] are kept. More is a gap.

use crate::stats::now_ms;
use crate::sync::owner_lock::LOCK_OFFSET;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Most bytes of pages that are kept until somebody takes them.
const MOST_BYTES: usize = 4 << 20;

/// A transaction: the pages that it changed, as it left them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of the database behind it.
    pub pages: u32,
    /// When it was committed, in milliseconds since 1970.
    pub time_ms: u64,
    /// The pages, ascending.
    pub numbers: Vec<u32>,
    /// Their bytes, one behind the other.
    pub data: Vec<u8>,
}

impl Transaction {
    /// One that was committed just now: of pages in ascending order, which `read` reads; without the page of SQLite's locks. `None` where that fails, or
    /// these are too many.
    pub(crate) fn read(
        mut numbers: Vec<u32>,
        page_bytes: usize,
        pages: u32,
        mut read: impl FnMut(u32, &mut [u8]) -> bool,
    ) -> Option<Transaction> {
        numbers.retain(|number| (1..=pages).contains(number) && !is_lock_page(*number, page_bytes as u32));
        let bytes = numbers.len().checked_mul(page_bytes).filter(|bytes| *bytes <= MOST_BYTES)?;
        let mut data = vec![0; bytes];
        let mut places = numbers.iter().zip(data.chunks_mut(page_bytes.max(1)));
        if !places.all(|(number, page)| read(*number, page)) {
            return None;
        }
        Some(Transaction { page_bytes: page_bytes as u32, pages, time_ms: now_ms(), numbers, data })
    }

    /// The pages and their bytes.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.numbers.iter().copied().zip(self.data.chunks(self.page_bytes.max(1) as usize))
    }

    /// True if it has these pages, but for the one of SQLite's locks.
    fn has_all(&self, mut numbers: Range<u32>) -> bool {
        let is_here = |number| self.numbers.binary_search(&number).is_ok();
        numbers.all(|number| is_here(number) || is_lock_page(number, self.page_bytes))
    }
}

/// SQLite never writes the page of its locks.
pub(super) fn is_lock_page(number: u32, page_bytes: u32) -> bool {
    u64::from(number) == LOCK_OFFSET / u64::from(page_bytes.max(1)) + 1
}

/// The transactions that one has not taken yet.
#[derive(Default)]
pub(super) struct Kept {
    list: VecDeque<Arc<Transaction>>,
    bytes: usize,
    has_gap: bool,
    /// A change was announced, and is not recorded yet.
    awaits: bool,
    /// Pages of the database behind the last transaction.
    pages: u32,
    /// The frame of the log with which the next transaction begins, unless the log begins anew; `None` where any may come.
    next_frame: Option<usize>,
}

impl Kept {
    /// One that knows nothing yet.
    pub(super) fn new() -> Kept {
        Kept { has_gap: true, ..Kept::default() }
    }

    /// True if a transaction that is recorded now is kept.
    pub(super) fn is_sound(&self) -> bool {
        !self.has_gap
    }

    /// Something is not known.
    pub(super) fn lose(&mut self) {
        self.list = VecDeque::new();
        (self.bytes, self.has_gap) = (0, true);
    }

    /// A change is under way.
    pub(super) fn announce(&mut self) {
        if std::mem::replace(&mut self.awaits, true) {
            self.lose();
        }
    }

    /// The change that was announced, as these frames of the log have it; none has a transaction of a rollback journal.
    pub(super) fn record(&mut self, frames: &Range<usize>, transaction: Option<&Arc<Transaction>>) {
        let was_announced = std::mem::take(&mut self.awaits);
        if self.has_gap {
            return;
        }
        // A transaction that was rolled back behind its last frame leaves its frames to the next one.
        let follows = frames.start == 0 || self.next_frame.is_none_or(|next| next == frames.start);
        let bytes = transaction.map_or(0, |transaction| transaction.data.len());
        match transaction {
            Some(transaction)
                if was_announced
                    && follows
                    && self.bytes + bytes <= MOST_BYTES
                    && transaction
                        .has_all(self.pages.saturating_add(1)..transaction.pages.saturating_add(1)) =>
            {
                self.bytes += bytes;
                self.pages = transaction.pages;
                self.next_frame = Some(frames.end);
                self.list.push_back(transaction.clone());
            }
            _ => self.lose(),
        }
    }

    /// Everything is told up to this moment, which has so many pages.
    pub(super) fn begin_anew(&mut self, pages: u32) {
        *self = Kept { pages, ..Kept::default() };
    }

    /// The newest bytes of each page; `None` where something is missing, or pages are of another size.
    pub(super) fn newest(&self, page_bytes: usize) -> Option<BTreeMap<u32, &[u8]>> {
        let is_whole = !self.has_gap && !self.awaits;
        let is_size = |transaction: &Arc<Transaction>| transaction.page_bytes as usize == page_bytes;
        (is_whole && self.list.iter().all(is_size))
            .then(|| self.list.iter().flat_map(|transaction| transaction.contents()).collect())
    }

    /// Takes them, where they lead to a database of so many pages.
    pub(super) fn take(&mut self, pages: u32) -> Option<VecDeque<Arc<Transaction>>> {
        if self.pages != pages {
            return None;
        }
        self.bytes = 0;
        Some(std::mem::take(&mut self.list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::page_marks::{Marks, PageMarks};

    const BYTES: usize = 512;

    /// A database whose pages have one byte each, and one that looks at it.
    struct Looked {
        changed: PageMarks,
        marks: Arc<Marks>,
        pages: Vec<u8>,
        frames: usize,
    }

    impl Looked {
        /// A history of four pages that has begun.
        fn new() -> Looked {
            let changed = PageMarks::default();
            let looked = Looked { marks: changed.watch(), changed, pages: vec![0; 4], frames: 10 };
            assert!(looked.take().is_none(), "nothing is known at first");
            looked.tell_all();
            assert_eq!(looked.take(), Some(vec![]));
            looked
        }

        /// What has changed is told, and not how.
        fn tell_all(&self) {
            assert!(self.marks.take(usize::MAX, self.pages.len() as u32).1);
        }

        /// The transactions: pages of the database behind each, and its pages.
        fn take(&self) -> Option<Vec<(u32, Vec<u32>)>> {
            let present = |number: u32, page: &mut [u8]| {
                page.fill(self.pages[number as usize - 1]);
                true
            };
            let taken = self.marks.take_transactions(BYTES, self.pages.len() as u32, present)?;
            Some(taken.iter().map(|taken| (taken.pages, taken.numbers.clone())).collect())
        }

        fn write(&mut self, numbers: &[u32], byte: u8) {
            for number in numbers {
                self.pages.resize(self.pages.len().max(*number as usize), 0);
                self.pages[*number as usize - 1] = byte;
            }
            self.changed.note(numbers.iter().copied(), self.pages.len() as u64);
        }

        fn record(&mut self, numbers: &[u32]) {
            let pages = &self.pages;
            let frames = self.frames..self.frames + numbers.len();
            self.frames = frames.end;
            self.changed.record(&frames, || {
                Transaction::read(numbers.to_vec(), BYTES, pages.len() as u32, |number, page| {
                    page.fill(pages[number as usize - 1]);
                    true
                })
            });
        }

        fn commit(&mut self, numbers: &[u32], byte: u8) {
            self.write(numbers, byte);
            self.record(numbers);
        }
    }

    #[test]
    fn transactions_are_taken_in_their_order() {
        let mut looked = Looked::new();
        looked.commit(&[1, 2], 1);
        looked.commit(&[2, 5], 2);
        // The log begins anew.
        looked.frames = 0;
        looked.commit(&[3], 3);
        assert_eq!(looked.take(), Some(vec![(4, vec![1, 2]), (5, vec![2, 5]), (5, vec![3])]));
        assert_eq!(looked.take(), Some(vec![]));
        looked.commit(&[3], 4);
        assert_eq!(looked.take(), Some(vec![(5, vec![3])]));
        // A page that is cut off again.
        looked.commit(&[6], 5);
        looked.pages.truncate(5);
        looked.commit(&[1], 6);
        assert_eq!(looked.take(), Some(vec![(6, vec![6]), (5, vec![1])]));
    }

    /// Whatever is not known is a gap, behind which everything is told; and transactions are kept again.
    #[test]
    fn a_gap_is_no_history() {
        type Gap = (&'static str, fn(&mut Looked));
        let gaps: [Gap; 11] = [
            ("a change that is never recorded", |looked| {
                looked.write(&[1], 7);
                looked.commit(&[1], 8);
            }),
            ("one that is not recorded yet", |looked| looked.write(&[1], 7)),
            ("a record of no change", |looked| looked.record(&[1])),
            ("frames that another transaction has had", |looked| {
                looked.commit(&[2], 6);
                looked.frames -= 1;
                looked.commit(&[1], 7);
            }),
            ("a new page that is nobody's", |looked| looked.commit(&[6], 7)),
            ("more than is kept", |looked| {
                (0..=MOST_BYTES / BYTES / 4).for_each(|byte| looked.commit(&[1, 2, 3, 4], byte as u8));
            }),
            ("a commit that is taken back", |looked| {
                looked.commit(&[1], 7);
                looked.changed.take_back();
            }),
            ("anything", |looked| looked.changed.note_all()),
            ("a page that is another one by now", |looked| {
                looked.commit(&[1], 7);
                looked.pages[0] = 9;
            }),
            ("a page that no transaction has changed", |looked| {
                looked.commit(&[1], 7);
                looked.marks.note(&[2], 4);
            }),
            ("a database that is shorter by now", |looked| {
                looked.commit(&[1], 7);
                looked.pages.truncate(3);
            }),
        ];
        for (name, gap) in gaps {
            for is_behind_another in [false, true] {
                let mut looked = Looked::new();
                if is_behind_another {
                    looked.commit(&[3], 1);
                }
                gap(&mut looked);
                assert_eq!(looked.take(), None, "{name}");
                looked.commit(&[3], 2);
                assert_eq!(looked.take(), None, "{name}, until everything is told");
                looked.tell_all();
                looked.commit(&[3], 3);
                assert_eq!(looked.take(), Some(vec![(looked.pages.len() as u32, vec![3])]), "{name}");
            }
        }
    }
}

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

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

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
    /// One that was committed just now: of pages in ascending order, which `read` reads. `None` where that fails, or these are too many.
    pub(crate) fn read(
        mut numbers: Vec<u32>,
        page_bytes: usize,
        pages: u32,
        mut read: impl FnMut(u32, &mut [u8]) -> bool,
    ) -> Option<Transaction> {
        numbers.retain(|number| (1..=pages).contains(number));
        let bytes = numbers.len().checked_mul(page_bytes).filter(|bytes| *bytes <= MOST_BYTES)?;
        let mut data = vec![0; bytes];
        let mut places = numbers.iter().zip(data.chunks_mut(page_bytes.max(1)));
        if !places.all(|(number, page)| read(*number, page)) {
            return None;
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Transaction {
            page_bytes: page_bytes as u32,
            pages,
            time_ms: time.as_millis() as u64,
            numbers,
            data,
        })
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
    number == (1 << 30) / page_bytes.max(1) + 1
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

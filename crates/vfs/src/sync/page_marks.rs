//! Which pages may have changed since somebody looked at a database, for those that come again and again to see what is new.
//!
//! # Why
//! A copy elsewhere is kept up to date by the pages that changed. To find them by comparing takes all pages to be read. Commits know them.
//!
//! # Invariants
//! 1. Each change of what readers see is noted before they see it: of a page, of the length, or of anything.
//! 2. What is not known to be unchanged counts as changed. At the beginning that is everything.
//! 3. A page that was [taken](Marks::take) is noted again by its next change. Who takes keeps writers away meanwhile.

use super::kept_transactions::{Kept, Transaction, is_lock_page};
use litefoot_storage::sync::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

const WORD_BITS: u32 = u64::BITS;

/// One behind the other.
pub(crate) type Transactions = VecDeque<Arc<Transaction>>;

/// Those that look at a database. Without any, a commit looks at one flag.
#[derive(Default)]
pub(crate) struct PageMarks {
    is_watched: AtomicBool,
    watchers: Mutex<Vec<Weak<Marks>>>,
}

impl PageMarks {
    /// One that looks from now on, until it is dropped.
    pub(crate) fn watch(&self) -> Arc<Marks> {
        let marks = Arc::<Marks>::default();
        let mut watchers = self.watchers.lock();
        watchers.push(Arc::downgrade(&marks));
        self.is_watched.store(true, Ordering::SeqCst);
        marks
    }

    /// True if anybody looks.
    #[inline]
    pub(crate) fn are_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Anything may have changed.
    pub(crate) fn note_all(&self) {
        self.each(State::note_all);
    }

    /// These pages may have changed, of a database of so many. Where a transaction does it, that is [recorded](PageMarks::record) behind its commit.
    pub(crate) fn note(&self, numbers: impl Iterator<Item = u32> + Clone, pages: u64) {
        self.each(|state| {
            state.kept.iter_mut().for_each(Kept::announce);
            state.note_pages(numbers.clone(), u32::try_from(pages).unwrap_or(u32::MAX));
        });
    }

    /// The transaction that was noted last is committed, in these frames of the log; without any where it has a rollback journal. `read` reads its
    /// pages, where somebody wants them.
    pub(crate) fn record(&self, frames: &Range<usize>, read: impl FnOnce() -> Option<Transaction>) {
        let (mut read, mut transaction) = (Some(read), None);
        self.each(|state| {
            let Some(kept) = &mut state.kept else { return };
            if let Some(read) = read.take_if(|_| kept.is_sound()) {
                transaction = read().map(Arc::new);
            }
            kept.record(frames, transaction.as_ref());
        });
    }

    /// The transaction that was recorded last has not happened.
    pub(crate) fn take_back(&self) {
        self.each(|state| state.kept.iter_mut().for_each(Kept::lose));
    }

    fn each(&self, mut change: impl FnMut(&mut State)) {
        if !self.are_watched() {
            return;
        }
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| watcher.upgrade().map(|marks| change(&mut marks.0.lock())).is_some());
        if watchers.is_empty() {
            self.is_watched.store(false, Ordering::SeqCst);
        }
    }
}

/// The pages that may have changed since one that looks took them.
#[derive(Default)]
pub(crate) struct Marks(Mutex<State>);

struct State {
    /// All pages from this one on.
    from: u32,
    /// Those before it, one bit each: of page 1 first.
    bits: Vec<u64>,
    /// The transactions, where they are wanted.
    kept: Option<Kept>,
}

impl Default for State {
    fn default() -> State {
        State { from: 1, bits: Vec::new(), kept: None }
    }
}

impl State {
    fn note(&mut self, number: u32) {
        if number == 0 || number >= self.from {
            return;
        }
        let (word, bit) = place(number);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= bit;
    }

    fn note_pages(&mut self, numbers: impl Iterator<Item = u32>, pages: u32) {
        numbers.for_each(|number| self.note(number));
        self.note_from(pages.saturating_add(1));
    }

    fn note_all(&mut self) {
        self.kept.iter_mut().for_each(Kept::lose);
        self.note_from(1);
    }

    fn note_from(&mut self, number: u32) {
        if number < self.from {
            self.from = number;
            self.bits.truncate(place(number).0 + 1);
        }
    }
}

impl State {
    /// The pages that are marked one by one, ascending.
    fn marked(&self) -> impl Iterator<Item = u32> + '_ {
        let of = |(word, bits): (usize, &u64)| {
            let bits = *bits;
            (0..WORD_BITS)
                .filter(move |bit| bits & 1 << bit != 0)
                .map(move |bit| word as u32 * WORD_BITS + bit + 1)
        };
        self.bits.iter().enumerate().flat_map(of)
    }

    fn take_transactions(
        &mut self,
        page_bytes: usize,
        pages: u32,
        present: &mut dyn FnMut(u32, &mut [u8]) -> bool,
    ) -> Option<Transactions> {
        self.kept.get_or_insert_with(Kept::new);
        let newest = self.kept.as_ref()?.newest(page_bytes)?;
        let is_told = |number| newest.contains_key(&number) || is_lock_page(number, page_bytes as u32);
        if !(self.from..=pages).chain(self.marked().take_while(|number| *number <= pages)).all(is_told) {
            return None;
        }
        let mut page = vec![0; page_bytes];
        for (number, data) in newest.range(..=pages) {
            if !present(*number, &mut page) || page != **data {
                return None;
            }
        }
        let taken = self.kept.as_mut().and_then(|kept| kept.take(pages))?;
        self.clear(pages);
        Some(taken)
    }

    /// Nothing has changed, in a database of so many pages. What comes behind its end is new.
    fn clear(&mut self, pages: u32) {
        self.bits.clear();
        self.from = pages.saturating_add(1);
    }
}

impl Marks {
    /// Anything may have changed.
    pub(crate) fn note_all(&self) {
        self.0.lock().note_all();
    }

    /// These pages may have changed, of a database that has had so many.
    pub(crate) fn note(&self, numbers: &[u32], pages: u32) {
        self.0.lock().note_pages(numbers.iter().copied(), pages);
    }

    /// True if a page may have changed.
    pub(crate) fn has(&self, number: u32) -> bool {
        let state = self.0.lock();
        let (word, bit) = place(number.max(1));
        number >= state.from || state.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// The first page from which on all may have changed; `None` where none of so many is such a page.
    pub(crate) fn all_from(&self, pages: u32) -> Option<u32> {
        Some(self.0.lock().from).filter(|from| *from <= pages)
    }

    /// Takes what was committed since everything was taken, a transaction each, of a database of so many pages; `None` where that is not known, or
    /// not the same as `present` finds: what has changed is to be taken then.
    ///
    /// The first call begins to keep transactions. Nobody writes meanwhile, so nobody who has a lock that `present` takes waits for the marks.
    pub(crate) fn take_transactions(
        &self,
        page_bytes: usize,
        pages: u32,
        mut present: impl FnMut(u32, &mut [u8]) -> bool,
    ) -> Option<Transactions> {
        let mut state = self.0.lock();
        let taken = state.take_transactions(page_bytes, pages, &mut present);
        if taken.is_none() {
            state.kept.iter_mut().for_each(Kept::lose);
        }
        taken
    }

    /// Takes the first `most` of them, of a database of so many pages, and answers whether these are all.
    pub(crate) fn take(&self, most: usize, pages: u32) -> (Vec<u32>, bool) {
        let mut state = self.0.lock();
        let mut taken = Vec::new();
        for word in 0..state.bits.len() {
            while state.bits[word] != 0 {
                let number = word as u32 * WORD_BITS + state.bits[word].trailing_zeros() + 1;
                let is_told = number < state.from && number <= pages;
                if is_told && taken.len() == most {
                    return (taken, false);
                }
                state.bits[word] &= state.bits[word] - 1;
                taken.extend(is_told.then_some(number));
            }
        }
        let room = u32::try_from(most - taken.len()).unwrap_or(u32::MAX);
        let end = state.from.saturating_add(room).min(pages.saturating_add(1)).max(state.from);
        taken.extend(state.from..end);
        let is_all = end > pages;
        if is_all {
            state.clear(pages);
            state.kept.iter_mut().for_each(|kept| kept.begin_anew(pages));
        } else {
            state.bits.clear();
            state.from = end;
        }
        (taken, is_all)
    }
}

/// The word of a page, and its bit there.
fn place(number: u32) -> (usize, u64) {
    let at = number - 1;
    ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot_sim::Random;
    use std::collections::BTreeSet;

    #[test]
    fn everything_has_changed_at_first_and_then_what_is_noted() {
        let changed = PageMarks::default();
        changed.note([1].into_iter(), 9);
        assert!(!changed.are_watched());
        let marks = changed.watch();
        assert!(changed.are_watched() && marks.has(1) && marks.all_from(10) == Some(1));
        assert_eq!(marks.take(4, 10), (vec![1, 2, 3, 4], false));
        changed.note([2, 7].into_iter(), 10);
        assert!(marks.has(2) && marks.has(7) && !marks.has(3) && marks.all_from(10) == Some(5));
        assert_eq!(marks.take(4, 10), (vec![2, 5, 6, 7], false));
        assert_eq!(marks.take(4, 10), (vec![8, 9, 10], true));
        assert_eq!((marks.take(4, 10), marks.all_from(10)), ((vec![], true), None));
        changed.note([3].into_iter(), 300);
        assert_eq!(marks.take(300, 300), ((3..4).chain(11..=300).collect(), true), "and what is new");
        changed.note([3, 64, 65, 200].into_iter(), 300);
        assert_eq!(marks.take(3, 70), (vec![3, 64, 65], true), "what is cut off has not changed");
        changed.note_all();
        assert_eq!(marks.take(9, 3), (vec![1, 2, 3], true));
    }

    #[test]
    fn pages_that_were_cut_off_have_changed_when_they_are_there_again() {
        let changed = PageMarks::default();
        let marks = changed.watch();
        assert!(marks.take(100, 10).1);
        changed.note([1].into_iter(), 6);
        changed.note([1].into_iter(), 12);
        assert_eq!(marks.take(100, 12), (vec![1, 7, 8, 9, 10, 11, 12], true));
    }

    #[test]
    fn nobody_looks_any_more_and_nothing_is_noted() {
        let changed = PageMarks::default();
        let (first, second) = (changed.watch(), changed.watch());
        drop(first);
        changed.note([1].into_iter(), 1);
        assert!(changed.are_watched() && second.take(9, 1).1);
        drop(second);
        changed.note_all();
        assert!(!changed.are_watched());
    }

    /// Against sets: whatever is noted and taken, a page counts as changed that has changed since it was taken last.
    #[test]
    fn no_change_is_forgotten() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let changed = PageMarks::default();
            let marks = changed.watch();
            let (mut pages, mut expected) = (100_u32, BTreeSet::from_iter(1..=1000));
            for _ in 0..200 {
                if random.below(3) > 0 {
                    let numbers: Vec<u32> =
                        (0..random.below(5)).map(|_| 1 + random.below(pages.into()) as u32).collect();
                    if random.below(4) == 0 {
                        pages = 1 + random.below(500) as u32;
                    }
                    changed.note(numbers.iter().copied(), pages.into());
                    expected.extend(numbers.into_iter().chain(pages + 1..=1000));
                } else {
                    let most = 1 + random.below(80) as usize;
                    let (taken, is_all) = marks.take(most, pages);
                    assert!(taken.len() <= most && taken.is_sorted());
                    taken.iter().for_each(|number| assert!(expected.remove(number), "{number}"));
                    let left = expected.iter().filter(|number| **number <= pages).count();
                    assert_eq!(is_all, left == 0);
                    (1..=pages).for_each(|number| assert_eq!(marks.has(number), expected.contains(&number)));
                }
            }
        }
    }
}

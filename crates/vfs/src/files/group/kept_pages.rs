//! Pages that a member of a group keeps between its transactions.
//!
//! # Invariants
//! 1. A page that is kept is the one that a reader at [`KeptPages::moment`] finds. The owner says what has changed since, with each lock.
//! 2. There are at most twice [`MOST_BYTES`] of them: those used last, and those used before. Once the first are too many they become the
//!    second, which are forgotten.

use crate::files::group::read_ahead::ReadAhead;
use crate::sync::group_changes::Moment;
use std::collections::HashMap;

/// Most bytes of the pages used last.
const MOST_BYTES: usize = 1 << 20;

/// The pages of one connection.
#[derive(Default)]
pub(super) struct KeptPages {
    moment: Moment,
    page_bytes: usize,
    /// Bytes of the database at that moment, where that is known.
    len: Option<u64>,
    pub(super) ahead: ReadAhead,
    last: HashMap<u32, Box<[u8]>>,
    before: HashMap<u32, Box<[u8]>>,
}

impl KeptPages {
    /// The moment at which they are true.
    pub(super) fn moment(&self) -> Moment {
        self.moment
    }

    /// True if page 1 is among them.
    pub(super) fn has_first(&self) -> bool {
        self.last.contains_key(&1) || self.before.contains_key(&1)
    }

    /// Time has gone on: these pages have changed, or, where it is not known which, any of them.
    pub(super) fn go_on(&mut self, moment: Moment, page_bytes: usize, changed: Option<&[u32]>) {
        match changed.filter(|_| page_bytes == self.page_bytes) {
            Some(numbers) => numbers.iter().for_each(|number| self.forget(*number)),
            None => self.forget_all(),
        }
        (self.moment, self.page_bytes, self.len) = (moment, page_bytes, None);
    }

    /// The database has so many bytes at the moment of the pages.
    pub(super) fn note_len(&mut self, len: u64) {
        self.len = Some(len);
    }

    /// Bytes of the database at that moment, and of a page, where they are known.
    pub(super) fn told(&self) -> Option<(u64, usize)> {
        Some((self.len?, self.page_bytes))
    }

    /// Nothing is known any more.
    pub(super) fn forget_all(&mut self) {
        *self = KeptPages::default();
    }

    /// A page has changed.
    pub(super) fn forget(&mut self, number: u32) {
        self.last.remove(&number);
        self.before.remove(&number);
    }

    /// A page as it is now.
    pub(super) fn keep(&mut self, number: u32, page: Box<[u8]>) {
        if page.len() != self.page_bytes {
            return;
        }
        if (self.last.len() + 1) * self.page_bytes > MOST_BYTES {
            self.before = std::mem::take(&mut self.last);
        }
        self.before.remove(&number);
        self.last.insert(number, page);
    }

    /// A page that is kept.
    pub(super) fn get(&mut self, number: u32) -> Option<&[u8]> {
        if let Some(page) = self.before.remove(&number) {
            self.keep(number, page);
        }
        self.last.get(&number).map(|page| &**page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const NOW: Moment = Moment { epoch: 1, commits: 7 };

    fn page(filler: u8) -> Box<[u8]> {
        vec![filler; PAGE].into()
    }

    fn kept(pages: &[u32]) -> KeptPages {
        let mut kept = KeptPages::default();
        kept.go_on(NOW, PAGE, None);
        pages.iter().for_each(|number| kept.keep(*number, page(*number as u8)));
        kept
    }

    #[test]
    fn what_has_changed_is_forgotten() {
        let numbers =
            |kept: &mut KeptPages| (1..=4).filter(|number| kept.get(*number).is_some()).collect::<Vec<_>>();
        let later = Moment { commits: 8, ..NOW };
        for (page_bytes, changed, expected) in [
            (PAGE, Some(&[][..]), vec![1, 2, 3]),
            (PAGE, Some(&[1, 3, 9][..]), vec![2]),
            (PAGE, None, vec![]),
            (2 * PAGE, Some(&[][..]), vec![]),
        ] {
            let mut kept = kept(&[1, 2, 3]);
            kept.go_on(later, page_bytes, changed);
            assert_eq!((numbers(&mut kept), kept.moment()), (expected, later), "{page_bytes} {changed:?}");
        }
        let mut kept = kept(&[1, 2]);
        assert!(kept.has_first());
        kept.keep(3, vec![0; 512].into());
        assert_eq!(numbers(&mut kept), [1, 2], "a part of a page");
        kept.note_len(9);
        assert_eq!(kept.told(), Some((9, PAGE)));
        kept.go_on(later, PAGE, Some(&[]));
        assert_eq!(kept.told(), None, "it may have another length by now");
        kept.forget_all();
        assert!(!kept.has_first() && kept.moment() == Moment::default());
    }

    #[test]
    fn pages_that_are_used_stay_and_memory_is_bounded() {
        let mut kept = kept(&[1]);
        let most = (MOST_BYTES / PAGE) as u32;
        for number in 2..10 * most {
            kept.keep(number, page(0));
            assert_eq!(kept.get(1).map(|page| page[0]), Some(1), "{number}");
            assert!(kept.last.len() + kept.before.len() <= 2 * most as usize);
        }
        assert!(kept.get(2).is_none());
    }
}

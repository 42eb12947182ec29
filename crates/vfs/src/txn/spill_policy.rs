//! When pages of a transaction are spilled, and by whom.
//!
//! Two kinds of transactions want the opposite. Pages that are filled one after the other are never touched again: the
//! sooner they leave, the less is left for the commit, and memory would be wasted on them. Pages that are hit at random
//! come back, and each time they left was one too many: they want memory. What a transaction is shows in how many pages
//! come back that were spilled: at first a small part of the memory is used, and it is doubled each time that
//! more than one page in eight has come back.

use crate::options::PageCleaner;

/// Bytes at which a transaction is looked at for the first time.
const FIRST_BYTES: usize = 4 << 20;
/// Of the pages spilled, one in so many may come back.
const MOST_BACK: usize = 8;

/// What is to be done before another page is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillStep {
    /// Nothing.
    GoOn,
    /// The colder half is to be spilled.
    Spill {
        /// By a thread of its own.
        in_background: bool,
        /// Whether the pages are likely to stay away, so that the device may begin at once.
        for_good: bool,
    },
    /// A spill is under way, and there is no memory before it ends.
    Wait,
}

/// What decides for one transaction.
#[derive(Clone, Debug)]
pub struct SpillPolicy {
    page_cleaner: PageCleaner,
    /// Thousandths of the memory at which spilling begins.
    threshold: u16,
    /// Bytes at which it begins if it is left to us.
    own_limit: usize,
    /// Pages of the last spill, and those that came back since.
    spilled: usize,
    back: usize,
}

impl SpillPolicy {
    /// For a transaction that begins.
    pub fn new(page_cleaner: PageCleaner, threshold: u16) -> SpillPolicy {
        SpillPolicy { page_cleaner, threshold, own_limit: FIRST_BYTES, spilled: 0, back: 0 }
    }

    /// What to do with `held` bytes in memory of `most`, while a spill is under way or not.
    pub fn step(&self, held: usize, most: usize, spill_under_way: bool) -> SpillStep {
        if spill_under_way {
            return if held >= most { SpillStep::Wait } else { SpillStep::GoOn };
        }
        let limit = (most as f64 * f64::from(self.threshold) / 1000.0) as usize;
        let at = if self.page_cleaner == PageCleaner::Auto { limit.min(self.own_limit) } else { limit };
        if held < at.max(1) {
            return SpillStep::GoOn;
        }
        let for_good = !self.come_back();
        let in_background = match self.page_cleaner {
            PageCleaner::Auto => for_good,
            PageCleaner::Background => true,
            PageCleaner::Foreground => false,
        };
        SpillStep::Spill { in_background, for_good }
    }

    /// So many pages are being written away.
    pub fn spills(&mut self, pages: usize) {
        if self.come_back() {
            self.own_limit = self.own_limit.saturating_mul(2);
        }
        (self.spilled, self.back) = (pages, 0);
    }

    /// A page that was spilled is changed once more.
    pub fn is_back(&mut self) {
        self.back += 1;
    }

    fn come_back(&self) -> bool {
        self.back * MOST_BACK > self.spilled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    #[test]
    fn it_spills_at_the_threshold_and_waits_only_where_memory_is_full() {
        let spill = |in_background| SpillStep::Spill { in_background, for_good: true };
        for (page_cleaner, threshold, held, spill_under_way, expected) in [
            (PageCleaner::Foreground, 800, 7, false, SpillStep::GoOn),
            (PageCleaner::Foreground, 800, 8, false, spill(false)),
            (PageCleaner::Background, 800, 8, false, spill(true)),
            (PageCleaner::Background, 800, 9, true, SpillStep::GoOn),
            (PageCleaner::Background, 800, 10, true, SpillStep::Wait),
            (PageCleaner::Foreground, 1000, 9, false, SpillStep::GoOn),
            (PageCleaner::Foreground, 200, 2, false, spill(false)),
            (PageCleaner::Auto, 800, 3, false, SpillStep::GoOn),
            (PageCleaner::Auto, 800, 4, false, spill(true)),
        ] {
            let step = SpillPolicy::new(page_cleaner, threshold).step(held * MB, 10 * MB, spill_under_way);
            assert_eq!(step, expected, "{page_cleaner:?} {threshold} {held} {spill_under_way}");
        }
    }

    #[test]
    fn memory_is_borrowed_where_pages_come_back_and_not_where_they_stay_away() {
        let mut streaming = SpillPolicy::new(PageCleaner::Auto, 800);
        let mut random = SpillPolicy::new(PageCleaner::Auto, 800);
        for _ in 0..5 {
            for policy in [&mut streaming, &mut random] {
                policy.spills(500);
            }
            (0..10).for_each(|_| streaming.is_back());
            (0..300).for_each(|_| random.is_back());
        }
        let (held, most) = (5 * MB, 100 * MB);
        assert_eq!(
            streaming.step(held, most, false),
            SpillStep::Spill { in_background: true, for_good: true }
        );
        assert_eq!(random.step(held, most, false), SpillStep::GoOn);
        let full = random.step(80 * MB, most, false);
        assert_eq!(full, SpillStep::Spill { in_background: false, for_good: false });
    }
}

//! Spill policy: when a transaction spills, and on which thread.
//!
//! Two kinds of transactions want the opposite. A bulk load fills one page after the other, and never changes one again:
//! the sooner it spills, the less is left for the commit. Random changes come back to spilled pages, and each such spill
//! was one too many: they want memory. The policy tells them apart by the spilled pages that are changed again. A
//! transaction begins with a small part of the memory; the part doubles when more than one page in eight has come back.
//!
//! # Promises
//! 1. The option `page_cleaner` decides the thread, unless it is `auto`.
//! 2. A transaction waits only while a spill is under way and its memory is full.

use crate::options::PageCleaner;

/// Bytes at which a transaction spills for the first time, where the policy decides.
const FIRST_BYTES: usize = 4 << 20;
/// One spilled page in so many may come back.
const MOST_BACK: usize = 8;

/// Step of a transaction before another page enters memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillStep {
    /// There is memory.
    GoOn,
    /// The transaction spills the colder half of its pages.
    Spill {
        /// On a background thread.
        in_background: bool,
        /// True where the pages will hardly come back: the device may begin at once.
        for_good: bool,
    },
    /// A spill is under way, and there is no memory before it ends.
    Wait,
}

/// Spill policy of one transaction.
#[derive(Clone, Debug)]
pub struct SpillPolicy {
    page_cleaner: PageCleaner,
    /// Thousandths of the memory at which spilling begins.
    threshold: u16,
    /// Bytes at which spilling begins where the policy decides.
    own_limit: usize,
    /// Pages of the last spill, and those of all that came back since.
    spilled: usize,
    back: usize,
}

impl SpillPolicy {
    /// The policy for a transaction that begins.
    pub fn new(page_cleaner: PageCleaner, threshold: u16) -> SpillPolicy {
        SpillPolicy { page_cleaner, threshold, own_limit: FIRST_BYTES, spilled: 0, back: 0 }
    }

    /// The step with `bytes` in memory of `most`, while a spill is under way or not.
    pub fn step(&self, bytes: usize, most: usize, spill_under_way: bool) -> SpillStep {
        if spill_under_way {
            return if bytes >= most { SpillStep::Wait } else { SpillStep::GoOn };
        }
        let limit = (most as f64 * f64::from(self.threshold) / 1000.0) as usize;
        let at = if self.page_cleaner == PageCleaner::Auto { limit.min(self.own_limit) } else { limit };
        if bytes < at.max(1) {
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

    /// A spill of so many pages begins.
    pub fn begin_spill(&mut self, pages: usize) {
        if self.come_back() {
            self.own_limit = self.own_limit.saturating_mul(2);
        }
        (self.spilled, self.back) = (pages, 0);
    }

    /// A page that was spilled is changed once more.
    pub fn note_page_back(&mut self) {
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
    fn a_transaction_spills_at_the_threshold_and_waits_only_where_memory_is_full() {
        let spill = |in_background| SpillStep::Spill { in_background, for_good: true };
        for (page_cleaner, threshold, used, spill_under_way, expected) in [
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
            let step = SpillPolicy::new(page_cleaner, threshold).step(used * MB, 10 * MB, spill_under_way);
            assert_eq!(step, expected, "{page_cleaner:?} {threshold} {used} {spill_under_way}");
        }
    }

    #[test]
    fn a_transaction_whose_pages_come_back_gets_memory_and_a_bulk_load_does_not() {
        let mut streaming = SpillPolicy::new(PageCleaner::Auto, 800);
        let mut random = SpillPolicy::new(PageCleaner::Auto, 800);
        for _ in 0..5 {
            for policy in [&mut streaming, &mut random] {
                policy.begin_spill(500);
            }
            (0..10).for_each(|_| streaming.note_page_back());
            (0..300).for_each(|_| random.note_page_back());
        }
        let (used, most) = (5 * MB, 100 * MB);
        assert_eq!(
            streaming.step(used, most, false),
            SpillStep::Spill { in_background: true, for_good: true }
        );
        assert_eq!(random.step(used, most, false), SpillStep::GoOn);
        let full = random.step(80 * MB, most, false);
        assert_eq!(full, SpillStep::Spill { in_background: false, for_good: false });
    }
}

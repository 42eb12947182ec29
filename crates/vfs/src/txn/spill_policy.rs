//! When pages of a transaction are written away, and by whom.
//!
//! Two kinds of transactions want the opposite. Pages that are filled one after the other are never touched again: the
//! sooner they leave, the less is left for the commit, and memory would be wasted on them. Pages that are hit at random
//! come back, and each time they left was one too many: they want memory. What a transaction is shows in how many pages
//! come back that were written away: at first a small part of the memory is used, and it is doubled each time that
//! more than one page in eight has come back.

use crate::options::Cleaner;

/// Bytes at which a transaction is looked at for the first time.
const FIRST_BYTES: usize = 4 << 20;
/// Of the pages written away, one in so many may come back.
const MOST_BACK: usize = 8;

/// What is to be done before another page is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    GoOn,
    /// The colder half is to be written away.
    Clean {
        /// By a thread of its own.
        in_background: bool,
        /// Whether the pages are likely to stay away, so that the device may begin at once.
        for_good: bool,
    },
    /// A cleaning is under way, and there is no memory before it ends.
    Wait,
}

/// What decides for one transaction.
#[derive(Clone, Debug)]
pub struct Policy {
    cleaner: Cleaner,
    /// Thousandths of the memory at which cleaning begins.
    threshold: u16,
    /// Bytes at which it begins if it is left to us.
    ours: usize,
    /// Pages of the last cleaning, and those that came back since.
    cleaned: usize,
    back: usize,
}

impl Policy {
    /// For a transaction that begins.
    pub fn new(cleaner: Cleaner, threshold: u16) -> Policy {
        Policy { cleaner, threshold, ours: FIRST_BYTES, cleaned: 0, back: 0 }
    }

    /// What to do with `held` bytes in memory of `most`, while a cleaning is under way or not.
    pub fn step(&self, held: usize, most: usize, cleaning: bool) -> Step {
        if cleaning {
            return if held >= most { Step::Wait } else { Step::GoOn };
        }
        let limit = (most as f64 * f64::from(self.threshold) / 1000.0) as usize;
        let at = if self.cleaner == Cleaner::Auto { limit.min(self.ours) } else { limit };
        if held < at.max(1) {
            return Step::GoOn;
        }
        let for_good = !self.come_back();
        let in_background = match self.cleaner {
            Cleaner::Auto => for_good,
            Cleaner::Background => true,
            Cleaner::Caller => false,
        };
        Step::Clean { in_background, for_good }
    }

    /// So many pages are being written away.
    pub fn cleans(&mut self, pages: usize) {
        if self.come_back() {
            self.ours = self.ours.saturating_mul(2);
        }
        (self.cleaned, self.back) = (pages, 0);
    }

    /// A page that was written away is changed once more.
    pub fn is_back(&mut self) {
        self.back += 1;
    }

    fn come_back(&self) -> bool {
        self.back * MOST_BACK > self.cleaned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    #[test]
    fn it_cleans_at_the_threshold_and_waits_only_where_memory_is_full() {
        let clean = |in_background| Step::Clean { in_background, for_good: true };
        for (cleaner, threshold, held, cleaning, expected) in [
            (Cleaner::Caller, 800, 7, false, Step::GoOn),
            (Cleaner::Caller, 800, 8, false, clean(false)),
            (Cleaner::Background, 800, 8, false, clean(true)),
            (Cleaner::Background, 800, 9, true, Step::GoOn),
            (Cleaner::Background, 800, 10, true, Step::Wait),
            (Cleaner::Caller, 1000, 9, false, Step::GoOn),
            (Cleaner::Caller, 200, 2, false, clean(false)),
            (Cleaner::Auto, 800, 3, false, Step::GoOn),
            (Cleaner::Auto, 800, 4, false, clean(true)),
        ] {
            let step = Policy::new(cleaner, threshold).step(held * MB, 10 * MB, cleaning);
            assert_eq!(step, expected, "{cleaner:?} {threshold} {held} {cleaning}");
        }
    }

    #[test]
    fn memory_is_borrowed_where_pages_come_back_and_not_where_they_stay_away() {
        let mut streaming = Policy::new(Cleaner::Auto, 800);
        let mut random = Policy::new(Cleaner::Auto, 800);
        for _ in 0..5 {
            for policy in [&mut streaming, &mut random] {
                policy.cleans(500);
            }
            (0..10).for_each(|_| streaming.is_back());
            (0..300).for_each(|_| random.is_back());
        }
        let (held, most) = (5 * MB, 100 * MB);
        assert_eq!(streaming.step(held, most, false), Step::Clean { in_background: true, for_good: true });
        assert_eq!(random.step(held, most, false), Step::GoOn);
        let full = random.step(80 * MB, most, false);
        assert_eq!(full, Step::Clean { in_background: false, for_good: false });
    }
}

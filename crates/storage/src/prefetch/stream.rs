//! One stream of accesses.
//!
//! # Invariants
//! 1. `asked` is never behind `last`, seen in the direction of the stride.
//! 2. `steps` counts equal steps in a row; it is 0 while the stride is not known.
//! 3. A page that was passed without being reported was resident before, or was read ahead for nothing. It
//!    counts as wasted: the doubt is on the side of reading too little.

use super::{CONFIRMED_NEXT, CONFIRMED_STRIDE, Run};

#[derive(Debug)]
pub(super) struct Stream {
    /// The page reached.
    last: u64,
    /// From one page to the next; 0 while unknown.
    stride: i64,
    /// Equal steps so far.
    steps: u32,
    /// The window asked for last, in pages; 0 before the first.
    window: u32,
    /// Strides from `last` to the last page asked for.
    asked: u64,
    /// Pages asked for and passed over since the last window.
    skipped: u64,
    /// Pages reported since the last window.
    used: u64,
}

impl Stream {
    /// A stream of one page.
    pub fn at(page: u64) -> Stream {
        Stream { last: page, stride: 0, steps: 0, window: 0, asked: 0, skipped: 0, used: 0 }
    }

    /// Moves the stream to the page, and answers the pages that were passed over. `None` if the page neither continues
    /// the stream nor repeats its last page.
    ///
    /// Pages that were resident are not reported, so a stream may be found anywhere in what it asked for.
    pub fn follow(&mut self, page: u64) -> Option<u64> {
        if page == self.last {
            return Some(0);
        }
        let strides = self.strides_to(page).filter(|strides| (1..=self.asked + 1).contains(strides))?;
        self.last = page;
        self.steps = self.steps.saturating_add(1);
        self.asked = self.asked.saturating_sub(strides);
        self.used += 1;
        self.skipped += strides - 1;
        Some(strides - 1)
    }

    /// True if the page gives a stream that is not believed yet another stride.
    pub fn change_stride(&mut self, page: u64, longest: u64) -> bool {
        let step = page.wrapping_sub(self.last).cast_signed();
        if self.is_believed() || step.unsigned_abs() > longest {
            return false;
        }
        self.last = page;
        self.stride = step;
        self.steps = 1;
        true
    }

    /// Whole strides ahead to the page; `None` where it lies beside or behind.
    fn strides_to(&self, page: u64) -> Option<u64> {
        let step = page.wrapping_sub(self.last).cast_signed();
        let ahead = self.stride != 0 && step.signum() == self.stride.signum() && step % self.stride == 0;
        ahead.then(|| (step / self.stride).unsigned_abs())
    }

    /// True once there were enough equal steps.
    pub fn is_believed(&self) -> bool {
        self.steps >= if self.stride.unsigned_abs() == 1 { CONFIRMED_NEXT } else { CONFIRMED_STRIDE }
    }

    /// True if the last window was worth it: at least two pages were used, and two of three of those passed.
    pub fn has_paid(&self) -> bool {
        self.window > 0 && self.used >= 2.max(2 * self.skipped)
    }

    /// Pages asked for and not reached.
    pub fn unreached(&self) -> u64 {
        self.asked
    }

    /// The next window, when half of the last one is left.
    pub fn ahead(&mut self, pages: u64, first: u32, longest: u32) -> Option<Run> {
        if self.asked > u64::from(self.window / 2) {
            return None;
        }
        let first_page = self.page_after(self.asked)?;
        let window = if self.has_paid() { (self.window * 2).min(longest) } else { first };
        let count = u64::from(window).min(self.strides_inside(first_page, pages)) as u32;
        if count == 0 {
            return None;
        }
        self.window = window;
        (self.used, self.skipped) = (0, 0);
        self.asked += u64::from(count);
        Some(Run { first: first_page, stride: self.stride, count })
    }

    /// The page behind so many strides.
    fn page_after(&self, strides: u64) -> Option<u64> {
        let steps = i64::try_from(strides + 1).ok()?.checked_mul(self.stride)?;
        self.last.checked_add_signed(steps)
    }

    /// Pages of the stream that lie inside the file, from `page` on.
    fn strides_inside(&self, page: u64, pages: u64) -> u64 {
        if page >= pages {
            return 0;
        }
        let room = if self.stride > 0 { pages - 1 - page } else { page };
        room / self.stride.unsigned_abs() + 1
    }
}

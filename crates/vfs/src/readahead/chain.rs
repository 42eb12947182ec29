//! Chains of overflow pages.
//!
//! Only the page itself knows the next one, so a chain can be read ahead of only by guessing. SQLite fills a
//! new file in order: the next is the page behind. How far that is guessed depends on how far chains have
//! lately gone straight on (`runs.rs`), and on how many pages the payload still needs.

use crate::readahead::View;
use crate::readahead::expected::Expected;
use crate::readahead::record::be32;

/// Pages in memory, and so not reported, that may lie between two that are.
const MOST_HOPS: usize = 8;

/// A chain that is being read.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The page reached.
    last: u32,
    /// Pages behind it, if that is known; else many.
    left: u32,
    /// The next page to guess.
    guess: u32,
}

/// How a chain went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To the page behind.
    Straight,
    /// To another page.
    Bent,
}

/// The page behind an overflow page, if that is in memory; 0 at the end.
pub(super) fn next(page: u32, view: &View<'_>) -> Option<u32> {
    let mut next = None;
    view.memory.with(page, &mut |bytes| next = be32(bytes, 0));
    next
}

impl Chain {
    /// A chain that has reached that page.
    pub fn at(page: u32, left: u32) -> Chain {
        Chain { last: page, left, guess: page.saturating_add(1) }
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// Adds what is not in memory until so many pages are expected.
    pub fn foresee(&mut self, count: usize, expected: &mut Expected, view: &View<'_>) {
        let end = self.last.saturating_add(self.left).min(view.pages);
        while expected.len() < count && self.guess <= end && self.guess - self.last <= view.longest {
            expected.add(self.guess, view);
            self.guess += 1;
        }
    }

    /// An expected page is wanted.
    pub fn reach(&mut self, page: u32) {
        self.left = self.left.saturating_sub(page.saturating_sub(self.last));
        self.last = page;
    }

    /// Whether another page continues the chain, and how.
    pub fn turn(&mut self, page: u32, view: &View<'_>) -> Option<Turn> {
        let mut from = self.last;
        for hops in 1..=MOST_HOPS as u32 {
            let to = next(from, view)?;
            if to == page {
                let turn =
                    if self.last.checked_add(hops) == Some(page) { Turn::Straight } else { Turn::Bent };
                *self = Chain::at(page, self.left.saturating_sub(hops));
                return Some(turn);
            }
            if !view.is_inside(to) {
                return None;
            }
            from = to;
        }
        None
    }
}

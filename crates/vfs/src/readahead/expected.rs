//! The pages that a stream will want, in order; the first of them were asked for.
//!
//! # Invariants
//! 1. No page is in it twice, and each lies inside the file.
//! 2. None was in memory when it was added: a page in memory is not reported when it is used.

use crate::readahead::View;
use std::collections::VecDeque;

/// Pages that are passed over when a later one is wanted. If more lie before it, another cursor wanted it.
const MOST_PASSED_OVER: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Expected {
    pages: VecDeque<u32>,
    asked: usize,
}

impl Expected {
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Pages that were asked for and have not come up.
    pub fn asked(&self) -> usize {
        self.asked
    }

    pub fn clear(&mut self) {
        self.pages.clear();
        self.asked = 0;
    }

    /// Adds a page behind all others, if it is not in memory.
    pub fn add(&mut self, page: u32, view: &View<'_>) {
        if view.is_inside(page) && !self.pages.contains(&page) && !view.memory.holds(page) {
            self.pages.push_back(page);
        }
    }

    /// The page is wanted. Returns how many before it were passed over: asked for in vain, or not in memory
    /// and so not used. `None` if it is not expected.
    pub fn reach(&mut self, page: u32, view: &View<'_>) -> Option<usize> {
        let place = self.pages.iter().position(|expected| *expected == page)?;
        if place > MOST_PASSED_OVER {
            self.pages.remove(place);
            self.asked -= usize::from(place < self.asked);
            return Some(0);
        }
        let asked = self.asked.min(place);
        let absent = self.pages.range(asked..place).filter(|page| !view.memory.holds(**page)).count();
        self.pages.drain(..=place);
        self.asked = self.asked.saturating_sub(place + 1);
        Some(asked + absent)
    }

    /// Asks for the first pages, so many in all.
    pub fn ask(&mut self, count: usize, ahead: &mut Vec<u32>) {
        let count = count.min(self.pages.len());
        ahead.extend(self.pages.range(self.asked.min(count)..count));
        self.asked = self.asked.max(count);
    }
}

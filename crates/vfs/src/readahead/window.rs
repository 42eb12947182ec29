//! Readahead window: the pages that a stream will demand, in order. The first of them were requested.
//!
//! # Invariants
//! 1. No page is in the window twice, and each lies inside the file.
//! 2. No page was in memory when it was added: the use of a page in memory is not reported.

use crate::readahead::file_view::FileView;
use std::collections::VecDeque;

/// Most pages that a stream skips at once. Where more lie before a demanded page, another cursor demanded it.
const MOST_PASSED_OVER: usize = 16;

/// The window of one stream.
#[derive(Debug, Default)]
pub(super) struct ReadaheadWindow {
    pages: VecDeque<u32>,
    /// Pages at the front that were requested.
    requested: usize,
}

impl ReadaheadWindow {
    /// Pages in the window.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Pages that were requested and not used yet.
    pub fn requested(&self) -> usize {
        self.requested
    }

    /// Empties the window.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.requested = 0;
    }

    /// Adds a page at the end, unless it is in memory.
    pub fn add(&mut self, page: u32, view: &FileView<'_>) {
        if view.is_inside(page) && !self.pages.contains(&page) && !view.memory.holds(page) {
            self.pages.push_back(page);
        }
    }

    /// A page is demanded. Returns the pages before it that were skipped: requested for nothing, or not in memory and so not
    /// used. `None` where the page is not in the window.
    pub fn reach(&mut self, page: u32, view: &FileView<'_>) -> Option<usize> {
        let place = self.pages.iter().position(|other| *other == page)?;
        if place > MOST_PASSED_OVER {
            self.pages.remove(place);
            self.requested -= usize::from(place < self.requested);
            return Some(0);
        }
        let requested = self.requested.min(place);
        let absent = self.pages.range(requested..place).filter(|page| !view.memory.holds(**page)).count();
        self.pages.drain(..=place);
        self.requested = self.requested.saturating_sub(place + 1);
        Some(requested + absent)
    }

    /// Requests pages, until `count` are on their way in all.
    pub fn request(&mut self, count: usize, requests: &mut Vec<u32>) {
        let count = count.min(self.pages.len());
        requests.extend(self.pages.range(self.requested.min(count)..count));
        self.requested = self.requested.max(count);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::file_view::tests::{InMemory, view};

    #[test]
    fn a_window_counts_the_pages_that_a_stream_skips() {
        // Pages 10 to 39, of which 20 has come into memory since. (requested, demanded page, skipped, left, requested then)
        for (requested, page, skipped, left, requested_then) in [
            (0, 10, Some(0), 29, 0),
            (4, 10, Some(0), 29, 3),
            (4, 12, Some(2), 27, 1),
            (4, 15, Some(5), 24, 0),
            (0, 21, Some(10), 18, 0),
            (12, 21, Some(11), 18, 0),
            (4, 30, Some(0), 29, 4),
            (25, 30, Some(0), 29, 24),
            (4, 40, None, 30, 4),
        ] {
            let memory = InMemory(vec![]);
            let mut window = ReadaheadWindow::default();
            (10..40).for_each(|page| window.add(page, &view(&memory)));
            let mut requests = vec![];
            window.request(requested, &mut requests);
            assert_eq!(requests, (10..10 + requested as u32).collect::<Vec<_>>());
            let memory = InMemory(vec![20]);
            assert_eq!(window.reach(page, &view(&memory)), skipped, "{requested} {page}");
            assert_eq!((window.len(), window.requested()), (left, requested_then), "{requested} {page}");
        }
    }

    #[test]
    fn a_window_takes_each_page_of_the_file_once_and_none_in_memory() {
        let (memory, mut window, mut requests) = (InMemory(vec![5]), ReadaheadWindow::default(), vec![]);
        [0, 1, 2, 5, 2, 1000, 1001, 3].into_iter().for_each(|page| window.add(page, &view(&memory)));
        window.request(2, &mut requests);
        window.request(1, &mut requests);
        window.request(9, &mut requests);
        assert_eq!(requests, [2, 1000, 3]);
        window.clear();
        assert_eq!((window.len(), window.requested()), (0, 0));
    }
}

//! Chains of overflow pages, as far as they can be guessed.
//!
//! Only a page of the chain itself names the next one, so readahead has to guess. SQLite fills a new file in order: the next
//! page of a chain is the page behind in the file. Two limits hold the guess: how far chains have lately gone straight on
//! (`run_estimator.rs`), and how many pages the payload still needs.

use crate::readahead::file_view::FileView;
use crate::readahead::window::ReadaheadWindow;
use litefoot_format::number::be32;

/// Most steps from one demanded page of a chain to the next; the pages between are in memory, and so not reported.
const MOST_HOPS: usize = 8;

/// A chain that is being read.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The page demanded last.
    last: u32,
    /// Pages still to come; the maximum where that is unknown.
    left: u32,
    /// The next page to guess.
    guess: u32,
}

/// The direction in which a chain went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChainStep {
    /// To the page behind.
    Consecutive,
    /// To another page.
    Jump,
}

/// The next page of a chain, as an overflow page in memory names it; 0 at the end.
pub(super) fn next(page: u32, view: &FileView<'_>) -> Option<u32> {
    let mut next = None;
    view.memory.with(page, &mut |bytes| next = be32(bytes, 0));
    next
}

impl Chain {
    /// A chain at a page, with so many pages still to come.
    pub fn at(page: u32, left: u32) -> Chain {
        Chain { last: page, left, guess: page.saturating_add(1) }
    }

    /// Tells whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// Fills the window with guessed pages that are not in memory, until it has `count` pages.
    pub fn fill(&mut self, count: usize, window: &mut ReadaheadWindow, view: &FileView<'_>) {
        let end = self.last.saturating_add(self.left).min(view.pages);
        while window.len() < count && self.guess <= end && self.guess - self.last <= view.longest {
            window.add(self.guess, view);
            self.guess += 1;
        }
    }

    /// A guessed page is demanded.
    pub fn reach(&mut self, page: u32) {
        self.left = self.left.saturating_sub(page.saturating_sub(self.last));
        self.last = page;
    }

    /// The step to a page that was not guessed; `None` where that page is not of this chain.
    pub fn step_to(&mut self, page: u32, view: &FileView<'_>) -> Option<ChainStep> {
        let mut from = self.last;
        for hops in 1..=MOST_HOPS as u32 {
            let to = next(from, view)?;
            if to == page {
                let step = if self.last.checked_add(hops) == Some(page) {
                    ChainStep::Consecutive
                } else {
                    ChainStep::Jump
                };
                *self = Chain::at(page, self.left.saturating_sub(hops));
                return Some(step);
            }
            if !view.is_inside(to) {
                return None;
            }
            from = to;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::file_view::Memory;
    use crate::readahead::file_view::tests::{InMemory, view};

    /// Overflow pages in memory, each with the next one.
    struct Chained(Vec<(u32, u32)>);

    impl Memory for Chained {
        fn with(&self, page: u32, look: &mut dyn FnMut(&[u8])) -> bool {
            let found = self.0.iter().find(|(this, _)| *this == page);
            found.map(|(_, next)| look(&next.to_be_bytes())).is_some()
        }
    }

    #[test]
    fn a_chain_is_guessed_as_far_as_its_payload_and_the_file_go() {
        // (last page, pages to come, pages of the window, guesses)
        for (last, left, count, guesses) in [
            (10, 3, 9, 11..14),
            (10, u32::MAX, 4, 11..15),
            (998, u32::MAX, 9, 999..1001),
            (1000, 5, 9, 0..0),
            (10, 0, 9, 0..0),
            (u32::MAX, 5, 9, 0..0),
        ] {
            let (mut chain, mut window, mut requests) =
                (Chain::at(last, left), ReadaheadWindow::default(), vec![]);
            chain.fill(count, &mut window, &view(&InMemory(vec![])));
            window.request(count, &mut requests);
            assert_eq!(requests, guesses.collect::<Vec<_>>(), "{last} {left}");
            assert_eq!(chain.has_ended(), left == 0);
        }
    }

    #[test]
    fn a_chain_goes_on_where_its_pages_in_memory_lead() {
        let memory = Chained(vec![(10, 11), (11, 12), (12, 40), (40, 0)]);
        for (page, step, left) in [
            (11, Some(ChainStep::Consecutive), 8),
            (12, Some(ChainStep::Consecutive), 7),
            (40, Some(ChainStep::Jump), 6),
            (41, None, 9),
        ] {
            let mut chain = Chain::at(10, 9);
            assert_eq!(chain.step_to(page, &view(&memory)), step, "{page}");
            assert_eq!(chain.left, left, "{page}");
        }
    }
}

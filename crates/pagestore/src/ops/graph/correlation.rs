//! The correlation prefetcher of graphs: which pages a search will want next, as a pure decision, without I/O.
//!
//! # Why
//! A search visits the nodes of a level in ascending order, with gaps: most of its pages follow each other at no stride,
//! and a detector of streams is silent. A correlation prefetcher knows which page follows which (SMILE, section 5.3).
//! Hardware has to learn that from misses. A graph says it: the nodes of a level name their pages of FirstNeighbor, and
//! those name the pages of Neighbors.
//!
//! # What it promises
//! 1. It asks for pages that will be wanted, and for no others: whatever the graph, nothing is read for nothing, as long
//!    as the pool keeps the pages until then.
//! 2. It asks for every page but the first before it is wanted, once, in the order in which they will be wanted.
//! 3. At most `window` pages are asked for and not wanted yet. More are asked for when half of them are left, so that
//!    adjacent ones leave in one request.
//! 4. It takes memory for the numbers of `window` pages.
//!
//! # Invariants
//! 1. `asked` is ascending, and each of its pages lies behind the page reached.
//! 2. `rest` lies behind all of `asked`.

use std::collections::VecDeque;
use std::ops::Range;

/// The pages of a vector that are wanted, as ranges of places: ascending, where they may overlap. Empty ones say nothing.
pub(super) struct Correlated<I> {
    wanted: I,
    /// What is left of the range that came last.
    rest: Range<u64>,
    asked: VecDeque<u64>,
    window: usize,
}

impl<I: Iterator<Item = Range<u64>>> Correlated<I> {
    /// Asks for at most so many pages ahead; for none with 0.
    pub fn new(wanted: I, window: usize) -> Correlated<I> {
        Correlated { wanted, rest: 0..0, asked: VecDeque::new(), window }
    }

    /// The page at `place` is wanted now. Passes on the places of the pages to read meanwhile.
    pub fn reach(&mut self, place: u64, mut ask: impl FnMut(u64)) {
        while self.asked.front().is_some_and(|asked| *asked <= place) {
            self.asked.pop_front();
        }
        if self.asked.len() > self.window / 2 {
            return;
        }
        while self.asked.len() < self.window
            && let Some(next) = self.next_behind(place)
        {
            self.asked.push_back(next);
            ask(next);
        }
    }

    /// The next page behind one that is reached, and behind all that were asked for.
    fn next_behind(&mut self, place: u64) -> Option<u64> {
        loop {
            self.rest.start = self.rest.start.max(place + 1);
            if !self.rest.is_empty() {
                self.rest.start += 1;
                return Some(self.rest.start - 1);
            }
            let next = self.wanted.next()?;
            if !next.is_empty() {
                self.rest = next.start.max(self.rest.start)..next.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn pages_are_asked_for_in_windows_that_overlap() {
        let mut correlated = Correlated::new([3..5, 4..7, 9..9, 20..23].into_iter(), 4);
        let mut asked = |place| {
            let mut places = Vec::new();
            correlated.reach(place, |place| places.push(place));
            places
        };
        assert_eq!(asked(3), [4, 5, 6, 20]);
        assert_eq!(asked(4), []);
        assert_eq!(asked(5), [21, 22]);
        assert_eq!(asked(5), []);
        assert_eq!(asked(6), []);
        assert_eq!(asked(22), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// The plain model is the set of all pages, visited in order.
        #[test]
        fn every_page_but_the_first_is_asked_for_once_before_it_is_wanted(
            steps in prop::collection::vec((0u64..6, 0u64..6), 0..60),
            window in 0usize..12,
        ) {
            let mut at = 0;
            let ranges: Vec<Range<u64>> = steps.iter().map(|(gap, length)| {
                let start = at + gap;
                // The next range may begin on the last page of this one.
                at = (start + length).saturating_sub(1).max(at);
                start..start + length
            }).collect();
            let model: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
            let mut correlated = Correlated::new(ranges.into_iter(), window);
            let (mut asked, mut all) = (BTreeSet::new(), Vec::new());
            for (visited, place) in model.iter().enumerate() {
                prop_assert_eq!(asked.remove(place), visited > 0 && window > 0);
                correlated.reach(*place, |place| {
                    asked.insert(place);
                    all.push(place);
                });
                prop_assert!(asked.len() <= window, "{} pages ahead", asked.len());
                prop_assert!(correlated.asked.capacity() <= 4 * window.max(1));
            }
            let expected: Vec<u64> = model.iter().copied().skip(1).collect();
            prop_assert_eq!(all, if window > 0 { expected } else { Vec::new() });
        }
    }
}

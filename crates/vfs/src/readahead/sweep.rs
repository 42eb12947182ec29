//! Reading the file in its own order, into the system's cache, beside a stream that is long.
//!
//! # Why
//! A scan of a tree whose neighbours lie anywhere costs a random access for every page, however early it is asked for.
//! Who will want most of a file has it sooner by reading all of it from one end to the other: that costs bandwidth, and
//! what the scan wants later is in the system's cache by then. A scan of pages that do lie in order profits from being told
//! of further ahead than the window reaches.
//!
//! # The rule
//! 1. A stream that has used [`FIRST_RUN`] pages begins a sweep where it is. The sweep goes to the end of the file and on
//!    from its beginning, until it has been everywhere.
//! 2. For a page that comes from anywhere, and that the sweep had not reached, it goes on by [`FOR_A_JUMP`] pages: flash
//!    reads half of them in the time of a random access. So a stream that stops has at worst taken three times as long.
//!    For any other page it goes on by [`FOR_A_STEP`].
//! 3. Where pages come in order, forward, it is never further ahead than the stream has come, nor than [`LONGEST_LEAD`];
//!    where the system reads ahead far enough by itself, that is left to it.
//! 4. Where they come from anywhere, it only goes on while at least a [`WORTH`]th of what it has not reached is still to
//!    come in the stream, as far as the tree tells; rows of an index do not tell, and count once they were a
//!    [`FEW_ENTRIES`]th of the file.
//! 5. Where pages come quickly from anywhere ([`FAST`]) they are in the system's cache already, or on a device that has no
//!    need of this.
//!
//! # What it does not do
//! Read: it says which pages the system should be asked for. Those pages get no place in the pool.

use crate::readahead::View;
use std::ops::Range;
use std::time::Duration;

/// Pages that a stream has used when its sweep begins.
const FIRST_RUN: u32 = 128;
/// Pages that the system is asked for at a time.
const CHUNK: u32 = 64;
/// Pages that a sweep goes on by, for a page from anywhere and for any other.
const FOR_A_JUMP: u32 = 16;
const FOR_A_STEP: u32 = 2;
/// Pages that a sweep is ahead of a stream in order, at most.
const LONGEST_LEAD: u32 = 2048;
/// Pages from one that comes in order to the next, at most.
const STEP: u32 = 8;
/// So many steps are an order; a jump counts half of them away.
const STEPS: u8 = 16;
/// Which part of what was not reached a stream must still want.
const WORTH: u64 = 4;
/// Which part of the file rows of an index must have come from.
const FEW_ENTRIES: u32 = 8;
/// The time of a page, in the mean, that needs no sweep; and the pages of such a mean: they come in bursts, as they are
/// asked for.
const FAST: Duration = Duration::from_micros(8);
const TIMED: u32 = 256;

/// When files are swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sweeps {
    /// Never: reads do not pass the system's cache.
    #[default]
    Never,
    /// Where it pays; pages from anywhere only in a file of so many pages, at most.
    UpTo(u32),
    /// The same, however quickly pages come: on a medium that counts or models.
    Always,
}

/// A sweep, or the beginning of one.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Where it began, and how many pages it has reached.
    begin: u32,
    reached: u32,
    /// Pages that it may go on by.
    credit: u32,
    /// The page before, and how many came in order up to it.
    last: u32,
    in_order: u8,
    /// When so many pages began to come from anywhere, and whether those before came slowly.
    timed: Option<(Duration, u32)>,
    slow: bool,
}

impl Sweep {
    /// A page of a stream is wanted, of which so many were used; `left` tells how many are to come, if that is known.
    pub fn follow(&mut self, page: u32, run: u32, left: impl FnOnce() -> Option<u64>, view: &View<'_>) {
        let is_step = page.abs_diff(self.last) <= STEP;
        let is_forward = page > self.last;
        self.in_order = if is_step { (self.in_order + 1).min(STEPS) } else { self.in_order / 2 };
        self.last = page;
        if run < FIRST_RUN || view.sweeps == Sweeps::Never {
            return;
        }
        if run == FIRST_RUN {
            *self = Sweep { begin: page, last: page, in_order: self.in_order, ..Sweep::default() };
        }
        if self.begin == 0 || self.is_done(view.pages) {
            return;
        }
        if self.in_order == STEPS {
            self.credit = if is_forward && !view.system_leads { self.lead(page, run, view) } else { 0 };
            return;
        }
        let is_jump = !is_step && !self.has_reached(page, view);
        let more = if !is_jump {
            FOR_A_STEP
        } else if self.is_slow(view) {
            FOR_A_JUMP
        } else {
            0
        };
        self.credit = self.credit.saturating_add(more);
        if self.credit >= CHUNK && !self.is_worth(run, left, view) {
            self.credit = 0;
        }
    }

    /// How much further a stream in order should be told of.
    fn lead(&mut self, page: u32, run: u32, view: &View<'_>) -> u32 {
        if !self.has_reached(page, view) || page < self.begin {
            // It went elsewhere, or was overtaken.
            (self.begin, self.reached) = (page, 0);
        }
        let reached = self.begin.saturating_add(self.reached);
        let wanted = page.saturating_add(run.min(LONGEST_LEAD)).min(view.pages);
        wanted.saturating_sub(reached)
    }

    /// Whether it has been everywhere, or the file has been cut before it.
    fn is_done(&self, pages: u32) -> bool {
        self.reached >= pages || self.begin > pages
    }

    /// Whether the sweep has been there.
    fn has_reached(&self, page: u32, view: &View<'_>) -> bool {
        let from_begin = page.checked_sub(self.begin).unwrap_or_else(|| view.pages - self.begin + page);
        from_begin < self.reached
    }

    /// Whether pages from anywhere come slowly, as far as is known; to be asked for each.
    fn is_slow(&mut self, view: &View<'_>) -> bool {
        if view.sweeps == Sweeps::Always {
            return true;
        }
        let (since, pages) = self.timed.get_or_insert((view.time, 0));
        *pages += 1;
        if *pages > TIMED {
            self.slow = view.time.saturating_sub(*since) > FAST * TIMED;
            self.timed = None;
        }
        self.slow
    }

    fn is_worth(&self, run: u32, left: impl FnOnce() -> Option<u64>, view: &View<'_>) -> bool {
        let most = if let Sweeps::UpTo(most) = view.sweeps { most } else { u32::MAX };
        let unreached = u64::from(view.pages - self.reached);
        view.pages <= most
            && match left() {
                Some(left) => left.saturating_mul(WORTH) >= unreached,
                None => run >= view.pages / FEW_ENTRIES,
            }
    }

    /// The next pages that the system should be asked for.
    pub fn next(&mut self, pages: u32) -> Option<Range<u32>> {
        if self.begin == 0 || self.credit < CHUNK || self.is_done(pages) {
            return None;
        }
        let behind = u64::from(self.begin) + u64::from(self.reached);
        // From the end to page 1.
        let from = if behind > u64::from(pages) { behind - u64::from(pages) } else { behind } as u32;
        let count = CHUNK.min(pages - self.reached).min(pages - from + 1);
        self.reached += count;
        self.credit -= count;
        Some(from..from + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::Memory;
    use proptest::prelude::*;

    struct Nothing;

    impl Memory for Nothing {
        fn with(&self, _page: u32, _look: &mut dyn FnMut(&[u8])) -> bool {
            false
        }
    }

    fn view(pages: u32, sweeps: Sweeps) -> View<'static> {
        View {
            memory: &Nothing,
            pages,
            usable: 4096,
            memory_pages: 1000,
            longest: 125,
            now: 0,
            sweeps,
            system_leads: false,
            time: Duration::ZERO,
        }
    }

    /// What is swept while a stream wants those pages: how many it had used, and what followed.
    fn swept(wanted: &[u32], left: Option<u64>, pages: u32, sweeps: Sweeps) -> Vec<(u32, Range<u32>)> {
        let (mut sweep, view, mut all) = (Sweep::default(), view(pages, sweeps), vec![]);
        for (run, page) in (1..).zip(wanted) {
            sweep.follow(*page, run, || left, &view);
            while let Some(range) = sweep.next(pages) {
                all.push((run, range));
            }
        }
        all
    }

    /// All pages but the first, in an order that jumps.
    fn anywhere(pages: u32) -> Vec<u32> {
        (0..pages - 1).map(|number| 2 + (u64::from(number) * 7919 % u64::from(pages - 1)) as u32).collect()
    }

    fn count(ranges: &[(u32, Range<u32>)]) -> u32 {
        ranges.iter().map(|(_, range)| range.len() as u32).sum()
    }

    #[test]
    fn a_scan_from_anywhere_has_the_whole_file_swept_once_and_soon() {
        let pages = 20_000;
        let ranges = swept(&anywhere(pages), Some(pages.into()), pages, Sweeps::Always);
        let mut times = vec![0; pages as usize + 1];
        ranges.iter().flat_map(|(_, range)| range.clone()).for_each(|page| times[page as usize] += 1);
        assert!(times[1..].iter().all(|times| *times == 1));
        let begin = anywhere(pages)[FIRST_RUN as usize - 1];
        assert_eq!(ranges[0].1.start, begin);
        for pair in ranges.windows(2) {
            let next = if pair[0].1.end > pages { 1 } else { pair[0].1.end };
            assert_eq!(pair[1].1.start, next, "no gap");
        }
        let (last, _) = ranges[ranges.len() - 1];
        assert!((pages / FOR_A_JUMP..pages / 4).contains(&last), "it had used {last} pages");
        let mut before = 0;
        for (run, range) in &ranges {
            before += range.len() as u32;
            assert!(before <= (run - FIRST_RUN + 1) * FOR_A_JUMP, "{before} pages for {run}");
        }
    }

    #[test]
    fn nothing_is_swept_that_may_not_be_wanted() {
        let pages = 20_000;
        let all = anywhere(pages);
        for (name, wanted, left, sweeps) in [
            ("a short stream", &all[..FIRST_RUN as usize], Some(20_000), Sweeps::Always),
            ("little to come", &all[..4000], Some(4000), Sweeps::Always),
            ("few rows", &all[..2400], None, Sweeps::Always),
            ("past the cache", &all[..], Some(20_000), Sweeps::Never),
            ("more than memory", &all[..], Some(20_000), Sweeps::UpTo(19_999)),
            ("backward", &(2..20_000).rev().collect::<Vec<_>>(), Some(20_000), Sweeps::Always),
        ] {
            assert_eq!(swept(wanted, left, pages, sweeps), [], "{name}");
        }
        let rows = swept(&all[..4000], None, pages, Sweeps::Always);
        assert!(rows[0].0 >= pages / FEW_ENTRIES && count(&rows) > 5000, "{rows:?}");
    }

    #[test]
    fn a_stream_in_order_is_swept_as_far_ahead_as_it_has_come() {
        let pages = 20_000;
        let wanted: Vec<u32> = (1000..16_000).chain(18_000..20_000).collect();
        let mut next = 0;
        for (run, range) in swept(&wanted, Some(1), pages, Sweeps::UpTo(5)) {
            let page = wanted[run as usize - 1];
            assert!(
                range.start > page.saturating_sub(CHUNK) && range.end <= page + run.min(LONGEST_LEAD),
                "{page}"
            );
            assert!(range.start == next || next == 0 || page == 18_000 + u32::from(STEPS) / 2, "{page}");
            next = range.end;
        }
        assert!(next > pages - CHUNK);
        let (mut sweep, mut view) = (Sweep::default(), view(pages, Sweeps::Always));
        view.system_leads = true;
        for (run, page) in (1..).zip(&wanted) {
            sweep.follow(*page, run, || Some(20_000), &view);
            assert_eq!(sweep.next(pages), None, "the system does that by itself");
        }
    }

    #[test]
    fn what_comes_quickly_is_in_the_systems_cache_already() {
        let pages = 20_000;
        for (us, is_swept) in [(7, false), (9, true)] {
            let (mut sweep, mut view) = (Sweep::default(), view(pages, Sweeps::UpTo(pages)));
            for (run, page) in (1..5000).zip(anywhere(pages)) {
                view.time += Duration::from_micros(us);
                sweep.follow(page, run, || Some(20_000), &view);
            }
            assert_eq!(sweep.next(pages).is_some(), is_swept, "{us} us a page");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_wanted_of_whatever_file_what_is_swept_lies_inside(
            calls in prop::collection::vec((1u32..=300, 100u32..200, 1u32..=300, any::<bool>()), 1..400),
            edge in any::<bool>(),
        ) {
            let offset = if edge { u32::MAX - 301 } else { 0 };
            let mut sweep = Sweep::default();
            for (page, run, pages, known) in calls {
                let (page, pages) = (page + offset, pages + offset);
                sweep.follow(page, run, || known.then_some(u64::MAX), &view(pages, Sweeps::Always));
                let mut swept = 0;
                while let Some(range) = sweep.next(pages) {
                    prop_assert!(range.start >= 1 && range.end <= pages + 1 && !range.is_empty());
                    swept += range.len();
                    if edge && swept > 100_000 {
                        break;
                    }
                }
            }
        }
    }
}

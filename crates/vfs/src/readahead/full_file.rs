//! Full-file readahead: the file in its own order, into the system's cache, beside a long stream.
//!
//! # Why
//! A scan of a b-tree whose neighbours lie anywhere costs a random access for every page, however early the page is requested.
//! A scan that demands most of a file ends sooner if the whole file is read from one end to the other. That costs
//! bandwidth, and later pages of the scan are in the system's cache by then. A scan of pages in order gains as well: the
//! system hears of pages further ahead than the window reaches.
//!
//! # The rule
//! 1. A stream that has used [`MIN_RUN`] pages starts at its place. The read goes to the end of the file and on from its
//!    beginning, until every page was reached.
//! 2. For a random page that was not reached, the read goes on by [`PAGES_PER_JUMP`] pages. Flash reads half of them in the
//!    time of a random access, so a stream that stops has taken at worst three times as long. For any other page the read
//!    goes on by [`PAGES_PER_STEP`].
//! 3. Where pages come in order, forward, the read is never further ahead than the stream has come, nor than [`MAX_LEAD`].
//!    Where the system reads ahead far enough by itself, that is left to the system.
//! 4. Where pages are random, the read goes on only while the stream still has enough to come to. That is at least one of
//!    every [`UNREACHED_PER_LEFT`] unreached pages, as far as the b-tree tells. Rows of an index do not tell that. They count
//!    once the stream has used one of every [`PAGES_PER_ENTRY_READ`] pages of the file.
//! 5. Where random pages come quickly ([`FAST_PAGE`]), they are in the system's cache already, or the device has no need of
//!    this.
//!
//! # What it does not do
//! It reads nothing: it names the pages that the system should read. Those pages get no place in the pool.

use crate::readahead::file_view::{FileView, FullFileMode};
use std::ops::Range;
use std::time::Duration;

/// Pages that a stream has used when full-file readahead starts.
const MIN_RUN: u32 = 128;
/// Most pages that the system is asked for at a time.
const CHUNK: u32 = 64;
/// Pages gained by a random page.
const PAGES_PER_JUMP: u32 = 16;
/// Pages gained by any other page.
const PAGES_PER_STEP: u32 = 2;
/// Most pages ahead of a stream in order.
const MAX_LEAD: u32 = 2048;
/// Most pages from one page in order to the next.
const STEP_PAGES: u32 = 8;
/// Steps that make an order; a jump halves their count.
const STEPS_IN_ORDER: u8 = 16;
/// Most unreached pages for each page that the stream still has to come to.
const UNREACHED_PER_LEFT: u64 = 4;
/// Most pages of the file for each page used by rows of an index.
const PAGES_PER_ENTRY_READ: u32 = 8;
/// Mean time of a random page that needs no full-file readahead.
const FAST_PAGE: Duration = Duration::from_micros(8);
/// Random pages of such a mean: they come in bursts, as they are requested.
const TIMED_PAGES: u32 = 256;

/// Full-file readahead of one connection, or the beginning of it.
#[derive(Debug, Default)]
pub(super) struct FullFileReadahead {
    /// The page where it started; 0 before that.
    begin: u32,
    /// Pages reached since.
    reached: u32,
    /// Pages gained and not read yet.
    credit: u32,
    /// The page demanded last.
    last: u32,
    /// Pages in order up to there, at most [`STEPS_IN_ORDER`].
    in_order: u8,
    /// The time at which the current mean began, and its random pages so far.
    timed: Option<(Duration, u32)>,
    /// Set if the random pages of the mean before came slowly.
    slow: bool,
}

impl FullFileReadahead {
    /// A stream that has used `run` pages demands a page; `left` are the pages still to come, if that is known.
    pub fn follow(&mut self, page: u32, run: u32, left: impl FnOnce() -> Option<u64>, view: &FileView<'_>) {
        let is_step = page.abs_diff(self.last) <= STEP_PAGES;
        let is_forward = page > self.last;
        self.in_order = if is_step { (self.in_order + 1).min(STEPS_IN_ORDER) } else { self.in_order / 2 };
        self.last = page;
        if run < MIN_RUN || view.full_file_mode == FullFileMode::Never {
            return;
        }
        if run == MIN_RUN {
            *self = FullFileReadahead {
                begin: page,
                last: page,
                in_order: self.in_order,
                ..FullFileReadahead::default()
            };
        }
        if self.begin == 0 || self.is_done(view.pages) {
            return;
        }
        if self.in_order == STEPS_IN_ORDER {
            self.credit = if is_forward && !view.system_reads_ahead { self.lead(page, run, view) } else { 0 };
            return;
        }
        let is_jump = !is_step && !self.has_reached(page, view);
        let more = if !is_jump {
            PAGES_PER_STEP
        } else if self.is_slow(view) {
            PAGES_PER_JUMP
        } else {
            0
        };
        self.credit = self.credit.saturating_add(more);
        if self.credit >= CHUNK && !self.is_worth(run, left, view) {
            self.credit = 0;
        }
    }

    /// Pages to read further for a stream in order.
    fn lead(&mut self, page: u32, run: u32, view: &FileView<'_>) -> u32 {
        if !self.has_reached(page, view) || page < self.begin {
            // The stream went elsewhere, or has overtaken the read.
            (self.begin, self.reached) = (page, 0);
        }
        let reached = self.begin.saturating_add(self.reached);
        let wanted = page.saturating_add(run.min(MAX_LEAD)).min(view.pages);
        wanted.saturating_sub(reached)
    }

    /// Tells whether every page was reached, or the file now ends before the start.
    fn is_done(&self, pages: u32) -> bool {
        self.reached >= pages || self.begin > pages
    }

    /// Tells whether a page was reached.
    fn has_reached(&self, page: u32, view: &FileView<'_>) -> bool {
        let from_begin = page.checked_sub(self.begin).unwrap_or_else(|| view.pages - self.begin + page);
        from_begin < self.reached
    }

    /// Tells whether random pages come slowly, as far as is known. To be called for each.
    fn is_slow(&mut self, view: &FileView<'_>) -> bool {
        if view.full_file_mode == FullFileMode::Always {
            return true;
        }
        let (since, pages) = self.timed.get_or_insert((view.time, 0));
        *pages += 1;
        if *pages > TIMED_PAGES {
            self.slow = view.time.saturating_sub(*since) > FAST_PAGE * TIMED_PAGES;
            self.timed = None;
        }
        self.slow
    }

    /// Rule 4.
    fn is_worth(&self, run: u32, left: impl FnOnce() -> Option<u64>, view: &FileView<'_>) -> bool {
        let most = if let FullFileMode::UpTo(most) = view.full_file_mode { most } else { u32::MAX };
        let unreached = u64::from(view.pages - self.reached);
        view.pages <= most
            && match left() {
                Some(left) => left.saturating_mul(UNREACHED_PER_LEFT) >= unreached,
                None => run >= view.pages / PAGES_PER_ENTRY_READ,
            }
    }

    /// The next pages that the system should read.
    pub fn next(&mut self, pages: u32) -> Option<Range<u32>> {
        if self.begin == 0 || self.credit < CHUNK || self.is_done(pages) {
            return None;
        }
        let behind = u64::from(self.begin) + u64::from(self.reached);
        // Behind the last page comes page 1.
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
    use crate::readahead::file_view::{self, tests::InMemory};
    use proptest::prelude::*;

    static NOTHING: InMemory = InMemory(vec![]);

    fn view(pages: u32, full_file_mode: FullFileMode) -> FileView<'static> {
        FileView { pages, full_file_mode, ..file_view::tests::view(&NOTHING) }
    }

    /// The ranges read while a stream demands those pages, each with the run of the stream.
    fn ranges_read(
        wanted: &[u32],
        left: Option<u64>,
        pages: u32,
        full_file_mode: FullFileMode,
    ) -> Vec<(u32, Range<u32>)> {
        let (mut full_file, view, mut all) =
            (FullFileReadahead::default(), view(pages, full_file_mode), vec![]);
        for (run, page) in (1..).zip(wanted) {
            full_file.follow(*page, run, || left, &view);
            while let Some(range) = full_file.next(pages) {
                all.push((run, range));
            }
        }
        all
    }

    /// All pages but the first, in an order that jumps.
    fn random(pages: u32) -> Vec<u32> {
        (0..pages - 1).map(|number| 2 + (u64::from(number) * 7919 % u64::from(pages - 1)) as u32).collect()
    }

    fn count(ranges: &[(u32, Range<u32>)]) -> u32 {
        ranges.iter().map(|(_, range)| range.len() as u32).sum()
    }

    #[test]
    fn a_random_scan_has_the_whole_file_read_once_and_soon() {
        let pages = 20_000;
        let ranges = ranges_read(&random(pages), Some(pages.into()), pages, FullFileMode::Always);
        let mut times = vec![0; pages as usize + 1];
        ranges.iter().flat_map(|(_, range)| range.clone()).for_each(|page| times[page as usize] += 1);
        assert!(times[1..].iter().all(|times| *times == 1));
        let begin = random(pages)[MIN_RUN as usize - 1];
        assert_eq!(ranges[0].1.start, begin);
        for pair in ranges.windows(2) {
            let next = if pair[0].1.end > pages { 1 } else { pair[0].1.end };
            assert_eq!(pair[1].1.start, next, "no gap");
        }
        let (last, _) = ranges[ranges.len() - 1];
        assert!((pages / PAGES_PER_JUMP..pages / 4).contains(&last), "it had used {last} pages");
        let mut before = 0;
        for (run, range) in &ranges {
            before += range.len() as u32;
            assert!(before <= (run - MIN_RUN + 1) * PAGES_PER_JUMP, "{before} pages for {run}");
        }
    }

    #[test]
    fn nothing_is_read_that_may_not_be_wanted() {
        let pages = 20_000;
        let all = random(pages);
        for (name, wanted, left, full_file_mode) in [
            ("a short stream", &all[..MIN_RUN as usize], Some(20_000), FullFileMode::Always),
            ("little to come", &all[..4000], Some(4000), FullFileMode::Always),
            ("few rows", &all[..2400], None, FullFileMode::Always),
            ("past the cache", &all[..], Some(20_000), FullFileMode::Never),
            ("more than memory", &all[..], Some(20_000), FullFileMode::UpTo(19_999)),
            ("backward", &(2..20_000).rev().collect::<Vec<_>>(), Some(20_000), FullFileMode::Always),
        ] {
            assert_eq!(ranges_read(wanted, left, pages, full_file_mode), [], "{name}");
        }
        let rows = ranges_read(&all[..4000], None, pages, FullFileMode::Always);
        assert!(rows[0].0 >= pages / PAGES_PER_ENTRY_READ && count(&rows) > 5000, "{rows:?}");
    }

    #[test]
    fn a_stream_in_order_is_read_ahead_as_far_as_it_has_come() {
        let pages = 20_000;
        let wanted: Vec<u32> = (1000..16_000).chain(18_000..20_000).collect();
        let mut next = 0;
        for (run, range) in ranges_read(&wanted, Some(1), pages, FullFileMode::UpTo(5)) {
            let page = wanted[run as usize - 1];
            assert!(
                range.start > page.saturating_sub(CHUNK) && range.end <= page + run.min(MAX_LEAD),
                "{page}"
            );
            assert!(
                range.start == next || next == 0 || page == 18_000 + u32::from(STEPS_IN_ORDER) / 2,
                "{page}"
            );
            next = range.end;
        }
        assert!(next > pages - CHUNK);
        let (mut full_file, mut view) = (FullFileReadahead::default(), view(pages, FullFileMode::Always));
        view.system_reads_ahead = true;
        for (run, page) in (1..).zip(&wanted) {
            full_file.follow(*page, run, || Some(20_000), &view);
            assert_eq!(full_file.next(pages), None, "the system does that by itself");
        }
    }

    #[test]
    fn what_comes_quickly_is_in_the_systems_cache_already() {
        let pages = 20_000;
        for (us, is_read) in [(7, false), (9, true)] {
            let (mut full_file, mut view) =
                (FullFileReadahead::default(), view(pages, FullFileMode::UpTo(pages)));
            for (run, page) in (1..5000).zip(random(pages)) {
                view.time += Duration::from_micros(us);
                full_file.follow(page, run, || Some(20_000), &view);
            }
            assert_eq!(full_file.next(pages).is_some(), is_read, "{us} us a page");
        }
    }

    proptest! {
        #[test]
        fn every_range_lies_inside_the_file(
            calls in prop::collection::vec((1u32..=300, 100u32..200, 1u32..=300, any::<bool>()), 1..400),
            edge in any::<bool>(),
        ) {
            let offset = if edge { u32::MAX - 301 } else { 0 };
            let mut full_file = FullFileReadahead::default();
            for (page, run, pages, known) in calls {
                let (page, pages) = (page + offset, pages + offset);
                full_file.follow(page, run, || known.then_some(u64::MAX), &view(pages, FullFileMode::Always));
                let mut count = 0;
                while let Some(range) = full_file.next(pages) {
                    prop_assert!(range.start >= 1 && range.end <= pages + 1 && !range.is_empty());
                    count += range.len();
                    if edge && count > 100_000 {
                        break;
                    }
                }
            }
        }
    }
}

//! One stream: where its pages come from, which are expected, and how many are asked for.
//!
//! # Invariants
//! 1. The window at most doubles from one asking to the next, and never exceeds the longest.
//! 2. What is on the way is used before a quarter of the memory has been filled with other pages, if the stream
//!    goes on at its pace.
//! 3. Pages are asked for when half of the last window is left, or when a page that was missing may have come.

use crate::readahead::View;
use crate::readahead::chain::{Chain, Turn};
use crate::readahead::entries::Entries;
use crate::readahead::expected::Expected;
use crate::readahead::runs::Runs;
use crate::readahead::siblings::Siblings;

/// Pages of the first window, at most.
pub(super) const FIRST_WINDOW: u32 = 4;
/// Pages that are expected beyond those asked for: so a stream is followed that asks for nothing.
const UNASKED: usize = 4;
/// One page of a stream for each page that is wanted.
const PACE: u32 = 16;
/// Pages remembered that were asked for because others cannot be known without them.
const NEEDED: usize = 8;

/// Where pages come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Siblings(Siblings),
    Entries(Entries),
    Chain(Chain),
}

/// Streams of a kind share what is known of their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Siblings,
    Entries,
    Chain,
}

impl Source {
    pub fn kind(&self) -> Kind {
        match self {
            Source::Siblings(_) => Kind::Siblings,
            Source::Entries(_) => Kind::Entries,
            Source::Chain(_) => Kind::Chain,
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Source::Siblings(siblings) => siblings.has_ended(),
            Source::Entries(entries) => entries.has_ended(),
            Source::Chain(chain) => chain.has_ended(),
        }
    }

    fn foresee(&mut self, count: usize, expected: &mut Expected, view: &View<'_>) -> Option<u32> {
        match self {
            Source::Siblings(siblings) => siblings.foresee(count, expected, view),
            Source::Entries(entries) => entries.foresee(count, expected, view),
            Source::Chain(chain) => {
                chain.foresee(count, expected, view);
                None
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    source: Source,
    expected: Expected,
    /// Pages used so far.
    run: u32,
    /// Pages asked for last time, with those that were on the way.
    window: u32,
    /// Pages used, and passed over, since.
    used: u32,
    in_vain: u32,
    /// When it was used last, in pages wanted by all.
    last: u32,
    /// Pages wanted by all for each page of the stream, in units of [`PACE`]: the mean of the last few.
    pace: u32,
    /// A page that has to be read before more can be known.
    blocked: Option<u32>,
    needed: [u32; NEEDED],
}

impl Stream {
    /// A stream that has used so many pages.
    pub fn new(source: Source, run: u32, now: u32) -> Stream {
        Stream {
            source,
            expected: Expected::default(),
            run,
            window: 0,
            used: 0,
            in_vain: 0,
            last: now,
            pace: PACE,
            blocked: None,
            needed: [0; NEEDED],
        }
    }

    pub fn kind(&self) -> Kind {
        self.source.kind()
    }

    /// Pages used so far.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Pages that are still to come, as far as the tree tells.
    pub fn left(&self, view: &View<'_>) -> Option<u64> {
        match &self.source {
            Source::Siblings(siblings) => Some(siblings.left(view)),
            Source::Entries(_) | Source::Chain(_) => None,
        }
    }

    /// Whether it has come to its natural end, and used what it asked for.
    pub fn is_done(&self) -> bool {
        self.source.has_ended() && self.expected.asked() == 0
    }

    /// Looks further, if a page that was missing may have come. Where so much is in memory that the last look
    /// found little, only the stream in use looks again.
    pub fn look_again(&mut self, is_in_use: bool, view: &View<'_>) {
        let may_see = self.blocked.map_or(is_in_use, |blocked| view.memory.holds(blocked));
        let count = self.expected.asked() + UNASKED;
        if may_see && self.expected.len() < count {
            self.foresee(count, view);
        }
    }

    /// Whether the page belongs to the stream; moves the stream there. `ended` hears of a run that ended.
    pub fn follow(&mut self, page: u32, view: &View<'_>, runs: &mut Runs) -> bool {
        if let Some(in_vain) = self.expected.reach(page, view) {
            self.step(in_vain as u32, view, runs);
            if let Source::Chain(chain) = &mut self.source {
                chain.reach(page);
            }
            return true;
        }
        let Source::Chain(chain) = &mut self.source else { return self.needed.contains(&page) };
        match chain.turn(page, view) {
            None => return false,
            Some(Turn::Straight) => self.run = self.run.saturating_add(1),
            Some(Turn::Bent) => {
                runs.end(self.run);
                (self.run, self.window) = (1, 0);
            }
        }
        self.expected.clear();
        true
    }

    /// One page further. A stream that passes over more than half as many pages as it uses is not the stream it
    /// was taken for.
    fn step(&mut self, in_vain: u32, view: &View<'_>, runs: &mut Runs) {
        self.used += 1;
        self.in_vain = self.in_vain.saturating_add(in_vain);
        if in_vain > 0 && self.in_vain * 2 > self.used {
            runs.end(self.run);
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        let pages = view.now.saturating_sub(self.last).min(u32::from(u16::MAX));
        self.pace = (self.pace * 7 + pages * PACE) / 8;
        self.last = view.now;
    }

    /// The longest window now.
    fn most(&self, view: &View<'_>) -> u32 {
        let in_time = (view.memory_pages / 4).saturating_mul(PACE) / self.pace.max(PACE);
        (self.window * 2).max(FIRST_WINDOW).min(view.longest).min(in_time.max(1))
    }

    fn foresee(&mut self, count: usize, view: &View<'_>) {
        self.blocked = self.source.foresee(count, &mut self.expected, view);
    }

    /// Asks for pages, if it is time and worth it. `idle` are the lengths of the other streams of the kind.
    pub fn ask(
        &mut self,
        idle: impl Iterator<Item = u32>,
        runs: &Runs,
        view: &View<'_>,
        ahead: &mut Vec<u32>,
    ) {
        let asked = self.expected.asked();
        let mut target = asked;
        if asked as u32 <= self.window / 2 {
            (self.used, self.in_vain) = (0, 0);
            if self.run >= 2 || self.kind() == Kind::Chain {
                target = asked.max(runs.allowed(self.run, self.most(view), idle) as usize);
            }
        }
        self.foresee(target + UNASKED, view);
        if target == asked {
            return;
        }
        self.window = target as u32;
        self.expected.ask(target, ahead);
        if let Some(page) = self.blocked
            && self.expected.len() < target
        {
            self.need(page, target - self.expected.len(), view, ahead);
        }
    }

    /// Asks for pages without which no others can be known, at most `count`.
    fn need(&mut self, page: u32, count: usize, view: &View<'_>, ahead: &mut Vec<u32>) {
        let begin = ahead.len();
        match &self.source {
            Source::Entries(entries) => entries.missing(count, view, ahead),
            Source::Siblings(siblings) => siblings.missing(page, count, view, ahead),
            Source::Chain(_) => (),
        }
        for page in &ahead[begin..] {
            if !self.needed.contains(page) {
                self.needed.rotate_right(1);
                self.needed[0] = *page;
            }
        }
    }
}

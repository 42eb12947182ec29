//! Streams: where the next pages come from, and how many of them are requested.
//!
//! A stream does not say that it ends. The oldest is dropped where there are too many of its kind, and its length counts from
//! then on. Until then, a stream that others have overtaken counts as one that may have ended.
//!
//! # Invariants
//! 1. The window at most doubles from one request to the next, and never exceeds the longest window.
//! 2. Requested pages are used before other pages fill a quarter of the memory, if the stream keeps its pace.
//! 3. A stream requests pages when half of its last window is left, or when a page that was missing may have come.

use crate::readahead::entry_detector::Entries;
use crate::readahead::file_view::{FIRST_WINDOW, FileView};
use crate::readahead::overflow_chain::{Chain, ChainStep};
use crate::readahead::run_estimator::RunEstimator;
use crate::readahead::sibling_detector::Siblings;
use crate::readahead::window::ReadaheadWindow;

/// Pages in a window beyond those requested, so that a stream is recognized even if it requests nothing.
const UNASKED: usize = 4;
/// The pace of a stream that all demanded pages belong to.
const PACE: u32 = 16;
/// Requested interior pages remembered: they belong to the stream, and not to its window.
const NEEDED: usize = 8;

/// The source of a stream's pages.
#[derive(Clone, Debug)]
pub(super) enum StreamSource {
    /// Children of interior pages.
    Siblings(Siblings),
    /// Rows of index entries.
    Entries(Entries),
    /// Overflow pages.
    Chain(Chain),
}

/// Kinds of streams. Streams of a kind share a run estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Siblings,
    Entries,
    Chain,
}

impl StreamSource {
    /// Its kind.
    pub fn kind(&self) -> StreamKind {
        match self {
            StreamSource::Siblings(_) => StreamKind::Siblings,
            StreamSource::Entries(_) => StreamKind::Entries,
            StreamSource::Chain(_) => StreamKind::Chain,
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            StreamSource::Siblings(siblings) => siblings.has_ended(),
            StreamSource::Entries(entries) => entries.has_ended(),
            StreamSource::Chain(chain) => chain.has_ended(),
        }
    }

    fn fill(&mut self, count: usize, window: &mut ReadaheadWindow, view: &FileView<'_>) -> Option<u32> {
        match self {
            StreamSource::Siblings(siblings) => siblings.fill(count, window, view),
            StreamSource::Entries(entries) => entries.fill(count, window, view),
            StreamSource::Chain(chain) => {
                chain.fill(count, window, view);
                None
            }
        }
    }
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    source: StreamSource,
    window: ReadaheadWindow,
    /// Run: the pages used so far.
    run: u32,
    /// Pages requested after the last request, those already on their way included.
    window_pages: u32,
    /// Pages used since the last request.
    used: u32,
    /// Pages skipped since the last request.
    wasted: u32,
    /// The clock when the stream was used last.
    last: u32,
    /// Demanded pages for each page of the stream, in units of [`PACE`]: the mean of the last few.
    pace: u32,
    /// The page that has to be read before more pages are known.
    blocked: Option<u32>,
    /// The interior pages requested last.
    needed: [u32; NEEDED],
}

impl Stream {
    /// A stream that has used `run` pages.
    pub fn new(source: StreamSource, run: u32, now: u32) -> Stream {
        Stream {
            source,
            window: ReadaheadWindow::default(),
            run,
            window_pages: 0,
            used: 0,
            wasted: 0,
            last: now,
            pace: PACE,
            blocked: None,
            needed: [0; NEEDED],
        }
    }

    /// Its kind.
    pub fn kind(&self) -> StreamKind {
        self.source.kind()
    }

    /// Pages used so far.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Pages still to come, as far as the b-tree tells.
    pub fn left(&self, view: &FileView<'_>) -> Option<u64> {
        match &self.source {
            StreamSource::Siblings(siblings) => Some(siblings.left(view)),
            StreamSource::Entries(_) | StreamSource::Chain(_) => None,
        }
    }

    /// Tells whether the source has ended, and every requested page was used.
    pub fn is_done(&self) -> bool {
        self.source.has_ended() && self.window.requested() == 0
    }

    /// Fills the window again, if a page that was missing may have come. Where the last look found little because much is in
    /// memory, only the stream in use looks again.
    pub fn look_again(&mut self, is_in_use: bool, view: &FileView<'_>) {
        let may_see = self.blocked.map_or(is_in_use, |blocked| view.memory.holds(blocked));
        let count = self.window.requested() + UNASKED;
        if may_see && self.window.len() < count {
            self.fill(count, view);
        }
    }

    /// Moves the stream to a demanded page; `false` where the page does not belong to the stream.
    pub fn follow(&mut self, page: u32, view: &FileView<'_>, run_estimator: &mut RunEstimator) -> bool {
        if let Some(wasted) = self.window.reach(page, view) {
            self.step(wasted as u32, view, run_estimator);
            if let StreamSource::Chain(chain) = &mut self.source {
                chain.reach(page);
            }
            return true;
        }
        let StreamSource::Chain(chain) = &mut self.source else { return self.needed.contains(&page) };
        match chain.step_to(page, view) {
            None => return false,
            Some(ChainStep::Consecutive) => self.run = self.run.saturating_add(1),
            Some(ChainStep::Jump) => {
                run_estimator.end(self.run);
                (self.run, self.window_pages) = (1, 0);
            }
        }
        self.window.clear();
        true
    }

    /// Moves one page further. A stream that skips more than half as many pages as it uses is not what it was taken for: its
    /// run ends.
    fn step(&mut self, wasted: u32, view: &FileView<'_>, run_estimator: &mut RunEstimator) {
        self.used += 1;
        self.wasted = self.wasted.saturating_add(wasted);
        if wasted > 0 && self.wasted * 2 > self.used {
            run_estimator.end(self.run);
            self.run = 0;
        }
        self.run = self.run.saturating_add(1);
        let pages = view.now.saturating_sub(self.last).min(u32::from(u16::MAX));
        self.pace = (self.pace * 7 + pages * PACE) / 8;
        self.last = view.now;
    }

    /// The longest window that invariants 1 and 2 allow.
    fn longest_window(&self, view: &FileView<'_>) -> u32 {
        let in_time = (view.memory_pages / 4).saturating_mul(PACE) / self.pace.max(PACE);
        (self.window_pages * 2).max(FIRST_WINDOW).min(view.longest).min(in_time.max(1))
    }

    /// Fills the window from the source.
    fn fill(&mut self, count: usize, view: &FileView<'_>) {
        self.blocked = self.source.fill(count, &mut self.window, view);
    }

    /// Requests pages, if the time has come and the run estimator allows it. `idle` are the runs of the other streams of the
    /// kind.
    pub fn request(
        &mut self,
        idle: impl Iterator<Item = u32>,
        run_estimator: &RunEstimator,
        view: &FileView<'_>,
        requests: &mut Vec<u32>,
    ) {
        let requested = self.window.requested();
        let mut target = requested;
        if requested as u32 <= self.window_pages / 2 {
            (self.used, self.wasted) = (0, 0);
            if self.run >= 2 || self.kind() == StreamKind::Chain {
                target =
                    requested.max(run_estimator.allowed(self.run, self.longest_window(view), idle) as usize);
            }
        }
        self.fill(target + UNASKED, view);
        if target == requested {
            return;
        }
        self.window_pages = target as u32;
        self.window.request(target, requests);
        if let Some(page) = self.blocked
            && self.window.len() < target
        {
            self.request_interior(page, target - self.window.len(), view, requests);
        }
    }

    /// Requests interior pages without which no more pages are known, at most `count`.
    fn request_interior(&mut self, page: u32, count: usize, view: &FileView<'_>, requests: &mut Vec<u32>) {
        let begin = requests.len();
        match &self.source {
            StreamSource::Entries(entries) => entries.missing(count, view, requests),
            StreamSource::Siblings(siblings) => siblings.missing(page, count, view, requests),
            StreamSource::Chain(_) => (),
        }
        for page in &requests[begin..] {
            if !self.needed.contains(page) {
                self.needed.rotate_right(1);
                self.needed[0] = *page;
            }
        }
    }
}

/// Most streams of a kind.
fn max_streams(kind: StreamKind) -> usize {
    match kind {
        StreamKind::Siblings => 4,
        StreamKind::Entries | StreamKind::Chain => 2,
    }
}

/// The streams of a connection, and the run estimators of those that ended.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The most recently used first.
    streams: Vec<Stream>,
    run_estimators: [RunEstimator; 3],
}

impl Streams {
    /// Moves the stream that a demanded page belongs to, and requests what follows. Returns the stream's kind.
    pub fn follow(&mut self, page: u32, view: &FileView<'_>, requests: &mut Vec<u32>) -> Option<StreamKind> {
        for (place, stream) in self.streams.iter_mut().enumerate() {
            stream.look_again(place == 0, view);
        }
        let estimators = &mut self.run_estimators;
        let follows =
            |stream: &mut Stream| stream.follow(page, view, &mut estimators[stream.kind() as usize]);
        let place = self.streams.iter_mut().position(follows)?;
        self.streams[..=place].rotate_right(1);
        self.request(view, requests);
        Some(self.streams[0].kind())
    }

    /// The stream that was used last.
    pub fn in_use(&self) -> Option<&Stream> {
        self.streams.first()
    }

    /// Begins a stream that has used `run` pages.
    pub fn begin(&mut self, source: StreamSource, run: u32, view: &FileView<'_>, requests: &mut Vec<u32>) {
        let kind = source.kind();
        if self.streams.iter().filter(|stream| stream.kind() == kind).count() >= max_streams(kind)
            && let Some(oldest) = self.streams.iter().rposition(|stream| stream.kind() == kind)
        {
            let oldest = self.streams.remove(oldest);
            if !oldest.is_done() {
                self.run_estimators[kind as usize].end(oldest.run());
            }
        }
        self.streams.insert(0, Stream::new(source, run, view.now));
        self.request(view, requests);
    }

    /// Requests pages of the stream in use.
    fn request(&mut self, view: &FileView<'_>, requests: &mut Vec<u32>) {
        let Some((first, others)) = self.streams.split_first_mut() else { return };
        let kind = first.kind();
        let idle = others.iter().filter(|other| other.kind() == kind && !other.is_done()).map(Stream::run);
        first.request(idle, &self.run_estimators[kind as usize], view, requests);
    }
}

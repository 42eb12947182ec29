//! The prefetch detector: it predicts the pages that will be wanted next, as a pure decision, without I/O.
//!
//! # Why
//! A page that is read before it is asked for costs no wait, and pages that are read together cost the medium one
//! request. A page that is read and never asked for costs time and wear. In SMILE's evaluation (sections 4.3.1.2 and
//! 4.3.2.2), prefetching the next page for each pin lost 1.8 % and 8.7 %. It fetched too little, too late, one page at
//! a time.
//!
//! # What it promises
//! 1. Several streams at once, each with its stride (1, -1, or up to [`Config::longest_stride`] either way).
//!    A stream is believed after [`CONFIRMED_NEXT`] steps of one page, or [`CONFIRMED_STRIDE`] equal steps of
//!    more.
//! 2. The window of a believed stream doubles from [`Config::first_window`] to [`Config::longest_window`]
//!    pages; the next window is asked for when half of the last is left.
//! 3. A page is asked for once per stream, and lies inside the file.
//! 4. Waste has a budget, whatever the pattern: [`Config::free_waste`] pages, and one page in
//!    [`DEMAND_PER_WASTE`] wanted ones. Beyond it only streams go on whose last window was used, at least two
//!    pages of three; each of them can waste one window more.
//! 5. A decision costs a look at [`Config::streams`] entries at most.
//!
//! # What it wants to hear
//! [`Detector::wanted`], for each page that had to be read, and for the first use of each page that it asked for. Other
//! hits need not be reported: they stay free of any lock.

mod stream;

use stream::Stream;

/// Steps of one page after which a stream is believed.
pub const CONFIRMED_NEXT: u32 = 2;
/// Equal steps of more than a page after which a stream is believed.
pub const CONFIRMED_STRIDE: u32 = 3;
/// For so many wanted pages one may be wasted.
pub const DEMAND_PER_WASTE: u64 = 128;

/// The limits of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Streams told apart.
    pub streams: usize,
    /// Pages of a new stream's first window.
    pub first_window: u32,
    /// Pages of the longest window.
    pub longest_window: u32,
    /// The longest stride, in pages.
    pub longest_stride: u64,
    /// Pages that may be wasted in any case.
    pub free_waste: u64,
}

/// Bytes of the longest window: two merged operations of the I/O queue.
const WINDOW_BYTES: usize = 512 * 1024;

impl Config {
    /// The defaults for pages of that size.
    pub fn for_page_bytes(page_bytes: usize) -> Config {
        let longest = (WINDOW_BYTES / page_bytes.max(1)).clamp(4, 128) as u32;
        Config {
            streams: 16,
            first_window: 4.min(longest),
            longest_window: longest,
            longest_stride: 64,
            free_waste: 16,
        }
    }
}

/// Pages to read: `first`, `first + stride`, … `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub first: u64,
    /// From one page to the next.
    pub stride: i64,
    /// Their number.
    pub count: u32,
}

impl Run {
    /// The pages, in the order in which they will be wanted.
    pub fn pages(self) -> impl Iterator<Item = u64> {
        (0..i64::from(self.count)).map(move |step| self.first.wrapping_add_signed(step * self.stride))
    }
}

/// Tells streams apart and decides what to read ahead. One for each file.
#[derive(Debug)]
pub struct Detector {
    config: Config,
    /// The most recently used first.
    streams: Vec<Stream>,
    wanted: u64,
    wasted: u64,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new(config: Config) -> Detector {
        let streams = Vec::with_capacity(config.streams.max(1));
        Detector { config, streams, wanted: 0, wasted: 0 }
    }

    /// A page is wanted: it had to be read, or it was read ahead and is used for the first time. `pages` is
    /// the length of the file. Returns what to read ahead.
    pub fn wanted(&mut self, page: u64, pages: u64) -> Option<Run> {
        self.wanted += 1;
        self.bring_forward(page);
        let may_waste =
            self.wasted + self.at_risk() <= self.config.free_waste + self.wanted / DEMAND_PER_WASTE;
        let stream = self.streams.first_mut()?;
        if !stream.is_believed() || !(may_waste || stream.has_paid()) {
            return None;
        }
        stream.ahead(pages, self.config.first_window, self.config.longest_window)
    }

    /// Pages that were asked for and, as far as can be seen, for nothing.
    pub fn wasted(&self) -> u64 {
        self.wasted
    }

    /// Pages asked for by streams that have not paid yet.
    fn at_risk(&self) -> u64 {
        self.streams.iter().filter(|stream| !stream.has_paid()).map(Stream::unreached).sum()
    }

    /// Moves the stream that the page belongs to, or a new one, to the front.
    fn bring_forward(&mut self, page: u64) {
        let follows = self
            .streams
            .iter_mut()
            .enumerate()
            .find_map(|(place, stream)| stream.follow(page).map(|skipped| (place, skipped)));
        let longest = self.config.longest_stride;
        let place = match follows {
            Some((place, skipped)) => {
                self.wasted += skipped;
                place
            }
            None => match self.streams.iter_mut().position(|stream| stream.change_stride(page, longest)) {
                Some(place) => place,
                None => self.begin(page),
            },
        };
        self.streams[..=place].rotate_right(1);
    }

    /// A new stream in the place of the one that was silent for the longest time.
    fn begin(&mut self, page: u64) -> usize {
        if self.streams.len() >= self.config.streams.max(1)
            && let Some(oldest) = self.streams.pop()
        {
            self.wasted += oldest.unreached();
        }
        self.streams.push(Stream::at(page));
        self.streams.len() - 1
    }
}

#[cfg(test)]
mod tests;

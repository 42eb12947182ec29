//! The streams of a connection, and what is known of those that ended.
//!
//! A stream does not say that it ends. It is forgotten when there are too many of its kind; its length counts
//! from then on. Until then a stream that others have overtaken is taken as one that may have ended.

use crate::readahead::View;
use crate::readahead::runs::Runs;
use crate::readahead::stream::{Kind, Source, Stream};

/// Streams of each kind.
fn most(kind: Kind) -> usize {
    match kind {
        Kind::Siblings => 4,
        Kind::Entries | Kind::Chain => 2,
    }
}

#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The most recently used first.
    streams: Vec<Stream>,
    runs: [Runs; 3],
}

impl Streams {
    /// Moves the stream that the page belongs to, and asks for what it wants next. Returns its kind.
    pub fn follow(&mut self, page: u32, view: &View<'_>, ahead: &mut Vec<u32>) -> Option<Kind> {
        for (place, stream) in self.streams.iter_mut().enumerate() {
            stream.look_again(place == 0, view);
        }
        let runs = &mut self.runs;
        let follows = |stream: &mut Stream| stream.follow(page, view, &mut runs[stream.kind() as usize]);
        let place = self.streams.iter_mut().position(follows)?;
        self.streams[..=place].rotate_right(1);
        self.ask(view, ahead);
        Some(self.streams[0].kind())
    }

    /// The stream that was used last.
    pub fn in_use(&self) -> Option<&Stream> {
        self.streams.first()
    }

    /// A stream begins, of which so many pages were used.
    pub fn begin(&mut self, source: Source, run: u32, view: &View<'_>, ahead: &mut Vec<u32>) {
        let kind = source.kind();
        if self.streams.iter().filter(|stream| stream.kind() == kind).count() >= most(kind)
            && let Some(oldest) = self.streams.iter().rposition(|stream| stream.kind() == kind)
        {
            let oldest = self.streams.remove(oldest);
            if !oldest.is_done() {
                self.runs[kind as usize].end(oldest.run());
            }
        }
        self.streams.insert(0, Stream::new(source, run, view.now));
        self.ask(view, ahead);
    }

    /// Asks for the first stream.
    fn ask(&mut self, view: &View<'_>, ahead: &mut Vec<u32>) {
        let Some((first, others)) = self.streams.split_first_mut() else { return };
        let kind = first.kind();
        let idle = others.iter().filter(|other| other.kind() == kind && !other.is_done()).map(Stream::run);
        first.ask(idle, &self.runs[kind as usize], view, ahead);
    }
}

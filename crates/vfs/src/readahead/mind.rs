//! What is done about a page that is wanted.

use crate::readahead::View;
use crate::readahead::chain::{Chain, next};
use crate::readahead::entries::{Entries, Table};
use crate::readahead::node::Node;
use crate::readahead::passed::{Parents, Passed, Place};
use crate::readahead::path::Path;
use crate::readahead::reads::{Read, Reads};
use crate::readahead::siblings::Siblings;
use crate::readahead::sights::Sights;
use crate::readahead::stream::{Kind, Source, Stream};
use crate::readahead::streams::Streams;
use crate::readahead::sweep::Sweep;

/// Leaves remembered that may have overflow pages.
const LEAVES: usize = 4;
/// Index leaves looked at for an overflow page.
const INDEX_LEAVES: usize = 2;

/// Everything that is remembered of pages that were wanted.
#[derive(Debug, Default)]
pub(super) struct Mind {
    streams: Streams,
    parents: Parents,
    sights: Sights,
    reads: Reads,
    /// Children that were wanted last: leaves, mostly.
    leaves: [u32; LEAVES],
    /// The last page whose parent was not found.
    stray: u32,
    /// Beside the stream in use.
    pub sweep: Sweep,
}

impl Mind {
    /// A page is wanted: adds what to read ahead.
    pub fn wanted(&mut self, page: u32, passed: &mut Passed, view: &View<'_>, ahead: &mut Vec<u32>) {
        match self.streams.follow(page, view, ahead) {
            Some(Kind::Chain) => return,
            Some(_) => {
                let stream = self.streams.in_use();
                let run = stream.map_or(0, Stream::run);
                self.sweep.follow(page, run, || stream.and_then(|stream| stream.left(view)), view);
                return self.note_leaf(page);
            }
            None => (),
        }
        let near = self.sights.beside(page).or_else(|| self.parents.near(page, passed, view.memory));
        if near.is_none() && self.overflow(page, passed, view, ahead) {
            return;
        }
        match near.or_else(|| self.parents.far(page, passed, view.memory)) {
            Some(place) => self.child(page, place, passed, view, ahead),
            None => self.stray = page,
        }
    }

    fn note_leaf(&mut self, page: u32) {
        self.leaves.rotate_right(1);
        self.leaves[0] = page;
    }

    /// A child of a known parent is wanted.
    fn child(&mut self, page: u32, place: Place, passed: &mut Passed, view: &View<'_>, ahead: &mut Vec<u32>) {
        self.note_leaf(page);
        let path = self.parents.path(place.parent, passed, view.memory);
        if let Some(forward) = self.sights.see(place, view.memory) {
            let source = Source::Siblings(Siblings::behind(place, path, forward));
            return self.streams.begin(source, 2, view, ahead);
        }
        let mut rowids = None;
        view.memory.with(place.parent, &mut |bytes| {
            let node = Node::interior(place.parent, bytes).filter(Node::is_table_interior);
            rowids = node.map(|node| node.rowids(place.slot));
        });
        let Some(rowids) = rowids else { return };
        let table = Table { top: path.top(), levels: path.depth() };
        let Some(cause) = self.reads.see(Read { page, rowids, table }, passed, view) else { return };
        let near = self.parents.near(cause.leaf, passed, view.memory);
        let path = match near.or_else(|| self.parents.far(cause.leaf, passed, view.memory)) {
            Some(place) => self.parents.path(place.parent, passed, view.memory).below(cause.leaf),
            None => Path::new(cause.leaf),
        };
        let entries = Entries::behind(path, cause.slot, cause.forward, table);
        self.streams.begin(Source::Entries(entries), 2, view, ahead);
    }

    /// Whether the page begins a chain of overflow pages.
    fn overflow(&mut self, page: u32, passed: &Passed, view: &View<'_>, ahead: &mut Vec<u32>) -> bool {
        let leaves = passed.newest_leaves().map(|leaf| leaf.page).take(INDEX_LEAVES);
        let bytes = leaves.chain(self.leaves).filter(|leaf| *leaf != 0).find_map(|leaf| {
            let mut bytes = None;
            view.memory.with(leaf, &mut |page_bytes| {
                bytes = Node::new(leaf, page_bytes).and_then(|node| node.overflow_at(page, view.usable));
            });
            bytes
        });
        let (left, run) = match bytes {
            Some(bytes) => {
                let pages = bytes.div_ceil(view.usable.saturating_sub(4).max(1) as u64);
                (u32::try_from(pages - 1).unwrap_or(u32::MAX), 1)
            }
            None if self.stray != 0 && next(self.stray, view) == Some(page) => {
                (u32::MAX, if self.stray.checked_add(1) == Some(page) { 2 } else { 1 })
            }
            None => return false,
        };
        self.stray = 0;
        if left > 0 {
            self.streams.begin(Source::Chain(Chain::at(page, left)), run, view, ahead);
        }
        true
    }
}

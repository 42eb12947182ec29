//! Planner: what to read ahead for one connection's file.
//!
//! A demanded page has to be read, or was read ahead and is used for the first time. The planner tries in this order: a stream
//! that the page belongs to; a chain of overflow pages that the page begins; the page's parent. A child of a known parent
//! goes to the sibling detector, and then to the entry detector.
//!
//! # Invariant
//! A hit allocates nothing: a connection without demanded pages has no [`Planner`].

use crate::readahead::btree_node::Node;
use crate::readahead::entry_detector::{Entries, EntryDetector, LeafRead, Table};
use crate::readahead::file_view::{Config, FIRST_WINDOW, FileView, LONGEST_WINDOW, Memory};
use crate::readahead::full_file::FullFileReadahead;
use crate::readahead::overflow_chain::{Chain, next};
use crate::readahead::parent_index::{ParentIndex, RecentPages, TreePlace};
use crate::readahead::sibling_detector::{SiblingDetector, Siblings};
use crate::readahead::stream::{Stream, StreamKind, StreamSource, Streams};
use crate::readahead::tree_path::Path;
use litefoot_format::page::{INDEX_INTERIOR, INDEX_LEAF, LEAF, TABLE_INTERIOR};
use std::ops::Range;
use std::time::Instant;

/// Readahead for one connection's file.
#[derive(Debug, Default)]
pub struct ReadAhead {
    config: Config,
    recent: RecentPages,
    planner: Option<Box<Planner>>,
    /// When the first page was demanded.
    began: Option<Instant>,
}

impl ReadAhead {
    /// Readahead that has seen nothing.
    pub fn new(config: Config) -> ReadAhead {
        ReadAhead { config, recent: RecentPages::default(), planner: None, began: None }
    }

    /// SQLite got a page. The page's first byte tells b-tree pages apart.
    #[inline]
    pub fn note_passed(&mut self, page: u32, first_byte: u8) {
        // Table leaves pass most often.
        if first_byte & LEAF != 0 {
            if first_byte == INDEX_LEAF {
                self.recent.index_leaf(page);
            }
        } else if first_byte == TABLE_INTERIOR || first_byte == INDEX_INTERIOR {
            self.recent.interior(page);
        }
    }

    /// SQLite got an interior page.
    #[inline]
    pub fn note_passed_interior(&mut self, page: u32) {
        self.recent.interior(page);
    }

    /// A page is demanded, in a file of so many pages. To be called before the read. Adds the pages to read ahead to
    /// `requests`, in the order of their expected use.
    pub fn plan(&mut self, page: u32, pages: u32, memory: &dyn Memory, requests: &mut Vec<u32>) {
        self.recent.clock = self.recent.clock.saturating_add(1);
        let Config { usable_bytes, memory_pages, full_file_mode, system_reads_ahead } = self.config;
        let longest = (memory_pages / 8).clamp(FIRST_WINDOW, LONGEST_WINDOW);
        let (usable, now, time) =
            (usable_bytes as usize, self.recent.clock, self.began.get_or_insert_with(Instant::now).elapsed());
        let view = FileView {
            memory,
            pages,
            usable,
            memory_pages,
            longest,
            now,
            full_file_mode,
            system_reads_ahead,
            time,
        };
        let begin = requests.len();
        self.planner.get_or_insert_default().plan(page, &mut self.recent, &view, requests);
        let mut place = begin;
        while place < requests.len() {
            if requests[place] == page || !view.is_inside(requests[place]) {
                requests.remove(place);
            } else {
                place += 1;
            }
        }
    }

    /// The next pages that the system should read into its own cache. To be called until there are none.
    pub fn next_full_file_range(&mut self, pages: u32) -> Option<Range<u32>> {
        self.planner.as_mut()?.full_file.next(pages)
    }
}

/// Demanded leaves remembered, which may have overflow pages.
const LEAVES: usize = 4;
/// Index leaves searched for the beginning of a chain.
const INDEX_LEAVES: usize = 2;

/// Everything remembered of demanded pages.
#[derive(Debug, Default)]
pub(super) struct Planner {
    streams: Streams,
    parent_index: ParentIndex,
    sibling_detector: SiblingDetector,
    entry_detector: EntryDetector,
    /// Children that were demanded last: leaves, mostly.
    leaves: [u32; LEAVES],
    /// The last demanded page without a known parent.
    orphan: u32,
    /// Full-file readahead, for the stream in use.
    pub full_file: FullFileReadahead,
}

impl Planner {
    /// Plans for one demanded page.
    pub fn plan(
        &mut self,
        page: u32,
        recent: &mut RecentPages,
        view: &FileView<'_>,
        requests: &mut Vec<u32>,
    ) {
        match self.streams.follow(page, view, requests) {
            Some(StreamKind::Chain) => return,
            Some(_) => {
                let stream = self.streams.in_use();
                let run = stream.map_or(0, Stream::run);
                self.full_file.follow(page, run, || stream.and_then(|stream| stream.left(view)), view);
                return self.note_leaf(page);
            }
            None => (),
        }
        let near = self
            .sibling_detector
            .neighbour_of(page)
            .or_else(|| self.parent_index.find_near(page, recent, view.memory));
        if near.is_none() && self.begin_chain(page, recent, view, requests) {
            return;
        }
        match near.or_else(|| self.parent_index.find_far(page, recent, view.memory)) {
            Some(place) => self.plan_child(page, place, recent, view, requests),
            None => self.orphan = page,
        }
    }

    /// Remembers a demanded child.
    fn note_leaf(&mut self, page: u32) {
        self.leaves.rotate_right(1);
        self.leaves[0] = page;
    }

    /// Plans for a child of a known parent.
    fn plan_child(
        &mut self,
        page: u32,
        place: TreePlace,
        recent: &mut RecentPages,
        view: &FileView<'_>,
        requests: &mut Vec<u32>,
    ) {
        self.note_leaf(page);
        let path = self.parent_index.path(place.parent, recent, view.memory);
        if let Some(forward) = self.sibling_detector.observe(place, view.memory) {
            let source = StreamSource::Siblings(Siblings::behind(place, path, forward));
            return self.streams.begin(source, 2, view, requests);
        }
        let mut rowids = None;
        view.memory.with(place.parent, &mut |bytes| {
            let node = Node::interior(place.parent, bytes).filter(Node::is_table_interior);
            rowids = node.map(|node| node.rowids(place.slot));
        });
        let Some(rowids) = rowids else { return };
        let table = Table { top: path.top(), levels: path.depth() };
        let Some(entry) = self.entry_detector.observe(LeafRead { page, rowids, table }, recent, view) else {
            return;
        };
        let near = self.parent_index.find_near(entry.leaf, recent, view.memory);
        let path = match near.or_else(|| self.parent_index.find_far(entry.leaf, recent, view.memory)) {
            Some(place) => self.parent_index.path(place.parent, recent, view.memory).below(entry.leaf),
            None => Path::new(entry.leaf),
        };
        let entries = Entries::behind(path, entry.slot, entry.forward, table);
        self.streams.begin(StreamSource::Entries(entries), 2, view, requests);
    }

    /// Begins a chain of overflow pages at a page; `false` where the page begins none.
    fn begin_chain(
        &mut self,
        page: u32,
        recent: &RecentPages,
        view: &FileView<'_>,
        requests: &mut Vec<u32>,
    ) -> bool {
        let leaves = recent.newest_leaves().map(|leaf| leaf.page).take(INDEX_LEAVES);
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
            None if self.orphan != 0 && next(self.orphan, view) == Some(page) => {
                (u32::MAX, if self.orphan.checked_add(1) == Some(page) { 2 } else { 1 })
            }
            None => return false,
        };
        self.orphan = 0;
        if left > 0 {
            self.streams.begin(StreamSource::Chain(Chain::at(page, left)), run, view, requests);
        }
        true
    }
}

//! Parent index: which interior page is the parent of which page.
//!
//! # Why
//! A page does not know its parent. SQLite gets the parent first, though not always shortly before. A cursor keeps the pages
//! of its path. So the root passes once for each statement, and the parents of a scan's leaves pass once for all leaves. A
//! page that was found to be a parent is therefore kept apart from pages that merely passed.
//!
//! # Invariants
//! 1. A parent was seen, in memory, to have the child. Its bytes may change at any time, so every user looks again.
//! 2. A search for a parent reads at most [`RING`] + [`KNOWN`] pages, and only pages in memory.

use crate::readahead::btree_node::Node;
use crate::readahead::file_view::Memory;
use crate::readahead::tree_path::Path;

/// Interior pages remembered of those that passed.
const RING: usize = 32;
/// Index leaves remembered of those that passed.
const LEAVES: usize = 8;
/// Parents remembered.
const KNOWN: usize = 16;
/// Pages of a quick search for a parent, of each kind.
const NEAR: usize = 2;
/// Recently used parents among which the parent of a parent is searched first.
const NEAR_KNOWN: usize = 4;
/// Times that an index leaf may wrongly be taken for the cause of table reads.
const TRIES: u8 = 8;
/// Demanded pages between two full searches, after one that found nothing.
const SEARCH_PAUSE: u32 = 16;

/// An index leaf that passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexLeaf {
    pub page: u32,
    /// The clock when it passed.
    pub passed_at: u32,
    /// Times that it was wrongly taken for the cause of table reads.
    tries: u8,
}

/// Interior pages and index leaves that passed lately. This is all that a hit costs.
#[derive(Debug, Default)]
pub(super) struct RecentPages {
    interior: [u32; RING],
    interior_at: usize,
    leaves: [IndexLeaf; LEAVES],
    leaves_at: usize,
    /// Pages demanded so far.
    pub clock: u32,
}

impl RecentPages {
    /// An interior page passed.
    #[inline]
    pub fn interior(&mut self, page: u32) {
        if self.interior[self.interior_at % RING] != page {
            self.interior_at = (self.interior_at + 1) % RING;
            self.interior[self.interior_at] = page;
        }
    }

    /// An index leaf passed.
    #[inline]
    pub fn index_leaf(&mut self, page: u32) {
        if self.leaves[self.leaves_at % LEAVES].page != page {
            self.leaves_at = (self.leaves_at + 1) % LEAVES;
            self.leaves[self.leaves_at] = IndexLeaf { page, passed_at: self.clock, tries: 0 };
        }
    }

    /// Interior pages, the newest first.
    fn newest(&self) -> impl Iterator<Item = u32> {
        (0..RING).map(|age| self.interior[(self.interior_at + RING - age) % RING])
    }

    /// Tells whether no other index leaf has passed since.
    pub fn is_newest_leaf(&self, page: u32) -> bool {
        self.leaves[self.leaves_at].page == page
    }

    /// Index leaves, the newest first.
    pub fn newest_leaves(&self) -> impl Iterator<Item = IndexLeaf> {
        let age = |age| self.leaves[(self.leaves_at + LEAVES - age) % LEAVES];
        (0..LEAVES).map(age).filter(|leaf| leaf.page != 0 && leaf.tries < TRIES)
    }

    /// The leaf was wrongly taken for the cause of table reads.
    pub fn note_miss(&mut self, page: u32) {
        self.leaves.iter_mut().filter(|leaf| leaf.page == page).for_each(|leaf| leaf.tries += 1);
    }
}

/// A child's place in its b-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreePlace {
    pub parent: u32,
    pub slot: usize,
}

/// The place of `child` in `parent`; `None` where that page is not in memory or not the parent.
pub(super) fn place_in(parent: u32, child: u32, memory: &dyn Memory) -> Option<TreePlace> {
    let mut slot = None;
    if parent != 0 && parent != child {
        memory.with(parent, &mut |bytes| {
            slot = Node::interior(parent, bytes).and_then(|node| node.slot_of(child));
        });
    }
    slot.map(|slot| TreePlace { parent, slot })
}

/// A page that was found to be a parent.
#[derive(Clone, Copy, Debug, Default)]
struct Parent {
    page: u32,
    /// Its own parent; 0 while unknown.
    above: u32,
    /// A full search found no parent: it is a root, or its parent passed too long ago.
    is_top: bool,
}

/// The parents that were found, the most recently used first.
#[derive(Debug, Default)]
pub(super) struct ParentIndex {
    known: [Parent; KNOWN],
    /// The clock of the next full search.
    search_again_at: u32,
}

impl ParentIndex {
    /// Searches quickly for a page's parent: after a descent the parent passed last.
    pub fn find_near(&mut self, page: u32, recent: &RecentPages, memory: &dyn Memory) -> Option<TreePlace> {
        let known = self.known;
        let places = recent.newest().take(NEAR).chain(known.iter().take(NEAR).map(|known| known.page));
        self.first(places, page, memory)
    }

    /// Searches everything known for a page's parent. After a search that finds nothing there is a pause.
    pub fn find_far(&mut self, page: u32, recent: &RecentPages, memory: &dyn Memory) -> Option<TreePlace> {
        if recent.clock < self.search_again_at {
            return None;
        }
        let known = self.known;
        let places = known.iter().skip(NEAR).map(|known| known.page).chain(recent.newest().skip(NEAR));
        let place = self.first(places, page, memory);
        if place.is_none() {
            self.search_again_at = recent.clock.saturating_add(SEARCH_PAUSE);
        }
        place
    }

    /// The first of the pages that is the child's parent.
    fn first(
        &mut self,
        pages: impl Iterator<Item = u32>,
        child: u32,
        memory: &dyn Memory,
    ) -> Option<TreePlace> {
        let mut seen = [0; RING + KNOWN];
        let mut count = 0;
        for page in pages {
            if page == 0 || seen[..count].contains(&page) {
                continue;
            }
            if let Some(place) = place_in(page, child, memory) {
                self.bring_forward(page);
                return Some(place);
            }
            seen[count] = page;
            count += 1;
        }
        None
    }

    /// Makes a parent the most recently used; it takes the place of the oldest where it is new.
    fn bring_forward(&mut self, page: u32) {
        let found = self.known.iter().position(|known| known.page == page);
        let place = found.unwrap_or(KNOWN - 1);
        if found.is_none() {
            self.known[place] = Parent { page, ..Parent::default() };
        }
        self.known[..=place].rotate_right(1);
    }

    /// The path from a parent up to its root, as far as it is known. Its pages become the most recently used, the highest
    /// first: a root outlives the pages below it.
    pub fn path(&mut self, page: u32, recent: &RecentPages, memory: &dyn Memory) -> Path {
        let mut path = Path::new(page);
        while let Some(above) = self.above(path.top(), recent, memory) {
            if !path.push(above) {
                break;
            }
        }
        path
    }

    /// The parent of a parent.
    fn above(&mut self, page: u32, recent: &RecentPages, memory: &dyn Memory) -> Option<u32> {
        self.bring_forward(page);
        let Parent { above, is_top, .. } = self.known[0];
        if is_top {
            return None;
        }
        if place_in(above, page, memory).is_some() {
            return Some(above);
        }
        let known = self.known;
        let near = known[1..NEAR_KNOWN].iter().map(|known| known.page).chain(recent.newest().take(NEAR));
        let looked_far = recent.clock >= self.search_again_at;
        let place = self.first(near, page, memory).or_else(|| self.find_far(page, recent, memory));
        let above = place.map(|place| place.parent);
        self.bring_forward(page);
        self.known[0].above = above.unwrap_or(0);
        self.known[0].is_top = above.is_none() && looked_far;
        above
    }
}

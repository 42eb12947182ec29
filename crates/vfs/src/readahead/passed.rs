//! The pages of b-trees that SQLite came by: which page is the parent of which.
//!
//! A page does not know its parent. SQLite gets the parent first, though not always shortly before: a cursor
//! keeps the pages of its path, so the root passes once for each statement, and the parents of a scan's leaves
//! once for all of them. What was found to be a parent is therefore kept apart from what merely passed.
//!
//! # Invariants
//! 1. A parent is one that was seen, in memory, to have the child. Its bytes may change at any time: who uses
//!    it looks again.
//! 2. A look for a parent reads at most [`RING`] + [`KNOWN`] pages, and only pages in memory.

use crate::readahead::Memory;
use crate::readahead::node::Node;
use crate::readahead::path::Path;

/// Interior pages that passed last.
const RING: usize = 32;
/// Index leaves that passed last.
const LEAVES: usize = 8;
/// Pages that were found to be parents.
const KNOWN: usize = 16;
/// Where a parent is looked for first.
const NEAR: usize = 2;
/// And where the parent of a parent is: among those that were used last.
const NEAR_KNOWN: usize = 4;
/// Times that an index leaf may be taken for the cause of reads in vain.
const TRIES: u8 = 8;
/// Pages that are wanted before everything is looked through again for a parent, after that was in vain.
const REST: u32 = 16;

/// An index leaf that passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexLeaf {
    pub page: u32,
    /// Pages that had been wanted when it passed.
    pub since: u32,
    /// Times that it was not the cause of what was read.
    tries: u8,
}

/// Notes of what passed. All that is done for a hit happens here.
#[derive(Debug, Default)]
pub(super) struct Passed {
    interior: [u32; RING],
    interior_at: usize,
    leaves: [IndexLeaf; LEAVES],
    leaves_at: usize,
    /// Pages that were wanted so far.
    pub wanted: u32,
}

impl Passed {
    #[inline]
    pub fn interior(&mut self, page: u32) {
        if self.interior[self.interior_at % RING] != page {
            self.interior_at = (self.interior_at + 1) % RING;
            self.interior[self.interior_at] = page;
        }
    }

    #[inline]
    pub fn index_leaf(&mut self, page: u32) {
        if self.leaves[self.leaves_at % LEAVES].page != page {
            self.leaves_at = (self.leaves_at + 1) % LEAVES;
            self.leaves[self.leaves_at] = IndexLeaf { page, since: self.wanted, tries: 0 };
        }
    }

    /// Interior pages, the newest first.
    fn newest(&self) -> impl Iterator<Item = u32> {
        (0..RING).map(|age| self.interior[(self.interior_at + RING - age) % RING])
    }

    /// Whether no other index leaf has passed since.
    pub fn is_newest_leaf(&self, page: u32) -> bool {
        self.leaves[self.leaves_at].page == page
    }

    /// Index leaves, the newest first.
    pub fn newest_leaves(&self) -> impl Iterator<Item = IndexLeaf> {
        let age = |age| self.leaves[(self.leaves_at + LEAVES - age) % LEAVES];
        (0..LEAVES).map(age).filter(|leaf| leaf.page != 0 && leaf.tries < TRIES)
    }

    /// The leaf was not the cause of what was read.
    pub fn in_vain(&mut self, page: u32) {
        self.leaves.iter_mut().filter(|leaf| leaf.page == page).for_each(|leaf| leaf.tries += 1);
    }
}

/// A child's place in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub parent: u32,
    pub slot: usize,
}

/// Where `child` is in `parent`, if both are what they should be.
pub(super) fn place_in(parent: u32, child: u32, memory: &dyn Memory) -> Option<Place> {
    let mut slot = None;
    if parent != 0 && parent != child {
        memory.with(parent, &mut |bytes| {
            slot = Node::interior(parent, bytes).and_then(|node| node.slot_of(child));
        });
    }
    slot.map(|slot| Place { parent, slot })
}

/// A page that was found to be a parent.
#[derive(Clone, Copy, Debug, Default)]
struct Parent {
    page: u32,
    /// Its own parent; 0 while not known.
    above: u32,
    /// Its own parent was looked for everywhere: it is a root, or was left too long ago.
    is_top: bool,
}

/// The parents that were found, the most recently used first.
#[derive(Debug, Default)]
pub(super) struct Parents {
    known: [Parent; KNOWN],
    /// No far look before so many pages were wanted.
    rest_until: u32,
}

impl Parents {
    /// The page's place, where a quick look finds it: after a descent its parent passed last.
    pub fn near(&mut self, page: u32, passed: &Passed, memory: &dyn Memory) -> Option<Place> {
        let known = self.known;
        let places = passed.newest().take(NEAR).chain(known.iter().take(NEAR).map(|known| known.page));
        self.first(places, page, memory)
    }

    /// The page's place, as far as anything is known. After a look in vain there is none for a while.
    pub fn far(&mut self, page: u32, passed: &Passed, memory: &dyn Memory) -> Option<Place> {
        if passed.wanted < self.rest_until {
            return None;
        }
        let known = self.known;
        let places = known.iter().skip(NEAR).map(|known| known.page).chain(passed.newest().skip(NEAR));
        let place = self.first(places, page, memory);
        if place.is_none() {
            self.rest_until = passed.wanted.saturating_add(REST);
        }
        place
    }

    /// The first of the pages that is the parent.
    fn first(&mut self, pages: impl Iterator<Item = u32>, child: u32, memory: &dyn Memory) -> Option<Place> {
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

    fn bring_forward(&mut self, page: u32) {
        let found = self.known.iter().position(|known| known.page == page);
        let place = found.unwrap_or(KNOWN - 1);
        if found.is_none() {
            self.known[place] = Parent { page, ..Parent::default() };
        }
        self.known[..=place].rotate_right(1);
    }

    /// The way from a parent up to its root, as far as it is known. The pages on it come to the front, the
    /// highest first: a root outlives what comes and goes below it.
    pub fn path(&mut self, page: u32, passed: &Passed, memory: &dyn Memory) -> Path {
        let mut path = Path::new(page);
        while let Some(above) = self.above(path.top(), passed, memory) {
            if !path.push(above) {
                break;
            }
        }
        path
    }

    fn above(&mut self, page: u32, passed: &Passed, memory: &dyn Memory) -> Option<u32> {
        self.bring_forward(page);
        let Parent { above, is_top, .. } = self.known[0];
        if is_top {
            return None;
        }
        if place_in(above, page, memory).is_some() {
            return Some(above);
        }
        let known = self.known;
        let near = known[1..NEAR_KNOWN].iter().map(|known| known.page).chain(passed.newest().take(NEAR));
        let looked_far = passed.wanted >= self.rest_until;
        let place = self.first(near, page, memory).or_else(|| self.far(page, passed, memory));
        let above = place.map(|place| place.parent);
        self.bring_forward(page);
        self.known[0].above = above.unwrap_or(0);
        self.known[0].is_top = above.is_none() && looked_far;
        above
    }
}

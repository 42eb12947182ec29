//! Sibling detector: two neighbouring children of an interior page begin a stream of the children that follow.
//!
//! # Why
//! A scan demands the children of an interior page one after the other. Children in memory are not reported, so the second
//! child may be a few slots away, if the children between are in memory.
//!
//! # The stream
//! Behind the last child of a page come the children of the next interior page, which the page above names. A page that is
//! not in memory has to be read first, and its children wait for it.
//!
//! # Invariant
//! The detector remembers one place for each parent, and at most [`SIGHTINGS`] parents.

use crate::readahead::btree_node::Node;
use crate::readahead::file_view::{FileView, GAP, Memory};
use crate::readahead::parent_index::TreePlace;
use crate::readahead::tree_path::{Path, PathStep};
use crate::readahead::window::ReadaheadWindow;

/// Parents remembered.
const SIGHTINGS: usize = 16;

/// A demanded child.
#[derive(Clone, Copy, Debug)]
struct Sighting {
    place: TreePlace,
    /// The children before and behind it; 0 where there is none.
    neighbours: [u32; 2],
}

/// The last demanded child of each parent, the most recent first.
#[derive(Debug, Default)]
pub(super) struct SiblingDetector {
    sightings: Vec<Sighting>,
}

/// At most [`GAP`] children of a parent, from a slot on; `None` where that page is not in memory, or no interior page.
fn children(parent: u32, from: usize, memory: &dyn Memory) -> Option<[u32; GAP]> {
    let mut found = None;
    memory.with(parent, &mut |bytes| {
        found = Node::interior(parent, bytes).map(|node| {
            let child = |place| node.child(from.saturating_add(place)).unwrap_or(0);
            std::array::from_fn(child)
        });
    });
    found
}

impl SiblingDetector {
    /// The page's place, if the page is the neighbour of a demanded child.
    pub fn neighbour_of(&self, page: u32) -> Option<TreePlace> {
        self.sightings.iter().find_map(|sighting| {
            let TreePlace { parent, slot } = sighting.place;
            match sighting.neighbours {
                [_, next] if next == page => Some(TreePlace { parent, slot: slot.checked_add(1)? }),
                [previous, _] if previous == page => Some(TreePlace { parent, slot: slot.checked_sub(1)? }),
                _ => None,
            }
        })
    }

    /// A child is demanded. `Some` where that begins a stream: `true` forward, `false` backward.
    pub fn observe(&mut self, place: TreePlace, memory: &dyn Memory) -> Option<bool> {
        let known = self.sightings.iter().position(|sighting| sighting.place.parent == place.parent);
        let known = known.map(|known| self.sightings.remove(known).place.slot);
        if let Some(slot) = known
            && slot != place.slot
            && is_step(place.parent, slot.min(place.slot), slot.max(place.slot), memory)
        {
            return Some(slot < place.slot);
        }
        let first = place.slot.saturating_sub(1);
        let around = children(place.parent, first, memory)?;
        let at = place.slot - first;
        let neighbours = [if at == 0 { 0 } else { around[0] }, around[at + 1]];
        self.sightings.truncate(SIGHTINGS - 1);
        self.sightings.insert(0, Sighting { place, neighbours });
        None
    }
}

/// Tells whether the children between two slots are few, and in memory.
fn is_step(parent: u32, first: usize, last: usize, memory: &dyn Memory) -> bool {
    let between = last - first - 1;
    between == 0
        || between < GAP
            && children(parent, first + 1, memory)
                .is_some_and(|children| children[..between].iter().all(|child| memory.holds(*child)))
}

/// Children taken from a page at a time.
const BATCH: usize = 64;
/// Most children looked at for one demanded page.
const MOST_LOOKS: usize = 512;
/// The last slot of a page whose cells have not been counted yet.
const LAST: i64 = i64::MAX;

/// The children that follow a place of a b-tree, in one direction.
#[derive(Clone, Debug)]
pub(super) struct Siblings {
    /// The path to the page whose children come next.
    path: Path,
    /// The next child's slot; outside of the page behind its last child.
    slot: i64,
    forward: bool,
    /// Children of the page looked at last.
    children: usize,
    ended: bool,
}

impl Siblings {
    /// The children behind a place. The path begins with its parent.
    pub fn behind(place: TreePlace, path: Path, forward: bool) -> Siblings {
        let step = if forward { 1 } else { -1 };
        Siblings { path, slot: place.slot as i64 + step, forward, children: 0, ended: false }
    }

    /// Tells whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Fills the window with children that are not in memory, until it has `count` pages. Returns the page that has to be
    /// read before more children are known.
    pub fn fill(&mut self, count: usize, window: &mut ReadaheadWindow, view: &FileView<'_>) -> Option<u32> {
        let mut looks = 0;
        while window.len() < count && looks < MOST_LOOKS && !self.ended {
            let page = self.path.bottom();
            let mut batch = [0; BATCH];
            let batch = &mut batch[..BATCH.min(count - window.len())];
            let mut taken = None;
            let look = &mut |bytes: &[u8]| {
                taken = Node::interior(page, bytes).map(|node| self.take(&node, batch));
            };
            if !view.memory.with(page, look) {
                return Some(page);
            }
            match taken {
                Some(0) => match self.path.step(self.forward, view.usable, view.memory) {
                    PathStep::Moved(_) => self.slot = if self.forward { 0 } else { LAST },
                    PathStep::Missing(page) => return Some(page),
                    PathStep::End => self.ended = true,
                },
                Some(taken) => batch[..taken].iter().for_each(|child| window.add(*child, view)),
                None => self.ended = true,
            }
            looks += taken.unwrap_or(0).max(1);
        }
        None
    }

    /// An estimate of the children still to come, as if all pages of a level had as many children as that of the path.
    pub fn left(&self, view: &FileView<'_>) -> u64 {
        let mut each = self.children as u64;
        self.path.left(self.forward, view.memory).fold(0, |sum, (left, children)| {
            let sum = sum + left as u64 * each;
            each = each.saturating_mul(children as u64);
            sum
        })
    }

    /// Adds the pages that have to be read before `count` more children are known, `page` first.
    pub fn missing(&self, page: u32, count: usize, view: &FileView<'_>, found: &mut Vec<u32>) {
        let parents = count.div_ceil(self.children.max(1)).clamp(1, BATCH);
        found.push(page);
        self.path.neighbours(page, self.forward, parents - 1, view.memory, found);
    }

    /// Takes the next children of a page; none behind its last child.
    fn take(&mut self, node: &Node<'_>, batch: &mut [u32]) -> usize {
        if self.slot == LAST {
            self.slot = node.cells() as i64;
        }
        self.children = node.cells() + 1;
        let mut taken = 0;
        while taken < batch.len() && (0..=node.cells() as i64).contains(&self.slot) {
            batch[taken] = node.child(self.slot as usize).unwrap_or(0);
            taken += 1;
            self.slot += if self.forward { 1 } else { -1 };
        }
        taken
    }
}

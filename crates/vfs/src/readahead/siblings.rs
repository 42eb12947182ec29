//! The children of a b-tree's interior pages, one behind the other: what a scan wants next.
//!
//! Behind the last child of a page come those of the page beside it, which the page above knows. If that is
//! not in memory it has to be read first; the children wait for it.

use crate::readahead::View;
use crate::readahead::expected::Expected;
use crate::readahead::node::Node;
use crate::readahead::passed::Place;
use crate::readahead::path::{Path, Step};

/// Children looked at in one piece.
const BATCH: usize = 64;
/// Children looked at for one wanted page.
const MOST_LOOKS: usize = 512;
/// The last slot of a page that has not been looked at.
const LAST: i64 = i64::MAX;

/// A place in a tree, and a direction.
#[derive(Clone, Debug)]
pub(super) struct Siblings {
    /// The bottom is the page whose children come next.
    path: Path,
    /// The next child; outside of the page when it has no more.
    slot: i64,
    forward: bool,
    /// Children of the page before.
    children: usize,
    ended: bool,
}

impl Siblings {
    /// Those behind that place. The path begins with its parent.
    pub fn behind(place: Place, path: Path, forward: bool) -> Siblings {
        let step = if forward { 1 } else { -1 };
        Siblings { path, slot: place.slot as i64 + step, forward, children: 0, ended: false }
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Adds what is not in memory until so many pages are expected. Returns the page that has to be read
    /// first, if one does.
    pub fn foresee(&mut self, count: usize, expected: &mut Expected, view: &View<'_>) -> Option<u32> {
        let mut looks = 0;
        while expected.len() < count && looks < MOST_LOOKS && !self.ended {
            let page = self.path.bottom();
            let mut batch = [0; BATCH];
            let batch = &mut batch[..BATCH.min(count - expected.len())];
            let mut taken = None;
            let look = &mut |bytes: &[u8]| {
                taken = Node::interior(page, bytes).map(|node| self.take(&node, batch));
            };
            if !view.memory.with(page, look) {
                return Some(page);
            }
            match taken {
                Some(0) => match self.path.step(self.forward, view.usable, view.memory) {
                    Step::Moved(_) => self.slot = if self.forward { 0 } else { LAST },
                    Step::Missing(page) => return Some(page),
                    Step::End => self.ended = true,
                },
                Some(taken) => batch[..taken].iter().for_each(|child| expected.add(*child, view)),
                None => self.ended = true,
            }
            looks += taken.unwrap_or(0).max(1);
        }
        None
    }

    /// About how many children are still to come, by the pages of the path and as if all pages had as many.
    pub fn left(&self, view: &View<'_>) -> u64 {
        let mut each = self.children as u64;
        self.path.left(self.forward, view.memory).fold(0, |sum, (left, children)| {
            let sum = sum + left as u64 * each;
            each = each.saturating_mul(children as u64);
            sum
        })
    }

    /// The pages that have to be read before so many more children are known, `page` first.
    pub fn missing(&self, page: u32, count: usize, view: &View<'_>, found: &mut Vec<u32>) {
        let parents = count.div_ceil(self.children.max(1)).clamp(1, BATCH);
        found.push(page);
        self.path.beside(page, self.forward, parents - 1, view.memory, found);
    }

    /// Takes the next children of the page; none if it has no more.
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

//! Path: from a page of a b-tree up to its root, and the step from its bottom to the neighbouring page.

use crate::readahead::btree_node::Node;
use crate::readahead::file_view::Memory;

/// Most levels of a path. With the fewest children that SQLite allows, that is a b-tree of 4000 pages; with the usual some
/// hundred, no b-tree is as high.
const DEPTH: usize = 6;

/// Pages from the bottom to the top, each the parent of the page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pages: [u32; DEPTH],
    depth: usize,
}

/// The result of a step to the neighbouring page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// The path has moved. In an index, the step passed the entry between the two pages: the entry's last column, if that
    /// is an integer.
    Moved(Option<i64>),
    /// This page has to be read first.
    Missing(u32),
    /// The b-tree ends, or the path is not long enough.
    End,
}

impl Path {
    /// A path of one page.
    pub fn new(bottom: u32) -> Path {
        let mut pages = [0; DEPTH];
        pages[0] = bottom;
        Path { pages, depth: 1 }
    }

    /// The path with one more page at its bottom. A full path loses its top.
    pub fn below(&self, bottom: u32) -> Path {
        let mut path = Path::new(bottom);
        self.pages[..self.depth].iter().all(|page| path.push(*page));
        path
    }

    /// The bottom.
    pub fn bottom(&self) -> u32 {
        self.pages[0]
    }

    /// The highest known page.
    pub fn top(&self) -> u32 {
        self.pages[self.depth - 1]
    }

    /// Pages on the path.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Adds the parent of the top; `false` where the path is full, or the page is on the path already.
    pub fn push(&mut self, page: u32) -> bool {
        if self.depth == DEPTH || self.pages[..self.depth].contains(&page) {
            return false;
        }
        self.pages[self.depth] = page;
        self.depth += 1;
        true
    }

    /// Moves the bottom to the neighbouring page. Nothing moves unless every page of the new path is in memory.
    pub fn step(&mut self, forward: bool, usable: usize, memory: &dyn Memory) -> PathStep {
        for level in 1..self.depth {
            let mut found = PathStep::End;
            let mut neighbour = None;
            let look = &mut |bytes: &[u8]| {
                if let Some(node) = Node::interior(self.pages[level], bytes)
                    && let Some(slot) = node.slot_of(self.pages[level - 1])
                {
                    let to = if forward { slot.checked_add(1) } else { slot.checked_sub(1) };
                    neighbour = to.and_then(|to| node.child(to));
                    found = PathStep::Moved(
                        node.rowid(if forward { slot } else { slot.wrapping_sub(1) }, usable),
                    );
                }
            };
            if !memory.with(self.pages[level], look) {
                return PathStep::Missing(self.pages[level]);
            }
            if let (Some(page), PathStep::Moved(_)) = (neighbour, found) {
                return self.descend(level - 1, page, forward, memory).unwrap_or(found);
            }
            if found == PathStep::End {
                return PathStep::End;
            }
        }
        PathStep::End
    }

    /// The children that the stream has not come to, and all children, of each page above the bottom. The last page is the
    /// highest in memory.
    pub fn left(&self, forward: bool, memory: &dyn Memory) -> impl Iterator<Item = (usize, usize)> {
        (1..self.depth).map_while(move |level| {
            let mut found = None;
            memory.with(self.pages[level], &mut |bytes| {
                let node = Node::interior(self.pages[level], bytes);
                found = node.and_then(|node| Some((node.slot_of(self.pages[level - 1])?, node.cells())));
            });
            let (slot, cells) = found?;
            Some((if forward { cells - slot } else { slot }, cells + 1))
        })
    }

    /// Adds at most `count` neighbours of a page, if the page above the bottom is their parent.
    pub fn neighbours(
        &self,
        from: u32,
        forward: bool,
        count: usize,
        memory: &dyn Memory,
        found: &mut Vec<u32>,
    ) {
        let parent = self.pages[1];
        if self.depth == 1 || count == 0 {
            return;
        }
        memory.with(parent, &mut |bytes| {
            let Some(node) = Node::interior(parent, bytes) else { return };
            let Some(slot) = node.slot_of(from) else { return };
            let slot_at = |step| if forward { slot.checked_add(step) } else { slot.checked_sub(step) };
            found.extend((1..=count).map_while(|step| node.child(slot_at(step)?)));
        });
    }

    /// Moves a level to a page, and the levels below to the children at the edge of that page. `Some` where that fails.
    fn descend(&mut self, level: usize, page: u32, forward: bool, memory: &dyn Memory) -> Option<PathStep> {
        let mut moved = *self;
        moved.pages[level] = page;
        for level in (1..=level).rev() {
            let page = moved.pages[level];
            let mut child = None;
            let look = &mut |bytes: &[u8]| {
                child = Node::interior(page, bytes)
                    .and_then(|node| node.child(if forward { 0 } else { node.cells() }));
            };
            if !memory.with(page, look) {
                return Some(PathStep::Missing(page));
            }
            let Some(child) = child else { return Some(PathStep::End) };
            moved.pages[level - 1] = child;
        }
        *self = moved;
        None
    }
}

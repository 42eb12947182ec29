//! A way from a page of a b-tree up to its root, and the step to the page beside it.

use crate::readahead::Memory;
use crate::readahead::node::Node;

/// Levels that a path knows. With the fewest children that SQLite allows, this is a tree of 4000 pages; with the
/// usual some hundred, no tree is as high.
const DEPTH: usize = 6;

/// Pages from the bottom to the top, each the parent of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pages: [u32; DEPTH],
    depth: usize,
}

/// What came of a step to the side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There. In an index, the entry between the two pages was passed: its last integer, if it is one.
    Moved(Option<i64>),
    /// This page has to be read first.
    Missing(u32),
    /// The tree ends, or the path does not know more of it.
    End,
}

impl Path {
    pub fn new(bottom: u32) -> Path {
        let mut pages = [0; DEPTH];
        pages[0] = bottom;
        Path { pages, depth: 1 }
    }

    /// The path with one more page at its bottom. A full one loses its top.
    pub fn below(&self, bottom: u32) -> Path {
        let mut path = Path::new(bottom);
        self.pages[..self.depth].iter().all(|page| path.push(*page));
        path
    }

    pub fn bottom(&self) -> u32 {
        self.pages[0]
    }

    pub fn top(&self) -> u32 {
        self.pages[self.depth - 1]
    }

    /// Pages on the path.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Adds the parent of the top; `false` if the path is full or the page is on it.
    pub fn push(&mut self, page: u32) -> bool {
        if self.depth == DEPTH || self.pages[..self.depth].contains(&page) {
            return false;
        }
        self.pages[self.depth] = page;
        self.depth += 1;
        true
    }

    /// Moves the bottom to the page beside it. Moves nothing unless all of the way is in memory.
    pub fn step(&mut self, forward: bool, usable: usize, memory: &dyn Memory) -> Step {
        for level in 1..self.depth {
            let mut found = Step::End;
            let mut beside = None;
            let look = &mut |bytes: &[u8]| {
                if let Some(node) = Node::interior(self.pages[level], bytes)
                    && let Some(slot) = node.slot_of(self.pages[level - 1])
                {
                    let to = if forward { slot.checked_add(1) } else { slot.checked_sub(1) };
                    beside = to.and_then(|to| node.child(to));
                    found =
                        Step::Moved(node.rowid(if forward { slot } else { slot.wrapping_sub(1) }, usable));
                }
            };
            if !memory.with(self.pages[level], look) {
                return Step::Missing(self.pages[level]);
            }
            if let (Some(page), Step::Moved(_)) = (beside, found) {
                return self.descend(level - 1, page, forward, memory).unwrap_or(found);
            }
            if found == Step::End {
                return Step::End;
            }
        }
        Step::End
    }

    /// For each page above the bottom, as far up as they are in memory: how many children it has behind the one on the path,
    /// and how many in all.
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

    /// Adds the pages beside `from`, at most `count`, if the page above the bottom is their parent.
    pub fn beside(&self, from: u32, forward: bool, count: usize, memory: &dyn Memory, found: &mut Vec<u32>) {
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

    /// Puts the page on that level, and below it the children at its edge; or says what stops it.
    fn descend(&mut self, level: usize, page: u32, forward: bool, memory: &dyn Memory) -> Option<Step> {
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
                return Some(Step::Missing(page));
            }
            let Some(child) = child else { return Some(Step::End) };
            moved.pages[level - 1] = child;
        }
        *self = moved;
        None
    }
}

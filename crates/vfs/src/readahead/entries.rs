//! The table pages of an index's entries, one behind the other: what a range over an index wants next.
//!
//! An entry ends with the rowid of its row. The table's interior pages, as far as they are in memory, tell the
//! leaf. Where one is missing it has to be read first, and so have those that the following entries lack: they
//! are asked for together.

use crate::readahead::View;
use crate::readahead::expected::Expected;
use crate::readahead::node::Node;
use crate::readahead::path::{Path, Step};

/// Entries looked at for one wanted page.
const MOST_LOOKS: usize = 256;
/// The last slot of a page that has not been looked at.
const LAST: i64 = i64::MAX;

/// A table, as far as it is known: a page, and how many levels of interior pages begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub top: u32,
    pub levels: usize,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Leaf(u32),
    /// This page has to be read first.
    Missing(u32),
    /// The table is not what it seemed.
    Nowhere,
}

impl Table {
    /// The leaf where the rowid belongs.
    pub fn find(self, rowid: i64, view: &View<'_>) -> Row {
        let mut page = self.top;
        for _ in 0..self.levels {
            let mut child = None;
            let look = &mut |bytes: &[u8]| {
                let node = Node::interior(page, bytes).filter(Node::is_table_interior);
                child = node.and_then(|node| node.child_for(rowid));
            };
            if !view.memory.with(page, look) {
                return Row::Missing(page);
            }
            let Some(child) = child.filter(|child| view.is_inside(*child)) else { return Row::Nowhere };
            page = child;
        }
        Row::Leaf(page)
    }
}

/// An entry, or what is in its place.
enum Entry {
    Rowid(i64),
    /// An entry that does not end with an integer on its page.
    Other,
    /// This page has to be read first.
    Missing(u32),
    End,
}

/// A place in an index, a direction, and the table.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    /// The bottom is the index leaf.
    path: Path,
    /// The next entry; outside of the leaf when it has no more.
    slot: i64,
    /// Before it comes the entry between two leaves.
    between: Option<i64>,
    forward: bool,
    ended: bool,
    table: Table,
}

impl Entries {
    /// Those behind that slot of the path's bottom.
    pub fn behind(path: Path, slot: usize, forward: bool, table: Table) -> Entries {
        let mut entries = Entries { path, slot: slot as i64, between: None, forward, ended: false, table };
        entries.pass();
        entries
    }

    /// Whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn pass(&mut self) {
        if self.between.take().is_none() {
            self.slot = self.slot.saturating_add(if self.forward { 1 } else { -1 });
        }
    }

    /// Adds what is not in memory until so many pages are expected. Returns the page that has to be read
    /// first, if one does.
    pub fn foresee(&mut self, count: usize, expected: &mut Expected, view: &View<'_>) -> Option<u32> {
        for _ in 0..MOST_LOOKS {
            if expected.len() >= count || self.ended {
                break;
            }
            match self.entry(view) {
                Entry::Rowid(rowid) => match self.table.find(rowid, view) {
                    Row::Leaf(page) => expected.add(page, view),
                    Row::Missing(page) => return Some(page),
                    Row::Nowhere => (),
                },
                Entry::Other => (),
                Entry::Missing(page) => return Some(page),
                Entry::End => self.ended = true,
            }
            self.pass();
        }
        None
    }

    /// The interior pages that the next entries lack, each once. Stops at a leaf of the index that is missing:
    /// it is the last of the pages.
    pub fn missing(&self, entries: usize, view: &View<'_>, found: &mut Vec<u32>) {
        let mut scout = self.clone();
        let begin = found.len();
        for _ in 0..entries {
            let (missing, goes_on) = match scout.entry(view) {
                Entry::Rowid(rowid) => match scout.table.find(rowid, view) {
                    Row::Missing(page) => (Some(page), true),
                    _ => (None, true),
                },
                Entry::Other => (None, true),
                Entry::Missing(page) => (Some(page), false),
                Entry::End => (None, false),
            };
            if let Some(page) = missing.filter(|page| !found[begin..].contains(page)) {
                found.push(page);
            }
            if !goes_on {
                return;
            }
            scout.pass();
        }
    }

    /// The next entry.
    fn entry(&mut self, view: &View<'_>) -> Entry {
        if let Some(rowid) = self.between {
            return Entry::Rowid(rowid);
        }
        match self.on_leaf(view) {
            Entry::End => (),
            entry => return entry,
        }
        match self.path.step(self.forward, view.usable, view.memory) {
            Step::Moved(between) => {
                self.between = between;
                self.slot = if self.forward { 0 } else { LAST };
                between.map_or_else(|| self.on_leaf(view), Entry::Rowid)
            }
            Step::Missing(page) => Entry::Missing(page),
            Step::End => Entry::End,
        }
    }

    /// The entry on the leaf; the end if it has no more.
    fn on_leaf(&mut self, view: &View<'_>) -> Entry {
        let page = self.path.bottom();
        let mut entry = Entry::End;
        let look = &mut |bytes: &[u8]| {
            if let Some(node) = Node::new(page, bytes).filter(Node::is_index_leaf) {
                self.slot = self.slot.min(node.cells() as i64 - if self.slot == LAST { 1 } else { 0 });
                if (0..node.cells() as i64).contains(&self.slot) {
                    let rowid = node.rowid(self.slot as usize, view.usable);
                    entry = rowid.map_or(Entry::Other, Entry::Rowid);
                }
            }
        };
        if view.memory.with(page, look) { entry } else { Entry::Missing(page) }
    }
}

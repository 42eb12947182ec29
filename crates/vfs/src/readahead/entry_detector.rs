//! Entry detector: two rows of a table, side by side on an index leaf, begin a stream of the rows of the entries that follow.
//!
//! # Why
//! A range over an index reads the table in the order of the index. Two table leaves are demanded one after the other, for
//! rowids side by side on an index leaf that passed before both. Rows in memory are not reported, so a few entries may lie
//! between, if their rows are in memory.
//!
//! # The stream
//! An entry ends with the rowid of its row, and the table's interior pages name the leaf. An interior page that is not in
//! memory has to be read first. The interior pages that the following entries lack are requested together.

use crate::readahead::btree_node::{Node, Rowids, among};
use crate::readahead::file_view::{FileView, GAP};
use crate::readahead::parent_index::RecentPages;
use crate::readahead::tree_path::{Path, PathStep};
use crate::readahead::window::ReadaheadWindow;

/// Most entries looked at for one demanded page.
const MOST_LOOKS: usize = 256;
/// The last slot of a page whose cells have not been counted yet.
const LAST: i64 = i64::MAX;

/// A table, as far as it is known: its highest known page, and the levels of interior pages from there down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub top: u32,
    pub levels: usize,
}

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// On this leaf.
    Leaf(u32),
    /// Below this page, which has to be read first.
    Missing(u32),
    /// Nowhere: the table is not what it seemed.
    NotThere,
}

impl Table {
    /// Finds the leaf of a rowid.
    pub fn find(self, rowid: i64, view: &FileView<'_>) -> RowPlace {
        let mut page = self.top;
        for _ in 0..self.levels {
            let mut child = None;
            let look = &mut |bytes: &[u8]| {
                let node = Node::interior(page, bytes).filter(Node::is_table_interior);
                child = node.and_then(|node| node.child_for(rowid));
            };
            if !view.memory.with(page, look) {
                return RowPlace::Missing(page);
            }
            let Some(child) = child.filter(|child| view.is_inside(*child)) else { return RowPlace::NotThere };
            page = child;
        }
        RowPlace::Leaf(page)
    }
}

/// The next entry of an index.
enum NextEntry {
    /// Its rowid.
    Rowid(i64),
    /// An entry without an integer at its end, or with an end on an overflow page.
    Other,
    /// This page has to be read first.
    Missing(u32),
    /// The index has no more.
    End,
}

/// The entries that follow a place of an index, in one direction, and their table.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    /// The path to the index leaf.
    path: Path,
    /// The next entry's slot; outside of the leaf behind its last entry.
    slot: i64,
    /// The entry between two leaves, which comes before that slot.
    between: Option<i64>,
    forward: bool,
    ended: bool,
    table: Table,
}

impl Entries {
    /// The entries behind a slot of the path's bottom.
    pub fn behind(path: Path, slot: usize, forward: bool, table: Table) -> Entries {
        let mut entries = Entries { path, slot: slot as i64, between: None, forward, ended: false, table };
        entries.pass();
        entries
    }

    /// Tells whether nothing follows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Moves past the next entry.
    fn pass(&mut self) {
        if self.between.take().is_none() {
            self.slot = self.slot.saturating_add(if self.forward { 1 } else { -1 });
        }
    }

    /// Fills the window with leaves that are not in memory, until it has `count` pages. Returns the page that has to be read
    /// before more rows are known.
    pub fn fill(&mut self, count: usize, window: &mut ReadaheadWindow, view: &FileView<'_>) -> Option<u32> {
        for _ in 0..MOST_LOOKS {
            if window.len() >= count || self.ended {
                break;
            }
            match self.entry(view) {
                NextEntry::Rowid(rowid) => match self.table.find(rowid, view) {
                    RowPlace::Leaf(page) => window.add(page, view),
                    RowPlace::Missing(page) => return Some(page),
                    RowPlace::NotThere => (),
                },
                NextEntry::Other => (),
                NextEntry::Missing(page) => return Some(page),
                NextEntry::End => self.ended = true,
            }
            self.pass();
        }
        None
    }

    /// Adds the interior pages that the next entries lack, each once. A missing index leaf ends the search, and is the last
    /// of the pages.
    pub fn missing(&self, entries: usize, view: &FileView<'_>, found: &mut Vec<u32>) {
        let mut scout = self.clone();
        let begin = found.len();
        for _ in 0..entries {
            let (missing, goes_on) = match scout.entry(view) {
                NextEntry::Rowid(rowid) => match scout.table.find(rowid, view) {
                    RowPlace::Missing(page) => (Some(page), true),
                    _ => (None, true),
                },
                NextEntry::Other => (None, true),
                NextEntry::Missing(page) => (Some(page), false),
                NextEntry::End => (None, false),
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

    /// The next entry, on this leaf, on the next, or between both.
    fn entry(&mut self, view: &FileView<'_>) -> NextEntry {
        if let Some(rowid) = self.between {
            return NextEntry::Rowid(rowid);
        }
        match self.on_leaf(view) {
            NextEntry::End => (),
            entry => return entry,
        }
        match self.path.step(self.forward, view.usable, view.memory) {
            PathStep::Moved(between) => {
                self.between = between;
                self.slot = if self.forward { 0 } else { LAST };
                between.map_or_else(|| self.on_leaf(view), NextEntry::Rowid)
            }
            PathStep::Missing(page) => NextEntry::Missing(page),
            PathStep::End => NextEntry::End,
        }
    }

    /// The next entry on the leaf; the end behind its last entry.
    fn on_leaf(&mut self, view: &FileView<'_>) -> NextEntry {
        let page = self.path.bottom();
        let mut entry = NextEntry::End;
        let look = &mut |bytes: &[u8]| {
            if let Some(node) = Node::new(page, bytes).filter(Node::is_index_leaf) {
                self.slot = self.slot.min(node.cells() as i64 - if self.slot == LAST { 1 } else { 0 });
                if (0..node.cells() as i64).contains(&self.slot) {
                    let rowid = node.rowid(self.slot as usize, view.usable);
                    entry = rowid.map_or(NextEntry::Other, NextEntry::Rowid);
                }
            }
        };
        if view.memory.with(page, look) { entry } else { NextEntry::Missing(page) }
    }
}

/// Table reads remembered.
const LEAF_READS: usize = 4;
/// Most index leaves looked at for one demanded page.
const LEAVES: usize = 2;
/// Misses at older leaves in a row, after which older leaves are looked at only once in as many demanded pages.
const MISSES_TO_PAUSE: u32 = 16;

/// A demanded table leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafRead {
    pub page: u32,
    /// The rowids that the leaf may hold.
    pub rowids: Rowids,
    pub table: Table,
}

/// An entry on an index leaf, and the direction of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryPlace {
    pub leaf: u32,
    pub slot: usize,
    pub forward: bool,
}

/// The entry detector.
#[derive(Debug, Default)]
pub(super) struct EntryDetector {
    /// Demanded table leaves, the newest first, with the clock of each.
    recent_reads: [Option<(LeafRead, u32)>; LEAF_READS],
    /// Misses at leaves other than the newest, in a row.
    misses: u32,
}

impl EntryDetector {
    /// A table leaf is demanded. Returns the entry of its row, if that continues a range.
    pub fn observe(
        &mut self,
        read: LeafRead,
        recent: &mut RecentPages,
        view: &FileView<'_>,
    ) -> Option<EntryPlace> {
        let earlier =
            self.recent_reads.iter().flatten().find(|(earlier, _)| earlier.table.top == read.table.top);
        let earlier = earlier.copied().filter(|(earlier, _)| earlier.page != read.page);
        self.recent_reads.rotate_right(1);
        self.recent_reads[0] = Some((read, recent.clock));
        let (earlier, at) = earlier?;
        self.entry_of(&earlier, &read, at, recent, view)
    }

    /// The entry on an index leaf that passed before the earlier read. In a join, other leaves pass in between. They also do
    /// where each read has an index leaf of its own, and then a look at an older leaf is a miss.
    fn entry_of(
        &mut self,
        earlier: &LeafRead,
        now: &LeafRead,
        at: u32,
        recent: &mut RecentPages,
        view: &FileView<'_>,
    ) -> Option<EntryPlace> {
        let mut leaves = [0; LEAVES];
        let older = recent.newest_leaves().filter(|leaf| leaf.passed_at < at).map(|leaf| leaf.page);
        leaves.iter_mut().zip(older).for_each(|(place, leaf)| *place = leaf);
        for leaf in leaves.into_iter().filter(|leaf| *leaf != 0) {
            let is_newest = recent.is_newest_leaf(leaf);
            if !is_newest && self.misses >= MISSES_TO_PAUSE && !recent.clock.is_multiple_of(MISSES_TO_PAUSE) {
                continue;
            }
            if let Some((from, slot)) = side_by_side(leaf, earlier.rowids, now.rowids, view) {
                let between = from.min(slot) + 1..from.max(slot);
                if between.into_iter().all(|slot| is_in_memory(leaf, slot, now.table, view)) {
                    self.misses = 0;
                    return Some(EntryPlace { leaf, slot, forward: from < slot });
                }
            }
            recent.note_miss(leaf);
            self.misses = self.misses.saturating_add(u32::from(!is_newest));
        }
        None
    }
}

/// The slots of two near entries, the first of the earlier read and the second of this one.
fn side_by_side(leaf: u32, earlier: Rowids, now: Rowids, view: &FileView<'_>) -> Option<(usize, usize)> {
    let mut found = None;
    view.memory.with(leaf, &mut |bytes| {
        let Some(node) = Node::new(leaf, bytes).filter(Node::is_index_leaf) else { return };
        let (mut last_earlier, mut last_now) = (None::<usize>, None::<usize>);
        for slot in 0..node.cells() {
            let Some(rowid) = node.rowid(slot, view.usable) else { continue };
            let is_near = |other: &usize| slot - other <= GAP;
            if among(now, rowid) {
                last_now = Some(slot);
                found = last_earlier.filter(is_near).map(|from| (from, slot));
            } else if among(earlier, rowid) {
                last_earlier = Some(slot);
                found = last_now.filter(is_near).map(|to| (slot, to));
            }
            if found.is_some() {
                return;
            }
        }
    });
    found
}

/// Tells whether the row of an entry is in memory.
fn is_in_memory(leaf: u32, slot: usize, table: Table, view: &FileView<'_>) -> bool {
    let mut rowid = None;
    view.memory.with(leaf, &mut |bytes| {
        rowid = Node::new(leaf, bytes).and_then(|node| node.rowid(slot, view.usable));
    });
    rowid.is_some_and(|rowid| match table.find(rowid, view) {
        RowPlace::Leaf(page) => view.memory.holds(page),
        _ => false,
    })
}

//! Which index leaf causes the reads of a table.
//!
//! Two table leaves that are wanted one behind the other, for rowids side by side on an index leaf that passed
//! before both: a range over the index goes on there. Pages in memory are not reported, so a few entries may lie
//! between, if their rows are in memory.

use crate::readahead::View;
use crate::readahead::entries::{Row, Table};
use crate::readahead::node::{Node, Rowids, among};
use crate::readahead::passed::Passed;
use crate::readahead::sights::GAP;

/// Reads remembered.
const READS: usize = 4;
/// Index leaves that are looked at for one wanted page.
const LEAVES: usize = 2;
/// Looks in vain at leaves other than the newest, after which such a look is taken only once in as many reads.
const PATIENCE: u32 = 16;

/// A table leaf that was wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub page: u32,
    pub rowids: Rowids,
    pub table: Table,
}

/// A place on an index leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    pub leaf: u32,
    pub slot: usize,
    pub forward: bool,
}

/// Table leaves that were wanted, the newest first.
#[derive(Debug, Default)]
pub(super) struct Reads {
    reads: [Option<(Read, u32)>; READS],
    /// Looks in vain at leaves other than the newest, in a row.
    in_vain: u32,
}

impl Reads {
    /// A table leaf is wanted. Returns the entry that it belongs to, if it continues a range.
    pub fn see(&mut self, read: Read, passed: &mut Passed, view: &View<'_>) -> Option<Cause> {
        let earlier = self.reads.iter().flatten().find(|(earlier, _)| earlier.table.top == read.table.top);
        let earlier = earlier.copied().filter(|(earlier, _)| earlier.page != read.page);
        self.reads.rotate_right(1);
        self.reads[0] = Some((read, passed.wanted));
        let (earlier, at) = earlier?;
        self.cause_of(&earlier, &read, at, passed, view)
    }

    /// The entry on a leaf that passed before the earlier read. With joins, other leaves pass in between; but
    /// so they do when each read has an index leaf of its own, and then the older ones are looked at in vain.
    fn cause_of(
        &mut self,
        earlier: &Read,
        now: &Read,
        at: u32,
        passed: &mut Passed,
        view: &View<'_>,
    ) -> Option<Cause> {
        let mut leaves = [0; LEAVES];
        let older = passed.newest_leaves().filter(|leaf| leaf.since < at).map(|leaf| leaf.page);
        leaves.iter_mut().zip(older).for_each(|(place, leaf)| *place = leaf);
        for leaf in leaves.into_iter().filter(|leaf| *leaf != 0) {
            let is_newest = passed.is_newest_leaf(leaf);
            if !is_newest && self.in_vain >= PATIENCE && !passed.wanted.is_multiple_of(PATIENCE) {
                continue;
            }
            if let Some((from, slot)) = side_by_side(leaf, earlier.rowids, now.rowids, view) {
                let between = from.min(slot) + 1..from.max(slot);
                if between.into_iter().all(|slot| is_in_memory(leaf, slot, now.table, view)) {
                    self.in_vain = 0;
                    return Some(Cause { leaf, slot, forward: from < slot });
                }
            }
            passed.in_vain(leaf);
            self.in_vain = self.in_vain.saturating_add(u32::from(!is_newest));
        }
        None
    }
}

/// Two entries near each other, the first of `earlier` and the second of `now`.
fn side_by_side(leaf: u32, earlier: Rowids, now: Rowids, view: &View<'_>) -> Option<(usize, usize)> {
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

/// Whether the row of that entry is in memory.
fn is_in_memory(leaf: u32, slot: usize, table: Table, view: &View<'_>) -> bool {
    let mut rowid = None;
    view.memory.with(leaf, &mut |bytes| {
        rowid = Node::new(leaf, bytes).and_then(|node| node.rowid(slot, view.usable));
    });
    rowid.is_some_and(|rowid| match table.find(rowid, view) {
        Row::Leaf(page) => view.memory.holds(page),
        _ => false,
    })
}

//! One page of a b-tree, read without trust: every look is bounds-checked, so bytes of any kind give a wrong
//! page number at worst. (SQLite's file format, section 1.6.)

use crate::readahead::record::{be16, be32, last_integer, local_bytes, varint};

/// The bit of a page's first byte that tells leaves.
pub(crate) const LEAF: u8 = 0x08;
pub(super) const INDEX_INTERIOR: u8 = 0x02;
pub(super) const TABLE_INTERIOR: u8 = 0x05;
pub(super) const INDEX_LEAF: u8 = INDEX_INTERIOR | LEAF;
pub(super) const TABLE_LEAF: u8 = TABLE_INTERIOR | LEAF;

/// The rowids of a table leaf: more than the first, up to the second; `None` where its parent does not say.
pub(crate) type Rowids = (Option<i64>, Option<i64>);

/// Whether the rowid is among them.
pub(crate) fn among(rowids: Rowids, rowid: i64) -> bool {
    rowids.0.is_none_or(|low| rowid > low) && rowids.1.is_none_or(|high| rowid <= high)
}

/// A page of a b-tree.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    bytes: &'a [u8],
    kind: u8,
    cells: usize,
    /// Where the cell pointers begin.
    pointers: usize,
    /// The child behind the last cell; 0 for leaves.
    right: u32,
}

impl<'a> Node<'a> {
    /// The page as a node, if its first byte says so.
    pub fn new(page: u32, bytes: &'a [u8]) -> Option<Node<'a>> {
        let header = if page == 1 { 100 } else { 0 };
        let kind = *bytes.get(header)?;
        let (pointers, right) = match kind {
            INDEX_INTERIOR | TABLE_INTERIOR => (header + 12, be32(bytes, header + 8)?),
            INDEX_LEAF | TABLE_LEAF => (header + 8, 0),
            _ => return None,
        };
        // A cell takes 4 bytes and its pointer 2.
        let cells = be16(bytes, header + 3)?.min(bytes.len() / 6);
        Some(Node { bytes, kind, cells, pointers, right })
    }

    /// The page as an interior node.
    pub fn interior(page: u32, bytes: &'a [u8]) -> Option<Node<'a>> {
        Node::new(page, bytes).filter(|node| matches!(node.kind, INDEX_INTERIOR | TABLE_INTERIOR))
    }

    pub fn is_table_interior(&self) -> bool {
        self.kind == TABLE_INTERIOR
    }

    pub fn is_index_leaf(&self) -> bool {
        self.kind == INDEX_LEAF
    }

    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The cell and all bytes behind it.
    fn cell(&self, slot: usize) -> Option<&'a [u8]> {
        if slot >= self.cells {
            return None;
        }
        self.bytes.get(be16(self.bytes, self.pointers + 2 * slot)?..)
    }

    /// The child in that slot of an interior node. The slot behind the last cell is the right-most child.
    pub fn child(&self, slot: usize) -> Option<u32> {
        if slot == self.cells {
            return Some(self.right);
        }
        be32(self.cell(slot)?, 0)
    }

    /// The slot of a child.
    pub fn slot_of(&self, child: u32) -> Option<usize> {
        (0..=self.cells).find(|slot| self.child(*slot) == Some(child))
    }

    /// The largest rowid in the child of a table's interior node; `None` for the right-most.
    fn key(&self, slot: usize) -> Option<i64> {
        varint(self.cell(slot)?.get(4..)?).map(|(key, _)| key.cast_signed())
    }

    /// The rowids in the child of a table's interior node.
    pub fn rowids(&self, slot: usize) -> Rowids {
        (slot.checked_sub(1).and_then(|before| self.key(before)), self.key(slot))
    }

    /// The child of a table's interior node where the rowid belongs.
    pub fn child_for(&self, rowid: i64) -> Option<u32> {
        let (mut first, mut end) = (0, self.cells);
        while first < end {
            let middle = first + (end - first) / 2;
            if self.key(middle)? < rowid {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        self.child(first)
    }

    /// The payload's size, and the cell from its payload on.
    fn payload(&self, slot: usize) -> Option<(u64, &'a [u8])> {
        let cell = self.cell(slot)?.get(if self.kind == INDEX_INTERIOR { 4 } else { 0 }..)?;
        let (size, length) = varint(cell)?;
        let rest = cell.get(length..)?;
        if self.kind != TABLE_LEAF {
            return Some((size, rest));
        }
        let (_, length) = varint(rest)?;
        Some((size, rest.get(length..)?))
    }

    /// The integer that ends the record of an index's cell; `None` where it lies on an overflow page.
    pub fn rowid(&self, slot: usize, usable: usize) -> Option<i64> {
        if !matches!(self.kind, INDEX_LEAF | INDEX_INTERIOR) {
            return None;
        }
        let (size, bytes) = self.payload(slot)?;
        last_integer(bytes.get(..local_bytes(size, usable, false))?)
    }

    /// Bytes on overflow pages of the leaf's cell whose first overflow page this is.
    pub fn overflow_at(&self, page: u32, usable: usize) -> Option<u64> {
        if !matches!(self.kind, TABLE_LEAF | INDEX_LEAF) {
            return None;
        }
        (0..self.cells).find_map(|slot| {
            let (size, bytes) = self.payload(slot)?;
            let local = local_bytes(size, usable, self.kind == TABLE_LEAF);
            (size > local as u64 && be32(bytes, local) == Some(page)).then(|| size - local as u64)
        })
    }
}

//! One page of a b-tree, and the records in its cells, read without trust.
//!
//! # Invariant
//! The bytes may be anything, and may change between two looks. Every look is bounds-checked by itself, so wrong bytes give a
//! wrong page number at worst. (SQLite's file format, sections 1.6 and 2.1.)

use litefoot_format::cell::local_bytes;
use litefoot_format::number::{be16, be32, varint};
use litefoot_format::page::{FILE_HEADER_BYTES, INDEX_INTERIOR, INDEX_LEAF, TABLE_INTERIOR, TABLE_LEAF};
use litefoot_format::serial::{integer, value_bytes};

/// Most columns of a record that are looked at; a longer record is not understood.
const MOST_COLUMNS: usize = 64;

/// The last column of a record, if it is an integer: the rowid, in an index of a rowid table.
///
/// The slice begins with the record, and may end earlier where the rest lies on overflow pages.
pub(super) fn last_integer(record: &[u8]) -> Option<i64> {
    let (header, rest) = varint(record)?;
    let header = usize::try_from(header).ok()?;
    let mut serials = rest.get(..header.checked_sub(record.len() - rest.len())?)?;
    let mut value = header;
    for _ in 0..MOST_COLUMNS {
        let (serial, behind) = varint(serials)?;
        serials = behind;
        if serials.is_empty() {
            return integer(serial, record.get(value..)?);
        }
        value = value.checked_add(value_bytes(serial)?)?;
    }
    None
}

/// The rowids of a table leaf: more than the first, up to the second; `None` where its parent does not say.
pub(crate) type Rowids = (Option<i64>, Option<i64>);

/// Tells whether a rowid is among them.
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
        let header = if page == 1 { FILE_HEADER_BYTES } else { 0 };
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
        let (size, rest) = varint(cell)?;
        if self.kind != TABLE_LEAF {
            return Some((size, rest));
        }
        Some((size, varint(rest)?.1))
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const PAGE_BYTES: usize = 1024;

    /// A b-tree page with those cells.
    pub fn page(kind: u8, cells: &[Vec<u8>], right: u32) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        bytes[0] = kind;
        bytes[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
        let mut pointers = 8;
        if matches!(kind, TABLE_INTERIOR | INDEX_INTERIOR) {
            bytes[8..12].copy_from_slice(&right.to_be_bytes());
            pointers = 12;
        }
        let mut end = PAGE_BYTES;
        for (slot, cell) in cells.iter().enumerate() {
            end -= cell.len();
            bytes[end..end + cell.len()].copy_from_slice(cell);
            bytes[pointers + 2 * slot..][..2].copy_from_slice(&(end as u16).to_be_bytes());
        }
        bytes
    }

    fn as_varint(value: u64) -> Vec<u8> {
        let mut bytes = vec![(value & 0x7f) as u8];
        let mut rest = value >> 7;
        while rest > 0 {
            bytes.insert(0, (rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes
    }

    /// A table's interior page: children with the largest rowid of each, and the right-most child.
    pub fn table_interior(children: &[(u32, u64)], right: u32) -> Vec<u8> {
        let cell = |(child, key): &(u32, u64)| [&child.to_be_bytes()[..], &as_varint(*key)].concat();
        page(TABLE_INTERIOR, &children.iter().map(cell).collect::<Vec<_>>(), right)
    }

    /// An index entry: a text of four bytes, and a rowid of two.
    pub fn entry(rowid: i16) -> Vec<u8> {
        [&[9, 3, 21, 2][..], b"text", &rowid.to_be_bytes()].concat()
    }

    pub fn index_leaf(rowids: &[i16]) -> Vec<u8> {
        let cells: Vec<_> = rowids.iter().map(|rowid| [&[9][..], &entry(*rowid)[1..]].concat()).collect();
        page(INDEX_LEAF, &cells, 0)
    }

    #[test]
    fn records_end_with_integers_or_not() {
        for (record, value) in [
            (&[2, 1, 5][..], Some(5)),
            (&[2, 1, 0xff], Some(-1)),
            (&[2, 8], Some(0)),
            (&[2, 9], Some(1)),
            (&[2, 0], None),
            (&[3, 13, 2, 0x80, 0], Some(-32768)),
            (&[3, 15, 3, b'a', 1, 0, 0], Some(65536)),
            (&[2, 4, 0x7f, 0xff, 0xff, 0xff], Some(0x7fff_ffff)),
            (&[2, 5, 0, 1, 0, 0, 0, 0], Some(1 << 32)),
            (&[2, 6, 0x80, 0, 0, 0, 0, 0, 0, 0], Some(i64::MIN)),
            (&[2, 7, 0, 0, 0, 0, 0, 0, 0, 0], None),
            (&[2, 15, b'x'], None),
            (&[2, 2, 1], None),
            (&[3, 10, 1, 5], None),
            (&[9, 1, 5], None),
            (&[0], None),
            (&[1], None),
            (&[], None),
        ] {
            assert_eq!(last_integer(record), value, "{record:?}");
        }
    }

    #[test]
    fn nodes_name_their_children() {
        let bytes = table_interior(&[(10, 100), (11, 200), (12, 300)], 13);
        let node = Node::interior(5, &bytes).unwrap();
        let children: Vec<_> = (0..5).map(|slot| node.child(slot)).collect();
        assert_eq!(children, [Some(10), Some(11), Some(12), Some(13), None]);
        assert_eq!([10, 13, 14].map(|child| node.slot_of(child)), [Some(0), Some(3), None]);
        for (rowid, child) in [(-5, 10), (100, 10), (101, 11), (300, 12), (301, 13)] {
            assert_eq!(node.child_for(rowid), Some(child), "{rowid}");
        }
        let rowids = [(None, Some(100)), (Some(100), Some(200)), (Some(200), Some(300)), (Some(300), None)];
        assert_eq!([0, 1, 2, 3].map(|slot| node.rowids(slot)), rowids);

        let bytes = index_leaf(&[7, -8]);
        let node = Node::new(6, &bytes).unwrap();
        assert_eq!([0, 1, 2].map(|slot| node.rowid(slot, PAGE_BYTES)), [Some(7), Some(-8), None]);
        assert!(Node::interior(6, &bytes).is_none());

        // Page 1 has its header behind the file's.
        let mut first = vec![0; 100];
        first.extend(&table_interior(&[(3, 1)], 4)[..PAGE_BYTES - 100]);
        assert!(Node::interior(1, &first).is_some_and(|node| node.child(1) == Some(4)));
    }

    #[test]
    fn overflow_pages_belong_to_a_cell() {
        let cell = [&[0x8f, 0x50, 1][..], &[0; 489], &77u32.to_be_bytes()].concat();
        let mut bytes = vec![0; 4096];
        bytes[0] = TABLE_LEAF;
        bytes[4] = 1;
        bytes[8..10].copy_from_slice(&1000u16.to_be_bytes());
        // 2000 bytes fit on a page of 4096, and not on one of 1024.
        bytes[1000..1000 + cell.len()].copy_from_slice(&cell);
        let node = Node::new(9, &bytes).unwrap();
        assert_eq!(node.overflow_at(77, 4096), None);
        let least = (1024 - 12) * 32 / 255 - 23;
        let local = least + (2000 - least) % 1020;
        assert_eq!(local_bytes(2000, 1024, true), if local <= 989 { local } else { least });
        bytes[1003 + local..][..4].copy_from_slice(&78u32.to_be_bytes());
        let node = Node::new(9, &bytes).unwrap();
        assert_eq!(node.overflow_at(78, 1024), Some(2000 - local as u64));
        assert_eq!(node.overflow_at(79, 1024), None);
    }
}

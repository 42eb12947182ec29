//! One page of a b-tree (file format, section 1.6), with all that can be checked about it alone.
//!
//! # Invariants
//! 1. The cells of a [`Page`] lie behind its cell pointers, inside the usable bytes, and overlap nowhere.
//! 2. Rowids on a page of a table ascend.

use litefoot_format::cell::local_bytes;
use litefoot_format::number::{be16, be32, varint};
use litefoot_format::page::{
    FILE_HEADER_BYTES, INDEX_INTERIOR, INDEX_LEAF, LEAF, TABLE_INTERIOR, TABLE_LEAF,
};

/// The reason that bytes are no page.
pub(crate) type Odd = &'static str;

/// A cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    /// The child with smaller keys; 0 on leaves.
    pub child: u32,
    /// 0 in indexes.
    pub rowid: i64,
    /// Bytes of the record; 0 on interior pages of tables.
    pub payload: usize,
    /// Those of them that are on the page.
    pub local: &'a [u8],
    /// The first page with the others; 0 for none.
    pub overflow: u32,
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    kind: u8,
    pub cells: Vec<Cell<'a>>,
    /// The child behind the last cell; 0 on leaves.
    pub right: u32,
}

impl<'a> Page<'a> {
    /// Takes apart the usable bytes of a page; `most` is the longest record that there can be.
    pub fn parse(number: u32, bytes: &'a [u8], most: usize) -> Result<Page<'a>, Odd> {
        const SHORT: Odd = "its cells are more than it can have";
        let at = if number == 1 { FILE_HEADER_BYTES } else { 0 };
        let kind = *bytes.get(at).ok_or(SHORT)?;
        let header = match kind {
            INDEX_LEAF | TABLE_LEAF => 8,
            INDEX_INTERIOR | TABLE_INTERIOR => 12,
            _ => return Err("it is no page of a b-tree"),
        };
        let count = be16(bytes, at + 3).ok_or(SHORT)?;
        let pointers_end = at + header + 2 * count;
        let pointers = bytes.get(at + header..pointers_end).ok_or(SHORT)?.as_chunks::<2>().0;
        let right = if kind & LEAF == 0 { be32(bytes, at + 8).ok_or(SHORT)? } else { 0 };
        let mut cells = Vec::with_capacity(count);
        let mut places = Vec::with_capacity(count);
        for pointer in pointers {
            let start = usize::from(u16::from_be_bytes(*pointer));
            let rest = bytes.get(start..).filter(|_| start >= pointers_end).ok_or("a cell lies outside")?;
            let (cell, behind) = cell(kind, rest, bytes.len(), most)?;
            cells.push(cell);
            places.push((start, bytes.len() - behind.len()));
        }
        places.sort_unstable();
        if places.windows(2).any(|two| two[0].1 > two[1].0) {
            return Err("two cells overlap");
        }
        let page = Page { kind, cells, right };
        if page.is_table() && page.cells.windows(2).any(|two| two[0].rowid >= two[1].rowid) {
            return Err("its rowids do not ascend");
        }
        Ok(page)
    }

    pub fn is_leaf(&self) -> bool {
        self.kind & LEAF != 0
    }

    /// True for trees of rowids.
    pub fn is_table(&self) -> bool {
        matches!(self.kind, TABLE_LEAF | TABLE_INTERIOR)
    }
}

/// The cell at the beginning of the bytes, and what is behind it.
fn cell(kind: u8, bytes: &[u8], usable: usize, most: usize) -> Result<(Cell<'_>, &[u8]), Odd> {
    const CUT: Odd = "a cell is cut off";
    let (child, rest) = match kind & LEAF {
        0 => (be32(bytes, 0).ok_or(CUT)?, &bytes[4..]),
        _ => (0, bytes),
    };
    if kind == TABLE_INTERIOR {
        let (rowid, rest) = varint(rest).ok_or(CUT)?;
        return Ok((Cell { child, rowid: rowid.cast_signed(), payload: 0, local: &[], overflow: 0 }, rest));
    }
    let (payload, rest) = varint(rest).ok_or(CUT)?;
    let payload = usize::try_from(payload).ok().filter(|bytes| *bytes <= most);
    let payload = payload.ok_or("a record is longer than the database")?;
    let (rowid, rest) = match kind {
        TABLE_LEAF => varint(rest).ok_or(CUT)?,
        _ => (0, rest),
    };
    let local = local_bytes(payload as u64, usable, kind == TABLE_LEAF);
    let (local, rest) = rest.split_at_checked(local).ok_or(CUT)?;
    let (overflow, rest) = match local.len() == payload {
        true => (0, rest),
        false => (be32(rest, 0).ok_or(CUT)?, &rest[4..]),
    };
    if overflow == 0 && local.len() < payload {
        return Err("a record has no overflow page");
    }
    Ok((Cell { child, rowid: rowid.cast_signed(), payload, local, overflow }, rest))
}

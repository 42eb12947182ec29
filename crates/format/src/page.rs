//! The kinds of b-tree pages (file format, section 1.6): the first byte of their header.

/// The bit that marks a leaf.
pub const LEAF: u8 = 0x08;
/// An interior page of an index, or of a table without rowids.
pub const INDEX_INTERIOR: u8 = 0x02;
/// An interior page of a table with rowids.
pub const TABLE_INTERIOR: u8 = 0x05;
/// A leaf of an index, or of a table without rowids.
pub const INDEX_LEAF: u8 = INDEX_INTERIOR | LEAF;
/// A leaf of a table with rowids.
pub const TABLE_LEAF: u8 = TABLE_INTERIOR | LEAF;
/// Bytes of the database's own header, which stands before the header of page 1.
pub const FILE_HEADER_BYTES: usize = 100;

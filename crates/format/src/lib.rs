//! SQLite's file format, as far as more than one reader of litefoot needs it (<https://www.sqlite.org/fileformat2.html>).
//!
//! # Why
//! Reading ahead, parallel scans and the row differ all look into b-tree pages, without SQLite. What they share is here, and
//! how far each of them trusts a page is its own affair.
//!
//! # Invariant
//! The bytes may be anything, and may change between two looks. Every look is bounds-checked by itself.
//!
//! | module | holds |
//! |---|---|
//! | [`affinity`] | the type that a column turns values into |
//! | [`number`] | big-endian numbers, and those of variable length |
//! | [`page`] | the kinds of pages |
//! | [`cell`] | the part of a payload that its page holds |
//! | [`serial`] | the serial types of a record's values |
//! | [`words`] | a statement as words |

pub mod affinity;
pub mod cell;
pub mod number;
pub mod page;
pub mod serial;
pub mod words;

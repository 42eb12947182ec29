//! Operators on pages: scan, group by, hash join, graph load and traversal.
//!
//! # Why
//! They are the measure of a page engine (SMILE, sections 4.2 and 5.1). A scan asks the pool for pages as fast as it
//! can, a traversal in no order.
//!
//! # What they promise
//! 1. Each runs on all workers, and its result does not depend on how many there are.
//! 2. A worker pins at most two pages at a time, so an operator works with a pool of a few pages.
//! 3. Counts have 64 bits, sums wrap nowhere a database of less than 2^56 bytes can reach.
//! 4. They see pages through [`Pages`] only.
//!
//! # What they do not do
//! Isolate themselves from others who write the same pages meanwhile. Each page is seen whole; the set of pages is not
//! a snapshot.

pub mod graph;
mod group_by;
mod hash_join;
mod parallel;
mod scan;

pub use crate::pages::{Error, Extents, Pages, PagesMut, Result};
pub use group_by::{Groups, group_by};
pub use hash_join::{Join, hash_join};
pub use scan::{Filtered, above, filter, scan};

#[cfg(test)]
mod tests;

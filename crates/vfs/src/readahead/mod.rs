//! Readahead: which pages of a database SQLite will demand next. A decision, no I/O.
//!
//! # Why
//! A page that is read before its demand costs no wait. In a database, the next page is seldom the page behind in the file.
//! Rows inserted in another order than that of their keys leave a b-tree whose neighbours lie anywhere. A prefetcher of
//! consecutive pages reads such a file many times over. The b-tree itself tells what follows: an interior page names its
//! children in order.
//!
//! ```text
//! planner                 one demanded page: stream, chain, sibling or entry?
//! stream                  where the next pages come from, and how many are requested
//! full_file               when to read the file in its own order
//! sibling_detector        two neighbouring children begin a stream
//! entry_detector          the rows of two neighbouring index entries begin a stream
//! overflow_chain          a chain of overflow pages, guessed
//! window, run_estimator   the pages of a stream, and how many of them are worth a request
//! parent_index, tree_path the parent of a page, and the path to the root
//! btree_node              one page of a b-tree, read without trust
//! file_view               what every decision looks at
//! ```
//!
//! A demanded page has to be read, or was read ahead and is used for the first time. Arrows point down this list only.
//!
//! # What it promises
//! 1. Two neighbouring children of an interior page, in either direction, begin a stream of the children that follow, in the
//!    next interior pages, too. Children may themselves be interior pages. That holds for all b-trees: tables, indexes,
//!    tables without rowids.
//! 2. Two rows of a table, side by side on an index leaf, begin a stream of the rows of the entries that follow. Overflow
//!    pages are guessed while chains go straight on.
//! 3. The window at most doubles, from 4 pages to [`LONGEST_WINDOW`] or an eighth of the memory. The next pages are requested
//!    when half of the window is left. The run estimator tells how much of that is allowed.
//! 4. Requested pages lie in 2 to the end of the file. No page was in memory when it entered a window. Two streams may request
//!    the same page.
//! 5. Pages of any content lead to useless requests at worst: every look is bounds-checked, every loop has a limit.
//! 6. A hit costs a comparison, and no allocation. The first demanded page allocates. A value takes 5 KiB with one stream, and
//!    less than 24 KiB with eight at their longest windows.
//! 7. Beside a long stream, [`ReadAhead::next_full_file_range`] names parts of the file that the system should read into its
//!    own cache.
//!
//! # What it does not do
//! It takes no part in what is kept in memory. It does not find ranges over an index whose table has no rowids. Of the
//! overflow pages of a leaf's rows it finds those behind the first.

pub(crate) mod btree_node;
mod entry_detector;
mod file_view;
mod full_file;
mod overflow_chain;
mod parent_index;
mod planner;
mod run_estimator;
mod sibling_detector;
mod stream;
mod tree_path;
mod window;

pub use crate::readahead::file_view::{Config, FullFileMode, LONGEST_WINDOW, Memory};
pub use crate::readahead::planner::ReadAhead;

#[cfg(test)]
mod tests;

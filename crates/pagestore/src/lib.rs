//! A database of pages without SQL, usable alone: pages that are allocated, pinned, changed and found again after a
//! power cut, and operators on them.
//!
//! The folders are the layers; arrows point down only:
//!
//! ```text
//! store     the database: pages that are allocated, changed and released, with a redo log
//! pagefile  page files that are written once
//! ops       operators on pages: scan, group by, hash join, graphs
//! pages     what operators need of whatever holds the pages
//! task      fibers on worker threads
//! ```

pub mod ops;
pub mod pagefile;
pub mod pages;
pub mod store;
pub mod task;

pub use store::Database;

/// The examples of `README.md` run with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

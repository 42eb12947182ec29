//! Operators on pages: scan, group by, hash join, graph load and traversal.
//!
//! # Why
//! They are the work that a page engine is for, and the measure of it (SMILE, sections 4.2 and 5.1): a scan
//! asks the pool for pages as fast as it can, a traversal asks for them in no order.
//!
//! # What they promise
//! 1. Each runs on all workers, and its result does not depend on how many there are.
//! 2. A worker holds at most two pages at a time, so an operator works with a pool of a few pages.
//! 3. Counts have 64 bits, sums wrap nowhere a database of less than 2^56 bytes can reach.
//! 4. They see pages through [`Pages`] only.
//!
//! # What they do not do
//! Isolate themselves from others who write the same pages meanwhile: each page is seen whole, the set of
//! them is not a snapshot.

pub mod graph;
mod group_by;
mod hash_join;
mod pages;
mod parallel;
mod scan;

pub use group_by::{Groups, group_by};
pub use hash_join::{Join, hash_join};
pub use pages::{Extents, Pages, PagesMut};
pub use scan::{Filtered, above, filter, scan};

use crate::task::TaskError;
use std::path::PathBuf;

/// Result of an operator.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operator has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A page cannot be had or written.
    #[error(transparent)]
    Pages(Box<dyn std::error::Error + Send + Sync>),
    /// A worker failed.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The text of a graph cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The text of a graph is not one.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The pages hold no graph, or a damaged one.
    #[error("no graph that can be read: {0}")]
    NotAGraph(String),
    /// A node that is not there.
    #[error("there is no node {node}; the graph has {nodes} nodes, numbered from 0")]
    NoSuchNode {
        /// The node asked for.
        node: u64,
        /// The nodes there are.
        nodes: u64,
    },
    /// The pages of a graph lie in more pieces than its metadata page can name.
    #[error(
        "the graph's pages lie in {pieces} pieces, and a metadata page names {most}; load it into a new database, or use larger pages"
    )]
    Fragmented {
        /// Pieces there would be.
        pieces: usize,
        /// Pieces there may be.
        most: usize,
    },
    /// Somebody asked the operator to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// An error of whatever holds the pages.
    pub fn pages(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Pages(Box::new(error))
    }
}

#[cfg(test)]
mod tests;

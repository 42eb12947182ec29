//! The interface of operators to a store of pages.

use crate::task::TaskError;
use std::ops::{Deref, Range};
use std::path::PathBuf;

/// Result of an operator.
pub type Result<T> = std::result::Result<T, Error>;

/// The reasons for which an operator on pages has no result.
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
        /// The system's answer.
        source: std::io::Error,
    },
    /// The text of a graph is not one.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// The fault.
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
    /// An id that no node has.
    #[error("there is no node with the id {id}; the graph has {nodes} nodes with ids of their own")]
    NoSuchId {
        /// The id asked for.
        id: u64,
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
    /// The operator was asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// An error of the store of pages.
    pub fn pages(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Pages(Box::new(error))
    }
}

/// Pages that many threads read.
pub trait Pages: Sync {
    /// A pinned page. Its bytes do not change while it is pinned.
    type Guard<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// Bytes of every page.
    fn page_bytes(&self) -> usize;

    /// Holds a page.
    ///
    /// # Errors
    /// [`Error::Pages`] where it cannot be had.
    fn page(&self, page: u64) -> Result<Self::Guard<'_>>;

    /// Pages that may be read ahead and not be wanted yet; 0 where none are.
    fn room_ahead(&self) -> usize {
        0
    }

    /// Begins to read pages that will be wanted soon, in this order, as far as there is memory. A page that cannot be read
    /// fails where it is wanted.
    fn read_ahead(&self, _pages: &[u64]) {}

    /// Memory nodes that the pages are spread over.
    fn nodes(&self) -> usize {
        1
    }

    /// The memory node of a page, below [`Pages::nodes`].
    fn node_of(&self, _page: u64) -> usize {
        0
    }
}

/// Pages that can be written.
pub trait PagesMut: Pages {
    /// New pages, of zeros, as many as asked for.
    ///
    /// # Errors
    /// [`Error::Pages`] where there is no room.
    fn allocate(&self, count: u64) -> Result<Extents>;

    /// Writes a page.
    ///
    /// # Errors
    /// [`Error::Pages`] where it cannot be had.
    fn update(&self, page: u64, change: &mut dyn FnMut(&mut [u8])) -> Result<()>;
}

/// A sequence of pages: ranges of page numbers, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    ranges: Vec<Range<u64>>,
    /// The place of each range's first page in the sequence.
    starts: Vec<u64>,
    len: u64,
}

impl Extents {
    /// No pages.
    pub fn new() -> Extents {
        Extents::default()
    }

    /// Adds a page; one that follows the last extends its range.
    pub fn push(&mut self, page: u64) {
        self.push_range(page..page + 1);
    }

    /// Adds a range of pages.
    pub fn push_range(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let len = range.end - range.start;
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                self.ranges.push(range);
                self.starts.push(self.len);
            }
        }
        // Numbers from a file may add up to anything.
        self.len = self.len.saturating_add(len);
    }

    /// Pages in the sequence.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page at a place.
    pub fn get(&self, place: u64) -> Option<u64> {
        if place >= self.len {
            return None;
        }
        let range = self.starts.partition_point(|start| *start <= place) - 1;
        Some(self.ranges[range].start + (place - self.starts[range]))
    }

    /// The ranges.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The first `count` pages, and the rest.
    pub fn split_at(&self, count: u64) -> (Extents, Extents) {
        let (mut first, mut rest) = (Extents::new(), Extents::new());
        for range in &self.ranges {
            let middle = (range.start + count.saturating_sub(first.len())).min(range.end);
            first.push_range(range.start..middle);
            rest.push_range(middle..range.end);
        }
        (first, rest)
    }
}

impl FromIterator<u64> for Extents {
    fn from_iter<I: IntoIterator<Item = u64>>(pages: I) -> Extents {
        let mut extents = Extents::new();
        pages.into_iter().for_each(|page| extents.push(page));
        extents
    }
}

impl From<Range<u64>> for Extents {
    fn from(range: Range<u64>) -> Extents {
        let mut extents = Extents::new();
        extents.push_range(range);
        extents
    }
}

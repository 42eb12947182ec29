//! Directed graphs in pages: compressed sparse rows (SMILE, section 5.1.4).
//!
//! # Layout
//! One metadata page and two vectors, each a sequence of pages that hold as many entries as fit. Entries have
//! 4 bytes, or 8 where the graph has 2^32 nodes or edges or more; all integers are little-endian.
//!
//! ```text
//! FirstNeighbor   nodes + 1 entries: where in Neighbors the neighbours of a node begin. They end where
//!                 those of the next node begin; the last entry is the number of edges.
//! Neighbors       one entry for each edge, by source, in the order of the text.
//! NewNumber       only of a reordered graph: the number under which a node of the text is stored,
//! OldNumber       and the other way round. One entry for each node. Where nodes have ids of their own, OldNumber has
//!                 the ids; NewNumber, if any, the number of the node with the lowest id, of the next one, and so on.
//!
//! metadata page
//!   0   8  magic "lf-graph"
//!   8   4  version: 1, or 2 where nodes have ids of their own
//!  12   4  bytes of a page
//!  16   4  bytes of an entry: 4 or 8
//!  20   4  CRC-32C of all bytes but these, up to the end of the last range
//!  24   8  nodes
//!  32   8  edges
//!  40 4*4  ranges of FirstNeighbor, Neighbors, NewNumber, OldNumber
//!  56 16*r their ranges: first page (8), number of pages (8)
//! ```
//!
//! In the thesis, a node without neighbours has the index 0, and a node ends where the next node with neighbours
//! begins. Its traversal lost the last edge. With one entry more, both are plain reads.
//!
//! # What it promises
//! 1. A graph that was loaded whole equals its text; nothing is stored of one that is malformed but an error
//!    with file and line.
//! 2. A metadata page that is not one, or is damaged, is refused. So is an index that points outside.
//! 3. Nodes have the numbers of the text in every answer, whatever their order in the pages.
//!
//! # Edge lists
//! [`EdgeList`] reads what others publish: no first line with counts, edges in any order, ids as they come.

mod bfs;
mod correlation;
mod edge_list;
mod lines;
mod load;
mod metadata;
mod reorder;
mod rmat;
mod text;
mod vector;

pub use bfs::{Level, Search};
pub use edge_list::EdgeList;
pub use load::{Loaded, Order, Progress, load, load_edges};
pub use rmat::rmat;
pub use text::Text;

use super::{Error, Extents, Pages, Result};
use metadata::Metadata;
use std::cmp::Ordering;
use std::ops::Range;
use vector::Cursor;

/// The metadata page of a graph that was loaded into a new page file, where it is the first page there is.
pub const GRAPH_PAGE: u64 = 1;

/// Nodes that are verified between two reports.
const REPORT_EVERY: u64 = 4096;

/// A graph in pages.
pub struct Graph<'p, P: Pages> {
    pages: &'p P,
    metadata: Metadata,
}

impl<'p, P: Pages> Graph<'p, P> {
    /// The graph whose metadata page this is.
    ///
    /// # Errors
    /// [`Error::NotAGraph`]; those of the pages.
    pub fn open(pages: &'p P, metadata_page: u64) -> Result<Graph<'p, P>> {
        let metadata = Metadata::read(&pages.page(metadata_page)?, pages.page_bytes())?;
        // A structure as large as the graph must be justified by the file.
        for range in metadata.vectors().into_iter().flat_map(Extents::ranges) {
            drop(pages.page(range.end - 1)?);
        }
        Ok(Graph { pages, metadata })
    }

    /// True if a page is the metadata page of a graph, sound or not.
    pub fn is_at(page: &[u8]) -> bool {
        Metadata::is_at(page)
    }

    /// Follows every index and, where the graph was reordered, both numberings. `progress` hears of the nodes
    /// behind it now and then and may end it with an error.
    ///
    /// # Errors
    /// [`Error::NotAGraph`] with the first thing that is wrong; those of the pages and of `progress`.
    pub fn verify(&self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let mut reader = Reader::new(self);
        let mut edges = 0;
        for node in 0..self.nodes() {
            if node.is_multiple_of(REPORT_EVERY) {
                progress(node)?;
            }
            reader.each_neighbor(node, &mut |_| edges += 1)?;
            let mut back = [node];
            self.to_text(&mut back)?;
            if self.stored(back[0])? != node {
                return Err(Error::NotAGraph(format!("node {node} has no number of its own")));
            }
        }
        match edges == self.edges() {
            true => Ok(()),
            false => Err(Error::NotAGraph(format!("{edges} edges, where {} should be", self.edges()))),
        }
    }

    /// Nodes; they are numbered from 0, unless they have ids.
    pub fn nodes(&self) -> u64 {
        self.metadata.nodes
    }

    /// Edges.
    pub fn edges(&self) -> u64 {
        self.metadata.edges
    }

    /// Bytes of an entry.
    pub fn id_bytes(&self) -> usize {
        self.metadata.id_bytes
    }

    /// True if the nodes lie in another order than that of the text.
    pub fn is_reordered(&self) -> bool {
        !self.metadata.new_number.is_empty()
    }

    /// True if the nodes have ids of their own.
    pub fn has_ids(&self) -> bool {
        self.metadata.has_ids
    }

    /// True if a stored number is not the node's number, or id.
    fn is_translated(&self) -> bool {
        self.has_ids() || self.is_reordered()
    }

    /// Pages of the graph, its metadata page among them.
    pub fn pages(&self) -> u64 {
        1 + self.metadata.vectors().iter().map(|extents| extents.len()).sum::<u64>()
    }

    /// The neighbours of a node, in the order of the text.
    ///
    /// # Errors
    /// [`Error::NoSuchNode`]; [`Error::NotAGraph`] where an index points outside; those of the pages.
    pub fn neighbors(&self, node: u64) -> Result<Vec<u64>> {
        let stored = self.stored(node)?;
        let mut reader = Reader::new(self);
        let mut found = Vec::new();
        reader.each_neighbor(stored, &mut |neighbor| found.push(neighbor))?;
        self.to_text(&mut found)?;
        Ok(found)
    }

    /// The number under which a node is stored.
    pub(super) fn stored(&self, node: u64) -> Result<u64> {
        if self.has_ids() {
            return self.stored_by_id(node);
        }
        if node >= self.nodes() {
            return Err(Error::NoSuchNode { node, nodes: self.nodes() });
        }
        if !self.is_reordered() {
            return Ok(node);
        }
        self.inside(Cursor::new(self.pages, &self.metadata.new_number, self.metadata.id_bytes).get(node)?)
    }

    /// The same for an id: a binary search.
    fn stored_by_id(&self, id: u64) -> Result<u64> {
        let Metadata { id_bytes, .. } = self.metadata;
        let mut ids = Cursor::new(self.pages, &self.metadata.old_number, id_bytes);
        let mut by_id = Cursor::new(self.pages, &self.metadata.new_number, id_bytes);
        let (mut low, mut high) = (0, self.nodes());
        while low < high {
            let middle = low.midpoint(high);
            let stored = if self.is_reordered() { self.inside(by_id.get(middle)?)? } else { middle };
            match ids.get(stored)?.cmp(&id) {
                Ordering::Equal => return Ok(stored),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(Error::NoSuchId { id, nodes: self.nodes() })
    }

    /// A number of a node, as the file has it, where there is such a node.
    fn inside(&self, number: u64) -> Result<u64> {
        if number < self.nodes() {
            return Ok(number);
        }
        Err(Error::NotAGraph(format!("a node is numbered {number} of {}", self.nodes())))
    }

    /// Replaces stored numbers by those of the text.
    fn to_text(&self, nodes: &mut [u64]) -> Result<()> {
        if self.is_translated() {
            let mut cursor = Cursor::new(self.pages, &self.metadata.old_number, self.metadata.id_bytes);
            for node in nodes {
                let number = cursor.get(*node)?;
                *node = if self.has_ids() { number } else { self.inside(number)? };
            }
        }
        Ok(())
    }
}

/// Reads neighbours; keeps the last page of each vector pinned, for the next node is often on the same one.
struct Reader<'p, P: Pages> {
    first: Cursor<'p, P>,
    neighbors: Cursor<'p, P>,
    edges: u64,
    nodes: u64,
}

impl<'p, P: Pages> Reader<'p, P> {
    fn new(graph: &'p Graph<'p, P>) -> Reader<'p, P> {
        let Metadata { id_bytes, nodes, edges, .. } = graph.metadata;
        Reader {
            first: Cursor::new(graph.pages, &graph.metadata.first_neighbor, id_bytes),
            neighbors: Cursor::new(graph.pages, &graph.metadata.neighbors, id_bytes),
            edges,
            nodes,
        }
    }

    /// Passes on the neighbours of a node, by stored numbers.
    fn each_neighbor(&mut self, node: u64, found: &mut impl FnMut(u64)) -> Result<()> {
        let row = self.row(node)?;
        self.each(row, found)
    }

    /// Where in Neighbors the neighbours of a node are.
    fn row(&mut self, node: u64) -> Result<Range<u64>> {
        let (begin, end) = (self.first.get(node)?, self.first.get(node + 1)?);
        if begin > end || end > self.edges {
            return Err(Error::NotAGraph(format!(
                "the neighbours of node {node} are said to be {begin} to {end} of {}",
                self.edges
            )));
        }
        Ok(begin..end)
    }

    /// Passes on entries of Neighbors.
    fn each(&mut self, entries: Range<u64>, found: &mut impl FnMut(u64)) -> Result<()> {
        let nodes = self.nodes;
        let mut outside = None;
        self.neighbors.each(entries.clone(), &mut |neighbor| match neighbor < nodes {
            true => found(neighbor),
            false => outside = Some(neighbor),
        })?;
        match outside {
            None => Ok(()),
            Some(neighbor) => Err(Error::NotAGraph(format!(
                "entry {} to {} of the neighbours has node {neighbor} of {nodes}",
                entries.start, entries.end
            ))),
        }
    }
}

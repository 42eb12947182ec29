//! Edge lists as they are published, for example by SNAP, the Stanford Large Network Dataset Collection.
//!
//! # What it reads
//! One edge a line, two whole numbers with tabs or spaces between them, in any order. Nothing says beforehand how many nodes or edges
//! there are. Ids of nodes may leave gaps of any size, and are at most 2^63 - 1. Lines that begin with `#` are comments. An edge that occurs twice is two edges.
//!
//! # What it promises
//! 1. A node is what occurs in an edge, and answers by its id. Where the ids are 0 to n - 1, the graph is stored as from a
//!    [`Text`](super::Text).
//! 2. A line that is no edge ends the reading with an error that names file, line, and what is wrong.
//! 3. Memory is 16 bytes for each edge and 8 for each node: the lines have to be sorted.

use super::lines::Lines;
use crate::ops::{Error, Result};
use std::io::BufRead;
use std::path::Path;

/// Edges between two reports of progress.
const REPORT_EVERY: usize = 65_536;
/// Larger ids have no number in SQL.
const LARGEST_ID: u64 = i64::MAX as u64;

/// An edge list, in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct EdgeList {
    /// The ids of the nodes, in ascending order.
    ids: Vec<u64>,
    /// By places in `ids`, sorted by source; edges of one source in the order of the list.
    edges: Vec<(u64, u64)>,
}

impl EdgeList {
    /// Reads a list. `path` is for messages; `progress` hears how many edges are read, and may end it with an error.
    ///
    /// # Errors
    /// [`Error::Line`], [`Error::Input`]; [`Error::NotAGraph`] where there is no memory; those of `progress`.
    pub fn read(
        reader: impl BufRead,
        path: &Path,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<EdgeList> {
        let mut lines = Lines::new(reader, path);
        let mut edges: Vec<(u64, u64)> = Vec::new();
        let no_memory = |edges: usize| Error::NotAGraph(format!("no memory for more than {edges} edges"));
        while let Some(edge) = lines.pair()? {
            if let Some(id) = [edge.0, edge.1].into_iter().find(|id| *id > LARGEST_ID) {
                return Err(lines.wrong(format!("the id {id}; the largest that SQL has is {LARGEST_ID}")));
            }
            edges.try_reserve(1).map_err(|_| no_memory(edges.len()))?;
            edges.push(edge);
            if edges.len().is_multiple_of(REPORT_EVERY) {
                progress(edges.len() as u64)?;
            }
        }
        if edges.is_empty() {
            return Err(lines.wrong("there are no edges; each line has two whole numbers"));
        }
        let ids = ids_of(&edges).ok_or_else(|| no_memory(edges.len()))?;
        // Every id is in the list.
        let place = |id: u64| ids.partition_point(|other| *other < id) as u64;
        for (source, target) in &mut edges {
            (*source, *target) = (place(*source), place(*target));
        }
        // Stable: edges of one source keep their order.
        edges.sort_by_key(|(source, _)| *source);
        Ok(EdgeList { ids, edges })
    }

    /// Nodes: what occurs in an edge.
    pub fn nodes(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Edges.
    pub fn edges(&self) -> u64 {
        self.edges.len() as u64
    }

    /// The edges by places of their nodes among all ids, sorted by source.
    pub(super) fn sorted(&self) -> impl Iterator<Item = (u64, u64)> {
        self.edges.iter().copied()
    }

    /// The ids, in ascending order; `None` where they are the places.
    pub(super) fn ids(&self) -> Option<&[u64]> {
        let last = self.ids.last().copied();
        (last != Some(self.nodes() - 1)).then_some(&self.ids)
    }
}

/// All ids, each once, in ascending order; `None` without memory for them. Nodes are usually far fewer than edges, so
/// that duplicates go early.
fn ids_of(edges: &[(u64, u64)]) -> Option<Vec<u64>> {
    let mut ids: Vec<u64> = Vec::new();
    let mut sorted = 0;
    for (source, target) in edges {
        ids.try_reserve(2).ok()?;
        ids.extend([*source, *target]);
        if ids.len() > 2 * sorted + REPORT_EVERY {
            ids.sort_unstable();
            ids.dedup();
            sorted = ids.len();
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

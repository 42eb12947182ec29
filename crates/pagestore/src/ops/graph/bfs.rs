//! Breadth-first search, level by level (SMILE, section 5.1.5).
//!
//! The workers visit a level's nodes in the order in which they are stored, each a run of them. Both vectors are then
//! read in ascending order, and a page is pinned once for all nodes of a run that lie on it. In memory there are a bit
//! for each node and the nodes of two levels.

use super::{Graph, Reader};
use crate::ops::{Error, Pages, Result};
use crate::task::Workers;
use std::sync::atomic::{AtomicU64, Ordering};

/// Levels with fewer nodes are not handed out to workers.
const FEWEST_FOR_ALL: usize = 256;
/// Parts per worker.
const PARTS_PER_WORKER: usize = 8;

/// The nodes seen so far.
struct Seen(Vec<AtomicU64>);

impl Seen {
    fn new(nodes: u64) -> Result<Seen> {
        let mut words = Vec::new();
        let reserved =
            usize::try_from(nodes.div_ceil(64)).ok().filter(|count| words.try_reserve_exact(*count).is_ok());
        let count = reserved
            .ok_or_else(|| Error::NotAGraph(format!("no memory for a bit for each of {nodes} nodes")))?;
        words.resize_with(count, AtomicU64::default);
        Ok(Seen(words))
    }

    /// True if this is the first time.
    fn insert(&self, node: u64) -> bool {
        let (word, bit) = (&self.0[(node / 64) as usize], 1 << (node % 64));
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// A search under way.
pub struct Search {
    seen: Seen,
    /// The level reported next, or last, by stored numbers.
    level: Vec<u64>,
    /// The same by the numbers of the text, where they differ.
    in_text: Vec<u64>,
    /// Levels reported.
    reported: u64,
}

/// A depth and the nodes found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'s> {
    /// Edges from the first node.
    pub depth: u64,
    /// In ascending order; never empty.
    pub nodes: &'s [u64],
}

impl Search {
    /// A search from a node.
    ///
    /// # Errors
    /// [`Error::NoSuchNode`](crate::ops::Error::NoSuchNode); those of the pages.
    pub fn from<P: Pages>(graph: &Graph<'_, P>, start: u64) -> Result<Search> {
        let level = vec![graph.stored(start)?];
        let seen = Seen::new(graph.nodes())?;
        seen.insert(level[0]);
        Ok(Search { seen, level, in_text: Vec::new(), reported: 0 })
    }

    /// The next level; `None` when all that can be reached has been found. The graph must be the same one
    /// every time.
    ///
    /// # Errors
    /// Errors of the graph and the workers. The search cannot go on after one.
    pub fn next_level<P: Pages>(
        &mut self,
        workers: &Workers,
        graph: &Graph<'_, P>,
    ) -> Result<Option<Level<'_>>> {
        if self.reported > 0 {
            self.level = next_level(workers, graph, &self.seen, &self.level)?;
        }
        if self.level.is_empty() {
            return Ok(None);
        }
        self.reported += 1;
        let depth = self.reported - 1;
        if !graph.is_translated() {
            return Ok(Some(Level { depth, nodes: &self.level }));
        }
        self.in_text.clone_from(&self.level);
        graph.to_text(&mut self.in_text)?;
        self.in_text.sort_unstable();
        Ok(Some(Level { depth, nodes: &self.in_text }))
    }
}

fn next_level<P: Pages>(
    workers: &Workers,
    graph: &Graph<'_, P>,
    seen: &Seen,
    level: &[u64],
) -> Result<Vec<u64>> {
    let mut next = if level.len() < FEWEST_FOR_ALL {
        neighbors_of(graph, seen, level)?
    } else {
        let parts = workers.threads() * PARTS_PER_WORKER;
        let part_of = |part: usize| level.len() * part / parts;
        let found = workers
            .each(parts, |part| neighbors_of(graph, seen, &level[part_of(part)..part_of(part + 1)]))?;
        found.into_iter().collect::<Result<Vec<_>>>()?.concat()
    };
    next.sort_unstable();
    Ok(next)
}

/// The neighbours that were not visited before.
fn neighbors_of<P: Pages>(graph: &Graph<'_, P>, seen: &Seen, nodes: &[u64]) -> Result<Vec<u64>> {
    let mut reader = Reader::new(graph);
    let mut next = Vec::new();
    for node in nodes {
        reader.each_neighbor(*node, &mut |neighbor| {
            if seen.insert(neighbor) {
                next.push(neighbor);
            }
        })?;
    }
    Ok(next)
}

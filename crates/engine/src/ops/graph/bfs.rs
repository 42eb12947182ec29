//! Breadth-first search, level by level (SMILE, section 5.1.5).
//!
//! A level's nodes are visited in the order in which they are stored, by all workers, each a run of them: both
//! vectors are then read in ascending order, and a page is held once for all nodes of a run that lie on it.
//! In memory there are a bit for each node and the nodes of two levels.

use super::{Graph, Reader};
use crate::ops::{Pages, Result};
use crate::task::Workers;
use std::sync::atomic::{AtomicU64, Ordering};

/// Levels with fewer nodes are not worth handing out.
const FEWEST_FOR_ALL: usize = 256;
/// Parts per worker.
const PARTS_PER_WORKER: usize = 8;

/// The nodes seen so far.
struct Seen(Vec<AtomicU64>);

impl Seen {
    fn new(nodes: u64) -> Seen {
        Seen((0..nodes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether this is the first time.
    fn insert(&self, node: u64) -> bool {
        let (word, bit) = (&self.0[(node / 64) as usize], 1 << (node % 64));
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

/// Searches from a node. `visit` gets each depth with the nodes found there, in ascending order, and may end
/// the search with an error. Returns the number of nodes found, the first one among them.
///
/// # Errors
/// [`Error::NoSuchNode`](crate::ops::Error::NoSuchNode); those of the graph, the workers and `visit`.
pub fn bfs<P: Pages>(
    workers: &Workers,
    graph: &Graph<'_, P>,
    start: u64,
    visit: &mut dyn FnMut(u64, &[u64]) -> Result<()>,
) -> Result<u64> {
    let seen = Seen::new(graph.nodes());
    let mut level = vec![graph.stored(start)?];
    seen.insert(level[0]);
    let (mut depth, mut found) = (0, 0);
    while !level.is_empty() {
        found += level.len() as u64;
        report(graph, depth, &level, visit)?;
        level = next_level(workers, graph, &seen, &level)?;
        depth += 1;
    }
    Ok(found)
}

fn report<P: Pages>(
    graph: &Graph<'_, P>,
    depth: u64,
    level: &[u64],
    visit: &mut dyn FnMut(u64, &[u64]) -> Result<()>,
) -> Result<()> {
    if !graph.is_reordered() {
        return visit(depth, level);
    }
    let mut nodes = level.to_vec();
    graph.to_text(&mut nodes)?;
    nodes.sort_unstable();
    visit(depth, &nodes)
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

/// The neighbours that nobody has seen before.
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

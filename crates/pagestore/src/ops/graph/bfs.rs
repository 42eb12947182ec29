//! Breadth-first search, level by level (SMILE, section 5.1.5).
//!
//! The workers visit a level's nodes in the order in which they are stored, each a run of them. Both vectors are then
//! read in ascending order, and a page is pinned once for all nodes of a run that lie on it. In memory there are a bit
//! for each node and the nodes of two levels.
//!
//! By choice, pages are read ahead as a [`correlation`](super::correlation) of pages says.

use super::correlation::Correlated;
use super::{Graph, Reader};
use crate::ops::{Error, Extents, Pages, Result};
use crate::task::Workers;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Levels with fewer nodes are not handed out to workers.
const FEWEST_FOR_ALL: usize = 256;
/// Parts per worker.
const PARTS_PER_WORKER: usize = 8;
/// Nodes whose rows are looked up before the neighbours of the first are read.
const BATCH_NODES: usize = 4096;
/// Most pages of a vector that a part has read ahead at a time.
const MOST_AHEAD: usize = 64;

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
    reads_ahead: bool,
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
        Ok(Search { seen, level, in_text: Vec::new(), reported: 0, reads_ahead: false })
    }

    /// Reads the pages of a level ahead, as far as the pages have room for that.
    #[must_use]
    pub fn reading_ahead(self) -> Search {
        Search { reads_ahead: true, ..self }
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
            let room = if self.reads_ahead { graph.pages.room_ahead() } else { 0 };
            self.level = next_level(workers, graph, &self.seen, &self.level, room)?;
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
    room: usize,
) -> Result<Vec<u64>> {
    let mut next = if level.len() < FEWEST_FOR_ALL {
        neighbors_of(graph, seen, level, room)?
    } else {
        let parts = workers.threads() * PARTS_PER_WORKER;
        let part_of = |part: usize| level.len() * part / parts;
        let found = workers.each(parts, |part| {
            neighbors_of(graph, seen, &level[part_of(part)..part_of(part + 1)], room / parts)
        })?;
        found.into_iter().collect::<Result<Vec<_>>>()?.concat()
    };
    next.sort_unstable();
    Ok(next)
}

/// The neighbours that were not visited before. There is room for so many pages that are read ahead.
fn neighbors_of<P: Pages>(graph: &Graph<'_, P>, seen: &Seen, nodes: &[u64], room: usize) -> Result<Vec<u64>> {
    let per_page = (graph.pages.page_bytes() / graph.id_bytes()) as u64;
    let pages_of = |entries: Range<u64>| match entries.is_empty() {
        true => 0..0,
        false => entries.start / per_page..entries.end.div_ceil(per_page),
    };
    let window = room.min(MOST_AHEAD) / 2;
    let first = nodes.iter().map(|node| pages_of(*node..node + 2));
    let mut first = Ahead::new(graph.pages, &graph.metadata.first_neighbor, first, window);
    let mut reader = Reader::new(graph);
    let (mut next, mut rows) = (Vec::new(), Vec::new());
    for batch in nodes.chunks(BATCH_NODES) {
        rows.clear();
        for node in batch {
            first.reach(node / per_page);
            rows.push(reader.row(*node)?);
        }
        let neighbors = rows.iter().cloned().map(pages_of);
        let mut neighbors = Ahead::new(graph.pages, &graph.metadata.neighbors, neighbors, window);
        for row in &rows {
            for place in pages_of(row.clone()) {
                neighbors.reach(place);
                let entries = row.start.max(place * per_page)..row.end.min((place + 1) * per_page);
                reader.each(entries, &mut |neighbor| {
                    if seen.insert(neighbor) {
                        next.push(neighbor);
                    }
                })?;
            }
        }
    }
    Ok(next)
}

/// The pages of a vector that are read ahead.
struct Ahead<'p, P, I> {
    pages: &'p P,
    extents: &'p Extents,
    correlated: Correlated<I>,
    /// Page numbers to ask for.
    numbers: Vec<u64>,
}

impl<'p, P: Pages, I: Iterator<Item = Range<u64>>> Ahead<'p, P, I> {
    fn new(pages: &'p P, extents: &'p Extents, wanted: I, window: usize) -> Ahead<'p, P, I> {
        Ahead { pages, extents, correlated: Correlated::new(wanted, window), numbers: Vec::new() }
    }

    /// The page at a place of the vector is wanted now.
    fn reach(&mut self, place: u64) {
        let Ahead { pages, extents, correlated, numbers } = self;
        correlated.reach(place, |place| numbers.extend(extents.get(place)));
        if !numbers.is_empty() {
            pages.read_ahead(numbers);
            numbers.clear();
        }
    }
}

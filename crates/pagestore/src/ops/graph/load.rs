//! From text to pages.

use super::edge_list::EdgeList;
use super::metadata::Metadata;
use super::reorder::gorder;
use super::text::Text;
use super::vector::Writer;
use crate::ops::{Error, Extents, PagesMut, Result};
use std::io::BufRead;

/// In which order nodes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The size of the text; the graph is never in memory.
    Text,
    /// One that puts nodes that are visited together next to each other, after Gorder. The whole graph is in
    /// memory meanwhile: 16 bytes for each edge, 80 for each node.
    Locality,
}

/// The figures of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The page that names all others.
    pub metadata_page: u64,
    /// Nodes.
    pub nodes: u64,
    /// Edges.
    pub edges: u64,
}

/// Hears how many edges are done; an error of it ends the work.
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// Edges, or nodes without any, between two reports.
const REPORT_EVERY: u64 = 4096;

/// Loads a graph into new pages, the metadata page first. `progress` hears how many edges are done and may
/// end it with an error.
///
/// # Errors
/// Errors of the text, of the pages, and of `progress`. The pages written until then are no graph: the metadata page is
/// written last.
pub fn load<P: PagesMut, R: BufRead>(
    pages: &P,
    text: &mut Text<R>,
    order: Order,
    progress: Progress<'_>,
) -> Result<Loaded> {
    let (nodes, edges) = (text.nodes(), text.edges());
    store(pages, nodes, edges, |pages| match order {
        Order::Text => {
            let mut rows = Rows::new(pages, nodes, edges, None)?;
            read(text, progress, |source, target, progress| rows.edge(source, target, progress))?;
            rows.finish(None, progress)
        }
        Order::Locality => {
            let mut memory = InMemory::new(nodes)?;
            read(text, progress, |source, target, _| memory.edge(source, target))?;
            memory.store(pages, None, progress)
        }
    })
}

/// Loads an edge list into new pages, the metadata page first.
///
/// # Errors
/// As [`load`].
pub fn load_edges<P: PagesMut>(
    pages: &P,
    list: &EdgeList,
    order: Order,
    progress: Progress<'_>,
) -> Result<Loaded> {
    let (nodes, edges) = (list.nodes(), list.edges());
    store(pages, nodes, edges, |pages| match order {
        Order::Text => {
            let mut rows = Rows::new(pages, nodes, edges, list.ids())?;
            list.sorted().try_for_each(|(source, target)| rows.edge(source, target, progress))?;
            rows.finish(None, progress)
        }
        Order::Locality => {
            let mut memory = InMemory::new(nodes)?;
            list.sorted().try_for_each(|(source, target)| memory.edge(source, target))?;
            memory.store(pages, list.ids(), progress)
        }
    })
}

/// Stores a graph: takes the metadata page first, and writes it last.
fn store<P: PagesMut>(
    pages: &P,
    nodes: u64,
    edges: u64,
    vectors: impl FnOnce(&P) -> Result<Metadata>,
) -> Result<Loaded> {
    let own_page = pages.allocate(1)?;
    let metadata_page =
        own_page.get(0).ok_or_else(|| Error::NotAGraph("no page for its metadata".to_owned()))?;
    let bytes = vectors(pages)?.encode(pages.page_bytes())?;
    pages.update(metadata_page, &mut |page| page[..bytes.len()].copy_from_slice(&bytes))?;
    Ok(Loaded { metadata_page, nodes, edges })
}

/// Passes every edge on, and reports now and then.
fn read<R: BufRead>(
    text: &mut Text<R>,
    progress: Progress<'_>,
    mut edge: impl FnMut(u64, u64, Progress<'_>) -> Result<()>,
) -> Result<()> {
    let mut done = 0u64;
    while let Some((source, target)) = text.next_edge()? {
        edge(source, target, progress)?;
        done += 1;
        if done.is_multiple_of(REPORT_EVERY) {
            progress(done)?;
        }
    }
    progress(done)
}

/// A graph in memory: compressed rows.
struct InMemory {
    first: Vec<usize>,
    neighbors: Vec<usize>,
}

impl InMemory {
    fn new(nodes: u64) -> Result<InMemory> {
        let nodes = usize::try_from(nodes)
            .map_err(|_| Error::NotAGraph("more nodes than this machine can address".to_owned()))?;
        Ok(InMemory { first: vec![0; nodes + 1], neighbors: Vec::new() })
    }

    /// The next edge; edges come by source.
    fn edge(&mut self, source: u64, target: u64) -> Result<()> {
        self.first[source as usize + 1] += 1;
        self.neighbors.push(target as usize);
        Ok(())
    }

    /// Stores the graph reordered.
    fn store<P: PagesMut>(
        mut self,
        pages: &P,
        ids: Option<&[u64]>,
        progress: Progress<'_>,
    ) -> Result<Metadata> {
        let nodes = self.first.len() - 1;
        for node in 0..nodes {
            self.first[node + 1] += self.first[node];
        }
        let InMemory { first, neighbors } = &self;
        let old_number = gorder(first, neighbors, &mut || progress(neighbors.len() as u64))?;
        let mut new_number = vec![0u64; nodes];
        for (new, old) in old_number.iter().enumerate() {
            new_number[*old] = new as u64;
        }
        let mut rows = Rows::new(pages, nodes as u64, neighbors.len() as u64, ids)?;
        for (new, old) in old_number.iter().enumerate() {
            for target in &neighbors[first[*old]..first[old + 1]] {
                rows.edge(new as u64, new_number[*target], progress)?;
            }
        }
        let old_number: Vec<u64> = old_number.into_iter().map(|old| old as u64).collect();
        rows.finish(Some((&new_number, &old_number)), progress)
    }
}

/// Writes compressed rows, edge by edge.
struct Rows<'p, P: PagesMut> {
    pages: &'p P,
    /// The ids of the nodes by their numbers in the text, where they have any.
    ids: Option<&'p [u64]>,
    id_bytes: usize,
    nodes: u64,
    first: Writer<'p, P>,
    neighbors: Writer<'p, P>,
    /// Entries of the first vector that are written.
    begun: u64,
    edges: u64,
}

impl<'p, P: PagesMut> Rows<'p, P> {
    fn new(pages: &'p P, nodes: u64, edges: u64, ids: Option<&'p [u64]>) -> Result<Rows<'p, P>> {
        let largest_id = ids.and_then(<[u64]>::last).copied().unwrap_or(0);
        let id_bytes = if nodes.max(edges).max(largest_id) > u64::from(u32::MAX) { 8 } else { 4 };
        let first = Writer::new(pages, nodes + 1, id_bytes)?;
        let neighbors = Writer::new(pages, edges, id_bytes)?;
        Ok(Rows { pages, ids, id_bytes, nodes, first, neighbors, begun: 0, edges: 0 })
    }

    fn edge(&mut self, source: u64, target: u64, progress: Progress<'_>) -> Result<()> {
        self.begin_up_to(source, progress)?;
        self.edges += 1;
        self.neighbors.push(target)
    }

    /// There may be any number of nodes without edges, so this asks whether to go on, too.
    fn begin_up_to(&mut self, node: u64, progress: Progress<'_>) -> Result<()> {
        while self.begun <= node {
            if self.begun.is_multiple_of(REPORT_EVERY) {
                progress(self.edges)?;
            }
            self.first.push(self.edges)?;
            self.begun += 1;
        }
        Ok(())
    }

    fn finish(mut self, numbers: Option<(&[u64], &[u64])>, progress: Progress<'_>) -> Result<Metadata> {
        self.begin_up_to(self.nodes, progress)?;
        let vector = |entries: &[u64]| -> Result<Extents> {
            let mut writer = Writer::new(self.pages, entries.len() as u64, self.id_bytes)?;
            entries.iter().try_for_each(|entry| writer.push(*entry))?;
            writer.finish()
        };
        let (new_number, old_number) = match (numbers, self.ids) {
            (Some((new_number, old_number)), None) => (vector(new_number)?, vector(old_number)?),
            (Some((new_number, old_number)), Some(ids)) => {
                let ids: Vec<u64> = old_number.iter().map(|old| ids[*old as usize]).collect();
                (vector(new_number)?, vector(&ids)?)
            }
            (None, Some(ids)) => (Extents::new(), vector(ids)?),
            (None, None) => Default::default(),
        };
        Ok(Metadata {
            has_ids: self.ids.is_some(),
            id_bytes: self.id_bytes,
            nodes: self.nodes,
            edges: self.edges,
            first_neighbor: self.first.finish()?,
            neighbors: self.neighbors.finish()?,
            new_number,
            old_number,
        })
    }
}

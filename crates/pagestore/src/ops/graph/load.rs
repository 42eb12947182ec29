//! From text to pages.

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
    let own_page = pages.allocate(1)?;
    let metadata_page =
        own_page.get(0).ok_or_else(|| Error::NotAGraph("no page for its metadata".to_owned()))?;
    let metadata = match order {
        Order::Text => {
            let mut rows = Rows::new(pages, nodes, edges)?;
            read(text, progress, |source, target, progress| rows.edge(source, target, progress))?;
            rows.finish(None, progress)?
        }
        Order::Locality => load_reordered(pages, text, progress)?,
    };
    let bytes = metadata.encode(pages.page_bytes())?;
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

fn load_reordered<P: PagesMut, R: BufRead>(
    pages: &P,
    text: &mut Text<R>,
    progress: Progress<'_>,
) -> Result<Metadata> {
    let nodes = usize::try_from(text.nodes())
        .map_err(|_| Error::NotAGraph("more nodes than this machine can address".to_owned()))?;
    let (mut first, mut neighbors) = (vec![0usize; nodes + 1], Vec::new());
    read(text, progress, |source, target, _| {
        first[source as usize + 1] += 1;
        neighbors.push(target as usize);
        Ok(())
    })?;
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    let old_number = gorder(&first, &neighbors, &mut || progress(neighbors.len() as u64))?;
    let mut new_number = vec![0u64; nodes];
    for (new, old) in old_number.iter().enumerate() {
        new_number[*old] = new as u64;
    }
    let mut rows = Rows::new(pages, nodes as u64, neighbors.len() as u64)?;
    for (new, old) in old_number.iter().enumerate() {
        for target in &neighbors[first[*old]..first[old + 1]] {
            rows.edge(new as u64, new_number[*target], progress)?;
        }
    }
    let old_number: Vec<u64> = old_number.into_iter().map(|old| old as u64).collect();
    rows.finish(Some((&new_number, &old_number)), progress)
}

/// Writes compressed rows, edge by edge.
struct Rows<'p, P: PagesMut> {
    pages: &'p P,
    id_bytes: usize,
    nodes: u64,
    first: Writer<'p, P>,
    neighbors: Writer<'p, P>,
    /// Entries of the first vector that are written.
    begun: u64,
    edges: u64,
}

impl<'p, P: PagesMut> Rows<'p, P> {
    fn new(pages: &'p P, nodes: u64, edges: u64) -> Result<Rows<'p, P>> {
        let id_bytes = if nodes.max(edges) > u64::from(u32::MAX) { 8 } else { 4 };
        let first = Writer::new(pages, nodes + 1, id_bytes)?;
        let neighbors = Writer::new(pages, edges, id_bytes)?;
        Ok(Rows { pages, id_bytes, nodes, first, neighbors, begun: 0, edges: 0 })
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
        let (new_number, old_number) = match numbers {
            Some((new_number, old_number)) => (vector(new_number)?, vector(old_number)?),
            None => Default::default(),
        };
        Ok(Metadata {
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

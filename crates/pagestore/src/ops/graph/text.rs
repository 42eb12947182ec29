//! The text of a graph: `nodes edges` on the first line, then one edge a line, `source target`, sorted by
//! source. Nodes are numbered from 0. Lines that are empty or begin with `#` count for nothing.

use super::lines::Lines;
use crate::ops::Result;
use std::io::BufRead;
use std::path::Path;

/// Reads the text line by line and checks what it reads.
#[derive(Debug)]
pub struct Text<R> {
    lines: Lines<R>,
    nodes: u64,
    edges: u64,
    seen: u64,
    last_source: u64,
}

impl<R: BufRead> Text<R> {
    /// Reads the first line. `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Line`](crate::ops::Error::Line) and [`Error::Input`](crate::ops::Error::Input), here and below.
    pub fn new(reader: R, path: &Path) -> Result<Text<R>> {
        let mut lines = Lines::new(reader, path);
        let Some((nodes, edges)) = lines.pair()? else {
            return Err(lines.wrong("the file is empty; the first line must be `nodes edges`"));
        };
        if nodes == u64::MAX {
            return Err(lines.wrong("too many nodes"));
        }
        Ok(Text { lines, nodes, edges, seen: 0, last_source: 0 })
    }

    /// Nodes, as announced.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Edges, as announced.
    pub fn edges(&self) -> u64 {
        self.edges
    }

    /// The next edge; `None` at the end, once all that were announced have come.
    ///
    /// # Errors
    /// [`Error::Line`](crate::ops::Error::Line), [`Error::Input`](crate::ops::Error::Input).
    pub fn next_edge(&mut self) -> Result<Option<(u64, u64)>> {
        let Some((source, target)) = self.lines.pair()? else {
            let (seen, edges) = (self.seen, self.edges);
            let ended = format!("the file ends after {seen} edges; its first line says {edges}");
            return if seen == edges { Ok(None) } else { Err(self.lines.wrong(ended)) };
        };
        let nodes = self.nodes;
        if let Some(node) = [source, target].into_iter().find(|node| *node >= nodes) {
            return Err(self
                .lines
                .wrong(format!("node {node}, but the first line says {nodes} nodes, from 0")));
        }
        if source < self.last_source {
            let last = self.last_source;
            return Err(self.lines.wrong(format!(
                "an edge of node {source} behind one of node {last}; sort the edges by source (sort -n)"
            )));
        }
        if self.seen == self.edges {
            return Err(self.lines.wrong(format!("more edges than the {} of the first line", self.edges)));
        }
        self.last_source = source;
        self.seen += 1;
        Ok(Some((source, target)))
    }
}

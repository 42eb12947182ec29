//! The text of a graph: `nodes edges` on the first line, then one edge a line, `source target`, sorted by
//! source. Nodes are numbered from 0. Lines that are empty or begin with `#` count for nothing.

use crate::ops::{Error, Result};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Longest line; two numbers of 64 bits and a good deal of white space.
const LONGEST_LINE: u64 = 1024;

/// Reads the text line by line and checks what it reads.
#[derive(Debug)]
pub struct Text<R> {
    reader: R,
    path: PathBuf,
    line: u64,
    buffer: Vec<u8>,
    nodes: u64,
    edges: u64,
    seen: u64,
    last_source: u64,
}

impl<R: BufRead> Text<R> {
    /// Reads the first line. `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Line`] and [`Error::Input`], here and below.
    pub fn new(reader: R, path: &Path) -> Result<Text<R>> {
        let path = path.to_owned();
        let buffer = Vec::new();
        let mut text = Text { reader, path, line: 0, buffer, nodes: 0, edges: 0, seen: 0, last_source: 0 };
        let Some((nodes, edges)) = text.pair()? else {
            return Err(text.wrong("the file is empty; the first line must be `nodes edges`"));
        };
        if nodes == u64::MAX {
            return Err(text.wrong("too many nodes"));
        }
        (text.nodes, text.edges) = (nodes, edges);
        Ok(text)
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
    /// [`Error::Line`], [`Error::Input`].
    pub fn next_edge(&mut self) -> Result<Option<(u64, u64)>> {
        let Some((source, target)) = self.pair()? else {
            let (seen, edges) = (self.seen, self.edges);
            let ended = format!("the file ends after {seen} edges; its first line says {edges}");
            return if seen == edges { Ok(None) } else { Err(self.wrong(ended)) };
        };
        let nodes = self.nodes;
        if let Some(node) = [source, target].into_iter().find(|node| *node >= nodes) {
            return Err(self.wrong(format!("node {node}, but the first line says {nodes} nodes, from 0")));
        }
        if source < self.last_source {
            let last = self.last_source;
            return Err(self.wrong(format!(
                "an edge of node {source} behind one of node {last}; sort the edges by source (sort -n)"
            )));
        }
        if self.seen == self.edges {
            return Err(self.wrong(format!("more edges than the {} of the first line", self.edges)));
        }
        self.last_source = source;
        self.seen += 1;
        Ok(Some((source, target)))
    }

    /// The two numbers of the next line that has any.
    fn pair(&mut self) -> Result<Option<(u64, u64)>> {
        while self.next_line()? {
            let line = self.buffer.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let mut numbers = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(number);
            let pair = (numbers.next().flatten(), numbers.next().flatten(), numbers.next());
            let (Some(first), Some(second), None) = pair else {
                let line = String::from_utf8_lossy(line).chars().take(40).collect::<String>();
                return Err(self.wrong(format!("two whole numbers are expected, found {line:?}")));
            };
            return Ok(Some((first, second)));
        }
        Ok(None)
    }

    /// Reads a line into the buffer; `false` at the end.
    fn next_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        let mut limited = std::io::Read::take(&mut self.reader, LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut self.buffer);
        let bytes = read.map_err(|source| Error::Input { path: self.path.clone(), source })?;
        self.line += u64::from(bytes > 0);
        if bytes as u64 == LONGEST_LINE && !self.buffer.ends_with(b"\n") {
            return Err(self.wrong(format!("longer than {LONGEST_LINE} bytes")));
        }
        Ok(bytes > 0)
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Line { path: self.path.clone(), line: self.line.max(1), what: what.into() }
    }
}

/// A whole number in decimal digits, and nothing else.
fn number(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

//! The b-tree of a table as pieces of work: subtrees, whose leaves are read in runs.
//!
//! # Invariants
//! 1. Pieces are in the order of their rowids, and so are the leaves of each.
//! 2. A page of a damaged database may name any other. So many levels and pages are looked at as there can be, and no more.

use super::record::{CORRUPT, Node, Odd};
use litefoot_format::number::be32;
use std::sync::atomic::{AtomicU64, Ordering};

/// The pages of a snapshot; any number of threads read them.
pub(crate) trait PageReader: Send + Sync {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;
    /// Bytes of a page that b-trees use.
    fn usable_bytes(&self) -> usize;
    /// Number of pages.
    fn pages(&self) -> u32;
    /// Reads pages from number `first` on, as many as `buf` has room for; `false` where that fails.
    fn read(&self, first: u32, buf: &mut [u8]) -> bool;
    /// Says that pages will be read soon.
    fn read_ahead(&self, first: u32, count: u32);
}

/// Subtrees that are enough for all threads to have an equal part.
const PIECES: usize = 64;
/// Most levels of a b-tree (`BTCURSOR_MAX_DEPTH`).
const LEVELS: usize = 20;
/// Bytes that are read at once.
const RUN_BYTES: usize = 1 << 20;
/// Bytes that are asked for ahead of them.
const AHEAD_BYTES: usize = 4 << 20;

/// One thread's way through a tree.
pub(super) struct Walk<'a> {
    reader: &'a dyn PageReader,
    /// Pages that all threads may still look at.
    left: &'a AtomicU64,
    /// A buffer and a list of children for each level.
    levels: Vec<(Vec<u8>, Vec<u32>)>,
    /// The same for a piece that comes soon.
    ahead: (Vec<u8>, Vec<u32>),
    /// True where the pages right below the piece were asked for.
    is_asked: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(reader: &'a dyn PageReader, left: &'a AtomicU64) -> Walk<'a> {
        Walk { reader, left, levels: Vec::new(), ahead: Default::default(), is_asked: false }
    }

    /// How many pages the threads may look at together.
    pub(super) fn most_pages(reader: &dyn PageReader) -> AtomicU64 {
        AtomicU64::new(u64::from(reader.pages()) + 1)
    }

    fn count(&self, pages: usize) -> Result<(), Odd> {
        let before = self.left.fetch_sub(pages as u64, Ordering::Relaxed);
        if before < pages as u64 { Err(CORRUPT) } else { Ok(()) }
    }

    /// The pieces of the tree below a root.
    pub(super) fn pieces(&self, root: u32) -> Result<Vec<u32>, Odd> {
        let mut pieces = vec![root];
        let mut page = vec![0; self.reader.page_bytes()];
        for _ in 0..LEVELS {
            if pieces.len() >= PIECES {
                break;
            }
            let mut children = Vec::new();
            for number in &pieces {
                self.read(*number, &mut page)?;
                match Node::new(*number, &page[..self.reader.usable_bytes()])? {
                    Node::Leaf(_) => return Ok(pieces),
                    Node::Interior(interior) => interior.children(&mut children)?,
                }
            }
            self.count(pieces.len())?;
            pieces = children;
        }
        Ok(pieces)
    }

    fn read(&self, first: u32, buf: &mut [u8]) -> Result<(), Odd> {
        if first != 0 && self.reader.read(first, buf) { Ok(()) } else { Err(CORRUPT) }
    }

    /// Shows each leaf of a piece. The pages below it were asked for ahead, or not.
    pub(super) fn leaves(
        &mut self,
        piece: u32,
        is_asked: bool,
        mut leaf: impl FnMut(u32, &[u8]) -> Result<(), Odd>,
    ) -> Result<(), Odd> {
        self.is_asked = is_asked;
        self.below(&[piece], 0, &mut leaf)
    }

    /// Asks for the pages right below a piece that comes soon: a disk has work while this piece is looked at. What is wrong with
    /// the page is said when its turn has come.
    pub(super) fn ask_below(&mut self, piece: u32) {
        let (mut page, mut children) = std::mem::take(&mut self.ahead);
        page.resize(self.reader.page_bytes(), 0);
        children.clear();
        let is_read = self.read(piece, &mut page).is_ok();
        if let (true, Ok(Node::Interior(interior))) =
            (is_read, Node::new(piece, &page[..self.reader.usable_bytes()]))
            && interior.children(&mut children).is_ok()
        {
            let most = (AHEAD_BYTES / self.reader.page_bytes()).max(1);
            Ahead { reader: self.reader, most, asked: 0 }.ask(&children, 0);
        }
        self.ahead = (page, children);
    }

    fn below(
        &mut self,
        pages: &[u32],
        level: usize,
        leaf: &mut impl FnMut(u32, &[u8]) -> Result<(), Odd>,
    ) -> Result<(), Odd> {
        if level >= LEVELS {
            return Err(CORRUPT);
        }
        self.count(pages.len())?;
        if self.levels.len() == level {
            self.levels.push(Default::default());
        }
        let (mut buf, mut children) = std::mem::take(&mut self.levels[level]);
        let result = self.runs(pages, level, &mut buf, &mut children, leaf);
        self.levels[level] = (buf, children);
        result
    }

    fn runs(
        &mut self,
        pages: &[u32],
        level: usize,
        buf: &mut Vec<u8>,
        children: &mut Vec<u32>,
        leaf: &mut impl FnMut(u32, &[u8]) -> Result<(), Odd>,
    ) -> Result<(), Odd> {
        let (page_bytes, usable) = (self.reader.page_bytes(), self.reader.usable_bytes());
        let most = (RUN_BYTES / page_bytes).max(1);
        let ahead_most = (AHEAD_BYTES / page_bytes).max(1);
        let asked = if level == 1 && self.is_asked { ahead_most.min(pages.len()) } else { 0 };
        let mut ahead = Ahead { reader: self.reader, most: ahead_most, asked };
        let mut done = 0;
        while let Some(first) = pages.get(done) {
            ahead.ask(pages, done);
            let count = run(&pages[done..], most);
            if buf.len() < count * page_bytes {
                buf.resize(count * page_bytes, 0);
            }
            self.read(*first, &mut buf[..count * page_bytes])?;
            for (place, page) in buf.chunks_exact(page_bytes).take(count).enumerate() {
                let number = first + place as u32;
                let page = &page[..usable];
                match Node::new(number, page)? {
                    Node::Leaf(_) => leaf(number, page)?,
                    Node::Interior(interior) => {
                        children.clear();
                        interior.children(children)?;
                        self.below(children, level + 1, leaf)?;
                    }
                }
            }
            done += count;
        }
        Ok(())
    }
}

/// How many of the pages lie one behind the other, from the first on.
fn run(pages: &[u32], most: usize) -> usize {
    let next = |two: &&[u32]| two[0].checked_add(1) == Some(two[1]);
    1 + pages.windows(2).take(most - 1).take_while(next).count()
}

/// The pages that were asked for ahead.
struct Ahead<'a> {
    reader: &'a dyn PageReader,
    most: usize,
    asked: usize,
}

impl Ahead<'_> {
    /// The pages from a place on are read next.
    fn ask(&mut self, pages: &[u32], at: usize) {
        if pages.len() < 2 || self.asked > at + self.most / 2 {
            return;
        }
        let end = pages.len().min(at + self.most);
        while self.asked < end {
            let count = run(&pages[self.asked..end], self.most);
            self.reader.read_ahead(pages[self.asked], count as u32);
            self.asked += count;
        }
    }
}

/// Reads the beginning of a record that goes on in overflow pages; `record` gets it whole.
pub(super) fn whole_record(
    reader: &dyn PageReader,
    local: &[u8],
    payload: usize,
    overflow: u32,
    record: &mut Vec<u8>,
) -> Result<(), Odd> {
    let usable = reader.usable_bytes();
    if payload as u64 > u64::from(reader.pages()) * usable as u64 {
        return Err(CORRUPT);
    }
    record.clear();
    record.extend_from_slice(local);
    let mut page = vec![0; reader.page_bytes()];
    let mut next = overflow;
    while record.len() < payload {
        if next == 0 || !reader.read(next, &mut page) {
            return Err(CORRUPT);
        }
        next = be32(&page, 0).ok_or(CORRUPT)?;
        let part = (payload - record.len()).min(usable - 4);
        record.extend_from_slice(&page[4..4 + part]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_lie_together_are_one_run() {
        for (pages, most, expected) in [
            (&[5, 6, 7, 9][..], 64, 3),
            (&[5, 6, 7, 9], 2, 2),
            (&[5], 64, 1),
            (&[5, 4], 64, 1),
            (&[u32::MAX, 0], 64, 1),
            (&[5, 6], 1, 1),
        ] {
            assert_eq!(run(pages, most), expected, "{pages:?}");
        }
    }
}

//! From the root of a tree to its pages with rows, leaving out subtrees that are known.
//!
//! # Invariants
//! 1. All visited pages are of the root's family, and all visited leaves are equally deep.
//! 2. The rowids of a visited leaf are those that its parents leave to it.
//!
//! A page of the older version may be lost: its caller kept some of them only. In a tree of rowids its parents say what it had.

use crate::error::{Error, Result, Side};
use crate::pages::Version;
use std::collections::HashMap;

/// Deepest b-tree that is walked: SQLite's own limit.
const MOST_LEVELS: usize = 20;

/// The pages that a walk has met.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Pages that were read, with their parents; the root's parent is itself.
    pub visited: Vec<(u32, u32)>,
    /// Pages with rows among them, with the first rowid of each; in the order of the tree.
    pub with_rows: Vec<(i64, u32)>,
    /// Pages whose subtrees were left out.
    pub left_out: HashMap<u32, LeftOut>,
    /// The rowids of pages that could not be read.
    pub lost: Vec<Bounds>,
}

/// A page whose subtree was left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftOut {
    pub parent: u32,
    pub bounds: Bounds,
}

/// Walks a tree, or a subtree with rowids within bounds, whose root was met. `is_known` says which subtrees are left out, `is_table` whether the tree has
/// rowids.
pub(crate) fn walk(
    version: &Version<'_>,
    (root, bounds): (u32, Bounds),
    is_table: bool,
    is_known: &dyn Fn(u32) -> bool,
) -> Result<Walk> {
    let mut walker = Walker { version, is_table, is_known, walk: Walk::default(), leaf_level: None };
    walker.visit(root, root, 0, bounds)?;
    Ok(walker.walk)
}

struct Walker<'a> {
    version: &'a Version<'a>,
    is_table: bool,
    is_known: &'a dyn Fn(u32) -> bool,
    walk: Walk,
    leaf_level: Option<usize>,
}

impl Walker<'_> {
    /// Visits a page that may have rowids above the first bound, up to the second.
    fn visit(&mut self, number: u32, parent: u32, level: usize, bounds: Bounds) -> Result<()> {
        let corrupt = |what| self.version.corrupt(number, what);
        if level >= MOST_LEVELS {
            return Err(corrupt("its tree is deeper than any can be"));
        }
        let mut bytes = Vec::new();
        match self.version.read(number, &mut bytes) {
            Err(Error::Read { side: Side::Before, .. }) if self.is_table => {
                self.walk.visited.push((number, parent));
                self.walk.lost.push(bounds);
                return Ok(());
            }
            outcome => outcome?,
        }
        let page = self.version.parse(number, &bytes)?;
        if page.is_table() != self.is_table {
            return Err(corrupt("it is of another kind than its tree"));
        }
        if self.is_table && !page.cells.iter().all(|cell| is_within(bounds, cell.rowid)) {
            return Err(corrupt("a rowid is outside of what its parent says"));
        }
        self.walk.visited.push((number, parent));
        if page.is_leaf() && *self.leaf_level.get_or_insert(level) != level {
            return Err(corrupt("leaves are not equally deep"));
        }
        if (page.is_leaf() || !self.is_table) && !page.cells.is_empty() {
            self.walk.with_rows.push((page.cells[0].rowid, number));
        }
        if page.is_leaf() {
            return Ok(());
        }
        let mut low = bounds.0;
        for cell in &page.cells {
            self.below(cell.child, number, level, (low, Some(cell.rowid)))?;
            low = Some(cell.rowid);
        }
        self.below(page.right, number, level, (low, bounds.1))
    }

    fn below(&mut self, child: u32, parent: u32, level: usize, bounds: Bounds) -> Result<()> {
        self.version.meet(child)?;
        if (self.is_known)(child) {
            self.walk.left_out.insert(child, LeftOut { parent, bounds });
            return Ok(());
        }
        self.visit(child, parent, level + 1, bounds)
    }
}

pub(crate) use crate::visitor::Rowids as Bounds;

/// No bounds.
pub(crate) const ALL: Bounds = (None, None);

fn is_within(bounds: Bounds, rowid: i64) -> bool {
    bounds.0.is_none_or(|low| rowid > low) && bounds.1.is_none_or(|high| rowid <= high)
}

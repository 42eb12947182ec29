//! Two versions, compared: tables are paired, their changed pages found, their rows compared.
//!
//! # Why this is right
//! A page that is in the same tree in both versions, with equal bytes and equal overflow pages, has the same rows in both. All
//! other pages with rows are looked at: on the older side those that have changed or left the tree, on the newer side those
//! that have changed or come to it. The symmetric difference of their rows is that of the tables. Splits, merges and moves
//! cancel out.
//!
//! From a root, a walk goes to marked pages only: the changed ones and all above them. The older walk leaves out the subtrees
//! without a change. The newer walk leaves out those that the older one has left out. A subtree that only the older walk has
//! left out has come apart or is free: its pages are looked at, too.

use crate::error::{Error, Result, Side};
use crate::map::{Entry, Map, Marks, Step};
use crate::pages::{Pages, Version};
use crate::record;
use crate::rows::{Comparison, WithRows};
use crate::schema::Table;
use crate::tree::walk::{ALL, Bounds, Walk, walk};
use crate::visitor::{TablePair, Visitor};
use std::collections::HashSet;

/// Pages that may differ between two versions.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'a> {
    /// These, and no others. Each page behind the end of the older version has to be among them.
    Pages(&'a [u32]),
    /// Any page.
    All,
}

impl Map {
    /// Compares two versions; the map is that of the older one. [`Map::apply`] makes it that of the newer one.
    ///
    /// # Errors
    /// A damaged page, an error of a reader or of the visitor. The visitor may have heard of some changes by then, which do
    /// not count. The map can be used on.
    pub fn diff(
        &self,
        before: &dyn Pages,
        after: &dyn Pages,
        changed: &Changed<'_>,
        visitor: &mut dyn Visitor,
    ) -> Result<Step> {
        let (before, newer) = (self.check(before)?, Version::new(after, Side::After)?);
        let shape = |version: &Option<Version<'_>>| version.as_ref().map(|version| version.shape);
        let marks = match changed {
            Changed::Pages(pages) if shape(&before) == shape(&newer) => Some(self.marks(pages)),
            _ => None,
        };
        let schema_is_same = marks.as_ref().is_some_and(|marks| !marks.roots.contains(&1));
        let tables = if schema_is_same { None } else { Some(tables(after)?) };
        let mut step = Step {
            is_fresh: marks.is_none(),
            shape: shape(&newer),
            count: newer.as_ref().map_or(0, |version| version.count),
            ..Step::default()
        };
        let pass = Pass { before: before.as_ref(), after: newer.as_ref(), marks };
        let pairs = match &tables {
            Some(tables) => pairs(&self.tables, tables),
            None => self
                .tables
                .iter()
                .map(|table| TablePair { before: Some(table), after: Some(table) })
                .collect(),
        };
        for pair in pairs {
            pass.table(pair, &mut step, visitor)?;
        }
        step.tables = tables;
        Ok(step)
    }
}

/// The tables of a version, `sqlite_schema` first.
fn tables(pages: &dyn Pages) -> Result<Vec<Table>> {
    let Some(version) = Version::new(pages, Side::After)? else { return Ok(Vec::new()) };
    let schema = Table::schema_table();
    let mut tables: Vec<Table> = Vec::new();
    let mut bytes = Vec::new();
    version.meet(1)?;
    for (_, number) in walk(&version, (1, ALL), true, &|_| false)?.with_rows {
        version.read(number, &mut bytes)?;
        for cell in &version.parse(number, &bytes)?.cells {
            let record = version.record(cell, &mut Vec::new())?;
            let row = record::row(&version, number, &schema, cell.rowid, &record)?;
            let table = Table::from_row(&row.values);
            let is_of = |table: &Table, other: &Table| table.name.eq_ignore_ascii_case(&other.name);
            if table.as_ref().is_some_and(|table| tables.iter().any(|other| is_of(table, other))) {
                return Err(version.corrupt(number, "two tables have one name"));
            }
            tables.extend(table);
        }
    }
    tables.insert(0, schema);
    Ok(tables)
}

/// Tables of both versions: the same by name, or renamed, or else in one of them only. Those that were dropped come first.
fn pairs<'a>(before: &'a [Table], after: &'a [Table]) -> Vec<TablePair<'a>> {
    let fits = |one: &Table, two: &Table| one.has_rowid() == two.has_rowid();
    let named = |of: &Table| before.iter().find(|old| old.name == of.name && fits(old, of));
    let renamed = |of: &Table| {
        let is_free = |old: &Table| !after.iter().any(|new| new.name == old.name);
        before.iter().find(|old| old.root == of.root && old.is_shaped_as(of) && is_free(old))
    };
    let pairs: Vec<_> = after
        .iter()
        .map(|new| TablePair { before: named(new).or_else(|| renamed(new)), after: Some(new) })
        .collect();
    let is_paired = |old: &Table| {
        pairs.iter().any(|pair: &TablePair<'_>| pair.before.is_some_and(|found| std::ptr::eq(found, old)))
    };
    // A new table may have the name of a dropped one.
    let dropped =
        before.iter().filter(|old| !is_paired(old)).map(|old| TablePair { before: Some(old), after: None });
    dropped.chain(pairs.iter().copied()).collect()
}

/// One comparison of two versions.
struct Pass<'a> {
    before: Option<&'a Version<'a>>,
    after: Option<&'a Version<'a>>,
    /// `None` where any page may have changed.
    marks: Option<Marks>,
}

impl Pass<'_> {
    fn table(&self, pair: TablePair<'_>, step: &mut Step, visitor: &mut dyn Visitor) -> Result<()> {
        let mut comparison = Comparison::new(pair, visitor);
        if pair.is_altered() {
            comparison.announce()?;
        }
        let marks = self.marks.as_ref().filter(|_| comparison.reads_alike());
        if !may_differ(pair, marks) {
            return Ok(());
        }
        let [before, after] = self.walks(pair, marks)?;
        for (page, _) in &before.visited {
            step.left.push(*page);
        }
        let above = after
            .visited
            .iter()
            .copied()
            .chain(after.left_out.iter().map(|(page, left_out)| (*page, left_out.parent)));
        step.entries.extend(above.map(|(page, parent)| Entry { page, parent, is_overflow: false }));
        comparison.forget(&before.lost)?;
        let (before, after) = touched(before, after, marks);
        let chains = marks.map(|marks| &marks.chains);
        comparison.compare(self.before.zip(Some(before)), self.after.zip(Some(after)), chains, step)
    }

    /// The pages of a table on both sides, as far as they have to be looked at.
    fn walks(&self, pair: TablePair<'_>, marks: Option<&Marks>) -> Result<[Walk; 2]> {
        let is_marked = |page: u32| marks.is_none_or(|marks| marks.marked.contains(&page));
        let mut before = match (self.before, pair.before) {
            (Some(version), Some(table)) if table.unreadable.is_none() => {
                version.meet(table.root)?;
                walk(version, (table.root, ALL), table.has_rowid(), &|page| {
                    pair.after.is_some() && !is_marked(page)
                })?
            }
            _ => Walk::default(),
        };
        let after = match (self.after, pair.after) {
            (Some(version), Some(table)) if table.unreadable.is_none() => {
                version.meet(table.root)?;
                walk(version, (table.root, ALL), table.has_rowid(), &|page| {
                    before.left_out.contains_key(&page)
                })?
            }
            _ => Walk::default(),
        };
        // What the newer side does not have is looked at on the older one, whole.
        let is_gone = |page: &u32| !after.left_out.contains_key(page);
        let gone: Vec<(u32, Bounds)> = before
            .left_out
            .iter()
            .filter(|(page, _)| is_gone(page))
            .map(|(page, of)| (*page, of.bounds))
            .collect();
        for (top, version, table) in gone.iter().filter_map(|top| Some((*top, self.before?, pair.before?))) {
            let below = walk(version, top, table.has_rowid(), &|_| false)?;
            before.visited.extend(below.visited);
            before.with_rows.extend(below.with_rows);
            before.lost.extend(below.lost);
        }
        Ok([before, after])
    }
}

fn may_differ(pair: TablePair<'_>, marks: Option<&Marks>) -> bool {
    match (pair.before, pair.after, marks) {
        (Some(before), Some(after), Some(marks)) => {
            before.root != after.root || marks.roots.contains(&before.root)
        }
        _ => true,
    }
}

/// The pages with rows that may differ, with their first rowids, in the order of these.
fn touched(before: Walk, after: Walk, marks: Option<&Marks>) -> (WithRows, WithRows) {
    let (mut before, mut after) = (before.with_rows, after.with_rows);
    if let Some(marks) = marks {
        let pages = |of: &[(i64, u32)]| of.iter().map(|(_, page)| *page).collect::<HashSet<u32>>();
        let (old, new) = (pages(&before), pages(&after));
        let is_same = |page: &u32| old.contains(page) && new.contains(page) && !marks.touched.contains(page);
        before.retain(|(_, page)| !is_same(page));
        after.retain(|(_, page)| !is_same(page));
    }
    before.sort_unstable();
    after.sort_unstable();
    (before, after)
}

/// An error of the visitor.
pub(crate) fn of_visitor(error: crate::error::Failure) -> Error {
    Error::Visitor(error)
}

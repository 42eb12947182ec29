//! The rows of one table on those of its pages that may differ, compared.
//!
//! # Invariants
//! 1. Of a table with rowids, one leaf of each side is in memory.
//! 2. The record of a row that has not changed is not read past its page, in a table with rowids.
//! 3. The step gets each overflow page that a changed or a moved row refers to.

use crate::diff::of_visitor;
use crate::error::{Error, Result, Side as Of};
use crate::map::{Entry, Step};
use crate::pages::Version;
use crate::record::{self, Row};
use crate::schema::{Affinity, Column, Table};
use crate::tree::page::Cell;
use crate::tree::walk::Bounds;
use crate::value::Value;
use crate::visitor::{Change, Rows, TablePair, Visitor};
use std::collections::{HashMap, HashSet};

/// A side: its pages, and those of them that may differ, by their first rowids.
pub(crate) type SidePages<'a> = Option<(&'a Version<'a>, WithRows)>;

/// Pages with rows, by their first rowids.
pub(crate) type WithRows = Vec<(i64, u32)>;

/// The comparison of one table.
pub(crate) struct Comparison<'a> {
    pair: TablePair<'a>,
    visitor: &'a mut dyn Visitor,
    /// The visitor's answer, once it was asked.
    rows: Option<Rows>,
    /// For each newer column the older one; `None` where the tables are shaped alike.
    from: Option<Vec<Option<usize>>>,
}

/// A row as it lies on its page.
struct Found {
    page: u32,
    rowid: i64,
    payload: usize,
    /// Where in the bytes of the page.
    local: std::ops::Range<usize>,
    overflow: u32,
}

impl Found {
    fn cell<'b>(&self, bytes: &'b [u8]) -> Cell<'b> {
        let local = bytes.get(self.local.clone()).unwrap_or_default();
        Cell { child: 0, rowid: self.rowid, payload: self.payload, local, overflow: self.overflow }
    }
}

/// The rows of a side in the order of their rowids.
struct Leaves<'a> {
    version: &'a Version<'a>,
    pages: std::vec::IntoIter<(i64, u32)>,
    bytes: Vec<u8>,
    rows: std::vec::IntoIter<Found>,
    next: Option<Found>,
    last: Option<i64>,
}

impl<'a> Leaves<'a> {
    fn new(side: SidePages<'a>) -> Result<Option<Leaves<'a>>> {
        let Some((version, pages)) = side else { return Ok(None) };
        let rows = Vec::new().into_iter();
        let mut leaves =
            Leaves { version, pages: pages.into_iter(), bytes: Vec::new(), rows, next: None, last: None };
        leaves.advance()?;
        Ok(Some(leaves))
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            if let Some(found) = self.rows.next() {
                if self.last.is_some_and(|last| last >= found.rowid) {
                    return Err(self
                        .version
                        .corrupt(found.page, "its rowids are those of another leaf, too"));
                }
                self.last = Some(found.rowid);
                self.next = Some(found);
                return Ok(());
            }
            let Some((_, page)) = self.pages.next() else {
                self.next = None;
                return Ok(());
            };
            self.version.read(page, &mut self.bytes)?;
            let start = self.bytes.as_ptr().addr();
            let found = |cell: &Cell<'_>| {
                let from = cell.local.as_ptr().addr() - start;
                let local = from..from + cell.local.len();
                Found { page, rowid: cell.rowid, payload: cell.payload, local, overflow: cell.overflow }
            };
            let rows: Vec<Found> = self.version.parse(page, &self.bytes)?.cells.iter().map(found).collect();
            self.rows = rows.into_iter();
        }
    }

    /// The row that is next, with its whole record; its overflow pages are noted.
    fn record(&self, found: &Found, step: &mut Step) -> Result<Vec<u8>> {
        note(self.version, found.page, &found.cell(&self.bytes), step)
    }
}

/// Reads the record of a cell, and notes its overflow pages in the step.
fn note(version: &Version<'_>, page: u32, cell: &Cell<'_>, step: &mut Step) -> Result<Vec<u8>> {
    let mut chain = Vec::new();
    let record = version.record(cell, &mut chain)?;
    match version.side {
        crate::Side::Before => step.left.extend(chain),
        crate::Side::After => {
            let parents = std::iter::once(page).chain(chain.iter().copied());
            step.entries.extend(chain.iter().zip(parents).map(|(page, parent)| Entry {
                page: *page,
                parent,
                is_overflow: true,
            }));
        }
    }
    Ok(record)
}

impl<'a> Comparison<'a> {
    pub fn new(pair: TablePair<'a>, visitor: &'a mut dyn Visitor) -> Comparison<'a> {
        let from = match (pair.before, pair.after) {
            (Some(before), Some(after)) if !before.is_shaped_as(after) => {
                Some(origins(&before.columns, &after.columns))
            }
            _ => None,
        };
        Comparison { pair, visitor, rows: None, from }
    }

    /// True where the bytes of a row say to the newer definition what they said to the older one, so that only rows that were written can
    /// differ. A table that was dropped and made again may have the same bytes, and other columns.
    pub fn reads_alike(&self) -> bool {
        let (Some(before), Some(after), Some(from)) = (self.pair.before, self.pair.after, &self.from) else {
            return true;
        };
        // The map knows no page of a table that cannot be read.
        if before.unreadable.is_some() != after.unreadable.is_some() {
            return false;
        }
        let place = |table: &Table, column: usize| table.storage.iter().position(|of| *of == column);
        after.columns.iter().enumerate().zip(from).all(|((at, column), from)| match from {
            // Behind all that is stored: older rows have the default.
            None => column.default.is_some() && place(after, at) >= Some(before.storage.len()),
            Some(old) => {
                let older = &before.columns[*old];
                place(before, *old) == place(after, at)
                    && (before.alias() == Some(*old)) == (after.alias() == Some(at))
                    && (older.affinity == Affinity::Real) == (column.affinity == Affinity::Real)
                    && older.default == column.default
            }
        })
    }

    /// Tells the visitor of the table, once.
    pub fn announce(&mut self) -> Result<Rows> {
        match self.rows {
            Some(rows) => Ok(rows),
            None => Ok(*self.rows.insert(self.visitor.table(self.pair).map_err(of_visitor)?)),
        }
    }

    /// The older rows within these bounds cannot be told: all newer ones will be.
    pub fn forget(&mut self, lost: &[Bounds]) -> Result<()> {
        for bounds in lost {
            if self.announce()? == Rows::Wanted {
                self.visitor.forget(self.pair, *bounds).map_err(of_visitor)?;
            }
        }
        Ok(())
    }

    /// The record of an older row; `None` where an overflow page of it is lost, and the row is forgotten.
    fn older_record(&mut self, left: &Leaves<'_>, old: &Found, step: &mut Step) -> Result<Option<Vec<u8>>> {
        match left.record(old, step) {
            Err(Error::Read { side: Of::Before, .. }) => {
                self.forget(&[(old.rowid.checked_sub(1), Some(old.rowid))])?;
                Ok(None)
            }
            record => record.map(Some),
        }
    }

    pub fn compare(
        &mut self,
        before: SidePages<'_>,
        after: SidePages<'_>,
        chains: Option<&HashSet<u32>>,
        step: &mut Step,
    ) -> Result<()> {
        match self.pair.table().has_rowid() {
            true => self.by_rowid(before, after, chains, step),
            false => self.by_primary_key(before, after, step),
        }
    }

    fn by_rowid(
        &mut self,
        before: SidePages<'_>,
        after: SidePages<'_>,
        chains: Option<&HashSet<u32>>,
        step: &mut Step,
    ) -> Result<()> {
        let (mut before, mut after) = (Leaves::new(before)?, Leaves::new(after)?);
        loop {
            let old = before.as_mut().and_then(|leaves| Some((leaves.next.take()?, leaves)));
            let new = after.as_mut().and_then(|leaves| Some((leaves.next.take()?, leaves)));
            match (old, new) {
                (None, None) => return Ok(()),
                (Some((old, left)), Some((new, right))) if old.rowid == new.rowid => {
                    if self.is_same(&old, left, &new, right, chains, step) {
                        // Nothing is read.
                    } else {
                        let newer = right.record(&new, step)?;
                        match self.older_record(left, &old, step)? {
                            Some(older) => {
                                self.pair_of_rows(
                                    (left.version, &old, &older),
                                    (right.version, &new, &newer),
                                )?;
                            }
                            None => self.inserted(right.version, new.page, new.rowid, &newer)?,
                        }
                    }
                    left.advance()?;
                    right.advance()?;
                }
                (Some((old, left)), new) if new.as_ref().is_none_or(|(new, _)| old.rowid < new.rowid) => {
                    if let Some((new, right)) = new {
                        right.next = Some(new);
                    }
                    if let Some(record) = self.older_record(left, &old, step)? {
                        self.deleted(left.version, old.page, old.rowid, &record)?;
                    }
                    left.advance()?;
                }
                (old, Some((new, right))) => {
                    if let Some((old, left)) = old {
                        left.next = Some(old);
                    }
                    let record = right.record(&new, step)?;
                    self.inserted(right.version, new.page, new.rowid, &record)?;
                    right.advance()?;
                }
                (Some(_), None) => unreachable!("it is less than nothing"),
            }
        }
    }

    /// Tells whether two rows have the same bytes, without a look at overflow pages; a chain that has moved is noted.
    fn is_same(
        &self,
        old: &Found,
        left: &Leaves<'_>,
        new: &Found,
        right: &Leaves<'_>,
        chains: Option<&HashSet<u32>>,
        step: &mut Step,
    ) -> bool {
        let (one, two) = (old.cell(&left.bytes), new.cell(&right.bytes));
        if self.from.is_some()
            || one.payload != two.payload
            || one.overflow != two.overflow
            || one.local != two.local
        {
            return false;
        }
        if new.overflow == 0 {
            return true;
        }
        if chains.is_none_or(|chains| chains.contains(&new.overflow)) {
            return false;
        }
        step.entries.push(Entry { page: new.overflow, parent: new.page, is_overflow: true });
        true
    }

    fn by_primary_key(&mut self, before: SidePages<'_>, after: SidePages<'_>, step: &mut Step) -> Result<()> {
        let mut old = match (before, self.pair.before) {
            (Some((version, pages)), Some(table)) => keyed(version, &pages, table, step)?,
            _ => HashMap::new(),
        };
        if let (Some((version, pages)), Some(table)) = (after, self.pair.after) {
            let mut met = HashSet::new();
            each_record(version, &pages, step, &mut |page, record| {
                let new = record::row(version, page, table, 0, &record)?;
                let key = key_of(table, &new);
                let old = old.remove(&key);
                if !met.insert(key) {
                    return Err(version.corrupt(page, "two rows have one primary key"));
                }
                match old {
                    Some(old) => self.updated(old, new),
                    None => self.tell(|| Ok(Change::Insert(new))),
                }
            })?;
        }
        old.into_values().try_for_each(|row| self.tell(|| Ok(Change::Delete(row))))
    }

    fn pair_of_rows(&mut self, old: Side<'_>, new: Side<'_>) -> Result<()> {
        if self.from.is_none() && old.2 == new.2 {
            return Ok(());
        }
        let (Some(before), Some(after)) = (self.pair.before, self.pair.after) else { return Ok(()) };
        if self.rows == Some(Rows::Skipped) {
            return Ok(());
        }
        let old = record::row(old.0, old.1.page, before, old.1.rowid, old.2)?;
        let new = record::row(new.0, new.1.page, after, new.1.rowid, new.2)?;
        self.updated(old, new)
    }

    /// A row that is in both versions: it may have the same values in other bytes, or in other columns.
    fn updated(&mut self, before: Row, after: Row) -> Result<()> {
        let is_same = match (&self.from, self.pair.after) {
            (Some(from), Some(table)) => after.values.iter().enumerate().all(|(at, value)| match from[at] {
                Some(old) => before.values[old] == *value,
                None => table.columns[at].default.as_ref() == Some(value),
            }),
            _ => before == after,
        };
        if is_same { Ok(()) } else { self.tell(|| Ok(Change::Update { before, after })) }
    }

    fn deleted(&mut self, version: &Version<'_>, page: u32, rowid: i64, record: &[u8]) -> Result<()> {
        let Some(table) = self.pair.before else { return Ok(()) };
        self.tell(|| Ok(Change::Delete(record::row(version, page, table, rowid, record)?)))
    }

    fn inserted(&mut self, version: &Version<'_>, page: u32, rowid: i64, record: &[u8]) -> Result<()> {
        let Some(table) = self.pair.after else { return Ok(()) };
        self.tell(|| Ok(Change::Insert(record::row(version, page, table, rowid, record)?)))
    }

    fn tell(&mut self, change: impl FnOnce() -> Result<Change>) -> Result<()> {
        match self.announce()? {
            Rows::Skipped => Ok(()),
            Rows::Wanted => self.visitor.row(self.pair, change()?).map_err(of_visitor),
        }
    }
}

/// A row of a side with its record.
type Side<'a> = (&'a Version<'a>, &'a Found, &'a Vec<u8>);

/// For each newer column the older one that it comes from: the one of its name, or else the one in its place, if nothing has that
/// name any more. New columns stand behind the others. Where a column was dropped, all rows were written anew, so that each is compared.
fn origins(before: &[Column], after: &[Column]) -> Vec<Option<usize>> {
    let find =
        |columns: &[Column], name: &str| columns.iter().position(|of| of.name.eq_ignore_ascii_case(name));
    let in_place = |at: usize| {
        let old = before.get(at).filter(|_| before.len() <= after.len())?;
        find(after, &old.name).is_none().then_some(at)
    };
    after.iter().enumerate().map(|(at, column)| find(before, &column.name).or_else(|| in_place(at))).collect()
}

/// The rows of a side by their primary keys.
fn keyed(
    version: &Version<'_>,
    pages: &[(i64, u32)],
    table: &Table,
    step: &mut Step,
) -> Result<HashMap<Vec<Value>, Row>> {
    let mut rows = HashMap::new();
    each_record(version, pages, step, &mut |page, record| {
        let row = record::row(version, page, table, 0, &record)?;
        match rows.insert(key_of(table, &row), row) {
            None => Ok(()),
            Some(_) => Err(version.corrupt(page, "two rows have one primary key")),
        }
    })?;
    Ok(rows)
}

fn key_of(table: &Table, row: &Row) -> Vec<Value> {
    table.primary_key().into_iter().map(|column| row.values[column].clone()).collect()
}

fn each_record(
    version: &Version<'_>,
    pages: &[(i64, u32)],
    step: &mut Step,
    each: &mut dyn FnMut(u32, Vec<u8>) -> std::result::Result<(), Error>,
) -> Result<()> {
    let mut bytes = Vec::new();
    for (_, page) in pages {
        version.read(*page, &mut bytes)?;
        for cell in &version.parse(*page, &bytes)?.cells {
            each(*page, note(version, *page, cell, step)?)?;
        }
    }
    Ok(())
}

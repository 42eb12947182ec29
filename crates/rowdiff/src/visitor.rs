//! Who hears of the changes, one after the other, in memory that does not grow with their number.

use crate::error::Failure;
use crate::record::Row;
use crate::schema::Table;

/// A table in both versions.
#[derive(Clone, Copy, Debug)]
pub struct TablePair<'a> {
    /// The older definition; `None` for a new table.
    pub before: Option<&'a Table>,
    /// The newer definition; `None` for a table that was dropped.
    pub after: Option<&'a Table>,
}

impl<'a> TablePair<'a> {
    /// The newer definition, or else the older one.
    pub fn table(&self) -> &'a Table {
        match (self.after, self.before) {
            (Some(table), _) | (None, Some(table)) => table,
            (None, None) => unreachable!("a pair has a table"),
        }
    }

    /// True where the definition changed. A root that has moved is no change.
    pub fn is_altered(&self) -> bool {
        match (self.before, self.after) {
            (Some(before), Some(after)) => before.name != after.name || before.sql != after.sql,
            _ => true,
        }
    }
}

/// A row that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Insert(Row),
    /// It is gone.
    Delete(Row),
    /// A row with the same rowid, or the same primary key in a table without rowids, has other values.
    Update {
        /// The older row, in the columns of the older definition.
        before: Row,
        /// The newer row.
        after: Row,
    },
}

impl Change {
    /// The row: of an update the newer one.
    pub fn row(&self) -> &Row {
        match self {
            Change::Insert(row) | Change::Delete(row) | Change::Update { after: row, .. } => row,
        }
    }
}

/// Rowids above the first, up to the second; none where there is no bound.
pub type Rowids = (Option<i64>, Option<i64>);

/// Whether the changed rows of a table are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Each of them.
    Wanted,
    /// None; they are not decoded.
    Skipped,
}

/// Hears of changes.
pub trait Visitor {
    /// A table has changes, of its definition or of its rows. Its rows follow.
    ///
    /// # Errors
    /// The visitor's own; they end the comparison.
    fn table(&mut self, pair: TablePair<'_>) -> Result<Rows, Failure>;

    /// A row of the last table has changed.
    ///
    /// # Errors
    /// The visitor's own; they end the comparison.
    fn row(&mut self, pair: TablePair<'_>, change: Change) -> Result<(), Failure>;

    /// Older pages of the last table could not be read. Its rows with rowids above the first bound, up to the second, are to be forgotten;
    /// those that are there now are told as insertions, before or after this.
    ///
    /// # Errors
    /// By default: a visitor that has to know the older rows.
    fn forget(&mut self, pair: TablePair<'_>, _: Rowids) -> Result<(), Failure> {
        Err(format!("older pages of table {} cannot be read", pair.table().name).into())
    }
}

/// Wants nothing.
pub(crate) struct Ignore;

impl Visitor for Ignore {
    fn table(&mut self, _: TablePair<'_>) -> Result<Rows, Failure> {
        Ok(Rows::Skipped)
    }

    fn row(&mut self, _: TablePair<'_>, _: Change) -> Result<(), Failure> {
        Ok(())
    }
}

/// The changes of one table, in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct TableChanges {
    /// The older definition; `None` for a new table.
    pub before: Option<Table>,
    /// The newer definition; `None` for a table that was dropped.
    pub after: Option<Table>,
    /// Ranges of rowids whose older rows are not told: [`Visitor::forget`]. They go before the changes.
    pub forgotten: Vec<Rowids>,
    /// Its rows: by rowid, or in no order where the table has none.
    pub changes: Vec<Change>,
}

impl TableChanges {
    /// The table as a pair.
    pub fn pair(&self) -> TablePair<'_> {
        TablePair { before: self.before.as_ref(), after: self.after.as_ref() }
    }
}

/// Keeps all changes in memory.
#[derive(Clone, Debug, Default)]
pub struct Collect {
    /// The changed tables: those that were dropped, and then the others in the order of `sqlite_schema`.
    pub tables: Vec<TableChanges>,
}

impl Visitor for Collect {
    fn table(&mut self, pair: TablePair<'_>) -> Result<Rows, Failure> {
        let (before, after) = (pair.before.cloned(), pair.after.cloned());
        self.tables.push(TableChanges { before, after, forgotten: Vec::new(), changes: Vec::new() });
        Ok(Rows::Wanted)
    }

    fn row(&mut self, _: TablePair<'_>, change: Change) -> Result<(), Failure> {
        if let Some(table) = self.tables.last_mut() {
            table.changes.push(change);
        }
        Ok(())
    }
}

//! The sink of rows: changed pages become a batch, and the batch arrives once.
//!
//! # Invariants
//! 1. The map and the kept pages are those of the moment that was gathered last. Nothing is gathered until its batch has arrived.
//! 2. A batch keeps its rows, its number and its token until it has arrived.
//! 3. Where a page of the last moment is not at hand, the batch has all rows of its range, and replaces those of the destination. The first batch
//!    of each start has all rows, and so has one for which a page of a table without rowids is missing.
//! 4. In a history a batch is called one transaction only where the owner of the database has told it alone.

use crate::sink::{Delivered, Sink};
use crate::source::{Changes, Images, Keep, PageMap};
use crate::time::now_ms;
use crate::{Error, Result};
use litefoot_format::page::{INDEX_INTERIOR, TABLE_INTERIOR};
use litefoot_rowdiff::{
    Change, Changed, Collect, Empty, Failure, Map, Pages, Rows, Step, TablePair, Visitor,
};
use litefoot_rowsink::{Batch, Destination, History, Origin, Parked, deliver};
use std::collections::HashSet;

/// Memory for leaves of the last moment.
const IMAGES_BYTES: usize = 32 << 20;

/// The tables that are shipped.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Their names; empty for all but SQLite's own.
    pub tables: Vec<String>,
    /// Tables whose deleted rows stay at the destination.
    pub keep_deleted: Vec<String>,
    /// Each transaction is a batch, as far as they can be told apart.
    pub history: bool,
}

impl Selection {
    fn has(names: &[String], name: &str) -> bool {
        names.iter().any(|of| of.eq_ignore_ascii_case(name))
    }

    fn is_shipped(&self, name: &str) -> bool {
        match self.tables.is_empty() {
            true => !name.starts_with("sqlite_"),
            false => Selection::has(&self.tables, name),
        }
    }
}

/// The sink of one database and one destination.
pub struct RowShipper {
    destination: Box<dyn Destination>,
    origin: Origin,
    selection: Selection,
    /// The map of the last moment; `None` before the first.
    map: Option<Map>,
    sequence: u64,
    pending: Option<(Batch, Step)>,
    /// Tables of which a batch was not taken since the last one that had all rows.
    parked: Vec<Parked>,
    images_bytes: usize,
}

impl RowShipper {
    /// A sink of the rows of an origin.
    pub fn new(destination: Box<dyn Destination>, origin: Origin, selection: Selection) -> RowShipper {
        RowShipper {
            destination,
            origin,
            selection,
            map: None,
            sequence: 0,
            pending: None,
            parked: Vec::new(),
            images_bytes: IMAGES_BYTES,
        }
    }

    /// The map of the newer moment, and the changes: those to the last moment, or all rows.
    fn compare(&self, changes: &Changes<'_>) -> Result<(Step, Collected<'_>, bool)> {
        let after = After(changes);
        let different = changes.changed();
        let collected = || Collected::new(&self.selection, self.destination.takes_ranges());
        if let (Some(map), Some(before)) = (&self.map, Before::new(changes)) {
            let mut found = collected();
            match map.diff(&before, &after, &Changed::Pages(different), &mut found) {
                Ok(step) => return Ok((step, found, false)),
                // An older page is gone: all rows are sent.
                Err(litefoot_rowdiff::Error::Read { side: litefoot_rowdiff::Side::Before, .. }) => (),
                Err(_) if found.misses_rows => (),
                Err(error) => return Err(self.of_pages(&error)),
            }
        }
        let mut found = collected();
        let step = Map::default().diff(&Empty, &after, &Changed::All, &mut found);
        Ok((step.map_err(|error| self.of_pages(&error))?, found, true))
    }

    fn of_pages(&self, error: &litefoot_rowdiff::Error) -> Error {
        Error::Refused { place: self.destination.place().to_owned(), why: error.to_string() }
    }
}

impl Sink for RowShipper {
    fn resume(&mut self, _: Option<(u64, PageMap)>) -> Result<Option<PageMap>> {
        let at = self.destination.position(&self.origin)?;
        let of_epoch = at.filter(|at| at.epoch == self.origin.epoch);
        self.sequence = of_epoch.map_or(0, |at| at.sequence);
        // Without the pages of the last moment nothing can be compared: the first batch has all rows.
        self.map = None;
        Ok(None)
    }

    fn images(&self) -> Option<Images> {
        // Pages by which others are found; a missing leaf is a range of rows that are sent again.
        let rule = |page: u32, data: &[u8]| match data.first() {
            Some(&(INDEX_INTERIOR | TABLE_INTERIOR)) => Keep::Always,
            _ if page == 1 => Keep::Always,
            _ => Keep::WithRoom,
        };
        Some(Images::new(rule, self.images_bytes))
    }

    fn wants_history(&self) -> bool {
        self.selection.history
    }

    fn gather(&mut self, changes: &mut Changes<'_>) -> Result<()> {
        let (step, found, is_whole) = self.compare(changes)?;
        let committed = changes.committed_ms().filter(|_| self.selection.history && !is_whole);
        let span = if committed.is_some() { History::Transaction } else { History::Several };
        let batch = Batch {
            origin: self.origin,
            sequence: self.sequence + 1,
            token: fastrand::u64(..),
            time_ms: committed.unwrap_or_else(now_ms),
            is_whole,
            history: self.selection.history.then_some(span),
            tables: found.collect.tables,
        };
        self.pending = Some((batch, step));
        Ok(())
    }

    fn discard(&mut self) {
        self.pending = None;
    }

    fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    fn deliver(&mut self) -> Result<Delivered> {
        let Some((batch, _)) = &self.pending else {
            return Ok(Delivered { sequence: self.sequence, ..Delivered::default() });
        };
        let mut delivered = Delivered { sequence: self.sequence, ..Delivered::default() };
        // What has changed may be no row that is shipped.
        if batch.is_whole || !batch.tables.is_empty() {
            let arrived = deliver(&mut *self.destination, batch)?;
            let is_again = |old: &Parked| arrived.parked.iter().any(|new| new.table == old.table);
            self.parked.retain(|old| !batch.is_whole && !is_again(old));
            self.parked.extend(arrived.parked);
            delivered = Delivered { sequence: batch.sequence, bytes: arrived.bytes, requests: 1 };
        }
        if let Some((_, step)) = self.pending.take() {
            self.map.get_or_insert_default().apply(step);
        }
        self.sequence = delivered.sequence;
        Ok(delivered)
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn parked(&self) -> &[Parked] {
        &self.parked
    }
}

/// The newer moment.
struct After<'a>(&'a Changes<'a>);

impl Pages for After<'_> {
    fn page_bytes(&self) -> usize {
        self.0.page_size() as usize
    }

    fn count(&self) -> u32 {
        self.0.pages()
    }

    fn read(&self, number: u32, page: &mut [u8]) -> std::result::Result<(), Failure> {
        self.0.read(number, page).map_err(Into::into)
    }
}

/// The moment of the last delivery: pages that were kept, and those that have not changed since.
struct Before<'a> {
    changes: &'a Changes<'a>,
    changed: HashSet<u32>,
    count: u32,
}

impl<'a> Before<'a> {
    fn new(changes: &'a Changes<'a>) -> Option<Before<'a>> {
        let count = changes.before()?.len();
        Some(Before { changes, changed: changes.changed().iter().copied().collect(), count })
    }
}

impl Pages for Before<'_> {
    fn page_bytes(&self) -> usize {
        self.changes.page_size() as usize
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn read(&self, number: u32, page: &mut [u8]) -> std::result::Result<(), Failure> {
        if number <= self.changes.pages() && !self.changed.contains(&number) {
            return self.changes.read(number, page).map_err(Into::into);
        }
        let image = self.changes.image(number).ok_or("the page as it was is not at hand")?;
        page.copy_from_slice(image);
        Ok(())
    }
}

/// The changes of the selected tables.
struct Collected<'a> {
    selection: &'a Selection,
    collect: Collect,
    takes_ranges: bool,
    /// True where the comparison has ended since older rows are not known.
    misses_rows: bool,
}

impl<'a> Collected<'a> {
    fn new(selection: &'a Selection, takes_ranges: bool) -> Collected<'a> {
        Collected { selection, collect: Collect::default(), takes_ranges, misses_rows: false }
    }
}

impl Visitor for Collected<'_> {
    fn table(&mut self, pair: TablePair<'_>) -> std::result::Result<Rows, Failure> {
        match self.selection.is_shipped(&pair.table().name) {
            true => self.collect.table(pair),
            false => Ok(Rows::Skipped),
        }
    }

    fn row(&mut self, pair: TablePair<'_>, change: Change) -> std::result::Result<(), Failure> {
        let is_kept = Selection::has(&self.selection.keep_deleted, &pair.table().name);
        match change {
            Change::Delete(_) if is_kept => Ok(()),
            change => self.collect.row(pair, change),
        }
    }

    fn forget(
        &mut self,
        _: TablePair<'_>,
        range: (Option<i64>, Option<i64>),
    ) -> std::result::Result<(), Failure> {
        if !self.takes_ranges {
            self.misses_rows = true;
            return Err("older rows are not known".into());
        }
        if let Some(table) = self.collect.tables.last_mut() {
            table.forgotten.push(range);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

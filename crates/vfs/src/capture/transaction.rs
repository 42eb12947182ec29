//! The record of one open transaction: its statements and values, and what must come out again when they are replayed.

use crate::capture::encoding::{Captured, Checks, MOST_TIME, Text};
use crate::capture::replayable::Program;
use crate::capture::statement_text::StatementKind;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of values beyond which pages are written.
const MOST_BYTES: usize = 256 << 10;
/// Bits by which the limit shrinks after each transaction that was too long, and the most bits. After so many such
/// transactions the whole limit is tried again.
const LESS_BITS: u32 = 2;
const MOST_LESS_BITS: u32 = 5;
const RETRIED: u32 = 16;

/// Most bytes of values, after so many transactions in a row that had more: bulk loads are recorded in vain only for their
/// first part.
fn most_bytes(oversized: u32) -> usize {
    match oversized % RETRIED {
        0 => MOST_BYTES,
        times => MOST_BYTES >> (times * LESS_BITS).min(MOST_LESS_BITS),
    }
}

/// Risk that new rows get other numbers in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowNumberRisk {
    /// They cannot.
    None,
    /// They can, if one of the tables has a row whose number is close to the largest.
    InFullTables,
    /// They can.
    Certain,
}

/// How the statements of a transaction number new rows.
#[derive(Debug, Default)]
pub(super) struct RowNumbers {
    /// Root pages of tables that get rows with new numbers.
    pub tables: Vec<i64>,
    /// True if a number was given that is close to the largest of rows.
    pub has_large: bool,
    /// True if a value may have become the number of a row.
    from_values: bool,
    /// True if that value may have been stored, or computed.
    from_rows: bool,
}

impl RowNumbers {
    fn clear(&mut self) {
        self.tables.clear();
        (self.has_large, self.from_values, self.from_rows) = (false, false, false);
    }

    /// Adds a statement's program; `has_large` says that its text has a number close to the largest.
    pub fn add(&mut self, program: &Program, has_large: bool) {
        for root in &program.makes_rows_in {
            if !self.tables.contains(root) {
                self.tables.push(*root);
            }
        }
        self.has_large |= has_large || program.has_large;
        self.from_values |= program.numbers_rows;
        self.from_rows |= program.numbers_by_rows;
    }

    /// The risk that new rows get other numbers: SQLite chooses by chance behind the largest number.
    pub fn risk(&self) -> RowNumberRisk {
        if self.tables.is_empty() {
            RowNumberRisk::None
        } else if self.from_rows || self.has_large && self.from_values {
            RowNumberRisk::Certain
        } else {
            RowNumberRisk::InFullTables
        }
    }
}

/// The open transaction as it is recorded.
#[derive(Debug, Default)]
pub(super) struct TransactionRecord {
    pub captured: Captured,
    pub rows: RowNumbers,
    /// Statements and bytes of values that were recorded before the last statement.
    before_last: (usize, usize),
    begun: Option<Instant>,
    /// The connection's counters when the transaction began.
    changes_before: i32,
    rowid_before: i64,
    /// Changes after the last statement.
    changes_after: i32,
    /// Transactions in a row whose values were too long.
    oversized: u32,
    /// The transaction logged last, while the log does not know how many rows it changed.
    unchecked: Option<u64>,
}

impl TransactionRecord {
    /// True if no statement is recorded.
    #[inline]
    pub fn is_blank(&self) -> bool {
        self.captured.statements.is_empty()
    }

    /// A transaction begins, with these counters of the connection.
    pub fn reset(&mut self, changes: i32, rowid: i64) {
        let earlier = self.unchecked.take().map(|number| (number, changes.wrapping_sub(self.changes_before)));
        self.captured.statements.clear();
        self.captured.values.clear();
        self.captured.checks = Checks { earlier, ..Checks::default() };
        self.rows.clear();
        self.before_last = (0, 0);
        self.begun = Some(Instant::now());
        (self.changes_before, self.changes_after, self.rowid_before) = (changes, changes, rowid);
    }

    /// Adds a statement; its values follow in `captured`.
    pub fn begin_statement(&mut self, text: Arc<Text>, parameters: usize) {
        self.before_last = (self.captured.statements.len(), self.captured.values.len());
        self.captured.begin_statement(text, parameters);
    }

    /// Takes the last statement out again.
    pub fn drop_last(&mut self) {
        let (statements, values) = self.before_last;
        self.captured.statements.truncate(statements);
        self.captured.values.truncate(values);
    }

    /// True if the values are too long for the log; counts it.
    pub fn is_oversized(&mut self) -> bool {
        let is_oversized = self.captured.values.len() > most_bytes(self.oversized);
        self.oversized += u32::from(is_oversized);
        is_oversized
    }

    /// A statement has ended, and this is the connection's count of changes: whether the statement changed any row.
    pub fn has_changed(&mut self, changes: i32) -> bool {
        std::mem::replace(&mut self.changes_after, changes) != changes
    }

    /// Takes the transaction out, to be logged under `number`. `kind` is that of the statement that commits.
    pub fn take(
        &mut self,
        number: u64,
        kind: StatementKind,
        changes: impl FnOnce() -> i32,
        rowid: i64,
    ) -> Captured {
        self.oversized = 0;
        let mut captured = std::mem::take(&mut self.captured);
        captured.took = self.begun.map_or(MOST_TIME, |begun| begun.elapsed());
        captured.checks.rowid = (rowid != self.rowid_before).then_some(rowid);
        // SQLite counts the changes of a statement that commits by itself only when it has ended.
        captured.checks.changes =
            (kind != StatementKind::Write).then(|| changes().wrapping_sub(self.changes_before));
        self.unchecked = captured.checks.changes.is_none().then_some(number);
        captured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> Arc<Text> {
        Arc::new(Text { sql: sql.to_owned(), settings: Default::default() })
    }

    #[test]
    fn bulk_loads_lower_the_limit_and_every_sixteenth_tries_it_whole() {
        for (oversized, bytes) in [
            (0, 256 << 10),
            (1, 64 << 10),
            (2, 16 << 10),
            (3, 8 << 10),
            (15, 8 << 10),
            (16, 256 << 10),
            (17, 64 << 10),
        ] {
            assert_eq!(most_bytes(oversized), bytes, "{oversized}");
        }
        let mut record = TransactionRecord::default();
        record.captured.values = vec![0; MOST_BYTES];
        assert!(!record.is_oversized());
        record.captured.values.push(0);
        assert!(record.is_oversized());
        record.captured.values.truncate(MOST_BYTES >> 1);
        assert!(record.is_oversized(), "the limit is lower for the next");
        record.take(1, StatementKind::Write, || 0, 0);
        record.captured.values = vec![0; MOST_BYTES];
        assert!(!record.is_oversized(), "one that was logged restores the limit");
    }

    #[test]
    fn row_numbers_are_a_risk_where_rows_are_made() {
        // Tables, a large number, numbers from values, from rows.
        for (tables, has_large, from_values, from_rows, risk) in [
            (vec![], true, true, true, RowNumberRisk::None),
            (vec![2], false, false, false, RowNumberRisk::InFullTables),
            (vec![2], true, false, false, RowNumberRisk::InFullTables),
            (vec![2], false, true, false, RowNumberRisk::InFullTables),
            (vec![2], true, true, false, RowNumberRisk::Certain),
            (vec![2], false, false, true, RowNumberRisk::Certain),
        ] {
            let program = Program {
                makes_rows_in: tables,
                numbers_rows: from_values,
                numbers_by_rows: from_rows,
                ..Program::default()
            };
            let mut rows = RowNumbers::default();
            rows.add(&Program::default(), has_large);
            rows.add(&program, false);
            rows.add(&program, false);
            assert_eq!(rows.risk(), risk, "{rows:?}");
            assert!(rows.tables.len() <= 1, "each table once");
            rows.clear();
            assert_eq!(rows.risk(), RowNumberRisk::None);
        }
    }

    #[test]
    fn the_changes_of_a_statement_that_commits_by_itself_are_checked_with_the_next_transaction() {
        let mut record = TransactionRecord::default();
        record.reset(10, 5);
        record.begin_statement(text("INSERT"), 0);
        let checks = record.take(1, StatementKind::Write, || 10, 6).checks;
        assert_eq!(checks, Checks { changes: None, rowid: Some(6), earlier: None });
        record.reset(11, 6);
        record.begin_statement(text("UPDATE"), 0);
        assert!(record.has_changed(14) && !record.has_changed(14));
        let checks = record.take(2, StatementKind::Boundary, || 14, 6).checks;
        assert_eq!(checks, Checks { changes: Some(3), rowid: None, earlier: Some((1, 1)) });
        record.reset(14, 6);
        assert_eq!(record.captured.checks, Checks::default());
    }

    #[test]
    fn the_last_statement_can_be_taken_out_again() {
        let mut record = TransactionRecord::default();
        record.reset(0, 0);
        record.begin_statement(text("INSERT"), 1);
        record.captured.values.push(0);
        let values = record.captured.values.len();
        record.begin_statement(text("UPDATE"), 0);
        record.drop_last();
        assert_eq!((record.captured.statements.len(), record.captured.values.len()), (1, values));
        record.drop_last();
        assert_eq!(record.captured.statements.len(), 1, "only the last");
        record.reset(0, 0);
        assert!(record.is_blank());
    }
}

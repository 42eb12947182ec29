//! The history of sources: a row for each change of each transaction, beside the tables, which have the newest rows.
//!
//! ```sql
//! litefoot.history(source uuid, epoch bigint, seq bigint, number integer, at timestamptz, transactions text, name text, op text, rowid bigint, row json)
//! ```
//! | `op` | `row` |
//! |---|---|
//! | `insert`, `update` | the row behind it, by the names of its columns |
//! | `delete` | the primary key, of a table without rowids |
//! | `define` | `{"sql":…}`: the table is new or altered; null where it is dropped |
//! | `forget` | `{"above":…,"through":…}`: rows with these rowids are gone, but for those that follow |
//! | `whole` | all rows were sent anew, and what came before is not known |
//!
//! `at` is when the transaction was committed. Where `transactions` is `several` it is when the batch was made, and what a later one of them has
//! overwritten is not in it. The type is `json`, since `jsonb` takes no text with a NUL. Tables that are parked have their history.

use crate::batch::Batch;
use litefoot_rowdiff::encode::json::value;
use litefoot_rowdiff::{Change, Key, Row, Table, TableChanges};
use serde_json::{Map, Value as Json, json};
use tokio_postgres::{Error, Transaction};

pub(super) const SETUP: &str = "
    CREATE TABLE IF NOT EXISTS litefoot.history(source uuid, epoch bigint, seq bigint, number integer, at timestamptz NOT NULL,
      transactions text NOT NULL, name text, op text NOT NULL, rowid bigint, row json, PRIMARY KEY (source, epoch, seq, number));";

/// Rows of the history of a batch that are not written yet.
#[derive(Default)]
struct Lines {
    names: Vec<Option<String>>,
    ops: Vec<&'static str>,
    rowids: Vec<Option<i64>>,
    rows: Vec<Option<String>>,
}

impl Lines {
    fn push(&mut self, name: Option<&str>, op: &'static str, rowid: Option<i64>, row: Option<Json>) {
        self.names.push(name.map(str::to_owned));
        self.ops.push(op);
        self.rowids.push(rowid);
        self.rows.push(row.map(|row| row.to_string()));
    }

    fn table(&mut self, changes: &TableChanges) {
        let pair = changes.pair();
        let (table, name) = (pair.table(), Some(pair.table().name.as_str()));
        if pair.is_altered() {
            let sql = changes.after.as_ref().map(|after| json!({ "sql": after.sql }));
            self.push(name, "define", None, sql);
        }
        for (above, through) in &changes.forgotten {
            self.push(name, "forget", None, Some(json!({ "above": above, "through": through })));
        }
        for change in &changes.changes {
            match change {
                Change::Insert(row) => self.push(name, "insert", row.rowid, Some(object(table, row))),
                Change::Update { after, .. } => {
                    self.push(name, "update", after.rowid, Some(object(table, after)));
                }
                Change::Delete(row) => self.push(name, "delete", row.rowid, key(table, row)),
            }
        }
    }
}

fn object(table: &Table, row: &Row) -> Json {
    let columns = table.columns.iter().zip(&row.values);
    columns.map(|(column, of)| (column.name.clone(), value(of))).collect::<Map<_, _>>().into()
}

/// What finds a row that has no rowid.
fn key(table: &Table, row: &Row) -> Option<Json> {
    if table.key != Key::PrimaryKey {
        return None;
    }
    let columns =
        table.primary_key().into_iter().map(|at| (table.columns[at].name.clone(), value(&row.values[at])));
    Some(columns.collect::<Map<_, _>>().into())
}

/// The history of a batch, as it is taken.
pub(super) struct Writing<'a> {
    batch: &'a Batch,
    source: &'a str,
    /// Lines that are written.
    written: i32,
}

impl<'a> Writing<'a> {
    /// That of a batch of which a history is wanted.
    pub(super) fn of(batch: &'a Batch, source: &'a str) -> Option<Writing<'a>> {
        batch.history.map(|_| Writing { batch, source, written: 0 })
    }

    /// Writes the changes of some tables.
    pub(super) async fn write(
        &mut self,
        transaction: &Transaction<'_>,
        tables: &[TableChanges],
    ) -> Result<(), Error> {
        let mut lines = Lines::default();
        if !self.batch.is_whole {
            tables.iter().for_each(|table| lines.table(table));
        } else if self.written == 0 {
            lines.push(None, "whole", None, None);
        }
        let Some(history) = self.batch.history.filter(|_| !lines.ops.is_empty()) else { return Ok(()) };
        let insert = "INSERT INTO litefoot.history
            SELECT $1::text::uuid, $2, $3, $4::integer + n, to_timestamp($5::float8 / 1000), $6, name, op, rowid, row::json
            FROM unnest($7::text[], $8::text[], $9::bigint[], $10::text[]) WITH ORDINALITY AS of(name, op, rowid, row, n)";
        let (epoch, sequence) = (self.batch.origin.epoch.cast_signed(), self.batch.sequence.cast_signed());
        let time = self.batch.time_ms as f64;
        transaction
            .execute(
                insert,
                &[
                    &self.source,
                    &epoch,
                    &sequence,
                    &self.written,
                    &time,
                    &history.name(),
                    &lines.names,
                    &lines.ops,
                    &lines.rowids,
                    &lines.rows,
                ],
            )
            .await?;
        self.written += lines.ops.len() as i32;
        Ok(())
    }
}

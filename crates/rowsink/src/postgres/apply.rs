//! The transaction of a batch.

use super::fit::Cells;
use super::history;
use super::table::{Target, follows, quote};
use crate::{Applied, Batch, Origin, Parked, Position};
use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Transaction};

/// Makes our own tables, once. Two sources that do so at the same time wait for each other.
pub(super) const SETUP: &str = "
    SET client_min_messages = warning;
    SELECT pg_advisory_xact_lock(7813521);
    CREATE SCHEMA IF NOT EXISTS litefoot;
    CREATE TABLE IF NOT EXISTS litefoot.source(source uuid PRIMARY KEY, epoch bigint NOT NULL, seq bigint NOT NULL, token bigint NOT NULL,
      updated timestamptz NOT NULL DEFAULT now());
    CREATE TABLE IF NOT EXISTS litefoot.source_table(source uuid, name text, parked text, PRIMARY KEY (source, name));
    CREATE TABLE IF NOT EXISTS litefoot.source_certificate(source uuid PRIMARY KEY, subject bytea NOT NULL);";

/// The reason that a conversation came to nothing.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server said no, or was lost.
    Server(Error),
    /// What was to be taken cannot be read.
    Batch(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Server(error)
    }
}

/// The further parts of a batch, one after the other; `None` behind the last.
pub(crate) type More<'a> = dyn FnMut() -> std::result::Result<Option<Vec<TableChanges>>, String> + Send + 'a;

type Result<T> = std::result::Result<T, Error>;
type Parameters<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// Where the destination stands with a source.
pub(crate) async fn position(client: &Client, origin: &Origin) -> Result<Option<Position>> {
    let select = "SELECT epoch, seq, token FROM litefoot.source WHERE source = $1::text::uuid";
    let found = client.query_opt(select, &[&origin.source_text()]).await?;
    found
        .map(|row| {
            Ok(Position {
                epoch: number(row.try_get(0)?),
                sequence: number(row.try_get(1)?),
                token: number(row.try_get(2)?),
            })
        })
        .transpose()
}

/// Makes a source that of a certificate's subject; `false` where it is another's.
pub(crate) async fn bind(client: &Client, origin: &Origin, subject: &[u8]) -> Result<bool> {
    let source = origin.source_text();
    let insert = "INSERT INTO litefoot.source_certificate(source, subject) VALUES ($1::text::uuid, $2) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&source, &subject]).await?;
    let select = "SELECT subject = $2 FROM litefoot.source_certificate WHERE source = $1::text::uuid";
    client.query_one(select, &[&source, &subject]).await?.try_get(0)
}

fn number(stored: i64) -> u64 {
    stored.cast_unsigned()
}

/// Takes a batch, whole or not at all: the tables that are in it, and those of `more`.
pub(crate) async fn apply(
    client: &mut Client,
    schema: &str,
    batch: &Batch,
    more: &mut More<'_>,
) -> std::result::Result<Applied, Failed> {
    let transaction = client.transaction().await?;
    if !advance(&transaction, batch).await? {
        transaction.rollback().await?;
        return Ok(Applied::NotNext(position(client, &batch.origin).await?));
    }
    let source = batch.origin.source_text();
    let mut taking =
        Taking { schema, batch, source: &source, known: HashMap::new(), bytes: 0, parked: Vec::new() };
    taking.know(&transaction).await?;
    if batch.is_whole {
        taking.forget_all(&transaction).await?;
    }
    let mut history = history::Writing::of(batch, &source);
    let mut further = None;
    loop {
        let tables = further.as_ref().unwrap_or(&batch.tables);
        for table in tables {
            taking.table(&transaction, table).await?;
        }
        if let Some(history) = &mut history {
            history.write(&transaction, tables).await?;
        }
        further = more().map_err(Failed::Batch)?;
        if further.is_none() {
            break;
        }
    }
    transaction.commit().await?;
    Ok(Applied::Done { bytes: taking.bytes, parked: taking.parked })
}

/// Moves the position from the batch before to this one; `false` where it stands elsewhere.
async fn advance(transaction: &Transaction<'_>, batch: &Batch) -> Result<bool> {
    let (source, epoch) = (batch.origin.source_text(), batch.origin.epoch.cast_signed());
    let (sequence, token) = (batch.sequence.cast_signed(), batch.token.cast_signed());
    let update = "UPDATE litefoot.source SET seq = $3, token = $5, updated = now() WHERE source = $1::text::uuid AND epoch = $2 AND seq = $4";
    if transaction.execute(update, &[&source, &epoch, &sequence, &(sequence - 1), &token]).await? == 1 {
        return Ok(true);
    }
    // The first of a source, or of a new epoch.
    let insert = "INSERT INTO litefoot.source(source, epoch, seq, token) VALUES ($1::text::uuid, $2, 1, $3)
                  ON CONFLICT (source) DO UPDATE SET epoch = excluded.epoch, seq = 1, token = excluded.token, updated = now() WHERE source.epoch < excluded.epoch";
    Ok(batch.sequence == 1
        && batch.is_whole
        && transaction.execute(insert, &[&source, &epoch, &token]).await? == 1)
}

/// A batch as it is taken.
struct Taking<'a> {
    schema: &'a str,
    batch: &'a Batch,
    source: &'a str,
    /// The tables of the source, and why one is parked.
    known: HashMap<String, Option<String>>,
    bytes: u64,
    parked: Vec<Parked>,
}

impl Taking<'_> {
    async fn know(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let select = "SELECT name, parked FROM litefoot.source_table WHERE source = $1::text::uuid";
        for row in transaction.query(select, &[&self.source]).await? {
            self.known.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(())
    }

    /// A whole batch: tables that are not in it are gone, and none is parked.
    async fn forget_all(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        for name in std::mem::take(&mut self.known).into_keys() {
            self.forget(transaction, &name).await?;
        }
        Ok(())
    }

    /// The rows of a table of this source go.
    async fn forget(&mut self, transaction: &Transaction<'_>, name: &str) -> Result<()> {
        self.known.remove(name);
        if !columns(transaction, self.schema, name).await?.is_empty() {
            let table = format!("{}.{}", quote(self.schema), quote(name));
            let delete = format!("DELETE FROM {table} WHERE _source = $1::text::uuid");
            transaction.execute(&delete, &[&self.source]).await?;
        }
        let delete = "DELETE FROM litefoot.source_table WHERE source = $1::text::uuid AND name = $2";
        transaction.execute(delete, &[&self.source, &name]).await?;
        Ok(())
    }

    async fn table(&mut self, transaction: &Transaction<'_>, changes: &TableChanges) -> Result<()> {
        let Some(after) = &changes.after else {
            let name = changes.pair().table().name.clone();
            return self.forget(transaction, &name).await;
        };
        if let Some(before) = changes.before.as_ref().filter(|before| before.name != after.name) {
            self.forget(transaction, &before.name).await?;
        }
        if let Some(Some(why)) = self.known.get(&after.name) {
            let why = why.clone();
            self.park(&after.name, why);
            return Ok(());
        }
        let followed = match &changes.before {
            Some(before) if !self.batch.is_whole => follows(before, after),
            _ => Ok(()),
        };
        // One definition at a time: devices share the tables.
        let is_new = !self.known.contains_key(&after.name) || changes.pair().is_altered();
        if is_new {
            transaction.batch_execute("SELECT pg_advisory_xact_lock(7813522)").await?;
        }
        let found = columns(transaction, self.schema, &after.name).await?;
        let target = followed.and_then(|()| Target::new(self.schema, after, &found));
        let parked = target.as_ref().err();
        self.known.insert(after.name.clone(), parked.cloned());
        if is_new || parked.is_some() {
            let note = "INSERT INTO litefoot.source_table VALUES ($1::text::uuid, $2, $3)
                        ON CONFLICT (source, name) DO UPDATE SET parked = excluded.parked";
            transaction.execute(note, &[&self.source, &after.name, &parked]).await?;
        }
        match target {
            Ok(target) => {
                transaction.batch_execute(&target.definition(&found)).await?;
                self.fill_added(transaction, changes, &target).await?;
                for (above, through) in &changes.forgotten {
                    transaction.execute(&target.forget(), &[&self.source, above, through]).await?;
                }
                self.rows(transaction, after, &target, &changes.changes).await
            }
            Err(why) => {
                self.park(&after.name, why);
                Ok(())
            }
        }
    }

    /// Notes that a table is left out. It may come in several parts.
    fn park(&mut self, table: &str, why: String) {
        if !self.parked.iter().any(|parked| parked.table == table) {
            self.parked.push(Parked { table: table.to_owned(), why });
        }
    }

    /// Rows that are older than a column have its default.
    async fn fill_added(
        &self,
        transaction: &Transaction<'_>,
        changes: &TableChanges,
        target: &Target,
    ) -> Result<()> {
        let (Some(before), Some(after)) = (&changes.before, &changes.after) else { return Ok(()) };
        let is_added = |name: &str| !before.columns.iter().any(|column| column.name == name);
        for (at, column) in after.columns.iter().enumerate().filter(|(_, column)| is_added(&column.name)) {
            let Some(default) = column.default.as_ref().filter(|value| **value != Value::Null) else {
                continue;
            };
            let mut row = Row { rowid: None, values: vec![Value::Null; after.columns.len()] };
            row.values[at] = default.clone();
            let cells = target.cells(after, std::iter::once(&row));
            let Some(misfit) = cells.last() else { continue };
            let parameters: Parameters<'_> = vec![&self.source, parameter(&cells[at]), parameter(misfit)];
            transaction.execute(&target.fill(at), &parameters).await?;
        }
        Ok(())
    }

    async fn rows(
        &mut self,
        transaction: &Transaction<'_>,
        table: &Table,
        target: &Target,
        changes: &[Change],
    ) -> Result<()> {
        let gone = || {
            changes
                .iter()
                .filter_map(|change| if let Change::Delete(row) = change { Some(row) } else { None })
        };
        let come = || {
            changes.iter().filter_map(|change| match change {
                Change::Insert(row) | Change::Update { after: row, .. } => Some(row),
                Change::Delete(_) => None,
            })
        };
        if gone().next().is_some() {
            let keys = target.keys(table, gone());
            transaction.execute(&target.delete(), &[&self.source, parameter(&keys)]).await?;
            self.bytes += bytes(&keys);
        }
        if come().next().is_some() {
            let (keys, cells) = (target.keys(table, come()), target.cells(table, come()));
            let mut parameters: Parameters<'_> = vec![&self.source, parameter(&keys)];
            parameters.extend(cells.iter().map(parameter));
            transaction.execute(&target.upsert(), &parameters).await?;
            self.bytes += bytes(&keys) + cells.iter().map(bytes).sum::<u64>();
        }
        Ok(())
    }
}

/// The columns of a table that is there, with the names of their types.
async fn columns(transaction: &Transaction<'_>, schema: &str, table: &str) -> Result<Vec<(String, String)>> {
    let select = "SELECT column_name::text, data_type::text FROM information_schema.columns
                  WHERE table_schema = $1::text AND table_name = $2::text";
    let rows = transaction.query(select, &[&schema, &table]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

pub(super) fn parameter(cells: &Cells) -> &(dyn ToSql + Sync) {
    match cells {
        Cells::Bigint(cells) => cells,
        Cells::Float(cells) => cells,
        Cells::Text(cells) | Cells::Numeric(cells) => cells,
        Cells::Bytea(cells) => cells,
    }
}

/// Bytes of the values, about.
fn bytes(cells: &Cells) -> u64 {
    let of = |lengths: &mut dyn Iterator<Item = usize>| lengths.sum::<usize>() as u64;
    match cells {
        Cells::Bigint(cells) => 8 * cells.len() as u64,
        Cells::Float(cells) => 8 * cells.len() as u64,
        Cells::Text(cells) | Cells::Numeric(cells) => of(&mut cells.iter().flatten().map(String::len)),
        Cells::Bytea(cells) => of(&mut cells.iter().flatten().map(Vec::len)),
    }
}

//! Batches of many sources, in one transaction.
//!
//! # Why
//! A transaction costs a sync and some round trips. A fleet's batches share them: the positions move in one statement, and the rows of a table come by
//! one COPY.
//!
//! # Invariants
//! 1. A batch is taken only where its position moves, in the same transaction: the guard is that of a batch alone.
//! 2. Taken in a group is what changes rows, and nothing else. A batch with all rows, a history, a new or an altered table, or one that is parked, is
//!    left to `apply`, which decides these alone.
//! 3. What is known of tables is read before the positions move. Where somebody else delivers in between, the position has moved, and the batch is not taken.

use super::copy;
use super::table::Target;
use crate::Batch;
use futures_util::SinkExt;
use litefoot_rowdiff::{Change, Row, Rowids, Table};
use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::pin::pin;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Transaction};

type Result<T> = std::result::Result<T, Error>;

/// How rows come into their table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// New rows by COPY, others by a table of their own.
    Fast,
    /// All by a table of their own: one that is said to be new may be there.
    Staged,
}

/// What became of the batches of a group.
pub(crate) enum Outcome {
    /// For each batch the bytes that were sent; `None` for one that is to be applied alone.
    Done(Vec<Option<u64>>),
    /// Nothing was taken: the server has refused something. One batch is to blame, and they are to be applied one by one.
    Refused,
}

/// Takes those batches that only change rows. There is one batch of each source at most; of others the first is taken.
pub(crate) async fn take(client: &mut Client, schema: &str, batches: &[&Batch]) -> Result<Outcome> {
    let mut outcome = attempt(client, schema, batches, Way::Fast).await;
    if outcome.as_ref().is_err_and(|error| error.code() == Some(&SqlState::UNIQUE_VIOLATION)) {
        outcome = attempt(client, schema, batches, Way::Staged).await;
    }
    match outcome {
        Ok(taken) => Ok(Outcome::Done(taken)),
        Err(error) if is_refusal(&error) && !client.is_closed() => Ok(Outcome::Refused),
        Err(error) => Err(error),
    }
}

/// Whether the server has said no to a statement; it may else be away, full, or ending.
fn is_refusal(error: &Error) -> bool {
    let busy = ["08", "53", "57", "58", "XX"];
    error.code().is_some_and(|code| !busy.iter().any(|class| code.code().starts_with(class)))
}

async fn attempt(
    client: &mut Client,
    schema: &str,
    batches: &[&Batch],
    way: Way,
) -> Result<Vec<Option<u64>>> {
    let transaction = client.transaction().await?;
    let mut taken = vec![None; batches.len()];
    let candidates = candidates(&transaction, schema, batches).await?;
    let moved = advance(&transaction, batches, &candidates).await?;
    let mut loads: HashMap<&Target, Load<'_>> = HashMap::new();
    for candidate in candidates.iter().filter(|candidate| moved.contains(&candidate.source)) {
        let mut bytes = 0;
        for (table, target) in batches[candidate.batch].tables.iter().zip(&candidate.targets) {
            let Some(after) = &table.after else { continue };
            let load = loads.entry(target).or_default();
            for range in &table.forgotten {
                load.forgotten.push((&candidate.source, *range));
            }
            for change in &table.changes {
                bytes += load.add(&candidate.source, target, after, change);
            }
        }
        taken[candidate.batch] = Some(bytes);
    }
    for (target, load) in loads {
        load.send(&transaction, target, way).await?;
    }
    transaction.commit().await?;
    Ok(taken)
}

/// A batch that can be taken here, if its position moves.
struct Candidate {
    batch: usize,
    source: String,
    /// Of its tables, in their order.
    targets: Vec<Target>,
}

/// The batches that only change rows of tables that are there.
async fn candidates(
    transaction: &Transaction<'_>,
    schema: &str,
    batches: &[&Batch],
) -> Result<Vec<Candidate>> {
    let mut met = HashSet::new();
    let plain: Vec<(usize, String)> = batches
        .iter()
        .enumerate()
        .filter(|(_, batch)| changes_rows_only(batch) && met.insert(batch.origin.source))
        .map(|(at, batch)| (at, batch.origin.source_text()))
        .collect();
    if plain.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<&str> = plain.iter().map(|(_, source)| source.as_str()).collect();
    let names =
        plain.iter().flat_map(|(at, _)| &batches[*at].tables).filter_map(|table| table.after.as_ref());
    let names: Vec<&str> =
        names.map(|table| table.name.as_str()).collect::<HashSet<_>>().into_iter().collect();
    let select = "SELECT source::text, name FROM litefoot.source_table
                  WHERE source = ANY($1::text[]::uuid[]) AND name = ANY($2::text[]) AND parked IS NULL";
    let mut known: HashSet<(String, String)> = HashSet::new();
    for row in transaction.query(select, &[&sources, &names]).await? {
        known.insert((row.try_get(0)?, row.try_get(1)?));
    }
    let found = columns(transaction, schema, &names).await?;
    let candidate = |(batch, source): (usize, String)| {
        let tables = batches[batch].tables.iter().filter_map(|table| table.after.as_ref());
        let mut targets = Vec::new();
        for table in tables {
            let found = found.get(&table.name)?;
            let target = Target::new(schema, table, found).ok()?;
            let is_there = known.contains(&(source.clone(), table.name.clone()));
            if !is_there || !target.definition(found).is_empty() {
                return None;
            }
            targets.push(target);
        }
        Some(Candidate { batch, source, targets })
    };
    Ok(plain.into_iter().filter_map(candidate).collect())
}

fn changes_rows_only(batch: &Batch) -> bool {
    let is_same =
        |table: &litefoot_rowdiff::TableChanges| table.after.is_some() && !table.pair().is_altered();
    !batch.is_whole && batch.history.is_none() && batch.tables.iter().all(is_same)
}

/// The columns of tables, with the names of their types.
async fn columns(
    transaction: &Transaction<'_>,
    schema: &str,
    tables: &[&str],
) -> Result<HashMap<String, Vec<(String, String)>>> {
    let select = "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL) FROM pg_catalog.pg_class c
                  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
                  WHERE n.nspname = $1::text AND c.relname = ANY($2::text[]::name[]) AND c.relkind IN ('r', 'p')
                    AND a.attnum > 0 AND NOT a.attisdropped";
    let mut found: HashMap<String, Vec<(String, String)>> = HashMap::new();
    for row in transaction.query(select, &[&schema, &tables]).await? {
        found.entry(row.try_get(0)?).or_default().push((row.try_get(1)?, row.try_get(2)?));
    }
    Ok(found)
}

/// Moves positions from the batch before to that of the candidate; answers the sources whose position has moved.
async fn advance(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    candidates: &[Candidate],
) -> Result<HashSet<String>> {
    if candidates.is_empty() {
        return Ok(HashSet::new());
    }
    let sources: Vec<&str> = candidates.iter().map(|candidate| candidate.source.as_str()).collect();
    let of = |number: fn(&Batch) -> u64| -> Vec<i64> {
        candidates.iter().map(|candidate| number(batches[candidate.batch]).cast_signed()).collect()
    };
    let (epochs, sequences) = (of(|batch| batch.origin.epoch), of(|batch| batch.sequence));
    let tokens = of(|batch| batch.token);
    let update = "UPDATE litefoot.source s SET seq = d.seq, token = d.token, updated = now()
                  FROM unnest($1::text[]::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) d(source, epoch, seq, token)
                  WHERE s.source = d.source AND s.epoch = d.epoch AND s.seq = d.seq - 1 RETURNING s.source::text";
    let rows = transaction.query(update, &[&sources, &epochs, &sequences, &tokens]).await?;
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// The changes of one table.
#[derive(Default)]
struct Load<'a> {
    forgotten: Vec<(&'a str, Rowids)>,
    gone: Vec<(&'a str, &'a Table, &'a Row)>,
    /// Rows for COPY: new ones, and those that may be there.
    new: String,
    newer: String,
}

impl<'a> Load<'a> {
    /// Adds a change; answers its bytes.
    fn add(&mut self, source: &'a str, target: &Target, table: &'a Table, change: &'a Change) -> u64 {
        let (lines, row) = match change {
            Change::Delete(row) => {
                self.gone.push((source, table, row));
                return 8;
            }
            Change::Insert(row) => (&mut self.new, row),
            Change::Update { after, .. } => (&mut self.newer, after),
        };
        let before = lines.len();
        copy::put(lines, source, target, table, row);
        (lines.len() - before) as u64
    }

    /// What goes, goes first.
    async fn send(mut self, transaction: &Transaction<'_>, target: &Target, way: Way) -> Result<()> {
        for (source, (above, through)) in self.forgotten {
            transaction.execute(&target.forget(), &[&source, &above, &through]).await?;
        }
        if let Some((_, table, _)) = self.gone.first() {
            let sources: Vec<&str> = self.gone.iter().map(|(source, ..)| *source).collect();
            let keys = target.keys(table, self.gone.iter().map(|(_, _, row)| *row));
            transaction.execute(&target.delete_many(), &[&sources, super::apply::parameter(&keys)]).await?;
        }
        if way == Way::Staged {
            self.newer.push_str(&std::mem::take(&mut self.new));
        }
        if !self.new.is_empty() {
            copy_in(transaction, &target.name, target, self.new).await?;
        }
        if !self.newer.is_empty() {
            let stage = target.stage();
            transaction.batch_execute(&target.stage_definition(&stage)).await?;
            copy_in(transaction, &stage, target, self.newer).await?;
            transaction.execute(&target.upsert_from(&stage), &[]).await?;
        }
        Ok(())
    }
}

async fn copy_in(transaction: &Transaction<'_>, into: &str, target: &Target, rows: String) -> Result<()> {
    let copy = format!("COPY {into} ({}) FROM STDIN", target.all_columns());
    let mut sink = pin!(transaction.copy_in(&copy).await?);
    sink.send(Cursor::new(rows.into_bytes())).await?;
    sink.finish().await?;
    Ok(())
}

//! Batches as they travel: in parts, of which a collector needs one in memory.
//!
//! ```text
//! flags     1 byte: 1 all rows, 2 the decoder begins anew, 4 first, 8 last, 16 of a history, 32 one transaction of it
//! token     8 bytes, little-endian
//! altered   number | each: name now, name before, CREATE TABLE before; an empty text for none
//! rows      a batch as `litefoot_rowdiff::encode::batch` has it
//! ```
//!
//! # Invariants
//! 1. An encoder and its decoder see the same parts in the same order: those of one connection. A batch of several parts has an encoder of its own,
//!    and so has one that alters a table or has all rows.
//! 2. A row that was updated travels whole: the collector has no older one to take the other columns from.
//! 3. A table that is spread over parts is altered, and its ranges are forgotten, in the first of them.

use super::wire::{Reader, put_text};
use crate::{Batch, Error, History, Origin, Result};
use litefoot_format::number::put_varint;
use litefoot_rowdiff::encode::batch::{Decoder, Encoder, Envelope, RowChange, envelope};
use litefoot_rowdiff::{Change, Row, Table, TableChanges, Value};
use std::collections::{HashMap, HashSet};

const WHOLE: u8 = 1;
const RESET: u8 = 2;
const FIRST: u8 = 4;
const LAST: u8 = 8;
const HISTORY: u8 = 16;
const TRANSACTION: u8 = 32;

/// Values and bytes of a part, about. A row that is larger is a part of its own.
const PART_VALUES: usize = 1 << 16;
const PART_BYTES: usize = 2 << 20;
/// Most bytes of table definitions that a decoder keeps.
const MOST_DEFINITIONS: usize = 1 << 20;

/// The sending side of a connection.
#[derive(Default)]
pub(super) struct Sender {
    encoder: Encoder,
    is_known: bool,
}

impl Sender {
    /// The parts of a batch, one after the other.
    pub fn parts<'a>(&'a mut self, place: &'a str, batch: &'a Batch) -> Parts<'a> {
        let pieces = divided(&batch.tables);
        let is_altered = batch.tables.iter().any(|table| table.pair().is_altered());
        let is_reset = !self.is_known || batch.is_whole || is_altered || pieces.len() > 1;
        // Behind several parts the collector's decoder is that of before.
        self.is_known = pieces.len() == 1;
        if is_reset {
            self.encoder = Encoder::default();
        }
        Parts { sender: self, place, batch, pieces, next: 0, is_reset }
    }
}

/// A run of changes of one table: the table, and which of its changes.
type Piece = (usize, std::ops::Range<usize>);

/// The tables of a batch in pieces, by parts; at least one part.
fn divided(tables: &[TableChanges]) -> Vec<Vec<Piece>> {
    let mut parts = vec![Vec::new()];
    let (mut values, mut bytes) = (0, 0);
    for (number, table) in tables.iter().enumerate() {
        let mut from = 0;
        for (at, change) in table.changes.iter().enumerate() {
            let row = change.row();
            let row_bytes = row.values.iter().map(bytes_of).sum::<usize>();
            let is_full = values + row.values.len() > PART_VALUES || bytes + row_bytes > PART_BYTES;
            if is_full && values > 0 {
                push(&mut parts, number, from..at);
                parts.push(Vec::new());
                (from, values, bytes) = (at, 0, 0);
            }
            values += row.values.len().max(1);
            bytes += row_bytes;
        }
        match table.changes.is_empty() {
            true => parts.last_mut().into_iter().for_each(|part| part.push((number, 0..0))),
            false => push(&mut parts, number, from..table.changes.len()),
        }
    }
    parts
}

fn push(parts: &mut [Vec<Piece>], table: usize, run: std::ops::Range<usize>) {
    if let Some(part) = parts.last_mut().filter(|_| !run.is_empty()) {
        part.push((table, run));
    }
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len() + 8,
        _ => 8,
    }
}

/// See [`Sender::parts`].
pub(super) struct Parts<'a> {
    sender: &'a mut Sender,
    place: &'a str,
    batch: &'a Batch,
    pieces: Vec<Vec<Piece>>,
    next: usize,
    is_reset: bool,
}

impl Iterator for Parts<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        let pieces = self.pieces.get(self.next)?;
        let number = self.next;
        self.next += 1;
        let mut flags = if self.batch.is_whole { WHOLE } else { 0 };
        flags |= match self.batch.history {
            None => 0,
            Some(History::Several) => HISTORY,
            Some(History::Transaction) => HISTORY | TRANSACTION,
        };
        flags |= if number == 0 { FIRST } else { 0 };
        flags |= if number == 0 && self.is_reset { RESET } else { 0 };
        flags |= if self.next == self.pieces.len() { LAST } else { 0 };
        let mut altered = Vec::new();
        let mut tables = Vec::new();
        for (table, run) in pieces {
            let table = &self.batch.tables[*table];
            if run.start == 0 && table.pair().is_altered() {
                altered.push(table);
            }
            if let Some(after) = &table.after {
                let forgotten = if run.start == 0 { table.forgotten.clone() } else { Vec::new() };
                let changes = table.changes[run.clone()].iter().map(|change| whole(after, change)).collect();
                let (before, after) = (Some(after.clone()), Some(after.clone()));
                tables.push(TableChanges { before, after, forgotten, changes });
            }
        }
        let mut out = vec![flags];
        out.extend(self.batch.token.to_le_bytes());
        put_varint(&mut out, altered.len() as u64);
        for table in altered {
            put_text(&mut out, table.after.as_ref().map_or("", |table| &table.name));
            put_text(&mut out, table.before.as_ref().map_or("", |table| &table.name));
            put_text(&mut out, table.before.as_ref().map_or("", |table| &table.sql));
        }
        let envelope = Envelope {
            source: self.batch.origin.source,
            epoch: self.batch.origin.epoch,
            first: self.batch.sequence,
            last: self.batch.sequence,
            time_ms: self.batch.time_ms,
        };
        Some(match self.sender.encoder.batch(&envelope, &tables) {
            Ok(rows) => {
                out.extend(rows);
                Ok(out)
            }
            Err(error) => Err(Error::Refused {
                place: self.place.to_owned(),
                why: format!("a row is larger than a collector takes: {error}"),
            }),
        })
    }
}

/// A change with all values of the newer row: the older one differs in each column that is not of the key.
fn whole(table: &Table, change: &Change) -> Change {
    let Change::Update { after, .. } = change else { return change.clone() };
    let key = table.primary_key();
    let other = |(at, value): (usize, &Value)| match value {
        value if key.contains(&at) => value.clone(),
        Value::Null => Value::Integer(0),
        _ => Value::Null,
    };
    let before = Row { rowid: after.rowid, values: after.values.iter().enumerate().map(other).collect() };
    Change::Update { before, after: after.clone() }
}

/// What stands before the rows of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    flags: u8,
    pub envelope: Envelope,
    pub token: u64,
}

impl Label {
    pub fn is_first(&self) -> bool {
        self.flags & FIRST != 0
    }

    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// True where both are of one batch.
    pub fn is_of_batch(&self, other: &Label) -> bool {
        (self.envelope, self.token) == (other.envelope, other.token)
    }

    /// The batch, with these tables.
    pub fn batch(&self, tables: Vec<TableChanges>) -> Batch {
        Batch {
            origin: Origin { source: self.envelope.source, epoch: self.envelope.epoch },
            sequence: self.envelope.last,
            token: self.token,
            time_ms: self.envelope.time_ms,
            is_whole: self.flags & WHOLE != 0,
            history: match (self.flags & HISTORY != 0, self.flags & TRANSACTION != 0) {
                (false, _) => None,
                (true, false) => Some(History::Several),
                (true, true) => Some(History::Transaction),
            },
            tables,
        }
    }
}

/// Reads the label of a part, and the envelope of its rows.
pub(super) fn label(part: &[u8]) -> std::result::Result<Label, String> {
    let (flags, token, _, rows) = open(part)?;
    let envelope = envelope(rows).map_err(|error| error.to_string())?;
    if envelope.first != envelope.last {
        return Err(DAMAGED.to_owned());
    }
    Ok(Label { flags, envelope, token })
}

const DAMAGED: &str = "the part of a batch is damaged";

type Altered = (String, String, String);

#[allow(clippy::type_complexity)]
fn open(part: &[u8]) -> std::result::Result<(u8, u64, Vec<Altered>, &[u8]), String> {
    let damaged = || DAMAGED.to_owned();
    let mut reader = Reader(part);
    let flags = *reader.bytes(1).and_then(<[u8]>::first).ok_or_else(damaged)?;
    let token = reader.bytes(8).and_then(|bytes| bytes.try_into().ok()).ok_or_else(damaged)?;
    let count = reader.varint().ok_or_else(damaged)?;
    let mut altered = Vec::new();
    let mut next = || Some((reader.text()?, reader.text()?, reader.text()?));
    for _ in 0..count {
        altered.push(next().ok_or_else(damaged)?);
    }
    Ok((flags, u64::from_le_bytes(token), altered, reader.0))
}

/// The receiving side of a connection, or of a batch of several parts.
#[derive(Default)]
pub(super) struct Receiver {
    decoder: Decoder,
    definitions_bytes: usize,
}

impl Receiver {
    /// The tables of the next part.
    ///
    /// # Errors
    /// The bytes are no part, or not the next one. The receiver is not to be used any more.
    pub fn tables(&mut self, part: &[u8]) -> std::result::Result<Vec<TableChanges>, String> {
        let (flags, _, altered, rows) = open(part)?;
        if flags & RESET != 0 {
            *self = Receiver::default();
        }
        let batch = self.decoder.decode(rows).map_err(|error| error.to_string())?;
        let mut tables: Vec<TableChanges> = Vec::new();
        let mut was: HashMap<String, Option<Table>> = HashMap::new();
        for (now, before, sql) in altered {
            let before = (!before.is_empty()).then(|| Table::from_sql(before, 0, sql));
            match (now.is_empty(), before) {
                (true, None) => return Err(DAMAGED.to_owned()),
                (true, before) => {
                    tables.push(TableChanges { before, after: None, forgotten: vec![], changes: vec![] });
                }
                (false, before) => {
                    was.insert(now, before);
                }
            }
        }
        for (_, name, table) in &batch.definitions {
            self.definitions_bytes += name.len() + table.as_ref().map_or(0, |table| table.sql.len());
        }
        if self.definitions_bytes > MOST_DEFINITIONS {
            return Err("the tables of this source have more definitions than a collector keeps".to_owned());
        }
        // In the order of the sender: rows, and between them the definitions of tables without.
        let mut defined = batch.definitions.iter().map(|(number, ..)| *number).peekable();
        let are_defined: HashSet<u64> = batch.definitions.iter().map(|(number, ..)| *number).collect();
        let mut order = Vec::new();
        for table in &batch.tables {
            if are_defined.contains(&table.table) {
                order.extend(std::iter::from_fn(|| defined.next_if(|number| *number != table.table)));
                defined.next();
            }
            order.push(table.table);
        }
        order.extend(defined);
        let mut changes: HashMap<u64, _> = HashMap::new();
        for table in batch.tables {
            if changes.insert(table.table, (table.forgotten, table.changes)).is_some() {
                return Err(DAMAGED.to_owned());
            }
        }
        for number in order {
            let after = self.decoder.table(number).ok_or(DAMAGED)?.clone();
            let before = was.remove(&after.name).unwrap_or_else(|| Some(after.clone()));
            let (forgotten, rows) = changes.remove(&number).unwrap_or_default();
            let changes = rows.into_iter().map(|row| change(&after, row)).collect();
            tables.push(TableChanges { before, after: Some(after), forgotten, changes });
        }
        // A table was altered, and is not there.
        if was.is_empty() { Ok(tables) } else { Err(DAMAGED.to_owned()) }
    }
}

/// A change as destinations take it: of an older row they need what finds it.
fn change(table: &Table, row: RowChange) -> Change {
    let blank = |rowid: Option<i64>, key: Vec<Value>| {
        let mut values = vec![Value::Null; table.columns.len()];
        table.sent_key().into_iter().zip(key).for_each(|(column, value)| values[column] = value);
        if let Some((alias, rowid)) = table.alias().zip(rowid) {
            values[alias] = Value::Integer(rowid);
        }
        Row { rowid, values }
    };
    match row {
        RowChange::Insert { rowid, values } => Change::Insert(Row { rowid, values }),
        RowChange::Delete { rowid, key } => Change::Delete(blank(rowid, key)),
        RowChange::Update { rowid, key, changed } => {
            let mut after = blank(rowid, key);
            changed.into_iter().for_each(|(column, value)| after.values[column] = value);
            Change::Update { before: Row { rowid, values: Vec::new() }, after }
        }
    }
}

#[cfg(test)]
mod tests;

//! Reading batches. Any bytes may come in.

use super::{
    CRC_BYTES, DELETE, Envelope, INSERT, MAGIC, MOST_BODY, MOST_VALUES, PLAIN, SOURCE, UPDATE, VERSION, ZSTD,
    column, unzigzag,
};
use crate::schema::Table;
use crate::value::Value;
use crate::visitor::Rowids;
use litefoot_format::number::varint;
use std::collections::HashMap;

/// The reason that a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is no batch.
    #[error("the bytes are no batch of changes")]
    Foreign,
    /// Another version of litefoot has made it.
    #[error("the batch has format version {0}, and this build reads version {VERSION}: update the receiver")]
    Version(u8),
    /// Its bytes have changed on the way.
    #[error("the batch is damaged: ask the source for it again")]
    Damaged,
    /// The definition of a table was in an earlier batch, which this decoder has not read.
    #[error(
        "the batch is about table {0}, whose definition is in an earlier batch: ask the source to begin anew"
    )]
    Undefined(u64),
    /// The batch is larger than any may be.
    #[error("the batch has more values than a receiver takes")]
    TooLarge,
}

/// A change, as a receiver needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// A new row.
    Insert {
        /// Its rowid, where it has one.
        rowid: Option<i64>,
        /// A value for each column.
        values: Vec<Value>,
    },
    /// Other values in a row.
    Update {
        /// Its rowid, where it has one.
        rowid: Option<i64>,
        /// The older values of [`Table::sent_key`].
        key: Vec<Value>,
        /// The changed columns.
        changed: Vec<(usize, Value)>,
    },
    /// A row that is gone.
    Delete {
        /// Its rowid, where it had one.
        rowid: Option<i64>,
        /// The values of [`Table::sent_key`].
        key: Vec<Value>,
    },
}

/// A batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// What it says of itself.
    pub envelope: Envelope,
    /// Tables that were defined, or defined anew, by their numbers; `None` for a dropped one.
    pub definitions: Vec<(u64, String, Option<Table>)>,
    /// Changes by table.
    pub tables: Vec<TableRows>,
}

/// The changes of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRows {
    /// The number of the table.
    pub table: u64,
    /// Rowids above the first bound, up to the second, whose rows are to be forgotten, before the changes.
    pub forgotten: Vec<Rowids>,
    /// The changes.
    pub changes: Vec<RowChange>,
}

/// Reads the batches of one source and epoch, in their order.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    tables: HashMap<u64, Table>,
}

/// The envelope of a batch, without a look at its body.
///
/// # Errors
/// Those of bytes that are no batch, or a damaged one.
pub fn envelope(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    open(bytes).map(|opened| opened.0)
}

fn open(bytes: &[u8]) -> Result<(Envelope, Vec<u8>), DecodeError> {
    if !bytes.starts_with(MAGIC) {
        return Err(DecodeError::Foreign);
    }
    let (covered, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(DecodeError::Damaged)?;
    let (version, form) = (covered.get(4), covered.get(5));
    if let Some(version) = version.filter(|version| **version != VERSION) {
        return Err(DecodeError::Version(*version));
    }
    if crc32c::crc32c(covered).to_le_bytes() != *crc {
        return Err(DecodeError::Damaged);
    }
    let source = covered.get(SOURCE).and_then(|source| source.try_into().ok()).ok_or(DecodeError::Damaged)?;
    let mut reader = Reader(&covered[SOURCE.end..]);
    let envelope = Envelope {
        source,
        epoch: reader.varint()?,
        first: reader.varint()?,
        last: reader.varint()?,
        time_ms: reader.varint()?,
    };
    let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError::TooLarge)?;
    if length > MOST_BODY {
        return Err(DecodeError::TooLarge);
    }
    let body = match form {
        Some(&PLAIN) => reader.0.to_vec(),
        Some(&ZSTD) => zstd::bulk::decompress(reader.0, length).map_err(|_| DecodeError::Damaged)?,
        _ => return Err(DecodeError::Damaged),
    };
    if body.len() != length { Err(DecodeError::Damaged) } else { Ok((envelope, body)) }
}

impl Decoder {
    /// Reads the next batch. The decoder stays as it was where that fails.
    ///
    /// # Errors
    /// [`DecodeError`] says what to do.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Batch, DecodeError> {
        let (envelope, body) = open(bytes)?;
        let mut reader = Reader(&body);
        let mut tables = self.tables.clone();
        let mut definitions = Vec::new();
        for _ in 0..reader.varint()? {
            let (number, name, sql) = (reader.varint()?, reader.text()?, reader.text()?);
            let table = (!sql.is_empty()).then(|| Table::from_sql(name.clone(), 0, sql));
            match &table {
                Some(table) => tables.insert(number, table.clone()),
                None => tables.remove(&number),
            };
            definitions.push((number, name, table));
        }
        let mut changes = Vec::new();
        let mut left = MOST_VALUES;
        for _ in 0..reader.varint()? {
            let number = reader.varint()?;
            let table = tables.get(&number).ok_or(DecodeError::Undefined(number))?;
            let forgotten = ranges(&mut reader)?;
            changes.push(TableRows {
                table: number,
                forgotten,
                changes: rows(&mut reader, table, &mut left)?,
            });
        }
        if !reader.0.is_empty() {
            return Err(DecodeError::Damaged);
        }
        self.tables = tables;
        Ok(Batch { envelope, definitions, tables: changes })
    }

    /// The table of that number.
    pub fn table(&self, number: u64) -> Option<&Table> {
        self.tables.get(&number)
    }
}

/// The ranges of a table that are forgotten.
fn ranges(reader: &mut Reader<'_>) -> Result<Vec<Rowids>, DecodeError> {
    let count = reader.length()?;
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        let bounds = reader.varint()?;
        let mut bound = |bit: u64| match bounds & bit {
            0 => Ok(None),
            _ => reader.varint().map(|number| Some(unzigzag(number))),
        };
        ranges.push((bound(1)?, bound(2)?));
    }
    Ok(ranges)
}

/// The changes of a table.
fn rows(reader: &mut Reader<'_>, table: &Table, left: &mut usize) -> Result<Vec<RowChange>, DecodeError> {
    let count = reader.length()?;
    let kinds = reader.runs(count)?;
    let mut last = 0i64;
    let mut rowid = |reader: &mut Reader<'_>| -> Result<Option<i64>, DecodeError> {
        if !table.has_rowid() {
            return Ok(None);
        }
        last = last.wrapping_add(unzigzag(reader.varint()?));
        Ok(Some(last))
    };
    let rowids = kinds.iter().map(|_| rowid(reader)).collect::<Result<Vec<_>, _>>()?;
    let (alias, key, columns) = (table.alias(), table.sent_key(), table.columns.len());
    let mut masks = Vec::with_capacity(count);
    for kind in &kinds {
        masks.push(match *kind {
            UPDATE => Some(reader.bytes(columns.div_ceil(8))?),
            INSERT | DELETE => None,
            _ => return Err(DecodeError::Damaged),
        });
    }
    let is_sent = |change: usize, column: usize| match masks[change] {
        Some(mask) => mask[column / 8] >> (column % 8) & 1 == 1,
        None => kinds[change] == INSERT && alias != Some(column),
    };
    let mut values_of = |reader: &mut Reader<'_>, count: usize| {
        *left = left.checked_sub(count).ok_or(DecodeError::TooLarge)?;
        column::take(reader, count).map(Vec::into_iter)
    };
    let with_key = kinds.iter().filter(|kind| **kind != INSERT).count();
    let mut older = key.iter().map(|_| values_of(reader, with_key)).collect::<Result<Vec<_>, _>>()?;
    let mut newer = Vec::with_capacity(columns);
    for column in 0..columns {
        newer.push(values_of(reader, (0..count).filter(|change| is_sent(*change, column)).count())?);
    }
    let mut changes = Vec::with_capacity(count);
    for (change, rowid) in rowids.into_iter().enumerate() {
        let key = match kinds[change] {
            INSERT => Vec::new(),
            _ => older.iter_mut().filter_map(Iterator::next).collect(),
        };
        let next = |column: usize, newer: &mut Vec<std::vec::IntoIter<Value>>| {
            newer[column].next().unwrap_or(Value::Null)
        };
        changes.push(match kinds[change] {
            INSERT => {
                let value = |column| match rowid.filter(|_| alias == Some(column)) {
                    Some(rowid) => Value::Integer(rowid),
                    None => next(column, &mut newer),
                };
                RowChange::Insert { rowid, values: (0..columns).map(value).collect() }
            }
            UPDATE => {
                let sent = (0..columns).filter(|column| is_sent(change, *column));
                RowChange::Update {
                    rowid,
                    key,
                    changed: sent.map(|column| (column, next(column, &mut newer))).collect(),
                }
            }
            _ => RowChange::Delete { rowid, key },
        });
    }
    Ok(changes)
}

/// Bytes that were not read yet.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let (number, rest) = varint(self.0).ok_or(DecodeError::Damaged)?;
        self.0 = rest;
        Ok(number)
    }

    /// A number of things that take a byte each, at least.
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let number = self.varint()?;
        usize::try_from(number).ok().filter(|length| *length <= self.0.len()).ok_or(DecodeError::Damaged)
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(DecodeError::Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let length = self.length()?;
        String::from_utf8(self.bytes(length)?.to_vec()).map_err(|_| DecodeError::Damaged)
    }

    /// So many numbers, which lie in runs.
    pub fn runs(&mut self, count: usize) -> Result<Vec<u64>, DecodeError> {
        let mut numbers = Vec::with_capacity(count.min(MOST_VALUES));
        while numbers.len() < count {
            let (number, length) = (self.varint()?, self.varint()?);
            let length =
                usize::try_from(length).ok().filter(|length| (1..=count - numbers.len()).contains(length));
            numbers.resize(numbers.len() + length.ok_or(DecodeError::Damaged)?, number);
        }
        Ok(numbers)
    }
}

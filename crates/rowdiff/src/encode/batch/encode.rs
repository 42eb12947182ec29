//! Making batches.

use super::column::{put, put_runs};
use super::{
    CRC_BYTES, DELETE, Envelope, INSERT, MAGIC, MOST_BODY, MOST_VALUES, PLAIN, UPDATE, VERSION, ZSTD, zigzag,
};
use crate::schema::Table;
use crate::value::Value;
use crate::visitor::{Change, TableChanges};
use litefoot_format::number::put_varint;

/// How hard a body is compressed: a batch is small, so that this costs little.
const LEVEL: i32 = 9;

/// A batch has more values or bytes than a receiver takes; its changes have to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch of {values} values and {bytes} bytes is too large; divide it")]
pub struct TooLarge {
    /// Its values.
    pub values: usize,
    /// The bytes of its body.
    pub bytes: usize,
}

/// Makes the batches of one source and epoch.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// The tables whose definitions were sent, by their numbers.
    tables: Vec<Option<(String, String)>>,
}

impl Encoder {
    /// A batch of changes.
    ///
    /// # Errors
    /// Too many changes for one; the encoder is as it was.
    pub fn batch(&mut self, envelope: &Envelope, tables: &[TableChanges]) -> Result<Vec<u8>, TooLarge> {
        let mut next = self.clone();
        let (body, values) = next.body(tables);
        if values > MOST_VALUES || body.len() > MOST_BODY {
            return Err(TooLarge { values, bytes: body.len() });
        }
        *self = next;
        Ok(seal(envelope, &body))
    }

    fn body(&mut self, tables: &[TableChanges]) -> (Vec<u8>, usize) {
        // The receiver hears of the schema by definitions.
        let tables = || tables.iter().filter(|table| table.pair().table().root != 1);
        let mut body = Vec::new();
        let mut definitions = Vec::new();
        let mut numbers = Vec::new();
        for table in tables() {
            numbers.push(self.number(table, &mut definitions));
        }
        put_varint(&mut body, definitions.len() as u64);
        for (number, name, sql) in definitions {
            put_varint(&mut body, number as u64);
            put_bytes(&mut body, name.as_bytes());
            put_bytes(&mut body, sql.as_bytes());
        }
        // The rows of a dropped table go with it.
        let with_rows = || {
            tables().zip(&numbers).filter(|(table, _)| {
                table.after.is_some() && !(table.changes.is_empty() && table.forgotten.is_empty())
            })
        };
        put_varint(&mut body, with_rows().count() as u64);
        let mut values = 0;
        for (table, number) in with_rows() {
            put_varint(&mut body, *number as u64);
            put_varint(&mut body, table.forgotten.len() as u64);
            for (above, through) in &table.forgotten {
                put_varint(&mut body, u64::from(above.is_some()) | u64::from(through.is_some()) << 1);
                above.iter().chain(through).for_each(|bound| put_varint(&mut body, zigzag(*bound)));
            }
            put_varint(&mut body, table.changes.len() as u64);
            if let Some(after) = &table.after {
                values += put_rows(&mut body, after, &table.changes);
            }
        }
        (body, values)
    }

    /// The number of a table; its definition, where the receiver does not have it yet.
    fn number(&mut self, table: &TableChanges, definitions: &mut Vec<(usize, String, String)>) -> usize {
        let is = |name: Option<&Table>, known: &Option<(String, String)>| {
            known.as_ref().zip(name).is_some_and(|(known, table)| known.0 == table.name)
        };
        let find = |of: Option<&Table>| self.tables.iter().position(|known| is(of, known));
        let number =
            find(table.before.as_ref()).or_else(|| find(table.after.as_ref())).unwrap_or_else(|| {
                self.tables.push(None);
                self.tables.len() - 1
            });
        let known = &mut self.tables[number];
        match &table.after {
            Some(after) => {
                let definition = (after.name.clone(), after.sql.clone());
                if known.as_ref() != Some(&definition) {
                    definitions.push((number, definition.0.clone(), definition.1.clone()));
                    *known = Some(definition);
                }
            }
            None => {
                let name = known.take().map_or_else(|| table.pair().table().name.clone(), |known| known.0);
                definitions.push((number, name, String::new()));
            }
        }
        number
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Appends the changes of a table; answers how many values they have.
fn put_rows(out: &mut Vec<u8>, table: &Table, changes: &[Change]) -> usize {
    put_runs(
        out,
        changes.iter().map(|change| match change {
            Change::Insert(_) => INSERT,
            Change::Update { .. } => UPDATE,
            Change::Delete(_) => DELETE,
        }),
    );
    let mut last = 0i64;
    for row in changes.iter().map(Change::row) {
        if let Some(rowid) = row.rowid {
            put_varint(out, zigzag(rowid.wrapping_sub(last)));
            last = rowid;
        }
    }
    let key = table.sent_key();
    let mut older: Vec<Vec<&Value>> = vec![Vec::new(); key.len()];
    let mut newer: Vec<Vec<&Value>> = vec![Vec::new(); table.columns.len()];
    let alias = table.alias();
    for change in changes {
        let (before, after) = match change {
            Change::Insert(after) => (None, Some(after)),
            Change::Delete(before) => (Some(before), None),
            Change::Update { before, after } => (Some(before), Some(after)),
        };
        if let Some(before) = before {
            older.iter_mut().zip(&key).for_each(|(older, column)| older.push(&before.values[*column]));
        }
        let mut mask = vec![0; table.columns.len().div_ceil(8)];
        for (at, value) in after.iter().flat_map(|after| after.values.iter().enumerate()) {
            let is_new =
                before.is_none_or(|before| before.values.get(at) != Some(value)) && alias != Some(at);
            if is_new {
                mask[at / 8] |= 1 << (at % 8);
                newer[at].push(value);
            }
        }
        if matches!(change, Change::Update { .. }) {
            out.extend(mask);
        }
    }
    older.iter().chain(&newer).for_each(|column| put(out, column));
    older.iter().chain(&newer).map(Vec::len).sum()
}

/// The envelope around a body.
fn seal(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
    let compressed =
        zstd::bulk::compress(body, LEVEL).ok().filter(|compressed| compressed.len() < body.len());
    let mut out = MAGIC.to_vec();
    out.extend([VERSION, if compressed.is_some() { ZSTD } else { PLAIN }]);
    out.extend(envelope.source);
    for number in [envelope.epoch, envelope.first, envelope.last, envelope.time_ms, body.len() as u64] {
        put_varint(&mut out, number);
    }
    out.extend(compressed.as_deref().unwrap_or(body));
    let crc: [u8; CRC_BYTES] = crc32c::crc32c(&out).to_le_bytes();
    out.extend(crc);
    out
}

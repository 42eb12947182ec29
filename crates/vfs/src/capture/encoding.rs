//! Encoding: a captured transaction as bytes of the commit log.
//!
//! ```text
//! kind 1, a text:         id | settings (1 byte) | SQL …
//! kind 2, a transaction:  number | flags (1 byte) | [changes] | [rowid] | [earlier number, its changes]
//!                         | changed pages | statements | { text id | parameters | { tag (1 byte) | value } … } …
//! kind 3, a materialization:         frames (4 bytes) | checksum 1 | checksum 2
//! ```
//!
//! Numbers are variable-length (7 bits a byte, the lowest first; signed ones zigzag). A value's tag is 0 NULL,
//! 1 integer (signed number), 2 real (8 bytes, bit for bit), 3 text and 4 blob (length and bytes). Texts are
//! stored once per generation of the log and referred to. [`ChangedPages`] has the bytes of the changed pages.

use crate::capture::changed_pages::ChangedPages;
use crate::ffi::statement::Value;
use std::sync::Arc;
use std::time::Duration;

/// Kind of a record that holds a text.
pub(crate) const TEXT: u32 = 1;
/// Kind of a record that holds a transaction.
pub(crate) const TRANSACTION: u32 = 2;
/// Kind of a record that announces that everything before it goes into the redo log.
pub(crate) const MATERIALIZATION: u32 = 3;

/// Longest time that the transactions of a log may have taken, so that their replay ends soon. Transactions beyond that are
/// written as pages.
pub(crate) const MOST_TIME: Duration = Duration::from_millis(500);

const HAS_CHANGES: u8 = 1;
const HAS_ROWID: u8 = 2;
const HAS_EARLIER: u8 = 4;

/// Settings of a connection that change what a statement does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Settings {
    pub foreign_keys: bool,
    pub recursive_triggers: bool,
}

/// The text of a statement, and the settings that it ran under.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    pub sql: String,
    pub settings: Settings,
}

/// Results of a transaction that its replay must have, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checks {
    /// Changed rows, where their number is known when the transaction is logged.
    pub changes: Option<i32>,
    /// The rowid inserted last, if any was.
    pub rowid: Option<i64>,
    /// An earlier transaction, and the number of rows that it changed.
    pub earlier: Option<(u64, i32)>,
}

/// A captured transaction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured {
    /// The statements: the text, and the position of its values in `values`.
    pub statements: Vec<(Arc<Text>, usize)>,
    /// The encoded values: the number of parameters, then each.
    pub values: Vec<u8>,
    pub checks: Checks,
    /// Known when the transaction is queued.
    pub pages: ChangedPages,
    /// From its first statement to its commit.
    pub took: Duration,
}

impl Captured {
    /// Adds a statement; its values follow through [`put_value`].
    pub fn begin_statement(&mut self, text: Arc<Text>, parameters: usize) {
        self.statements.push((text, self.values.len()));
        put_number(&mut self.values, parameters as u64);
    }

    /// Estimate of the bytes in the log, texts included.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.statements.iter().map(|(text, _)| text.sql.len() + 40).sum();
        texts + self.values.len() + self.pages.bytes() + 64
    }

    /// Its record; `id_of` numbers the texts.
    pub fn encode(&self, number: u64, mut id_of: impl FnMut(&Arc<Text>) -> u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.values.len() + 4 * self.statements.len() + 32);
        put_number(&mut out, number);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.checks.changes.is_some(), HAS_CHANGES)
                | flag(self.checks.rowid.is_some(), HAS_ROWID)
                | flag(self.checks.earlier.is_some(), HAS_EARLIER),
        );
        if let Some(changes) = self.checks.changes {
            put_signed(&mut out, i64::from(changes));
        }
        if let Some(rowid) = self.checks.rowid {
            put_signed(&mut out, rowid);
        }
        if let Some((number, changes)) = self.checks.earlier {
            put_number(&mut out, number);
            put_signed(&mut out, i64::from(changes));
        }
        self.pages.encode(&mut out);
        put_number(&mut out, self.statements.len() as u64);
        for (index, (text, start)) in self.statements.iter().enumerate() {
            let end = self.statements.get(index + 1).map_or(self.values.len(), |(_, next)| *next);
            put_number(&mut out, id_of(text));
            out.extend_from_slice(&self.values[*start..end]);
        }
        out
    }
}

impl Text {
    /// Its record.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.sql.len() + 4);
        put_number(&mut out, id);
        out.push(u8::from(self.settings.foreign_keys) | u8::from(self.settings.recursive_triggers) << 1);
        out.extend_from_slice(self.sql.as_bytes());
        out
    }

    /// The text in a record, and its number.
    pub fn decode(payload: &[u8]) -> Option<(u64, Text)> {
        let mut bytes = Reader(payload);
        let id = bytes.number()?;
        let bits = bytes.byte()?;
        let settings = Settings { foreign_keys: bits & 1 != 0, recursive_triggers: bits & 2 != 0 };
        Some((id, Text { sql: String::from_utf8(bytes.0.to_vec()).ok()?, settings }))
    }
}

/// A transaction as it is read back.
#[derive(Debug)]
pub(crate) struct Logged<'a> {
    pub number: u64,
    pub checks: Checks,
    pub pages: ChangedPages,
    /// Each statement's text and values.
    pub statements: Vec<(u64, Vec<Value<'a>>)>,
}

impl<'a> Logged<'a> {
    /// The transaction in a record.
    pub fn decode(payload: &'a [u8]) -> Option<Logged<'a>> {
        let mut bytes = Reader(payload);
        let number = bytes.number()?;
        let flags = bytes.byte()?;
        let mut checks = Checks::default();
        if flags & HAS_CHANGES != 0 {
            checks.changes = Some(i32::try_from(bytes.signed()?).ok()?);
        }
        if flags & HAS_ROWID != 0 {
            checks.rowid = Some(bytes.signed()?);
        }
        if flags & HAS_EARLIER != 0 {
            checks.earlier = Some((bytes.number()?, i32::try_from(bytes.signed()?).ok()?));
        }
        let pages = ChangedPages::decode(&mut bytes)?;
        let count = bytes.number()?;
        let mut statements = Vec::new();
        for _ in 0..count {
            let text = bytes.number()?;
            let parameters = bytes.number()?;
            let values = (0..parameters).map(|_| bytes.value()).collect::<Option<Vec<_>>>()?;
            statements.push((text, values));
        }
        bytes.0.is_empty().then_some(Logged { number, checks, pages, statements })
    }
}

/// The record that announces a materialization.
pub(crate) fn encode_materialization(frames: u32, checksum: [u32; 2]) -> Vec<u8> {
    [frames, checksum[0], checksum[1]].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Frames and checksum of a materialization.
pub(crate) fn decode_materialization(payload: &[u8]) -> Option<(u32, [u32; 2])> {
    let word = |at: usize| payload.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    Some((word(0)?, [word(4)?, word(8)?]))
}

/// Appends a value.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => out.push(0),
        Value::Integer(number) => {
            out.push(1);
            put_signed(out, number);
        }
        Value::Real(number) => {
            out.push(2);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Text(bytes) => put_bytes(out, 3, bytes),
        Value::Blob(bytes) => put_bytes(out, 4, bytes),
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63) as u64);
}

/// Bytes that are read one part after the other.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A word of 4 bytes.
    pub fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// A number of variable length.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn value(&mut self) -> Option<Value<'a>> {
        Some(match self.byte()? {
            0 => Value::Null,
            1 => Value::Integer(self.signed()?),
            2 => {
                let (bits, rest) = self.0.split_at_checked(8)?;
                self.0 = rest;
                Value::Real(f64::from_bits(u64::from_le_bytes(bits.try_into().ok()?)))
            }
            3 => Value::Text(self.take()?),
            4 => Value::Blob(self.take()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured(values: &[Value<'_>], checks: Checks) -> Captured {
        let mut captured = Captured { checks, ..Captured::default() };
        captured.pages.add(7, &[1; 512]);
        for sql in ["INSERT INTO t VALUES(?1)", "UPDATE t SET a = 1"] {
            let text = Arc::new(Text { sql: sql.to_owned(), settings: Settings::default() });
            captured.begin_statement(text, values.len());
            for value in values {
                put_value(&mut captured.values, *value);
            }
        }
        captured
    }

    proptest! {
        #[test]
        fn values_come_back_bit_for_bit(
            integers in proptest::collection::vec(any::<i64>(), 0..5),
            reals in proptest::collection::vec(any::<u64>(), 0..5),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            changes: Option<i32>, rowid: Option<i64>, earlier: Option<(u64, i32)>,
        ) {
            let mut values: Vec<Value<'_>> = integers.into_iter().map(Value::Integer).collect();
            values.extend(reals.into_iter().map(|bits| Value::Real(f64::from_bits(bits))));
            values.extend([Value::Null, Value::Text(&bytes), Value::Blob(&bytes), Value::Blob(&[])]);
            let checks = Checks { changes, rowid, earlier };
            let captured = captured(&values, checks);
            let payload = captured.encode(u64::MAX, |text| text.sql.len() as u64);
            let logged = Logged::decode(&payload).expect("decodes");
            prop_assert_eq!(&logged.pages, &captured.pages);
            prop_assert_eq!((logged.number, logged.checks), (u64::MAX, checks));
            prop_assert_eq!(logged.statements.len(), 2);
            let bits = |value: &Value<'_>| match value { Value::Real(real) => real.to_bits(), _ => 0 };
            for (_, found) in &logged.statements {
                prop_assert_eq!(found.len(), values.len());
                for (found, value) in found.iter().zip(&values) {
                    prop_assert!(found == value || matches!(value, Value::Real(_)) && bits(found) == bits(value));
                }
            }
            for len in 0..payload.len() {
                prop_assert!(Logged::decode(&payload[..len]).is_none());
            }
        }
    }

    #[test]
    fn texts_and_materializations_come_back() {
        let settings = Settings { foreign_keys: true, recursive_triggers: false };
        let text = Text { sql: "SELECT 'ä'".to_owned(), settings };
        assert_eq!(Text::decode(&text.encode(300)), Some((300, text)));
        assert_eq!(
            decode_materialization(&encode_materialization(7, [8, u32::MAX])),
            Some((7, [8, u32::MAX]))
        );
    }
}

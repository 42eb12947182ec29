//! Looking at a statement log that waits beside a database, without opening the database.

use super::registry::Companion;
use super::statements::{Worth, worth};
use crate::abi::statement::Value;
use crate::capture::record::{self, Logged, Text};
use crate::error::Result;
use litefoot_engine::device::{Medium, SyncLatch};
use litefoot_engine::log::statement::Record;
use litefoot_engine::log::{RedoLog, StatementLog};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of a statement log when the database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing waits in it: it is removed.
    Removed,
    /// Its transactions are replayed.
    Replayed,
    /// It is refused, and kept: somebody else has changed the database since.
    Refused,
}

/// A statement log beside a database.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Where it lies.
    pub path: PathBuf,
    /// What becomes of it.
    pub fate: Fate,
    /// Its transactions, oldest first: the statements of each, with their values in place.
    pub transactions: Vec<Vec<String>>,
}

/// The statement log of the database at `database`, if there is one; `log` names it where it does not lie
/// beside the database. Changes nothing.
///
/// # Errors
/// Those of reading.
pub fn waiting(medium: &Arc<dyn Medium>, database: &Path, log: Option<&Path>) -> Result<Option<Waiting>> {
    let path = log.map_or_else(|| beside(database, Companion::StatementLog), Path::to_owned);
    if medium.info(&path)?.is_none() {
        return Ok(None);
    }
    let latch = Arc::new(SyncLatch::new());
    let redo = RedoLog::open(medium.clone(), &beside(database, Companion::Wal), latch.clone())?;
    let statements = StatementLog::open(medium.clone(), &path, latch)?;
    let (fate, records) = match worth(&redo, &statements)? {
        Worth::Nothing => (Fate::Removed, Vec::new()),
        Worth::Replay => (Fate::Replayed, statements.records()?),
        Worth::Foreign => (Fate::Refused, statements.records()?),
    };
    Ok(Some(Waiting { path, fate, transactions: transactions(&records) }))
}

fn beside(database: &Path, companion: Companion) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(companion.suffix());
    path.into()
}

/// The transactions in records, as SQL.
fn transactions(records: &[Record]) -> Vec<Vec<String>> {
    let mut texts = HashMap::new();
    let mut all = Vec::new();
    for record in records {
        match record.kind {
            record::TEXT => texts.extend(Text::decode(&record.payload)),
            record::TRANSACTION => {
                let Some(logged) = Logged::decode(&record.payload) else { continue };
                let expand = |(id, values): &(u64, Vec<Value<'_>>)| {
                    texts.get(id).map(|text| expand(&text.sql, values))
                };
                all.push(logged.statements.iter().filter_map(expand).collect());
            }
            _ => {}
        }
    }
    all
}

/// A statement with its values in the place of its parameters.
fn expand(sql: &str, values: &[Value<'_>]) -> String {
    let mut out = String::with_capacity(sql.len() + 16 * values.len());
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut last = 0;
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let len = token(rest);
        let (word, behind) = rest.split_at(len);
        rest = behind;
        let number = match first {
            '?' if len == 1 => Some(last + 1),
            '?' => word[1..].parse().ok(),
            ':' | '@' | '$' if len > 1 => Some(*names.entry(word).or_insert(last + 1)),
            _ => None,
        };
        match number {
            Some(number) => {
                last = last.max(number);
                literal(&mut out, values.get(number - 1).copied().unwrap_or(Value::Null));
            }
            None => out.push_str(word),
        }
    }
    out
}

/// Bytes of the token at the beginning, as far as parameters must be told from everything else.
fn token(sql: &str) -> usize {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let until = |end: &str, from: usize| sql[from..].find(end).map_or(sql.len(), |at| from + at + end.len());
    match sql.as_bytes()[0] {
        b'\'' => until("'", 1),
        b'"' => until("\"", 1),
        b'`' => until("`", 1),
        b'[' => until("]", 1),
        b'-' if sql.starts_with("--") => until("\n", 2),
        b'/' if sql.starts_with("/*") => until("*/", 2),
        b'?' => 1 + sql[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(sql.len() - 1),
        b':' | b'@' | b'$' => 1 + sql[1..].find(|c: char| !name(c)).unwrap_or(sql.len() - 1),
        _ => match sql.find(|c: char| !name(c)) {
            Some(0) => sql.chars().next().map_or(1, char::len_utf8),
            Some(end) => end,
            None => sql.len(),
        },
    }
}

/// A value as SQL that gives exactly this value back.
fn literal(out: &mut String, value: Value<'_>) {
    let _ = match value {
        Value::Null => write!(out, "NULL"),
        Value::Integer(number) => write!(out, "{number}"),
        Value::Real(number) if number.is_infinite() => {
            write!(out, "{}9e999", if number < 0.0 { "-" } else { "" })
        }
        Value::Real(number) => write!(out, "{number:?}"),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => write!(out, "'{}'", text.replace('\'', "''")),
            _ => write!(out, "CAST(x'{}' AS TEXT)", hex(bytes)),
        },
        Value::Blob(bytes) => write!(out, "x'{}'", hex(bytes)),
    };
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_parameters_and_of_nothing_else() {
        let values = [Value::Integer(-7), Value::Real(0.1), Value::Text(b"it's"), Value::Blob(&[0, 255])];
        let cases = [
            ("INSERT INTO t VALUES(?,?,?,?)", "INSERT INTO t VALUES(-7,0.1,'it''s',x'00ff')"),
            ("VALUES(?2,?1,?)", "VALUES(0.1,-7,'it''s')"),
            ("VALUES(:a,@b,:a,$c_1)", "VALUES(-7,0.1,-7,'it''s')"),
            (
                "VALUES('?1', \"?\", [?], `?`, ?1) -- ?2\n/* ? */",
                "VALUES('?1', \"?\", [?], `?`, -7) -- ?2\n/* ? */",
            ),
            ("VALUES('it''s ?', ?1, 'ä', ?5)", "VALUES('it''s ?', -7, 'ä', NULL)"),
        ];
        for (sql, expected) in cases {
            assert_eq!(expand(sql, &values), expected);
        }
    }

    #[test]
    fn literals_are_exact() {
        let cases = [
            (Value::Real(1e300), "1e300"),
            (Value::Real(f64::NEG_INFINITY), "-9e999"),
            (Value::Real(3.0), "3.0"),
            (Value::Text(b"a\0b"), "CAST(x'610062' AS TEXT)"),
            (Value::Integer(i64::MIN), "-9223372036854775808"),
        ];
        for (value, expected) in cases {
            let mut out = String::new();
            literal(&mut out, value);
            assert_eq!(out, expected);
        }
    }
}

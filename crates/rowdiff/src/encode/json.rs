//! JSON: a line for each change, and the envelope of Debezium (<https://debezium.io/documentation/reference/stable/connectors>).
//!
//! ```text
//! {"table":"t","op":"update","rowid":7,"before":{"a":1,"b":"x"},"after":{"a":1,"b":"y"}}
//! {"before":…,"after":…,"source":{…,"table":"t","rowid":7},"op":"u","ts_ms":…}
//! {"source":{…,"table":"t"},"op":"t","ts_ms":…}                                               the table has no rows now
//! {"source":{…,"table":"t"},"op":"m","ts_ms":…,"message":{"prefix":"ddl","content":…}}        CREATE TABLE, as Base64; null where it is dropped
//! ```
//! Whole numbers have all their digits. What JSON does not have is an object of one entry: `{"blob":"00ff"}`, in hexadecimal;
//! `{"text":"ff"}` for a text that is not UTF-8; `{"real":"inf"}` and `{"real":"-inf"}`. Debezium's readers expect Base64 for
//! bytes, and null for what no number of theirs is.

use crate::record::Row;
use crate::schema::Table;
use crate::value::Value;
use crate::visitor::{Change, TablePair};
use serde_json::{Map, Number, Value as Json, json};

/// A change as one line, without its end.
pub fn line(pair: TablePair<'_>, change: &Change) -> String {
    let mut line = Map::new();
    line.insert("table".into(), pair.table().name.as_str().into());
    let (op, rowid, [before, after]) = parts(pair, change, &value);
    line.insert("op".into(), op.into());
    line.extend(rowid.map(|rowid| ("rowid".to_owned(), rowid.into())));
    line.extend(before.map(|row| ("before".to_owned(), row)));
    line.extend(after.map(|row| ("after".to_owned(), row)));
    Json::Object(line).to_string()
}

/// The origin of changes, for Debezium's `source`.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the connector's server: the device.
    pub name: &'a str,
    /// The name of the database.
    pub database: &'a str,
    /// The number of the batch.
    pub sequence: u64,
    /// When the batch was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// True for rows that were there before the first batch.
    pub is_snapshot: bool,
}

/// A change as the value of Debezium's message.
pub fn debezium(pair: TablePair<'_>, change: &Change, source: &Source<'_>) -> String {
    let (op, rowid, [before, after]) = parts(pair, change, &for_debezium);
    let op = match op {
        "insert" if source.is_snapshot => "r",
        "insert" => "c",
        "update" => "u",
        _ => "d",
    };
    let mut event = event(pair, op, source);
    event["source"]["rowid"] = rowid.into();
    (event["before"], event["after"]) = (before.into(), after.into());
    event.to_string()
}

/// What says that a table has no rows now.
pub fn debezium_truncated(pair: TablePair<'_>, source: &Source<'_>) -> String {
    event(pair, "t", source).to_string()
}

/// What says how a table is defined now.
pub fn debezium_defined(pair: TablePair<'_>, source: &Source<'_>) -> String {
    let mut event = event(pair, "m", source);
    let sql = pair.after.map(|table| base64(table.sql.as_bytes()));
    event["message"] = json!({ "prefix": "ddl", "content": sql });
    event.to_string()
}

fn event(pair: TablePair<'_>, op: &str, source: &Source<'_>) -> Json {
    json!({
        "source": {
            "version": env!("CARGO_PKG_VERSION"),
            "connector": "litefoot",
            "name": source.name,
            "ts_ms": source.time_ms,
            "snapshot": if source.is_snapshot { "true" } else { "false" },
            "db": source.database,
            "table": pair.table().name,
            "sequence": source.sequence.to_string(),
        },
        "op": op,
        "ts_ms": source.time_ms,
    })
}

type Parts = (&'static str, Option<i64>, [Option<Json>; 2]);

fn parts(pair: TablePair<'_>, change: &Change, value: &dyn Fn(&Value) -> Json) -> Parts {
    let older = |row: &Row| pair.before.map(|table| object(table, row, value));
    let newer = |row: &Row| pair.after.map(|table| object(table, row, value));
    match change {
        Change::Insert(after) => ("insert", after.rowid, [None, newer(after)]),
        Change::Delete(before) => ("delete", before.rowid, [older(before), None]),
        Change::Update { before, after } => ("update", after.rowid, [older(before), newer(after)]),
    }
}

fn object(table: &Table, row: &Row, value: &dyn Fn(&Value) -> Json) -> Json {
    table
        .columns
        .iter()
        .zip(&row.values)
        .map(|(column, of)| (column.name.clone(), value(of)))
        .collect::<Map<_, _>>()
        .into()
}

/// A value as lines have it.
pub fn value(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => match Number::from_f64(*number) {
            Some(number) => number.into(),
            None => json!({ "real": if *number > 0.0 { "inf" } else { "-inf" } }),
        },
        Value::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => json!({ "text": hexadecimal(text) }),
        },
        Value::Blob(blob) => json!({ "blob": hexadecimal(blob) }),
    }
}

fn for_debezium(value: &Value) -> Json {
    match value {
        Value::Real(number) => Number::from_f64(*number).into(),
        Value::Text(text) => String::from_utf8_lossy(text).into(),
        Value::Blob(blob) => base64(blob).into(),
        value => self::value(value),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |of: u8| char::from(DIGITS[usize::from(of & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word =
            three.iter().chain([0, 0].iter()).take(3).fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64_and_hexadecimal() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(base64(bytes), expected, "{bytes:?}");
        }
        assert_eq!(hexadecimal(&[0, 0x1f, 0xff]), "001fff");
    }

    #[test]
    fn a_change_is_a_line() {
        let mut table = Table::schema_table();
        table.columns.truncate(4);
        let pair = TablePair { before: Some(&table), after: Some(&table) };
        let row = |values: [Value; 4]| Row { rowid: Some(7), values: values.to_vec() };
        let before = row(["a\"b".into(), Value::Null, Value::Integer(i64::MAX), Value::Real(f64::INFINITY)]);
        let after =
            row([Value::Text(vec![0xff]), Value::Blob(vec![1, 255]), Value::Integer(-1), Value::Real(0.1)]);
        let change = Change::Update { before, after };
        assert_eq!(
            line(pair, &change),
            "{\"table\":\"sqlite_schema\",\"op\":\"update\",\"rowid\":7,\
             \"before\":{\"type\":\"a\\\"b\",\"name\":null,\"tbl_name\":9223372036854775807,\"rootpage\":{\"real\":\"inf\"}},\
             \"after\":{\"type\":{\"text\":\"ff\"},\"name\":{\"blob\":\"01ff\"},\"tbl_name\":-1,\"rootpage\":0.1}}"
        );
        let source = Source { name: "d", database: "app", sequence: 3, time_ms: 5, is_snapshot: false };
        let message: Json = serde_json::from_str(&debezium(pair, &change, &source)).unwrap();
        assert_eq!((&message["op"], &message["after"]["name"]), (&json!("u"), &json!("Af8=")));
        assert_eq!(message["before"]["rootpage"], Json::Null);
        let Change::Update { after, .. } = change else { panic!() };
        let source = Source { is_snapshot: true, ..source };
        let message: Json = serde_json::from_str(&debezium(pair, &Change::Insert(after), &source)).unwrap();
        assert_eq!((&message["op"], &message["before"]), (&json!("r"), &Json::Null));
    }
}

//! Rows as COPY reads them, in its text form.
//!
//! Text, and not the binary form: the server reads each value as what the column is at that moment, so that a column whose type somebody has just
//! changed is an error, or the right value, and never other bytes.

use super::fit::{Kind, misfit, text_of};
use super::table::Target;
use litefoot_rowdiff::encode::changeset;
use litefoot_rowdiff::{Row, Table, Value};
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;

/// Appends a row: the source, the key, the columns, and `_misfit`.
pub(super) fn put(out: &mut String, source: &str, target: &Target, table: &Table, row: &Row) {
    out.push_str(source);
    out.push('\t');
    match row.rowid.filter(|_| table.has_rowid()) {
        Some(rowid) => put_number(out, rowid),
        None => put_bytes(out, &changeset::values(table.primary_key().iter().map(|at| &row.values[*at]))),
    }
    let mut odd = Map::new();
    for ((kind, value), column) in target.kinds().zip(&row.values).zip(&table.columns) {
        out.push('\t');
        if !put_value(out, kind, value) {
            odd.insert(column.name.clone(), misfit(value));
        }
    }
    out.push('\t');
    match odd.is_empty() {
        true => out.push_str(NULL),
        false => put_text(out, &Json::Object(odd).to_string()),
    }
    out.push('\n');
}

const NULL: &str = "\\N";

/// Appends a value; `false` where it does not fit, and NULL was appended.
fn put_value(out: &mut String, kind: Kind, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) => out.push_str(NULL),
        (Kind::Bigint | Kind::Numeric, Value::Integer(number)) => put_number(out, *number),
        (Kind::Float, Value::Real(number)) if number.is_infinite() => {
            out.push_str(if *number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        (Kind::Float, Value::Real(number)) => put_real(out, *number),
        (Kind::Numeric, Value::Real(number)) if number.is_finite() => put_real(out, *number),
        (Kind::Text, Value::Text(text)) => match text_of(text) {
            Some(text) => put_text(out, text),
            None => {
                out.push_str(NULL);
                return false;
            }
        },
        (Kind::Bytea, Value::Blob(bytes)) => put_bytes(out, bytes),
        _ => {
            out.push_str(NULL);
            return false;
        }
    }
    true
}

fn put_number(out: &mut String, number: i64) {
    // Writing to a string does not fail.
    let _ = write!(out, "{number}");
}

/// The shortest digits that are read back as the same bits.
fn put_real(out: &mut String, number: f64) {
    let _ = write!(out, "{number:?}");
}

fn put_bytes(out: &mut String, bytes: &[u8]) {
    out.push_str("\\\\x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
}

fn put_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '\n', '\r', '\t']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            _ => "\\\\",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::super::fit::Cells;
    use super::*;

    #[test]
    fn rows_become_lines() {
        let table = Table::from_sql("t".into(), 0, "CREATE TABLE t(a TEXT, b REAL, c BLOB, d INT)".into());
        let target = Target::new("public", &table, &[]).unwrap();
        let line = |values: [Value; 4]| {
            let mut out = String::new();
            put(&mut out, "s", &target, &table, &Row { rowid: Some(-7), values: values.into() });
            out
        };
        let values =
            ["a\tb\\c\nd\re".into(), Value::Real(f64::NEG_INFINITY), Value::Blob(vec![0, 0xab]), Value::Null];
        assert_eq!(line(values), "s\t-7\ta\\tb\\\\c\\nd\\re\t-Infinity\t\\\\x00ab\t\\N\t\\N\n");
        let values = ["\\N".into(), Value::Real(1e300), Value::Blob(vec![]), "x\ty".into()];
        assert_eq!(line(values), "s\t-7\t\\\\N\t1e300\t\\\\x\t\\N\t{\"d\":\"x\\\\ty\"}\n");
        let table = Table::from_sql("w".into(), 0, "CREATE TABLE w(k TEXT PRIMARY KEY) WITHOUT ROWID".into());
        let target = Target::new("public", &table, &[]).unwrap();
        let mut out = String::new();
        put(&mut out, "s", &target, &table, &Row { rowid: None, values: vec!["a".into()] });
        assert_eq!(out, "s\t\\\\x030161\ta\t\\N\n");
    }

    #[test]
    fn what_fits_is_what_fits_in_a_statement() {
        let values = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(1.5),
            Value::Real(f64::INFINITY),
            "text".into(),
            "nul\0".into(),
            Value::Text(vec![0xff]),
            Value::Blob(vec![1]),
        ];
        for kind in [Kind::Bigint, Kind::Float, Kind::Text, Kind::Bytea, Kind::Numeric] {
            for value in &values {
                let mut out = String::new();
                assert_eq!(
                    put_value(&mut out, kind, value),
                    Cells::new(kind).push(value),
                    "{kind:?} {value:?}"
                );
                assert_eq!(out == NULL, !Cells::new(kind).push(value) || *value == Value::Null);
            }
        }
    }
}

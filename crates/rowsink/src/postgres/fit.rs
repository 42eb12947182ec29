//! Columns of SQLite's as columns of PostgreSQL's, and the values that fit.

use litefoot_rowdiff::{Affinity, Column, Value};
use serde_json::{Value as Json, json};

/// The type of a column at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Bigint,
    Float,
    Text,
    Bytea,
    Numeric,
}

impl Kind {
    /// The type for a column, by what was declared. SQLite stores dates and JSON as texts.
    pub(super) fn of(column: &Column) -> Kind {
        let declared = column.declared.to_ascii_uppercase();
        match column.affinity {
            Affinity::Integer => Kind::Bigint,
            Affinity::Real => Kind::Float,
            Affinity::Text => Kind::Text,
            Affinity::Numeric if ["DATE", "TIME", "JSON"].iter().any(|name| declared.contains(name)) => {
                Kind::Text
            }
            Affinity::Numeric if declared.contains("BOOL") => Kind::Bigint,
            Affinity::Numeric => Kind::Numeric,
            // Columns without a type have texts more often than bytes.
            Affinity::Blob if declared.contains("BLOB") => Kind::Bytea,
            Affinity::Blob => Kind::Text,
        }
    }

    /// The name of the type.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Bigint => "bigint",
            Kind::Float => "double precision",
            Kind::Text => "text",
            Kind::Bytea => "bytea",
            Kind::Numeric => "numeric",
        }
    }

    /// The type of a column that is there, by its name in `information_schema`; `None` for one that no value is put into.
    pub(super) fn from_name(name: &str) -> Option<Kind> {
        [Kind::Bigint, Kind::Float, Kind::Text, Kind::Bytea, Kind::Numeric]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The values of one column, for one statement.
#[derive(Debug, PartialEq)]
pub(super) enum Cells {
    Bigint(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    Bytea(Vec<Option<Vec<u8>>>),
    /// As text.
    Numeric(Vec<Option<String>>),
}

impl Cells {
    pub(super) fn new(kind: Kind) -> Cells {
        match kind {
            Kind::Bigint => Cells::Bigint(Vec::new()),
            Kind::Float => Cells::Float(Vec::new()),
            Kind::Text => Cells::Text(Vec::new()),
            Kind::Bytea => Cells::Bytea(Vec::new()),
            Kind::Numeric => Cells::Numeric(Vec::new()),
        }
    }

    /// Adds a value; `false` where it does not fit, and NULL was added.
    pub(super) fn push(&mut self, value: &Value) -> bool {
        let is_null = matches!(value, Value::Null);
        let fits = match (self, value) {
            (Cells::Bigint(cells), value) => {
                cells.push(if let Value::Integer(number) = value { Some(*number) } else { None });
                cells.last().is_some_and(Option::is_some)
            }
            (Cells::Float(cells), value) => {
                cells.push(if let Value::Real(number) = value { Some(*number) } else { None });
                cells.last().is_some_and(Option::is_some)
            }
            (Cells::Text(cells), value) => {
                cells.push(if let Value::Text(text) = value {
                    text_of(text).map(str::to_owned)
                } else {
                    None
                });
                cells.last().is_some_and(Option::is_some)
            }
            (Cells::Bytea(cells), value) => {
                cells.push(if let Value::Blob(bytes) = value { Some(bytes.clone()) } else { None });
                cells.last().is_some_and(Option::is_some)
            }
            (Cells::Numeric(cells), value) => {
                cells.push(match value {
                    Value::Integer(number) => Some(number.to_string()),
                    Value::Real(number) if number.is_finite() => Some(format!("{number:?}")),
                    _ => None,
                });
                cells.last().is_some_and(Option::is_some)
            }
        };
        fits || is_null
    }
}

/// A text that PostgreSQL takes: UTF-8 without NUL.
pub(super) fn text_of(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok().filter(|text| !text.contains('\0'))
}

/// A value in `_misfit`. What JSONB does not hold is there in hexadecimal, as lines of JSON have it.
pub(super) fn misfit(value: &Value) -> Json {
    match value {
        Value::Text(text) if text.contains(&0) => json!({ "text": hexadecimal(text) }),
        // JSONB would make a whole number of it.
        Value::Real(number) if number.abs() >= 1e15 => json!({ "real": format!("{number:?}") }),
        value => litefoot_rowdiff::encode::json::value(value),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_get_a_type() {
        for (declared, affinity, kind) in [
            ("INTEGER", Affinity::Integer, Kind::Bigint),
            ("BOOLEAN", Affinity::Numeric, Kind::Bigint),
            ("DECIMAL(10,2)", Affinity::Numeric, Kind::Numeric),
            ("datetime", Affinity::Numeric, Kind::Text),
            ("JSON", Affinity::Numeric, Kind::Text),
            ("REAL", Affinity::Real, Kind::Float),
            ("", Affinity::Blob, Kind::Text),
            ("BLOB", Affinity::Blob, Kind::Bytea),
        ] {
            let column = Column {
                name: "c".into(),
                declared: declared.into(),
                affinity,
                primary_key: 0,
                not_null: false,
                generated: false,
                default: None,
            };
            assert_eq!(Kind::of(&column), kind, "{declared}");
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn what_does_not_fit_is_null_and_told() {
        let text = |text: &str| Value::from(text);
        for (kind, value, fits) in [
            (Kind::Bigint, Value::Integer(i64::MIN), true),
            (Kind::Bigint, Value::Null, true),
            (Kind::Bigint, text("5"), false),
            (Kind::Bigint, Value::Real(1.5), false),
            (Kind::Float, Value::Real(f64::INFINITY), true),
            (Kind::Float, Value::Integer(1), false),
            (Kind::Text, text("größe"), true),
            (Kind::Text, text("a\0b"), false),
            (Kind::Text, Value::Text(vec![0xff]), false),
            (Kind::Text, Value::Blob(vec![]), false),
            (Kind::Bytea, Value::Blob(vec![0]), true),
            (Kind::Bytea, text("a"), false),
            (Kind::Numeric, Value::Real(0.1), true),
            (Kind::Numeric, Value::Real(f64::NEG_INFINITY), false),
            (Kind::Numeric, text("abc"), false),
        ] {
            assert_eq!(Cells::new(kind).push(&value), fits, "{kind:?} {value:?}");
        }
        assert_eq!(misfit(&text("a\0b")), json!({ "text": "610062" }));
        assert_eq!(misfit(&Value::Real(1e16)), json!({ "real": "1e16" }));
        assert_eq!(misfit(&Value::Blob(vec![255])), json!({ "blob": "ff" }));
    }
}

//! The value of a column in rows that are older than it: the constant behind DEFAULT, as its column stores it.

use super::Affinity;
use super::create_table::name;
use crate::value::Value;
use litefoot_format::words::{Kind, Word};

/// The value; `None` for what is no constant, or one whose form only SQLite can tell.
pub(super) fn parse(mut words: &[Word<'_>], affinity: Affinity) -> Option<Value> {
    while let [first, inner @ .., last] = words
        && first.is("(")
        && last.is(")")
    {
        words = inner;
    }
    match words {
        [sign, number] if sign.is("-") || sign.is("+") => {
            let value = literal_number(number, if sign.is("-") { "-" } else { "" })?;
            stored(value, affinity)
        }
        [word] => {
            let is_float = word.kind == Kind::Literal && word.text.contains(['.', 'e', 'E']);
            // SQLite keeps the number as it was written.
            if affinity == Affinity::Text && is_float && literal_number(word, "").is_some() {
                return Some(Value::from(word.text));
            }
            stored(literal(word)?, affinity)
        }
        _ => None,
    }
}

fn literal(word: &Word<'_>) -> Option<Value> {
    match word.kind {
        Kind::Name if word.is("NULL") => Some(Value::Null),
        Kind::Name if word.is("TRUE") => Some(Value::Integer(1)),
        Kind::Name if word.is("FALSE") => Some(Value::Integer(0)),
        Kind::Name if ["CURRENT_TIME", "CURRENT_DATE", "CURRENT_TIMESTAMP"].iter().any(|of| word.is(of)) => {
            None
        }
        Kind::Literal if word.text.starts_with(['x', 'X']) => blob(word.text).map(Value::Blob),
        Kind::Literal if !word.text.starts_with('\'') => literal_number(word, ""),
        Kind::Name | Kind::QuotedName | Kind::Literal => {
            name(*word).map(|text| Value::Text(text.into_bytes()))
        }
        _ => None,
    }
}

fn blob(text: &str) -> Option<Vec<u8>> {
    let digits = text.get(2..text.len() - 1)?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn literal_number(word: &Word<'_>, sign: &str) -> Option<Value> {
    if word.kind != Kind::Literal {
        return None;
    }
    let digits = word.text.replace('_', "");
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let number = u64::from_str_radix(hex, 16).ok()?.cast_signed();
        return Some(Value::Integer(if sign == "-" { number.checked_neg()? } else { number }));
    }
    number(&format!("{sign}{digits}"))
}

/// A text as a number, if it is one.
fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|of: char| of.is_ascii_digit() || of == '.')
        && digits.contains(|of: char| of.is_ascii_digit());
    if !is_number {
        return None;
    }
    match text.parse::<i64>() {
        Ok(number) => Some(Value::Integer(number)),
        Err(_) => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::Real),
    }
}

/// The value as a column of that affinity stores it.
fn stored(value: Value, affinity: Affinity) -> Option<Value> {
    let value = match (affinity, value) {
        (Affinity::Text, Value::Integer(number)) => Value::Text(number.to_string().into_bytes()),
        // How SQLite writes a floating-point number has changed with its releases.
        (Affinity::Text, Value::Real(_)) => return None,
        (Affinity::Integer | Affinity::Real | Affinity::Numeric, Value::Text(bytes)) => {
            let found = std::str::from_utf8(&bytes).ok().and_then(|text| number(text.trim_ascii()));
            found.unwrap_or(Value::Text(bytes))
        }
        (_, value) => value,
    };
    Some(match (affinity, value) {
        (Affinity::Real, Value::Integer(number)) => Value::Real(number as f64),
        (Affinity::Integer | Affinity::Numeric, Value::Real(real)) if is_whole(real) => {
            Value::Integer(real as i64)
        }
        (_, value) => value,
    })
}

fn is_whole(real: f64) -> bool {
    real.fract() == 0.0 && real.abs() < (1i64 << 51) as f64
}

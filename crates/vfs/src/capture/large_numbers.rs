//! Numbers that are close to the largest number of a row: behind the largest, SQLite chooses numbers by chance.

use crate::ffi::statement::Value;

/// Numbers of rows from here on are close to the largest.
pub(super) const LARGE_ROWID: i64 = 1 << 60;

/// True if a value becomes a large number of a row, should it become one.
pub(super) fn is_large(value: Value<'_>) -> bool {
    match value {
        Value::Integer(number) => number >= LARGE_ROWID,
        Value::Real(number) => number >= LARGE_ROWID as f64,
        // SQLite makes numbers of texts.
        Value::Text(text) => std::str::from_utf8(text)
            .is_ok_and(|text| text.trim().parse().is_ok_and(|number: f64| number >= LARGE_ROWID as f64)),
        _ => false,
    }
}

/// True if a text may have a number that is that large: many digits, or an exponent.
pub(super) fn mentions_large(text: &[u8]) -> bool {
    let mut digits = 0;
    text.iter().any(|byte| {
        let goes_on = byte.is_ascii_hexdigit() || matches!(byte, b'.' | b'_' | b'+' | b'x' | b'X');
        digits = if goes_on { digits + usize::from(byte.is_ascii_digit()) } else { 0 };
        digits >= 18 || digits > 0 && matches!(byte, b'e' | b'E' | b'x' | b'X')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_are_found_in_every_type() {
        for (value, large) in [
            (Value::Integer(LARGE_ROWID), true),
            (Value::Integer(LARGE_ROWID - 1), false),
            (Value::Integer(i64::MIN), false),
            (Value::Real(1e19), true),
            (Value::Real(1e15), false),
            (Value::Real(f64::NAN), false),
            (Value::Text(b" 9e18 "), true),
            (Value::Text(b"12"), false),
            (Value::Text(b"\xff"), false),
            (Value::Blob(b"9e18"), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_large(value), large, "{value:?}");
        }
    }

    #[test]
    fn large_numbers_are_found_however_they_are_written() {
        for (text, large) in [
            ("INSERT INTO t VALUES(9223372036854775807, 'x')", true),
            ("INSERT INTO t VALUES(0x7fffffffffffffff)", true),
            ("INSERT INTO t VALUES(9e18)", true),
            ("INSERT INTO t VALUES(9_223_372_036_854_775_807)", true),
            ("INSERT INTO t VALUES(123456789012, 'e')", false),
            ("INSERT INTO table7 VALUES(1, 2)", false),
        ] {
            assert_eq!(mentions_large(text.as_bytes()), large, "{text}");
        }
    }
}

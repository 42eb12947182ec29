//! A captured statement as SQL that stands for itself, with its values in the place of its parameters.
//!
//! # What it promises
//! 1. Every value is what it was, to the bit, in any SQLite. Not every SQLite rounds each decimal fraction of 17 digits
//!    correctly, so such doubles are written as an integer and powers of two.
//! 2. A value changes nothing around it. It stands in parentheses where it could grow together with its neighbours:
//!    `v-?1` with −7 is not `v--7`, which begins a comment.
//! 3. Neither a comment nor a semicolon is at the end, so that one may be put there.
//!
//! Tokens are told apart as SQLite's tokenizer does, as far as parameters, quotes and comments need it.

use crate::ffi::statement::Value;
use std::collections::HashMap;
use std::fmt::Write as _;

/// The number of digits that every SQLite reads exactly, and the largest power of ten by which SQLite may shift them.
/// Both factors are doubles then, and are rounded once.
const SAFE_DIGITS: usize = 15;
const SAFE_POWER: i32 = 22;
/// The largest power of two that is an integer of SQLite's.
const LARGEST_SHIFT: u32 = 62;

/// A statement with its values in the place of its parameters.
pub fn expand(sql: &str, values: &[Value<'_>]) -> String {
    let mut out = String::with_capacity(sql.len() + 16 * values.len());
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut last = 0;
    // Where the last word ends that is neither a comment nor a space nor a semicolon.
    let mut end = 0;
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (word, behind) = rest.split_at(token(rest));
        rest = behind;
        let number = match first {
            '?' if word.len() == 1 => Some(last + 1),
            '?' => word[1..].parse().ok(),
            ':' | '@' | '$' | '#' if word.len() > 1 => Some(*names.entry(word).or_insert(last + 1)),
            _ => None,
        };
        match number {
            Some(number) => {
                last = last.max(number);
                literal(&mut out, values.get(number - 1).copied().unwrap_or(Value::Null));
            }
            None => out.push_str(word),
        }
        let counts =
            !(first.is_whitespace() || first == ';' || word.starts_with("--") || word.starts_with("/*"));
        end = if counts { out.len() } else { end };
    }
    out.truncate(end);
    out
}

/// True for a byte that SQLite takes for a part of a name.
fn of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

/// Bytes of the token at the beginning of a text that is not empty.
fn token(sql: &str) -> usize {
    let until = |end: &str, from: usize| sql[from..].find(end).map_or(sql.len(), |at| from + at + end.len());
    let while_ = |from: usize, test: fn(u8) -> bool| {
        sql.bytes().skip(from).position(|byte| !test(byte)).map_or(sql.len(), |at| from + at)
    };
    match sql.as_bytes()[0] {
        b'\'' => until("'", 1),
        b'"' => until("\"", 1),
        b'`' => until("`", 1),
        b'[' => until("]", 1),
        b'-' if sql.starts_with("--") => until("\n", 2),
        b'/' if sql.starts_with("/*") => until("*/", 2),
        b'?' => while_(1, |byte| byte.is_ascii_digit()),
        b':' | b'@' | b'$' | b'#' => parameter(sql),
        byte if of_name(byte) => while_(0, of_name),
        _ => 1,
    }
}

/// Bytes of a parameter with a name: Tcl's `$a::b(c)` is one.
fn parameter(sql: &str) -> usize {
    let bytes = sql.as_bytes();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        if of_name(byte) {
            at += 1;
        } else if sql[at..].starts_with("::") {
            at += 2;
        } else if byte == b'(' && at > 1 {
            let close = bytes[at..].iter().position(|byte| *byte == b')' || byte.is_ascii_whitespace());
            return close.map_or(sql.len(), |close| at + close + 1);
        } else {
            break;
        }
    }
    at
}

/// A value as SQL that gives exactly this value back, wherever an expression may stand.
fn literal(out: &mut String, value: Value<'_>) {
    let _ = match value {
        Value::Null => write!(out, "(NULL)"),
        Value::Integer(number) => write!(out, "({number})"),
        Value::Real(number) => write!(out, "({})", real(number)),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => write!(out, "('{}')", text.replace('\'', "''")),
            // The plus takes the affinity away that a cast has and a value has not.
            _ => write!(out, "(+CAST(x'{}' AS TEXT))", hex(bytes)),
        },
        Value::Blob(bytes) => write!(out, "(x'{}')", hex(bytes)),
    };
}

fn real(number: f64) -> String {
    // SQLite itself binds no other value for what is not a number.
    if number.is_nan() {
        return "NULL".to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-9e999" } else { "9e999" }.to_owned();
    }
    let shortest = format!("{number:e}");
    let (digits, power) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let count = digits.bytes().filter(u8::is_ascii_digit).count();
    let power = power.parse::<i32>().unwrap_or(i32::MAX).saturating_sub(count as i32 - 1);
    if count <= SAFE_DIGITS && power.abs() <= SAFE_POWER {
        return format!("{number:?}");
    }
    binary(number)
}

/// A finite double as an integer and powers of two; each step is exact.
fn binary(number: f64) -> String {
    let bits = number.to_bits();
    let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let zeros = mantissa.trailing_zeros().min(52);
    let mut left = exponent.max(1) - 1075 + zeros as i32;
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let mut text = format!("CAST({sign}{} AS REAL)", mantissa >> zeros);
    let operator = if left < 0 { '/' } else { '*' };
    loop {
        let shift = left.unsigned_abs().min(LARGEST_SHIFT);
        let _ = write!(text, "{operator}{}", 1u64 << shift);
        left -= left.signum() * shift as i32;
        if left == 0 {
            return text;
        }
    }
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
            ("INSERT INTO t VALUES(?,?,?,?)", "INSERT INTO t VALUES((-7),(0.1),('it''s'),(x'00ff'))"),
            ("VALUES(?2,?1,?)", "VALUES((0.1),(-7),('it''s'))"),
            ("VALUES(:a,@b,:a,$c_1)", "VALUES((-7),(0.1),(-7),('it''s'))"),
            ("VALUES('?1', \"?\", [?], `?`, ?1)", "VALUES('?1', \"?\", [?], `?`, (-7))"),
            ("VALUES('it''s ?', ?1, 'ä', ?5)", "VALUES('it''s ?', (-7), 'ä', (NULL))"),
            ("UPDATE t SET v=v-?1 WHERE a IS NOT?2", "UPDATE t SET v=v-(-7) WHERE a IS NOT(0.1)"),
            ("UPDATE a$b SET ü€=$ü€, c=$x::y(?z), d=?", "UPDATE a$b SET ü€=(-7), c=(0.1), d=('it''s')"),
            ("SELECT ?1 -- ?2\n, /* ? */ 2", "SELECT (-7) -- ?2\n, /* ? */ 2"),
            ("SELECT 1; -- a comment", "SELECT 1"),
            ("SELECT ?1 /* never closed", "SELECT (-7)"),
            ("SELECT '--' ; ;\n", "SELECT '--'"),
        ];
        for (sql, expected) in cases {
            assert_eq!(expand(sql, &values), expected);
        }
    }

    #[test]
    fn literals_are_exact() {
        let cases = [
            (Value::Real(1e22), "(1e22)"),
            (Value::Real(f64::NEG_INFINITY), "(-9e999)"),
            (Value::Real(f64::NAN), "(NULL)"),
            (Value::Real(3.0), "(3.0)"),
            (Value::Real(-0.0), "(-0.0)"),
            (Value::Real(0.1 + 0.2), "(CAST(1351079888211149 AS REAL)/4503599627370496)"),
            (Value::Text(b"a\0b"), "(+CAST(x'610062' AS TEXT))"),
            (Value::Integer(i64::MIN), "(-9223372036854775808)"),
        ];
        for (value, expected) in cases {
            let mut out = String::new();
            literal(&mut out, value);
            assert_eq!(out, expected);
        }
    }
}

//! Values of SQLite, their order and their equality (<https://www.sqlite.org/datatype3.html>, section 4).

use crate::ffi::statement::Value;
use std::cmp::Ordering;

/// How texts compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collation {
    Binary,
    NoCase,
    RightTrim,
}

impl Collation {
    /// The collation of that name, where SQLite has it built in.
    pub(super) fn named(name: &str) -> Option<Collation> {
        match name {
            _ if name.eq_ignore_ascii_case("BINARY") => Some(Collation::Binary),
            _ if name.eq_ignore_ascii_case("NOCASE") => Some(Collation::NoCase),
            _ if name.eq_ignore_ascii_case("RTRIM") => Some(Collation::RightTrim),
            _ => None,
        }
    }

    #[inline]
    fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Collation::Binary => one.cmp(other),
            Collation::NoCase => no_case(one, other),
            Collation::RightTrim => trimmed(one).cmp(trimmed(other)),
        }
    }
}

/// As `sqlite3StrNICmp` over the shorter length, and then by length.
fn no_case(one: &[u8], other: &[u8]) -> Ordering {
    for (a, b) in one.iter().zip(other) {
        let order = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
        // It stops at a NUL, and looks at the lengths.
        if order != Ordering::Equal {
            return order;
        }
        if *a == 0 {
            break;
        }
    }
    one.len().cmp(&other.len())
}

fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// The storage classes in their order.
#[inline]
fn class(value: Value<'_>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    }
}

/// The order of two values, where NULL comes first and equals itself.
#[inline]
pub(super) fn compare(one: Value<'_>, other: Value<'_>, collation: Collation) -> Ordering {
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => one.cmp(&other),
        (Value::Integer(one), Value::Real(other)) => integer_with_real(one, other),
        (Value::Real(one), Value::Integer(other)) => integer_with_real(other, one).reverse(),
        (Value::Real(one), Value::Real(other)) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
        (Value::Text(one), Value::Text(other)) => collation.compare(one, other),
        (Value::Blob(one), Value::Blob(other)) => one.cmp(other),
        _ => class(one).cmp(&class(other)),
    }
}

/// As `sqlite3IntFloatCompare`: exactly, also where the real has no bits for the integer.
fn integer_with_real(integer: i64, real: f64) -> Ordering {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real < -BEYOND {
        return Ordering::Greater;
    }
    if real >= BEYOND {
        return Ordering::Less;
    }
    let whole = real as i64;
    integer.cmp(&whole).then_with(|| (integer as f64).partial_cmp(&real).unwrap_or(Ordering::Equal))
}

/// Tells whether two values that compare equal are the same to the bit.
#[inline]
pub(super) fn is_same(one: Value<'_>, other: Value<'_>) -> bool {
    match (one, other) {
        (Value::Real(one), Value::Real(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

pub(super) const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Adds a value to a hash. Values that compare equal by `BINARY` have the same hash.
#[inline]
pub(super) fn hash(hash: u64, value: Value<'_>) -> u64 {
    match value {
        Value::Null => mix(hash, 1),
        Value::Integer(number) => mix(hash, number as u64),
        Value::Real(number) if integer_with_real(number as i64, number) == Ordering::Equal => {
            mix(hash, number as i64 as u64)
        }
        Value::Real(number) => mix(hash, number.to_bits()),
        Value::Text(bytes) | Value::Blob(bytes) => {
            let (words, rest) = bytes.as_chunks::<8>();
            let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
            let rest = rest.iter().fold(bytes.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
            mix(hash, rest)
        }
    }
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ MIX) * u128::from(MIX);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_sqlites_order() {
        use Value::*;
        let binary = Collation::Binary;
        let ascending = [
            Null,
            Real(f64::NEG_INFINITY),
            Integer(i64::MIN),
            Integer(-1),
            Real(-0.5),
            Integer(0),
            Real(0.5),
            Integer(1 << 53),
            Integer((1 << 53) + 1),
            Integer(i64::MAX),
            Real(9_223_372_036_854_775_808.0),
            Text(b""),
            Text(b"A"),
            Text(b"a"),
            Text(b"aa"),
            Blob(b""),
            Blob(b"\0"),
        ];
        for (place, one) in ascending.iter().enumerate() {
            for (other_place, other) in ascending.iter().enumerate() {
                assert_eq!(compare(*one, *other, binary), place.cmp(&other_place), "{one:?} {other:?}");
            }
        }
        for (one, other) in [(Integer(1), Real(1.0)), (Integer(i64::MIN), Real(i64::MIN as f64))] {
            assert_eq!(compare(one, other, binary), Ordering::Equal);
            assert_eq!(hash(7, one), hash(7, other));
            assert!(!is_same(one, other));
        }
        assert!(!is_same(Real(0.0), Real(-0.0)) && is_same(Text(b"a"), Text(b"a")));
    }

    #[test]
    fn collations_are_those_of_sqlite() {
        let order = |collation: Collation, one: &[u8], other: &[u8]| {
            compare(Value::Text(one), Value::Text(other), collation)
        };
        assert_eq!(order(Collation::NoCase, b"aBc", b"AbC"), Ordering::Equal);
        assert_eq!(order(Collation::NoCase, b"ab", b"ABC"), Ordering::Less);
        assert_eq!(order(Collation::NoCase, b"_", b"A"), Ordering::Less, "by the lower case");
        assert_eq!(order(Collation::RightTrim, b"a  ", b"a"), Ordering::Equal);
        assert_eq!(order(Collation::RightTrim, b" a", b"a"), Ordering::Less);
        assert_eq!(Collation::named("nocase"), Some(Collation::NoCase));
        assert_eq!(Collation::named("german"), None);
    }
}

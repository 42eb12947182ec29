//! The values of one column, in the order of their rows.
//!
//! ```text
//! kinds     in runs: kind, length; as many as there are values
//! scale     1 byte, where a value is a decimal
//! numbers   integers and decimals: differences to the one before, as varints; raw reals: 8 bytes, little-endian
//! lengths   of texts and blobs
//! bytes     of texts and blobs
//! ```
//! A decimal is a real that is a whole number, divided by ten to the power of the scale: what a sensor has measured. All reals
//! of the column are decimals, or none is.

use super::decode::{DecodeError, Reader};
use super::{unzigzag, zigzag};
use crate::value::Value;
use litefoot_format::number::put_varint;

const NULL: u64 = 0;
const INTEGER: u64 = 1;
const DECIMAL: u64 = 2;
const REAL: u64 = 3;
const TEXT: u64 = 4;
const BLOB: u64 = 5;

const SCALES: [f64; 7] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];

/// The whole number that gives the real at a scale.
fn decimal(real: f64, scale: f64) -> Option<i64> {
    let whole = (real * scale).round();
    // By way of the whole number, which has no negative zero.
    let is_exact =
        whole.abs() < (1i64 << 53) as f64 && (whole as i64 as f64 / scale).to_bits() == real.to_bits();
    is_exact.then_some(whole as i64)
}

/// Appends runs of equal numbers.
pub(super) fn put_runs(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    let mut numbers = numbers.into_iter().peekable();
    while let Some(number) = numbers.next() {
        let mut length = 1;
        while numbers.next_if_eq(&number).is_some() {
            length += 1;
        }
        put_varint(out, number);
        put_varint(out, length);
    }
}

/// Appends a column.
pub(super) fn put(out: &mut Vec<u8>, values: &[&Value]) {
    let reals =
        || values.iter().filter_map(|value| if let Value::Real(real) = value { Some(*real) } else { None });
    let scale = SCALES.iter().position(|scale| reals().all(|real| decimal(real, *scale).is_some()));
    let kind = |value: &&Value| match value {
        Value::Null => NULL,
        Value::Integer(_) => INTEGER,
        Value::Real(_) => {
            if scale.is_some() {
                DECIMAL
            } else {
                REAL
            }
        }
        Value::Text(_) => TEXT,
        Value::Blob(_) => BLOB,
    };
    put_runs(out, values.iter().map(kind));
    let scale = scale.filter(|_| reals().next().is_some());
    out.extend(scale.map(|scale| scale as u8));
    let mut last = 0i64;
    let mut put_number = |out: &mut Vec<u8>, number: i64| {
        put_varint(out, zigzag(number.wrapping_sub(last)));
        last = number;
    };
    for value in values {
        match value {
            Value::Integer(number) => put_number(out, *number),
            Value::Real(real) => match scale.and_then(|scale| decimal(*real, SCALES[scale])) {
                Some(number) => put_number(out, number),
                None => out.extend(real.to_le_bytes()),
            },
            _ => (),
        }
    }
    let texts = || {
        values.iter().filter_map(|value| match value {
            Value::Text(bytes) | Value::Blob(bytes) => Some(bytes),
            _ => None,
        })
    };
    texts().for_each(|bytes| put_varint(out, bytes.len() as u64));
    texts().for_each(|bytes| out.extend(bytes));
}

/// Takes a column of so many values.
pub(super) fn take(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Value>, DecodeError> {
    let kinds = reader.runs(count)?;
    let scale = match kinds.contains(&DECIMAL) {
        true => *SCALES.get(usize::from(reader.bytes(1)?[0])).ok_or(DecodeError::Damaged)?,
        false => 1.0,
    };
    let mut last = 0i64;
    let mut values = Vec::with_capacity(count);
    let mut texts = Vec::new();
    for kind in kinds {
        values.push(match kind {
            NULL => Value::Null,
            INTEGER | DECIMAL => {
                last = last.wrapping_add(unzigzag(reader.varint()?));
                if kind == INTEGER { Value::Integer(last) } else { Value::Real(last as f64 / scale) }
            }
            REAL => match f64::from_le_bytes(*reader.array()?) {
                real if real.is_nan() => return Err(DecodeError::Damaged),
                real => Value::Real(real),
            },
            TEXT | BLOB => {
                texts.push((values.len(), kind));
                Value::Null
            }
            _ => return Err(DecodeError::Damaged),
        });
    }
    let lengths = texts.iter().map(|_| reader.length()).collect::<Result<Vec<usize>, _>>()?;
    for ((place, kind), length) in texts.into_iter().zip(lengths) {
        let bytes = reader.bytes(length)?.to_vec();
        values[place] = if kind == TEXT { Value::Text(bytes) } else { Value::Blob(bytes) };
    }
    Ok(values)
}

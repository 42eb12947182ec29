//! Records (file format, section 2.1), and rows of them.

use crate::error::{Error, Result};
use crate::pages::{Encoding, Version};
use crate::schema::{Affinity, Key, Table};
use crate::tree::page::Odd;
use crate::value::Value;
use litefoot_format::number::varint;
use litefoot_format::serial::{integer, value_bytes};

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its rowid; `None` in a table without.
    pub rowid: Option<i64>,
    /// A value for each of [`Table::columns`].
    pub values: Vec<Value>,
}

/// The values of a record. All bytes have to be used.
pub(crate) fn values(record: &[u8], encoding: Encoding) -> std::result::Result<Vec<Value>, Odd> {
    const SHORT: Odd = "a record is shorter than its header says";
    let (header, rest) = varint(record).ok_or(SHORT)?;
    let header_rest = usize::try_from(header).ok().and_then(|of| of.checked_sub(record.len() - rest.len()));
    let (mut serials, mut bytes) = header_rest.and_then(|of| rest.split_at_checked(of)).ok_or(SHORT)?;
    let mut values = Vec::new();
    while !serials.is_empty() {
        let (serial, behind) = varint(serials).ok_or("the header of a record is cut off")?;
        serials = behind;
        let length = value_bytes(serial).ok_or("a value is of a reserved type")?;
        let (value, behind) = bytes.split_at_checked(length).ok_or(SHORT)?;
        bytes = behind;
        values.push(one(serial, value, encoding));
    }
    if !bytes.is_empty() {
        return Err("a record is longer than its header says");
    }
    Ok(values)
}

/// A value of the right length.
fn one(serial: u64, bytes: &[u8], encoding: Encoding) -> Value {
    match serial {
        0 => Value::Null,
        7 => bytes.first_chunk().map_or(Value::Null, |bytes| match f64::from_be_bytes(*bytes) {
            // SQLite takes a stored NaN for NULL.
            real if real.is_nan() => Value::Null,
            real => Value::Real(real),
        }),
        1..=9 => integer(serial, bytes).map_or(Value::Null, Value::Integer),
        _ if serial & 1 == 0 => Value::Blob(bytes.to_vec()),
        _ => Value::Text(text(bytes, encoding)),
    }
}

fn text(bytes: &[u8], encoding: Encoding) -> Vec<u8> {
    let word = match encoding {
        Encoding::Utf8 => return bytes.to_vec(),
        Encoding::Utf16Le => u16::from_le_bytes,
        Encoding::Utf16Be => u16::from_be_bytes,
    };
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| word(*unit));
    let chars = char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER));
    chars.collect::<String>().into_bytes()
}

/// The row of a record that lies on a page.
pub(crate) fn row(version: &Version<'_>, page: u32, table: &Table, rowid: i64, record: &[u8]) -> Result<Row> {
    let corrupt = |what| version.corrupt(page, what);
    let stored = values(record, version.shape.encoding).map_err(corrupt)?;
    if stored.len() > table.storage.len() {
        return Err(corrupt("a record has more values than its table has columns"));
    }
    let mut values = vec![Value::Null; table.columns.len()];
    let mut stored = stored.into_iter();
    for place in &table.storage {
        let column = &table.columns[*place];
        values[*place] = match stored.next() {
            // A whole number in a column for reals is stored as such.
            Some(Value::Integer(number)) if column.affinity == Affinity::Real => Value::Real(number as f64),
            Some(value) => value,
            None => column
                .default
                .clone()
                .ok_or_else(|| Error::Default { table: table.name.clone(), column: column.name.clone() })?,
        };
    }
    Ok(match table.key {
        Key::PrimaryKey => Row { rowid: None, values },
        Key::Rowid { alias } => {
            if let Some(alias) = alias {
                values[alias] = Value::Integer(rowid);
            }
            Row { rowid: Some(rowid), values }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_serial_types_are_read() {
        let mut record = vec![13, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 12, 7];
        record[0] = record.len() as u8;
        for bytes in [
            &[0xff][..],
            &[0x01, 0x00],
            &[0xff, 0xff, 0xfe],
            &[0x7f, 0xff, 0xff, 0xff],
            &[0x80, 0, 0, 0, 0, 0],
            &i64::MIN.to_be_bytes(),
            &1.5f64.to_be_bytes(),
            b"a",
            &f64::NAN.to_be_bytes(),
        ] {
            record.extend(bytes);
        }
        use Value::*;
        assert_eq!(
            values(&record, Encoding::Utf8).unwrap(),
            [
                Null,
                Integer(-1),
                Integer(256),
                Integer(-2),
                Integer(0x7fff_ffff),
                Integer(-(1 << 47)),
                Integer(i64::MIN),
                Real(1.5),
                Integer(0),
                Integer(1),
                Value::from("a"),
                Blob(vec![]),
                Null
            ]
        );
        for cut in 0..record.len() {
            assert!(values(&record[..cut], Encoding::Utf8).is_err(), "{cut}");
        }
        record.push(0);
        assert!(values(&record, Encoding::Utf8).is_err());
        for reserved in [10, 11] {
            assert!(values(&[2, reserved], Encoding::Utf8).is_err());
        }
    }

    #[test]
    fn texts_become_utf8() {
        for (bytes, encoding) in
            [(&b"h\0\xac\x20"[..], Encoding::Utf16Le), (b"\0h\x20\xac", Encoding::Utf16Be)]
        {
            assert_eq!(text(bytes, encoding), "h€".as_bytes());
        }
    }
}

//! A value of a row.

/// A value, as SQLite stores it.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A floating-point number; never a NaN, which SQLite takes for NULL.
    Real(f64),
    /// A text: UTF-8 where the application stored UTF-8, which SQLite does not check.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// Values are equal where they have the same type and the same bytes, so that 0.0 and -0.0 differ.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Integer(one), Value::Integer(two)) => one == two,
            (Value::Real(one), Value::Real(two)) => one.to_bits() == two.to_bits(),
            (Value::Text(one), Value::Text(two)) | (Value::Blob(one), Value::Blob(two)) => one == two,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Value::Null => (),
            Value::Integer(number) => number.hash(state),
            Value::Real(number) => number.to_bits().hash(state),
            Value::Text(bytes) | Value::Blob(bytes) => bytes.hash(state),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }
}

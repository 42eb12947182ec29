//! Names: transactions, levels, and where a file lies.

use std::fmt;

/// The number of a transaction, or of a shipment, which has the effect of one. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(u64);

impl TxId {
    /// A number.
    pub const fn new(number: u64) -> TxId {
        TxId(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one behind it.
    #[must_use]
    pub const fn next(self) -> TxId {
        TxId(self.0.saturating_add(1))
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A level of compaction, 0 to 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// A file for each shipment.
    pub const SHIPMENTS: Level = Level(0);
    /// Whole databases.
    pub const SNAPSHOTS: Level = Level(9);

    /// All levels, from shipments to snapshots.
    pub fn all() -> impl DoubleEndedIterator<Item = Level> {
        (0..=9).map(Level)
    }

    /// A level of this number.
    pub const fn new(number: u8) -> Option<Level> {
        if number <= 9 { Some(Level(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The folder of its files, below that of the database.
    pub fn folder(self) -> String {
        format!("ltx/{}", self.0)
    }
}

/// The name of a file.
pub fn file_name(min: TxId, max: TxId) -> String {
    format!("{min}-{max}.ltx")
}

/// The transactions of a file of this name.
pub fn parse_file_name(name: &str) -> Option<(TxId, TxId)> {
    let (min, max) = name.strip_suffix(".ltx")?.split_once('-')?;
    Some((transaction(min)?, transaction(max)?))
}

/// Sixteen hexadecimal digits in lower case.
fn transaction(digits: &str) -> Option<TxId> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_whole = digits.len() == 16 && digits.bytes().all(is_digit);
    is_whole.then(|| u64::from_str_radix(digits, 16).ok().map(TxId))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let [min, max] = [TxId::new(1), TxId::new(0xabc)];
        let name = file_name(min, max);
        assert_eq!(name, "0000000000000001-0000000000000abc.ltx");
        assert_eq!(parse_file_name(&name), Some((min, max)));
        for other in [
            "0000000000000001-0000000000000ABC.ltx",
            "0000000000000001-0000000000000abc.ltx.tmp",
            "000000000000001-0000000000000abc.ltx",
            "+000000000000001-0000000000000abc.ltx",
            "0000000000000001.ltx",
            "",
        ] {
            assert_eq!(parse_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn there_are_ten_levels() {
        assert_eq!(Level::all().map(Level::get).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!(Level::new(10), None);
        assert_eq!(Level::SNAPSHOTS.folder(), "ltx/9");
    }
}

//! The points of the sweep: how large a transaction, of which rows, under which journal.

use super::super::commit::side::{Kind, Settings, Side, settings};

/// Rows of a transaction.
pub const ROWS: [u64; 11] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000];
/// The most rows of a transaction that one may ask for.
pub const MOST_ROWS: u64 = 1_000_000;
const QUICK_ROWS: [u64; 3] = [1, 100, 1000];

/// The name of stock SQLite in figures.
pub const STOCK: &str = "stock";
/// The name of litefoot in figures.
pub const LITEFOOT: &str = "litefoot";

/// The order of the indexed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each is above all before it.
    Ordered,
    /// Anywhere in the index.
    Random,
}

/// The kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    /// Length of the text.
    pub bytes: usize,
    pub keys: Keys,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "ordered_30", bytes: 30, keys: Keys::Ordered },
    Shape { name: "random_30", bytes: 30, keys: Keys::Random },
    Shape { name: "ordered_300", bytes: 300, keys: Keys::Ordered },
    Shape { name: "random_300", bytes: 300, keys: Keys::Random },
];
const QUICK_SHAPES: [Shape; 2] = [SHAPES[0], SHAPES[3]];

/// A journal mode and a durability.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub name: &'static str,
    settings: Settings,
}

const MODES: [Mode; 4] = [
    Mode { name: MODE_NAMES[0], settings: settings("wal", "full") },
    Mode { name: MODE_NAMES[1], settings: settings("wal", "normal") },
    Mode { name: MODE_NAMES[2], settings: settings("delete", "full") },
    Mode { name: MODE_NAMES[3], settings: settings("delete", "normal") },
];
/// The names of the modes.
pub const MODE_NAMES: [&str; 4] = ["wal_full", "wal_normal", "delete_full", "delete_normal"];
/// The short form's modes: NORMAL saves a rollback journal one of its four syncs.
const QUICK_MODES: usize = 3;

impl Mode {
    /// Stock SQLite and litefoot in this mode.
    pub fn sides(&self) -> [Side; 2] {
        [
            Side { name: STOCK, kind: Kind::Stock(self.settings) },
            Side { name: LITEFOOT, kind: Kind::Litefoot(self.settings) },
        ]
    }
}

/// One point.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub mode: Mode,
    pub shape: Shape,
    /// Rows of a transaction.
    pub rows: u64,
}

impl Point {
    /// Its name in figures.
    pub fn name(&self) -> String {
        format!("{}.{}.{}", self.mode.name, self.shape.name, self.rows)
    }
}

/// The points of a run, mode by mode: all, few for the short form, or those with the given rows and modes.
pub fn points(quick: bool, rows: &[u64], modes: &[String]) -> Vec<Point> {
    let mut rows = match (rows, quick) {
        ([], true) => QUICK_ROWS.to_vec(),
        ([], false) => ROWS.to_vec(),
        (given, _) => given.to_vec(),
    };
    rows.sort_unstable();
    rows.dedup();
    let shapes = if quick { &QUICK_SHAPES[..] } else { &SHAPES };
    let usual = if quick { QUICK_MODES } else { MODES.len() };
    let chosen = |(index, mode): &(usize, Mode)| match modes {
        [] => *index < usual,
        given => given.iter().any(|name| name == mode.name),
    };
    let modes = MODES.into_iter().enumerate().filter(chosen).map(|(_, mode)| mode);
    modes
        .flat_map(|mode| shapes.iter().map(move |shape| (mode, *shape)))
        .flat_map(|(mode, shape)| rows.iter().map(move |rows| Point { mode, shape, rows: *rows }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_that_were_asked_for() {
        let names = |quick, rows: &[u64], modes: &[&str]| -> Vec<String> {
            let modes: Vec<String> = modes.iter().map(|mode| (*mode).to_owned()).collect();
            points(quick, rows, &modes).iter().map(Point::name).collect()
        };
        let all = names(false, &[], &[]);
        assert_eq!(all.len(), MODES.len() * SHAPES.len() * ROWS.len());
        assert_eq!(all[0], "wal_full.ordered_30.1");
        assert_eq!(all.last().map(String::as_str), Some("delete_normal.random_300.100000"));
        let quick = names(true, &[], &[]);
        assert_eq!(quick.len(), QUICK_MODES * QUICK_SHAPES.len() * QUICK_ROWS.len());
        assert!(quick.iter().all(|name| all.contains(name)));
        let chosen = names(true, &[7, 2, 7], &["delete_normal"]);
        let expected = ["ordered_30.2", "ordered_30.7", "random_300.2", "random_300.7"];
        assert_eq!(chosen, expected.map(|name| format!("delete_normal.{name}")));
    }
}

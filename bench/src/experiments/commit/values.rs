//! The rows: their table, and their values by a seed. The same for every side, and for the stores that are measured
//! beside them.

/// The table, where it is not there yet.
pub const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY, body TEXT NOT NULL, number INTEGER NOT NULL, value REAL NOT NULL); \
     CREATE INDEX IF NOT EXISTS item_number ON item(number);";
pub const INSERT: &str = "INSERT INTO item(body, number, value) VALUES (?1, ?2, ?3)";

/// Rows that the updates find.
pub const ROWS: i64 = 20_000;
/// Of the updates, this share goes to the first [`HOT_ROWS`].
const HOT_PERCENT: u64 = 90;
const HOT_ROWS: i64 = ROWS / 20;
pub const TEXT_BYTES: usize = 100;

/// The values of a seed.
pub struct Values(fastrand::Rng);

impl Values {
    pub fn new(seed: u64) -> Values {
        Values(fastrand::Rng::with_seed(seed))
    }

    pub fn text(&mut self) -> String {
        (0..TEXT_BYTES).map(|_| self.0.alphanumeric()).collect()
    }

    pub fn number(&mut self) -> i64 {
        i64::from(self.0.i32(..))
    }

    pub fn value(&mut self) -> f64 {
        self.0.f64()
    }

    /// The row of an update.
    pub fn row(&mut self) -> i64 {
        let rows = if self.0.u64(0..100) < HOT_PERCENT { HOT_ROWS } else { ROWS };
        1 + self.0.i64(0..rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_go_where_they_shall() {
        let mut values = Values::new(7);
        let hot = (0..10_000).filter(|_| values.row() <= HOT_ROWS).count();
        // 90 % aimed, and 5 % of the rest by chance: 90.5 %.
        assert!((8900..9200).contains(&hot), "{hot}");
        assert_eq!(values.text().len(), TEXT_BYTES);
    }
}

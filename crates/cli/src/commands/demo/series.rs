//! The readings: a real series of machine temperatures, carried inside the program.
//!
//! Origin and licence: `data/nab/README.md`.

use litefoot_terminal::Failure;
use rusqlite::Connection;

const CSV: &str = include_str!("../../../../../data/nab/machine_temperature_system_failure.csv");

/// One reading of the sensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// When, as text in local time.
    pub at: &'static str,
    /// Degrees Fahrenheit.
    pub value: f64,
}

/// The table that the demo writes, as a small logger would have it.
pub const SCHEMA: &str = "CREATE TABLE reading(id INTEGER PRIMARY KEY, at TEXT NOT NULL, value REAL NOT NULL); \
     CREATE INDEX reading_at ON reading(at);";

/// The statement that stores one reading, in a transaction of its own.
pub const INSERT: &str = "INSERT INTO reading(id, at, value) VALUES (?1, ?2, ?3)";

/// All readings in their order.
pub fn load() -> Result<Vec<Reading>, Failure> {
    CSV.lines()
        .skip(1)
        .map(|line| {
            let (at, value) = line.split_once(',')?;
            Some(Reading { at, value: value.trim_end().parse().ok()? })
        })
        .collect::<Option<Vec<_>>>()
        .filter(|readings| !readings.is_empty())
        .ok_or_else(|| Failure::new("the sensor series inside this program is damaged"))
}

/// Reading number `id`, from 1; past its end the series begins again.
pub fn reading(readings: &[Reading], id: u64) -> Reading {
    readings[((id - 1) % readings.len() as u64) as usize]
}

/// Stores reading number `id`; when this returns `Ok`, the reading has been acknowledged.
pub fn store(db: &Connection, readings: &[Reading], id: u64) -> rusqlite::Result<()> {
    let Reading { at, value } = reading(readings, id);
    db.prepare_cached(INSERT)?.execute((id as i64, at, value)).map(drop)
}

/// The contents of a database, compared with the acknowledged rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged readings that are missing or differ in any bit.
    pub lost: u64,
    /// Readings beyond the acknowledged ones and the one that was under way.
    pub unexpected: u64,
}

/// Compares the table with the first `acknowledged` readings. The reading after them was under way: it may
/// be there, but only whole.
pub fn verify(db: &Connection, readings: &[Reading], acknowledged: u64) -> rusqlite::Result<Verdict> {
    let mut statement = db.prepare("SELECT id, at, value FROM reading ORDER BY id")?;
    let mut rows = statement.query([])?;
    let (mut intact, mut unexpected) = (0, 0);
    while let Some(row) = rows.next()? {
        let id = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        let (at, value): (String, f64) = (row.get(1)?, row.get(2)?);
        let same = id > 0 && {
            let expected = reading(readings, id);
            expected.at == at && expected.value.to_bits() == value.to_bits()
        };
        if same && id <= acknowledged {
            intact += 1;
        } else if !(same && id == acknowledged + 1) {
            unexpected += 1;
        }
    }
    Ok(Verdict { lost: acknowledged - intact, unexpected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_whole_and_begins_again_at_its_end() {
        let readings = load().unwrap();
        assert_eq!(readings.len(), 22_695);
        assert_eq!(reading(&readings, 1), Reading { at: "2013-12-02 21:15:00", value: 73.967_322_07 });
        assert_eq!(reading(&readings, 22_696), reading(&readings, 1));
    }

    #[test]
    fn lost_changed_and_invented_readings_are_seen() {
        let readings = load().unwrap();
        let verdict_after = |sql: &str, acknowledged| {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch(SCHEMA).unwrap();
            (1..=10).for_each(|id| store(&db, &readings, id).unwrap());
            db.execute_batch(sql).unwrap();
            verify(&db, &readings, acknowledged).unwrap()
        };
        for (sql, acknowledged, lost, unexpected) in [
            ("", 10, 0, 0),
            ("", 9, 0, 0),
            ("", 8, 0, 1),
            ("", 12, 2, 0),
            ("DELETE FROM reading WHERE id = 4", 10, 1, 0),
            ("UPDATE reading SET value = value + 1e-12 WHERE id = 4", 10, 1, 1),
            ("UPDATE reading SET at = '' WHERE id = 10", 9, 0, 1),
            ("INSERT INTO reading VALUES (-1, '', 0)", 10, 0, 1),
        ] {
            assert_eq!(
                verdict_after(sql, acknowledged),
                Verdict { lost, unexpected },
                "{sql} {acknowledged}"
            );
        }
    }
}

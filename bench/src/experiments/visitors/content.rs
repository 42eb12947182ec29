//! The content of the database that visitors come to, and what each must see of it.
//!
//! Every writer of the owner has a counter, which each of its commits raises by one, and notes the number in `done`.
//! Each visitor that inserts has a number of its own. So a commit that is lost, seen too late, or there in part shows.

use super::slots::Slots;
use rusqlite::Connection;
use std::path::Path;

/// The owner's writers: one with a large transaction now and then, one over two databases, one with FTS5.
pub const WRITERS: usize = 3;
/// Commits of a writer that stay in `done`.
const KEPT: u64 = 200;
/// Rows of the large transaction.
const LARGE: u64 = 10_000;

/// Names of the databases in the directory.
pub const DATABASE: &str = "app.db";
pub const SECOND: &str = "second.db";

/// The tables, and a counter for each writer.
pub const TABLES: &str = "BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS counter(writer INTEGER PRIMARY KEY, number INTEGER);
    CREATE TABLE IF NOT EXISTS done(writer INTEGER, number INTEGER, pad, PRIMARY KEY(writer, number));
    CREATE TABLE IF NOT EXISTS large(part INTEGER PRIMARY KEY, number INTEGER, pad);
    CREATE TABLE IF NOT EXISTS visits(id INTEGER PRIMARY KEY, pad);
    CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text);
    INSERT OR IGNORE INTO counter VALUES(0, 0), (1, 0), (2, 0);
    COMMIT";

/// The table of the second database, which is attached as `second`.
pub const SECOND_TABLE: &str = "CREATE TABLE IF NOT EXISTS second.counter(number INTEGER);
    INSERT INTO second.counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM second.counter)";

/// What a reader looks at: one row, in one snapshot.
pub const LOOK: &str = "SELECT (SELECT number FROM counter WHERE writer=0),
    (SELECT number FROM counter WHERE writer=1), (SELECT number FROM counter WHERE writer=2),
    (SELECT count(*) FROM visits), (SELECT count(*) FROM large)";

/// What a reader has seen, or must at least see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The counters of the writers.
    pub numbers: [u64; WRITERS],
    /// How many visitors have inserted.
    pub visits: u64,
    /// Rows of the last large transaction.
    pub large: u64,
}

impl Seen {
    /// The answer of [`LOOK`] as a program prints it, with bars between.
    pub fn parse(line: &str) -> Option<Seen> {
        let numbers: Option<Vec<u64>> = line.trim().split('|').map(|word| word.parse().ok()).collect();
        let [first, second, third, visits, large] = numbers?[..] else { return None };
        Some(Seen { numbers: [first, second, third], visits, large })
    }

    /// Looks at a database.
    pub fn of(db: &Connection) -> rusqlite::Result<Seen> {
        db.prepare_cached(LOOK)?.query_row([], |row| {
            let number = |index| row.get::<_, i64>(index).map(i64::cast_unsigned);
            Ok(Seen { numbers: [number(0)?, number(1)?, number(2)?], visits: number(3)?, large: number(4)? })
        })
    }

    /// What lacks, given that all of `floor` was acknowledged before; nothing where all is there.
    pub fn lacks(&self, floor: &Seen) -> Option<String> {
        let behind = self.numbers.iter().zip(&floor.numbers).any(|(seen, known)| seen < known);
        if behind || self.visits < floor.visits {
            return Some(format!("{self:?} of {floor:?}"));
        }
        (!self.large.is_multiple_of(LARGE))
            .then(|| format!("{} rows of a transaction of {LARGE}", self.large))
    }
}

/// Makes one commit of a writer, which has made `number` of them; the statement that commits is its last.
///
/// # Errors
/// SQLite's, or the counter of the writer where it is not `number`.
pub fn commit(db: &Connection, writer: usize, number: u64, large: bool) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    db.execute_batch("BEGIN IMMEDIATE").map_err(text)?;
    let made = change(db, writer, number, large).and_then(|()| db.execute_batch("COMMIT").map_err(text));
    if made.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK").map_err(text)?;
    }
    made
}

fn change(db: &Connection, writer: usize, number: u64, large: bool) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    let next = number + 1;
    let raise = "UPDATE counter SET number=number+1 WHERE writer=?1 RETURNING number";
    let found: i64 = db
        .prepare_cached(raise)
        .and_then(|mut raise| raise.query_row([writer as i64], |row| row.get(0)))
        .map_err(text)?;
    if found.cast_unsigned() != next {
        return Err(format!("lost: writer {writer} finds {}, {number} was acknowledged", found - 1));
    }
    let old = next.saturating_sub(KEPT);
    let mut sql = format!(
        "INSERT INTO done VALUES({writer}, {next}, randomblob(20 + abs(random() % 300)));
         DELETE FROM done WHERE writer={writer} AND number<={old};"
    );
    if writer == 1 {
        sql += "UPDATE second.counter SET number=number+1;";
    }
    if writer == 2 {
        sql += &format!(
            "INSERT INTO words(rowid, text) VALUES({next}, 'writer two, number {next}');
             DELETE FROM words WHERE rowid<={old};"
        );
    }
    if large {
        sql += &format!(
            "DELETE FROM large;
             WITH RECURSIVE part(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM part WHERE n<{LARGE})
             INSERT INTO large SELECT n, {next}, randomblob(60) FROM part;"
        );
    }
    db.execute_batch(&sql).map_err(text)
}

/// Compares all of a database with what was acknowledged: its numbers, its rows, its indexes. `newest` where nothing can have
/// been committed without an answer.
///
/// # Errors
/// The first difference; it begins with `damaged` where SQLite's own check fails, else with `lost`.
pub fn verify(db: &Connection, slots: &Slots, inserted: &[u64], newest: bool) -> Result<(), String> {
    let text = |error: rusqlite::Error| format!("damaged: {error}");
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
    if verdict != "ok" {
        return Err(format!("damaged: {verdict}"));
    }
    db.execute_batch("INSERT INTO words(words) VALUES('integrity-check')").map_err(text)?;
    let (seen, floor) = (Seen::of(db).map_err(text)?, slots.floor()?);
    if let Some(lacking) = seen.lacks(&floor) {
        return Err(format!("lost: {lacking}"));
    }
    for (writer, number) in seen.numbers.into_iter().enumerate() {
        if newest && number != floor.numbers[writer] {
            return Err(format!("lost: writer {writer} is at {number} of {}", floor.numbers[writer]));
        }
        let sql = "SELECT count(*), min(number), max(number) FROM done WHERE writer=?1";
        let found: [Option<i64>; 3] = db
            .query_row(sql, [writer as i64], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
            .map_err(text)?;
        let first = number.saturating_sub(KEPT) + 1;
        let expected = [number + 1 - first, first, number].map(|number| Some(number.cast_signed()));
        if number > 0 && found != expected {
            return Err(format!("lost: writer {writer} has {found:?} of {expected:?}"));
        }
    }
    let mut find = db.prepare("SELECT 1 FROM visits WHERE id=?1").map_err(text)?;
    for id in inserted {
        if !find.exists([*id as i64]).map_err(text)? {
            return Err(format!("lost: what visitor {id} has inserted"));
        }
    }
    Ok(())
}

/// Compares the second database with the first, which share each transaction of one writer.
///
/// # Errors
/// The difference.
pub fn verify_second(db: &Connection, directory: &Path) -> Result<(), String> {
    let text = |error: rusqlite::Error| format!("damaged: {SECOND}: {error}");
    db.execute("ATTACH ?1 AS second", [directory.join(SECOND).to_string_lossy()]).map_err(text)?;
    let verdict: String =
        db.query_row("PRAGMA second.integrity_check", [], |row| row.get(0)).map_err(text)?;
    let sql = "SELECT (SELECT number FROM counter WHERE writer=1), (SELECT number FROM second.counter)";
    let pair: (i64, i64) = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(text)?;
    match (verdict.as_str(), pair) {
        ("ok", (first, second)) if first == second => Ok(()),
        ("ok", (first, second)) => Err(format!("lost: {second} in {SECOND} of {first}")),
        _ => Err(format!("damaged: {SECOND}: {verdict}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_must_see_what_was_acknowledged_and_large_transactions_as_a_whole() {
        let floor = Seen { numbers: [5, 6, 7], visits: 2, large: 0 };
        for (line, fine) in [
            ("5|6|7|2|0", true),
            ("9|9|9|9|10000\n", true),
            ("4|6|7|2|0", false),
            ("5|6|6|2|0", false),
            ("5|6|7|1|0", false),
            ("5|6|7|2|9999", false),
        ] {
            assert_eq!(Seen::parse(line).unwrap().lacks(&floor).is_none(), fine, "{line}");
        }
        for wrong in ["", "5|6|7|2", "5|6|7|2|0|1", "5|6|x|2|0", "||||"] {
            assert_eq!(Seen::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn commits_that_are_missing_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let slots = Slots::open(directory.path()).unwrap();
        let db = crate::harness::open_stock(&directory.path().join(DATABASE)).unwrap();
        db.execute("ATTACH ?1 AS second", [directory.path().join(SECOND).to_str().unwrap()]).unwrap();
        db.execute_batch(&format!("PRAGMA synchronous=OFF; {TABLES}; {SECOND_TABLE}")).unwrap();
        for writer in 0..WRITERS {
            for number in 0..KEPT + 3 {
                commit(&db, writer, number, writer == 0 && number == 3).unwrap();
                slots.set(writer, number + 1).unwrap();
            }
        }
        db.execute_batch("INSERT INTO visits VALUES(4, 'x'); DETACH second").unwrap();
        slots.set_visits(1).unwrap();
        assert_eq!(verify(&db, &slots, &[4], true), Ok(()));
        assert_eq!(verify_second(&db, directory.path()), Ok(()));
        assert!(commit(&db, 0, 7, false).unwrap_err().starts_with("lost: writer 0"));
        assert!(verify(&db, &slots, &[4, 5], true).unwrap_err().contains("visitor 5"));
        for (change, what) in [
            ("DELETE FROM done WHERE number=100 AND writer=1", "lost: writer 1"),
            ("UPDATE counter SET number=number-1 WHERE writer=2", "lost: Seen"),
            ("DELETE FROM visits", "lost: Seen"),
            ("DELETE FROM large WHERE part=7", "lost: 9999 rows"),
        ] {
            db.execute_batch(&format!("SAVEPOINT s; {change}")).unwrap();
            let said = verify(&db, &slots, &[], true).unwrap_err();
            assert!(said.starts_with(what), "{change}: {said}");
            db.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
        }
        slots.set(0, KEPT + 2).unwrap();
        assert!(verify(&db, &slots, &[], true).is_err());
        assert_eq!(verify(&db, &slots, &[], false), Ok(()));
    }
}

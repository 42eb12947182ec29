//! The process that is killed at one of its calls: an application that does what it is told, line by line, and answers.
//!
//! | line | answer |
//! |---|---|
//! | `commit` | the number of the commit that was made |
//! | `read` | `reads`: the second connection is in a transaction that reads |
//! | `read on` | `has read`: nothing has moved in it, and it is over |
//! | `reopen` | `rested`: both connections were closed, and others look at the database |
//!
//! Its first line is `ready`. An error is a line that begins with `error`, and the end.
//!
//! Commit n puts row n into a table with an index, and n into a counter. Each fourth also replaces [`LARGE`] rows.

use super::super::content::DATABASE;
use litefoot::{Options, Vfs};
use rusqlite::Connection;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

/// Rows of the large transactions, and how many commits have one.
const LARGE: u64 = 300;
const LARGE_IN: u64 = 4;
/// As an application's: longer than any other holds a lock.
const PATIENCE: Duration = Duration::from_secs(10);

const TABLES: &str = "BEGIN IMMEDIATE;
    CREATE TABLE t(number INTEGER PRIMARY KEY, pad);
    CREATE INDEX t_pad ON t(pad);
    CREATE TABLE counter(number INTEGER);
    CREATE TABLE large(part INTEGER PRIMARY KEY, number INTEGER, pad);
    CREATE TABLE visits(id INTEGER PRIMARY KEY);
    INSERT INTO counter VALUES(0);
    COMMIT";

/// Runs the process.
///
/// # Errors
/// The message for standard error.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let [directory, journal, commit_log] = arguments else { return Err("three arguments".to_owned()) };
    let path = Path::new(directory).join(DATABASE);
    let mut options = Options::default();
    options.set("commit_log", commit_log)?;
    let vfs = Vfs::builder("called").options(options).register().map_err(|error| error.to_string())?;
    let text = |error: std::io::Error| error.to_string();
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut answer = |line: &str| {
        output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush()).map_err(text)
    };
    let served = serve(&vfs, &path, journal, input, &mut answer);
    match &served {
        Ok(()) => Ok(()),
        Err(why) => answer(&format!("error {}", why.replace('\n', " "))),
    }
}

fn serve(
    vfs: &Vfs,
    path: &Path,
    journal: &str,
    input: impl BufRead,
    answer: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let (mut writer, mut reader) = (open(vfs, path)?, open(vfs, path)?);
    writer
        .execute_batch(&format!("PRAGMA journal_mode={journal}; {TABLES}"))
        .map_err(|error| error.to_string())?;
    let (mut number, mut snapshot) = (0, 0);
    answer("ready")?;
    for line in input.lines() {
        match line.map_err(|error| error.to_string())?.as_str() {
            "commit" => {
                number += 1;
                commit(&writer, number).map_err(|error| format!("commit {number}: {error}"))?;
                if reader.is_autocommit() {
                    look(&reader, number, number)?;
                }
                answer(&number.to_string())?;
            }
            "read" => {
                reader.execute_batch("BEGIN").map_err(|error| error.to_string())?;
                look(&reader, number, number)?;
                snapshot = number;
                answer("reads")?;
            }
            "read on" => {
                look(&reader, snapshot, snapshot).map_err(|what| format!("a snapshot moved: {what}"))?;
                reader.execute_batch("COMMIT").map_err(|error| error.to_string())?;
                answer("has read")?;
            }
            _ => {
                drop((writer, reader));
                (writer, reader) = (open(vfs, path)?, open(vfs, path)?);
                for db in [&writer, &reader] {
                    db.execute_batch(&format!("PRAGMA main.journal_mode={journal}"))
                        .map_err(|error| error.to_string())?;
                    look(db, number, number)?;
                }
                answer("rested")?;
            }
        }
    }
    Ok(())
}

fn open(vfs: &Vfs, path: &Path) -> Result<Connection, String> {
    let db = vfs.open(path).map_err(|error| error.to_string())?;
    db.busy_timeout(PATIENCE)
        .and_then(|()| db.execute_batch("PRAGMA synchronous=FULL; PRAGMA cache_size=20"))
        .map_err(|error| error.to_string())?;
    Ok(db)
}

fn commit(db: &Connection, number: u64) -> rusqlite::Result<()> {
    let large = if number.is_multiple_of(LARGE_IN) {
        format!(
            "DELETE FROM large;
             WITH RECURSIVE part(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM part WHERE n<{LARGE})
             INSERT INTO large SELECT n, {number}, randomblob(60) FROM part;"
        )
    } else {
        String::new()
    };
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE; INSERT INTO t VALUES({number}, randomblob(200)); UPDATE counter SET number={number}; {large} COMMIT"
    ))
}

/// Looks for all commits up to the one of that number; one that was under way may be there, too.
///
/// # Errors
/// The first difference; it begins with `damaged` where SQLite's own check fails, else with `lost`.
pub fn look(db: &Connection, acknowledged: u64, begun: u64) -> Result<(), String> {
    let text = |error: rusqlite::Error| format!("damaged: {error}");
    let sql = "SELECT counter.number, (SELECT count(*) FROM t), (SELECT coalesce(max(number), 0) FROM t),
        (SELECT count(*) FROM large), (SELECT coalesce(min(number), 0) FROM large),
        (SELECT coalesce(max(number), 0) FROM large) FROM counter";
    let found: [i64; 6] = db
        .query_row(sql, [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
        })
        .map_err(text)?;
    let found = found.map(i64::cast_unsigned);
    let number = found[0];
    if number < acknowledged || number > begun {
        return Err(format!("lost: commit {number} is the newest of {acknowledged} acknowledged"));
    }
    let large = number - number % LARGE_IN;
    let expected = [number, number, number, if large == 0 { 0 } else { LARGE }, large, large];
    if found == expected { Ok(()) } else { Err(format!("damaged: {found:?} is there of {expected:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::open_stock;

    #[test]
    fn a_commit_that_is_missing_or_there_in_part_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let db = open_stock(&directory.path().join(DATABASE)).unwrap();
        db.execute_batch(TABLES).unwrap();
        look(&db, 0, 0).unwrap();
        for number in 1..=9 {
            commit(&db, number).unwrap();
            look(&db, number, number).unwrap();
        }
        look(&db, 8, 9).unwrap();
        for (acknowledged, begun) in [(10, 10), (7, 8)] {
            assert!(look(&db, acknowledged, begun).unwrap_err().starts_with("lost"));
        }
        for change in
            ["DELETE FROM t WHERE number=4", "DELETE FROM large WHERE part=4", "UPDATE large SET number=4"]
        {
            db.execute_batch(&format!("SAVEPOINT s; {change}")).unwrap();
            assert!(look(&db, 9, 9).unwrap_err().starts_with("damaged"), "{change}");
            db.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
        }
    }
}

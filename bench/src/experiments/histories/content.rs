//! The content of a database, of which each commit tells whether it is there, and whether it is whole.
//!
//! Every commit has a token that no other has. It notes its token, and the token before it, in `done` or in `other`.
//! A commit in `done` has rows in r, which stay until [`KEPT`] commits came after it, and one of the rows of v.

use rusqlite::{Connection, OptionalExtension};

/// Commits whose rows stay.
const KEPT: usize = 6;
/// Rows of v.
const CELLS: u64 = 7;
/// One part in so many is compared byte by byte.
const COMPARED: u64 = 40;

/// Makes the tables.
pub const TABLES: &str = "BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS done(seq INTEGER PRIMARY KEY, token INTEGER UNIQUE, previous INTEGER, parts INTEGER);
    CREATE TABLE IF NOT EXISTS other(seq INTEGER PRIMARY KEY, token INTEGER UNIQUE, previous INTEGER);
    CREATE TABLE IF NOT EXISTS r(token INTEGER, part INTEGER, pad BLOB);
    CREATE INDEX IF NOT EXISTS r_by ON r(token, part);
    CREATE TABLE IF NOT EXISTS v(cell INTEGER PRIMARY KEY, token INTEGER);
    COMMIT";

const ALL: &str = "SELECT seq, token, previous, parts FROM done UNION ALL SELECT seq, token, previous, NULL FROM other ORDER BY seq";

/// The table of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Done,
    Other,
}

/// The number of rows of a commit.
fn parts(token: u64) -> u64 {
    match token {
        token if token % 53 == 52 => 300,
        token if token % 13 == 12 => 90,
        token => 1 + token % 3,
    }
}

fn pad(token: u64, part: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(token << 16 | part);
    let bytes = random.usize(..250);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// Makes one commit.
pub fn commit(db: &Connection, token: u64, table: Table) -> rusqlite::Result<()> {
    db.execute_batch("BEGIN IMMEDIATE")?;
    let made = change(db, token, table).and_then(|()| db.execute_batch("COMMIT"));
    if made.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    made
}

fn change(db: &Connection, token: u64, table: Table) -> rusqlite::Result<()> {
    let last = format!("SELECT seq, token FROM ({ALL}) ORDER BY seq DESC LIMIT 1");
    let last: Option<(i64, i64)> =
        db.prepare_cached(&last)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (seq, previous) = last.unwrap_or_default();
    if table == Table::Other {
        db.prepare_cached("INSERT INTO other VALUES(?1, ?2, ?3)")?.execute((
            seq + 1,
            token as i64,
            previous,
        ))?;
        return Ok(());
    }
    let count = parts(token);
    db.prepare_cached("INSERT INTO done VALUES(?1, ?2, ?3, ?4)")?.execute((
        seq + 1,
        token as i64,
        previous,
        count as i64,
    ))?;
    let mut insert = db.prepare_cached("INSERT INTO r VALUES(?1, ?2, ?3)")?;
    for part in 0..count {
        insert.execute((token as i64, part as i64, pad(token, part)))?;
    }
    let old = "DELETE FROM r WHERE token = (SELECT token FROM done ORDER BY seq DESC LIMIT 1 OFFSET ?1)";
    db.prepare_cached(old)?.execute([KEPT as i64])?;
    db.prepare_cached("INSERT OR REPLACE INTO v VALUES(?1, ?2)")?
        .execute(((token % CELLS) as i64, token as i64))?;
    Ok(())
}

/// The tokens of all commits, in order.
///
/// # Errors
/// The first thing that is damaged, torn, or not what its commit wrote.
pub fn look(db: &Connection) -> Result<Vec<u64>, String> {
    let sqlite = |error: rusqlite::Error| format!("not readable: {error}");
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(sqlite)?;
    if integrity != "ok" {
        return Err(format!("damaged: {integrity}"));
    }
    // One moment: another process may write meanwhile. A caller's transaction is one already.
    let _moment = db.is_autocommit().then(|| db.unchecked_transaction()).transpose().map_err(sqlite)?;
    let tables: i64 = db
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('done', 'other', 'r', 'v')",
            [],
            |row| row.get(0),
        )
        .map_err(sqlite)?;
    match tables {
        0 => return Ok(Vec::new()),
        4 => {}
        some => return Err(format!("torn: {some} of four tables")),
    }
    let mut statement = db.prepare(ALL).map_err(sqlite)?;
    let rows: Vec<(i64, i64, i64, Option<i64>)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .and_then(Iterator::collect)
        .map_err(sqlite)?;
    let mut before = 0;
    for (place, (seq, token, previous, _)) in rows.iter().enumerate() {
        if *seq != place as i64 + 1 || *previous != before {
            return Err(format!(
                "torn: commit {token} at {seq} follows {previous}, and {before} is before it"
            ));
        }
        before = *token;
    }
    let done: Vec<u64> = rows.iter().filter(|row| row.3.is_some()).map(|row| row.1 as u64).collect();
    rows_of(db, &done)?;
    cells(db, &done)?;
    Ok(rows.iter().map(|row| row.1 as u64).collect())
}

fn rows_of(db: &Connection, done: &[u64]) -> Result<(), String> {
    let sqlite = |error: rusqlite::Error| format!("not readable: {error}");
    let kept = &done[done.len().saturating_sub(KEPT)..];
    let all: i64 = db.query_row("SELECT count(*) FROM r", [], |row| row.get(0)).map_err(sqlite)?;
    let expected: u64 = kept.iter().map(|token| parts(*token)).sum();
    if all as u64 != expected {
        return Err(format!("torn: {all} rows instead of {expected}"));
    }
    let mut statement = db.prepare("SELECT part, pad FROM r WHERE token=?1 ORDER BY part").map_err(sqlite)?;
    for token in kept {
        let found: Vec<(i64, Vec<u8>)> = statement
            .query_map([*token as i64], |row| Ok((row.get(0)?, row.get(1)?)))
            .and_then(Iterator::collect)
            .map_err(sqlite)?;
        let whole = found.len() as u64 == parts(*token)
            && found.iter().enumerate().all(|(place, (part, bytes))| {
                let place = place as u64;
                *part as u64 == place && (!place.is_multiple_of(COMPARED) || *bytes == pad(*token, place))
            });
        if !whole {
            return Err(format!("torn: the rows of commit {token}"));
        }
    }
    Ok(())
}

fn cells(db: &Connection, done: &[u64]) -> Result<(), String> {
    let sqlite = |error: rusqlite::Error| format!("not readable: {error}");
    let mut statement = db.prepare("SELECT cell, token FROM v").map_err(sqlite)?;
    let found: Vec<(i64, i64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(sqlite)?;
    let newest = |cell| {
        done.iter().rev().find(|token| *token % CELLS == cell).map(|token| (cell as i64, *token as i64))
    };
    let expected: Vec<(i64, i64)> = (0..CELLS).filter_map(newest).collect();
    if found == expected { Ok(()) } else { Err(format!("torn: {found:?} instead of {expected:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_found_in_order_and_what_is_torn_is_seen() {
        let db = Connection::open_in_memory().unwrap();
        assert_eq!(look(&db).unwrap(), [0_u64; 0]);
        db.execute_batch(TABLES).unwrap();
        let tokens: Vec<u64> = (40..60).collect();
        for token in &tokens {
            commit(&db, *token, if token % 5 == 0 { Table::Other } else { Table::Done }).unwrap();
        }
        assert_eq!(look(&db).unwrap(), tokens);
        for (damage, what) in [
            ("DELETE FROM other WHERE token=45", "follows"),
            ("DELETE FROM r WHERE token=57 AND part=0", "rows instead of"),
            ("UPDATE r SET pad = x'00' WHERE token=57", "the rows of commit 57"),
            ("UPDATE v SET token=1 WHERE cell=3", "instead of"),
            ("DROP TABLE v", "of four tables"),
        ] {
            db.execute_batch("SAVEPOINT s").unwrap();
            db.execute_batch(damage).unwrap();
            let error = look(&db).unwrap_err();
            assert!(error.contains(what), "{damage}: {error}");
            db.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
        }
    }
}

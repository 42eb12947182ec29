//! Is everything in PostgreSQL, once and in order? The rows of a database against those of its source, and the numbers of its batches.

use super::application::{self, Workload};
use super::server::Server;
use super::shipper::Shipping;
use super::{failed, sqlite};
use crate::harness::open_stock;
use crate::{Error, Result};
use std::path::Path;

/// Makes PostgreSQL note each position that any source has had, in the transaction that moves it.
const NOTE: &str = "CREATE TABLE IF NOT EXISTS noted(source uuid, seq bigint);
    CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO noted VALUES (NEW.source, NEW.seq); RETURN NULL; END';
    CREATE OR REPLACE TRIGGER note AFTER INSERT OR UPDATE ON litefoot.source FOR EACH ROW EXECUTE FUNCTION note()";

/// What a comparison has come to.
pub(super) struct Compared {
    pub rows: u64,
    pub batches: u64,
    pub wrong: Vec<String>,
}

/// Compares a database that nobody writes with what has arrived of it.
pub(super) fn compare(server: &Server, database: &Path, source: &str) -> Result<Compared> {
    let expected = rows_of(database).map_err(|error| sqlite(database, error))?;
    let found = rows_at(server, source)?;
    let mut wrong: Vec<String> = difference(&expected, &found).into_iter().collect();
    let noted =
        server.rows(&format!("SELECT seq::text FROM noted WHERE source = '{source}' ORDER BY noted.seq"))?;
    let all: Vec<String> = (1..=noted.len()).map(|number| number.to_string()).collect();
    if noted != all || noted.is_empty() {
        wrong.push(format!("the batches that have arrived: {noted:?}"));
    }
    Ok(Compared { rows: found.len() as u64, batches: noted.len() as u64, wrong })
}

/// The batches of a history: how many are one transaction, and what is wrong. Each transaction of the application counts a number up by one.
pub(super) fn compare_history(server: &Server, source: &str) -> Result<(u64, Vec<String>)> {
    let batches = server.rows(&format!(
        "SELECT concat_ws(' ', seq, transactions, op, row->>'n') FROM litefoot.history WHERE source = '{source}'
           AND (op = 'whole' OR (name = 'item' AND rowid = 0 AND op IN ('insert', 'update'))) ORDER BY epoch, litefoot.history.seq"
    ))?;
    Ok(check_history(&batches))
}

fn check_history(batches: &[String]) -> (u64, Vec<String>) {
    let (mut last, mut ones, mut wrong) = (None, 0, Vec::new());
    for batch in batches {
        let words: Vec<&str> = batch.split(' ').collect();
        let count = words.get(3).and_then(|word| word.parse::<i64>().ok());
        ones += u64::from(words.get(1) == Some(&"one"));
        let is_right = match (words.get(1), last, count) {
            (Some(&"one"), Some(last), Some(count)) => count == last + 1,
            (Some(&"several"), Some(last), Some(count)) => count >= last,
            (_, _, count) => count.is_some() || words.get(2) == Some(&"whole"),
        };
        if !is_right {
            wrong.push(format!("the history: behind {last:?} comes {batch:?}"));
        }
        last = count;
    }
    (ones, wrong)
}

/// Has the schema made, by a look at a database of its own, and its positions noted.
pub(super) fn prepare(server: &Server, parent: &Path) -> Result<()> {
    let exists = server.rows("SELECT coalesce(to_regclass('public.noted')::text, '')")?;
    if exists != [""] {
        return Ok(());
    }
    let scratch = tempfile::tempdir_in(parent).map_err(|error| failed(parent, error))?;
    let database = scratch.path().join("first.db");
    application::create(&database, Workload::Mixed, "wal").map_err(|error| sqlite(&database, error))?;
    let shipping = Shipping::new(scratch.path())?;
    shipping.add(&database, &server.url(server.port), "1s", "job")?;
    shipping.once()?;
    server.ask(async |client| client.batch_execute(NOTE).await)
}

/// The source of the only job, as PostgreSQL has it.
pub(super) fn source_of(directory: &Path) -> Result<String> {
    let path = directory.join("ship/ship.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
    let node = text.lines().find_map(|line| line.strip_prefix("node = \"")?.strip_suffix('"'));
    let node = node.filter(|node| node.len() == 16 && node.is_ascii());
    let node = node.ok_or_else(|| Error::Wrong(format!("{}: it has no node", path.display())))?;
    Ok(format!("00000000-0000-0000-{}-{}", &node[..4], &node[4..]))
}

/// The rows of the database, as text, in order.
fn rows_of(database: &Path) -> rusqlite::Result<Vec<String>> {
    let database = open_stock(database)?;
    let mut rows = Vec::new();
    for select in [
        "SELECT 'item|' || id || '|' || coalesce(n, '') || '|' || coalesce(text, '') || '|' || lower(hex(data)) FROM item",
        "SELECT 'tag|' || k || '|' || coalesce(v, '') FROM tag",
    ] {
        let mut statement = database.prepare(select)?;
        let found = statement.query_map([], |row| row.get::<_, String>(0))?;
        found.into_iter().try_for_each(|row| {
            rows.push(row?);
            Ok::<(), rusqlite::Error>(())
        })?;
    }
    rows.sort();
    Ok(rows)
}

/// The rows of a source in PostgreSQL, in the same form.
fn rows_at(server: &Server, source: &str) -> Result<Vec<String>> {
    let item = format!(
        "SELECT 'item|' || _rowid || '|' || coalesce(n::text, '') || '|' || coalesce(text, '') || '|'
           || coalesce(encode(data, 'hex'), '') || coalesce(_misfit::text, '') FROM public.item WHERE _source = '{source}'"
    );
    let tag = format!(
        "SELECT 'tag|' || k || '|' || coalesce(v::text, '') || coalesce(_misfit::text, '') FROM public.tag WHERE _source = '{source}'"
    );
    let mut rows = server.rows(&item)?;
    rows.extend(server.rows(&tag)?);
    rows.sort();
    Ok(rows)
}

/// The first difference.
fn difference(expected: &[String], found: &[String]) -> Option<String> {
    if expected == found {
        return None;
    }
    let short = |row: Option<&String>| row.map_or_else(String::new, |row| row.chars().take(60).collect());
    let missing = expected.iter().find(|row| found.binary_search(row).is_err());
    let surplus = found.iter().find(|row| expected.binary_search(row).is_err());
    Some(format!(
        "{} rows in the database, {} in PostgreSQL; missing: {}; surplus: {}",
        expected.len(),
        found.len(),
        short(missing),
        short(surplus)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told() {
        let rows = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(difference(&rows(&["a", "b"]), &rows(&["a", "b"])), None);
        for (found, part) in
            [(&["a"][..], "missing: b"), (&["a", "b", "c"], "surplus: c"), (&["a", "b", "b"], "3 in")]
        {
            let told = difference(&rows(&["a", "b"]), &rows(found)).unwrap();
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn a_transaction_that_is_left_out_of_a_history_is_noticed() {
        let told = |lines: &[&str]| {
            let (ones, wrong) =
                check_history(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
            (ones, wrong.len())
        };
        assert_eq!(
            told(&["1 several whole", "2 one update 7", "3 one update 8", "4 several update 11"]),
            (2, 0)
        );
        assert_eq!(told(&["2 one update 7", "3 one update 9"]), (2, 1));
        assert_eq!(told(&["2 one update 7", "3 one update 7", "4 several update 6", "5 one update"]), (3, 3));
    }

    #[test]
    fn the_source_is_that_of_the_job() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("ship")).unwrap();
        let write = |text| std::fs::write(directory.path().join("ship/ship.toml"), text).unwrap();
        write("[[job]]\nname = \"job\"\nnode = \"0123456789abcdef\"\n");
        assert_eq!(source_of(directory.path()).unwrap(), "00000000-0000-0000-0123-456789abcdef");
        write("[[job]]\n");
        assert!(source_of(directory.path()).is_err());
    }
}

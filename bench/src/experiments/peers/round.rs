//! One round of one store: small durable commits, and reads.
//!
//! This file is part of two programs: of litefoot's, for SQLite and litefoot, and of `litefoot-peers` (`bench/peers`),
//! for the stores beside them. So all of them get the same rows in the same order, and are timed by the same lines.
//!
//! # What a store is given
//! Rows under the ids 1, 2, 3 …: a text of 100 bytes, an integer and a double, as in `bench commit`. Beside the rows a
//! store keeps an index by the integer. SQLite does so by `CREATE INDEX`, the others by a second tree whose keys are
//! integer and id. A commit is one transaction over both, durable when it returns.
//!
//! # What is checked
//! After the commits the store is closed, opened again, and must hold every row, to the bit.

use super::values::{TEXT_BYTES, Values};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// A row by its id, for stores that are asked in SQL.
pub const GET: &str = "SELECT id, body, number, value FROM item WHERE id = ?1";
/// All rows in the order of their ids.
pub const SCAN: &str = "SELECT id, body, number, value FROM item ORDER BY id";

/// Why a round has no result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Result of a part of a round.
pub type Outcome<T> = Result<T, Failure>;
/// Opens the store in a directory, and makes it where there is none.
pub type Open<'a> = dyn Fn(&Path) -> Outcome<Box<dyn Store>> + 'a;

/// How much of everything.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// Commits of one row each.
    pub commits: u64,
    /// Rows that the reads find, stored in one transaction.
    pub rows: u64,
    /// Reads of one row each, in random order.
    pub reads: u64,
    /// The seed of everything random.
    pub seed: u64,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its id.
    pub id: i64,
    /// A text of [`TEXT_BYTES`].
    pub text: String,
    /// The indexed value.
    pub number: i64,
    /// A double.
    pub value: f64,
}

/// A row where the store has it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Its id.
    pub id: i64,
    /// Its text.
    pub text: &'a [u8],
    /// The indexed value.
    pub number: i64,
    /// Its double.
    pub value: f64,
}

/// A store with rows and their index.
pub trait Store {
    /// Stores rows in one transaction, which is durable afterwards.
    fn commit(&mut self, rows: &[Row]) -> Outcome<()>;
    /// Shows one row, in a transaction of its own.
    fn get(&mut self, id: i64, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()>;
    /// Shows all rows, in the order of their ids.
    fn scan(&mut self, show: &mut dyn FnMut(Found<'_>)) -> Outcome<()>;
    /// Closes it: mostly by letting go of it.
    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(())
    }
}

/// Resources spent up to a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Syncs of files and directories.
    pub syncs: u64,
    /// Bytes of the blocks of 4 KiB handed to the device, each once between two syncs of a file.
    pub bytes: u64,
}

/// The figures of a round.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Round {
    /// Each commit.
    pub commit_ns: Vec<u64>,
    /// Closing afterwards.
    pub close_ns: u64,
    /// Syncs of the commits, closing included.
    pub syncs: u64,
    /// Bytes of the commits, closing included.
    pub bytes: u64,
    /// All single reads.
    pub reads_ns: u64,
    /// One scan of all rows.
    pub scan_ns: u64,
}

/// Runs a round in an empty directory.
pub fn run(plan: &Plan, directory: &Path, open: &Open<'_>, spent: &dyn Fn() -> Spent) -> Outcome<Round> {
    let mut round = write(plan, &directory.join("commits"), open, spent)?;
    (round.reads_ns, round.scan_ns) = read(plan, &directory.join("reads"), open)?;
    Ok(round)
}

/// The commits alone.
pub fn write(plan: &Plan, directory: &Path, open: &Open<'_>, spent: &dyn Fn() -> Spent) -> Outcome<Round> {
    std::fs::create_dir(directory)?;
    let mut store = open(directory)?;
    let rows: Vec<Row> = rows(plan.seed, plan.commits).collect();
    let before = spent();
    let mut commit_ns = Vec::with_capacity(rows.len());
    for row in &rows {
        let begun = Instant::now();
        store.commit(std::slice::from_ref(row))?;
        commit_ns.push(nanoseconds(begun));
    }
    let begun = Instant::now();
    store.close()?;
    let close_ns = nanoseconds(begun);
    let after = spent();
    let mut store = open(directory)?;
    verify(store.as_mut(), plan.seed, plan.commits)?;
    store.close()?;
    std::fs::remove_dir_all(directory)?;
    let (syncs, bytes) = (after.syncs - before.syncs, after.bytes - before.bytes);
    Ok(Round { commit_ns, close_ns, syncs, bytes, reads_ns: 0, scan_ns: 0 })
}

/// Single reads and a scan, in nanoseconds, of what has been read once before.
fn read(plan: &Plan, directory: &Path, open: &Open<'_>) -> Outcome<(u64, u64)> {
    std::fs::create_dir(directory)?;
    let mut store = open(directory)?;
    store.commit(&rows(plan.seed, plan.rows).collect::<Vec<Row>>())?;
    store.close()?;
    let mut store = open(directory)?;
    verify(store.as_mut(), plan.seed, plan.rows)?;
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let ids: Vec<i64> = (0..plan.reads).map(|_| 1 + random.i64(0..plan.rows as i64)).collect();
    let mut sum = 0;
    let begun = Instant::now();
    for id in &ids {
        store.get(*id, &mut |found| sum += weight(found) * u64::from(found.id == *id))?;
    }
    let reads_ns = nanoseconds(begun);
    expect(sum, plan.reads, "single reads")?;
    let mut sum = 0;
    let begun = Instant::now();
    store.scan(&mut |found| sum += weight(found))?;
    let scan_ns = nanoseconds(begun);
    expect(sum, plan.rows, "a scan")?;
    store.close()?;
    std::fs::remove_dir_all(directory)?;
    Ok((reads_ns, scan_ns))
}

/// The rows of a seed.
pub fn rows(seed: u64, count: u64) -> impl Iterator<Item = Row> {
    let mut values = Values::new(seed);
    (1..=count as i64).map(move |id| {
        let (text, number, value) = (values.text(), values.number(), values.value());
        Row { id, text, number, value }
    })
}

/// Looks at all of a row; 1 where it is as long as it must be.
fn weight(found: Found<'_>) -> u64 {
    let seen = std::hint::black_box((found.text.last(), found.number, found.value));
    u64::from(seen.0.is_some() && found.text.len() == TEXT_BYTES)
}

fn expect(found: u64, expected: u64, what: &str) -> Outcome<()> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found} rows of {expected}").into()) }
}

/// Every row must be there, as it was stored.
fn verify(store: &mut dyn Store, seed: u64, count: u64) -> Outcome<()> {
    let mut expected = rows(seed, count);
    let (mut seen, mut wrong) = (0, None);
    store.scan(&mut |found| {
        seen += 1;
        let good = expected.next().is_some_and(|row| {
            let numbers = (found.id, found.number, found.value.to_bits());
            numbers == (row.id, row.number, row.value.to_bits()) && found.text == row.text.as_bytes()
        });
        if !good {
            wrong.get_or_insert(found.id);
        }
    })?;
    match wrong {
        Some(id) => Err(format!("the row {id} is not as it was stored").into()),
        None => expect(seen, count, "opened again"),
    }
}

fn nanoseconds(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

//! The page store itself: allocating, changing, rolling back, releasing, checkpoints and recovery, and SQLite doing the same.
//!
//! A page of the store is a row of SQLite's with a BLOB as long, one to a page. Both have the same memory, which holds all pages.
//! Every step but the rolled back ones ends durable: the store by one checkpoint, SQLite by one commit in WAL mode at FULL. A
//! transaction of the store is a savepoint of SQLite's.

use super::files::{Files, ms, timed};
use super::interrupted::Interruptible;
use crate::experiments::commit::remove_database;
use crate::harness::{Progress, interleave, median, median_ratio, open_stock};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_pagestore::store::{Database, Options};
use litefoot_storage::file::Medium;
use litefoot_storage::io::{IoConfig, IoQueue};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PAGE_BYTES: usize = 4096;
/// Bytes that are stored in a page: with SQLite's own few, a row fills a page of its and overflows none.
const CONTENT_BYTES: usize = 4000;
/// Pages of a transaction.
const TRANSACTION_PAGES: usize = 4;
/// One page in so many is changed, and one in so many is released.
const CHANGED_SHARE: u64 = 4;
const RELEASED_SHARE: u64 = 8;

const SIDES: [&str; 2] = ["litefoot", "sqlite"];
/// The steps, by the names of their figures.
const STEPS: [&str; 6] = [
    "store_alloc_us",
    "store_change_us",
    "store_checkpoint_ms",
    "store_roll_back_us",
    "store_release_us",
    "store_recovery_ms",
];

/// The work of one round, the same for both sides.
pub(super) struct Plan {
    pages: u64,
    /// Pages to change, in transactions of [`TRANSACTION_PAGES`]; pages have the numbers from 1.
    changed: Vec<u64>,
    rolled_back: Vec<u64>,
    changed_again: Vec<u64>,
    released: Vec<u64>,
}

impl Plan {
    pub fn new(pages: u64, seed: u64) -> Plan {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut some = |share: u64| -> Vec<u64> {
            let mut all: Vec<u64> = (1..=pages).collect();
            random.shuffle(&mut all);
            all.truncate((pages / share) as usize / TRANSACTION_PAGES * TRANSACTION_PAGES);
            all
        };
        let (changed, rolled_back) = (some(CHANGED_SHARE), some(CHANGED_SHARE));
        let (changed_again, released) = (some(CHANGED_SHARE), some(RELEASED_SHARE));
        let changed_again =
            changed_again.into_iter().filter(|page| !released.contains(page)).collect::<Vec<_>>();
        Plan { pages, changed, rolled_back, changed_again, released }
    }

    /// What must be found in the end: the sum of the values of the pages that are left.
    pub fn expected(&self) -> u64 {
        let mut values: Vec<u64> = (0..=self.pages).collect();
        self.changed.iter().for_each(|page| values[*page as usize] = page + CHANGED);
        self.changed_again.iter().for_each(|page| values[*page as usize] = page + CHANGED_AGAIN);
        self.released.iter().for_each(|page| values[*page as usize] = 0);
        values.iter().sum()
    }
}

/// How long each step of a round took.
pub(super) struct Times {
    alloc: Duration,
    /// The changes, before they are durable.
    changed: Duration,
    checkpoint: Duration,
    roll_back: Duration,
    release: Duration,
    recovery: Duration,
}

impl Times {
    /// The figures of the steps, in the order and the units of [`STEPS`].
    fn steps(&self, plan: &Plan) -> [f64; STEPS.len()] {
        let us_each = |time: Duration, count: usize| time.as_secs_f64() * 1e6 / count.max(1) as f64;
        [
            us_each(self.alloc, plan.pages as usize),
            us_each(self.changed + self.checkpoint, plan.changed.len()),
            ms(self.checkpoint),
            us_each(self.roll_back, plan.rolled_back.len() / TRANSACTION_PAGES),
            us_each(self.release, plan.released.len()),
            ms(self.recovery),
        ]
    }
}

/// The values of pages: their numbers, and more where they were changed.
const CHANGED: u64 = 1_000_000;
const CHANGED_AGAIN: u64 = 2_000_000;
const ROLLED_BACK: u64 = 3_000_000;

fn content(value: u64) -> [u8; CONTENT_BYTES] {
    let mut bytes = [0x5a; CONTENT_BYTES];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn value_of(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

pub fn run(files: &Files<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    let plan = Plan::new(files.sizes.cold_bytes / PAGE_BYTES as u64, files.seed);
    progress.begin("the page store", (files.sizes.rounds * SIDES.len()) as u64);
    let rounds = interleave(&SIDES, files.sizes.rounds, |_, side| {
        progress.advance(1)?;
        let (times, found) = match *side {
            "sqlite" => sqlite(files.directory, &plan)?,
            _ => store(files.directory, &plan)?,
        };
        match found == plan.expected() {
            true => Ok(times.steps(&plan)),
            false => Err(Error::Wrong(format!("{side} holds pages worth {found}, not {}", plan.expected()))),
        }
    })?;
    for (step, name) in STEPS.iter().enumerate() {
        let of = |side: usize| rounds[side].iter().map(|steps| steps[step]).collect::<Vec<f64>>();
        for (side, label) in SIDES.iter().enumerate() {
            figures.set(format!("{name}.{label}"), median(of(side)));
        }
        let step = name.rsplit_once('_').map_or(*name, |(step, _)| step);
        figures.set(format!("ratio.{step}_over_sqlite"), median_ratio(&of(1), &of(0)));
    }
    Ok(())
}

/// The memory of both sides: all pages, and as much again, so that neither writes before it is told to.
fn memory(plan: &Plan) -> usize {
    2 * plan.pages as usize * PAGE_BYTES
}

/// The store's side.
pub(super) fn store(directory: &Path, plan: &Plan) -> Result<(Times, u64)> {
    let (path, crashed) = (&directory.join("steps.store"), &directory.join("crashed.store"));
    let interruptible = Arc::new(Interruptible::default());
    let medium: Arc<dyn Medium> = interruptible.clone();
    let open = |medium: &Arc<dyn Medium>, path: &Path| -> Result<Database> {
        let io = Arc::new(IoQueue::start(&IoConfig::default())?);
        Ok(Database::open(medium, path, io, &Options { pool_bytes: memory(plan), ..Options::default() })?)
    };
    Database::remove(&*medium, path)?;
    Database::create(&medium, path, PAGE_BYTES)?;
    let database = open(&medium, path)?;
    // The store keeps some numbers for its table, so that a page of the plan may have another there.
    let mut numbers = Vec::with_capacity(plan.pages as usize);
    let (_, alloc) = timed(|| {
        for first in (1..=plan.pages).step_by(TRANSACTION_PAGES) {
            let unit = database.unit()?;
            for value in first..=plan.pages.min(first + TRANSACTION_PAGES as u64 - 1) {
                let (page, mut bytes) = unit.alloc()?;
                bytes[..CONTENT_BYTES].copy_from_slice(&content(value));
                numbers.push(page);
            }
        }
        Ok(database.checkpoint()?)
    })?;
    let number = |page: u64| numbers[page as usize - 1];
    let change = |pages: &[u64], offset: u64, keep: bool| -> Result<()> {
        for pages in pages.chunks(TRANSACTION_PAGES) {
            let mut transaction = database.transaction()?;
            for page in pages {
                transaction.pin_mut(number(*page))?[..CONTENT_BYTES].copy_from_slice(&content(page + offset));
            }
            if keep {
                transaction.commit();
            }
        }
        Ok(())
    };
    let (_, changed) = timed(|| change(&plan.changed, CHANGED, true))?;
    let (_, checkpoint) = timed(|| Ok(database.checkpoint()?))?;
    let (_, roll_back) = timed(|| change(&plan.rolled_back, ROLLED_BACK, false))?;
    let (_, release) = timed(|| {
        for pages in plan.released.chunks(TRANSACTION_PAGES) {
            let unit = database.unit()?;
            pages.iter().try_for_each(|page| unit.release(number(*page)))?;
        }
        Ok(database.checkpoint()?)
    })?;
    change(&plan.changed_again, CHANGED_AGAIN, true)?;
    interruptible.interrupt();
    if database.checkpoint().is_ok() {
        return Err(Error::Wrong("a checkpoint ended well although its file cannot be written".to_owned()));
    }
    // A close would log its pages once more.
    copy_files(path, crashed, &["", "-meta", "-redo"])?;
    drop(database);
    let medium: Arc<dyn Medium> = Arc::new(Interruptible::default());
    let (database, recovery) = timed(|| open(&medium, crashed))?;
    let mut found = 0;
    for page in database.extents().ranges().iter().cloned().flatten() {
        found += value_of(&database.pin(page)?);
    }
    database.close()?;
    let times = Times { alloc, changed, checkpoint, roll_back, release, recovery };
    Ok((times, found))
}

fn sqlite(directory: &Path, plan: &Plan) -> Result<(Times, u64)> {
    let (path, crashed) = (directory.join("steps.db"), directory.join("crashed.db"));
    [&path, &crashed].into_iter().try_for_each(|path| remove_database(path))?;
    sqlite_steps(&path, &crashed, plan)
        .map_err(|source| Error::Sqlite { what: path.display().to_string(), source })
        .and_then(|steps| steps)
}

fn open_sqlite(path: &Path, plan: &Plan) -> rusqlite::Result<Connection> {
    let db = open_stock(path)?;
    db.execute_batch(&format!(
        "PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=wal; PRAGMA synchronous=full; PRAGMA cache_size=-{};",
        memory(plan) / 1024
    ))?;
    Ok(db)
}

/// SQLite's side. The outer error is SQLite's.
fn sqlite_steps(path: &Path, crashed: &Path, plan: &Plan) -> rusqlite::Result<Result<(Times, u64)>> {
    let clock = std::time::Instant::now;
    let db = open_sqlite(path, plan)?;
    db.execute_batch("CREATE TABLE page(id INTEGER PRIMARY KEY, bytes BLOB)")?;
    let change = |pages: &[u64], offset: u64, end: &str| -> rusqlite::Result<()> {
        let mut update = db.prepare_cached("UPDATE page SET bytes = ?2 WHERE id = ?1")?;
        for pages in pages.chunks(TRANSACTION_PAGES) {
            db.prepare_cached("SAVEPOINT unit")?.execute([])?;
            for page in pages {
                update.execute((*page as i64, &content(page + offset)[..]))?;
            }
            for statement in end.split(';') {
                db.prepare_cached(statement)?.execute([])?;
            }
        }
        Ok(())
    };
    let begun = clock();
    db.execute_batch("BEGIN")?;
    {
        let mut insert = db.prepare("INSERT INTO page VALUES (?1, ?2)")?;
        for page in 1..=plan.pages {
            insert.execute((page as i64, &content(page)[..]))?;
        }
    }
    db.execute_batch("COMMIT")?;
    let alloc = begun.elapsed();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); BEGIN")?;
    let begun = clock();
    change(&plan.changed, CHANGED, "RELEASE unit")?;
    let changed = begun.elapsed();
    let begun = clock();
    db.execute_batch("COMMIT")?;
    let checkpoint = begun.elapsed();
    db.execute_batch("BEGIN")?;
    let begun = clock();
    change(&plan.rolled_back, ROLLED_BACK, "ROLLBACK TO unit;RELEASE unit")?;
    let roll_back = begun.elapsed();
    db.execute_batch("ROLLBACK; PRAGMA wal_checkpoint(TRUNCATE)")?;
    let begun = clock();
    db.execute_batch("BEGIN")?;
    for page in &plan.released {
        db.prepare_cached("DELETE FROM page WHERE id = ?1")?.execute([*page as i64])?;
    }
    db.execute_batch("COMMIT")?;
    let release = begun.elapsed();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint=0; BEGIN")?;
    change(&plan.changed_again, CHANGED_AGAIN, "RELEASE unit")?;
    db.execute_batch("COMMIT")?;
    if let Err(error) = copy_files(path, crashed, &["", "-wal"]) {
        return Ok(Err(error));
    }
    let begun = clock();
    let again = open_sqlite(crashed, plan)?;
    again.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let recovery = begun.elapsed();
    let mut found = 0;
    let mut select = again.prepare("SELECT bytes FROM page")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        found += value_of(row.get_ref(0)?.as_blob().unwrap_or(&[]));
    }
    let times = Times { alloc, changed, checkpoint, roll_back, release, recovery };
    Ok(Ok((times, found)))
}

/// Copies the files of a database, as a crash would have left them.
fn copy_files(path: &Path, to: &Path, suffixes: &[&str]) -> Result<()> {
    for suffix in suffixes {
        let (from, to) =
            (litefoot_storage::file::beside(path, suffix), litefoot_storage::file::beside(to, suffix));
        std::fs::copy(&from, &to).map_err(|source| Error::Directory { path: from, source })?;
        // A crashed machine has its files on the disk, and nothing of the copy to write.
        std::fs::File::open(&to)
            .and_then(|file| file.sync_all())
            .map_err(|source| Error::Directory { path: to, source })?;
    }
    Ok(())
}

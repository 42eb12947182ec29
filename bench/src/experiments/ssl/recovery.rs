//! How long opening takes after a crash, by the length of the commit log.
//!
//! A log is filled once for each form. On the way its files are copied at several lengths, as a crash leaves them. In each round
//! every copy is copied once more, taken out of the system's page cache, opened and read: what a device starts with after a
//! power cut is cold. Cases take turns.

use super::STATEMENTS;
use super::replay::stat;
use super::traces::{SCHEMA, Statement, TRACES};
use crate::experiments::commit::remove_database;
use crate::harness::{MIN_ROUNDS, Progress, interleave, make_cold, median, vfs_name};
use crate::report::Figures;
use crate::{Error, Result};
use litefoot_sim::Random;
use litefoot_storage::file::beside;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A full commit log, and the options under which it gets full before a checkpoint.
const FULL_LOG: u64 = 4 << 20;
const OPTIONS: &str = "sharing=exclusive&commit_log_size=8M&write_buffer_size=1G";
/// Bytes of a row's text: so large that the log is full before its frames are as many as a checkpoint allows.
const TEXT: u64 = 800;
const FORMS: [&str; 2] = ["deltas", "statements"];
const PERCENTS: [u64; 4] = [25, 50, 75, 100];
/// How often filling a log is tried.
const ATTEMPTS: usize = 20;

/// A database as a crash has left it.
struct Crashed {
    name: String,
    path: PathBuf,
    /// Rows that were committed.
    rows: u64,
}

/// Sets a median for each form and length, over at least [`MIN_ROUNDS`].
pub fn run(directory: &Path, seed: u64, progress: &mut dyn Progress, figures: &mut Figures) -> Result<()> {
    let cases = FORMS.len() * PERCENTS.len();
    progress.begin("recovery", (FORMS.len() + MIN_ROUNDS * cases) as u64);
    let mut crashed = Vec::new();
    for form in FORMS {
        crashed.extend(crash(directory, form, FULL_LOG, seed)?);
        progress.advance(1)?;
    }
    let seconds = interleave(&crashed, MIN_ROUNDS, |_, crashed| {
        progress.advance(1)?;
        recover(crashed, directory)
    })?;
    for (crashed, seconds) in crashed.iter().zip(&seconds) {
        figures.set(format!("recovery_s.{}", crashed.name), median(seconds.iter().copied()));
        remove_database(&crashed.path)?;
    }
    Ok(())
}

/// Fills a commit log, and copies the files at each of [`PERCENTS`] of `full` bytes.
fn crash(directory: &Path, form: &str, full: u64, seed: u64) -> Result<Vec<Crashed>> {
    for _ in 0..ATTEMPTS {
        if let Some(crashed) = fill(directory, form, full, seed)? {
            return Ok(crashed);
        }
    }
    Err(Error::Wrong(format!("the log was materialized {ATTEMPTS} times before it had {full} bytes")))
}

/// Tries that; nothing where the log was materialized meanwhile, as that of a database at rest is: on a busy machine a
/// second can pass between two commits.
fn fill(directory: &Path, form: &str, full: u64, seed: u64) -> Result<Option<Vec<Crashed>>> {
    let explain = |source| STATEMENTS.explain(source);
    let mut options = litefoot::Options::default();
    options.set_list(&format!("{OPTIONS}&commit_log={form}")).map_err(Error::Wrong)?;
    let vfs = litefoot::Vfs::builder(vfs_name()).options(options).register()?;
    let path = directory.join("running.db");
    let db = vfs.open(&path)?;
    db.execute_batch("PRAGMA journal_mode=wal").map_err(explain)?;
    db.execute_batch(SCHEMA).map_err(explain)?;
    let (trace, mut random) = (&TRACES[0], Random::new(seed));
    let in_use = || stat(&db, "commit_log_bytes").map_err(explain);
    let (mut filled, mut rows, mut is_whole) = (in_use()?, 0, true);
    let mut crashed = Vec::new();
    for percent in PERCENTS {
        while is_whole && filled < full * percent / 100 {
            Statement::new(trace, TEXT, &mut random).run(trace, &db).map_err(explain)?;
            rows += 1;
            let before = std::mem::replace(&mut filled, in_use()?);
            is_whole = filled >= before;
        }
        let copy = directory.join(format!("crashed-{form}-{percent}.db"));
        copy_database(&path, &copy)?;
        is_whole &= in_use()? == filled;
        crashed.push(Crashed { name: format!("{form}.{percent}_percent"), path: copy, rows });
    }
    db.close().map_err(|(_, error)| explain(error))?;
    remove_database(&path)?;
    if !is_whole {
        crashed.iter().try_for_each(|crashed| remove_database(&crashed.path))?;
        return Ok(None);
    }
    Ok(Some(crashed))
}

/// Opens a copy of a database and counts its rows; seconds.
fn recover(crashed: &Crashed, directory: &Path) -> Result<f64> {
    let explain = |source| STATEMENTS.explain(source);
    let path = directory.join("recovered.db");
    copy_database(&crashed.path, &path)?;
    for suffix in ["", "-wal", "-commits"] {
        make_cold(&beside(&path, suffix))?;
    }
    let begun = Instant::now();
    let db = litefoot::Connection::open(&path)?;
    let found: i64 = db.query_row("SELECT count(*) FROM item", [], |row| row.get(0)).map_err(explain)?;
    let seconds = begun.elapsed().as_secs_f64();
    if found.cast_unsigned() != crashed.rows {
        return Err(Error::Wrong(format!("{found} rows after recovery, {} were committed", crashed.rows)));
    }
    drop(db);
    remove_database(&path)?;
    Ok(seconds)
}

/// Copies the files of a database as a crash leaves them: with their times of change.
fn copy_database(from: &Path, to: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-commits"] {
        let (from, to) = (beside(from, suffix), beside(to, suffix));
        copy_with_time(&from, &to).map_err(|source| Error::Directory { path: from, source })?;
    }
    Ok(())
}

fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let time = std::fs::metadata(from)?.modified()?;
    std::fs::File::options().write(true).open(to)?.set_modified(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_recovered_at_each_length_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        for form in FORMS {
            let crashed = crash(directory.path(), form, 80_000, 1).unwrap();
            assert_eq!(crashed.len(), PERCENTS.len());
            assert!(crashed.windows(2).all(|pair| pair[0].rows < pair[1].rows));
            for mut crashed in crashed {
                // The second time as the first: recovery leaves the copy that it was made from alone.
                assert!(recover(&crashed, directory.path()).unwrap() > 0.0);
                assert!(recover(&crashed, directory.path()).unwrap() > 0.0);
                crashed.rows += 1;
                assert!(recover(&crashed, directory.path()).is_err(), "a row that is missing is noticed");
                remove_database(&directory.path().join("recovered.db")).unwrap();
            }
        }
    }
}

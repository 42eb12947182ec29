//! What a visitor adds, and what it leaves behind: `--case latency`.
//!
//! Owners and visitors of stock SQLite and of litefoot take turns. Each visit meets an application that has just begun, has made
//! commits, and goes on with ten a second: so that a visit to litefoot's is a change of state, and not the second one of a pair.
//!
//! | figure | meaning |
//! |---|---|
//! | `visits` | visits to each side |
//! | `visit_p50_us`, `visit_p99_us` | time of `sqlite3 app.db 'SELECT count(*) …'`, from its start to its end |
//! | `sync_p50_us` | a block of 4,096 bytes that is written and synced, between the visits |
//! | `added_p99_us`, `allowed_us` | by how much litefoot's visit is longer; three syncs and 2 ms |
//! | `before_per_s`, `after_per_s` | commits a second of one writer without pauses: before a visit, and from one second after it on |
//! | `ratio.after_over_before` | the median of the rounds |
//! | `refused` | visits that met a lock: no shell waits for one |
//! | `wrong` | visits that missed a commit, and errors of the application; must not be |

use super::content::DATABASE;
use super::owner::{MODES, Side};
use crate::experiments::commit::work_directory;
use crate::harness::{Latencies, Progress, median, open_stock};
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};
use rusqlite::Connection;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The name that `--case` takes.
pub const NAME: &str = "latency";

/// Visits to each side in each journal mode.
const VISITS: u64 = 100;
const QUICK_VISITS: u64 = 6;
/// Rounds of commits before and after a visit.
const ROUNDS: u64 = 5;
const QUICK_ROUNDS: u64 = 1;

const SIDES: [Side; 2] = [Side::Stock, Side::Litefoot];
/// Commits of an application before a visitor comes, and its pauses afterwards.
const COMMITS: u64 = 60;
const PAUSE: Duration = Duration::from_millis(100);
/// A visitor comes so many milliseconds after these commits at most.
const COMES_MS: u64 = 150;
/// How long commits are counted, and how long after the visit.
const WINDOW: Duration = Duration::from_secs(1);
const RECOVERS: Duration = Duration::from_secs(1);
/// As an application's.
const PATIENCE: Duration = Duration::from_secs(30);
/// A visit may take so many syncs, and so much besides, longer than one of stock SQLite's.
const SYNCS: f64 = 3.0;
const ALLOWED_US: f64 = 2_000.0;

const BLOCK: usize = 4096;
const INSERT: &str = "INSERT INTO t(v) VALUES(randomblob(100))";
const COUNT: &str = "SELECT count(*) FROM t";

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let modes = match options.journals {
        Journals::Wal => &MODES[..1],
        Journals::Rollback => &MODES[1..],
        Journals::Both => &MODES[..],
    };
    // Said here, and not by each visit.
    super::kinds(Some("select"), &mut Figures::new())?;
    let visits = options.rounds.unwrap_or(if options.quick { QUICK_VISITS } else { VISITS });
    let rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS };
    let scratch = work_directory(&options.directory)?;
    let mut figures = Figures::new();
    for mode in modes {
        progress.begin(mode, visits + rounds);
        let mut measured = Measured::new(options.seed)?;
        let mut turns = (0..visits + rounds).map(|turn| {
            measured.turn(scratch.path(), mode, turn < visits)?;
            progress.advance(1)
        });
        let ended = turns.try_for_each(|turn| turn);
        measured.report(mode, &mut figures);
        if ended.is_err() {
            return figures.at_end(ended);
        }
    }
    Ok(figures)
}

/// An application with one connection, on either side.
struct Application {
    path: PathBuf,
    db: Connection,
}

impl Application {
    fn begin(directory: &Path, side: Side, mode: &str) -> std::result::Result<Application, String> {
        let path = directory.join(DATABASE);
        let text = |error: rusqlite::Error| error.to_string();
        let db = match side {
            Side::Stock => open_stock(&path).map_err(text)?,
            Side::Litefoot => {
                litefoot::Connection::open(&path).map_err(|error| error.to_string())?.into_inner()
            }
        };
        db.busy_timeout(PATIENCE).map_err(text)?;
        let set_up = format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
        );
        db.execute_batch(&set_up).map_err(text)?;
        let application = Application { path, db };
        (0..COMMITS).try_for_each(|_| application.commit().map(drop)).map_err(text)?;
        Ok(application)
    }

    fn commit(&self) -> rusqlite::Result<usize> {
        self.db.prepare_cached(INSERT)?.execute([])
    }

    /// Goes on with commits and these pauses, while something is done beside it that may look how many there are.
    fn beside<T>(
        self,
        pause: Duration,
        work: impl FnOnce(&Path, &AtomicU64) -> T,
    ) -> std::result::Result<T, String> {
        let (commits, ends) = (AtomicU64::new(COMMITS), AtomicBool::new(false));
        let path = self.path.clone();
        std::thread::scope(|scope| {
            let commits_on = scope.spawn(|| {
                let application = self;
                while !ends.load(Ordering::Acquire) {
                    application.commit()?;
                    commits.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(pause);
                }
                Ok(())
            });
            let done = work(&path, &commits);
            ends.store(true, Ordering::Release);
            let committed = commits_on.join().unwrap_or(Err(rusqlite::Error::InvalidQuery));
            committed.map(|()| done).map_err(|error: rusqlite::Error| error.to_string())
        })
    }
}

/// A shell comes, without a busy timeout, and must see all commits that were made before. How long it took; nothing where it was
/// refused.
fn visit(path: &Path, commits: &AtomicU64) -> std::result::Result<Option<Duration>, String> {
    let mut shell = Command::new("sqlite3");
    shell.arg("-batch").arg(path).arg(COUNT).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    let floor = commits.load(Ordering::SeqCst);
    let begun = Instant::now();
    let output = shell.output().map_err(|error| format!("sqlite3: {error}"))?;
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    match String::from_utf8_lossy(&output.stdout).trim().parse::<u64>() {
        Ok(seen) if seen >= floor => Ok(Some(took)),
        Ok(seen) => Err(format!("stale: {seen} of {floor}")),
        Err(_) if said.contains("locked") => Ok(None),
        Err(_) => Err(format!("sqlite3: {}", said.trim())),
    }
}

/// Commits a second, from now on.
fn rate(commits: &AtomicU64) -> f64 {
    let (begun, before) = (Instant::now(), commits.load(Ordering::SeqCst));
    std::thread::sleep(WINDOW);
    (commits.load(Ordering::SeqCst) - before) as f64 / begun.elapsed().as_secs_f64()
}

/// A block that is written and synced.
fn sync(directory: &Path) -> std::io::Result<Duration> {
    let file = File::create(directory.join("sync"))?;
    file.write_all_at(&[0; BLOCK], 0)?;
    file.sync_all()?;
    let begun = Instant::now();
    file.write_all_at(&[1; BLOCK], 0)?;
    file.sync_data()?;
    Ok(begun.elapsed())
}

/// What was measured in a journal mode.
struct Measured {
    random: fastrand::Rng,
    /// Of each side.
    visits: [Latencies; 2],
    refused: [u64; 2],
    syncs: Latencies,
    /// Commits a second of each side, before and after.
    rates: [Vec<[f64; 2]>; 2],
    wrong: Vec<String>,
}

impl Measured {
    fn new(seed: u64) -> Result<Measured> {
        Ok(Measured {
            random: fastrand::Rng::with_seed(seed),
            visits: [Latencies::new()?, Latencies::new()?],
            refused: [0; 2],
            syncs: Latencies::new()?,
            rates: Default::default(),
            wrong: Vec::new(),
        })
    }

    /// One visit to each side, or its rates.
    fn turn(&mut self, scratch: &Path, mode: &str, is_visit: bool) -> Result<()> {
        for (index, side) in SIDES.into_iter().enumerate() {
            let directory = scratch.join(mode);
            let failed = |source| Error::Directory { path: directory.clone(), source };
            fs::create_dir(&directory).map_err(failed)?;
            self.syncs.record(sync(&directory).map_err(failed)?);
            let application = Application::begin(&directory, side, mode);
            let measured = application.and_then(|application| match is_visit {
                true => self.visit(index, application),
                false => self.rates(index, application),
            });
            measured.unwrap_or_else(|why| self.wrong.push(format!("{mode}, {side:?}: {why}")));
            fs::remove_dir_all(&directory).map_err(failed)?;
        }
        Ok(())
    }

    /// A visit beside an application that makes pauses.
    fn visit(&mut self, index: usize, application: Application) -> std::result::Result<(), String> {
        let comes = Duration::from_millis(self.random.u64(..COMES_MS));
        let took = application.beside(PAUSE, |path, commits| {
            std::thread::sleep(comes);
            visit(path, commits)
        })??;
        match took {
            Some(took) => self.visits[index].record(took),
            None => self.refused[index] += 1,
        }
        Ok(())
    }

    /// Commits without pauses, before a visit and after it.
    fn rates(&mut self, index: usize, application: Application) -> std::result::Result<(), String> {
        let rates = application.beside(Duration::ZERO, |path, commits| {
            let before = rate(commits);
            visit(path, commits)?;
            std::thread::sleep(RECOVERS);
            Ok::<_, String>([before, rate(commits)])
        })??;
        self.rates[index].push(rates);
        Ok(())
    }

    /// Adds the figures of a journal mode.
    fn report(&self, mode: &str, figures: &mut Figures) {
        for (index, side) in SIDES.into_iter().enumerate() {
            let side = format!("{side:?}").to_lowercase();
            for (part, share) in [("p50", 0.5), ("p99", 0.99)] {
                figures
                    .set(format!("visit_{part}_us.{mode}.{side}"), self.visits[index].percentile_us(share));
            }
            figures.set(format!("refused.{mode}.{side}"), self.refused[index] as f64);
            let of = |what: fn(&[f64; 2]) -> f64| median(self.rates[index].iter().map(what));
            figures.set(format!("before_per_s.{mode}.{side}"), of(|rates| rates[0]));
            figures.set(format!("after_per_s.{mode}.{side}"), of(|rates| rates[1]));
            let ratio = of(|rates| rates[1] / rates[0].max(1.0));
            figures.set(format!("ratio.after_over_before.{mode}.{side}"), ratio);
        }
        let sync = self.syncs.percentile_us(0.5);
        let [stock, litefoot] = self.visits.each_ref().map(|visits| visits.percentile_us(0.99));
        for (name, value) in [
            ("visits", self.visits[1].count() as f64),
            ("sync_p50_us", sync),
            ("added_p99_us", litefoot - stock),
            ("allowed_us", SYNCS * sync + ALLOWED_US),
            ("wrong", self.wrong.len() as f64),
        ] {
            figures.set(format!("{name}.{mode}"), value);
        }
        for what in &self.wrong {
            figures.alarm(what.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_sees_what_was_committed_and_says_what_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        for side in SIDES {
            let directory = directory.path().join(format!("{side:?}"));
            fs::create_dir(&directory).unwrap();
            let application = Application::begin(&directory, side, "wal").unwrap();
            let visited = application.beside(Duration::from_millis(1), |path, commits| {
                let fine = visit(path, commits);
                (fine, visit(path, &AtomicU64::new(1 << 40)), visit(&path.join("none"), commits))
            });
            let (fine, stale, failed) = visited.unwrap();
            assert!(fine.is_ok(), "{side:?}: {fine:?}");
            // Stock SQLite may have refused it.
            assert!(
                stale == Ok(None) || stale.as_ref().is_err_and(|why| why.starts_with("stale: ")),
                "{stale:?}"
            );
            assert!(failed.as_ref().is_err_and(|why| why.starts_with("sqlite3: ")), "{failed:?}");
        }
    }

    #[test]
    fn the_figures_of_a_mode_compare_the_sides() {
        let mut measured = Measured::new(1).unwrap();
        for ms in [10, 12] {
            measured.visits[0].record(Duration::from_millis(ms));
            measured.visits[1].record(Duration::from_millis(ms + 3));
            measured.syncs.record(Duration::from_millis(1));
        }
        measured.rates = [vec![[100.0, 90.0]], vec![[100.0, 50.0], [200.0, 200.0], [100.0, 120.0]]];
        measured.wrong.push("wal, Stock: stale: 1 of 2".to_owned());
        let mut figures = Figures::new();
        measured.report("wal", &mut figures);
        assert!(figures.check().is_ok() && figures.alarms().len() == 1);
        let near = |name: &str, value: f64| {
            let found = figures.get(name).unwrap();
            assert!((found - value).abs() <= value * 0.01, "{name}: {found}");
        };
        near("added_p99_us.wal", 3_000.0);
        near("allowed_us.wal", 5_000.0);
        near("ratio.after_over_before.wal.stock", 0.9);
        near("ratio.after_over_before.wal.litefoot", 1.0);
    }
}

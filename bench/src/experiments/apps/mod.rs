//! `apps`: what real applications' commits bring to the device, on stock SQLite and on litefoot.
//!
//! Each pattern is a small program on a library that applications use (`bench/apps`). It runs unchanged on either side:
//! litefoot is preloaded, or loaded as an extension where the library has an SQLite of its own inside. The database is
//! on a loop device with an ext4 that nobody else uses, so that the kernel counts all of it: SQLite's files, the file
//! system's metadata and journal. Stock SQLite checks each database, and both sides must have stored as many rows.
//!
//! That takes root. Otherwise the databases are in `--dir`, a note says so, and only litefoot's own counts are there.
//!
//! # Figures
//! `PATTERN.MODE.FIGURE`, for the modes `wal_full`, `wal_normal` and `delete_full`; `own` is a program's own. Patterns whose library is not
//! installed have none; a note says what to install.
//!
//! | figure | meaning |
//! |---|---|
//! | `stock_bytes`, `litefoot_bytes` | bytes at the device for a commit, after some that warm up, with a sync of the file system behind the last |
//! | `stock_flushes`, `litefoot_flushes` | flushes of the device for a commit, likewise |
//! | `stock_life_bytes`, `litefoot_life_bytes` | the same from the creation of the database until it is closed: checkpoints included |
//! | `stock_life_flushes`, `litefoot_life_flushes` | likewise |
//! | `stock_per_s`, `litefoot_per_s` | commits a second |
//! | `bytes_ratio`, `life_ratio`, `rate_ratio` | litefoot's over stock's; medians of the rounds |
//! | `own_bytes`, `own_syncs` | blocks and syncs of a commit, by litefoot's own count |
//! | `one_block` | share of litefoot's commits that were one block of a log |
//! | `deltas` | share of them that were deltas or statements, not pages |

mod measured;
mod patterns;
pub(super) mod program;
pub(super) mod toolchain;

use super::commit::work_directory;
use crate::harness::Progress;
use crate::harness::device::Device;
use crate::options::Options;
use crate::report::Figures;
use crate::{Error, Result};
use measured::Measured;
use patterns::{Mode, Pattern, Runtime};
use program::Outcome;
use rusqlite::Connection;
use std::path::Path;
use toolchain::{Runnable, Toolchain};

/// Commits of a run.
const COMMITS: u64 = 2000;
const QUICK_COMMITS: u64 = 50;
/// Runs of each side. Bytes hardly vary, and the short form has no time for more.
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 1;

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let patterns = patterns::chosen(options.patterns.as_deref())?;
    let library = options
        .library
        .as_deref()
        .ok_or_else(|| Error::Missing("liblitefoot.so: cargo build -p litefoot-extension".to_owned()))?;
    let directory = work_directory(&options.directory)?;
    let toolchain = Toolchain::new(directory.path())?;
    let mut figures = Figures::new();
    if options.install {
        install(&toolchain, &patterns, &mut figures, progress)?;
    }
    let mut found: Vec<(&Pattern, Runnable)> = Vec::new();
    progress.begin("looking what is installed", patterns.len() as u64);
    for pattern in patterns {
        match toolchain.find(pattern) {
            Ok(program) => {
                figures.note(format!("{}: {}", pattern.name, pattern.about));
                found.push((pattern, program));
            }
            Err(why) => figures.note(format!("without {}: {why}", pattern.name)),
        }
        progress.advance(1)?;
    }
    let device = match Device::new(directory.path()) {
        Ok(device) => Some(device),
        Err(why) => {
            figures.note(format!(
                "The device is not counted, only litefoot's own writes and syncs (own_bytes, own_syncs): {why}."
            ));
            None
        }
    };
    let (rounds, commits) = if options.quick { (QUICK_ROUNDS, QUICK_COMMITS) } else { (ROUNDS, COMMITS) };
    let commits = options.commits.unwrap_or(commits);
    let directory = device.as_ref().map_or(directory.path(), Device::directory);
    for (number, (pattern, program)) in found.iter().enumerate() {
        let stage = format!("{} ({} of {})", pattern.name, number + 1, found.len());
        progress.begin(&stage, (rounds * pattern.modes.len() * 2) as u64);
        let length = pattern.length.commits(commits, options.quick);
        let task = Task { pattern, program, library, directory, device: device.as_ref(), rounds, length };
        match task.run(&mut figures, progress) {
            // A program that fails says nothing about the others.
            Err(error @ (Error::Peer { .. } | Error::Wrong(_) | Error::Sqlite { .. })) => {
                figures.alarm(error.to_string());
            }
            other => other?,
        }
    }
    Ok(figures)
}

/// Has package managers fetch what the patterns need; one that fails costs its patterns.
fn install(
    toolchain: &Toolchain,
    patterns: &[&Pattern],
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let mut done: Vec<std::mem::Discriminant<Runtime>> = Vec::new();
    progress.begin("installing", patterns.len() as u64);
    for pattern in patterns {
        let kind = std::mem::discriminant(&pattern.runtime);
        let needs_nothing = pattern.runtime == Runtime::Python(&["sqlite3"]);
        if !needs_nothing && !done.contains(&kind) {
            done.push(kind);
            match toolchain.install(pattern.runtime) {
                Err(error @ Error::Missing(_)) => figures.note(format!("not installed: {error}")),
                other => other?,
            }
        }
        progress.advance(1)?;
    }
    Ok(())
}

/// A pattern that is measured.
struct Task<'a> {
    pattern: &'a Pattern,
    program: &'a Runnable,
    library: &'a Path,
    directory: &'a Path,
    device: Option<&'a Device>,
    rounds: usize,
    /// Commits of a run, and those before that warm up.
    length: [u64; 2],
}

impl Task<'_> {
    fn run(&self, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
        for mode in self.pattern.modes {
            let mut measured = Measured::default();
            for round in 0..self.rounds {
                let mut of_round = [Outcome::default(), Outcome::default()];
                let mut rows = [0, 0];
                for turn in 0..2 {
                    let litefoot = (round + turn) % 2;
                    (of_round[litefoot], rows[litefoot]) = self.side(mode, litefoot == 1, progress)?;
                    progress.advance(1)?;
                }
                if rows[0] != rows[1] {
                    let name = self.name(mode, true);
                    return Err(Error::Wrong(format!("{name}: {} rows, and stock has {}", rows[1], rows[0])));
                }
                let [stock, litefoot] = of_round;
                measured.add(stock, litefoot);
            }
            let name = format!("{}.{}", self.pattern.name, mode.name);
            let [commits, warm_up] = self.length;
            for (figure, value) in measured.figures(commits, warm_up) {
                figures.set(format!("{name}.{figure}"), value);
            }
        }
        Ok(())
    }

    fn name(&self, mode: &Mode, litefoot: bool) -> String {
        let side = if litefoot { "litefoot" } else { "stock" };
        format!("{}, {}, {side}", self.pattern.name, mode.name)
    }

    /// One run of one side, and how many rows it has left.
    fn side(&self, mode: &Mode, litefoot: bool, progress: &mut dyn Progress) -> Result<(Outcome, i64)> {
        let name = self.name(mode, litefoot);
        let place = tempfile::tempdir_in(self.directory)
            .map_err(|source| Error::Directory { path: self.directory.to_owned(), source })?;
        let file = place.path().join("app.db");
        let mut command = self.program.command(litefoot.then_some(self.library));
        let numbers = self.length.map(|number| number.to_string());
        command.arg(self.pattern.name).arg(&file).args(numbers).args([mode.journal, mode.synchronous]);
        command.current_dir(place.path());
        let outcome = program::run(&name, command, self.device, progress)?;
        if self.pattern.answers && outcome.figures.is_empty() == litefoot {
            let what = if litefoot {
                "it does not run on litefoot: its SQLite cannot be reached"
            } else {
                "it runs on litefoot"
            };
            return Err(Error::Peer { name, what: what.to_owned() });
        }
        let rows = checked(&file).map_err(|source| Error::Sqlite { what: name, source })?;
        Ok((outcome, rows))
    }
}

/// Has stock SQLite check a database; the number of rows in all of its tables.
fn checked(file: &Path) -> rusqlite::Result<i64> {
    let db: Connection = crate::harness::open_stock(file)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if verdict != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, Some(verdict)));
    }
    let mut tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = tables.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let count = |name: &String| {
        let sql = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        db.query_row(&sql, [], |row| row.get::<_, i64>(0))
    };
    names.iter().map(count).sum()
}

//! The cost of a commit of each side in bytes and syncs, the same on every disk.
//!
//! The same readings once more, with every file call counted on its way to the disk. Stock SQLite's
//! calls pass through litefoot's VFS as they are. Closing the database counts, too.

use super::race::{SIDES, Side};
use super::series::{self, Reading};
use litefoot_sim::{CountingMedium, Snapshot};
use litefoot_storage::os::OsMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::progress::Bar;
use std::path::Path;
use std::sync::Arc;

/// Readings that are enough to count: every log is checkpointed several times on the way.
pub const READINGS: u64 = 5000;

/// The cost of one side's commits.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    counts: Snapshot,
    commits: u64,
}

impl Cost {
    /// Bytes written for a commit.
    pub fn bytes_per_commit(&self) -> f64 {
        self.counts.total().block_bytes_written as f64 / self.commits as f64
    }

    /// Syncs of files and directories for a commit.
    pub fn syncs_per_commit(&self) -> f64 {
        self.counts.all_syncs() as f64 / self.commits as f64
    }
}

/// Counts the first `commits` readings on each of [`SIDES`].
pub fn run(directory: &Path, readings: &[Reading], commits: u64) -> Result<Vec<Cost>, Failure> {
    let bar = Bar::new("counting bytes and syncs", commits * SIDES.len() as u64);
    let mut costs = Vec::with_capacity(SIDES.len());
    for (done, side) in (0..).step_by(commits as usize).zip(&SIDES) {
        costs.push(count(side, directory, readings, commits, &|id| bar.at(done + id))?);
    }
    Ok(costs)
}

fn count(
    side: &Side,
    directory: &Path,
    readings: &[Reading],
    commits: u64,
    at: &dyn Fn(u64),
) -> Result<Cost, Failure> {
    let path = directory.join(format!("{}-counted.db", side.short));
    let name = path.to_string_lossy().into_owned();
    let explain = |error: rusqlite::Error| crate::open::explain(&name, &error);
    let medium = CountingMedium::new(Arc::new(OsMedium::new()));
    let vfs = litefoot::Vfs::builder(format!("demo-{}", side.short))
        .medium(Arc::new(medium.clone()))
        .pass_through(!side.litefoot)
        .register()
        .map_err(|error| Failure::file(&path, error))?;
    let db = vfs.open(&path).map_err(|error| Failure::file(&path, error))?;
    side.prepare(&db).map_err(explain)?;
    let before = medium.snapshot();
    for id in 1..=commits {
        interrupt::check()?;
        series::store(&db, readings, id).map_err(explain)?;
        at(id);
    }
    db.close().map_err(|(_, error)| explain(error))?;
    Ok(Cost { counts: medium.snapshot() - before, commits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_journals() {
        let readings = series::load().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let costs = run(directory.path(), &readings, 40).unwrap();
        let of = |short: &str| {
            let place = SIDES.iter().position(|side| side.short == short).unwrap();
            (costs[place].bytes_per_commit(), costs[place].syncs_per_commit())
        };
        // Each commit hands over a block at least; where pages are written, that of the table and of its index.
        for side in &SIDES {
            let least = if side.short == "litefoot-wal" { 1.0 } else { 2.0 };
            assert!(of(side.short).0 >= least * 4096.0, "{}: {:?}", side.short, of(side.short));
        }
        // A rollback journal needs the journal, its header and the database; a WAL needs itself.
        assert!(of("delete").1 >= 3.0, "{:?}", of("delete"));
        assert!((1.0..1.5).contains(&of("wal").1), "{:?}", of("wal"));
        assert!(of("wal").0 < of("delete").0);
    }
}

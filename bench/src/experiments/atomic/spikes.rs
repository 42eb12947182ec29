//! Figure 1: the latency of inserts over time, in which checkpoints show.
//!
//! The inserts of a run are cut into [`PARTS`] of equal length. The worst insert of a part is what a user notices. Each part's
//! figure is the median of the rounds, so that a checkpoint, which comes at the same insert in each, stays, and what
//! others do to the disk meanwhile does not.

use crate::experiments::commit::remove_database;
use crate::experiments::commit::side::{DELETE_FULL, Kind, LITEFOOT, Side, WAL_FULL, settings};
use crate::experiments::commit::workload::Workload;
use crate::harness::{Progress, median, take_turns};
use crate::report::Figures;
use crate::{Error, Result};
use std::path::Path;
use std::time::Instant;

pub const PARTS: usize = 24;

const SIDES: [Side; 4] = [
    Side { name: WAL_FULL, kind: Kind::Stock(settings("wal", "full")) },
    Side { name: DELETE_FULL, kind: Kind::Stock(settings("delete", "full")) },
    Side { name: LITEFOOT, kind: Kind::Litefoot(settings("wal", "full")) },
    Side { name: super::LITEFOOT_DELETE, kind: Kind::Litefoot(settings("delete", "full")) },
];

/// A run of a side, in milliseconds.
struct Run {
    /// The worst insert of each part.
    parts: Vec<f64>,
    /// The middle insert of all.
    middle: f64,
}

/// Sets the figures of so many inserts on each side; at least as many as there are [`PARTS`].
pub fn run(
    directory: &Path,
    inserts: usize,
    rounds: usize,
    seed: u64,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    progress.begin("inserts over time", (SIDES.len() * rounds) as u64);
    let runs = take_turns(&SIDES, rounds, |_, side| {
        let run = one(side, directory, inserts, seed)?;
        progress.advance(1)?;
        Ok(run)
    })?;
    for (side, runs) in SIDES.iter().zip(&runs) {
        for part in 0..PARTS {
            let worst = median(runs.iter().map(|run| run.parts[part]));
            figures.set(format!("worst_insert_ms.{}.{}", part + 1, side.name), worst);
        }
        let worst = |run: &Run| run.parts.iter().copied().fold(0.0, f64::max);
        figures.set(format!("insert_ms.worst.{}", side.name), median(runs.iter().map(worst)));
        figures.set(format!("insert_ms.middle.{}", side.name), median(runs.iter().map(|run| run.middle)));
        let spike = median(runs.iter().map(|run| worst(run) / run.middle));
        figures.set(format!("ratio.worst_over_middle_insert.{}", side.name), spike);
    }
    Ok(())
}

fn one(side: &Side, directory: &Path, inserts: usize, seed: u64) -> Result<Run> {
    let path = directory.join(format!("spikes-{}.db", side.name));
    let db = side.open_timed(&path)?;
    Workload::Insert.prepare(side, &db, seed)?;
    let mut latencies = Vec::with_capacity(inserts);
    Workload::Insert.transact(side, &db, seed, inserts as u64, |insert| {
        let begun = Instant::now();
        insert()?;
        latencies.push(begun.elapsed().as_secs_f64() * 1e3);
        Ok(())
    })?;
    db.close().map_err(|(_, error)| side.explain(error))?;
    let stock = rusqlite::Connection::open(&path).map_err(|error| side.explain(error))?;
    Workload::Insert.verify(side, &stock, seed, inserts as u64)?;
    drop(stock);
    remove_database(&path)?;
    parts(&latencies).ok_or_else(|| Error::Wrong(format!("{inserts} inserts are fewer than {PARTS}")))
}

/// The worst of each part, and the middle of all; nothing where a part would be empty.
fn parts(latencies: &[f64]) -> Option<Run> {
    let bound = |part: usize| latencies.len() * part / PARTS;
    let parts =
        (0..PARTS).map(|part| latencies[bound(part)..bound(part + 1)].iter().copied().reduce(f64::max));
    Some(Run { parts: parts.collect::<Option<_>>()?, middle: median(latencies.iter().copied()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Silent;

    #[test]
    fn a_spike_shows_in_its_part() {
        let mut latencies = vec![1.0; 100];
        latencies[50] = 9.0;
        let run = parts(&latencies).unwrap();
        let spikes: Vec<usize> = (0..PARTS).filter(|part| run.parts[*part] > 1.0).collect();
        assert_eq!((spikes, run.middle), (vec![PARTS / 2], 1.0));
        assert!(parts(&latencies[..PARTS - 1]).is_none());
    }

    #[test]
    fn every_side_has_every_part() {
        let directory = tempfile::tempdir().unwrap();
        let mut figures = Figures::new();
        run(directory.path(), 2 * PARTS, 1, 7, &mut figures, &mut Silent).unwrap();
        for side in &SIDES {
            let get = |name: String| figures.get(&name).unwrap_or_else(|| panic!("{name} is missing"));
            let parts = (1..=PARTS).map(|part| get(format!("worst_insert_ms.{part}.{}", side.name)));
            let worst = parts.fold(0.0, f64::max);
            assert!((worst - get(format!("insert_ms.worst.{}", side.name))).abs() < f64::EPSILON);
            assert!(get(format!("insert_ms.middle.{}", side.name)) <= worst);
        }
    }
}

//! Pulling the plug: what each side still has when the power goes at a random moment.
//!
//! A real disk cannot be cut on demand, so this part runs on the simulated medium. Each side stores readings there,
//! and the power is cut anywhere in the recorded run. SQLite opens the files that are left, and every acknowledged
//! reading is looked for.

use super::race::{SIDES, Side};
use super::series::{self, Reading};
use litefoot_sim::Random;
use litefoot_sim::SimMedium;
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt;
use litefoot_terminal::progress::Bar;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Power cuts for each side.
pub const CUTS: u64 = 100;
/// Readings that a side stores before its run is cut to pieces.
const READINGS: u64 = 150;
/// Where the database is on the simulated medium.
const PATH: &str = "/demo/readings.db";

/// The losses of one side over all cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Acknowledged readings that were missing or changed, over all cuts.
    pub lost: u64,
    /// Cuts after which a reading was there that nobody had stored.
    pub invented: u64,
    /// Cuts after which the database could not be read.
    pub unreadable: u64,
}

/// Cuts the power of every side; the result is in the order of [`SIDES`].
pub fn pull(readings: &[Reading], seed: u64) -> Result<Vec<Loss>, Failure> {
    let bar = Bar::new("pulling the plug", CUTS * SIDES.len() as u64);
    let mut losses = Vec::new();
    for (number, side) in SIDES.iter().enumerate() {
        let mut random = Random::new(seed.wrapping_add(number as u64));
        let done = number as u64 * CUTS;
        losses.push(pull_side(side, readings, &mut random, &mut |cut| bar.at(done + cut))?);
    }
    Ok(losses)
}

fn pull_side(
    side: &Side,
    readings: &[Reading],
    random: &mut Random,
    progress: &mut dyn FnMut(u64),
) -> Result<Loss, Failure> {
    let (medium, acknowledged_at) = record(side, readings)?;
    let mut replay = medium.replay();
    let mut points: Vec<usize> = (0..CUTS).map(|_| random.below(replay.len() as u64 + 1) as usize).collect();
    points.sort_unstable();
    let mut loss = Loss::default();
    for (cut, point) in points.into_iter().enumerate() {
        interrupt::check()?;
        replay.advance(point);
        let image = replay.cut(random);
        let acknowledged = acknowledged_at.partition_point(|operation| *operation <= point) as u64;
        let vfs = vfs_over(&image, side)?;
        match vfs.open(PATH).ok().and_then(|db| series::verify(&db, readings, acknowledged).ok()) {
            Some(verdict) => {
                loss.lost += verdict.lost;
                loss.invented += u64::from(verdict.unexpected > 0);
            }
            None => loss.unreadable += 1,
        }
        progress(cut as u64);
    }
    Ok(loss)
}

/// Stores the readings; the second result tells at which operation each had been acknowledged.
fn record(side: &Side, readings: &[Reading]) -> Result<(SimMedium, Vec<usize>), Failure> {
    let medium = SimMedium::new();
    let vfs = vfs_over(&medium, side)?;
    let fresh = vfs.open(PATH).map_err(simulation)?;
    side.prepare(&fresh).map_err(simulation)?;
    drop(fresh);
    let medium = medium.copy();
    let vfs = vfs_over(&medium, side)?;
    let db = vfs.open(PATH).map_err(simulation)?;
    let mut acknowledged_at = Vec::new();
    for id in 1..=READINGS {
        series::store(&db, readings, id).map_err(simulation)?;
        acknowledged_at.push(medium.operations());
    }
    Ok((medium, acknowledged_at))
}

fn simulation(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("storing readings on the simulated medium: {error}"))
}

fn vfs_over(medium: &SimMedium, side: &Side) -> Result<litefoot::Vfs, Failure> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("demo-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    litefoot::Vfs::builder(name)
        .medium(Arc::new(medium.clone()))
        .pass_through(!side.litefoot)
        .register()
        .map_err(simulation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn litefoot_loses_nothing() {
        let readings = series::load().unwrap();
        let losses = pull(&readings, 7).unwrap();
        for (side, loss) in SIDES.iter().zip(losses) {
            if side.litefoot {
                assert_eq!(loss, Loss::default(), "{}", side.name);
            }
            assert_eq!(loss.unreadable, 0, "{}", side.name);
        }
    }
}

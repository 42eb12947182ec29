//! How much memory the largest transactions take.

use super::Task;
use super::load::Keys;
use super::side::{INF, LITEFOOT, MODES, Side};
use super::speed::round;
use crate::Result;
use crate::experiments::read::memory::{give_back, resident_bytes};
use crate::harness::Progress;
use crate::report::Figures;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the system is asked.
const STEP: Duration = Duration::from_millis(2);

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("memory", MODES.len() as u64 + 1);
    let litefoot = Side::litefoot(LITEFOOT, &task.options(""))?;
    let mut most = 0;
    for mode in MODES {
        most = most.max(peak(task, &litefoot, mode)?);
        progress.advance(1)?;
    }
    figures.set("peak_bytes.litefoot", most as f64);
    figures.set("peak_bytes.inf", peak(task, &Side::stock(INF), MODES[0])? as f64);
    progress.advance(1)
}

/// By how much the process grows, at most.
fn peak(task: &Task<'_>, side: &Side, mode: &str) -> Result<u64> {
    give_back();
    let before = resident_bytes();
    let (most, done) = (AtomicU64::new(before), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(STEP);
            }
        });
        let result = round(side, &task.directory.join("memory.db"), mode, Keys::Random, &task.plan("100m"));
        done.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(most.into_inner() - before)
}

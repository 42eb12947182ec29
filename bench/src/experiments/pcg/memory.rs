//! How much memory the largest transactions take.

use super::load::Keys;
use super::side::{MODES, Side};
use super::speed::round;
use super::{Plan, Task};
use crate::Result;
use crate::experiments::read::memory::{give_back, resident_bytes};
use crate::harness::Progress;
use crate::report::Figures;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the system is asked.
const STEP: Duration = Duration::from_millis(2);
const SIZES: [&str; 2] = ["5m", "100m"];

pub fn run(task: &Task<'_>, figures: &mut Figures, progress: &mut dyn Progress) -> Result<()> {
    progress.begin("memory", (SIZES.len() * 3 * MODES.len()) as u64);
    for size in SIZES {
        let plan = Plan { transactions: 1, with_cleaners: false, ..task.plan(size) };
        for side in task.sides(&plan)? {
            let mut most = 0;
            for mode in MODES {
                most = most.max(peak(task, &side, mode, &plan)?);
                progress.advance(1)?;
            }
            figures.set(format!("peak_bytes.{size}.{}", side.name), most as f64);
        }
    }
    Ok(())
}

/// By how much the process grows, at most.
fn peak(task: &Task<'_>, side: &Side, mode: &str, plan: &Plan) -> Result<u64> {
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
        let result = round(side, &task.directory.join("memory.db"), mode, Keys::Random, plan);
        done.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(most.into_inner() - before)
}

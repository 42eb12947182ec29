//! `crash`: power cuts by the thousand, and what they cost; with `--tier`, of a database whose hot chunks live on a
//! second device; with `--visitors`, of one that stock SQLite opens meanwhile.
//!
//! | figure | meaning |
//! |---|---|
//! | `cuts` | power cuts simulated, second ones during recovery included |
//! | `lost` | cuts after which an acknowledged transaction was missing, or one was there in part |
//! | `corrupt` | cuts after which the database did not open or failed its integrity check |
//! | `transactions` | transactions acknowledged in the recorded runs |
//! | `seed` | what `--seed` replays it |

use crate::crash::{CrashOptions, Journal, simulate};
use crate::harness::Progress;
use crate::options::{Journals, Options};
use crate::report::Figures;
use crate::{Error, Result};

/// Cuts of a full run and of a quick one.
const CUTS: u64 = 100_000;
const QUICK_CUTS: u64 = 20_000;

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let cuts = options.cuts.unwrap_or(if options.quick { QUICK_CUTS } else { CUTS });
    let mut crash = CrashOptions::new(cuts, options.seed);
    crash.journals = match options.journals {
        Journals::Wal => vec![Journal::Wal],
        Journals::Rollback => vec![Journal::Rollback],
        Journals::Both => vec![Journal::Wal, Journal::Rollback],
    };
    crash.tier = options.tier;
    crash.visitors = options.visitors;
    progress.begin("power cuts", cuts);
    let mut done = 0;
    let mut ended = Ok(());
    let report = simulate(&crash, &mut |made| {
        let steps = made - done;
        done = made;
        ended = progress.advance(steps);
        ended.is_ok()
    })
    .map_err(Error::Wrong)?;
    let mut figures = Figures::new();
    figures.set("cuts", report.cuts as f64);
    figures.set("lost", report.lost as f64);
    figures.set("corrupt", report.corrupt as f64);
    figures.set("transactions", report.transactions as f64);
    figures.set("seed", options.seed as f64);
    report.failures.into_iter().for_each(|failure| figures.alarm(failure));
    figures.at_end(ended)
}

//! `psqlite`: hot chunks of a phone's databases on PRAM, as P-SQLITE measured it (figures 2, 3, 7 and 8).
//!
//! # Applications
//! The six databases of Android's browser, messages, phone book and alarms, and two mixes that others have published
//! (`apps`), with pages of 1,024 bytes. Real SQLite drives them on the modelled devices ([`crate::nand`]): a PRAM, and
//! 256 MiB of NAND, of which other files fill 90 %. Each database has the devices to itself. After each run stock SQLite
//! checks that the flash file holds the same rows as on NAND alone. Times are those of the devices in the model: writes,
//! reads, garbage collection, closing included.
//!
//! # The paper's design, and litefoot's logs
//!
//! | name | on PRAM |
//! |---|---|
//! | `nand` | nothing |
//! | `pffs2` | the file system's own pages |
//! | `journal` | rollback journals |
//! | `journal_pffs2` | both |
//! | `psqlite_k64`, `_k128`, `_k256` | hot chunks of the database, at most so many |
//! | `lru_k64`, `lru_k256` | the chunks written last |
//! | `all_k64`, `all_k128`, `all_k256` | journals, the file system's pages, hot chunks |
//! | `litefoot_pages`, `litefoot_statements` | nothing: litefoot's redo log, or its commit log, on flash |
//! | `litefoot_pram` | litefoot's commit log, at most 512 KiB (option `commit_log_path`) |
//!
//! `psqlite`, `lru` and `all` are the paper's design: a tier beneath SQLite as it is. Nobody can configure it.
//!
//! # Sides that a user can configure
//! For all eight databases, with `_rollback` or `_wal` for the journal mode, and all other options at their defaults:
//!
//! | name | options |
//! |---|---|
//! | `stock` | none: SQLite as it is |
//! | `logs` | `tier`, `tier_policy=none`: the logs alone on the device |
//! | `chunks_..._k256` | `tier`, of which only the device's own name lies on PRAM: the chunks alone |
//! | `tier_..._k64`, `_k256` | `tier`, with `tier_size` for so many chunks |
//! | `tier` | `tier` alone |
//!
//! # Figures
//!
//! | name | meaning |
//! |---|---|
//! | `transactions` | write transactions of each database; the sweeps take at most 1,000 |
//! | `period_time.kK.pT` | time of the database's writes with periods of T transactions and room for K chunks, against no tier; mean of five databases (figure 2) |
//! | `period_best.kK` | the T of the least time with room for K chunks |
//! | `period_chunks` | chunks that the transactions of a database write; mean of the same |
//! | `predictor_error.METHOD.hN` | error of a prediction from N periods, as a share of a period; mean of six (figure 3) |
//! | `write_time.APPLICATION.SYSTEM` | time against `nand` (figure 7) |
//! | `nand_writes.SYSTEM`, `erases.SYSTEM` | pages that the host writes and blocks erased for the phone book, against `nand` (figure 8) |
//! | `write_amplification.SYSTEM` | pages written, copies of garbage collection included, for each of the host's; phone book |
//! | `reduction.nand_writes_kK`, `.erases_kK` | what `psqlite_kK` saves of these |
//! | `reduction.time_SYSTEM` | what a system saves of the time; mean of the applications |
//! | `reduction.time_litefoot` | the best of litefoot's |
//! | `nand_us_per_txn.APPLICATION` | time of a transaction on NAND alone |
//! | `over_stock.WHAT.DATABASE.SIDE` | NAND `writes`, `erases` or device `time` of a side, against `stock`; `paper` has the sum of the paper's databases |
//! | `over_logs.WHAT.DATABASE.SIDE` | the same against `logs` |
//! | `pages.DATABASE.SIDE`, `blocks_erased.DATABASE.SIDE` | pages of NAND that the host writes, blocks erased |
//! | `pram_share.DATABASE.SIDE` | how much of the time the PRAM took |
//! | `slots.DATABASE.SIDE` | writes of the tier's slots |
//! | `wear.DATABASE.SIDE` | writes of the slot written most, against the mean |

mod apps;
mod period;
mod predict;
mod scheme;
mod sides;
mod tiering;
mod trace;

use crate::Result;
use crate::harness::Progress;
use crate::nand::{Ftl, Geometry, Placement};
use crate::options::Options;
use crate::report::Figures;
use apps::{APPLICATIONS, APPS, App, FIGURE_2};
use litefoot_tier::PolicyKind;
use litefoot_tier::policy::Latencies;
use predict::Method;
use scheme::{Commits, FILLED_PERCENT, Journal, Outcome, Scheme, Stack};
use sides::SIDES;
use std::collections::BTreeSet;

const TRANSACTIONS: u64 = 5000;
const QUICK_TRANSACTIONS: u64 = 500;
/// Transactions of figures 2 and 3.
const SWEEP_TRANSACTIONS: u64 = 1000;
/// The paper's board.
const FLASH_BYTES: u64 = 256 << 20;
const PERIODS: [usize; 9] = [1, 2, 3, 5, 7, 10, 15, 20, 30];
const HISTORIES: std::ops::RangeInclusive<usize> = 1..=predict::LONGEST;
/// Chunks of the tier in figure 2.
const SWEEP_CHUNKS: [usize; 4] = [4, 8, 16, 64];
/// Transactions after which somebody may look at the progress.
const PROGRESS_STEP: u64 = 50;

const NOTHING: Placement = Placement::NONE;
const METADATA: Placement = Placement { metadata: true, ..NOTHING };
const JOURNALS: Placement = Placement { journals: true, ..NOTHING };
const BOTH: Placement = Placement { metadata: true, journals: true };

const fn stock(name: &'static str, placement: Placement, tier: Option<(PolicyKind, u32)>) -> Scheme {
    Scheme { name, placement, tier, journal: Journal::Rollback, stack: Stack::Stock }
}

const fn ours(name: &'static str, journal: Journal, commits: Commits) -> Scheme {
    Scheme { name, placement: NOTHING, tier: None, journal, stack: Stack::Litefoot(commits) }
}

const SCHEMES: [Scheme; 15] = [
    stock("nand", NOTHING, None),
    stock("pffs2", METADATA, None),
    stock("journal", JOURNALS, None),
    stock("journal_pffs2", BOTH, None),
    stock("psqlite_k64", NOTHING, Some((PolicyKind::Ewma, 64))),
    stock("psqlite_k128", NOTHING, Some((PolicyKind::Ewma, 128))),
    stock("psqlite_k256", NOTHING, Some((PolicyKind::Ewma, 256))),
    stock("lru_k64", NOTHING, Some((PolicyKind::Lru, 64))),
    stock("lru_k256", NOTHING, Some((PolicyKind::Lru, 256))),
    stock("all_k64", BOTH, Some((PolicyKind::Ewma, 64))),
    stock("all_k128", BOTH, Some((PolicyKind::Ewma, 128))),
    stock("all_k256", BOTH, Some((PolicyKind::Ewma, 256))),
    ours("litefoot_pages", Journal::Rollback, Commits::Pages),
    ours("litefoot_statements", Journal::Wal, Commits::Statements),
    ours("litefoot_pram", Journal::Wal, Commits::StatementsOnPram),
];

/// Runs the experiment.
pub(super) fn run(options: &Options, progress: &mut dyn Progress) -> Result<Figures> {
    let transactions = if options.quick { QUICK_TRANSACTIONS } else { TRANSACTIONS };
    measure(FLASH_BYTES, transactions, options.seed, progress)
}

fn measure(flash_bytes: u64, transactions: u64, seed: u64, progress: &mut dyn Progress) -> Result<Figures> {
    let flash = Ftl::aged(Geometry::of(flash_bytes), FILLED_PERCENT, seed);
    let mut figures = Figures::new();
    figures.set("transactions", transactions as f64);
    sweeps(&flash, transactions.min(SWEEP_TRANSACTIONS), seed, &mut figures, progress)?;
    let (mut outcomes, mut of_sides) = (Vec::new(), Vec::new());
    for app in &APPS {
        let schemes = if app.is_of_the_paper() { &SCHEMES[..] } else { &[] };
        let mut all = compare(app, schemes, &flash, transactions, seed, progress)?;
        of_sides.push(all.split_off(schemes.len()));
        outcomes.push(all);
    }
    times(&outcomes, transactions, &mut figures);
    phone_book(&outcomes, &mut figures);
    sides::set_figures(&of_sides, &mut figures);
    Ok(figures)
}

/// Figures 2 and 3, from what the databases' transactions write.
fn sweeps(
    flash: &Ftl,
    transactions: u64,
    seed: u64,
    figures: &mut Figures,
    progress: &mut dyn Progress,
) -> Result<()> {
    let apps = || APPS.iter().filter(|app| app.is_of_the_paper());
    progress.begin("periods and predictors", apps().count() as u64);
    let mut traces = Vec::new();
    for app in apps() {
        traces.push(SCHEMES[0].trace(app, flash, transactions, seed)?);
        progress.advance(1)?;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let latencies = Latencies::default();
    // The paper leaves out the alarms here.
    let traces_of_figure_2 = &traces[..FIGURE_2];
    for chunks in SWEEP_CHUNKS {
        let time = |period| {
            let each = traces_of_figure_2.iter();
            let each: Vec<f64> =
                each.map(|trace| period::normalized_time(trace, period, chunks, &latencies)).collect();
            mean(&each)
        };
        let times = PERIODS.map(|period| (time(period), period));
        for (time, period) in times {
            figures.set(format!("period_time.k{chunks}.p{period}"), time);
        }
        if let Some((_, best)) = times.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            figures.set(format!("period_best.k{chunks}"), best as f64);
        }
    }
    let written =
        |trace: &trace::Trace| trace.transactions.iter().flatten().collect::<BTreeSet<_>>().len() as f64;
    figures.set("period_chunks", mean(&traces_of_figure_2.iter().map(written).collect::<Vec<_>>()));
    for method in Method::ALL {
        for history in HISTORIES {
            let each: Vec<f64> =
                traces.iter().map(|trace| predict::error(trace, method, 5, history)).collect();
            figures.set(format!("predictor_error.{}.h{history}", method.name()), mean(&each));
        }
    }
    Ok(())
}

/// One database on these systems of the paper's, and on all sides that a user can configure, one after the other.
fn compare(
    app: &App,
    schemes: &[Scheme],
    flash: &Ftl,
    transactions: u64,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Vec<Outcome>> {
    let all: Vec<&Scheme> = schemes.iter().chain(SIDES.iter().flatten()).collect();
    progress.begin(app.name, all.len() as u64 * transactions);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for scheme in all {
        let mut done = 0;
        let outcome = scheme.run(app, flash, transactions, seed, &mut || {
            done += 1;
            if done % PROGRESS_STEP == 0 { progress.advance(PROGRESS_STEP) } else { Ok(()) }
        })?;
        if let Some(nand) = outcomes.first() {
            outcome.agrees(nand, app, scheme)?;
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Figure 7.
fn times(outcomes: &[Vec<Outcome>], transactions: u64, figures: &mut Figures) {
    let us = |application: &str, scheme: usize| -> f64 {
        let of_it = APPS.iter().zip(outcomes).filter(|(app, _)| app.application == Some(application));
        of_it.map(|(_, outcomes)| outcomes[scheme].costs.us()).sum()
    };
    for application in APPLICATIONS {
        let databases = APPS.iter().filter(|app| app.application == Some(application)).count() as f64;
        let each = us(application, 0) / (databases * transactions as f64);
        figures.set(format!("nand_us_per_txn.{application}"), each);
    }
    let mut best = 0.0_f64;
    for (number, scheme) in SCHEMES.iter().enumerate().skip(1) {
        let mut sum = 0.0;
        for application in APPLICATIONS {
            let share = us(application, number) / us(application, 0);
            figures.set(format!("write_time.{application}.{}", scheme.name), share);
            sum += share;
        }
        let reduction = 1.0 - sum / APPLICATIONS.len() as f64;
        figures.set(format!("reduction.time_{}", scheme.name), reduction);
        if scheme.stack != Stack::Stock {
            best = best.max(reduction);
        }
    }
    figures.set("reduction.time_litefoot", best);
}

/// Figure 8.
fn phone_book(outcomes: &[Vec<Outcome>], figures: &mut Figures) {
    let Some((_, outcomes)) =
        APPS.iter().zip(outcomes).find(|(app, _)| app.application == Some("phone_book"))
    else {
        return;
    };
    let nand = outcomes[0].costs.nand;
    for (scheme, outcome) in SCHEMES.iter().zip(outcomes) {
        let counts = outcome.costs.nand;
        let amplification = counts.writes() as f64 / counts.host_writes.max(1) as f64;
        figures.set(format!("write_amplification.{}", scheme.name), amplification);
    }
    for (scheme, outcome) in SCHEMES.iter().zip(outcomes).skip(1) {
        let writes = outcome.costs.nand.host_writes as f64 / nand.host_writes.max(1) as f64;
        let erases = outcome.costs.nand.erases as f64 / nand.erases.max(1) as f64;
        figures.set(format!("nand_writes.{}", scheme.name), writes);
        figures.set(format!("erases.{}", scheme.name), erases);
        if let Some(chunks) = scheme.name.strip_prefix("psqlite_") {
            figures.set(format!("reduction.nand_writes_{chunks}"), 1.0 - writes);
            figures.set(format!("reduction.erases_{chunks}"), 1.0 - erases);
        }
        if let Some(wear) = outcome.wear() {
            figures.set(format!("wear.contacts2.{}", scheme.name), wear);
        }
    }
}

#[cfg(test)]
mod tests;

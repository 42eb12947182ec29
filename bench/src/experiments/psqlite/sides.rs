//! The sides that a user can configure, and what each of them saves.
//!
//! All sides commit durably (`synchronous=FULL`), and end with everything in the flash file. The base of a side has the
//! same journal mode: SQLite as it is, or a tier that has the logs alone.

use super::apps::{APPS, App};
use super::scheme::{Journal, Outcome, Scheme, Stack, TierOptions};
use crate::nand::{Costs, Placement};
use crate::report::Figures;
use litefoot_tier::PolicyKind;

/// A device whose directory has the logs, too.
const BESIDE_THE_LOGS: &str = "/pram/app.tier";
/// The same device under a name in the database's directory, as by a bind mount: the logs are on flash.
const ALONE: &str = "/data/data/app.tier";

const fn stock(name: &'static str, journal: Journal) -> Scheme {
    Scheme { name, placement: Placement::NONE, tier: None, journal, stack: Stack::Stock }
}

const fn tiered(
    name: &'static str,
    journal: Journal,
    path: &'static str,
    chunks: Option<u32>,
    kind: PolicyKind,
) -> Scheme {
    let stack = Stack::Tiered(TierOptions { path, chunks, kind });
    Scheme { name, placement: Placement::NONE, tier: None, journal, stack }
}

/// The sides of each journal mode: first stock, then the logs alone, then the others.
pub const SIDES: [[Scheme; 6]; 2] = [
    [
        stock("stock_rollback", Journal::Rollback),
        tiered("logs_rollback", Journal::Rollback, BESIDE_THE_LOGS, Some(256), PolicyKind::None),
        tiered("chunks_rollback_k256", Journal::Rollback, ALONE, Some(256), PolicyKind::Ewma),
        tiered("tier_rollback_k64", Journal::Rollback, BESIDE_THE_LOGS, Some(64), PolicyKind::Ewma),
        tiered("tier_rollback_k256", Journal::Rollback, BESIDE_THE_LOGS, Some(256), PolicyKind::Ewma),
        tiered("tier_rollback", Journal::Rollback, BESIDE_THE_LOGS, None, PolicyKind::Ewma),
    ],
    [
        stock("stock_wal", Journal::Wal),
        tiered("logs_wal", Journal::Wal, BESIDE_THE_LOGS, Some(256), PolicyKind::None),
        tiered("chunks_wal_k256", Journal::Wal, ALONE, Some(256), PolicyKind::Ewma),
        tiered("tier_wal_k64", Journal::Wal, BESIDE_THE_LOGS, Some(64), PolicyKind::Ewma),
        tiered("tier_wal_k256", Journal::Wal, BESIDE_THE_LOGS, Some(256), PolicyKind::Ewma),
        tiered("tier_wal", Journal::Wal, BESIDE_THE_LOGS, None, PolicyKind::Ewma),
    ],
];

/// The place of a base among its sides.
const STOCK: usize = 0;
const LOGS: usize = 1;

/// A name, and what of the costs it means.
type Measure = (&'static str, fn(&Costs) -> f64);

/// What the sides are compared by.
const MEASURES: [Measure; 3] = [
    ("writes", |costs| costs.nand.host_writes as f64),
    ("erases", |costs| costs.nand.erases as f64),
    ("time", Costs::us),
];

/// The figures of all sides; `outcomes` has those of each database, in the order of [`SIDES`].
pub fn set_figures(outcomes: &[Vec<Outcome>], figures: &mut Figures) {
    for (mode, sides) in SIDES.iter().enumerate() {
        let place = |side: usize| mode * sides.len() + side;
        for (number, side) in sides.iter().enumerate() {
            for (app, outcomes) in APPS.iter().zip(outcomes) {
                set_counts(side, app, &outcomes[place(number)], figures);
            }
            for workload in Workload::all() {
                let costs = |side: usize| workload.costs(outcomes, place(side));
                for (base, base_name) in [(STOCK, "over_stock"), (LOGS, "over_logs")] {
                    if number > base {
                        let name = format!("{}.{}", workload.name(), side.name);
                        set_shares(base_name, &name, &costs(number), &costs(base), figures);
                    }
                }
            }
        }
    }
}

/// One database, or those of the paper as a whole.
enum Workload {
    One(&'static App),
    Paper,
}

impl Workload {
    fn all() -> impl Iterator<Item = Workload> {
        APPS.iter().map(Workload::One).chain([Workload::Paper])
    }

    fn name(&self) -> &'static str {
        match self {
            Workload::One(app) => app.name,
            Workload::Paper => "paper",
        }
    }

    fn costs(&self, outcomes: &[Vec<Outcome>], side: usize) -> Vec<Costs> {
        let is_meant = |app: &App| match self {
            Workload::One(one) => one.name == app.name,
            Workload::Paper => app.is_of_the_paper(),
        };
        let meant = APPS.iter().zip(outcomes).filter(|(app, _)| is_meant(app));
        meant.map(|(_, outcomes)| outcomes[side].costs).collect()
    }
}

/// What a side has written of one database.
fn set_counts(side: &Scheme, app: &App, outcome: &Outcome, figures: &mut Figures) {
    let (name, nand) = (format!("{}.{}", app.name, side.name), outcome.costs.nand);
    figures.set(format!("pages.{name}"), nand.host_writes as f64);
    figures.set(format!("blocks_erased.{name}"), nand.erases as f64);
    figures.set(format!("pram_share.{name}"), 1.0 - nand.us() / outcome.costs.us());
    if !outcome.slot_writes.is_empty() {
        figures.set(format!("slots.{name}"), outcome.slot_writes.iter().sum::<u64>() as f64);
    }
    if let Some(wear) = outcome.wear() {
        figures.set(format!("wear.{name}"), wear);
    }
}

/// Writes, erases and time of a side, each as a share of its base; a share of nothing is left out.
fn set_shares(base_name: &str, name: &str, side: &[Costs], base: &[Costs], figures: &mut Figures) {
    for (measure, of) in MEASURES {
        let [side, base] = [side, base].map(|costs| costs.iter().map(of).sum::<f64>());
        if base > 0.0 {
            figures.set(format!("{base_name}.{measure}.{name}"), side / base);
        }
    }
}

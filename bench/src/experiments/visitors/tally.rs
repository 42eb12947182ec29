//! What was found in a journal mode, and its figures.

use super::content::WRITERS;
use super::running::Told;
use super::visit::{KINDS, Kind, Outcome};
use crate::Result;
use crate::harness::Latencies;
use crate::report::Figures;
use std::collections::BTreeMap;
use std::time::Duration;

/// Failures that are described.
const DESCRIBED: usize = 10;
/// A visitor that was refused later than this met somebody who wrote for as long: litefoot makes nobody wait longer.
const SOON: Duration = Duration::from_millis(250);

/// What was found in a journal mode.
pub struct Tally {
    /// Visits by the index of their kind.
    visits: [u64; KINDS.len()],
    pub kills: u64,
    killed_visitors: u64,
    /// Refusals by kind and text: of visitors alone, and of those that came with others.
    refusals: [BTreeMap<String, u64>; 2],
    /// Of those alone: such as were refused within [`SOON`].
    refused_soon: u64,
    mode_changes_refused: u64,
    owner_errors: Vec<String>,
    stale: Vec<String>,
    lost: Vec<String>,
    damaged: Vec<String>,
    /// Changes of the state of the database, of owners that were not killed.
    changes: u64,
    /// Snapshots held, and looks.
    pub readers: [u64; 2],
    /// Commits of each writer beside the visitors.
    pub made: [u64; WRITERS],
    pub visits_took: Latencies,
    pub idle_took: Latencies,
    /// Commits a second before the visitors, beside them, and one second after.
    pub before: f64,
    pub with: f64,
    pub after: f64,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Result<Tally> {
        Ok(Tally {
            visits: [0; KINDS.len()],
            kills: 0,
            killed_visitors: 0,
            refusals: Default::default(),
            refused_soon: 0,
            mode_changes_refused: 0,
            owner_errors: Vec::new(),
            stale: Vec::new(),
            lost: Vec::new(),
            damaged: Vec::new(),
            changes: 0,
            readers: [0; 2],
            made: [0; WRITERS],
            visits_took: Latencies::new()?,
            idle_took: Latencies::new()?,
            before: 0.0,
            with: 0.0,
            after: 0.0,
        })
    }

    /// Notes what came of a visit.
    pub fn visit(&mut self, kind: Kind, outcome: Outcome, in_burst: bool, took: Duration) {
        if let Some(index) = KINDS.iter().position(|(known, ..)| *known == kind) {
            self.visits[index] += 1;
        }
        let name = kind.name();
        match outcome {
            Outcome::Done => {}
            Outcome::Killed => self.killed_visitors += 1,
            Outcome::Stale(what) => self.stale.push(format!("{name}: stale: {what}")),
            Outcome::Damaged(what) => self.damaged.push(format!("{name}: damaged: {what}")),
            // SQLite makes no journal of a log that somebody else has open.
            Outcome::Refused(what) if kind == Kind::JournalMode && what.contains("locked") => {
                self.mode_changes_refused += 1;
            }
            Outcome::Refused(what) => {
                self.refused_soon += u64::from(!in_burst && took < SOON);
                *self.refusals[usize::from(in_burst)].entry(format!("{name}: {what}")).or_default() += 1;
            }
        }
    }

    /// Notes what an owner has said.
    pub fn owner(&mut self, told: Told) {
        self.owner_errors.extend(told.errors);
        self.stale.extend(told.stale);
        self.lost.extend(told.lost);
        self.changes += told.changes;
    }

    /// Notes what a comparison of the whole content has found.
    pub fn verdict(&mut self, verdict: std::result::Result<(), String>) {
        match verdict {
            Ok(()) => {}
            Err(what) if what.contains("lost: ") => self.lost.push(what),
            Err(what) => self.damaged.push(what),
        }
    }

    /// Adds the figures of a journal mode to those of the experiment.
    pub fn report(&self, mode: &str, figures: &mut Figures) {
        for ((_, name, _), count) in KINDS.iter().zip(self.visits) {
            figures.set(format!("{name}.{mode}"), count as f64);
        }
        let [alone, in_bursts] = self.refusals.each_ref().map(|texts| texts.values().sum::<u64>());
        let [snapshots, looks] = self.readers;
        for (name, number) in [
            ("visits", self.visits.iter().sum()),
            ("visitors_killed", self.killed_visitors),
            ("visitor_errors", alone),
            ("visitor_errors_soon", self.refused_soon),
            ("visitor_errors_in_bursts", in_bursts),
            ("mode_changes_refused", self.mode_changes_refused),
            ("owners_killed", self.kills),
            ("state_changes", self.changes),
            ("snapshots", snapshots),
            ("looks", looks),
            ("owner_errors", self.owner_errors.len() as u64),
            ("stale", self.stale.len() as u64),
            ("lost", self.lost.len() as u64),
            ("damaged", self.damaged.len() as u64),
        ] {
            figures.set(format!("{name}.{mode}"), number as f64);
        }
        for (name, latencies) in [("visit", &self.visits_took), ("idle", &self.idle_took)] {
            for (part, share) in [("p50", 0.5), ("p99", 0.99)] {
                figures.set(format!("{name}_{part}_us.{mode}"), latencies.percentile_us(share));
            }
        }
        for (name, value) in [("before", self.before), ("with", self.with), ("after", self.after)] {
            figures.set(format!("{name}_per_s.{mode}"), value);
        }
        let [least, most] =
            [self.made.iter().min(), self.made.iter().max()].map(|made| made.copied().unwrap_or(0));
        figures.set(format!("least_over_most.{mode}"), least as f64 / most.max(1) as f64);
        for (texts, when) in self.refusals.iter().zip(["", " (several at once)"]) {
            for (text, count) in texts {
                figures.note(format!("{mode}: {count:6} {text}{when}"));
            }
        }
        for what in [&self.owner_errors, &self.stale, &self.lost, &self.damaged].into_iter().flatten() {
            if figures.alarms().len() < DESCRIBED {
                figures.alarm(format!("{mode}: {what}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_figures_and_what_must_not_be_is_an_alarm() {
        let mut tally = Tally::new().unwrap();
        let locked = || Outcome::Refused("database is locked (5)".to_owned());
        let mut visit = |kind, outcome, in_burst, ms| {
            tally.visit(kind, outcome, in_burst, Duration::from_millis(ms));
        };
        visit(Kind::Select, Outcome::Done, false, 1);
        visit(Kind::Select, locked(), false, 249);
        visit(Kind::Select, locked(), false, 250);
        visit(Kind::Insert, locked(), true, 1);
        visit(Kind::JournalMode, locked(), false, 1);
        tally.made = [6, 3, 4];
        let mut figures = Figures::new();
        tally.report("wal", &mut figures);
        assert!(figures.check().is_ok() && figures.alarms().is_empty());
        for (name, value) in [
            ("visits.wal", 5.0),
            ("select.wal", 3.0),
            ("visitor_errors.wal", 2.0),
            ("visitor_errors_soon.wal", 1.0),
            ("visitor_errors_in_bursts.wal", 1.0),
            ("mode_changes_refused.wal", 1.0),
            ("least_over_most.wal", 0.5),
        ] {
            assert_eq!(figures.get(name), Some(value), "{name}");
        }
        tally.visit(Kind::Dump, Outcome::Stale("1 of 2".to_owned()), false, Duration::ZERO);
        tally.verdict(Err("stock after a kill: lost: 3".to_owned()));
        tally.verdict(Err("damaged: page 3".to_owned()));
        tally.owner(Told { errors: vec!["error open".to_owned()], ..Told::default() });
        tally.report("wal", &mut figures);
        assert_eq!(figures.alarms().len(), 4);
        for name in ["stale.wal", "lost.wal", "damaged.wal", "owner_errors.wal"] {
            assert_eq!(figures.get(name), Some(1.0), "{name}");
        }
    }
}

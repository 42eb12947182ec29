//! What the rounds of a pattern have shown, as figures.

use super::program::Outcome;
use crate::harness::device::Counters;
use crate::harness::{median, median_ratio};

/// Litefoot's counters of commits: those in a log of records, and those as pages.
const RECORDS: [&str; 2] = ["commits_deltas", "commits_statements"];
const PAGES: &str = "commits_pages";
const ONE_BLOCK: &str = "commits_one_block";

/// The outcomes of all rounds.
#[derive(Default)]
pub struct Measured {
    stock: Vec<Outcome>,
    litefoot: Vec<Outcome>,
}

impl Measured {
    /// A round.
    pub fn add(&mut self, stock: Outcome, litefoot: Outcome) {
        self.stock.push(stock);
        self.litefoot.push(litefoot);
    }

    /// Name and value of each figure, of rounds with so many commits after so many that warmed up.
    pub fn figures(&self, commits: u64, warm_up: u64) -> Vec<(String, f64)> {
        let mut figures = Vec::new();
        let (each, all) = (commits as f64, (commits + warm_up) as f64);
        let devices: [(&str, CountersOf, &str, f64); 2] = [
            ("", |outcome| outcome.steady, "bytes_ratio", each),
            ("life_", |outcome| outcome.life, "life_ratio", all),
        ];
        for (prefix, of, ratio, over) in devices {
            let Some([stock, litefoot]) = self.counted(of) else { continue };
            let (bytes, flushes) =
                (|seen: &Counters| seen.bytes as f64, |seen: &Counters| seen.flushes as f64);
            for (side, seen) in [("stock", &stock), ("litefoot", &litefoot)] {
                figures.push((format!("{side}_{prefix}bytes"), median(seen.iter().map(bytes)) / over));
                figures.push((format!("{side}_{prefix}flushes"), median(seen.iter().map(flushes)) / over));
            }
            // What nothing was written for is no measure.
            let at_least_one =
                |seen: &[Counters]| seen.iter().map(|seen| bytes(seen).max(1.0)).collect::<Vec<_>>();
            figures.push((ratio.to_owned(), median_ratio(&at_least_one(&litefoot), &at_least_one(&stock))));
        }
        let rates = |outcomes: &[Outcome]| -> Vec<f64> {
            outcomes.iter().map(|outcome| each / outcome.seconds.max(1e-9)).collect()
        };
        let (stock, litefoot) = (rates(&self.stock), rates(&self.litefoot));
        figures.push(("rate_ratio".to_owned(), median_ratio(&litefoot, &stock)));
        figures.push(("stock_per_s".to_owned(), median(stock)));
        figures.push(("litefoot_per_s".to_owned(), median(litefoot)));
        // A program whose connections cannot be asked has no figures of litefoot's own.
        let answered = self.litefoot.iter().any(|outcome| !outcome.figures.is_empty());
        for (name, of) in OWN.iter().filter(|_| answered) {
            let shares = self.litefoot.iter().map(|outcome| of(outcome) / known_commits(outcome).max(1.0));
            figures.push(((*name).to_owned(), median(shares)));
        }
        figures
    }

    /// Both sides' counters, if the device was counted.
    fn counted(&self, of: CountersOf) -> Option<[Vec<Counters>; 2]> {
        let side = |outcomes: &[Outcome]| outcomes.iter().map(of).collect::<Option<Vec<_>>>();
        Some([side(&self.stock)?, side(&self.litefoot)?])
    }
}

type CountersOf = fn(&Outcome) -> Option<Counters>;
type NumberOf = fn(&Outcome) -> f64;

/// Figures of litefoot's own, for each commit that it knows of.
const OWN: &[(&str, NumberOf)] = &[
    ("own_bytes", |outcome| ending(outcome, "_block_bytes")),
    ("own_syncs", |outcome| ending(outcome, "_syncs")),
    ("one_block", |outcome| figure(outcome, ONE_BLOCK)),
    ("deltas", |outcome| RECORDS.iter().map(|name| figure(outcome, name)).sum()),
];

fn figure(outcome: &Outcome, name: &str) -> f64 {
    outcome.figures.get(name).copied().unwrap_or_default()
}

fn ending(outcome: &Outcome, end: &str) -> f64 {
    outcome.figures.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, value)| value).sum()
}

/// Commits that litefoot has counted: all, or those of the connections that were asked.
fn known_commits(outcome: &Outcome) -> f64 {
    RECORDS.iter().chain([&PAGES]).map(|name| figure(outcome, name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(seconds: f64, bytes: u64, figures: &[(&str, f64)]) -> Outcome {
        Outcome {
            seconds,
            steady: Some(Counters { bytes, flushes: bytes / 4096 }),
            life: Some(Counters { bytes: 3 * bytes, flushes: 7 }),
            figures: figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    fn of(figures: &[(String, f64)], name: &str) -> Option<f64> {
        figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    #[test]
    fn figures_are_for_a_commit_and_ratios_within_a_round() {
        let mut measured = Measured::default();
        let own = [
            ("commits_deltas", 90.0),
            ("commits_pages", 10.0),
            ("commits_one_block", 85.0),
            ("commit_log_syncs", 95.0),
            ("redo_log_syncs", 10.0),
            ("redo_log_block_bytes", 409_600.0),
        ];
        measured.add(outcome(1.0, 819_200, &[]), outcome(0.5, 409_600, &own));
        measured.add(outcome(10.0, 819_200, &[]), outcome(5.0, 409_600, &own));
        let figures = measured.figures(100, 20);
        for (name, value) in [
            ("stock_bytes", 8192.0),
            ("litefoot_bytes", 4096.0),
            ("litefoot_flushes", 1.0),
            ("bytes_ratio", 0.5),
            ("stock_life_bytes", 20_480.0),
            ("life_ratio", 0.5),
            ("rate_ratio", 2.0),
            ("stock_per_s", 55.0),
            ("own_bytes", 4096.0),
            ("own_syncs", 1.05),
            ("one_block", 0.85),
            ("deltas", 0.9),
        ] {
            let seen = of(&figures, name).unwrap();
            assert!((seen - value).abs() < 1e-9, "{name}: {seen}");
        }
    }

    #[test]
    fn without_a_device_there_is_litefoots_own_count_alone() {
        let mut measured = Measured::default();
        let mut sides = [
            outcome(1.0, 0, &[]),
            outcome(1.0, 0, &[("commits_pages", 4.0), ("database_block_bytes", 8192.0)]),
        ];
        for side in &mut sides {
            (side.steady, side.life) = (None, None);
        }
        let [stock, litefoot] = sides;
        measured.add(stock, litefoot);
        let figures = measured.figures(100, 20);
        assert_eq!(of(&figures, "own_bytes"), Some(2048.0));
        assert!(figures.iter().all(|(name, _)| !name.starts_with("stock_b") && name != "bytes_ratio"));
        let idle = Measured { stock: vec![Outcome::default()], litefoot: vec![Outcome::default()] };
        assert!(idle.figures(1, 0).iter().all(|(_, value)| value.is_finite()));
    }
}

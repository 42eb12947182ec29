//! The decision about hot chunks: the set that gains most (P-SQLITE, section IV.B, formulas 1 to 3).
//!
//! ```text
//! EWMA of the next period  = α · writes + (1 - α) · EWMA                 α = 2 / (N + 1), N = 2 periods
//! TotalGain(τ) = (flash write - tier write) · Σ C(i), i ≤ τ
//!              - (tier read + flash write) · chunks that must make room
//! ```
//!
//! C(i) are the expected writes, in descending order. The paper prints α as "2/N + 1" and calls N the period in
//! transactions. Periods of five transactions, and N = 2 periods, give the rows of its figure 4.

use super::small_float::SmallFloat;
use std::fmt;
use std::str::FromStr;

/// The costs of reading and writing one chunk, in microseconds; as text `800,204.8,40.96`, in this order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Writing a chunk to flash.
    pub flash_write_us: f64,
    /// Writing a chunk to the tier.
    pub tier_write_us: f64,
    /// Reading a chunk from the tier.
    pub tier_read_us: f64,
}

impl Default for Latencies {
    /// The latencies of the paper's table II: a page of NAND in 800 us; PRAM at 100 and 20 ns a byte.
    fn default() -> Latencies {
        Latencies { flash_write_us: 800.0, tier_write_us: 204.8, tier_read_us: 40.96 }
    }
}

impl FromStr for Latencies {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Latencies, &'static str> {
        let values: Option<Vec<f64>> = text.split(',').map(|value| value.trim().parse().ok()).collect();
        match values.as_deref() {
            Some(&[flash_write_us, tier_write_us, tier_read_us])
                if values.iter().flatten().all(|value| value.is_finite() && *value >= 0.0) =>
            {
                Ok(Latencies { flash_write_us, tier_write_us, tier_read_us })
            }
            _ => Err("three numbers of microseconds"),
        }
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.flash_write_us, self.tier_write_us, self.tier_read_us)
    }
}

/// The weight of the current period, where `periods` count: 2 / (periods + 1).
pub fn alpha(periods: u32) -> f64 {
    2.0 / (f64::from(periods) + 1.0)
}

/// Expected writes of the next period.
pub fn expected(alpha: f64, writes: u8, ewma: f64) -> f64 {
    alpha * f64::from(writes) + (1.0 - alpha) * ewma
}

/// A chunk that may be hot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its number.
    pub chunk: u32,
    /// Expected writes of the next period.
    pub expected: SmallFloat,
    /// True if it is on the tier already.
    pub on_tier: bool,
}

/// The room of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Chunks it can hold.
    pub capacity: usize,
    /// Chunks it has room for.
    pub used: usize,
}

/// τ: how many of the candidates, which are in descending order, are hot. The smallest of equally good numbers,
/// and never more than there is room for.
pub fn hot_chunks(candidates: &[Candidate], room: Room, latencies: &Latencies) -> usize {
    let free = room.capacity.saturating_sub(room.used);
    let (mut writes, mut arriving) = (0.0, 0_usize);
    let (mut best, mut best_gain) = (0, 0.0);
    for (index, candidate) in candidates.iter().enumerate().take(room.capacity) {
        writes += candidate.expected.value();
        arriving += usize::from(!candidate.on_tier);
        let gain = total_gain(writes, arriving.saturating_sub(free), latencies);
        if gain > best_gain {
            (best, best_gain) = (index + 1, gain);
        }
    }
    best
}

/// True if it pays that a chunk takes the place of the coldest one, by as many writes as it is expected to have more:
/// TotalGain of these two alone, over the `periods` that count on average.
pub fn pays_to_replace(expected: f64, coldest: f64, periods: u32, latencies: &Latencies) -> bool {
    total_gain((expected - coldest) / alpha(periods), 1, latencies) > 0.0
}

fn total_gain(writes: f64, making_room: usize, latencies: &Latencies) -> f64 {
    (latencies.flash_write_us - latencies.tier_write_us) * writes
        - (latencies.tier_read_us + latencies.flash_write_us) * making_room as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(rows: &[(f64, bool)]) -> Vec<Candidate> {
        let candidate = |(chunk, (expected, on_tier)): (usize, &(f64, bool))| Candidate {
            chunk: chunk as u32,
            expected: SmallFloat::new(*expected),
            on_tier: *on_tier,
        };
        rows.iter().enumerate().map(candidate).collect()
    }

    /// P-SQLITE, figure 4.
    #[test]
    fn the_rows_of_figure_4() {
        assert_eq!(alpha(2), 2.0 / 3.0);
        for (writes, ewma, next) in [(5, 4.96, 4.99), (4, 3.67, 3.89), (2, 1.22, 1.74), (1, 0.67, 0.89)] {
            let found = expected(alpha(2), writes, ewma);
            assert_eq!(format!("{found:.2}"), format!("{next:.2}"));
        }
    }

    #[test]
    fn decisions_by_hand() {
        const HOME: bool = false;
        const TIER: bool = true;
        // A write gained saves 600, a chunk that makes room costs 840: 1.4 writes.
        let latencies = Latencies { flash_write_us: 800.0, tier_write_us: 200.0, tier_read_us: 40.0 };
        type Case = (&'static str, &'static [(f64, bool)], Room, usize);
        let cases: [Case; 9] = [
            ("nothing", &[], Room { capacity: 9, used: 0 }, 0),
            ("room for all", &[(5.0, HOME), (0.5, HOME)], Room { capacity: 9, used: 0 }, 2),
            ("a free slot for one", &[(5.0, HOME), (1.25, HOME)], Room { capacity: 9, used: 8 }, 1),
            ("it pays to make room", &[(5.0, HOME), (1.5, HOME)], Room { capacity: 9, used: 9 }, 2),
            ("it does not", &[(1.25, HOME), (1.0, HOME)], Room { capacity: 9, used: 9 }, 0),
            ("those there stay", &[(1.25, TIER), (1.0, TIER)], Room { capacity: 2, used: 2 }, 2),
            // -90, then +600: the one that does not pay comes along.
            (
                "one carries another",
                &[(5.0, TIER), (1.25, HOME), (1.0, TIER)],
                Room { capacity: 9, used: 9 },
                3,
            ),
            (
                "never more than fit",
                &[(5.0, HOME), (5.0, HOME), (5.0, HOME)],
                Room { capacity: 2, used: 0 },
                2,
            ),
            ("no tier", &[(5.0, HOME)], Room { capacity: 0, used: 0 }, 0),
        ];
        for (name, rows, room, expected) in cases {
            assert_eq!(hot_chunks(&candidates(rows), room, &latencies), expected, "{name}");
        }
        // Equally good: the smaller number.
        let even = Latencies { flash_write_us: 2.0, tier_write_us: 1.0, tier_read_us: 0.0 };
        let rows = candidates(&[(4.0, HOME), (2.0, HOME)]);
        assert_eq!(hot_chunks(&rows, Room { capacity: 2, used: 1 }, &even), 1);
    }

    #[test]
    fn one_chunk_replaces_another_where_the_difference_pays() {
        // A write gained saves 600, over 5 periods 3000; a chunk that makes room costs 840.
        let latencies = Latencies { flash_write_us: 800.0, tier_write_us: 200.0, tier_read_us: 40.0 };
        for (expected, coldest, pays) in
            [(0.4, 0.0, true), (0.4, 0.11, true), (0.4, 0.13, false), (0.2, 0.0, false), (0.2, 0.4, false)]
        {
            assert_eq!(pays_to_replace(expected, coldest, 9, &latencies), pays, "{expected} for {coldest}");
        }
    }

    #[test]
    fn latencies_are_read_as_they_are_written() {
        for text in ["800,204.8,40.96", "0,0,0", "25,1.5,1"] {
            assert_eq!(text.parse::<Latencies>().unwrap().to_string(), text);
        }
        assert_eq!(Latencies::default().to_string(), "800,204.8,40.96");
        for text in ["", "800", "800,200", "1,2,3,4", "800,-1,1", "800,NaN,1", "inf,1,1", "a,b,c"] {
            assert!(text.parse::<Latencies>().is_err(), "{text}");
        }
    }

    proptest! {
        /// Against the formula, computed anew for every τ.
        #[test]
        fn it_is_the_argmax_of_the_formula(
            mut rows in prop::collection::vec((0.0..6.0_f64, any::<bool>()), 0..40),
            capacity in 0..50_usize,
            used in 0..50_usize,
            flash in 1.0..1000.0_f64,
            tier in 0.0..1000.0_f64,
            read in 0.0..100.0_f64,
        ) {
            rows.sort_by(|a, b| b.0.total_cmp(&a.0));
            let rows = candidates(&rows);
            let used = used.min(capacity);
            let latencies = Latencies { flash_write_us: flash, tier_write_us: tier, tier_read_us: read };
            let gain = |tau: usize| {
                let writes: f64 = rows[..tau].iter().map(|row| row.expected.value()).sum();
                let arriving = rows[..tau].iter().filter(|row| !row.on_tier).count();
                let must = arriving.saturating_sub(capacity - used);
                (flash - tier) * writes - (read + flash) * must as f64
            };
            let mut best = 0;
            for tau in 0..=rows.len().min(capacity) {
                if gain(tau) > gain(best) {
                    best = tau;
                }
            }
            prop_assert_eq!(hot_chunks(&rows, Room { capacity, used }, &latencies), best);
        }
    }
}

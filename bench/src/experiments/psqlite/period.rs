//! How long a period should be (P-SQLITE, figure 2): the paper's simple policy on the writes of a database file.
//!
//! A chunk is hot when more than half of a period's transactions have written it. It moves when it is next written, and
//! the chunk written longest ago makes room.

use super::trace::Trace;
use litefoot_tier::policy::{Latencies, Lru};
use std::collections::{BTreeMap, BTreeSet};

/// The time of all writes with periods of so many transactions and a tier of so many chunks, against that without a
/// tier.
pub fn normalized_time(trace: &Trace, transactions: usize, chunks: usize, latencies: &Latencies) -> f64 {
    let mut residents = Lru::new();
    let mut held: BTreeSet<u32> = BTreeSet::new();
    let mut marked: BTreeSet<u32> = BTreeSet::new();
    let (mut us, mut flash_us) = (0.0, 0.0);
    for period in trace.transactions.chunks(transactions) {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for chunk in period.iter().flatten() {
            *counts.entry(*chunk).or_default() += 1;
            flash_us += latencies.flash_write_us;
            if held.contains(chunk) {
                residents.write(*chunk);
                us += latencies.tier_write_us;
            } else if marked.contains(chunk) {
                if held.len() == chunks
                    && let Some(victim) = residents.victim()
                {
                    residents.left(victim);
                    held.remove(&victim);
                    us += latencies.tier_read_us + latencies.flash_write_us;
                }
                residents.arrived(*chunk);
                held.insert(*chunk);
                us += latencies.tier_write_us;
            } else {
                us += latencies.flash_write_us;
            }
        }
        marked = counts
            .into_iter()
            .filter(|(_, count)| 2 * count > period.len())
            .map(|(chunk, _)| chunk)
            .collect();
    }
    if flash_us == 0.0 { 1.0 } else { us / flash_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_hand() {
        let latencies = Latencies { flash_write_us: 800.0, tier_write_us: 200.0, tier_read_us: 40.0 };
        let mut trace = Trace::default();
        trace.transactions = vec![BTreeSet::from([3]); 10];
        // Five writes to flash, five to the tier.
        assert!((normalized_time(&trace, 5, 8, &latencies) - 5000.0 / 8000.0).abs() < 1e-9);
        assert!((normalized_time(&trace, 1, 8, &latencies) - 2600.0 / 8000.0).abs() < 1e-9);
        // Two that push each other out of a single slot.
        trace.transactions = vec![BTreeSet::from([3, 4]); 10];
        let expected = 10.0 * 800.0 + 200.0 + 9.0 * (840.0 + 200.0);
        assert!((normalized_time(&trace, 5, 1, &latencies) - expected / 16_000.0).abs() < 1e-9);
    }
}

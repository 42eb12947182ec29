//! Latencies, kept as a histogram of three significant digits.

use crate::{Error, Result};
use hdrhistogram::Histogram;
use std::time::Duration;

const SIGNIFICANT_DIGITS: u8 = 3;
/// The longest latency that is told apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How long each of many operations took.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Nanoseconds.
    histogram: Histogram<u64>,
    total: Duration,
}

impl Latencies {
    /// No operation yet.
    ///
    /// # Errors
    /// [`Error::Histogram`] should the histogram refuse its precision.
    pub fn new() -> Result<Latencies> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
            .map_err(|error| Error::Histogram(error.to_string()))?;
        Ok(Latencies { histogram, total: Duration::ZERO })
    }

    /// One operation.
    pub fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.total += took;
    }

    /// Adds all of `other`'s operations.
    ///
    /// # Errors
    /// [`Error::Histogram`] should the histogram refuse a value of the other.
    pub fn add(&mut self, other: &Latencies) -> Result<()> {
        self.histogram.add(&other.histogram).map_err(|error| Error::Histogram(error.to_string()))?;
        self.total += other.total;
        Ok(())
    }

    /// How many operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their time added up, to the nanosecond.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The latency that this share of the operations does not exceed, in microseconds.
    pub fn percentile_us(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_have_three_digits() {
        let mut latencies = Latencies::new().unwrap();
        let mut second = Latencies::new().unwrap();
        for us in 1..=1000 {
            let half = if us % 2 == 0 { &mut latencies } else { &mut second };
            half.record(Duration::from_micros(us));
        }
        latencies.add(&second).unwrap();
        assert_eq!(latencies.count(), 1000);
        assert_eq!(latencies.total(), Duration::from_micros(500_500));
        for (share, expected_us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let us = latencies.percentile_us(share);
            assert!((us - expected_us).abs() <= expected_us * 0.002, "{share}: {us}");
        }
    }
}

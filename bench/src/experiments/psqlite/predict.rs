//! How well the writes of the next period are predicted from those of the last ones (P-SQLITE, figure 3).
//!
//! The error of a prediction is its distance from what came, as a share of the transactions of a period: the most that
//! can come. For every method it is averaged over all chunks that were written in the current period or in one of the
//! last [`LONGEST`]. Of the other chunks nothing is predicted and nothing comes.

use super::trace::Trace;
use litefoot_tier::policy::{alpha, expected};
use std::collections::BTreeMap;

/// A way to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The mean of the last periods.
    Ma,
    /// The same, the last one counting most.
    Wma,
    /// Exponential weights.
    Ewma,
}

impl Method {
    pub const ALL: [Method; 3] = [Method::Ma, Method::Wma, Method::Ewma];

    pub fn name(self) -> &'static str {
        match self {
            Method::Ma => "ma",
            Method::Wma => "wma",
            Method::Ewma => "ewma",
        }
    }
}

/// Periods that any method looks back at.
pub const LONGEST: usize = 5;

/// The predictor's knowledge of a chunk.
#[derive(Clone, Debug, Default)]
struct History {
    /// Writes of the last periods, the newest first.
    writes: Vec<u8>,
    ewma: f64,
}

impl History {
    fn predict(&self, method: Method, periods: usize) -> f64 {
        let newest = |place: usize| f64::from(self.writes.get(place).copied().unwrap_or(0));
        match method {
            Method::Ma => (0..periods).map(newest).sum::<f64>() / periods as f64,
            Method::Wma => {
                let weights: usize = (1..=periods).sum();
                (0..periods).map(|place| (periods - place) as f64 * newest(place)).sum::<f64>()
                    / weights as f64
            }
            Method::Ewma => self.ewma,
        }
    }

    fn add(&mut self, writes: u8, periods: usize) {
        self.writes.insert(0, writes);
        self.writes.truncate(LONGEST);
        self.ewma = expected(alpha(periods as u32), writes, self.ewma);
    }
}

/// The mean error of a method that looks back so many periods of so many transactions.
pub fn error(trace: &Trace, method: Method, transactions: usize, periods: usize) -> f64 {
    let mut chunks: BTreeMap<u32, History> = BTreeMap::new();
    let (mut sum, mut count) = (0.0, 0_u64);
    for (number, period) in trace.transactions.chunks_exact(transactions).enumerate() {
        let mut writes: BTreeMap<u32, u8> = BTreeMap::new();
        for chunk in period.iter().flatten() {
            *writes.entry(*chunk).or_default() += 1;
        }
        for chunk in writes.keys() {
            chunks.entry(*chunk).or_default();
        }
        for (chunk, history) in &mut chunks {
            let came = writes.get(chunk).copied().unwrap_or(0);
            if number >= LONGEST {
                let predicted = history.predict(method, periods);
                sum += (predicted - f64::from(came)).abs() / transactions as f64;
                count += 1;
            }
            history.add(came, periods);
        }
        chunks.retain(|_, history| history.writes.iter().any(|writes| *writes > 0));
    }
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(transactions: &[&[u32]]) -> Trace {
        let mut trace = Trace::default();
        trace.transactions = transactions.iter().map(|chunks| chunks.iter().copied().collect()).collect();
        trace
    }

    #[test]
    fn predictions_by_hand() {
        let mut history = History::default();
        for writes in [1, 4, 5] {
            history.add(writes, 2);
        }
        assert_eq!(history.predict(Method::Ma, 2), 4.5);
        assert!((history.predict(Method::Wma, 2) - (2.0 * 5.0 + 4.0) / 3.0).abs() < 1e-9);
        // 2/3, 2.888…, 4.296…
        assert!((history.predict(Method::Ewma, 2) - 4.2963).abs() < 1e-4);
    }

    #[test]
    fn what_never_changes_is_predicted_and_what_alternates_is_not() {
        let even: Vec<&[u32]> = vec![&[7]; 40];
        assert_eq!(error(&trace(&even), Method::Ma, 2, 2), 0.0);
        let odd: Vec<&[u32]> = (0..40).map(|n| if n % 2 == 0 { &[7][..] } else { &[] }).collect();
        assert_eq!(error(&trace(&odd), Method::Ma, 1, 1), 1.0);
        assert_eq!(error(&trace(&odd), Method::Ma, 1, 2), 0.5);
    }
}

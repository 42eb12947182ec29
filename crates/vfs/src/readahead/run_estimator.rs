//! Run estimator: how long streams have been, and so how far to read ahead of one.
//!
//! # Why
//! A range of fifty rows and a scan begin alike. A window that doubles for both reads twice what the range needs; a window
//! that is small for both makes the scan wait. The streams of the past tell them apart. A stream that stopped early is a
//! short run, and the next stream of that length is not trusted further.
//!
//! # The rule
//! A stream has used `r` pages and has `w` more on the way. Of these, `u` will be used if the stream does what earlier
//! streams did that came as far. A request is allowed while `w - u <= (r + u) / 8`. Then the expected waste is at most
//! a [`USED_PER_WASTE`]th of the pages that will have been used.
//!
//! # What it promises
//! 1. An eighth of what a stream has used may always be on the way: a stream starts without credit.
//! 2. A new estimator believes in [`CREDIT`] endless streams; a few that stop early use that up.
//! 3. Old runs fade: the last [`REMEMBERED`] count half or more.
//!
//! A run counts as the shortest length of its bucket: a doubtful case reads too little rather than too much.

/// Used pages that pay for one wasted page.
pub(super) const USED_PER_WASTE: u64 = 8;
/// Endless runs that a new estimator believes in.
const CREDIT: u32 = 4;
/// Runs after which everything seen counts half.
const REMEMBERED: u32 = 64;
/// Weight of a run, which can be halved a few times.
const WEIGHT: u32 = 16;

/// Buckets of lengths: one for each length up to 8; beyond, four for each doubling.
const BUCKETS: usize = 8 + 4 * 10;

/// The bucket of a length.
fn bucket(length: u32) -> usize {
    if length <= 8 {
        return length.max(1) as usize - 1;
    }
    let doubling = length.ilog2() as usize;
    let quarter = (length >> (doubling - 2)) as usize & 3;
    (8 + (doubling - 3) * 4 + quarter - 1).min(BUCKETS - 1)
}

/// The shortest length of a bucket.
fn first_length(bucket: usize) -> u32 {
    if bucket < 8 {
        return bucket as u32 + 1;
    }
    let (doubling, quarter) = ((bucket - 7) / 4 + 3, (bucket - 7) % 4);
    (4 + quarter as u32) << (doubling - 2)
}

/// Lengths of the streams of one kind that have ended.
#[derive(Debug)]
pub(super) struct RunEstimator {
    /// Weight of the ended runs, by bucket.
    ended: [u16; BUCKETS],
    /// Weight of the endless runs.
    endless: u16,
}

impl Default for RunEstimator {
    fn default() -> RunEstimator {
        RunEstimator { ended: [0; BUCKETS], endless: (CREDIT * WEIGHT) as u16 }
    }
}

impl RunEstimator {
    /// A stream has ended after `length` used pages.
    pub fn end(&mut self, length: u32) {
        self.ended[bucket(length)] += WEIGHT as u16;
        let total: u32 = self.ended.iter().map(|count| u32::from(*count)).sum();
        if total > REMEMBERED * WEIGHT {
            self.ended.iter_mut().for_each(|count| *count /= 2);
            self.endless = (self.endless / 2).max(WEIGHT as u16);
        }
    }

    /// The pages that may be on the way of a stream that has used `run` pages, at most `most`. `idle` are the runs of streams
    /// that may have ended.
    pub fn allowed(&self, run: u32, most: u32, idle: impl Iterator<Item = u32>) -> u32 {
        let mut ended = self.ended;
        idle.for_each(|length| ended[bucket(length)] += WEIGHT as u16);
        let (mut refused, mut allowed) = (most + 1, 0);
        while refused - allowed > 1 {
            let middle = allowed + (refused - allowed) / 2;
            if is_worth(&ended, self.endless, run, middle) {
                allowed = middle;
            } else {
                refused = middle;
            }
        }
        allowed
    }
}

/// The rule above without fractions: `8 w <= r + 9 u`.
fn is_worth(ended: &[u16; BUCKETS], endless: u16, run: u32, window: u32) -> bool {
    let (mut weight, mut used) = (u64::from(endless), u64::from(endless) * u64::from(window));
    for (bucket, count) in ended.iter().enumerate().skip(bucket(run)) {
        weight += u64::from(*count);
        used += u64::from(*count) * u64::from(first_length(bucket).saturating_sub(run).min(window));
    }
    USED_PER_WASTE * u64::from(window) * weight <= u64::from(run) * weight + (USED_PER_WASTE + 1) * used
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(lengths: &[u32]) -> RunEstimator {
        let mut estimator = RunEstimator::default();
        lengths.iter().for_each(|length| estimator.end(*length));
        estimator
    }

    #[test]
    fn buckets_cover_all_lengths_in_order() {
        for length in 1..20_000 {
            let place = bucket(length);
            assert!(first_length(place) <= length, "{length}");
            assert!(place == BUCKETS - 1 || length < first_length(place + 1), "{length}");
        }
        assert_eq!(bucket(u32::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_streams_did_decides_how_far_the_next_may_go() {
        let threes_and_fours = [3, 4, 3, 4].repeat(16);
        let fifties = [50].repeat(40);
        for (name, ended, run, most, allowed) in [
            ("nothing seen", &[][..], 2, 4, 4),
            ("nothing seen, further", &[], 100, 256, 256),
            ("one stopped early", &[2], 2, 4, 2),
            ("two did", &[2, 2], 2, 4, 1),
            ("false alarms", &[2; 30], 2, 4, 0),
            ("longer than any of them", &[2; 30], 3, 4, 4),
            ("three or four pages", &threes_and_fours, 2, 4, 1),
            ("three or four, at the third", &threes_and_fours, 3, 4, 0),
            ("four or five, mostly five", &[5, 5, 5, 4].repeat(16), 2, 4, 3),
            ("fifty, at its beginning", &fifties, 2, 4, 4),
            ("fifty, in the middle", &fifties, 30, 64, 24),
            ("fifty, near the end", &fifties, 46, 64, 8),
        ] {
            assert_eq!(after(ended).allowed(run, most, std::iter::empty()), allowed, "{name}");
        }
    }

    #[test]
    fn streams_that_fell_silent_count_as_ended() {
        let estimator = RunEstimator::default();
        assert_eq!(estimator.allowed(2, 4, [2; 12].into_iter()), 0);
        assert_eq!(estimator.allowed(3, 4, [2; 12].into_iter()), 4);
    }

    #[test]
    fn scans_are_trusted_again_after_many_short_ranges() {
        let mut estimator = after(&[3; 500]);
        assert_eq!(estimator.allowed(2, 4, std::iter::empty()), 1);
        (0..64).for_each(|_| estimator.end(10_000));
        assert!(estimator.allowed(2, 4, std::iter::empty()) >= 3);
    }

    proptest! {
        /// An eighth of what was used is always allowed, and never more than was asked for.
        #[test]
        fn credit_is_never_below_an_eighth(
            lengths in prop::collection::vec(1u32..5000, 0..200), run in 1u32..100_000, most in 0u32..300,
        ) {
            let allowed = after(&lengths).allowed(run, most, std::iter::empty());
            prop_assert!(allowed <= most);
            prop_assert!(allowed >= most.min(run / USED_PER_WASTE as u32));
        }
    }
}

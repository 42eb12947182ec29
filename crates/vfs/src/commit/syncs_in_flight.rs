//! Syncs in flight: groups of commits that are on their way to the medium at the same time.
//!
//! # Why
//! A device with a queue makes several syncs at a time faster than one after the other. An SD card makes one at a time:
//! there a second one costs a block, and gains nothing. So the depth follows what the device gives.
//!
//! # Promises
//! 1. A group is durable once its sync and those of all groups before it have ended.
//! 2. The depth grows by one while more syncs at a time make at least [`LEAST_GAIN`] percent more transactions durable in
//!    the same time. It shrinks again where they do not, and is tried anew after a while. Where syncs take long, a device that
//!    makes no more of them in the same time shows that with the first [`SYNCS_TO_SEE`] that meet: each takes longer.
//! 3. A flush, of what was written before without a sync, is in flight alone: of two syncs of one file that fail, Linux
//!    tells one.

use crate::commit::commit_delay::LONG_SYNC;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most syncs at a time.
const MOST_DEPTH: usize = 4;
/// Syncs after which the depth is judged.
const SYNCS_TO_JUDGE: u32 = 64;
/// Syncs that meet others, after which a trial may end early where syncs take long.
const SYNCS_TO_SEE: u32 = 8;
/// The part, in percent, of what they would take one after the other, beyond which they have gained nothing.
const MOST_TOGETHER: u32 = 80;
/// Percent by which the rate must grow with the depth.
const LEAST_GAIN: u64 = 10;
/// Judgements without a trial after one that has gained nothing.
const PAUSE_AFTER_LOSS: u32 = 64;

/// A sync that has begun.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    /// The last transaction that it makes durable.
    up_to: u64,
    has_ended: bool,
    /// True if another one was in flight at any time.
    has_met: bool,
}

/// The syncs in flight, oldest first, and their depth.
#[derive(Debug, Default)]
pub(crate) struct SyncsInFlight {
    flights: VecDeque<Flight>,
    /// True while a flush is in flight.
    flushes: bool,
    last_number: u64,
    depth: Depth,
    /// Since when transactions are counted, and how many syncs have ended since.
    since: Option<Instant>,
    syncs: u32,
    transactions: u64,
    /// Time that those syncs have taken.
    took: Duration,
    /// Those of them that have met others, and their time.
    met: (u32, Duration),
}

impl SyncsInFlight {
    /// True while a sync has not ended.
    pub fn is_flying(&self) -> bool {
        self.flushes || self.has_groups()
    }

    /// True while the sync of a group has not ended.
    pub fn has_groups(&self) -> bool {
        !self.flights.is_empty()
    }

    /// A flush begins, or ends.
    pub fn set_flush(&mut self, flushes: bool) {
        debug_assert!(!self.has_groups() || !flushes, "a group is in flight");
        self.flushes = flushes;
    }

    /// True while as many are in flight as pay.
    pub fn is_full(&self) -> bool {
        self.flushes || self.flights.len() >= self.depth.get()
    }

    /// True for a transaction that one of them makes durable.
    pub fn covers(&self, lsn: u64) -> bool {
        self.flights.back().is_some_and(|last| lsn <= last.up_to)
    }

    /// A sync begins, which makes transactions durable up to `up_to`; answers its number.
    pub fn begin(&mut self, up_to: u64) -> u64 {
        self.last_number += 1;
        let has_met = self.has_groups();
        self.flights.iter_mut().for_each(|flight| flight.has_met |= !flight.has_ended);
        self.flights.push_back(Flight { number: self.last_number, up_to, has_ended: false, has_met });
        self.last_number
    }

    /// A sync has ended well. Answers the last transaction that is durable now, if another one is.
    pub fn end(&mut self, number: u64) -> Option<u64> {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.number == number) {
            flight.has_ended = true;
        }
        let mut durable = None;
        while let Some(flight) = self.flights.front().filter(|flight| flight.has_ended) {
            durable = Some(flight.up_to);
            self.flights.pop_front();
        }
        durable
    }

    /// A sync has failed: nothing that is in flight counts.
    pub fn ground(&mut self) {
        self.flights.clear();
    }

    /// A sync of `transactions` ends that took `time`.
    pub fn note_sync(&mut self, number: u64, transactions: usize, time: Duration) {
        let Some(since) = self.since else {
            self.since = Some(Instant::now());
            return;
        };
        self.syncs += 1;
        self.transactions += transactions as u64;
        self.took += time;
        if self.flights.iter().any(|flight| flight.number == number && flight.has_met) {
            self.met = (self.met.0 + 1, self.met.1 + time);
            if self.met.0 == SYNCS_TO_SEE && self.depth.ends_trial(self.met.1 / SYNCS_TO_SEE) {
                return self.begin_to_count();
            }
        }
        if self.syncs < SYNCS_TO_JUDGE {
            return;
        }
        let elapsed = since.elapsed();
        // Where commits come seldom, the rate says nothing of the device.
        if elapsed < time * SYNCS_TO_JUDGE * 2 {
            let rate = self.transactions * 1_000_000 / (elapsed.as_micros() as u64).max(1);
            self.depth.judge(rate, self.took / SYNCS_TO_JUDGE);
        }
        self.begin_to_count();
    }

    fn begin_to_count(&mut self) {
        (self.since, self.syncs) = (Some(Instant::now()), 0);
        (self.transactions, self.took, self.met) = (0, Duration::ZERO, (0, Duration::ZERO));
    }
}

/// How many syncs at a time pay, by the rates of durable transactions.
#[derive(Debug)]
struct Depth {
    depth: usize,
    /// The rate with one sync less at a time, and how long each took, while the last one is on trial.
    before: Option<(u64, Duration)>,
    /// Judgements until the next trial.
    pause: u32,
}

impl Default for Depth {
    fn default() -> Depth {
        Depth { depth: 1, before: None, pause: 0 }
    }
}

impl Depth {
    fn get(&self) -> usize {
        self.depth
    }

    /// Judges the present depth by the rate of transactions a second. Each sync took `time`.
    fn judge(&mut self, rate: u64, time: Duration) {
        match self.before.take() {
            Some((before, _)) if rate * 100 < before * (100 + LEAST_GAIN) => self.shrink(),
            _ if self.pause > 0 => self.pause -= 1,
            _ if self.depth < MOST_DEPTH => {
                self.depth += 1;
                self.before = Some((rate, time));
            }
            _ => self.pause = PAUSE_AFTER_LOSS,
        }
    }

    /// Ends a trial whose syncs, which take `time` each, are no more in the same time than they were with one less at a time.
    fn ends_trial(&mut self, time: Duration) -> bool {
        let depth = self.depth as u32;
        let gains_nothing = self.before.is_some_and(|(_, before)| {
            before >= LONG_SYNC && time * (depth - 1) * 100 > before * depth * MOST_TOGETHER
        });
        if gains_nothing {
            self.before = None;
            self.shrink();
        }
        gains_nothing
    }

    fn shrink(&mut self) {
        self.depth -= 1;
        self.pause = PAUSE_AFTER_LOSS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_durable_once_all_before_it_are() {
        let mut syncs = SyncsInFlight::default();
        let [first, second, third] = [10, 20, 30].map(|lsn| syncs.begin(lsn));
        assert!(syncs.is_flying() && syncs.covers(30) && !syncs.covers(31));
        assert_eq!(syncs.end(second), None);
        assert_eq!(syncs.end(first), Some(20));
        assert_eq!(syncs.end(third), Some(30));
        assert!(!syncs.is_flying() && !syncs.covers(1));
        let failed = syncs.begin(40);
        syncs.begin(50);
        syncs.ground();
        assert_eq!((syncs.end(failed), syncs.is_flying()), (None, false));
    }

    /// The depth after many judgements on a device that gives these rates with 1, 2, 3 and 4 syncs at a time.
    fn depth_on(rates: [u64; 4]) -> usize {
        let mut depth = Depth::default();
        let mut most = [0; 5];
        for _ in 0..1_000 {
            depth.judge(rates[depth.get() - 1], Duration::ZERO);
            most[depth.get()] += 1;
        }
        (1..=4).max_by_key(|depth| most[*depth]).unwrap()
    }

    #[test]
    fn the_depth_follows_what_the_device_gives() {
        for (rates, expected, what) in [
            ([8_588, 11_817, 15_000, 18_191], 4, "a device with a queue"),
            ([8_000, 8_000, 8_000, 8_000], 1, "one at a time"),
            ([8_000, 7_000, 6_000, 5_000], 1, "one that suffers"),
            ([8_000, 12_000, 12_100, 12_200], 2, "two at a time"),
        ] {
            assert_eq!(depth_on(rates), expected, "{what}");
        }
    }

    #[test]
    fn a_trial_ends_early_where_each_sync_takes_longer_and_that_is_long() {
        let alone = Duration::from_millis(20);
        for (with_depth, ends, what) in [
            ([20, 20, 20], [false; 3], "a device with a queue"),
            ([40, 30, 27], [true; 3], "one at a time"),
            ([33, 25, 22], [true; 3], "hardly more"),
            ([24, 23, 22], [false, false, true], "three at a time"),
        ] {
            for (trial, (time, ends)) in (1..).zip(with_depth.into_iter().zip(ends)) {
                let mut depth = Depth { depth: trial, before: None, pause: 0 };
                assert!(!depth.ends_trial(100 * alone), "no trial");
                depth.judge(100, alone);
                assert_eq!(depth.get(), trial + 1);
                assert_eq!(depth.ends_trial(Duration::from_millis(time)), ends, "{what}, {trial}");
                assert_eq!(depth.get(), trial + usize::from(!ends), "{what}");
                assert_eq!(depth.pause, if ends { PAUSE_AFTER_LOSS } else { 0 });
            }
        }
        let mut depth = Depth::default();
        depth.judge(100, LONG_SYNC / 2);
        assert!(!depth.ends_trial(LONG_SYNC));
    }

    #[test]
    fn syncs_that_have_met_no_other_end_no_trial() {
        let alone = Duration::from_millis(20);
        let mut syncs = SyncsInFlight { since: Some(Instant::now()), ..SyncsInFlight::default() };
        syncs.depth.judge(100, alone);
        let mut fly = |together: u64| {
            let numbers: Vec<u64> = (0..together).map(|_| syncs.begin(1)).collect();
            for number in numbers {
                syncs.note_sync(number, 1, 2 * alone);
                syncs.end(number);
            }
            (syncs.depth.get(), syncs.syncs, syncs.met.0)
        };
        for count in 1..=2 * SYNCS_TO_SEE {
            assert_eq!(fly(1), (2, count, 0));
        }
        for count in 1..SYNCS_TO_SEE / 2 {
            assert_eq!(fly(2), (2, 2 * (SYNCS_TO_SEE + count), 2 * count));
        }
        assert_eq!(fly(2), (1, 0, 0), "and what has shown it counts for nothing else");
    }

    #[test]
    fn as_many_fly_as_pay() {
        let mut syncs = SyncsInFlight::default();
        assert!(!syncs.is_full());
        syncs.begin(1);
        assert!(syncs.is_full());
        syncs.depth.judge(1_000, Duration::ZERO);
        assert!(!syncs.is_full());
    }

    #[test]
    fn a_flush_is_in_flight_alone() {
        let mut syncs = SyncsInFlight::default();
        syncs.set_flush(true);
        assert!(syncs.is_flying() && syncs.is_full() && !syncs.has_groups() && !syncs.covers(1));
        syncs.set_flush(false);
        assert!(!syncs.is_flying() && !syncs.is_full());
    }
}

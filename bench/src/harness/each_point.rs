//! A process that is killed at each point of its path, one after the other, until runs pass whole: what the experiments of that kind share.

use crate::Result;
use crate::harness::tracer::Tracer;
use crate::report::Figures;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Failures that are described.
const DESCRIBED: usize = 10;
/// A path ends at a point that so many runs do not reach: the threads of a process make a path a little longer or shorter from run to run.
const WHOLE_RUNS: usize = 3;

/// How far the process of a run has come.
#[derive(Debug, Default)]
pub struct Reached {
    /// The point at which the process was killed, with its number; none where it has passed whole.
    pub killed: Option<(u64, String)>,
    /// Points that it has reached.
    pub points: u64,
}

impl Reached {
    /// How far a process has come that was to be killed at point `last`.
    pub fn of(tracer: &Tracer, last: u64) -> Reached {
        Reached { killed: tracer.killed_at().map(|point| (last, point.to_owned())), points: tracer.points() }
    }

    /// Notes how many points a case has that passed whole, in the figure `POINTS.CASE`, and describes what was wrong.
    pub fn note<'a>(
        &self,
        figures: &mut Figures,
        points: &str,
        case: &str,
        wrong: impl Iterator<Item = &'a String>,
    ) {
        let at = match &self.killed {
            Some((number, point)) => format!("at point {number}, {point}"),
            None => {
                let name = format!("{points}.{case}");
                let most = figures.get(&name).unwrap_or_default().max(self.points as f64);
                figures.set(name, most);
                "passed whole".to_owned()
            }
        };
        for what in wrong {
            if figures.alarms().len() < DESCRIBED {
                figures.alarm(format!("{case}, {at}: {what}"));
            }
        }
    }
}

/// The points of a case, which several threads take in turn.
#[derive(Debug)]
pub struct Points {
    next: AtomicU64,
    last: u64,
    step: u64,
    is_over: AtomicBool,
}

impl Points {
    /// Each so many-th of a range, as far as the path goes.
    pub fn of(range: &RangeInclusive<u64>, step: u64) -> Points {
        let (next, last) = (AtomicU64::new(*range.start()), *range.end());
        Points { next, last, step, is_over: AtomicBool::new(false) }
    }

    fn take(&self) -> Option<u64> {
        let point = self.next.fetch_add(self.step, Ordering::Relaxed);
        (point <= self.last && !self.is_over.load(Ordering::Relaxed)).then_some(point)
    }

    /// Runs the case with a kill at each of its points that no other thread takes, until runs pass whole, or `tell` has heard enough.
    ///
    /// # Errors
    /// Those of `run`, which is given the number of the point.
    pub fn kill_at_each<R>(
        &self,
        mut run: impl FnMut(u64) -> Result<R>,
        reached: impl Fn(&R) -> &Reached,
        tell: &mut dyn FnMut(R) -> bool,
    ) -> Result<()> {
        while let Some(point) = self.take() {
            let mut whole = 0;
            while whole < WHOLE_RUNS {
                let outcome = run(point)?;
                let is_whole = reached(&outcome).killed.is_none();
                if !tell(outcome) {
                    return Ok(());
                }
                if !is_whole {
                    break;
                }
                whole += 1;
            }
            if whole == WHOLE_RUNS {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The points at which a path of so many points is killed; of three runs two are a point shorter.
    fn killed(length: u64, range: &RangeInclusive<u64>, step: u64) -> Vec<u64> {
        let (mut killed, mut runs) = (Vec::new(), 0);
        let run = |point| {
            runs += 1;
            let is_there = point < length || point == length && runs % 3 == 0;
            Ok(Reached { killed: is_there.then(|| (point, String::new())), points: length })
        };
        let mut tell = |reached: Reached| {
            killed.extend(reached.killed.map(|(point, _)| point));
            true
        };
        Points::of(range, step).kill_at_each(run, |reached| reached, &mut tell).unwrap();
        killed
    }

    #[test]
    fn each_point_of_the_longest_path_is_one_that_kills_once() {
        for length in 5..=7 {
            assert_eq!(killed(length, &(1..=u64::MAX), 1), (1..=length).collect::<Vec<_>>());
        }
        assert_eq!(killed(9, &(1..=u64::MAX), 4), [1, 5, 9]);
        assert_eq!(killed(9, &(3..=6), 2), [3, 5]);
    }

    #[test]
    fn threads_share_the_points_of_a_case() {
        let points = Points::of(&(1..=u64::MAX), 1);
        let work = || {
            let mut killed = Vec::new();
            let run = |point| {
                let killed = (point <= 100).then(|| (point, String::new()));
                Ok(Reached { killed, points: 100 })
            };
            let mut tell = |reached: Reached| {
                killed.extend(reached.killed.map(|(point, _)| point));
                true
            };
            points.kill_at_each(run, |reached| reached, &mut tell).unwrap();
            killed
        };
        let mut killed = std::thread::scope(|scope| {
            let other = scope.spawn(work);
            [work(), other.join().unwrap()].concat()
        });
        killed.sort_unstable();
        assert_eq!(killed, (1..=100).collect::<Vec<_>>());
    }
}

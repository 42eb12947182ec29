//! A process that is killed at each point of its path, one after the other, until a run passes whole: what the experiments of that kind share.

use crate::Result;
use crate::harness::tracer::Tracer;
use crate::report::Figures;

/// Failures that are described.
const DESCRIBED: usize = 10;

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
                figures.set(format!("{points}.{case}"), self.points as f64);
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

/// Runs a case again and again, with a kill `step` points later each time, until a run passes whole, or `tell` has heard enough.
///
/// # Errors
/// Those of `run`, which is given the number of the point.
pub fn kill_at_each_point<R>(
    step: u64,
    mut run: impl FnMut(u64) -> Result<R>,
    reached: impl Fn(&R) -> &Reached,
    tell: &mut dyn FnMut(R) -> bool,
) -> Result<()> {
    let mut last = 1;
    loop {
        let outcome = run(last)?;
        let is_over = reached(&outcome).killed.is_none();
        if !tell(outcome) || is_over {
            return Ok(());
        }
        last += step;
    }
}

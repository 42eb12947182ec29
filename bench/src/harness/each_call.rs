//! A process that is killed before each of its calls, one after the other, until a run passes whole: what the experiments of that kind share.

use crate::Result;
use crate::harness::tracer::Call;
use crate::report::Figures;

/// Failures that are described.
const DESCRIBED: usize = 10;

/// How far the process of a run has come.
#[derive(Debug, Default)]
pub struct Reached {
    /// The call before which the process was killed; none where it has passed whole.
    pub killed: Option<(u64, Call)>,
    /// Calls that it made.
    pub calls: u64,
}

impl Reached {
    /// Notes how many calls a case has that passed whole, and describes what was wrong.
    pub fn note<'a>(&self, figures: &mut Figures, case: &str, wrong: impl Iterator<Item = &'a String>) {
        let at = match &self.killed {
            Some((call, Call { number, thread })) => {
                format!("before call {call} (number {number} of {thread})")
            }
            None => {
                figures.set(format!("calls.{case}"), self.calls as f64);
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

/// Runs a case again and again, with a kill `step` calls later each time, until a run passes whole, or `tell` has heard enough.
///
/// # Errors
/// Those of `run`, which is given the number of the call.
pub fn kill_at_each_call<R>(
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

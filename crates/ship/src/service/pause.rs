//! When is the next look? A pure policy.

use crate::Error;
use std::time::Duration;

/// The first pause behind a failure, which doubles with each one that follows.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest pause: that of the interval 0, which looks at times of files and opens nothing where they are as before.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause behind a refusal: somebody has to do something first.
const REFUSED: Duration = Duration::from_secs(300);

/// What comes behind a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next look, after this time.
    After(Duration),
    /// None: the job stops.
    Stop,
}

/// Decides. `failures` counts those in a row, this one included.
pub fn next(interval: Duration, failed: Option<&Error>, failures: u32) -> Next {
    let interval = interval.max(SHORTEST);
    match failed {
        None => Next::After(interval),
        // Going on would overwrite another's work, again and again.
        Some(Error::Fenced { .. } | Error::Interrupted) => Next::Stop,
        Some(Error::Refused { .. } | Error::Damaged { .. }) => Next::After(REFUSED),
        Some(Error::Locked { .. }) => Next::After(FIRST.min(interval)),
        Some(_) => {
            let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
            Next::After(doubled.min(LONGEST).max(FIRST))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let interval = Duration::from_secs(10);
        let away = Error::Unreachable { place: "x".into(), why: "y".into() };
        for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)] {
            assert_eq!(
                next(interval, Some(&away), failures),
                Next::After(Duration::from_secs(seconds)),
                "{failures}"
            );
        }
        let fenced = Error::Fenced { place: "x".into(), why: "y".into() };
        let refused = Error::Refused { place: "x".into(), why: "y".into() };
        assert_eq!(next(interval, Some(&fenced), 1), Next::Stop);
        assert_eq!(next(interval, Some(&refused), 1), Next::After(REFUSED));
        assert_eq!(next(interval, None, 0), Next::After(interval));
        let locked = Error::Locked { path: "x".into(), why: "y".into() };
        assert_eq!(next(Duration::ZERO, None, 0), Next::After(SHORTEST));
        assert_eq!(next(Duration::ZERO, Some(&locked), 1), Next::After(SHORTEST));
    }
}

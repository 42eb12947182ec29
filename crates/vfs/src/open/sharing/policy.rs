//! Policies of sharing: which databases other processes may open at all, and how long one stays multi-process. Facts in, a decision out.

use crate::open::OpenDatabase;
use crate::options::Sharing as Wanted;
use std::time::Duration;

/// The least and the greatest time for which a database stays multi-process.
const LEAST_PAUSE: Duration = Duration::from_millis(500);
const GREATEST_PAUSE: Duration = Duration::from_secs(60);
/// Visitors that come again within this time lengthen the pause.
const SOON: Duration = Duration::from_secs(10);
/// The pause is at least as many times as long as coming home took.
const COST_FACTOR: u32 = 20;

/// How long a database stays multi-process at least: `cost` is what coming home took, `last` the pause before, and `alone` the
/// time since the database was alone again.
pub(super) fn next_pause(cost: Duration, last: Option<Duration>, alone: Option<Duration>) -> Duration {
    let least = LEAST_PAUSE.max(cost * COST_FACTOR);
    let pause = match (last, alone) {
        (Some(last), Some(alone)) if alone < SOON => least.max(last * 2),
        _ => least,
    };
    pause.min(GREATEST_PAUSE)
}

/// The facts that decide whether a database may be shared with other processes while it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharingFacts {
    wanted: Wanted,
    /// True if SQLite's own protocol is used for another reason, or its calls are only passed on.
    native: bool,
    writable: bool,
    /// True if commits are logged as statements: what is known of the schema, and of texts, holds while nobody else changes it.
    statements: bool,
}

impl SharingFacts {
    pub(super) fn of(database: &OpenDatabase) -> SharingFacts {
        let (db, options) = (&database.db, database.db.options());
        SharingFacts {
            wanted: options.sharing,
            native: database.is_native() || !db.may_hold_back(),
            writable: db.writable(),
            statements: options.logs_statements(),
        }
    }

    pub(super) fn allow(self) -> bool {
        self.wanted.lets_others_in() && !self.native && self.writable && !self.statements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: SharingFacts =
        SharingFacts { wanted: Wanted::Auto, native: false, writable: true, statements: false };

    #[test]
    fn only_a_database_that_stock_sqlite_can_go_on_with_is_shared() {
        for (facts, is_shared) in [
            (ALLOWED, true),
            (SharingFacts { wanted: Wanted::Group, ..ALLOWED }, true),
            (SharingFacts { wanted: Wanted::Separate, ..ALLOWED }, true),
            (SharingFacts { wanted: Wanted::Exclusive, ..ALLOWED }, false),
            (SharingFacts { native: true, ..ALLOWED }, false),
            (SharingFacts { writable: false, ..ALLOWED }, false),
            (SharingFacts { statements: true, ..ALLOWED }, false),
        ] {
            assert_eq!(facts.allow(), is_shared, "{facts:?}");
        }
    }

    #[test]
    fn visitors_that_come_again_lengthen_the_pause() {
        let seconds = Duration::from_secs;
        for (cost, last, alone, expected) in [
            (Duration::ZERO, None, None, LEAST_PAUSE),
            (Duration::from_millis(200), None, None, seconds(4)),
            (seconds(9), None, None, seconds(60)),
            (Duration::ZERO, Some(seconds(1)), Some(seconds(3)), seconds(2)),
            (Duration::ZERO, Some(seconds(40)), Some(seconds(3)), seconds(60)),
            (Duration::ZERO, Some(seconds(40)), Some(seconds(11)), LEAST_PAUSE),
        ] {
            assert_eq!(next_pause(cost, last, alone), expected, "{cost:?} {last:?} {alone:?}");
        }
    }
}

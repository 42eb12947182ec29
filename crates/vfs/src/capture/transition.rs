//! The recorder's state machine: what becomes of the open transaction, as a pure function.
//!
//! A transaction is recorded until something cannot be repeated, or cannot be vouched for; then it is lost, and its commit
//! writes pages. The first cause counts, with one exception: a commit of which nothing was told counts as untracked.
//!
//! ```text
//!                 Begins(None)                    Meets, Commits with an objection
//!     any state ----------------> Recording ------------------------------------> Lost(cause)
//!     any state ----------------------------------------------------------------> Lost(cause)
//!                 Begins(cause), Commits untold
//! ```

use crate::capture::running::Activity;
use crate::capture::statement_text::StatementKind;
use crate::ffi::connection::TransactionState;
use crate::stats::FallbackCause;

/// State of the recorder: the fate of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecorderState {
    /// Its statements are recorded.
    Recording(WriteLock),
    /// It will be written as pages, for this cause.
    Lost(FallbackCause, WriteLock),
}

/// The write lock, as the last statement that writes found it at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteLock {
    /// It was not, or nothing has written yet.
    NotHeld,
    /// It was.
    Held,
}

/// Event of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A transaction begins; a cause says why it cannot be recorded.
    Begins(Option<FallbackCause>),
    /// Something cannot be repeated, or not vouched for.
    Meets(Obstacle),
    /// A statement starts that can write, outside of any other. The transaction is that far.
    Writes(TransactionState),
    /// A statement starts to run.
    Runs(StatementKind),
    /// The last statement that ran has ended; `over` says that its transaction has, too.
    Ends {
        /// True if the connection is out of any transaction.
        over: bool,
    },
    /// The transaction commits, and this was observed.
    Commits(Observed),
    /// Every objection to the commit has been heard.
    Logs,
}

/// Action that follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Forget the last transaction's statements, and count from here.
    Reset,
    /// Wait for a turn in the writer queue.
    JoinWriterQueue,
    /// Give the turn back, unless the write lock is held.
    LeaveWriterQueue,
    /// Record the statement.
    Record,
    /// Log the recorded statements.
    LogStatements,
    /// Write pages.
    WritePages(FallbackCause),
}

/// Something that keeps a transaction from being logged as statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Pages were touched since the last statement ended.
    Touched,
    /// A statement runs inside or beside others.
    Interleaved,
    /// The last statement starts again: SQLite has prepared it anew.
    Restarted,
    /// A text like that of a trigger, while statements may be open that were not told.
    Stray,
    /// The text of a statement is not UTF-8.
    Unreadable,
    /// A PRAGMA in an explicit transaction.
    Pragma,
    /// The statement cannot be recorded.
    Unrecordable(FallbackCause),
    /// The schema is not that of the recorded statements.
    SchemaChanged,
    /// New rows may get other numbers.
    RowNumbers,
}

impl Obstacle {
    /// The cause that the fallback is counted under.
    pub fn cause(self) -> FallbackCause {
        match self {
            Obstacle::Touched | Obstacle::Restarted | Obstacle::Stray => FallbackCause::Untracked,
            Obstacle::Interleaved => FallbackCause::Interleaved,
            Obstacle::Unreadable => FallbackCause::Encoding,
            Obstacle::Pragma => FallbackCause::Pragma,
            Obstacle::Unrecordable(cause) => cause,
            Obstacle::SchemaChanged => FallbackCause::Schema,
            Obstacle::RowNumbers => FallbackCause::RowOrder,
        }
    }
}

/// Observations when a transaction commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// How much runs.
    pub activity: Activity,
    /// The kind of the statement that started last.
    pub kind: StatementKind,
    /// True if the last statement started without a log, and so was not noted.
    pub without_log: bool,
    /// True once a lock or a failure was met below.
    pub disturbed: bool,
    /// True if nothing was recorded.
    pub blank: bool,
    /// The cause for which the connection is not captured any more.
    pub barred: Option<FallbackCause>,
}

impl Observed {
    /// True if no statement is known that could commit: the application has taken the hook.
    fn is_untold(&self) -> bool {
        self.activity == Activity::Idle && !self.without_log
    }

    /// The first objection to logging statements.
    fn objection(&self) -> Option<FallbackCause> {
        if self.activity == Activity::Several {
            Some(FallbackCause::Interleaved)
        } else if self.kind == StatementKind::Read {
            // No query commits: the statement that does was not told.
            Some(FallbackCause::Untracked)
        } else if self.disturbed {
            Some(FallbackCause::Disturbed)
        } else if self.blank {
            Some(FallbackCause::Untracked)
        } else {
            self.barred
        }
    }
}

/// The relation of a starting statement to the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It begins a transaction.
    Begins,
    /// It continues an explicit transaction.
    Continues,
    /// It runs inside or beside others.
    Interleaves,
}

impl Arrival {
    /// The relation of a statement that starts; `outermost` says that no other is open.
    pub fn of(outermost: bool, autocommit: bool) -> Arrival {
        match (outermost, autocommit) {
            (true, true) => Arrival::Begins,
            (true, false) => Arrival::Continues,
            (false, _) => Arrival::Interleaves,
        }
    }
}

/// The cause for which a transaction that begins with a known statement is not recorded. If something writes already, its
/// start was not told: a statement that has to be prepared anew ends, and starts again in silence.
pub(super) fn beginning(
    transaction: TransactionState,
    barred: Option<FallbackCause>,
) -> Option<FallbackCause> {
    if transaction == TransactionState::Writing { Some(FallbackCause::Untracked) } else { barred }
}

impl RecorderState {
    /// True while the transaction is recorded.
    #[inline]
    pub fn is_recording(self) -> bool {
        matches!(self, RecorderState::Recording(_))
    }

    fn write_lock(self) -> WriteLock {
        match self {
            RecorderState::Recording(lock) | RecorderState::Lost(_, lock) => lock,
        }
    }

    fn with_write_lock(self, lock: WriteLock) -> RecorderState {
        match self {
            RecorderState::Recording(_) => RecorderState::Recording(lock),
            RecorderState::Lost(cause, _) => RecorderState::Lost(cause, lock),
        }
    }

    /// The state after an objection: the first one counts.
    fn lose(self, cause: FallbackCause) -> RecorderState {
        match self {
            RecorderState::Recording(lock) => RecorderState::Lost(cause, lock),
            lost => lost,
        }
    }
}

/// The next state, and what is to be done.
#[inline]
pub(super) fn transition(state: RecorderState, event: Event) -> (RecorderState, Action) {
    match event {
        Event::Begins(None) => (RecorderState::Recording(WriteLock::NotHeld), Action::Reset),
        Event::Begins(Some(cause)) => (RecorderState::Lost(cause, WriteLock::NotHeld), Action::Reset),
        Event::Meets(obstacle) => (state.lose(obstacle.cause()), Action::Nothing),
        Event::Writes(TransactionState::Writing) => (state.with_write_lock(WriteLock::Held), Action::Nothing),
        // A read has fixed what the transaction sees, and waiting would only make that stale.
        Event::Writes(TransactionState::Reading) => {
            (state.with_write_lock(WriteLock::NotHeld), Action::Nothing)
        }
        Event::Writes(TransactionState::None) => {
            (state.with_write_lock(WriteLock::NotHeld), Action::JoinWriterQueue)
        }
        Event::Runs(StatementKind::Write | StatementKind::Savepoint) if state.is_recording() => {
            (state, Action::Record)
        }
        Event::Runs(_) => (state, Action::Nothing),
        Event::Ends { over } if over || state.write_lock() == WriteLock::NotHeld => {
            (state, Action::LeaveWriterQueue)
        }
        Event::Ends { .. } => (state, Action::Nothing),
        Event::Commits(observed) if observed.is_untold() => {
            (RecorderState::Lost(FallbackCause::Untracked, state.write_lock()), Action::Nothing)
        }
        Event::Commits(observed) => match observed.objection() {
            Some(cause) => (state.lose(cause), Action::Nothing),
            None => (state, Action::Nothing),
        },
        Event::Logs => match state {
            RecorderState::Recording(_) => (state, Action::LogStatements),
            RecorderState::Lost(cause, _) => (state, Action::WritePages(cause)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FallbackCause::{Disturbed, Interleaved, Opening, Pragma, Schema, Settings, Untracked};
    use RecorderState::{Lost, Recording};
    use WriteLock::{Held, NotHeld};

    const GOOD: Observed = Observed {
        activity: Activity::One,
        kind: StatementKind::Boundary,
        without_log: false,
        disturbed: false,
        blank: false,
        barred: None,
    };

    /// One state of each shape, in the order of the table's columns.
    const STATES: [RecorderState; 4] =
        [Recording(NotHeld), Recording(Held), Lost(Schema, NotHeld), Lost(Schema, Held)];

    #[test]
    fn every_state_answers_every_event() {
        use Action::*;
        let same = |action: Action| STATES.map(|state| (state, action));
        let all = |state: RecorderState, action: Action| [(state, action); 4];
        let lost = |cause| {
            [Lost(cause, NotHeld), Lost(cause, Held), STATES[2], STATES[3]].map(|state| (state, Nothing))
        };
        let locked = |lock, action| {
            [Recording(lock), Recording(lock), Lost(Schema, lock), Lost(Schema, lock)]
                .map(|state| (state, action))
        };
        let table = [
            (Event::Begins(None), all(Recording(NotHeld), Reset)),
            (Event::Begins(Some(Opening)), all(Lost(Opening, NotHeld), Reset)),
            (Event::Meets(Obstacle::Pragma), lost(Pragma)),
            (Event::Meets(Obstacle::Unrecordable(Settings)), lost(Settings)),
            (Event::Writes(TransactionState::None), locked(NotHeld, JoinWriterQueue)),
            (Event::Writes(TransactionState::Reading), locked(NotHeld, Nothing)),
            (Event::Writes(TransactionState::Writing), locked(Held, Nothing)),
            (Event::Runs(StatementKind::Read), same(Nothing)),
            (Event::Runs(StatementKind::Boundary), same(Nothing)),
            (
                Event::Runs(StatementKind::Savepoint),
                [(STATES[0], Record), (STATES[1], Record), (STATES[2], Nothing), (STATES[3], Nothing)],
            ),
            (
                Event::Runs(StatementKind::Write),
                [(STATES[0], Record), (STATES[1], Record), (STATES[2], Nothing), (STATES[3], Nothing)],
            ),
            (Event::Ends { over: true }, same(LeaveWriterQueue)),
            (
                Event::Ends { over: false },
                [
                    (STATES[0], LeaveWriterQueue),
                    (STATES[1], Nothing),
                    (STATES[2], LeaveWriterQueue),
                    (STATES[3], Nothing),
                ],
            ),
            (Event::Commits(GOOD), same(Nothing)),
            (Event::Commits(Observed { disturbed: true, ..GOOD }), lost(Disturbed)),
            (
                Event::Commits(Observed { activity: Activity::Idle, ..GOOD }),
                [
                    (Lost(Untracked, NotHeld), Nothing),
                    (Lost(Untracked, Held), Nothing),
                    (Lost(Untracked, NotHeld), Nothing),
                    (Lost(Untracked, Held), Nothing),
                ],
            ),
            (
                Event::Logs,
                [
                    (STATES[0], LogStatements),
                    (STATES[1], LogStatements),
                    (STATES[2], WritePages(Schema)),
                    (STATES[3], WritePages(Schema)),
                ],
            ),
        ];
        for (event, expected) in table {
            for (state, expected) in STATES.into_iter().zip(expected) {
                assert_eq!(transition(state, event), expected, "{state:?} {event:?}");
            }
        }
    }

    #[test]
    fn a_fallback_is_counted_under_the_cause_of_its_obstacle() {
        for (obstacle, cause) in [
            (Obstacle::Touched, Untracked),
            (Obstacle::Restarted, Untracked),
            (Obstacle::Stray, Untracked),
            (Obstacle::Interleaved, Interleaved),
            (Obstacle::Unreadable, FallbackCause::Encoding),
            (Obstacle::Pragma, Pragma),
            (Obstacle::Unrecordable(FallbackCause::Clock), FallbackCause::Clock),
            (Obstacle::SchemaChanged, Schema),
            (Obstacle::RowNumbers, FallbackCause::RowOrder),
        ] {
            assert_eq!(obstacle.cause(), cause, "{obstacle:?}");
        }
    }

    #[test]
    fn a_commit_is_objected_to_by_the_first_that_was_observed() {
        use Activity::*;
        let all_bad = Observed {
            activity: Several,
            kind: StatementKind::Read,
            without_log: false,
            disturbed: true,
            blank: true,
            barred: Some(Settings),
        };
        for (observed, objection) in [
            (GOOD, None),
            (Observed { activity: LoneQuery, ..GOOD }, None),
            (Observed { activity: Idle, without_log: true, ..GOOD }, None),
            (all_bad, Some(Interleaved)),
            (Observed { activity: One, ..all_bad }, Some(Untracked)),
            (Observed { activity: One, kind: StatementKind::Write, ..all_bad }, Some(Disturbed)),
            (Observed { blank: true, ..GOOD }, Some(Untracked)),
            (Observed { blank: true, barred: Some(Settings), ..GOOD }, Some(Untracked)),
            (Observed { barred: Some(Settings), ..GOOD }, Some(Settings)),
        ] {
            assert_eq!(observed.objection(), objection, "{observed:?}");
        }
        assert!(!Observed { activity: Idle, without_log: true, ..GOOD }.is_untold());
        assert!(Observed { activity: Idle, ..GOOD }.is_untold());
    }

    #[test]
    fn a_statement_begins_continues_or_interleaves() {
        for (outermost, autocommit, arrival) in [
            (true, true, Arrival::Begins),
            (true, false, Arrival::Continues),
            (false, true, Arrival::Interleaves),
            (false, false, Arrival::Interleaves),
        ] {
            assert_eq!(Arrival::of(outermost, autocommit), arrival);
        }
        for (transaction, barred, cause) in [
            (TransactionState::None, None, None),
            (TransactionState::Reading, None, None),
            (TransactionState::Reading, Some(Settings), Some(Settings)),
            (TransactionState::Writing, None, Some(Untracked)),
            (TransactionState::Writing, Some(Settings), Some(Untracked)),
        ] {
            assert_eq!(beginning(transaction, barred), cause);
        }
    }
}

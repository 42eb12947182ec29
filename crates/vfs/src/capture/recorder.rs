//! The recorder: state of one connection's open transaction, moved by [`transition`].

use crate::capture::replay_cache::ReplayCache;
use crate::capture::running::RunningStatements;
use crate::capture::statement_text::StatementKind;
use crate::capture::transaction::TransactionRecord;
use crate::capture::transition::{Action, Event, Obstacle, RecorderState, WriteLock, transition};

/// State of one connection's recorder.
pub(super) struct Recorder {
    pub state: RecorderState,
    pub running: RunningStatements,
    /// The kind of the statement that started last.
    pub kind: StatementKind,
    /// Page accesses when the last statement ended; unknown where that was a query, and nothing was written.
    pub accesses: Option<i64>,
    pub transaction: TransactionRecord,
    pub cache: ReplayCache,
    /// The text of a query that was found to be nothing else.
    pub query: Vec<u8>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            state: RecorderState::Recording(WriteLock::NotHeld),
            running: RunningStatements::default(),
            kind: StatementKind::default(),
            accesses: None,
            transaction: TransactionRecord::default(),
            cache: ReplayCache::default(),
            query: Vec::new(),
        }
    }
}

impl Recorder {
    /// Enters the next state.
    #[inline]
    pub fn on(&mut self, event: Event) -> Action {
        let (state, action) = transition(self.state, event);
        self.state = state;
        action
    }

    /// An obstacle to logging statements was met.
    pub fn meet(&mut self, obstacle: Obstacle) {
        self.on(Event::Meets(obstacle));
    }

    /// True if nothing runs, nothing is recorded, and nothing is known of the last statement that a query makes stale.
    pub fn is_blank(&self) -> bool {
        self.running.is_settled() && self.transaction.is_blank() && self.accesses.is_none()
    }

    /// A query starts of which nothing but its end has to be noted.
    pub fn start_lone_query(&mut self, id: usize) {
        self.running.start_lone_query(id);
        self.accesses = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::encoding::{Settings, Text};
    use crate::stats::FallbackCause;
    use std::sync::Arc;

    #[test]
    fn a_recorder_is_blank_until_something_is_known_that_a_query_makes_stale() {
        type Change = fn(&mut Recorder);
        let changes: [(&str, Change, bool); 6] = [
            ("nothing", |_| {}, true),
            ("a lost transaction", |recorder| recorder.meet(Obstacle::Pragma), true),
            ("page accesses", |recorder| recorder.accesses = Some(1), false),
            ("a statement that runs", |recorder| recorder.running.start(4), false),
            ("a statement that may restart", |recorder| recorder.running.note_unchanging(Some(4)), false),
            (
                "a recorded statement",
                |recorder| {
                    recorder.transaction.begin_statement(
                        Arc::new(Text { sql: String::new(), settings: Settings::default() }),
                        0,
                    )
                },
                false,
            ),
        ];
        for (what, change, is_blank) in changes {
            let mut recorder = Recorder::default();
            change(&mut recorder);
            assert_eq!(recorder.is_blank(), is_blank, "{what}");
        }
    }

    #[test]
    fn a_lone_query_ends_as_if_nothing_had_run() {
        let mut recorder = Recorder { accesses: Some(1), ..Recorder::default() };
        recorder.start_lone_query(4);
        assert!(!recorder.is_blank());
        recorder.running.end(4);
        assert!(recorder.is_blank());
    }

    #[test]
    fn the_first_obstacle_counts_until_the_next_transaction() {
        let mut recorder = Recorder::default();
        assert!(recorder.state.is_recording());
        recorder.meet(Obstacle::Pragma);
        recorder.meet(Obstacle::Touched);
        assert_eq!(recorder.on(Event::Logs), Action::WritePages(FallbackCause::Pragma));
        assert_eq!(recorder.on(Event::Begins(None)), Action::Reset);
        assert_eq!(recorder.on(Event::Logs), Action::LogStatements);
    }
}

//! The effects of the trace filter: what a change of the subscription does to the recorder.

use crate::capture::Capture;
use crate::capture::host::Host;
use crate::capture::recorder::Recorder;
use crate::capture::shortcut::Shortcut;
use crate::capture::statement_text::{StatementKind, is_query, is_query_of_trigger, kind_of};
use crate::capture::trace_filter::{FEW, FilterAction, Subscription, is_log, on_start};
use crate::capture::transition::beginning;
use crate::ffi::connection::TransactionState;
use crate::ffi::statement::RunningStatement;
use crate::stats::FallbackCause;
use std::time::Duration;

/// Longest turn of a writer whose end is not told: mostly until the writer has the write lock.
const UNTOLD_TURN: Duration = Duration::from_millis(50);

impl<H: Host> Capture<H> {
    /// A statement starts: the new subscription, where that changes. `None` if the statement must be noted.
    pub(super) fn filter_start(
        &self,
        statement: RunningStatement,
        sql: &[u8],
        generation: u64,
    ) -> Option<Option<Subscription>> {
        let (state, action) = on_start(
            self.filter.state(),
            generation,
            self.filter.starts_without_log(),
            || self.is_reader(statement, sql),
            || self.is_harmless_to_reader(statement, sql),
        );
        match action {
            FilterAction::Note => None,
            FilterAction::Skip => {
                self.filter.set_state(state, generation);
                Some(None)
            }
            FilterAction::SubscribeToStarts => {
                if is_log(generation) {
                    let mut recorder = self.recorder();
                    self.lose(&mut recorder, FallbackCause::Untracked);
                    self.open_shortcut(&recorder);
                }
                self.filter.set_state(state, generation);
                Some(Some(Subscription::Starts))
            }
            FilterAction::SubscribeToAll { had_log } => {
                self.filter.set_state(state, generation);
                self.resume(statement, sql, had_log);
                Some(Some(Subscription::All))
            }
        }
    }

    /// True if a query starts on a connection that has read for long, and nothing else is under way.
    fn is_reader(&self, statement: RunningStatement, sql: &[u8]) -> bool {
        self.filter.has_counted(self.host.shared().reader_queries())
            && self.shortcut.get() == Shortcut::Queries
            && !self.filter.is_without_log()
            && !self.wait.is_owed()
            && std::str::from_utf8(sql).is_ok_and(is_query)
            && statement.is_read_only()
    }

    /// True if a statement changes nothing that matters to a reader. It is a query, also of a trigger, or ends a
    /// transaction that has only read.
    fn is_harmless_to_reader(&self, statement: RunningStatement, sql: &[u8]) -> bool {
        let Ok(sql) = std::str::from_utf8(sql) else { return false };
        let is_end = || kind_of(sql, true) == StatementKind::Boundary && !self.db.is_autocommit();
        statement.is_read_only() && (is_query_of_trigger(sql) || is_end())
    }

    /// From now on SQLite tells of everything again. The statement that starts is not captured, and neither is its
    /// transaction, unless the statement is a deferred BEGIN.
    fn resume(&self, statement: RunningStatement, sql: &[u8], had_log: bool) {
        let read_only = statement.is_read_only();
        let nearly_reader = self.host.shared().reader_queries().saturating_sub(FEW);
        self.filter.restart(if read_only { nearly_reader } else { 0 });
        let (mut recorder, autocommit) = (self.recorder(), self.db.is_autocommit());
        self.lose(&mut recorder, if had_log { FallbackCause::Untracked } else { FallbackCause::Opening });
        recorder.kind = std::str::from_utf8(sql).map_or(StatementKind::Write, |sql| kind_of(sql, read_only));
        if had_log && autocommit && read_only && recorder.kind == StatementKind::Boundary {
            let cause = beginning(self.db.transaction(), self.barred.get().copied());
            self.begin(&mut recorder, cause);
        } else {
            self.filter.set_cost(had_log);
        }
        self.open_shortcut(&recorder);
        drop(recorder);
        if had_log && !read_only && self.db.transaction() == TransactionState::None {
            // The end of the turn is not told where the statement fails before it has the write lock.
            self.host.join_writer_queue_for(UNTOLD_TURN);
        }
    }

    /// Nothing is known of the transaction from here on.
    fn lose(&self, recorder: &mut Recorder, cause: FallbackCause) {
        self.begin(recorder, Some(cause));
        recorder.accesses = None;
        recorder.running.forget();
        self.wait.set_silent(false);
    }

    /// A statement starts: whether there is nothing to capture, and nothing was left over. Other connections may make a log,
    /// or remove it, at any time between transactions.
    pub(super) fn is_without_log(&self, has_log: bool) -> bool {
        if has_log {
            self.filter.note_log();
            return false;
        }
        if !self.filter.is_without_log() {
            let mut recorder = self.recorder();
            if !recorder.running.is_idle() {
                return false;
            }
            self.lose(&mut recorder, FallbackCause::Opening);
            self.open_shortcut(&recorder);
        }
        self.filter.count_without_log();
        true
    }

    /// True if statements may be open that were not told, beside one that starts.
    pub(super) fn may_meet_others(&self, statement: RunningStatement) -> bool {
        self.filter.is_unsure() && {
            let others = self.db.has_open_statement_but(statement);
            self.filter.set_unsure(others);
            others
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fake::{Fake, FakeHost, calls, capture, sql, with};

    /// A capture whose connection has read until it was subscribed to starts.
    fn reader() -> Capture<FakeHost> {
        with(|fake| *fake = Fake::default());
        let capture = capture();
        let query = sql(4, c"SELECT 1");
        for _ in 0..1100 {
            match query.start(&capture).0 {
                None => query.end(&capture),
                changed => {
                    assert_eq!(changed, Some(Subscription::Starts));
                    return capture;
                }
            };
        }
        panic!("never taken for a reader");
    }

    #[test]
    fn a_reader_is_told_of_all_again_when_it_writes() {
        let capture = reader();
        assert_eq!(sql(4, c"SELECT 1").start(&capture), (None, true));
        assert_eq!(
            sql(8, c"WITH a AS (SELECT 1) SELECT * FROM a").start(&capture).0,
            Some(Subscription::All)
        );
        let capture = reader();
        calls();
        let insert = sql(12, c"INSERT INTO t VALUES(1)");
        assert_eq!(insert.start(&capture).0, Some(Subscription::All));
        assert_eq!(calls(), ["join for"]);
        assert_eq!(capture.host.shared().reader_queries(), 1000);
        assert_eq!(capture.take(1).err(), Some(FallbackCause::Untracked));
        assert_eq!(capture.host.shared().reader_queries(), 4000, "the next reader has to read for longer");
    }

    #[test]
    fn a_deferred_begin_costs_a_reader_nothing() {
        let capture = reader();
        assert_eq!(sql(8, c"BEGIN").start(&capture).0, Some(Subscription::All));
        with(|fake| fake.autocommit = false);
        assert!(capture.recorder().state.is_recording());
        sql(12, c"COMMIT").start(&capture);
        assert_eq!(capture.take(1).err(), Some(FallbackCause::Untracked), "nothing was recorded");
        assert_eq!(capture.host.shared().reader_queries(), 1000);
    }

    #[test]
    fn without_a_log_starts_suffice_until_there_is_one() {
        with(|fake| *fake = Fake { generation: 0, schema: None, ..Fake::default() });
        let capture = capture();
        let insert = sql(4, c"INSERT INTO t VALUES(1)");
        let mut starts = 0;
        while insert.start(&capture).0 != Some(Subscription::Starts) {
            insert.end(&capture);
            starts += 1;
        }
        assert_eq!(starts, FEW + 1);
        assert_eq!(insert.start(&capture), (None, true));
        with(|fake| fake.generation = 2);
        assert_eq!(insert.start(&capture), (None, false), "still none");
        assert_eq!(insert.start(&capture), (None, true));
        with(|fake| (fake.generation, fake.schema) = (3, Some(1)));
        assert_eq!(insert.start(&capture).0, Some(Subscription::All));
        assert_eq!(capture.take(1).err(), Some(FallbackCause::Untracked), "the start was not tracked");
    }

    #[test]
    fn statements_that_were_not_told_are_looked_for_until_there_are_none() {
        with(|fake| *fake = Fake { open: vec![4, 8], ..Fake::default() });
        let capture = capture();
        let statement = |id| sql(id, c"SELECT 1").running(&capture);
        assert!(!capture.may_meet_others(statement(4)), "nothing was missed");
        capture.filter.restart(0);
        assert!(capture.may_meet_others(statement(4)));
        with(|fake| fake.open = vec![4]);
        assert!(!capture.may_meet_others(statement(4)));
        with(|fake| fake.open = vec![4, 8]);
        assert!(!capture.may_meet_others(statement(4)), "all others were told since");
    }
}

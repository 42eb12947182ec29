//! Tracking: the effects of the state machine as statements start and end, and as a transaction commits.
//!
//! The recorder decides. Here the connection's counters are read, and the writer queue is joined and left.

use crate::capture::Capture;
use crate::capture::encoding::Captured;
use crate::capture::host::Host;
use crate::capture::recorder::Recorder;
use crate::capture::running::Ended;
use crate::capture::statement_text::{StatementKind, is_pragma, is_query, kind_of};
use crate::capture::transaction::RowNumberRisk;
use crate::capture::transition::{Action, Arrival, Event, Observed, Obstacle, beginning};
use crate::ffi::connection::{Connection, TransactionState};
use crate::ffi::statement::RunningStatement;
use crate::stats::FallbackCause;
use std::sync::atomic::Ordering;

impl<H: Host> Capture<H> {
    /// A statement starts.
    pub(super) fn start(&self, recorder: &mut Recorder, statement: RunningStatement, sql: &[u8]) {
        if self.start_alone(recorder, statement, sql) {
            return;
        }
        recorder.running.end_solitude();
        note_query_text(recorder, statement, sql);
        if sql.starts_with(b"--") {
            if recorder.running.is_latest(statement.id()) {
                // A trigger of the statement.
                return;
            }
            if self.filter.is_unsure() {
                return recorder.meet(Obstacle::Stray);
            }
        }
        let Some(schema) = self.host.schema() else {
            self.begin(recorder, Some(FallbackCause::Opening));
            recorder.running.start(statement.id());
            return;
        };
        let outermost = recorder.running.is_idle() && !self.may_meet_others(statement);
        let autocommit = self.db.is_autocommit();
        self.arrive(recorder, Arrival::of(outermost, autocommit));
        if !autocommit && recorder.running.restarts(statement.id()) {
            recorder.meet(Obstacle::Restarted);
        }
        recorder.running.start(statement.id());
        // SQLite skips the mark of a byte order.
        let Some(sql) = std::str::from_utf8(sql).ok().filter(|sql| !sql.contains('\u{feff}')) else {
            recorder.kind = StatementKind::Write;
            return recorder.meet(Obstacle::Unreadable);
        };
        let read_only = statement.is_read_only();
        if !read_only {
            self.filter.note_writer();
        }
        recorder.cache.use_schema(schema);
        recorder.kind = recorder.cache.last_kind(sql).unwrap_or_else(|| kind_of(sql, read_only));
        let writes = recorder.kind != StatementKind::Read || !read_only;
        let is_silent = outermost && !statement.has_columns() && writes;
        self.wait.set_silent(is_silent);
        if !is_silent {
            self.wait_for_owed();
        }
        if is_pragma(sql) && !autocommit {
            recorder.meet(Obstacle::Pragma);
        }
        if !read_only && outermost {
            // A transaction that has just begun has read nothing.
            let transaction = if autocommit { TransactionState::None } else { self.db.transaction() };
            if recorder.on(Event::Writes(transaction)) == Action::JoinWriterQueue {
                self.host.join_writer_queue();
            }
        }
        if recorder.on(Event::Runs(recorder.kind)) == Action::Record {
            self.record(recorder, statement, sql);
        }
    }

    /// A statement is about to run, in this relation to the open transaction.
    fn arrive(&self, recorder: &mut Recorder, arrival: Arrival) {
        match arrival {
            Arrival::Begins => {
                let cause = beginning(self.db.transaction(), self.barred.get().copied());
                self.begin(recorder, cause);
            }
            Arrival::Continues if recorder.state.is_recording() && was_touched(self.db, recorder) => {
                recorder.meet(Obstacle::Touched);
            }
            Arrival::Continues => {}
            Arrival::Interleaves => recorder.meet(Obstacle::Interleaved),
        }
    }

    /// A query of a transaction that has written nothing, known from the last time: nothing but its end is noted.
    fn start_alone(&self, recorder: &mut Recorder, statement: RunningStatement, sql: &[u8]) -> bool {
        let alone = recorder.query == sql
            && recorder.running.is_idle()
            && recorder.transaction.is_blank()
            && !self.wait.is_silent()
            && nothing_is_written(self.db, recorder)
            && statement.is_read_only();
        if alone {
            recorder.start_lone_query(statement.id());
            self.wait_for_owed();
        }
        alone
    }

    /// A transaction begins; a cause says why it is not recorded.
    pub(super) fn begin(&self, recorder: &mut Recorder, cause: Option<FallbackCause>) {
        if recorder.on(Event::Begins(cause)) == Action::Reset {
            self.filter.set_cost(false);
            recorder.transaction.reset(self.db.total_changes(), self.db.last_insert_rowid());
            self.disturbed.store(false, Ordering::Relaxed);
        }
    }

    /// A statement ends.
    pub(super) fn end(&self, recorder: &mut Recorder, statement: RunningStatement) {
        let alone = match recorder.running.end(statement.id()) {
            Ended::LoneQuery => return self.wait_for_owed(),
            Ended::Inner | Ended::Unknown => return,
            Ended::Last { alone } => alone,
        };
        // The next statement notices what others touch from here on.
        recorder.accesses = Some(self.db.page_accesses());
        let has_changed = recorder.transaction.has_changed(self.db.total_changes());
        // A statement that changed nothing may have told so by an error, of what it found.
        let unchanging = recorder.kind == StatementKind::Write && !has_changed;
        if unchanging && alone {
            // It may have failed for a reason that is not there when it is run again.
            recorder.transaction.drop_last();
        }
        recorder.running.note_unchanging(unchanging.then(|| statement.id()));
        let over = self.db.is_autocommit();
        if unchanging || over {
            self.wait_for_owed();
        }
        self.wait.set_silent(false);
        if recorder.on(Event::Ends { over }) == Action::LeaveWriterQueue {
            self.host.leave_writer_queue_unless_writing();
        }
    }

    /// The transaction commits: its statements, or the cause for which it is written as pages.
    pub(super) fn commit(&self, recorder: &mut Recorder, number: u64) -> Result<Captured, FallbackCause> {
        recorder.on(Event::Commits(Observed {
            activity: recorder.running.activity(),
            kind: recorder.kind,
            without_log: self.filter.is_without_log(),
            disturbed: self.disturbed.load(Ordering::Relaxed),
            blank: recorder.transaction.is_blank(),
            barred: self.barred.get().copied(),
        }));
        if recorder.state.is_recording() && self.host.schema() != Some(recorder.cache.schema()) {
            recorder.meet(Obstacle::SchemaChanged);
        }
        // Nobody else can write until this has committed.
        if recorder.state.is_recording() && may_number_otherwise(&self.host, recorder) {
            recorder.meet(Obstacle::RowNumbers);
        }
        if let Action::WritePages(cause) = recorder.on(Event::Logs) {
            if self.filter.take_cost() {
                self.host.shared().raise_reader_queries();
            }
            return Err(cause);
        }
        let (kind, rowid) = (recorder.kind, self.db.last_insert_rowid());
        Ok(recorder.transaction.take(number, kind, || self.db.total_changes(), rowid))
    }

    /// Waits until what was read and is about to be shown is durable. A failure latches the database, and the next read
    /// meets it there.
    pub(super) fn wait_for_owed(&self) {
        if let Some(commit) = self.wait.take() {
            self.host.wait_durable(commit);
        }
    }
}

/// True if no transaction of writes has begun, as far as statements tell. The next statement that writes notices others:
/// [`was_touched`].
fn nothing_is_written(db: Connection, recorder: &Recorder) -> bool {
    // Nothing was written when the last query started, and since then only queries have run.
    recorder.accesses.is_none() || db.is_autocommit() || db.transaction() != TransactionState::Writing
}

/// True if pages were touched since the last statement of the transaction has ended.
fn was_touched(db: Connection, recorder: &Recorder) -> bool {
    match recorder.accesses {
        Some(accesses) => db.page_accesses() != accesses,
        // Nothing was written when the last query started, and it wrote nothing.
        None => db.transaction() == TransactionState::Writing,
    }
}

/// True if new rows may get other numbers in a replay.
fn may_number_otherwise(host: &impl Host, recorder: &Recorder) -> bool {
    let rows = &recorder.transaction.rows;
    match rows.risk() {
        RowNumberRisk::None => false,
        RowNumberRisk::InFullTables => host.shared().has_large_rowid(host, &rows.tables),
        RowNumberRisk::Certain => true,
    }
}

/// Notes a text whose statements may run alone.
fn note_query_text(recorder: &mut Recorder, statement: RunningStatement, sql: &[u8]) {
    if statement.is_read_only() && recorder.query != sql && std::str::from_utf8(sql).is_ok_and(is_query) {
        recorder.query = sql.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fake::{Fake, FakeHost, Sql, calls, capture, sql, with};
    use FallbackCause::{
        Disturbed, Encoding, Interleaved, Opening, Pragma, Settings, Unavailable, Untracked,
    };

    const INSERT: &std::ffi::CStr = c"INSERT INTO t VALUES(1)";

    /// Begins an explicit transaction.
    fn begin(capture: &Capture<FakeHost>) {
        sql(100, c"BEGIN").run(capture);
        with(|fake| fake.autocommit = false);
    }

    #[test]
    fn a_fallback_is_counted_under_what_happened() {
        type Story = fn(&Capture<FakeHost>) -> Sql;
        // Each story ends before the statement that commits. A recordable statement meets a database without a reference
        // connection.
        let stories: [(&str, Story, FallbackCause); 9] = [
            ("a statement that commits itself", |_| sql(4, INSERT), Unavailable),
            (
                "another open statement",
                |capture| {
                    sql(8, c"SELECT a FROM t").start(capture);
                    sql(4, INSERT)
                },
                Interleaved,
            ),
            (
                "an open statement that was not told",
                |capture| {
                    capture.filter.restart(0);
                    with(|fake| fake.open = vec![8]);
                    sql(4, INSERT)
                },
                Interleaved,
            ),
            (
                "pages touched between statements",
                |capture| {
                    begin(capture);
                    with(|fake| fake.accesses += 1);
                    sql(4, INSERT)
                },
                Untracked,
            ),
            (
                "a PRAGMA inside",
                |capture| {
                    begin(capture);
                    sql(8, c"PRAGMA page_size").run(capture);
                    sql(4, INSERT)
                },
                Pragma,
            ),
            ("a text that is not UTF-8", |_| sql(4, c"INSERT INTO t VALUES('\xff')"), Encoding),
            ("the mark of a byte order", |_| sql(4, c"\u{feff}INSERT INTO t VALUES(1)"), Encoding),
            (
                "no log yet",
                |_| {
                    with(|fake| fake.schema = None);
                    sql(4, INSERT)
                },
                Opening,
            ),
            (
                "a barred connection",
                |capture| {
                    capture.bar(Settings);
                    sql(4, INSERT)
                },
                Settings,
            ),
        ];
        for (what, story, cause) in stories {
            with(|fake| *fake = Fake::default());
            let capture = capture();
            story(&capture).start(&capture);
            assert_eq!(capture.take(1).err(), Some(cause), "{what}");
        }
    }

    #[test]
    fn a_commit_of_which_nothing_was_told_is_untracked() {
        with(|fake| *fake = Fake::default());
        let capture = capture();
        assert_eq!(capture.take(1).err(), Some(Untracked));
        begin(&capture);
        sql(4, c"COMMIT").start(&capture);
        capture.disturb();
        assert_eq!(capture.take(2).err(), Some(Disturbed));
    }

    #[test]
    fn a_writer_joins_the_queue_once_and_leaves_when_its_statement_ends() {
        with(|fake| *fake = Fake::default());
        let capture = capture();
        let insert = sql(4, INSERT);
        insert.start(&capture);
        assert_eq!(calls(), ["join"]);
        insert.end(&capture);
        assert_eq!(calls(), ["leave"]);
        begin(&capture);
        assert_eq!(calls(), ["leave"], "a boundary does not join");
        with(|fake| fake.transaction = 1);
        insert.start(&capture);
        assert_eq!(calls(), [""; 0], "what it sees is fixed");
        insert.end(&capture);
        calls();
        with(|fake| (fake.transaction, fake.changes) = (2, 1));
        insert.start(&capture);
        with(|fake| fake.changes += 1);
        insert.end(&capture);
        assert_eq!(calls(), [""; 0], "the write lock is held");
    }

    #[test]
    fn a_silent_statement_waits_at_its_end_if_it_commits_nothing() {
        with(|fake| *fake = Fake::default());
        let capture = capture();
        let insert = sql(4, INSERT);
        insert.start(&capture);
        assert!(capture.defers_wait(7));
        assert_eq!(calls(), ["join"]);
        insert.end(&capture);
        assert_eq!(calls(), ["wait", "leave"]);
        sql(8, c"SELECT a FROM t").start(&capture);
        assert!(!capture.defers_wait(8), "a query shows what it reads");
    }
}
